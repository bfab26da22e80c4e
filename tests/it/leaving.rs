//! Moving back to PicoClaw: what an export holds, what it says it left out, and what it
//! refuses. What PicoClaw reads is told by a model of its reader.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use serde_json::Value;
use sessionlog::testing::disk_model::{Image, MemoryStorage};
use sessionlog::{
    Attachment, Error, Message, PicoclawExport, Store, StoreHandle, StoreOptions, export_picoclaw,
    export_picoclaw_sessions,
};

use crate::intercept::Intercepted;
use crate::support::{
    add_numbers, copy_dir, files, line, numbers, open, open_memory, open_on, scope, scratch,
    small_segments, texts, visible_names,
};

/// The longest line that PicoClaw reads, without its line feed.
const LONGEST: usize = 10_485_759;

/// The texts that PicoClaw reads under a key, if it reads all that is there.
fn picoclaw(dir: &Path, key: &str) -> Vec<String> {
    let stem = key.replace([':', '/', '\\'], "_");
    let log = fs::read(dir.join(format!("{stem}.jsonl"))).unwrap();
    let texts: Vec<_> = log
        .split_inclusive(|byte| *byte == b'\n')
        .map(message)
        .collect();
    if let Ok(sidecar) = fs::read(dir.join(format!("{stem}.meta.json"))) {
        let sidecar: Value = serde_json::from_slice(&sidecar).unwrap();
        assert_eq!(
            (&sidecar["key"], &sidecar["skip"]),
            (&key.into(), &0.into())
        );
        assert_eq!(sidecar["count"], texts.len());
    }
    texts
}

fn message(line: &[u8]) -> String {
    let line = line.strip_suffix(b"\n").expect("every line ends");
    assert!(line.len() <= LONGEST);
    let message: Value = serde_json::from_slice(line).unwrap();
    assert!(!message["role"].as_str().unwrap().starts_with('_'));
    message["content"].as_str().unwrap().into()
}

fn pairs(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    let owned = |(key, what): &(&str, &str)| ((*key).into(), (*what).into());
    pairs.iter().map(owned).collect()
}

fn counts(report: &PicoclawExport) -> (usize, usize) {
    (report.sessions, report.messages)
}

