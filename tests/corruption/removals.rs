//! Files of sessions removed between a crash and the recovery after it, alone, two
//! at a time, and all of them.

use std::panic::{AssertUnwindSafe, catch_unwind};

use sessionlog::testing::disk_model::{Image, MemoryStorage};
use sessionlog::testing::sim::Sim;
use sessionlog::{StoreOptions, VerifyReport};

use crate::image::{self, Seen, Store, look};
use crate::oracle::{self, Verdict, is_subsequence};
use crate::sweep::in_parallel;
use crate::{long, tell};

#[test]
fn removed_files_cost_their_sessions_at_most_and_what_the_journal_holds_of_them_is_kept() {
    let stores = image::all();
    let mut work: Vec<(&Store, Vec<String>)> = Vec::new();
    for store in &stores {
        work.extend(removals(store).into_iter().map(|paths| (store, paths)));
    }
    if !long() {
        work = work.into_iter().step_by(3).collect();
    }
    let wrong = in_parallel(&work, |(store, paths)| {
        let verdict = catch_unwind(AssertUnwindSafe(|| judge(store, paths)));
        let verdict = verdict.unwrap_or_else(|_| Err("it panics".into()));
        verdict.map_err(|wrong| format!("{} without {paths:?}: {wrong}", store.name))
    });
    tell(&format!(
        "removals: {} variants, {} violations",
        work.len(),
        wrong.len()
    ));
    assert!(wrong.is_empty(), "{:#?}", &wrong[..wrong.len().min(8)]);
    assert!(
        work.len() >= if long() { 150 } else { 60 },
        "{}",
        work.len()
    );
}

#[test]
fn what_else_has_the_name_of_a_sessions_file_closes_no_store_and_stays_somewhere() {
    let stores = image::all();
    let mut work: Vec<(&Store, String, bool)> = Vec::new();
    for store in &stores {
        let files = files(store).into_iter();
        work.extend(files.flat_map(|path| [true, false].map(|link| (store, path.clone(), link))));
    }
    let wrong = in_parallel(&work, |(store, path, link)| {
        let wrong = replaced(store, path, *link);
        wrong.map_err(|wrong| format!("{}, {path}, link {link}: {wrong}", store.name))
    });
    assert!(wrong.is_empty(), "{:#?}", &wrong[..wrong.len().min(8)]);
    assert!(work.len() >= 60, "{}", work.len());
}

/// Puts a link or a directory with a file in it in the place of a file.
fn replaced(store: &Store, path: &String, link: bool) -> Verdict {
    let hurt = store.disk.image(Image::ProcessDeath);
    hurt.remove_foreign(path).expect("it is there");
    let inside = format!("{path}/notes");
    let placed = if link {
        hurt.link_foreign(path)
    } else {
        hurt.write_foreign(&inside, b"of another program")
    };
    placed.expect("the name is free");
    oracle::verify(&hurt)?;
    open_and_die(&hurt)?;
    // Twice: what was set aside is in nobody's way.
    open_and_die(&hurt)?;
    let notes = hurt.dump().into_values();
    if !link
        && notes
            .into_iter()
            .all(|bytes| bytes != b"of another program")
    {
        return Err("the directory is gone".into());
    }
    for (key, state) in store.last() {
        let own = path.contains(&format!("/{}.", key.replace(':', "_"))) || oracle::is_hidden(path);
        let now = image::look_at(&hurt, key);
        if !own && now.as_ref().ok() != Some(state) {
            return Err(format!("{key} is {now:?}"));
        }
    }
    Ok(())
}

/// Session files, sidecars, backups and hidden files.
fn files(store: &Store) -> Vec<String> {
    let mut files: Vec<String> = store.disk.dump().into_keys().collect();
    files.retain(|path| {
        let home = path.contains("/.sessionlog/");
        !home || path.contains("/backups/")
    });
    files
}

fn removals(store: &Store) -> Vec<Vec<String>> {
    let files = files(store);
    let mut all = vec![files.clone()];
    for (nth, file) in files.iter().enumerate() {
        all.push(vec![file.clone()]);
        let pairs = files[nth + 1..].iter();
        all.extend(pairs.map(|other| vec![file.clone(), other.clone()]));
    }
    let kind = |end: &str| files.iter().filter(|f| f.ends_with(end)).cloned().collect();
    all.extend([kind(".jsonl"), kind(".meta.json"), kind(".tmp")]);
    all.retain(|paths| !paths.is_empty());
    all
}

fn judge(store: &Store, paths: &[String]) -> Verdict {
    let hurt = store.disk.image(Image::ProcessDeath);
    for path in paths {
        hurt.remove_foreign(path).expect("it is there");
    }
    let found = oracle::verify(&hurt)?;
    let shown = look(&hurt).map_err(|e| format!("read-only open: {e}"))?;
    let names: Vec<&str> = paths.iter().map(String::as_str).collect();
    oracle::check_others(store, &names, &shown)?;
    kept(store, paths, &shown)?;

    let opened = hurt.image(Image::ProcessDeath);
    let findings = open_and_die(&opened)?;
    let after = look(&opened).map_err(|e| format!("opened: {e}"))?;
    if after != shown {
        return Err(format!("recovery changed {shown:?} to {after:?}"));
    }
    told(store, &shown, &findings, &found)?;
    check_backups(store, paths, &opened)?;
    backed_up(store, paths, &shown, &opened)?;
    again(&hurt, &shown)?;

    let mended = hurt.image(Image::ProcessDeath);
    let report = oracle::repair(&mended, false)?;
    if !report.needs_data_loss.is_empty() {
        return Err(format!("it opens, and repair wants to lose data: {report}"));
    }
    let after = look(&mended).map_err(|e| format!("repaired: {e}"))?;
    if after != shown {
        return Err(format!("repair changed {shown:?} to {after:?}: {report}"));
    }
    let second = oracle::repair(&mended, true)?;
    if !second.done.is_empty() {
        return Err(format!("a second repair finds something to do: {second}"));
    }
    Ok(())
}

