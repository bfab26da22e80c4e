//! Crashes of the recovery itself.

use sessionlog::testing::disk_model::{Image, MemoryStorage};
use sessionlog::testing::sim::Sim;

use crate::crash::check::{self, Verdict};
use crate::crash::enumerate::{Count, crashed, in_parallel, span};
use crate::crash::model::Loss;
use crate::crash::play::{Play, copy};
use crate::crash::script;

/// What the first crash leaves, and what the second: by turns.
const FIRST: [Image; 5] = [
    Image::ProcessDeath,
    Image::SizeWithoutData,
    Image::AllKept,
    Image::AllLost,
    Image::Reversed,
];
const SECOND: [Image; 4] = [
    Image::AllLost,
    Image::ProcessDeath,
    Image::SizeWithoutData,
    Image::DataWithoutName,
];

/// Crashes every script at every `sample`th call, and the recovery from that at every
/// `every`th of its own.
pub(crate) fn crashes(sample: usize, every: usize) -> Count {
    let scripts = script::all();
    let mut work = Vec::new();
    for (nth, script) in scripts.iter().enumerate() {
        let (first, last) = span(script, 0);
        // Not the same calls of every script: many begin alike.
        let steps = (first..last).skip(nth % sample).step_by(sample);
        work.extend(steps.map(|step| (script, step)));
    }
    in_parallel(&work, |&(script, step)| {
        let mut count = Count::default();
        let play = crashed(script, 0, step);
        let turn = step as usize / sample;
        for image in [FIRST[turn % FIRST.len()], Image::Random(step)] {
            crash_recovery(&play, step, image, every, &mut count);
        }
        count
    })
}

fn crash_recovery(play: &Play<'_>, step: u64, image: Image, every: usize, count: &mut Count) {
    let found = play.storage.image(image);
    for call in (step % every as u64..).step_by(every) {
        let left = copy(&found);
        left.crash_at(call);
        drop(Sim::open(left.clone(), &play.script().options, 0));
        if left.steps() <= call {
            return;
        }
        let turn = call as usize / every;
        for second in [SECOND[turn % SECOND.len()], Image::Random(call)] {
            count.images += 1;
            match look(play, &found, &left.image(second), image, second) {
                Ok(recoveries) => count.recoveries += recoveries,
                Err(wrong) => {
                    let crash = (image, call, second);
                    count.note(play.script().name, 0, step, &crash, &wrong);
                }
            }
        }
    }
}

/// A recovery that did not end leaves what it found, as far as the oracle goes;
/// where nothing was owed to the disk, it leaves the very same.
fn look(
    play: &Play<'_>,
    found: &MemoryStorage,
    left: &MemoryStorage,
    first: Image,
    second: Image,
) -> Verdict<u64> {
    let loss = match (check::loss(first), check::loss(second)) {
        (Loss::Process, Loss::Process) => Loss::Process,
        _ => Loss::Power,
    };
    if check::loss(first) == Loss::Power {
        let keys: Vec<_> = play.keys().collect();
        let (before, after) = (
            check::read_beside(found, &keys)?,
            check::read_beside(left, &keys)?,
        );
        if before != after {
            return Err(format!("recovery was to find {before:?}, left {after:?}"));
        }
    }
    check::after_crash(play, left, loss)
}
