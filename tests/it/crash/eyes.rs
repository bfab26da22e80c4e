//! What other programs see: between any two calls they may read a session's two
//! files, and must find a state the session had, or one with more lines visible for
//! a moment; never fewer, and never one that was gone before.

use std::collections::BTreeMap;

use serde_json::Value;
use sessionlog::testing::disk_model::{Image, MemoryStorage};
use sessionlog::testing::sim::Sim;

use crate::crash::check;
use crate::crash::enumerate::{Count, crashed, in_parallel, span};
use crate::crash::play::{Play, copy};
use crate::crash::script;

/// Reads the files as they are before every call of every script, in two orders of the engine's
/// parts, and beside the recovery from one of `sample` of these moments.
pub(crate) fn looks(sample: u64) -> Count {
    let scripts = script::all();
    let own = scripts.iter().filter(|script| script.foreign.is_empty());
    let work: Vec<_> = own
        .flat_map(|script| (0..2).map(move |seed| (script, seed)))
        .collect();
    in_parallel(&work, |&(script, seed)| {
        let mut count = Count::default();
        let (first, last) = span(script, seed);
        let whole = crashed(script, seed, last);
        let mut seen = BTreeMap::new();
        for step in first..last {
            let play = crashed(script, seed, step);
            let found = play.storage.image(Image::ProcessDeath);
            count.images += 1;
            let mut looked = look(&whole, &found, &mut seen);
            if looked.is_ok() && step.is_multiple_of(sample) {
                looked = look_beside_recovery(&whole, &found, seen.clone(), &mut count);
            }
            if let Err(wrong) = looked {
                count.note(script.name, seed, step, &Image::ProcessDeath, &wrong);
            }
        }
        count
    })
}

/// How far each session was seen to be.
type Far = BTreeMap<&'static str, usize>;

fn look_beside_recovery(
    whole: &Play<'_>,
    found: &MemoryStorage,
    mut seen: Far,
    count: &mut Count,
) -> check::Verdict<()> {
    for call in 0.. {
        let left = copy(found);
        left.crash_at(call);
        drop(Sim::open(left.clone(), &whole.script().options, 0));
        if left.steps() <= call {
            break;
        }
        count.images += 1;
        let looked = look(whole, &left.image(Image::ProcessDeath), &mut seen);
        looked.map_err(|wrong| format!("before call {call} of the recovery {wrong}"))?;
    }
    Ok(())
}

/// Looks at every session.
fn look(whole: &Play<'_>, storage: &MemoryStorage, seen: &mut Far) -> check::Verdict<()> {
    let files = storage.dump();
    for key in whole.keys() {
        let mut others = whole.keys().filter(|other| *other != key);
        let is_alone = !others.any(|other| plain_stem(other) == plain_stem(key));
        let Some(shown) = shown(&files, key, is_alone)? else {
            continue;
        };
        let states = whole.states(key);
        let from = seen.get(key).copied().unwrap_or(0);
        let mut after = from..states.len();
        let exact = after.clone().find(|&nth| states[nth] == shown);
        let more = |nth: &usize| !states[*nth].is_empty() && shown.ends_with(&states[*nth]);
        let Some(nth) = exact.or_else(|| after.find(more)) else {
            let possible = &states[from..];
            return Err(format!(
                "{key} reads as {shown:?}, not as any of {possible:?}"
            ));
        };
        seen.insert(key, nth);
    }
    Ok(())
}

/// The file name that PicoClaw gives a key.
fn plain_stem(key: &str) -> String {
    key.replace([':', '/'], "_")
}

/// What a session's two files say to somebody who knows PicoClaw's format only. Nothing if no
/// sidecar names the key yet, and its file name is not its alone.
fn shown(
    files: &BTreeMap<String, Vec<u8>>,
    key: &str,
    is_alone: bool,
) -> check::Verdict<Option<Vec<String>>> {
    // A sidecar that is being made is empty for a moment.
    let mut written = files.clone();
    written.retain(|path, bytes| !path.ends_with(".meta.json") || !bytes.is_empty());
    let stem = match check::stem_of(&written, key) {
        Ok(stem) => stem,
        Err(_) if is_alone => plain_stem(key),
        Err(_) => return Ok(None),
    };
    let bytes = |end: &str| written.get(&format!("sessions/{stem}{end}"));
    let sidecar = bytes(".meta.json").map(|bytes| serde_json::from_slice::<Value>(bytes));
    let sidecar = sidecar.transpose().map_err(|e| format!("{key}: {e}"))?;
    let skip = sidecar.and_then(|sidecar| sidecar["skip"].as_u64());
    let log = bytes(".jsonl").map_or(&[][..], Vec::as_slice);
    let lines = check::lines_of(log).map_err(|e| format!("{key}: {e}"))?;
    let skip = usize::try_from(skip.unwrap_or(0)).unwrap_or(usize::MAX);
    Ok(Some(check::messages(&lines[skip.min(lines.len())..])))
}
