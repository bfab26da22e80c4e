//! Storage calls that fail while the machine goes on: every call of every
//! script, once with each kind of error.

use sessionlog::Error;
use sessionlog::testing::disk_model::{Fault, Image, Repeat, SyncFault};

use crate::crash::check::{self, Verdict};
use crate::crash::enumerate::{Count, in_parallel, span};
use crate::crash::model::Loss;
use crate::crash::play::Play;
use crate::crash::script::{self, Script};

/// What a call is made to report, what a sync leaves that reports it, and
/// whether every later call reports it, too.
type Failure = (Fault, SyncFault, Repeat);

const FAILURES: [Failure; 15] = [
    (Fault::Eio, SyncFault::CleanPageStaleDisk, Repeat::Once),
    (Fault::Eio, SyncFault::ContentReverted, Repeat::Once),
    (Fault::Eio, SyncFault::ReportedFailedButLanded, Repeat::Once),
    (Fault::Enospc, SyncFault::CleanPageStaleDisk, Repeat::Once),
    (Fault::Short, SyncFault::CleanPageStaleDisk, Repeat::Once),
    (
        Fault::Interrupted,
        SyncFault::CleanPageStaleDisk,
        Repeat::Once,
    ),
    (Fault::Eio, SyncFault::CleanPageStaleDisk, Repeat::Forever),
    (
        Fault::Enospc,
        SyncFault::ReportedFailedButLanded,
        Repeat::Forever,
    ),
    (Fault::Short, SyncFault::CleanPageStaleDisk, Repeat::Forever),
    (
        Fault::WriteBack,
        SyncFault::CleanPageStaleDisk,
        Repeat::Once,
    ),
    (
        Fault::WriteBackTold,
        SyncFault::CleanPageStaleDisk,
        Repeat::Once,
    ),
    (
        Fault::WriteBackTold,
        SyncFault::CleanPageStaleDisk,
        Repeat::Forever,
    ),
    (Fault::Emfile, SyncFault::CleanPageStaleDisk, Repeat::Once),
    (
        Fault::Emfile,
        SyncFault::CleanPageStaleDisk,
        Repeat::Forever,
    ),
    (
        Fault::ShortOfSpace,
        SyncFault::CleanPageStaleDisk,
        Repeat::Once,
    ),
];

/// Lets every call of every script fail in every way. What fails for ever does so from every
/// `sparse`th call on. Of `every` pairs of a call and a failure one is tried; it has no divisor
/// in common with the number of failures, or some would never be.
pub(crate) fn errors(sparse: u64, every: u64) -> Count {
    let scripts = script::all();
    let mut work = Vec::new();
    for script in &scripts {
        let seed = 0;
        let (first, last) = span(script, seed);
        let pairs = (first..last).flat_map(|step| FAILURES.map(|failure| (step, failure)));
        let known = !script.goes_on_after_buffered();
        let chosen = |(step, (_, on_sync, repeat)): &(u64, Failure)| {
            (known || *on_sync != SyncFault::ContentReverted)
                && (*repeat == Repeat::Once || step.is_multiple_of(sparse))
        };
        let chosen = pairs.filter(chosen).step_by(every as usize);
        work.extend(chosen.map(|(step, failure)| (script, seed, step, failure)));
    }
    in_parallel(&work, |&(script, seed, step, fault)| {
        let mut count = Count::default();
        match judge(&mut failing(script, seed, step, fault), step, fault) {
            Ok(None) => {}
            Ok(Some(recoveries)) => {
                count.images += 1;
                count.recoveries += recoveries;
            }
            Err(wrong) => count.note(script.name, seed, step, &fault, &wrong),
        }
        count
    })
}

