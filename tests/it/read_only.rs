//! Reading a directory that another owns, or that nobody recovered yet.

use std::fs;
use std::path::Path;

use sessionlog::testing::disk_model::MemoryStorage;
use sessionlog::testing::sim::{Sim, read_now, read_only};
use sessionlog::{
    Budget, Durability, Erase, Error, Message, SearchQuery, SessionQuery, Store, StoreHandle,
};

use crate::support::{
    add_numbers, child_dir, copy_dir, files, line, manual, numbers, open, said, scratch, sidecar,
    spawn_child, texts, wait_until,
};

fn reader(dir: &Path) -> Store {
    Store::open_read_only(dir).unwrap()
}

#[test]
fn every_write_is_refused_and_leaves_no_trace() {
    let dir = scratch();
    std::fs::write(dir.path().join("cli.jsonl"), line("0")).unwrap();
    let before = files(dir.path());
    let store = reader(dir.path());
    let chats = store.handle();
    let user = || vec![Message::user("x")];
    let results = [
        chats.add_message("cli", "user", "x").wait(),
        chats.add_full_message("cli", Message::user("x")).wait(),
        chats.append_all("cli", user()).wait(),
        chats.append_all("cli", Vec::new()).wait(),
        chats.set_history("cli", user()).wait(),
        chats.set_summary("cli", "s").wait(),
        chats.truncate_history("cli", 0).wait(),
        chats.compact("cli").wait(),
        chats.delete_session("cli").wait(),
        chats.upsert_session_meta("cli", None, Vec::new()).wait(),
        chats
            .promote_alias_history("cli", None, vec!["a".into()])
            .wait()
            .map(drop),
    ];
    for result in results {
        assert!(matches!(result, Err(Error::ReadOnly)), "{result:?}");
    }
    assert_eq!(texts(&chats, "cli"), ["0"]);
    store.close().unwrap();
    assert_eq!(files(dir.path()), before);
}

#[test]
fn a_directory_of_picoclaws_is_read_as_it_is() {
    let dir = scratch();
    std::fs::write(
        dir.path().join("telegram_1.jsonl"),
        line("0") + &line("1") + &line("2"),
    )
    .unwrap();
    let meta = sidecar("telegram:1", "s", 1, 3).replace("\n}", ",\n  \"aliases\": [\"a\"]\n}");
    std::fs::write(dir.path().join("telegram_1.meta.json"), meta).unwrap();
    std::fs::write(
        dir.path().join("orphan.jsonl"),
        line("o") + "{\"role\":\"to",
    )
    .unwrap();
    let before = files(dir.path());
    let store = reader(dir.path());
    let chats = store.handle();
    let listed = chats.list_sessions().wait().unwrap();
    assert_eq!(listed, ["orphan", "telegram:1"]);
    assert_eq!(texts(&chats, "a"), ["1", "2"]);
    assert_eq!(chats.summary("a").wait().unwrap(), "s");
    assert_eq!(chats.tail("telegram:1", 1).wait().unwrap()[0].text(), "2");
    assert_eq!(texts(&chats, "orphan"), ["o"]);
    assert!(chats.history("nobody").wait().unwrap().is_empty());
    let resolved = chats.resolve_session_key("a").wait().unwrap();
    assert_eq!(resolved.as_deref(), Some("telegram:1"));
    chats.flush().wait().unwrap();
    store.close().unwrap();
    assert_eq!(files(dir.path()), before);
}

#[test]
fn a_reader_notices_what_other_programs_make_and_remove_without_a_journal() {
    let dir = scratch();
    let (log, meta) = (
        dir.path().join("telegram_1.jsonl"),
        dir.path().join("telegram_1.meta.json"),
    );
    let make = || {
        std::fs::write(&log, line("0")).unwrap();
        std::fs::write(&meta, sidecar("telegram:1", "s", 0, 1)).unwrap();
    };
    let store = reader(dir.path());
    let chats = store.handle();
    let is_there = || chats.exists("telegram:1").wait().unwrap();
    assert!(!is_there());
    make();
    assert!(is_there());
    std::fs::remove_file(&log).unwrap();
    assert!(is_there(), "its sidecar is");
    std::fs::remove_file(&meta).unwrap();
    assert!(!is_there());
    make();
    assert!(is_there());
    store.close().unwrap();
}