/// A session with all that PicoClaw has no place for.
fn converse(chats: &StoreHandle) {
    let parts = r#"{"role":"assistant","content":[{"type":"think","think":"hm"},{"type":"text","text":"a cat"},{"type":"image_url","image_url":{"url":"https://x/cat.png"}},{"type":"map","at":[1,2]}],"created_at":"2026-01-02T03:04:05Z"}"#;
    let thoughts = r#"{"role":"assistant","content":[{"type":"think","think":"hm"}]}"#;
    let chat = chats.context("telegram:1");
    add_numbers(chats, "telegram:1", 0..4);
    chats.truncate_history("telegram:1", 1).wait().unwrap();
    chat.checkpoint(false).wait().unwrap();
    chat.update_token_count(7).wait().unwrap();
    let attached = Message::user("look").with_attachment(Attachment::new("image", "media://1"));
    chats
        .add_full_message("telegram:1", attached)
        .wait()
        .unwrap();
    for json in [parts, thoughts] {
        let message = Message::from_json(json.as_bytes()).unwrap();
        chats
            .add_full_message("telegram:1", message)
            .wait()
            .unwrap();
    }
    chats.set_summary("telegram:1", "of cats").wait().unwrap();
    let known = scope(r#"{"version":1,"agent_id":"main"}"#);
    let aliases = vec!["agent:main:telegram:1".into()];
    chats
        .upsert_session_meta("telegram:1", known, aliases)
        .wait()
        .unwrap();
}

#[test]
fn what_picoclaw_has_a_place_for_arrives_and_the_rest_is_told() {
    let dir = scratch();
    let (from, to) = (dir.path().join("sessions"), dir.path().join("new/picoclaw"));
    let store = open(&from);
    let chats = store.handle();
    converse(&chats);
    let report = export_picoclaw(&to, &chats).unwrap();
    assert_eq!(counts(&report), (1, 3));
    assert_eq!(report.not_exported, []);
    let left_out = [
        (
            "telegram:1",
            "control records (checkpoints, token counts, system prompts): 2",
        ),
        (
            "telegram:1",
            "messages that are thoughts and nothing else: 1",
        ),
        (
            "telegram:1",
            "parts of messages, or fields of them, that PicoClaw has no place for: 1",
        ),
    ];
    assert_eq!(report.left_out, pairs(&left_out));
    assert_eq!(picoclaw(&to, "telegram:1"), ["3", "look", "a cat"]);
    assert_eq!(
        visible_names(&to),
        ["telegram_1.jsonl", "telegram_1.meta.json"]
    );

    let back = open(&to);
    let history = back
        .handle()
        .history("agent:main:telegram:1")
        .wait()
        .unwrap();
    assert_eq!(history[1].attachments()[0].reference, "media://1");
    assert_eq!(history[2].attachments()[0].url, "https://x/cat.png");
    assert_eq!(history[2].reasoning(), "hm");
    let was = chats.session_meta("telegram:1").wait().unwrap();
    let mut is = back.handle().session_meta("telegram:1").wait().unwrap();
    assert_eq!((is.skip, is.count), (0, 3));
    (is.skip, is.count) = (was.skip, was.count);
    assert_eq!(
        serde_json::to_string(&is).unwrap(),
        serde_json::to_string(&was).unwrap()
    );
    back.close().unwrap();
    store.close().unwrap();
}

#[test]
fn a_session_gets_the_name_that_picoclaw_looks_for() {
    let dir = scratch();
    let store = open(&dir.path().join("sessions"));
    let chats = store.handle();
    let (long, longer) = ("l".repeat(245), "l".repeat(246));
    let keys = [".hidden", "a/b", "a:b", "a_b", &long, &longer];
    for key in keys.iter().rev() {
        chats.add_message(key, "user", key).wait().unwrap();
    }
    let to = dir.path().join("picoclaw");
    let report = export_picoclaw(&to, &chats).unwrap();
    assert_eq!(counts(&report), (3, 3));
    let shared = "to PicoClaw its file is that of \"a/b\"";
    let too_long = "PicoClaw's file name for it is over 255 bytes";
    let missing = [("a:b", shared), ("a_b", shared), (&*longer, too_long)];
    assert_eq!(report.not_exported, pairs(&missing));
    let back = open(&to);
    for key in [".hidden", "a/b", &long] {
        assert_eq!(picoclaw(&to, key), [key]);
        assert_eq!(texts(&back.handle(), key), [key]);
    }
    back.close().unwrap();
    store.close().unwrap();
}

#[test]
fn lines_that_cost_picoclaw_the_session_stay_behind() {
    let dir = scratch();
    let from = dir.path().join("sessions");
    fs::create_dir(&from).unwrap();
    let fits = line(&"x".repeat(LONGEST + 1 - line("").len()));
    assert_eq!(fits.len(), LONGEST + 1);
    let too_long = line(&"x".repeat(fits.len() + 1 - line("").len()));
    let log = [
        &line("a"),
        "{\"role\":\n",
        &fits,
        &too_long,
        "\0\0\n\r\n",
        &line("b"),
    ]
    .concat();
    fs::write(from.join("cli.jsonl"), log).unwrap();
    let store = open(&from);
    let to = dir.path().join("picoclaw");
    let report = export_picoclaw_sessions(&to, &store.handle(), &["cli"]).unwrap();
    let left_out = [
        ("cli", "lines that do not decode: 2"),
        ("cli", "lines of more than 10,485,759 bytes: 1"),
    ];
    assert_eq!(
        (counts(&report), report.left_out),
        ((1, 3), pairs(&left_out))
    );
    assert_eq!(picoclaw(&to, "cli").len(), 3);
    store.close().unwrap();
}

#[test]
fn a_store_can_keep_to_the_lines_that_picoclaw_reads() {
    let dir = scratch();
    let store = Store::open_with(dir.path(), StoreOptions::new().picoclaw_lines()).unwrap();
    let said = |length: usize| {
        let text = "x".repeat(length + 1 - line("").len());
        let message = Message::user(text)
            .with_created_at("2026-01-02T03:04:05Z")
            .unwrap();
        store.handle().add_full_message("cli", message).wait()
    };
    said(LONGEST).unwrap();
    assert!(matches!(
        said(LONGEST + 1),
        Err(Error::MessageTooLarge { limit: LONGEST, .. })
    ));
    store.close().unwrap();
    assert_eq!(picoclaw(dir.path(), "cli").len(), 1);
}

#[test]
fn nothing_is_written_over_or_into_a_store() {
    let dir = scratch();
    let (from, other) = (dir.path().join("sessions"), dir.path().join("other"));
    let store = open(&from);
    let chats = store.handle();
    add_numbers(&chats, "cli", 0..1);
    open(&other).close().unwrap();
    let full = dir.path().join("full");
    fs::create_dir(&full).unwrap();
    fs::write(full.join(".hidden"), "mine").unwrap();
    chats.flush().wait().unwrap();

    let before = files(dir.path());
    for store_dir in [&from, &other, &from.join(".sessionlog/backups")] {
        let error = export_picoclaw(store_dir, &chats).unwrap_err();
        assert!(matches!(error, Error::InStore { path } if path == *store_dir));
    }
    let error = export_picoclaw(&full, &chats).unwrap_err().to_string();
    assert!(error.contains("is not empty"), "{error}");
    assert!(export_picoclaw(full.join(".hidden"), &chats).is_err());
    let missing = export_picoclaw_sessions(dir.path().join("new"), &chats, &["cli", "gone"]);
    assert!(matches!(missing, Err(Error::SessionNotFound { key }) if key == "gone"));
    assert_eq!(files(dir.path()), before);
    assert!(!dir.path().join("new").exists());
    store.close().unwrap();
}

#[test]
fn a_reader_exports_what_nobody_recovered_yet() {
    let dir = scratch();
    let store = open(&dir.path().join("live"));
    converse(&store.handle());
    add_numbers(&store.handle(), "cli", 0..3);
    let crashed = dir.path().join("crashed");
    copy_dir(&dir.path().join("live"), &crashed);
    store.close().unwrap();
    let before = files(&crashed);

    let reader = Store::open_read_only(&crashed).unwrap();
    let to = dir.path().join("picoclaw");
    let keys = ["agent:main:telegram:1", "cli", "telegram:1"];
    let report = export_picoclaw_sessions(&to, &reader.handle(), &keys).unwrap();
    assert_eq!(counts(&report), (2, 6));
    assert_eq!(picoclaw(&to, "cli"), numbers(0..3));
    assert_eq!(files(&crashed), before);
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&to), mode(&to.join("cli.jsonl"))), (0o700, 0o600));
}

