//! Crashes after which somebody deletes or damages every sidecar: what the
//! journal does not hold of them, their copies must.

use sessionlog::testing::disk_model::{Image, MemoryStorage};
use sessionlog::testing::sim::Sim;

use crate::crash::check::{self, Seen, Verdict};
use crate::crash::enumerate::{Count, crashed, in_parallel, span};
use crate::crash::play::{Play, copy};
use crate::crash::script;

/// What befalls the sidecars: by turns.
const FATES: [Option<&[u8]>; 3] = [None, Some(b"{\"key\": \"a\", \"sk"), Some(b"\0\0\0\0")];

/// Crashes every script at every `sample`th call. Not those with files of
/// another program: nobody copied their sidecars.
pub(crate) fn crashes(sample: usize) -> Count {
    let scripts = script::all();
    let mut work = Vec::new();
    for (nth, script) in scripts.iter().enumerate() {
        if script.foreign.is_empty() {
            let (first, last) = span(script, 0);
            let steps = (first..last).skip(nth % sample).step_by(sample);
            work.extend(steps.map(|step| (script, step)));
        }
    }
    in_parallel(&work, |&(script, step)| {
        let mut count = Count::default();
        let play = crashed(script, 0, step);
        let fate = FATES[step as usize / sample % FATES.len()];
        for image in [Image::ProcessDeath, Image::AllLost, Image::Random(step)] {
            count.images += 1;
            match lose(&play, &play.storage.image(image), fate) {
                Ok(recoveries) => count.recoveries += recoveries,
                Err(wrong) => count.note(script.name, 0, step, &(image, fate), &wrong),
            }
        }
        count
    })
}

/// Takes the sidecars away right after the crash, and again once the store was
/// opened and closed: each time it must show what it shows with them.
fn lose(play: &Play<'_>, left: &MemoryStorage, fate: Option<&[u8]>) -> Verdict<u64> {
    let options = &play.script().options;
    let keys: Vec<_> = play.keys().collect();
    let shown = check::read_beside(left, &keys)?;
    let whole = copy(left);
    check::recover(&whole, options)?;
    // Without a session file a sidecar is all there is of a session.
    let with_file = |key: &str| {
        let files = whole.dump();
        let stem = check::stem_of(&files, key).ok()?;
        files
            .contains_key(&format!("sessions/{stem}.jsonl"))
            .then_some(())
    };
    let mut kept = shown;
    kept.retain(|key, _| with_file(key).is_some());

    let bare = copy(left);
    spoil(&bare, fate);
    for moment in ["after the crash", "after recovery"] {
        let look = |seen: Seen, how: &str| {
            let lost = kept
                .iter()
                .find(|(key, state)| seen.get(*key) != Some(state));
            match lost {
                None => Ok(()),
                Some((key, state)) => Err(format!(
                    "sidecars lost {moment}, {how}: {key} is {:?}, not {state:?}",
                    seen.get(key)
                )),
            }
        };
        look(check::read_beside(&bare, &keys)?, "read-only")?;
        let wrap = |e: sessionlog::Error| format!("sidecars lost {moment}: {e}");
        let mut sim = Sim::open(bare.clone(), options, 0).map_err(wrap)?;
        look(check::read_all(&mut sim, &keys)?, "opened")?;
        sim.close().map_err(wrap)?;
        spoil(&bare, fate);
    }
    Ok(3)
}

fn spoil(storage: &MemoryStorage, fate: Option<&[u8]>) {
    let names = storage.dump().into_keys();
    for name in names.filter(|name| name.ends_with(".meta.json")) {
        if name.contains(".sessionlog/") {
            continue;
        }
        let path = format!("/{name}");
        match fate {
            None => storage.remove_foreign(path),
            Some(bytes) => storage.write_foreign(path, bytes),
        }
        .expect("the disk works");
    }
}
