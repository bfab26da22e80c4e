//! What a damaged store may and may not do.

use std::path::Path;
use std::sync::Arc;

use sessionlog::testing::disk_model::{Image, MemoryStorage};
use sessionlog::testing::sim::{DIR, Sim};
use sessionlog::testing::storage::Storage;
use sessionlog::testing::{repair_store, verify_store};
use sessionlog::{Error, RepairOptions, RepairReport, StoreOptions, VerifyReport};

use crate::damage::Damage;
use crate::image::{Seen, Store, look};

pub(crate) type Verdict = Result<(), String>;

/// Opens, verifies, repairs and reads a damaged store.
pub(crate) fn judge(store: &Store, damage: &Damage) -> Verdict {
    let hurt = damage.inflict(&store.disk);
    let before = hurt.dump();
    let found = verify(&hurt)?;
    let shown = typed(look(&hurt), "read-only open")?;
    if hurt.dump() != before {
        return Err("looking changed the files".into());
    }
    let open = MemoryStorage::image(&hurt, Image::ProcessDeath);
    let opened = typed(open_and_die(&open), "open")?;
    if opened.is_some() != shown.is_some() {
        return Err(format!("opening gave {opened:?}, reading {shown:?}"));
    }
    let in_journal = damage.path.contains("/journal/") || damage.path.ends_with("identity");
    if opened.is_none() && !in_journal {
        return Err(format!("one session's damage closes the store:\n{found}"));
    }
    if opened.is_none() == found.journal.damage.is_none() {
        return Err(format!("opening gave {opened:?}, verify:\n{found}"));
    }
    if let Some(shown) = &shown {
        check_shown(store, damage, shown, &found)?;
        let after = look(&open);
        if after.as_ref().ok() != Some(shown) {
            return Err(format!("recovery changed {shown:?} to {after:?}"));
        }
    }
    check_repair(store, damage, &hurt, shown.as_ref())
}

/// An error must be one that a caller can act on.
fn typed<T>(result: sessionlog::Result<T>, what: &str) -> Result<Option<T>, String> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(Error::Corrupt { .. }) => Ok(None),
        Err(other) => Err(format!("{what}: {other:?}")),
    }
}

fn open_and_die(disk: &MemoryStorage) -> sessionlog::Result<()> {
    let options = StoreOptions::new().journal_segments(8 << 10, 8 << 10);
    Sim::open(disk.clone(), &options, 0).map(drop)
}

pub(crate) fn verify(disk: &MemoryStorage) -> Result<VerifyReport, String> {
    let storage: Arc<dyn Storage> = Arc::new(disk.clone());
    verify_store(&storage, Path::new(DIR)).map_err(|e| format!("verify: {e}"))
}

pub(crate) fn repair(disk: &MemoryStorage, allow: bool) -> Result<RepairReport, String> {
    let options = RepairOptions::new().allow_data_loss(allow);
    let storage: Arc<dyn Storage> = Arc::new(disk.clone());
    repair_store(&storage, Path::new(DIR), options).map_err(|e| format!("repair: {e}"))
}

/// A store that opens shows everything, or says what is missing, or what is
/// missing was the last thing written.
fn check_shown(store: &Store, damage: &Damage, shown: &Seen, found: &VerifyReport) -> Verdict {
    if shown == store.last() {
        return Ok(());
    }
    if !damage.path.contains("/journal/") {
        return check_files(store, damage, shown, found);
    }
    let first = first_damaged(store, damage).unwrap_or(store.commands.len());
    let commands = &store.commands;
    // Of the newest segment that holds something, gone as a whole, nothing tells, and
    // what of it reached the session files stays there: the older records are carried
    // out on top of that. (An empty one after it may be left by a close, too.)
    if damage.how == "removed" && is_newest_segment(store, damage) {
        return Ok(());
    }
    if !(first.saturating_sub(1)..commands.len()).any(|nth| commands[nth].seen == *shown) {
        return Err(format!("{shown:?} is no state from command {first} on"));
    }
    let lost_to = (0..commands.len())
        .rev()
        .find(|nth| commands[*nth].seen == *shown);
    let behind = (lost_to.unwrap_or(0) + 1..commands.len())
        .any(|nth| nth > first && !damaged(store, damage, nth));
    if behind && !damage.how.contains("stale") {
        return Err(format!(
            "command {first} is lost silently, and a later one is whole:\n{found}"
        ));
    }
    Ok(())
}