/// Nothing is made up, and what a session shows it showed, or more than that. (One
/// that was taken back to a backup that is gone stays as it was before, and goes on
/// from there.)
fn kept(store: &Store, paths: &[String], shown: &Seen) -> Verdict {
    let backups = paths.iter().any(|path| path.contains("/backups/"));
    let ever: std::collections::BTreeSet<_> = store.ever().collect();
    for (key, (texts, _)) in shown {
        if let Some(text) = texts.iter().find(|text| !ever.contains(text)) {
            return Err(format!("{text:?} was never written"));
        }
        let mut states = store.commands.iter().map(|command| &command.seen[key].0);
        let was = states.any(|all| is_subsequence(texts, all));
        if !was && !backups {
            return Err(format!("{key} never was {texts:?}, nor more than that"));
        }
        // What came last was acknowledged after the file was written. With the file the
        // session is gone, and that is a backup.
        let last = store.last()[key].0.last();
        if store.journalled && last != texts.last() && !is_removed(paths, key) {
            return Err(format!("{key} has lost {last:?}, which the journal holds"));
        }
    }
    Ok(())
}

fn is_removed(paths: &[String], key: &str) -> bool {
    let log = format!("sessions/{}.jsonl", key.replace(':', "_"));
    paths.contains(&log)
}

/// What the journal held of a session whose file was removed is a backup of it.
fn backed_up(store: &Store, paths: &[String], shown: &Seen, opened: &MemoryStorage) -> Verdict {
    let files = opened.dump();
    for (key, (texts, _)) in shown {
        let last = store.last()[key].0.last();
        if !store.journalled || last == texts.last() || !is_removed(paths, key) {
            continue;
        }
        let Some(last) = last else { continue };
        let own = format!("/backups/{}.", key.replace(':', "_"));
        let held = |(path, bytes): (&String, &Vec<u8>)| {
            path.contains(&own) && memchr::memmem::find(bytes, last.as_bytes()).is_some()
        };
        if !files.iter().any(held) {
            return Err(format!("{key} has lost {last:?}, which the journal holds"));
        }
    }
    Ok(())
}

/// Backups that are there are what they were made as, as far as what they were made
/// of is there: none has the last line of its session, which came after it.
fn check_backups(store: &Store, paths: &[String], opened: &MemoryStorage) -> Verdict {
    let sound = store.disk.image(Image::ProcessDeath);
    open_and_die(&sound)?;
    let mut expected = sound.dump();
    expected.retain(|path, _| path.contains("/backups/") && !paths.contains(path));
    for (path, bytes) in expected {
        let Some(now) = opened.read_foreign(&path).filter(|now| *now != bytes) else {
            continue;
        };
        let name = path.rsplit('/').next().unwrap_or_default();
        let whose = |key: &&&str| name.starts_with(&format!("{}.", key.replace(':', "_")));
        let key = *image::KEYS.iter().find(whose).expect("it is a session's");
        let last = store.last()[key].0.last().expect("none is empty");
        let removed = paths.iter().any(|path| path.contains("/backups/"));
        if !removed || memchr::memmem::find(&now, last.as_bytes()).is_some() {
            return Err(format!("the backup {path} is another"));
        }
    }
    Ok(())
}

/// What is not shown any more is said, by recovery and by verify.
fn told(store: &Store, shown: &Seen, findings: &[String], found: &VerifyReport) -> Verdict {
    for (key, (texts, _)) in store.last() {
        let stem = key.replace(':', "_");
        let lost = shown[key].0.len() < texts.len();
        if lost && store.journalled && !findings.iter().any(|line| line.contains(&stem)) {
            return Err(format!("{key} lost lines, and recovery says {findings:?}"));
        }
        let session = found.sessions.iter().find(|session| session.stem == stem);
        let known = session.is_some_and(|session| session.key == *key);
        if lost && known && found.is_sound() {
            return Err(format!("{key} lost lines, and verify says it is sound"));
        }
    }
    Ok(())
}

/// Recovery that the power cuts, anywhere, is done again and ends the same.
fn again(hurt: &MemoryStorage, shown: &Seen) -> Verdict {
    let whole = hurt.image(Image::ProcessDeath);
    open_and_die(&whole)?;
    for call in (0..whole.steps()).step_by(7) {
        let cut = hurt.image(Image::ProcessDeath);
        cut.crash_at(call);
        // How far it came is what the images are about.
        let _ = open_and_die(&cut);
        for left in [Image::ProcessDeath, Image::AllLost, Image::Random(call)] {
            let left = cut.image(left);
            open_and_die(&left).map_err(|e| format!("cut at {call}, then open: {e}"))?;
            let after = look(&left).map_err(|e| format!("cut at {call}: {e}"))?;
            if after != *shown {
                return Err(format!("cut at {call}: {after:?}, not {shown:?}"));
            }
        }
    }
    Ok(())
}

/// Opens, and returns what recovery found.
fn open_and_die(disk: &MemoryStorage) -> Result<Vec<String>, String> {
    let options = StoreOptions::new().journal_segments(8 << 10, 8 << 10);
    let sim = Sim::open(disk.clone(), &options, 0).map_err(|e| format!("open: {e}"))?;
    Ok(sim.report().findings.clone())
}
