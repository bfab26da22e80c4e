//! The course of a run: the store is opened, used, ends in one way or another,
//! and is opened again.

use sessionlog::testing::disk_model::Image;
use sessionlog::testing::sim::Sim;

use crate::crash::model::Loss;
use crate::simulation::world::{Verdict, World};

/// Attempts of an opening that something may be done to; the next one is left
/// in peace.
const DISTURBED_OPENINGS: usize = 3;

/// Commands that may be refused after a full disk has room again, or descriptors
/// are back.
const TRIES: usize = 3;

/// Runs `world` from its first opening to its last.
pub(crate) fn run(world: &mut World) -> Verdict {
    open(world, Loss::Process)?;
    for _ in 0..2 + world.draw.below(3) {
        live(world)?;
        let loss = end(world)?;
        open(world, loss)?;
    }
    world.tally.seeds = 1;
    Ok(())
}

/// Clients use the store, and something may go wrong meanwhile.
fn live(world: &mut World) -> Verdict {
    let moves = 10 + world.draw.below(70);
    let strikes = world.draw.below(moves);
    let what = world.draw.below(10);
    for nth in 0..moves {
        if nth == strikes {
            strike(world, what);
        }
        world.go_on()?;
        if world.trouble.is_off(&world.storage) {
            break;
        }
        if nth > strikes && world.draw.one_in(12) {
            heal(world)?;
        }
    }
    Ok(())
}

fn strike(world: &mut World, what: usize) {
    match what {
        0..=2 => {
            let (storage, draw) = (&world.storage, &mut world.draw);
            world.trouble.plan(storage, draw, &mut world.tally);
        }
        3 => {
            let room = world.draw.next() % 3000;
            world.trouble.fill(&world.storage, room);
            world.tally.filled += 1;
            world.tell(|_| format!("room for {room} bytes"));
        }
        4..=6 => world.trouble.cut_power(&world.storage, &mut world.draw),
        _ => {}
    }
}

/// The disk works again, or has room: a store that only lacked room or descriptors
/// goes on.
fn heal(world: &mut World) -> Verdict {
    let was_short = world.trouble.is_short();
    world.trouble.heal(&world.storage);
    if was_short && world.trouble.was_short_only() {
        world.tell(|_| "room and descriptors again".to_owned());
        if !world.heals(TRIES) {
            let refusal = world.last_refusal();
            return Err(format!(
                "nothing lacks any more, and writes fail: {refusal:?}"
            ));
        }
        world.tally.healed += 1;
    }
    Ok(())
}

/// The store ends; what a crash then takes with it.
fn end(world: &mut World) -> Verdict<Loss> {
    if world.trouble.is_off(&world.storage) || world.draw.one_in(2) {
        world.settle()?;
    }
    world.trouble.heal(&world.storage);
    count(world);
    let loss = match world.draw.below(4) {
        _ if world.trouble.is_off(&world.storage) => power_loss(world),
        0 => close(world)?,
        1 if world.trouble.may_go_on(&world.storage) => {
            world.tally.deaths += 1;
            world.crash(Image::ProcessDeath);
            world.trouble.loss_by_death()
        }
        _ => power_loss(world),
    };
    Ok(loss)
}

/// Closes the store, and then cuts the power: nothing may be owed to the disk.
fn close(world: &mut World) -> Verdict<Loss> {
    world.tell(|_| "close".to_owned());
    let disturbed = world.is_disturbed();
    let closed = world.close();
    world.settle()?;
    world.tally.closes += 1;
    match closed {
        Some(Err(error)) if !disturbed => return Err(format!("closing failed: {error}")),
        Some(Ok(())) if !disturbed => only_sessions_are_left(world)?,
        _ => {}
    }
    Ok(power_loss(world))
}