#[test]
fn a_reader_beside_a_writer_sees_what_was_acknowledged() {
    let dir = scratch();
    let writer = open(dir.path());
    let chats = writer.handle();
    let store = reader(dir.path());
    let seen = store.handle();
    for n in 0..30 {
        add_numbers(&chats, "telegram:1", n..n + 1);
        assert_eq!(texts(&seen, "telegram:1"), numbers(0..n + 1));
    }
    assert_eq!(seen.list_sessions().wait().unwrap(), ["telegram:1"]);
    chats.set_summary("telegram:1", "s").wait().unwrap();
    assert_eq!(seen.summary("telegram:1").wait().unwrap(), "s");
    chats.truncate_history("telegram:1", 5).wait().unwrap();
    assert_eq!(texts(&seen, "telegram:1"), numbers(25..30));
    chats.compact("telegram:1").wait().unwrap();
    assert_eq!(texts(&seen, "telegram:1"), numbers(25..30));
    chats
        .upsert_session_meta("telegram:1", None, vec!["a".into()])
        .wait()
        .unwrap();
    assert_eq!(texts(&seen, "a"), numbers(25..30));
    chats.flush().wait().unwrap();
    assert_eq!(texts(&seen, "telegram:1"), numbers(25..30));
    chats
        .set_history("telegram:1", vec![Message::user("x")])
        .wait()
        .unwrap();
    assert_eq!(texts(&seen, "telegram:1"), ["x"]);
    chats.delete_session("telegram:1").wait().unwrap();
    assert!(texts(&seen, "telegram:1").is_empty());
    assert!(seen.list_sessions().wait().unwrap().is_empty());
    writer.close().unwrap();
    assert!(texts(&seen, "telegram:1").is_empty());
}

/// Beside a writer that appends, truncates, compacts and flushes as it can, a
/// reader sees runs of numbers without a gap that never go back.
#[test]
fn a_reader_beside_a_busy_writer_sees_whole_histories() {
    let dir = scratch();
    let writer = open(dir.path());
    add_numbers(&writer.handle(), "cli", 0..1);
    let store = reader(dir.path());
    let done = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let chats = writer.handle();
            for round in 0..25 {
                add_numbers(&chats, "cli", 1 + round * 8..1 + round * 8 + 8);
                chats.truncate_history("cli", 8).wait().unwrap();
                chats.compact("cli").wait().unwrap();
                if round % 3 == 0 {
                    chats.flush().wait().unwrap();
                }
            }
            done.store(true, std::sync::atomic::Ordering::Release);
        });
        scope.spawn(|| {
            let seen = store.handle();
            let (mut first_seen, mut last_seen) = (0, 0);
            while !done.load(std::sync::atomic::Ordering::Acquire) {
                let found = texts(&seen, "cli");
                let first: usize = found[0].parse().unwrap();
                assert_eq!(found, numbers(first..first + found.len()));
                assert!(first >= first_seen, "{first} came back after {first_seen}");
                assert!(first + found.len() >= last_seen, "the end went back");
                (first_seen, last_seen) = (first, first + found.len());
            }
        });
    });
    assert_eq!(texts(&store.handle(), "cli"), numbers(193..201));
    writer.close().unwrap();
}

/// Everything a store can leave half done in its journal.
fn busy_life(chats: &StoreHandle) {
    add_numbers(chats, "appended", 0..5);
    add_numbers(chats, "truncated", 0..5);
    chats.truncate_history("truncated", 2).wait().unwrap();
    add_numbers(chats, "compacted", 0..5);
    chats.truncate_history("compacted", 2).wait().unwrap();
    chats.compact("compacted").wait().unwrap();
    add_numbers(chats, "compacted", 5..7);
    add_numbers(chats, "replaced", 0..5);
    chats
        .set_history("replaced", vec![Message::user("x")])
        .wait()
        .unwrap();
    add_numbers(chats, "deleted", 0..5);
    chats.delete_session("deleted").wait().unwrap();
    add_numbers(chats, "reborn", 0..5);
    chats.delete_session("reborn").wait().unwrap();
    add_numbers(chats, "reborn", 5..6);
    chats.set_summary("summed", "up").wait().unwrap();
    chats
        .upsert_session_meta("appended", None, vec!["a:1".into()])
        .wait()
        .unwrap();
    let promoted =
        chats
            .exact_keys()
            .promote_alias_history("promoted", None, vec!["truncated".into()]);
    assert!(promoted.wait().unwrap());
    let quick = chats.with_durability(Durability::Buffered);
    add_numbers(&quick, "appended", 5..8);
}