fn is_newest_segment(store: &Store, damage: &Damage) -> bool {
    let extents = store.commands.iter().flat_map(|command| &command.extents);
    extents.map(|(path, _)| path).max() == Some(&damage.path)
}

fn first_damaged(store: &Store, damage: &Damage) -> Option<usize> {
    (0..store.commands.len()).find(|nth| damaged(store, damage, *nth))
}

fn damaged(store: &Store, damage: &Damage, nth: usize) -> bool {
    let range = &damage.range;
    let hit = |(path, extent): &(String, std::ops::Range<usize>)| {
        *path == damage.path && extent.start < range.end && range.start < extent.end
    };
    store.commands[nth].extents.iter().any(hit)
}

/// Damage in a session's own files reaches no other session, and what is not
/// readable any more is said. Bytes that still make a record are not told from
/// the right ones: session files and sidecars have no checksum.
fn check_files(store: &Store, damage: &Damage, shown: &Seen, found: &VerifyReport) -> Verdict {
    check_others(store, &[&damage.path], shown)?;
    let lost = |key: &&str| shown[*key].0.len() < store.last()[*key].0.len();
    let lost: Vec<_> = shown.keys().copied().filter(lost).collect();
    // A skip that grew within the lines, or a key or a role that is another
    // valid one, hides lines that verify counts.
    let counted: u64 = found.sessions.iter().map(|session| session.lines).sum();
    let there: usize = store.last().values().map(|(texts, _)| texts.len()).sum();
    if !lost.is_empty() && found.is_sound() && counted < there as u64 {
        return Err(format!("lines of {lost:?} are gone, and nothing is said"));
    }
    Ok(())
}

/// Whether a file has the name of one that is to replace another.
pub(crate) fn is_hidden(path: &str) -> bool {
    path.strip_suffix(".tmp").is_some()
}

/// Whose files none of `paths` is, shows what it did. A hidden file does not say
/// whose it is: it may be one session's.
pub(crate) fn check_others(store: &Store, paths: &[&str], shown: &Seen) -> Verdict {
    let own = |key: &str, path: &str| path.contains(&format!("/{}.", key.replace(':', "_")));
    let named = |key: &str| paths.iter().any(|path| own(key, path));
    let mut hidden = paths.iter().filter(|path| is_hidden(path)).count();
    for (key, state) in store.last() {
        if named(key) || shown[key] == *state {
            continue;
        }
        if hidden == 0 {
            let now = &shown[key];
            return Err(format!("{key} is {now:?} for damage in another's file"));
        }
        hidden -= 1;
    }
    Ok(())
}

fn check_repair(
    store: &Store,
    damage: &Damage,
    hurt: &MemoryStorage,
    shown: Option<&Seen>,
) -> Verdict {
    let mended = hurt.image(Image::ProcessDeath);
    let report = repair(&mended, false)?;
    if shown.is_some() && !report.needs_data_loss.is_empty() {
        return Err(format!("it opens, and repair wants to lose data: {report}"));
    }
    if report.needs_data_loss.is_empty() {
        check_mended(store, damage, hurt, &mended, shown)?;
        if shown.is_none() {
            let now = look(&mended).map_err(|e| format!("mended: {e}"))?;
            if now != *store.last() {
                return Err(format!("without loss, it said, and now {now:?}: {report}"));
            }
        }
        return Ok(());
    }
    let forced = hurt.image(Image::ProcessDeath);
    let report = repair(&forced, true)?;
    if report.losses.is_empty() {
        return Err(format!(
            "the flag was needed, and nothing is lost: {report}"
        ));
    }
    check_mended(store, damage, hurt, &forced, None)
}

/// What a repair must leave, whatever it could save.
fn check_mended(
    store: &Store,
    damage: &Damage,
    hurt: &MemoryStorage,
    mended: &MemoryStorage,
    shown: Option<&Seen>,
) -> Verdict {
    let found = verify(mended)?;
    let contested = found.duplicate_keys.len() + found.duplicate_aliases.len();
    if found.problems().len() > contested {
        return Err(format!("repaired, and verify finds:\n{found}"));
    }
    let now = look(mended).map_err(|e| format!("repaired: {e}"))?;
    if let Some(shown) = shown {
        for (key, (texts, _)) in shown {
            if !is_subsequence(texts, &now[key].0) {
                return Err(format!(
                    "repair took from {texts:?} and left {:?}",
                    now[key].0
                ));
            }
        }
    }
    if damage.path.contains("/journal/") || damage.path.ends_with("identity") {
        check_saved(store, damage, &now)?;
    } else {
        check_kept(store, damage, hurt, mended)?;
    }
    if !repair(mended, true)?.done.is_empty() {
        return Err("a second repair finds something to do".into());
    }
    open_and_die(mended).map_err(|e| format!("repaired, and open: {e}"))
}

