//! Opens the store on what a crash left, and looks whether anything is missing,
//! half there, or back.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use sessionlog::testing::disk_model::{Image, MemoryStorage};
use sessionlog::testing::sim::{Sim, read_now, read_only};
use sessionlog::{Appended, Message, StoreOptions};

use crate::crash::model::{Act, Loss, State, Talk};
use crate::crash::play::Play;
use crate::crash::script::Script;

/// Where backups are.
const BACKUPS: &str = "sessions/.sessionlog/backups/";

/// Where it is said what sessions took once.
const ONCE: &str = "sessions/.sessionlog/once/";

/// Where the engine's own files are.
const HOME: &str = "sessions/.sessionlog/";

/// What is wrong, in words.
pub(crate) type Verdict<T> = Result<T, String>;

/// All sessions, as one look finds them.
pub(crate) type Seen = BTreeMap<&'static str, State>;

/// What a crash that left `image` spares.
pub(crate) fn loss(image: Image) -> Loss {
    if image == Image::ProcessDeath {
        Loss::Process
    } else {
        Loss::Power
    }
}

/// Checks that what a session took once it takes no more, and what it did not it does.
fn check_once(play: &Play<'_>, storage: &MemoryStorage, seen: &Seen, loss: Loss) -> Verdict<()> {
    let ids = play.once_ids();
    if ids.is_empty() {
        return Ok(());
    }
    let mut sim = open(storage, &play.script().options)?;
    let handle = sim.handle().exact_keys();
    for (key, state) in seen {
        let mut known = BTreeSet::new();
        for id in ids.iter().filter(|(of, _)| of == key).map(|(_, id)| id) {
            let reply = handle.append_once(key, id, Message::user("delivered again"));
            let appended = sim.run(reply).map_err(|e| format!("{key} {id}: {e}"))?;
            if matches!(appended, Appended::Duplicate(_)) {
                known.insert(id.clone());
            }
        }
        // Of more than are remembered the oldest may be forgotten.
        let least = play.script().options.get_once_ids();
        let holds = |possible: &State| {
            let mut newest = possible.once.iter().rev().take(least);
            possible == state
                && newest.all(|id| known.contains(id))
                && known.iter().all(|id| possible.once.contains(id))
        };
        if !play.possible(key, loss).iter().any(holds) {
            return Err(format!("{key} took {known:?} once, and is {state:?}"));
        }
    }
    sim.close().map_err(|e| format!("close: {e}"))
}

/// Recovers the disk `left` behind by a crash, twice, goes on from there, and
/// checks every state met on the way. Returns the number of recoveries.
pub(crate) fn after_crash(play: &Play<'_>, left: &MemoryStorage, loss: Loss) -> Verdict<u64> {
    let options = &play.script().options;
    let keys: Vec<_> = play.keys().collect();
    let shown = read_beside(left, &keys)?;
    let recovered = recover(left, options)?;
    check_states(play, &shown, loss).map_err(|e| format!("read-only: {e}"))?;
    // What recovery serves must be on disk: a second crash finds it again.
    let again = left.image(Image::AllLost);
    if recover(&again, options)? != recovered {
        return Err("a second recovery changed the files".to_owned());
    }
    let seen = go_on(&again, play.script(), &keys)?;
    if seen != shown {
        return Err(format!(
            "a read-only look before recovery showed {shown:?}, recovery made {seen:?}"
        ));
    }
    check_states(play, &seen, loss)?;
    check_backups(play, &again, &seen, loss)?;
    check_once(play, &again, &seen, loss)?;
    if loss == Loss::Power {
        return Ok(4);
    }
    // What a dead process left owed to the disk is owed still: a store that
    // goes on from there must not leave it at that.
    go_on(left, play.script(), &keys)?;
    Ok(6)
}

/// Checks every session against what it may look like.
pub(crate) fn check_states(play: &Play<'_>, seen: &Seen, loss: Loss) -> Verdict<()> {
    for (key, state) in seen {
        let possible = play.possible(key, loss);
        if !possible.contains(state) {
            return Err(format!(
                "session {key} is {state:?}, and could only be one of {possible:?}"
            ));
        }
    }
    check_moves(play, seen)
}

