//! Session files without anything beside them, and files that begin with a byte order mark.

use std::fs;

use sessionlog::{Format, RetentionPolicy, SearchQuery, SessionQuery, Store, StoreHandle};

use crate::support::{add_numbers, line, numbers, open, scratch, sidecar, texts};

const MARK: &str = "\u{feff}";

fn lines_of(chats: &StoreHandle) -> Vec<(String, u64)> {
    let page = chats.sessions(SessionQuery::new()).wait().unwrap();
    let shown = page.sessions.into_iter();
    shown.map(|info| (info.key, info.lines)).collect()
}

fn hits(chats: &StoreHandle, text: &str) -> Vec<String> {
    let mut search = chats.search(SearchQuery::new().text(text));
    let found = std::iter::from_fn(|| search.wait_next());
    found.map(|hit| hit.unwrap().key).collect()
}

fn given(key: &str, lines: u64) -> (String, u64) {
    (key.to_owned(), lines)
}

/// A backup of which only the histories came back. A name stands for a key until a write
/// shows the key; what was there before counts.
#[test]
fn session_files_alone_are_listed_searched_and_counted() {
    let dir = scratch();
    let log: String = numbers(0..4).iter().map(|text| line(text)).collect();
    for name in ["telegram_1", "telegram_2"] {
        fs::write(dir.path().join(format!("{name}.jsonl")), &log).unwrap();
    }
    fs::write(dir.path().join("named.jsonl"), &log).unwrap();
    fs::write(
        dir.path().join("named.meta.json"),
        sidecar("named", "", 0, 4),
    )
    .unwrap();
    let all = [("named", 4), ("telegram_1", 4), ("telegram_2", 4)].map(|(key, n)| given(key, n));
    let view = Store::open_read_only(dir.path()).unwrap();
    let store = open(dir.path());
    assert_eq!(store.recovery_report().sessions, 3);
    let chats = store.handle();
    for chats in [&chats, &view.handle()] {
        assert_eq!(lines_of(chats), all);
        let keys = chats.list_sessions().wait().unwrap();
        assert_eq!(keys, ["named", "telegram_1", "telegram_2"]);
        assert_eq!(hits(chats, "2"), keys);
        assert_eq!(chats.session_meta("telegram_1").wait().unwrap().count, 4);
        assert_eq!(chats.count("telegram:1").wait().unwrap(), 4);
    }
    // Nobody knows how old they are.
    let oldest = RetentionPolicy::new().count(0);
    let plan = chats.retention(oldest).plan().wait().unwrap();
    assert_eq!(plan.expired.len(), 1, "{plan:?}");

    // Read under its name, it is still the key's.
    assert_eq!(texts(&chats, "telegram_1"), numbers(0..4));
    add_numbers(&chats, "telegram:1", 4..6);
    assert_eq!(texts(&chats, "telegram:1"), numbers(0..6));
    let now = [("named", 4), ("telegram:1", 6), ("telegram_2", 4)].map(|(key, n)| given(key, n));
    assert_eq!(lines_of(&chats), now);
    store.close().unwrap();
    assert_eq!(lines_of(&view.handle()), now);
    let report = Store::verify(dir.path()).unwrap();
    let is_sound = |stem: &str| {
        let check = report.sessions.iter().find(|check| check.stem == stem);
        check.unwrap().mismatch.is_none()
    };
    assert!(is_sound("telegram_1"), "{report}");
}

/// A copy does not make a key of a name.
#[test]
fn a_copy_of_session_files_alone_has_them_alone() {
    let dir = scratch();
    let (path, copy) = (dir.path().join("store"), dir.path().join("copy"));
    fs::create_dir(&path).unwrap();
    fs::write(path.join("telegram_1.jsonl"), line("0")).unwrap();
    let store = open(&path);
    store.handle().backup_to(&copy).wait().unwrap();
    store.close().unwrap();
    assert!(!copy.join("telegram_1.meta.json").exists());
    let copied = open(&copy);
    assert_eq!(texts(&copied.handle(), "telegram:1"), numbers(0..1));
    copied.close().unwrap();
}

/// Editors on Windows put one in front, and end lines with CR LF.
#[test]
fn a_byte_order_mark_hides_no_message_and_no_sidecar() {
    let dir = scratch();
    let log = format!("{MARK}{}\r\n{}\r\n", line("0").trim(), line("1").trim());
    // Joined files have it in the middle.
    let log = format!("{log}{MARK}{}", line("2"));
    fs::write(dir.path().join("cli.jsonl"), &log).unwrap();
    let meta = sidecar("cli", "before", 0, 3).replace('\n', "\r\n");
    fs::write(dir.path().join("cli.meta.json"), format!("{MARK}{meta}")).unwrap();
    let view = Store::open_read_only(dir.path()).unwrap();
    assert_eq!(texts(&view.handle(), "cli"), numbers(0..3));
    for _ in 0..2 {
        let store = open(dir.path());
        let chats = store.handle();
        assert!(store.recovery_report().findings.is_empty());
        assert_eq!(texts(&chats, "cli"), numbers(0..3));
        assert_eq!(chats.tail("cli", 3).wait().unwrap().len(), 3);
        assert_eq!(chats.summary("cli").wait().unwrap(), "before");
        assert_eq!(hits(&chats, "0"), ["cli"]);
        chats.compact("cli").wait().unwrap();
        store.close().unwrap();
    }
    let report = Store::verify(dir.path()).unwrap();
    assert_eq!(report.sessions[0].damaged_lines, 0, "{report}");
}

#[test]
fn a_byte_order_mark_is_passed_over_in_every_import() {
    let dir = scratch();
    let store = open(&dir.path().join("store"));
    let chats = store.handle();
    let message = r#"{"role":"user","content":"hi"}"#;
    for (format, text) in [
        (Format::Jsonl, format!("{message}\r\n{message}\r\n")),
        (Format::OpenAi, format!("[{message},\r\n{message}]\r\n")),
        (
            Format::Anthropic,
            format!("{{\"messages\":[{message},\r\n{message}]}}\r\n"),
        ),
    ] {
        let key = format!("{format:?}");
        let imported = chats.import(&key, format, &format!("{MARK}{text}")).wait();
        assert_eq!(imported.unwrap(), 2, "{key}");
        assert_eq!(texts(&chats, &key), ["hi", "hi"], "{key}");
    }
    let file = dir.path().join("context.jsonl");
    fs::write(&file, format!("{MARK}{message}\r\n{message}\r\n")).unwrap();
    let report = sessionlog::import_kimi(&file, "kimi", &chats).unwrap();
    assert_eq!((report.messages, report.unread), (2, 0));
    let older = dir.path().join("older");
    fs::create_dir(&older).unwrap();
    let session = format!("{MARK}{{\"key\":\"older\",\"messages\":[{message}]}}\r\n");
    fs::write(older.join("older.json"), session).unwrap();
    assert_eq!(sessionlog::migrate_from_json(&older, &chats).unwrap(), 1);
    assert_eq!(texts(&chats, "older"), ["hi"]);
    store.close().unwrap();
}
