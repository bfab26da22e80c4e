//! What the processes do that the tests start.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use sessionlog::{
    Erase, Error, Health, RepairOptions, RetentionPolicy, Store, StoreHandle, StoreOptions,
    published_stats,
};

use crate::small_volume::{Volume, live};
use crate::stage::SAYS;

/// Chats of a store that others fill or starve.
pub(crate) const CHATS: usize = 90;

/// Turns after which a file system of some megabytes must be full.
const MANY: usize = 100_000;

/// Commands that may be refused after there is room again.
const TRIES: usize = 50;

/// How long something that happens by itself may take before a test gives up.
const PATIENCE: Duration = Duration::from_mins(2);

/// The key of a chat.
pub(crate) fn chat(nth: usize) -> String {
    format!("chat:{nth}")
}

/// Plays the part that the environment names.
pub(crate) fn play() {
    let Ok(part) = std::env::var("SESSIONLOG_PART") else {
        return;
    };
    let scratch = std::env::var_os("SESSIONLOG_SCRATCH").expect("a stage");
    let scratch = PathBuf::from(scratch);
    let mount = scratch.join("mount");
    let dir = mount.join("sessions");
    match part.as_str() {
        "fill" => fill(&dir, &mount, &scratch),
        "fill_alone_killed" => {
            let _store = fill_alone(&dir, &scratch);
            std::process::exit(0);
        }
        "fill_alone_closed" => {
            // On a full disk it may not be able to: that is a death as any.
            let closed = fill_alone(&dir, &scratch).close();
            say(&format!("closed: {}", closed.is_ok()));
        }
        "let_go" => let_go(&Store::open(&dir).unwrap(), &scratch),
        "let_go_running" => {
            let store = fill_alone(&dir, &scratch);
            let_go(&store, &scratch);
            store.close().unwrap();
        }
        "let_go_without_inodes" => {
            let store = fill_alone(&dir, &scratch);
            let chats = store.handle();
            let add = |nth: usize| chats.add_message(&chat(nth), "user", "hi").wait();
            let refused = (0..ALONE).find_map(|nth| add(nth).err());
            let told = refused.expect("the volume is full").to_string();
            assert!(told.contains("no inodes"), "{told}");
            // An erasure needs a flush, and that a sidecar for each session.
            for nth in ALONE / 4..ALONE {
                chats.delete_session(&chat(nth)).wait().unwrap();
            }
            chats.flush().wait().unwrap();
            store.close().unwrap();
        }
        "recover_full" => recover_full(&dir, &scratch),
        "verify_filled" => verify_filled(&dir, &scratch),
        "read_only" => read_only(&dir),
        "own" => own(&dir),
        "no_descriptors" => no_descriptors(&dir),
        "without_locks" => without_locks(&dir),
        "no_segments" => no_segments(&dir),
        "small_volume" => small_volume(&dir, &mount),
        other => panic!("no part is called {other}"),
    }
}

/// Opens a store where locks do nothing or are refused, and again at the user's own risk.
fn without_locks(dir: &Path) {
    let refused = Store::open(dir).unwrap_err();
    say(&refused.to_string());
    let repaired = Store::repair(dir, RepairOptions::new());
    assert!(repaired.is_err(), "{repaired:?}");
    let risked = StoreOptions::new().allow_missing_lock(true);
    let store = Store::open_with(dir, risked).unwrap();
    let chats = store.handle();
    chats.add_message("cli", "user", "hi").wait().unwrap();
    store.close().unwrap();
    let repaired = Store::repair(dir, RepairOptions::new().allow_missing_lock(true));
    assert!(repaired.unwrap().losses.is_empty());
    let view = Store::open_read_only(dir).unwrap();
    assert_eq!(view.handle().history("cli").wait().unwrap().len(), 1);
}

fn say(what: &str) {
    println!("{SAYS}{what}");
}

/// Room that is made for the recovery: as much as the journal can have taken, for
/// every line in it may have to go to its session file.
const BALLAST: usize = 8 << 20;

