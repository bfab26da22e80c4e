//! Storage calls that fail while the machine goes on: every call of every
//! script, once with each kind of error.

use sessionlog::Error;
use sessionlog::storage::memory::{Fault, Image, Repeat, SyncFault};

use crate::check::{self, Verdict};
use crate::enumerate::{Count, in_parallel, span};
use crate::model::Loss;
use crate::play::Play;
use crate::script::{self, Script};

/// What a call is made to report, and what a sync leaves that reports it.
const FAULTS: [(Fault, SyncFault); 6] = [
    (Fault::Eio, SyncFault::CleanPageStaleDisk),
    (Fault::Eio, SyncFault::ContentReverted),
    (Fault::Eio, SyncFault::ReportedFailedButLanded),
    (Fault::Enospc, SyncFault::CleanPageStaleDisk),
    (Fault::Short, SyncFault::CleanPageStaleDisk),
    (Fault::Interrupted, SyncFault::CleanPageStaleDisk),
];

/// Lets every call of every script fail once, in every way.
pub(crate) fn errors() -> Count {
    let scripts = script::all();
    let mut work = Vec::new();
    for script in &scripts {
        let (first, last) = span(script, 0);
        let steps = first..last;
        work.extend(steps.flat_map(|step| FAULTS.map(|fault| (script, step, fault))));
    }
    in_parallel(&work, |&(script, step, fault)| {
        let mut count = Count::default();
        match judge(&mut failing(script, step, fault), step, fault) {
            Ok(None) => {}
            Ok(Some(recoveries)) => {
                count.images += 1;
                count.recoveries += recoveries;
            }
            Err(wrong) => count.note(script.name, 0, step, &fault, &wrong),
        }
        count
    })
}

/// Plays what the environment asks for, as `append/17/3`: the script, the
/// call, and which of the faults. `false` if it asks for nothing.
pub(crate) fn replay() -> bool {
    let Ok(asked) = std::env::var("SESSIONLOG_FAULT") else {
        return false;
    };
    let parts: Vec<_> = asked.split('/').collect();
    let [name, step, fault] = parts[..] else {
        panic!("{asked}: not script/step/fault");
    };
    let scripts = script::all();
    let script = scripts.iter().find(|s| s.name == name).expect("a script");
    let step = step.parse().expect("a step");
    let fault = FAULTS[fault.parse::<usize>().expect("a fault")];
    let mut play = failing(script, step, fault);
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

/// Plays a script in which one call fails.
fn failing(script: &Script, step: u64, (fault, on_sync): (Fault, SyncFault)) -> Play<'_> {
    let mut play = Play::new(script, 0);
    play.storage.on_sync_failure(on_sync);
    play.storage.fail_at(step, fault, Repeat::Once);
    if play.open() {
        play.play();
    }
    play
}

/// `None` if the call there cannot fail in this way.
fn judge(
    play: &mut Play<'_>,
    step: u64,
    (fault, on_sync): (Fault, SyncFault),
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
    check_poison(play)?;
    recover(play, on_sync, step.is_multiple_of(2)).map(Some)
}

/// A sync that failed may have taken anything with it, so nothing is
/// acknowledged after it. After any other error writing goes on, or the store
/// says why not.
fn check_poison(play: &mut Play<'_>) -> Verdict<()> {
    let failed = play.failed_sync(&["sync_dir", "sync_all", ".jsonl", ".meta.json"]);
    let Some(answer) = play.probe() else {
        return Ok(());
    };
    match (failed.filter(|_| !play.reopened), &answer) {
        (Some(call), Ok(())) => Err(format!("{call}, and writing goes on")),
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
