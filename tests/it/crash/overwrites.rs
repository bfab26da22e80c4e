//! How sidecars are written: in place where the journal holds an image of them, else
//! replaced.
//!
//! A sidecar of which the journal holds no image is written only if a flush comes to a
//! session that shows what is written and not synced. Few orders lead there: these tests
//! look for those in which a sidecar is replaced, crash these, and fail if there is none.
//! So they notice a sidecar written from what the journal has not synced, one overwritten
//! in place, and one renamed before its sync.
//!
//! That sessions in flight at a flush get a new image guards speed alone: without it
//! their sidecars would be replaced, which is as safe. The rung for that counts
//! replacements.

use crate::crash::enumerate::{Count, in_parallel};
use crate::crash::play::Play;
use crate::crash::script::{self, Script};

/// So many orders are looked through for those that a script is about.
const SEARCHED: u64 = 2_000;

/// Plays a script of durable changes beside flushes in many orders. Whoever
/// changes a sidecar durably has an image of it in the journal, also one that is
/// in flight when the flush begins: none is replaced, which costs many times as
/// much.
pub(crate) fn orders(orders: u64) -> Count {
    let script = script::durable_beside_flushes();
    let seeds: Vec<u64> = (0..orders).collect();
    in_parallel(&seeds, |&seed| {
        let mut count = Count::default();
        let play = played(&script, seed);
        let (end, replaced) = (play.storage.steps(), replaced(&play));
        for fault in play.faults.iter().chain(&play.failures()).chain(&replaced) {
            count.note(script.name, seed, end, &"play", fault);
        }
        count.images += calls(&play, "write_at").count() as u64;
        count
    })
}

/// The first orders, at most `most`, in which a sidecar is replaced: those in
/// which a flush comes to a session that shows what the journal has not synced.
/// Where there is none, none would be tried.
pub(crate) fn replacing(script: &Script, most: usize) -> Vec<u64> {
    let replaces = |seed: &u64| replaced(&played(script, *seed)).is_some();
    let found: Vec<_> = (1..SEARCHED).filter(replaces).take(most).collect();
    assert!(!found.is_empty(), "{}: no sidecar is replaced", script.name);
    found
}

fn played(script: &Script, seed: u64) -> Play<'_> {
    let mut play = Play::new(script, seed);
    play.open();
    play.play();
    play
}

/// A sidecar that is replaced by a file that was synced for it. One that grew is replaced,
/// too, and costs no sync.
fn replaced(play: &Play<'_>) -> Option<String> {
    let recent = play.storage.last_calls(512);
    let mut renames = calls(play, "rename");
    renames.find(|rename| {
        let temp = rename.split_once(": rename ").map(|(_, names)| names);
        let temp = temp.and_then(|names| names.split_once(" -> "));
        let sync = temp.map(|(temp, _)| format!(": sync_data {temp}"));
        let before = recent.iter().take_while(|call| *call != rename);
        sync.is_some_and(|sync| before.into_iter().any(|call| call.ends_with(&sync)))
    })
}

/// The calls to sidecars.
fn calls(play: &Play<'_>, name: &'static str) -> impl Iterator<Item = String> {
    let calls = play.storage.last_calls(512).into_iter();
    calls.filter(move |call| call.contains(name) && call.contains(".meta.json"))
}
