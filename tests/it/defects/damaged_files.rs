//! Torn, glued, oversized and missing files.

use std::fs;

use sessionlog::testing::disk_model::MemoryStorage;
use sessionlog::{Error, Message, Store};

use crate::support::{
    add_numbers, copy_dir, in_memory, line, numbers, open, open_memory, said, scratch, sidecar,
    texts, wait_for_spare_segment,
};

const LOG: &str = "telegram_1.jsonl";
const SIDECAR: &str = "telegram_1.meta.json";
const KEY: &str = "telegram:1";

/// Opens a session whose file ends in `tail` behind one whole line, adds two
/// messages, and says what can be read of it, before and after reopening.
fn append_behind(tail: &[u8]) -> (Vec<String>, Vec<u8>) {
    let dir = scratch();
    let log = [line("whole").as_bytes(), tail].concat();
    fs::write(dir.path().join(LOG), &log).unwrap();
    fs::write(dir.path().join(SIDECAR), sidecar(KEY, "", 0, 1)).unwrap();
    let store = open(dir.path());
    add_numbers(&store.handle(), KEY, 0..2);
    let live = texts(&store.handle(), KEY);
    store.close().unwrap();

    let store = open(dir.path());
    assert_eq!(texts(&store.handle(), KEY), live);
    store.close().unwrap();
    let after = fs::read(dir.path().join(LOG)).unwrap();
    assert_eq!(after[..log.len()], log, "what stood there was changed");
    (live, after[log.len()..].to_vec())
}