/// Checks that a session has its old key or its new one, neither both nor none.
fn check_moves(play: &Play<'_>, seen: &Seen) -> Verdict<()> {
    for (new, old, source) in play.moves() {
        let Some(first) = source.texts.first() else {
            continue;
        };
        let places = seen.iter().filter(|(_, state)| state.texts.contains(first));
        let places: Vec<_> = places.map(|(key, _)| *key).collect();
        if places.len() != 1 && play.storage.faults_hit() == 0 {
            return Err(format!("{old} went on as {new}, and is in {places:?}"));
        }
    }
    Ok(())
}

/// Checks what stands in the backups: what the session was before it was taken
/// back, whole.
fn check_backups(play: &Play<'_>, storage: &MemoryStorage, seen: &Seen, loss: Loss) -> Verdict<()> {
    let files = storage.dump();
    for (key, state) in seen {
        let prefix = format!("{BACKUPS}{key}.");
        let own = files.iter().filter_map(|(path, bytes)| {
            let number = path.strip_prefix(&prefix)?.split('-').next()?;
            Some((number.parse::<u64>().ok()?, bytes))
        });
        let mut kept = Vec::new();
        for (number, bytes) in own.collect::<BTreeMap<_, _>>() {
            let texts = texts_of(bytes).map_err(|e| format!("backup {number} of {key}: {e}"))?;
            kept.push(texts);
        }
        // Lines that truncation skipped stand in a file that could not be compacted,
        // and are backed up with it.
        let refused = |(of, act, answer): (&str, &Act, &sessionlog::Result<()>)| {
            of == *key && matches!(act, Act::Compact) && answer.is_err()
        };
        let compacted = !play.answers().any(refused);
        let holds = |possible: &State| {
            let texts = possible.kept.iter().map(|(texts, _)| texts);
            possible == state && (texts.eq(&kept) || !compacted)
        };
        if !play.possible(key, loss).iter().any(holds) {
            return Err(format!("the backups of {key} hold {kept:?}, of {state:?}"));
        }
    }
    Ok(())
}

/// Opens the store and lets its process die at once; the session files then.
pub(crate) fn recover(
    storage: &MemoryStorage,
    options: &StoreOptions,
) -> Verdict<BTreeMap<String, Vec<u8>>> {
    let sim = open(storage, options)?;
    drop(sim);
    Ok(session_files(storage))
}

