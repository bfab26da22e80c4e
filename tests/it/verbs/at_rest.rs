//! What lies on disk: after close, after a flush, and meanwhile.

use sessionlog::{Durability, Message, Store};

use crate::support::{
    add_numbers, files, for_each_caller, manual, numbers, open, scratch, texts, visible_names,
    wait_until,
};

#[test]
fn what_was_written_is_there_when_the_store_is_opened_again() {
    let dir = scratch();
    let store = open(dir.path());
    assert!(store.recovery_report().clean);
    let chats = store.handle();
    add_numbers(&chats, "telegram:1", 0..9);
    chats.truncate_history("telegram:1", 4).wait().unwrap();
    chats.set_summary("telegram:1", "s").wait().unwrap();
    chats
        .upsert_session_meta("telegram:1", None, vec!["a".into()])
        .wait()
        .unwrap();
    let meta = chats.session_meta("telegram:1").wait().unwrap();
    store.close().unwrap();

    let store = open(dir.path());
    let report = store.recovery_report();
    assert!(report.clean && report.findings.is_empty(), "{report:?}");
    assert_eq!(
        (report.sessions, report.replayed_records, report.torn_bytes),
        (1, 0, 0)
    );
    let chats = store.handle();
    assert_eq!(texts(&chats, "a"), numbers(5..9));
    let again = chats.session_meta("telegram:1").wait().unwrap();
    assert_eq!(
        serde_json::to_string(&again).unwrap(),
        serde_json::to_string(&meta).unwrap()
    );
    add_numbers(&chats, "telegram:1", 9..10);
    assert_eq!(texts(&chats, "telegram:1"), numbers(5..10));
    store.close().unwrap();
}

#[test]
fn after_close_there_is_what_picoclaw_reads_and_nothing_else() {
    let dir = scratch();
    let store = open(dir.path());
    let chats = store.handle();
    for (key, count) in [("telegram:1", 3), ("cli", 1), ("gone", 2)] {
        add_numbers(&chats, key, 0..count);
    }
    let message = Message::assistant("<b> & \u{2028} \u{1f600}")
        .with_tool_call("1", "f", "{}")
        .with_created_at("2026-01-02T03:04:05.100Z")
        .unwrap();
    chats.add_full_message("cli", message).wait().unwrap();
    chats.truncate_history("telegram:1", 1).wait().unwrap();
    chats.compact("telegram:1").wait().unwrap();
    chats.set_history("gone", Vec::new()).wait().unwrap();
    chats.delete_session("gone").wait().unwrap();
    store.close().unwrap();

    let names = [
        "cli.jsonl",
        "cli.meta.json",
        "telegram_1.jsonl",
        "telegram_1.meta.json",
    ];
    assert_eq!(visible_names(dir.path()), names);
    let all = files(dir.path());
    let left = all
        .keys()
        .filter(|name| name.starts_with(".sessionlog/journal"));
    assert_eq!(left.count(), 0, "the journal is empty: {:?}", all.keys());
    assert!(
        all.keys()
            .all(|name| !name.to_string_lossy().contains(".tmp"))
    );

    let log = String::from_utf8(all[std::path::Path::new("cli.jsonl")].clone()).unwrap();
    let lines: Vec<_> = log.lines().collect();
    assert!(lines[0].starts_with("{\"role\":\"user\",\"content\":\"0\",\"created_at\":\"20"));
    assert_eq!(
        lines[1],
        "{\"role\":\"assistant\",\"content\":\"\\u003cb\\u003e \\u0026 \\u2028 \u{1f600}\",\
         \"created_at\":\"2026-01-02T03:04:05.1Z\",\"tool_calls\":[{\"id\":\"1\",\
         \"type\":\"function\",\"function\":{\"name\":\"f\",\"arguments\":\"{}\"}}]}"
    );
    assert!(log.ends_with('\n'));
    let meta = String::from_utf8(all[std::path::Path::new("cli.meta.json")].clone()).unwrap();
    let fixed: Vec<_> = meta
        .lines()
        .filter(|line| !line.contains("_at\""))
        .collect();
    let expected = [
        "{",
        "  \"key\": \"cli\",",
        "  \"summary\": \"\",",
        "  \"skip\": 0,",
        "  \"count\": 2       ,",
        "}",
    ];
    assert_eq!(fixed, expected);
    assert!(!meta.ends_with('\n'));
}