/// Writes until the disk is full, and dies in the middle of it.
fn fill(dir: &Path, mount: &Path, scratch: &Path) {
    fs::write(mount.join("ballast"), vec![1; BALLAST]).unwrap();
    let options = StoreOptions::new().journal_segments(1 << 20, 1 << 20);
    let store = Store::open_with(dir, options).unwrap();
    let chats = store.handle();
    let mut acks = File::create(scratch.join("acks")).unwrap();
    let (mut accepted, mut refused) = (0, 0);
    let begun = Instant::now();
    for turn in 0..MANY {
        match append(&chats, turn, &mut acks) {
            Ok(()) => accepted += 1,
            Err(Error::StorageFull { .. }) => refused += 1,
            Err(other) => panic!("a full disk is reported as {other:?}"),
        }
        if refused > 20 && tells_that_it_is_full(dir) {
            break;
        }
        assert!(refused < 20 || begun.elapsed() < PATIENCE, "nobody is told");
    }
    // What was refused left no trace, and what was not can be read.
    check(&chats, scratch);
    say(&format!("{accepted} accepted, {refused} refused"));
    // Without closing: its process is gone in the middle of everything.
    std::process::exit(0);
}

/// Chats of a store that fills its volume.
const ALONE: usize = 60;

/// Writes until nothing more is taken.
fn fill_alone(dir: &Path, scratch: &Path) -> Store {
    let store = Store::open(dir).unwrap();
    let chats = store.handle();
    let mut acks = File::create(scratch.join("acks")).unwrap();
    let (mut accepted, mut refused) = (0, 0);
    for turn in 0..MANY {
        let key = chat(turn % ALONE);
        let text = format!("{turn} {}", "·".repeat(turn % 7 * 60));
        match chats.add_message(&key, "user", &text).wait() {
            Ok(()) => {
                accepted += 1;
                writeln!(acks, "{key}\t{turn}").unwrap();
            }
            Err(Error::StorageFull { .. }) => refused += 1,
            Err(other) => panic!("a full disk is reported as {other:?}"),
        }
        if refused > 2 * ALONE {
            break;
        }
    }
    assert!(refused > 2 * ALONE, "the volume does not fill");
    say(&format!("{accepted} accepted"));
    store
}

/// Nothing but the store makes room: each verb that lets go works on the full volume, and
/// what stays is what was acknowledged.
fn let_go(store: &Store, scratch: &Path) {
    let chats = store.handle();
    let acks = fs::read_to_string(scratch.join("acks")).unwrap();
    let said = |nth: usize| {
        let own = acks.lines().filter_map(|line| line.split_once('\t'));
        let own = own.filter(move |(of, _)| *of == chat(nth));
        own.map(|(_, turn)| turn.to_owned()).collect::<Vec<_>>()
    };
    let shown = |nth: usize| {
        let all = chats.history(&chat(nth)).wait().unwrap();
        let turn = |m: &sessionlog::Message| m.text().split(' ').next().unwrap().to_owned();
        all.iter().map(turn).collect::<Vec<_>>()
    };
    for nth in 0..ALONE {
        assert_eq!(shown(nth), said(nth));
    }
    chats.delete_session(&chat(0)).wait().unwrap();
    let erased = chats.erase(Erase::key(chat(1))).wait().unwrap();
    assert_eq!(erased.sessions, [chat(1)]);
    chats.truncate_history(&chat(2), 1).wait().unwrap();
    chats.compact(&chat(2)).wait().unwrap();
    let policy = RetentionPolicy::new().count(ALONE / 2);
    let report = chats.retention(policy).apply().wait().unwrap();
    assert!(report.unreadable.is_empty(), "{report:?}");
    let begun = Instant::now();
    while let Err(error) = chats.add_message("new", "user", "hi").wait() {
        assert!(begun.elapsed() < PATIENCE, "there is room: {error}");
    }
    let gone: Vec<_> = report
        .deleted
        .iter()
        .map(|one| one.session.key.clone())
        .collect();
    for nth in 3..ALONE {
        let expected = if gone.contains(&chat(nth)) {
            Vec::new()
        } else {
            said(nth)
        };
        assert_eq!(shown(nth), expected, "{}", chat(nth));
    }
    say(&format!("{} let go", gone.len() + 2));
}