/// Nothing is made up, and of a store that was only appended to everything is
/// there whose record is whole.
fn check_saved(store: &Store, damage: &Damage, now: &Seen) -> Verdict {
    let ever: std::collections::BTreeSet<_> = store.ever().collect();
    for (texts, _) in now.values() {
        if let Some(text) = texts.iter().find(|text| !ever.contains(text)) {
            return Err(format!("{text:?} was never written"));
        }
    }
    if !store.only_appends || damage.how.contains("stale") || damage.how == "removed" {
        return Ok(());
    }
    for nth in 1..store.commands.len() {
        let (before, after) = (&store.commands[nth - 1].seen, &store.commands[nth].seen);
        for (key, (texts, _)) in after {
            let new = texts.last().filter(|_| texts.len() > before[key].0.len());
            if let Some(new) = new.filter(|_| readable(store, damage, nth))
                && !now[key].0.contains(new)
            {
                return Err(format!(
                    "{new:?} of {key} is whole in the journal, and not saved"
                ));
            }
        }
    }
    Ok(())
}

/// Whether a command's record can be found: its bytes are whole, and so is the
/// salt of its segment.
fn readable(store: &Store, damage: &Damage, nth: usize) -> bool {
    let header = damage.range.start < 56;
    let there = |(path, _): &(String, std::ops::Range<usize>)| *path == damage.path;
    let same = store.commands[nth].extents.iter().any(there);
    !(damaged(store, damage, nth) || header && same)
}

/// Every line that was in the damaged file is in the new one, or set aside.
fn check_kept(
    store: &Store,
    damage: &Damage,
    hurt: &MemoryStorage,
    mended: &MemoryStorage,
) -> Verdict {
    if damage.path.ends_with("/.sessionlog/sidecars.jsonl") {
        // A cache: written anew, it holds the lines that verify.
        return Ok(());
    }
    // What the journal put right is in nobody's way.
    let sound = store.disk.image(Image::ProcessDeath);
    repair(&sound, false)?;
    if sound.read_foreign(&damage.path) == mended.read_foreign(&damage.path) {
        return Ok(());
    }
    let bytes = hurt.read_foreign(&damage.path).unwrap_or_default();
    let kept: Vec<_> = mended
        .dump()
        .into_iter()
        .filter(|(path, _)| {
            *path == damage.path || path.contains("/quarantine/") || path.contains("/backups/")
        })
        .collect();
    if !damage.path.contains(".meta.") {
        // The journal puts right what it covers, and zeros are nothing.
        let pieces = bytes.split(|byte| matches!(byte, b'\n' | 0));
        let mut pieces = pieces.filter(|piece| !piece.is_empty());
        let outside_backups = kept
            .iter()
            .filter(|(path, _)| !path.contains("/backups/repair-"));
        let left: Vec<u8> = outside_backups
            .flat_map(|(_, bytes)| bytes.clone())
            .collect();
        if let Some(piece) = pieces.find(|piece| memchr::memmem::find(&left, piece).is_none())
            && !glued(piece, &left)
        {
            return Err(format!("{:?} is gone", String::from_utf8_lossy(piece)));
        }
    } else if !kept.iter().any(|(_, kept)| *kept == bytes) && !bytes.is_empty() {
        return Err("the damaged file is kept nowhere".into());
    }
    Ok(())
}

/// A line taken apart: each piece of it is somewhere.
fn glued(line: &[u8], left: &[u8]) -> bool {
    let mut cuts: Vec<_> = memchr::memmem::find_iter(line, b"{\"role\"").collect();
    cuts.insert(0, 0);
    cuts.push(line.len());
    let mut pieces = cuts.windows(2).map(|cut| &line[cut[0]..cut[1]]);
    pieces.all(|piece| memchr::memmem::find(left, piece).is_some())
}

pub(crate) fn is_subsequence(some: &[String], all: &[String]) -> bool {
    let mut all = all.iter();
    some.iter().all(|text| all.any(|other| other == text))
}