fn check_life(chats: &StoreHandle) {
    let exact = chats.exact_keys();
    assert_eq!(texts(chats, "a:1"), numbers(0..8));
    assert_eq!(texts(&exact, "truncated"), numbers(3..5));
    assert_eq!(texts(&exact, "compacted"), numbers(3..7));
    assert_eq!(texts(&exact, "replaced"), ["x"]);
    assert!(texts(&exact, "deleted").is_empty());
    assert_eq!(texts(&exact, "reborn"), ["5"]);
    assert_eq!(exact.summary("summed").wait().unwrap(), "up");
    assert_eq!(texts(&exact, "promoted"), numbers(3..5));
    let listed = exact.list_sessions().wait().unwrap();
    let all = [
        "appended",
        "compacted",
        "promoted",
        "reborn",
        "replaced",
        "summed",
        "truncated",
    ];
    assert_eq!(listed, all);
}

#[test]
fn after_a_crash_the_recovered_state_is_shown_and_nothing_is_written() {
    for flushed in [false, true] {
        let dir = scratch();
        let store = open(dir.path());
        if flushed {
            add_numbers(&store.handle(), "deleted", 50..52);
            add_numbers(&store.handle(), "replaced", 50..52);
            store.handle().flush().wait().unwrap();
        }
        busy_life(&store.handle());
        let crashed = scratch();
        copy_dir(dir.path(), crashed.path());
        store.close().unwrap();

        let before = files(crashed.path());
        let store = reader(crashed.path());
        assert!(!store.recovery_report().clean);
        check_life(&store.handle());
        let by_reader: Vec<_> = store.handle().list_sessions().wait().unwrap();
        let metas = |chats: &StoreHandle| -> Vec<_> {
            let meta = |key: &String| chats.exact_keys().session_meta(key).wait().unwrap();
            by_reader
                .iter()
                .map(|key| serde_json::to_string(&meta(key)).unwrap())
                .collect()
        };
        let shown = metas(&store.handle());
        store.close().unwrap();
        assert_eq!(files(crashed.path()), before, "a reader wrote");

        // What it showed is what recovery makes of it.
        let store = open(crashed.path());
        assert!(!store.recovery_report().clean);
        check_life(&store.handle());
        assert_eq!(metas(&store.handle()), shown);
        store.close().unwrap();
        let store = reader(crashed.path());
        assert!(store.recovery_report().clean);
        check_life(&store.handle());
    }
}

/// The journal has a sidecar for the session, and another program wrote the one on disk since.
#[test]
fn after_a_crash_aliases_lead_where_another_program_left_them() {
    for is_flushed in [false, true] {
        let (running, scratch) = (scratch(), scratch());
        let [dir, other] = ["s", "recovered"].map(|name| scratch.path().join(name));
        let store = open(running.path());
        let chats = store.handle();
        add_numbers(&chats, "a", 0..1);
        if is_flushed {
            chats.flush().wait().unwrap();
        }
        alias(&chats, "a", &["ours"]);
        copy_dir(running.path(), &dir);
        store.close().unwrap();
        let (before, theirs) = ("\"summary\"", "\"aliases\": [\"other\"],\n  \"summary\"");
        let theirs = sidecar("a", "theirs", 0, 1).replace(before, theirs);
        fs::write(dir.join("a.meta.json"), theirs).unwrap();
        copy_dir(&dir, &other);
        let (view, store) = (reader(&dir), open(&other));
        for chats in [view.handle(), store.handle()] {
            assert_eq!(texts(&chats, "other"), numbers(0..1));
            assert_eq!(chats.summary("a").wait().unwrap(), "theirs");
        }
        let ours = |chats: StoreHandle| chats.resolve_session_key("ours").wait().unwrap();
        assert_eq!(ours(view.handle()), ours(store.handle()));
        store.close().unwrap();
    }
}