/// Others see that the disk is full, though there is no space to tell them in but what was
/// taken before.
fn tells_that_it_is_full(dir: &Path) -> bool {
    // It is told once a second.
    std::thread::sleep(Duration::from_millis(5));
    let seen = published_stats(dir).unwrap();
    seen.is_some_and(|seen| seen.status.health == Health::Full && seen.stats.refused_full > 0)
}

/// Opens a store whose disk is full: it opens, or says what it lacks.
fn recover_full(dir: &Path, scratch: &Path) {
    match Store::open(dir) {
        Ok(store) => {
            check(&store.handle(), scratch);
            say("recovered on a full disk");
            std::process::exit(0);
        }
        Err(Error::StorageFull { .. }) => say("no room to recover"),
        Err(other) => panic!("a full disk is reported as {other:?}"),
    }
    let view = Store::open_read_only(dir).unwrap();
    check(&view.handle(), scratch);
}

/// There is room again: nothing is missing, and writing goes on.
fn verify_filled(dir: &Path, scratch: &Path) {
    let store = Store::open(dir).unwrap();
    check(&store.handle(), scratch);
    let mut acks = OpenOptions::new()
        .append(true)
        .open(scratch.join("acks"))
        .unwrap();
    for turn in MANY..MANY + CHATS {
        append(&store.handle(), turn, &mut acks).unwrap();
    }
    store.close().unwrap();
    let store = Store::open(dir).unwrap();
    let texts = check(&store.handle(), scratch);
    store.close().unwrap();
    say(&format!("{texts} texts are there"));
}

fn append(chats: &StoreHandle, turn: usize, acks: &mut File) -> Result<(), Error> {
    let key = chat(turn % CHATS);
    let text = format!("{turn} {}", "·".repeat(turn % 7 * 300));
    chats.add_message(&key, "user", &text).wait()?;
    writeln!(acks, "{key}\t{turn}").unwrap();
    Ok(())
}

/// Every chat holds exactly what was acknowledged, in order.
fn check(chats: &StoreHandle, scratch: &Path) -> usize {
    let acks = fs::read_to_string(scratch.join("acks")).unwrap();
    let mut texts = 0;
    for nth in 0..CHATS {
        let key = chat(nth);
        let own = acks.lines().filter_map(|line| line.split_once('\t'));
        let expected: Vec<_> = own.filter(|(of, _)| *of == key).map(|(_, t)| t).collect();
        let held = chats.history(&key).wait().unwrap();
        let held: Vec<_> = held.iter().map(|m| m.text().to_string()).collect();
        let turns: Vec<_> = held.iter().filter_map(|t| t.split(' ').next()).collect();
        assert_eq!(turns, expected, "{key}");
        texts += held.len();
    }
    texts
}

fn read_only(dir: &Path) {
    match Store::open(dir) {
        Err(error @ (Error::Io { .. } | Error::ReadOnly)) => say(&format!("refused: {error}")),
        other => panic!("a read-only mount gives {other:?}"),
    }
    let view = Store::open_read_only(dir).unwrap();
    let history = view.handle().history("cli").wait().unwrap();
    say(&format!("read {}", history.len()));
}

/// Holds the store until somebody kills this process.
fn own(dir: &Path) {
    let store = Store::open(dir).unwrap();
    for text in ["one", "two", "three"] {
        let reply = store.handle().add_message("cli", "user", text);
        reply.wait().unwrap();
    }
    say("ready");
    std::io::stdout().flush().unwrap();
    loop {
        std::thread::park();
    }
}