fn only_sessions_are_left(world: &World) -> Verdict {
    let mut files = world.storage.dump();
    files.retain(|path, _| {
        let own = path.strip_prefix("sessions/.sessionlog/");
        let kept = ["identity", "lock", "catalog"];
        let backup =
            own.is_some_and(|name| name.starts_with("backups/") && !name.contains(".sessionlog-"));
        let suffixes = [".jsonl", ".meta.json"];
        let session = suffixes.iter().any(|suffix| path.ends_with(suffix));
        !own.is_some_and(|name| kept.contains(&name)) && !session && !backup
    });
    if files.is_empty() {
        return Ok(());
    }
    let left: Vec<_> = files.keys().collect();
    Err(format!("a closed store leaves {left:?} behind"))
}

fn power_loss(world: &mut World) -> Loss {
    let image = if world.draw.one_in(2) {
        world.draw.pick(&Image::NAMED[1..])
    } else {
        Image::Random(world.draw.next())
    };
    world.tally.power_losses += 1;
    world.crash(image);
    Loss::Power
}

fn count(world: &mut World) {
    world.count_answers();
    if let Some(sim) = &world.sim {
        let stats = sim.handle().stats();
        world.tally.compactions += stats.compactions;
        world.tally.flushes += stats.flushes;
    }
    world.tally.hits += world.storage.faults_hit();
    world.tally.steps += world.storage.steps();
}

/// Opens the store, if need be again and again, and looks what it holds.
fn open(world: &mut World, mut loss: Loss) -> Verdict {
    for attempt in 0.. {
        let beside = world.look_beside()?;
        let peace = attempt >= DISTURBED_OPENINGS || !disturb(world);
        match world.try_open() {
            Ok(sim) if !world.trouble.met_here(&world.storage) => {
                world.trouble.heal(&world.storage);
                return accept(world, sim, loss, beside.as_ref());
            }
            Err(error) if peace => return Err(format!("opening failed: {error}")),
            Err(error) if !world.trouble.met_here(&world.storage) => {
                return Err(format!("opening failed, and no call did: {error}"));
            }
            _ => {}
        }
        world.tally.recoveries_disturbed += 1;
        world.trouble.heal(&world.storage);
        if world.trouble.may_go_on(&world.storage) {
            world.crash(Image::ProcessDeath);
            if world.trouble.loss_by_death() == Loss::Power {
                loss = Loss::Power;
            }
        } else {
            loss = power_loss(world);
        }
    }
    Ok(())
}

/// Plans something for the opening; `false` if it is to be left in peace.
fn disturb(world: &mut World) -> bool {
    match world.draw.below(6) {
        0..=1 => world.trouble.cut_power(&world.storage, &mut world.draw),
        2 => {
            let (storage, draw) = (&world.storage, &mut world.draw);
            world.trouble.plan(storage, draw, &mut world.tally);
        }
        _ => return false,
    }
    true
}

/// Checks a store that was opened, and goes on with it.
fn accept(
    world: &mut World,
    mut sim: Sim,
    loss: Loss,
    beside: Option<&crate::simulation::world::Seen>,
) -> Verdict {
    let findings = &sim.report().findings;
    if !findings.is_empty() {
        return Err(format!("recovery took a crash for damage: {findings:?}"));
    }
    let found = world.look(&mut sim)?;
    let known = world.check(&found, loss)?;
    if beside.is_some_and(|beside| *beside != found) {
        return Err(format!(
            "a read-only look before recovery showed {beside:?}, recovery made {found:?}"
        ));
    }
    if world.draw.one_in(3) {
        // What recovery serves is on disk.
        drop(sim);
        world.crash(Image::AllLost);
        sim = world
            .try_open()
            .map_err(|e| format!("opening again failed: {e}"))?;
        let again = world.look(&mut sim)?;
        if again != found {
            return Err(format!("recovered as {found:?}, and again as {again:?}"));
        }
    }
    world.trouble.forget(&world.storage);
    world.tally.lives += 1;
    world.restart(sim, known);
    Ok(())
}