#[test]
fn a_file_that_names_no_session_goes_as_it_is_called() {
    let dir = scratch();
    let from = dir.path().join("sessions");
    fs::create_dir(&from).unwrap();
    fs::write(from.join("telegram_1.jsonl"), line("a")).unwrap();
    fs::write(from.join("b:c.jsonl"), line("b")).unwrap();
    for store in [Store::open_read_only(&from).unwrap(), open(&from)] {
        let to = scratch();
        let report = export_picoclaw(to.path(), &store.handle()).unwrap();
        let no_key = [("b:c", "no key leads to its file")];
        let no_sidecar = [(
            "telegram_1",
            "a sidecar: the store has none, and knows no key",
        )];
        assert_eq!(
            (counts(&report), report.not_exported),
            ((1, 1), pairs(&no_key))
        );
        assert_eq!(report.left_out, pairs(&no_sidecar));
        assert_eq!(visible_names(to.path()), ["telegram_1.jsonl"]);
        assert_eq!(picoclaw(to.path(), "telegram:1"), ["a"]);
        store.close().unwrap();
    }
}

/// What an export to `/out` left there.
fn exported(disk: &MemoryStorage) -> BTreeMap<String, Vec<u8>> {
    let all = disk.dump().into_iter();
    all.filter_map(|(path, bytes)| Some((path.strip_prefix("out/")?.to_owned(), bytes)))
        .collect()
}

/// Checks that every log has its three lines, and every sidecar its log.
fn shows_whole_sessions(left: &BTreeMap<String, Vec<u8>>) {
    for (name, bytes) in left.iter().filter(|(name, _)| !name.starts_with('.')) {
        if let Some(stem) = name.strip_suffix(".meta.json") {
            assert!(bytes.starts_with(b"{\n") && bytes.ends_with(b"}"), "{name}");
            assert!(left.contains_key(&format!("{stem}.jsonl")), "{name} alone");
        } else {
            let lines = bytes.split_inclusive(|byte| *byte == b'\n');
            assert_eq!(lines.map(message).collect::<Vec<_>>(), numbers(0..3));
        }
    }
}

#[test]
fn no_crash_shows_part_of_a_session() {
    let disk = Intercepted::on(MemoryStorage::new());
    let store = open_on(std::sync::Arc::new(disk.clone()), small_segments()).unwrap();
    for key in ["a", "b"] {
        add_numbers(&store.handle(), key, 0..3);
    }
    disk.at_every_call(|_, path, disk| {
        let random = (0..8).map(Image::Random);
        let images = [Image::AllLost, Image::AllKept, Image::SizeWithoutData];
        for image in images.into_iter().chain(random) {
            if path.starts_with("/out") {
                shows_whole_sessions(&exported(&disk.image(image)));
            }
        }
        Ok(())
    });
    let report = export_picoclaw("/out", &store.handle()).unwrap();
    assert_eq!(counts(&report), (2, 6));
    assert_eq!(exported(&disk.disk.image(Image::AllLost)).len(), 4);

    disk.at_every_call(|call, path, _| {
        if path.starts_with("/out2") && call == "sync_dir" {
            return Err(std::io::Error::from_raw_os_error(5));
        }
        Ok(())
    });
    assert!(export_picoclaw("/out2", &store.handle()).is_err());
    assert!(
        !disk
            .disk
            .dump()
            .keys()
            .any(|path| path.starts_with("out2/"))
    );
    store.close().unwrap();
}

#[test]
fn a_file_system_that_folds_names_merges_no_sessions() {
    let disk = MemoryStorage::new();
    disk.fold_names();
    let store = open_memory(&disk).unwrap();
    for key in ["Foo", "foo"] {
        store.handle().add_message(key, "user", key).wait().unwrap();
    }
    let report = export_picoclaw("/out", &store.handle()).unwrap();
    let folded = "the file system gives its file's name to another's";
    assert_eq!(
        (counts(&report), report.not_exported),
        ((1, 1), pairs(&[("foo", folded)]))
    );
    assert_eq!(
        exported(&disk).into_keys().collect::<Vec<_>>(),
        ["Foo.jsonl", "Foo.meta.json"]
    );
    store.close().unwrap();
}