#[test]
fn p01_a_line_appended_after_a_torn_tail_stands_alone() {
    let (live, added) = append_behind(br#"{"role":"user","content":"to"#);
    assert_eq!(live, ["whole", "0", "1"]);
    assert_eq!(added[0], b'\n', "the torn line is ended first");
}

#[test]
fn p01_a_line_appended_after_a_tail_of_zeros_stands_alone() {
    let (live, added) = append_behind(&[0; 700]);
    assert_eq!(live, ["whole", "0", "1"]);
    assert_eq!(added[0], b'\n');
}

#[test]
fn p01_a_last_line_without_its_line_feed_is_kept_with_the_next_one() {
    let (live, added) = append_behind(line("unended").trim_end().as_bytes());
    assert_eq!(live, ["whole", "unended", "0", "1"]);
    assert_eq!(added[0], b'\n');
}

#[test]
fn p01_a_whole_tail_gets_no_empty_line() {
    let (live, added) = append_behind(line("ended").as_bytes());
    assert_eq!(live, ["whole", "ended", "0", "1"]);
    assert_eq!(added[0], b'{');
}

#[test]
fn p01_a_disk_that_fills_up_leaves_no_half_line_for_the_next_add_to_weld_onto() {
    let disk = MemoryStorage::new();
    let store = open_memory(&disk).unwrap();
    let chats = store.handle();
    add_numbers(&chats, KEY, 0..3);
    let used = |disk: &MemoryStorage| disk.dump().values().map(Vec::len).sum::<usize>() as u64;
    chats.flush().wait().unwrap();
    wait_for_spare_segment(&disk);
    disk.capacity(used(&disk) + 20_480);

    let big = "x".repeat(30_000);
    let mut acknowledged = numbers(0..3);
    let mut refused = 0;
    for n in 0..200 {
        match chats.add_message(KEY, "user", &big).wait() {
            Ok(()) => acknowledged.push(big.clone()),
            Err(Error::StorageFull { .. }) => refused += 1,
            Err(other) => panic!("add {n}: {other}"),
        }
        assert_eq!(texts(&chats, KEY).len(), acknowledged.len());
        if refused == 3 {
            break;
        }
    }
    assert_eq!(refused, 3, "the disk never filled up");
    disk.capacity(u64::MAX);
    chats.add_message(KEY, "user", "after").wait().unwrap();
    acknowledged.push(String::from("after"));
    assert_eq!(texts(&chats, KEY), acknowledged);
    store.close().unwrap();

    let log = disk.read_foreign(in_memory(LOG)).unwrap();
    let lines: Vec<_> = log
        .strip_suffix(b"\n")
        .unwrap()
        .split(|&b| b == b'\n')
        .collect();
    assert_eq!(lines.len(), acknowledged.len());
    let store = open_memory(&disk).unwrap();
    assert_eq!(texts(&store.handle(), KEY), acknowledged);
    store.close().unwrap();
}

#[test]
fn p02_a_line_of_twelve_megabytes_hides_nothing() {
    let dir = scratch();
    let huge = "h".repeat(12 << 20);
    let log = line("before") + &line(&huge) + &line("after");
    fs::write(dir.path().join(LOG), &log).unwrap();
    fs::write(dir.path().join(SIDECAR), sidecar(KEY, "", 0, 3)).unwrap();
    let store = open(dir.path());
    let chats = store.handle();
    assert_eq!(texts(&chats, KEY), ["before", &huge, "after"]);
    assert_eq!(said(&chats.tail(KEY, 2).wait().unwrap()), [&huge, "after"]);

    let promoted = chats.promote_alias_history("new", None, vec![KEY.into()]);
    assert!(promoted.wait().unwrap());
    assert_eq!(texts(&chats.exact_keys(), "new").len(), 3);
    let exact = chats.exact_keys();
    exact.truncate_history(KEY, 2).wait().unwrap();
    assert_eq!(texts(&exact, KEY), [&huge, "after"]);
    exact.compact(KEY).wait().unwrap();
    assert_eq!(texts(&exact, KEY), [&huge, "after"]);
    exact.truncate_history(KEY, 1).wait().unwrap();
    exact.compact(KEY).wait().unwrap();
    assert_eq!(texts(&exact, KEY), ["after"]);
    store.close().unwrap();
}

#[test]
fn p06_a_time_that_cannot_be_rewritten_breaks_no_compaction() {
    let dir = scratch();
    let odd =
        "{\"role\":\"user\",\"content\":\"odd\",\"created_at\":\"2026-01-02T03:04:05+24:00\"}\n";
    let log = line("old") + odd + &line("new");
    fs::write(dir.path().join(LOG), &log).unwrap();
    fs::write(dir.path().join(SIDECAR), sidecar(KEY, "", 0, 3)).unwrap();
    let store = open(dir.path());
    let chats = store.handle();
    assert_eq!(texts(&chats, KEY), ["old", "odd", "new"]);
    chats.truncate_history(KEY, 2).wait().unwrap();
    chats.compact(KEY).wait().unwrap();
    assert_eq!(texts(&chats, KEY), ["odd", "new"]);
    let read_back = chats.history(KEY).wait().unwrap();
    chats.set_history(KEY, read_back).wait().unwrap();
    store.close().unwrap();

    let store = open(dir.path());
    assert_eq!(texts(&store.handle(), KEY), ["odd", "new"]);
    store.close().unwrap();
}

#[test]
fn p10_a_message_added_beside_a_corrupt_sidecar_is_stored_once() {
    let dir = scratch();
    fs::write(dir.path().join(LOG), line("a") + &line("b")).unwrap();
    fs::write(
        dir.path().join(SIDECAR),
        b"{\"key\": \"telegram:1\", \"skip\": oops",
    )
    .unwrap();
    let store = open(dir.path());
    let findings = store.recovery_report().findings.join("\n");
    assert!(findings.contains(SIDECAR), "{findings}");
    let chats = store.handle();
    assert_eq!(texts(&chats, KEY), ["a", "b"]);
    chats.add_message(KEY, "user", "c").wait().unwrap();
    assert_eq!(texts(&chats, KEY), ["a", "b", "c"]);
    assert_eq!(chats.list_sessions().wait().unwrap(), [KEY]);
    store.close().unwrap();

    let log = fs::read_to_string(dir.path().join(LOG)).unwrap();
    assert_eq!(log.matches("\"content\":\"c\"").count(), 1);
    let rebuilt = fs::read_to_string(dir.path().join(SIDECAR)).unwrap();
    assert!(rebuilt.contains("\"key\": \"telegram:1\""), "{rebuilt}");
    let aside: Vec<_> = fs::read_dir(dir.path().join(".sessionlog/quarantine"))
        .unwrap()
        .map(|entry| fs::read(entry.unwrap().path()).unwrap())
        .collect();
    assert_eq!(
        aside,
        [b"{\"key\": \"telegram:1\", \"skip\": oops".to_vec()]
    );
}

#[test]
fn p12_a_skip_beyond_the_file_hides_no_later_message() {
    let dir = scratch();
    fs::write(dir.path().join(LOG), line("a") + &line("b")).unwrap();
    fs::write(dir.path().join(SIDECAR), sidecar(KEY, "", 50, 50)).unwrap();
    let store = open(dir.path());
    let chats = store.handle();
    assert!(texts(&chats, KEY).is_empty());
    let batch = vec![Message::user("1"), Message::user("2")];
    chats.add_message(KEY, "user", "0").wait().unwrap();
    chats.append_all(KEY, batch).wait().unwrap();
    assert_eq!(texts(&chats, KEY), numbers(0..3));
    store.close().unwrap();

    let store = Store::open_read_only(dir.path()).unwrap();
    assert_eq!(texts(&store.handle(), KEY), numbers(0..3));
    let meta = store.handle().session_meta(KEY).wait().unwrap();
    assert_eq!(meta.skip, 2);
}

/// What a store whose process died leaves, behind three acknowledged messages.
fn died() -> tempfile::TempDir {
    let (dir, left) = (scratch(), scratch());
    let store = open(dir.path());
    add_numbers(&store.handle(), KEY, 0..3);
    copy_dir(dir.path(), left.path());
    store.close().unwrap();
    left
}

fn segment_of(dir: &std::path::Path) -> std::path::PathBuf {
    let journal = fs::read_dir(dir.join(".sessionlog/journal")).unwrap();
    let mut segments: Vec<_> = journal.map(|entry| entry.unwrap().path()).collect();
    segments.retain(|path| path.extension().is_some_and(|extension| extension == "log"));
    segments.sort();
    segments.remove(0)
}

#[test]
fn a_journal_segment_that_was_cut_short_is_refused_not_taken_for_a_shorter_one() {
    let left = died();
    let segment = segment_of(left.path());
    let bytes = fs::read(&segment).unwrap();
    fs::write(&segment, &bytes[..4096]).unwrap();
    for opened in [Store::open(left.path()), Store::open_read_only(left.path())] {
        assert!(matches!(opened, Err(Error::Corrupt { .. })), "{opened:?}");
    }
}

#[test]
fn without_the_identity_a_reader_does_not_leave_out_what_the_journal_holds() {
    let left = died();
    fs::remove_file(left.path().join(".sessionlog/identity")).unwrap();
    for opened in [Store::open(left.path()), Store::open_read_only(left.path())] {
        assert!(matches!(opened, Err(Error::Corrupt { .. })), "{opened:?}");
    }
    let report = Store::repair(left.path(), sessionlog::RepairOptions::new()).unwrap();
    assert!(report.losses.is_empty(), "{report}");
    let store = open(left.path());
    assert_eq!(texts(&store.handle(), KEY), numbers(0..3));
    store.close().unwrap();
}