/// Plays what the environment asks for, as `append/0/17/3`: the script, the
/// order, the call, and which of the failures. `false` if it asks for nothing.
pub(crate) fn replay() -> bool {
    let Ok(asked) = std::env::var("SESSIONLOG_FAULT") else {
        return false;
    };
    let parts: Vec<_> = asked.split('/').collect();
    let [name, seed, step, fault] = parts[..] else {
        panic!("{asked}: not script/seed/step/fault");
    };
    let scripts = script::all();
    let script = scripts.iter().find(|s| s.name == name).expect("a script");
    let seed = seed.parse().expect("a seed");
    let step = step.parse().expect("a step");
    let fault = FAILURES[fault.parse::<usize>().expect("a fault")];
    let mut play = failing(script, seed, step, fault);
    let verdict = judge(&mut play, step, fault);
    for call in play.storage.last_calls(500) {
        println!("{call}");
    }
    for (key, act, answer) in play.answers() {
        println!("{key}: {act:?}: {answer:?}");
    }
    assert_eq!(verdict.err(), None, "{fault:?}");
    true
}

/// Plays a script in which one call fails, or every one from there on.
fn failing(script: &Script, seed: u64, step: u64, failure: Failure) -> Play<'_> {
    let (fault, on_sync, repeat) = failure;
    let mut play = Play::new(script, seed);
    play.storage.on_sync_failure(on_sync);
    play.storage.fail_at(step, fault, repeat);
    play.watched = fault == Fault::ShortOfSpace && script.foreign.is_empty();
    if play.open() {
        play.play();
    }
    play
}

/// `None` if the call there cannot fail in this way.
fn judge(
    play: &mut Play<'_>,
    step: u64,
    (fault, on_sync, repeat): Failure,
) -> Verdict<Option<u64>> {
    if play.storage.faults_hit() == 0 {
        return Ok(None);
    }
    if let Some(wrong) = play.faults.first() {
        return Err(wrong.clone());
    }
    if matches!(fault, Fault::Short | Fault::Interrupted)
        && let Some(wrong) = play.failures().first()
    {
        return Err(format!("a call done by half, or interrupted: {wrong}"));
    }
    if repeat == Repeat::Forever {
        check_failing(play, fault)?;
        play.storage.heal();
    }
    check_poison(play, fault)?;
    if on_sync != SyncFault::ContentReverted {
        play.check_shown()?;
    }
    recover(play, on_sync, step.is_multiple_of(2)).map(Some)
}

/// While calls fail a command is answered, and not as done where nothing can
/// be written.
fn check_failing(play: &mut Play<'_>, fault: Fault) -> Verdict<()> {
    match (play.probe(), fault) {
        (None | Some(Err(_)), _) | (Some(Ok(())), Fault::Short | Fault::Enospc | Fault::Emfile) => {
            Ok(())
        }
        (Some(Ok(())), _) => Err(format!(
            "acknowledged while every call fails with {fault:?}"
        )),
    }
}

/// A sync that failed may have taken anything with it, so nothing is
/// acknowledged after it. After any other error writing goes on, or the store
/// says why not. Where a descriptor was lacking it goes on in any case.
fn check_poison(play: &mut Play<'_>, fault: Fault) -> Verdict<()> {
    let failed = play.failed_sync(&["sync_dir", "sync_all", ".jsonl", ".meta.json"]);
    let Some(answer) = play.probe() else {
        return Ok(());
    };
    match (failed.filter(|_| !play.reopened), &answer) {
        (Some(call), Ok(())) => Err(format!("{call}, and writing goes on")),
        (_, Err(Error::Poisoned { reason })) if fault == Fault::Emfile => Err(format!(
            "without a descriptor nothing was written: {reason}"
        )),
        (_, Ok(()) | Err(Error::Poisoned { .. })) => Ok(()),
        (_, other) => Err(format!("writing goes on with {other:?}")),
    }
}

/// The store is closed or dies, and so does the machine or not.
fn recover(play: &mut Play<'_>, on_sync: SyncFault, close: bool) -> Verdict<u64> {
    if close {
        play.close();
    }
    play.die();
    play.storage.heal();
    let mut recoveries = 0;
    let images = [Image::AllLost, Image::AllKept, Image::ProcessDeath];
    for image in images {
        if image == Image::ProcessDeath && !play.may_go_on() {
            continue;
        }
        let left = play.storage.image(image);
        let loss = if on_sync == SyncFault::ContentReverted {
            // The page cache lost what it had only promised to write.
            Loss::Power
        } else {
            check::loss(image)
        };
        let recovered = check::after_crash(play, &left, loss);
        recoveries += recovered.map_err(|wrong| format!("{image:?}: {wrong}"))?;
    }
    Ok(recoveries)
}