/// Takes every descriptor there is while the store works.
fn no_descriptors(dir: &Path) {
    let store = Store::open(dir).unwrap();
    let chats = store.handle();
    for nth in 0..CHATS {
        chats
            .add_message(&chat(nth), "user", "before")
            .wait()
            .unwrap();
    }
    let mut taken = Vec::new();
    while let Ok(file) = File::open(dir) {
        taken.push(file);
    }
    assert!(!taken.is_empty(), "the limit leaves none to take");
    let mut held = vec![1; CHATS];
    let mut refused = 0;
    for (nth, held) in held.iter_mut().enumerate() {
        match chats.add_message(&chat(nth), "user", "meanwhile").wait() {
            Ok(()) => *held += 1,
            Err(_) => refused += 1,
        }
    }
    say(&format!("{} taken, {refused} refused", taken.len()));
    drop(taken);
    for (nth, held) in held.iter_mut().enumerate() {
        let healed = (0..TRIES).any(|_| {
            let reply = chats.add_message(&chat(nth), "user", "after");
            reply.wait().is_ok()
        });
        assert!(healed, "chat {nth} is refused for ever");
        *held += 1;
    }
    store.close().unwrap();
    let store = Store::open(dir).unwrap();
    for (nth, held) in held.iter().enumerate() {
        let found = store.handle().history(&chat(nth)).wait().unwrap();
        assert_eq!(found.len(), *held, "chat {nth}");
    }
    store.close().unwrap();
}

/// Takes every descriptor there is and fills the journal's segments.
fn no_segments(dir: &Path) {
    let options = StoreOptions::new().journal_segments(256 << 10, 256 << 10);
    let store = Store::open_with(dir, options).unwrap();
    let chats = store.handle();
    chats.add_message("cli", "user", "before").wait().unwrap();
    let mut taken = Vec::new();
    while let Ok(file) = File::open(dir) {
        taken.push(file);
    }
    let text = "x".repeat(32 << 10);
    let (mut held, mut refused) = (1, 0);
    for _ in 0..100 {
        match chats.add_message("cli", "user", &text).wait() {
            Ok(()) => held += 1,
            Err(Error::Io { source, .. }) if source.raw_os_error() == Some(24) => refused += 1,
            Err(other) => panic!("a lack of descriptors is reported as {other:?}"),
        }
    }
    assert!(refused > 0, "{held} accepted, and no segment was needed");
    say(&format!("{held} accepted, {refused} refused"));
    drop(taken);
    let healed = (0..TRIES).any(|_| chats.add_message("cli", "user", "after").wait().is_ok());
    assert!(healed, "refused for ever");
    store.close().unwrap();
    let store = Store::open(dir).unwrap();
    let found = store.handle().history("cli").wait().unwrap();
    assert_eq!(found.len(), held + 1);
    store.close().unwrap();
}

/// A mounted volume that others use, too.
struct Mounted<'a> {
    dir: &'a Path,
    ballast: PathBuf,
}

impl Volume for Mounted<'_> {
    fn fill(&mut self) -> bool {
        let file = OpenOptions::new()
            .create(true)
            .append(true)
            .open(&self.ballast);
        let mut file = file.unwrap();
        let mut any = false;
        for size in [1 << 20, 64 << 10, 4096, 512] {
            while file.write_all(&vec![1; size]).is_ok() {
                any = true;
            }
        }
        any
    }

    fn free(&mut self, bytes: u64) {
        let file = OpenOptions::new().write(true).open(&self.ballast).unwrap();
        let len = file.metadata().unwrap().len();
        file.set_len(len - bytes).unwrap();
    }

    fn journal(&self) -> u64 {
        bytes_in(&self.dir.join(".sessionlog/journal"))
    }
}

fn small_volume(dir: &Path, mount: &Path) {
    let ballast = mount.join("ballast");
    let mut volume = Mounted { dir, ballast };
    say(&live(|| Store::open(dir).unwrap(), &mut volume));
}

/// Bytes of the files in a directory.
fn bytes_in(dir: &Path) -> u64 {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    entries
        .filter_map(|entry| Some(entry.metadata().ok()?.len()))
        .sum()
}