#[test]
fn a_copy_taken_between_any_two_writes_shows_what_was_acknowledged_before() {
    let dir = scratch();
    let store = open(dir.path());
    let chats = store.handle();
    for n in 0..25 {
        add_numbers(&chats, "cli", n..n + 1);
        if n % 7 == 6 {
            chats.truncate_history("cli", 3).wait().unwrap();
            chats.compact("cli").wait().unwrap();
        }
        let expected = texts(&chats, "cli");
        let crashed = scratch();
        copy_dir(dir.path(), crashed.path());
        assert_eq!(texts(&reader(crashed.path()).handle(), "cli"), expected);
        let recovered = open(crashed.path());
        assert_eq!(texts(&recovered.handle(), "cli"), expected);
        recovered.close().unwrap();
    }
    store.close().unwrap();
}

#[test]
fn another_process_reads_beside_a_writer_and_after_it_was_killed() {
    if let Some(dir) = child_dir() {
        return writing_child(&dir);
    }
    let dir = scratch();
    let mut child = spawn_child(
        "read_only::another_process_reads_beside_a_writer_and_after_it_was_killed",
        dir.path(),
    );
    let ready = dir.path().join("ready");
    wait_until("the child's writes", || ready.exists());
    assert!(matches!(Store::open(dir.path()), Err(Error::Locked { .. })));
    let store = reader(dir.path());
    check_life(&store.handle());
    child.kill().unwrap();
    child.wait().unwrap();
    check_life(&store.handle());
    store.close().unwrap();
    let before = files(dir.path());
    let store = reader(dir.path());
    check_life(&store.handle());
    store.close().unwrap();
    assert_eq!(files(dir.path()), before);
    let store = open(dir.path());
    check_life(&store.handle());
    store.close().unwrap();
}

/// Lives a busy life, says so, and waits to be killed.
fn writing_child(dir: &Path) {
    let store = Store::open_with(dir, manual()).unwrap();
    busy_life(&store.handle());
    std::fs::write(dir.join("ready"), b"").unwrap();
    // Ends only if the parent died without killing us.
    let _ = std::io::stdin().read_line(&mut String::new());
    std::process::abort();
}

/// Another program changed the last byte before the journal's lines: recovery
/// ends that line and puts them after it.
#[test]
fn lines_after_an_unended_one_are_seen_as_recovery_would_put_them() {
    let (dir, left) = (scratch(), scratch());
    let store = open(dir.path());
    add_numbers(&store.handle(), "a", 0..2);
    store.handle().flush().wait().unwrap();
    let base = std::fs::read(dir.path().join("a.jsonl")).unwrap();
    add_numbers(&store.handle(), "a", 2..3);
    copy_dir(dir.path(), left.path());
    store.close().unwrap();
    let mut changed = base.clone();
    *changed.last_mut().unwrap() = b' ';
    std::fs::write(left.path().join("a.jsonl"), changed).unwrap();
    let seen = texts(&reader(left.path()).handle(), "a");
    let store = open(left.path());
    assert_eq!(seen, texts(&store.handle(), "a"));
    assert_eq!(seen, numbers(0..3));
}

/// Two people whose sessions have one file name, one after the other.
const FIRST: &str = "telegram:7";
const SECOND: &str = "telegram_7";

fn alias(chats: &StoreHandle, key: &str, aliases: &[&str]) {
    let aliases = aliases.iter().map(ToString::to_string).collect();
    chats
        .upsert_session_meta(key, None, aliases)
        .wait()
        .unwrap();
}

/// The second person has what the first had, the file name and the alias.
fn second_life(chats: &StoreHandle) {
    let receipt = chats.erase(Erase::key(FIRST)).wait();
    assert_eq!(receipt.unwrap().sessions, [FIRST]);
    chats
        .add_message(SECOND, "user", "the second's")
        .wait()
        .unwrap();
    chats.set_summary(SECOND, "the second's").wait().unwrap();
    alias(chats, SECOND, &["also:7"]);
}