/// Opens, reads, appends to every session, closes, and opens again.
pub(crate) fn go_on(
    storage: &MemoryStorage,
    script: &Script,
    keys: &[&'static str],
) -> Verdict<Seen> {
    let options = &script.options;
    let mut sim = open(storage, options)?;
    let seen = read_all(&mut sim, keys)?;
    let mut expected = seen.clone();
    for (key, state) in &mut expected {
        let reply = sim.handle().exact_keys().add_message(key, "user", "after");
        sim.run(reply)
            .map_err(|e| format!("append to {key}: {e}"))?;
        state.texts.push("after".to_owned());
        state.listed = true;
    }
    sim.close().map_err(|e| format!("close: {e}"))?;
    // Without a sidecar to start from, a count is of what we added.
    check_closed(storage, &expected, script.foreign.is_empty())?;
    let mut sim = open(storage, options)?;
    if !sim.report().clean {
        return Err("closed in order, and found otherwise".to_owned());
    }
    let reread = read_all(&mut sim, keys)?;
    if reread != expected {
        return Err(format!(
            "after append and reopen the sessions are {reread:?}, not {expected:?}"
        ));
    }
    Ok(seen)
}

fn open(storage: &MemoryStorage, options: &StoreOptions) -> Verdict<Sim> {
    let sim =
        Sim::open(storage.clone(), options, 0).map_err(|e| format!("recovery failed: {e}"))?;
    let findings = &sim.report().findings;
    if findings.is_empty() {
        Ok(sim)
    } else {
        Err(format!(
            "recovery took our own crash for damage: {findings:?}"
        ))
    }
}

/// What a read-only look shows, which must change nothing.
pub(crate) fn read_beside(storage: &MemoryStorage, keys: &[&'static str]) -> Verdict<Seen> {
    let before = storage.dump();
    if !before.keys().any(|path| path.starts_with("sessions/")) {
        // Not even the directory is there: nothing to look at.
        return Ok(keys.iter().map(|key| (*key, State::default())).collect());
    }
    let handle = read_only(storage.clone()).map_err(|e| format!("read-only open: {e}"))?;
    let handle = handle.exact_keys();
    let wrap = |e: sessionlog::Error| format!("read-only: {e}");
    let listed = read_now(handle.list_sessions()).map_err(wrap)?;
    let mut seen = Seen::new();
    for key in keys {
        let meta = read_now(handle.session_meta(key)).map_err(wrap)?;
        let history = read_now(handle.history(key)).map_err(wrap)?;
        let state = State {
            listed: listed.iter().any(|listed| listed == key),
            texts: history.iter().map(|m| m.text().to_string()).collect(),
            summary: meta.summary,
            title: meta.tags.title,
            aliases: meta.aliases,
            talk: Talk {
                tokens: read_now(handle.context(key).token_count()).map_err(wrap)?,
                next: read_now(handle.context(key).n_checkpoints()).map_err(wrap)?,
                ..Talk::default()
            },
            backups: read_now(handle.list_backups(key)).map_err(wrap)?.len(),
            ..State::default()
        };
        seen.insert(*key, state);
    }
    if storage.dump() == before {
        Ok(seen)
    } else {
        Err("a read-only look changed the files".to_owned())
    }
}

/// What the handle shows of every session.
pub(crate) fn read_all(sim: &mut Sim, keys: &[&'static str]) -> Verdict<Seen> {
    let handle = sim.handle().exact_keys();
    let wrap = |e: sessionlog::Error| format!("read: {e}");
    let listed = sim.run(handle.list_sessions()).map_err(wrap)?;
    let mut seen = Seen::new();
    for key in keys {
        let history = sim.run(handle.history(key)).map_err(wrap)?;
        let meta = sim.run(handle.session_meta(key)).map_err(wrap)?;
        let tail = sim.run(handle.tail(key, 2)).map_err(wrap)?;
        let texts: Vec<_> = history.iter().map(|m| m.text().to_string()).collect();
        let newest: Vec<_> = tail.iter().map(|m| m.text().to_string()).collect();
        if texts[texts.len().saturating_sub(2)..] != newest {
            return Err(format!("{key}: the tail is {newest:?} of {texts:?}"));
        }
        let state = State {
            listed: listed.iter().any(|listed| listed == key),
            texts,
            summary: meta.summary,
            title: meta.tags.title,
            aliases: meta.aliases,
            talk: Talk {
                tokens: sim.run(handle.context(key).token_count()).map_err(wrap)?,
                next: sim.run(handle.context(key).n_checkpoints()).map_err(wrap)?,
                ..Talk::default()
            },
            backups: sim.run(handle.list_backups(key)).map_err(wrap)?.len(),
            ..State::default()
        };
        seen.insert(*key, state);
    }
    Ok(seen)
}

/// Everything in the directory but what is the engine's own.
fn session_files(storage: &MemoryStorage) -> BTreeMap<String, Vec<u8>> {
    let mut files = storage.dump();
    files.retain(|path, _| !path.starts_with("sessions/.sessionlog/"));
    files
}

/// Looks at a closed store's directory: nothing else may be left in it.
fn check_closed(storage: &MemoryStorage, expected: &Seen, counted: bool) -> Verdict<()> {
    let mut files = check_files(storage, expected, counted)?;
    let allowed = ["identity", "lock", "sidecars.jsonl"].map(|own| format!("{HOME}{own}"));
    files.retain(|path, _| {
        let backup = path.starts_with(BACKUPS) && !path.contains(".sessionlog-");
        let once = path.starts_with(ONCE) && !path.contains(".tmp");
        !backup && !once && !allowed.contains(path)
    });
    if files.is_empty() {
        Ok(())
    } else {
        let left: Vec<_> = files.keys().collect();
        Err(format!("a closed store leaves {left:?} behind"))
    }
}

/// Reads what is on the disk as another program would: only with what PicoClaw
/// knows. Returns the files that belong to no session.
pub(crate) fn check_files(
    storage: &MemoryStorage,
    expected: &Seen,
    counted: bool,
) -> Verdict<BTreeMap<String, Vec<u8>>> {
    let mut files = storage.image(Image::AllLost).dump();
    for (key, state) in expected.iter().filter(|(_, state)| state.listed) {
        let log = files.get(&format!("sessions/{key}.jsonl"));
        if log.is_some_and(|log| is_foreign(log)) && sidecar_of(&files, key).is_err() {
            continue;
        }
        let (stem, sidecar) = sidecar_of(&files, key)?;
        let log = files.remove(&format!("sessions/{stem}.jsonl"));
        files.remove(&format!("sessions/{stem}.meta.json"));
        let archived = format!("{HOME}archive/{stem}.");
        files.retain(|name, _| !(name.starts_with(&archived) && name.ends_with(".jsonl.gz")));
        check_session(key, state, &log.unwrap_or_default(), &sidecar, counted)?;
    }
    Ok(files)
}

/// Whether all lines are another program's, which gives them no time: what has a sidecar is
/// written by the store, and what has none is as it was.
fn is_foreign(log: &[u8]) -> bool {
    !log.is_empty() && memchr::memmem::find(log, b"created_at").is_none()
}

/// The file name of a session.
pub(crate) fn stem_of(files: &BTreeMap<String, Vec<u8>>, key: &str) -> Verdict<String> {
    sidecar_of(files, key).map(|(stem, _)| stem)
}

fn sidecar_of(files: &BTreeMap<String, Vec<u8>>, key: &str) -> Verdict<(String, Value)> {
    for (path, bytes) in files {
        let name = path.strip_prefix("sessions/");
        let Some(stem) = name.and_then(|name| name.strip_suffix(".meta.json")) else {
            continue;
        };
        let sidecar: Value =
            serde_json::from_slice(bytes).map_err(|e| format!("{path} is damaged: {e}"))?;
        if sidecar["key"] == key {
            return Ok((stem.to_owned(), sidecar));
        }
    }
    Err(format!("{key} has no sidecar"))
}

fn check_session(
    key: &str,
    state: &State,
    log: &[u8],
    sidecar: &Value,
    counted: bool,
) -> Verdict<()> {
    let all = lines_of(log).map_err(|e| format!("{key}: {e}"))?;
    let lines = all.len();
    let skip = sidecar["skip"].as_u64().unwrap_or(u64::MAX) as usize;
    let texts = messages(&all[skip.min(lines)..]);
    let title = sidecar["title"].as_str().unwrap_or_default();
    if texts != state.texts || sidecar["summary"] != state.summary.as_str() || title != state.title
    {
        return Err(format!(
            "{key}: the files hold {texts:?} and {sidecar}, not {state:?}"
        ));
    }
    if counted && sidecar["count"] != lines {
        return Err(format!(
            "{key}: {lines} lines, and the sidecar is {sidecar}"
        ));
    }
    Ok(())
}

fn texts_of(log: &[u8]) -> Verdict<Vec<String>> {
    lines_of(log).map(|lines| messages(&lines))
}

/// Whole lines, each a record.
pub(crate) fn lines_of(log: &[u8]) -> Verdict<Vec<Value>> {
    let text = std::str::from_utf8(log).map_err(|e| e.to_string())?;
    if !text.is_empty() && !text.ends_with('\n') {
        return Err("the last line is torn".to_owned());
    }
    let parse = |line| serde_json::from_str(line).map_err(|e| format!("damaged {line:?}: {e}"));
    text.lines().map(parse).collect()
}

/// The texts of the lines that are no control records.
pub(crate) fn messages(lines: &[Value]) -> Vec<String> {
    let text = |name: &str, line: &Value| line[name].as_str().unwrap_or_default().to_owned();
    let messages = lines
        .iter()
        .filter(|line| !text("role", line).starts_with('_'));
    messages.map(|line| text("content", line)).collect()
}

/// The disks that a crash before `step` may leave: each kind, and `random` others. Without
/// random ones the kinds take turns, one a step beside a random one.
pub(crate) fn images(step: u64, random: u64) -> Vec<Image> {
    if random == 0 {
        let kind = step as usize % Image::NAMED.len();
        return vec![Image::NAMED[kind], Image::Random(step)];
    }
    let random = step * random..(step + 1) * random;
    let random = random.map(Image::Random);
    Image::NAMED.into_iter().chain(random).collect()
}
