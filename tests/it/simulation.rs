//! The whole engine, stepped by one thread in an order that a seed decides, on
//! a disk that loses what was not synced and fails as disks fail.
//!
//! Each seed is a gateway of its own: several clients use many sessions over
//! several lives of the store. Lives end by closing, by the death of the
//! process, or by a power cut before a random call, with a random disk left;
//! calls fail, disks fill up and have room again; recoveries are cut off, too.
//! What was acknowledged must be there, in order; what was not, wholly or not
//! at all; what was truncated, replaced or deleted never again.
//!
//! * `SESSIONLOG_SEED=17 cargo test --test it simulation::` plays one seed alone and
//!   tells what happened.
//! * `SESSIONLOG_LONG=1` plays three times as many seeds.

mod clients;
mod draw;
mod life;
mod look;
mod session;
mod tally;
mod trouble;
mod world;

use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::support::is_long;
use tally::Tally;
use world::World;

/// Seeds where nobody asks for more.
const SEEDS: u64 = 800;

/// After so many violations nothing more is tried.
const TOLD: u64 = 12;

#[test]
fn no_seed_loses_revives_or_splits_anything() {
    if let Some(seed) = asked_for() {
        return replay(seed);
    }
    let seeds = if is_long() { SEEDS * 3 } else { SEEDS };
    let (tally, violations) = play_all(seeds);
    tell(&format!("{tally}; {} violations", violations.len()));
    assert!(violations.is_empty(), "\n{}", violations.join("\n"));
    assert!(tally.seeds >= SEEDS, "{tally}");
    assert_eq!(tally.shards(), 64, "{tally}");
    for (what, count) in [
        ("compactions", tally.compactions),
        ("flushes", tally.flushes),
        ("reads", tally.reads),
        ("reads after a failure", tally.reads_disturbed),
        ("aliases", tally.by_alias),
        ("closes", tally.closes),
        ("deaths", tally.deaths),
        ("power losses", tally.power_losses),
        ("failed calls", tally.hits),
        ("healed disks", tally.healed),
        ("disturbed recoveries", tally.recoveries_disturbed),
    ] {
        assert!(count >= 40, "too few {what} to mean anything: {count}");
    }
}

/// Else the seed of a failure would be worth nothing.
#[test]
fn a_seed_plays_the_same_run_every_time() {
    for seed in 0..40 {
        let [(once, first), (again, second)] = [(); 2].map(|()| play(seed, false));
        assert_eq!(first.err(), second.err(), "seed {seed}");
        assert_eq!(once.tally, again.tally, "seed {seed}");
    }
}

fn asked_for() -> Option<u64> {
    let seed = std::env::var("SESSIONLOG_SEED").ok()?;
    Some(seed.parse().expect("a seed is a number"))
}

fn replay(seed: u64) {
    let (world, verdict) = play(seed, true);
    for line in world.diary() {
        println!("{line}");
    }
    for call in world.storage.last_calls(200) {
        println!("  {call}");
    }
    for (key, session) in &world.sessions {
        for command in &session.commands {
            println!("{key}: {:?}: {:?}", command.act, command.answer);
        }
    }
    println!("{}", world.tally);
    assert_eq!(verdict.err(), None, "seed {seed}");
}

fn play(seed: u64, told: bool) -> (World, world::Verdict) {
    let mut world = World::new(seed, told);
    let run = catch_unwind(AssertUnwindSafe(|| life::run(&mut world)));
    let verdict = run.unwrap_or_else(|_| Err("a panic".to_owned()));
    (world, verdict)
}

/// Plays every seed, on all processors.
fn play_all(seeds: u64) -> (Tally, Vec<String>) {
    let (next, wrong) = (AtomicU64::new(0), AtomicU64::new(0));
    let carry = || {
        let mut tally = Tally::default();
        let mut violations = Vec::new();
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= seeds || wrong.load(Ordering::Relaxed) >= TOLD {
                return (tally, violations);
            }
            let (world, verdict) = play(seed, false);
            tally += world.tally;
            if let Err(fault) = verdict {
                wrong.fetch_add(1, Ordering::Relaxed);
                let fault = fault.replace('·', "");
                violations.push(format!(
                    "SESSIONLOG_SEED={seed} cargo test --test it simulation::\n  {fault}"
                ));
            }
        }
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let mut total = (Tally::default(), Vec::new());
    std::thread::scope(|scope| {
        let crew: Vec<_> = (0..threads).map(|_| scope.spawn(carry)).collect();
        for each in crew {
            let (tally, violations) = each.join().expect("panics were caught");
            total.0 += tally;
            total.1.extend(violations);
        }
    });
    total
}

/// Tells how much was tried, past the test harness: it shows the output of a
/// passing test to nobody, and a pass that tried little means little.
fn tell(what: &str) {
    let mut out = std::io::stdout().lock();
    writeln!(out, "\n{what}").expect("standard output is open");
}