/// Every way in which a reader may be asked for the first person's session.
fn assert_shows_only_the_second(chats: &StoreHandle, what: &str) {
    let exact = chats.exact_keys();
    assert!(texts(&exact, FIRST).is_empty(), "{what}");
    assert!(exact.tail(FIRST, 9).wait().unwrap().is_empty(), "{what}");
    assert_eq!(exact.count(FIRST).wait().unwrap(), 0, "{what}");
    let window = exact.window(FIRST, Budget::unlimited()).wait().unwrap();
    assert!(window.messages.is_empty(), "{what}");
    let snapshot = exact.snapshot(FIRST).wait().unwrap();
    assert!(snapshot.history().wait().unwrap().is_empty(), "{what}");
    assert_eq!(exact.summary(FIRST).wait().unwrap(), "", "{what}");
    assert_eq!(exact.session_meta(FIRST).wait().unwrap().key, FIRST);
    assert!(!exact.exists(FIRST).wait().unwrap(), "{what}");
    assert_eq!(exact.list_sessions().wait().unwrap(), [SECOND], "{what}");
    let page = exact.sessions(SessionQuery::new()).wait().unwrap();
    assert_eq!(page.sessions.len(), 1, "{what}");
    assert_eq!(page.sessions[0].key, SECOND, "{what}");
    let mut search = exact.search(SearchQuery::new().text("'s"));
    let hit = search.wait_next().unwrap().unwrap();
    assert_eq!(hit.key, SECOND, "{what}");
    assert_eq!(texts(chats, "also:7"), ["the second's"], "{what}");
}

#[test]
fn a_reader_notices_every_life_of_a_writer_however_it_ended() {
    type Ask = fn(&StoreHandle);
    // Each reader is asked for something else first.
    let first: [(&str, Ask); 5] = [
        ("history", |chats| assert!(texts(chats, FIRST).is_empty())),
        ("exists", |chats| {
            assert!(!chats.exists(FIRST).wait().unwrap());
        }),
        ("search", |chats| {
            let mut search = chats.search(SearchQuery::new().text("'s"));
            assert_eq!(search.wait_next().unwrap().unwrap().key, SECOND);
        }),
        ("alias", |chats| {
            assert_eq!(texts(chats, "also:7"), ["the second's"]);
        }),
        ("window", |chats| {
            let window = chats.window(FIRST, Budget::unlimited()).wait().unwrap();
            assert!(window.messages.is_empty());
        }),
    ];
    for killed in [false, true] {
        let dir = scratch();
        let store = open(dir.path());
        add_numbers(&store.handle(), FIRST, 0..3);
        alias(&store.handle(), FIRST, &["also:7"]);
        store.close().unwrap();
        let readers = first.map(|(what, ask)| {
            let store = reader(dir.path());
            assert_eq!(texts(&store.handle(), FIRST), numbers(0..3));
            assert_eq!(texts(&store.handle(), "also:7"), numbers(0..3));
            (what, ask, store)
        });
        let store = open(dir.path());
        second_life(&store.handle());
        let left = scratch();
        if killed {
            copy_dir(dir.path(), left.path());
        }
        store.close().unwrap();
        if killed {
            // In the place of what the close left.
            copy_dir(left.path(), dir.path());
        }
        for (what, ask, store) in readers {
            let chats = store.handle();
            if what == "alias" {
                ask(&chats);
            } else {
                ask(&chats.exact_keys());
            }
            assert_shows_only_the_second(&store.handle(), what);
        }
    }
}

/// The reader looked when the writer had its lock and no journal yet.
#[test]
fn a_reader_notices_a_life_that_it_saw_beginning_and_not_ending() {
    let disk = MemoryStorage::new();
    let options = manual();
    let live = |seed, keys: &[&str]| {
        let mut sim = Sim::open(disk.clone(), &options, seed).unwrap();
        let reader = read_only(disk.clone()).unwrap();
        let before = read_now(reader.list_sessions()).unwrap();
        let chats = sim.handle();
        for key in keys {
            let said = sim.run(chats.add_message(key, "user", key));
            said.unwrap();
        }
        if let Some(gone) = before.first() {
            assert_eq!(said(&read_now(reader.history(gone)).unwrap()), [&**gone]);
            sim.run(chats.delete_session(gone)).unwrap();
        }
        sim.close().unwrap();
        let now = read_now(reader.list_sessions()).unwrap();
        assert_eq!(now, keys);
        for key in keys {
            assert_eq!(said(&read_now(reader.history(key)).unwrap()), [*key]);
        }
        for gone in before {
            assert!(read_now(reader.history(&gone)).unwrap().is_empty());
        }
    };
    live(1, &[FIRST]);
    live(2, &[SECOND]);
}