#[test]
fn dropping_a_store_closes_it() {
    let dir = scratch();
    let store = open(dir.path());
    add_numbers(&store.handle(), "cli", 0..3);
    drop(store);
    assert_eq!(visible_names(dir.path()), ["cli.jsonl", "cli.meta.json"]);
    let store = open(dir.path());
    assert!(store.recovery_report().clean);
    assert_eq!(texts(&store.handle(), "cli"), numbers(0..3));
    store.close().unwrap();
}

#[test]
fn a_buffered_write_is_visible_at_once_and_in_the_file_after_a_flush() {
    for_each_caller(|caller, chats, dir| {
        let quick = chats.with_durability(Durability::Buffered);
        for (n, text) in numbers(0..30).iter().enumerate() {
            caller.ok(quick.add_message("cli", "user", text));
            assert_eq!(texts(chats, "cli"), numbers(0..n + 1));
        }
        caller.ok(quick.set_summary("cli", "s"));
        assert_eq!(caller.ok(chats.summary("cli")), "s");
        caller.ok(quick.upsert_session_meta("cli", None, vec!["a".into()]));
        assert_eq!(texts(chats, "a"), numbers(0..30));
        // What rewrites waits for what is buffered before it.
        caller.ok(quick.truncate_history("cli", 10));
        caller.ok(quick.add_message("cli", "user", "30"));
        assert_eq!(texts(chats, "cli"), numbers(20..31));
        caller.ok(quick.flush());
        let log = std::fs::read_to_string(dir.join("cli.jsonl")).unwrap();
        assert_eq!(log.lines().count(), 31);
        let meta = std::fs::read_to_string(dir.join("cli.meta.json")).unwrap();
        assert!(
            meta.contains("\"skip\": 20") && meta.contains("\"summary\": \"s\""),
            "{meta}"
        );
    });
}

#[test]
fn a_buffered_store_keeps_everything_through_close() {
    let dir = scratch();
    let options = manual().durability(Durability::Buffered);
    let store = Store::open_with(dir.path(), options).unwrap();
    add_numbers(&store.handle(), "cli", 0..100);
    store.close().unwrap();
    let store = open(dir.path());
    assert_eq!(texts(&store.handle(), "cli"), numbers(0..100));
    store.close().unwrap();
}

#[test]
fn an_idle_store_brings_its_files_up_to_date_by_itself() {
    let dir = scratch();
    let store = open(dir.path());
    let chats = store.handle();
    add_numbers(&chats, "cli", 0..3);
    chats.set_summary("cli", "s").wait().unwrap();
    wait_until("a flush of the idle store", || {
        let meta = std::fs::read_to_string(dir.path().join("cli.meta.json"));
        chats.stats().flushes > 0 && meta.is_ok_and(|meta| meta.contains("\"summary\": \"s\""))
    });
    let log = std::fs::read_to_string(dir.path().join("cli.jsonl")).unwrap();
    assert_eq!(log.lines().count(), 3);
    store.close().unwrap();
}

#[test]
fn files_and_directories_are_their_owners_alone() {
    use std::os::unix::fs::PermissionsExt;
    let outer = scratch();
    let dir = outer.path().join("new/sessions");
    let store = open(&dir);
    add_numbers(&store.handle(), "cli", 0..3);
    store.handle().flush().wait().unwrap();
    let mode = |path: &std::path::Path| path.metadata().unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&dir), 0o700);
    assert_eq!(mode(&dir.join(".sessionlog")), 0o700);
    for within in [dir.clone(), dir.join(".sessionlog")] {
        for entry in std::fs::read_dir(within).unwrap() {
            let entry = entry.unwrap();
            // A segment takes its name once it is prepared: what was listed before
            // may be called something else now.
            let Ok(found) = entry.metadata() else {
                continue;
            };
            let mode = found.permissions().mode() & 0o777;
            if found.is_file() {
                assert_eq!(mode, 0o600, "{}", entry.path().display());
            }
        }
    }
    let named = |name: &str| mode(&dir.join(name));
    assert_eq!((named("cli.jsonl"), named("cli.meta.json")), (0o600, 0o600));
    store.close().unwrap();
}

#[test]
fn an_empty_directory_opens_and_closes_without_a_trace_others_see() {
    let dir = scratch();
    for _ in 0..3 {
        open(dir.path()).close().unwrap();
        assert!(visible_names(dir.path()).is_empty());
    }
}
