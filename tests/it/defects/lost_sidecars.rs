//! Sidecars that somebody deleted or damaged.

use std::fs;
use std::path::{Path, PathBuf};

use sessionlog::testing::disk_model::MemoryStorage;
use sessionlog::{Durability, Store, StoreHandle};

use crate::support::{
    add_numbers, copy_dir, files, in_memory, line, numbers, open, open_memory, scope, scratch,
    sidecar, texts, visible_names, wait_for_spare_segment,
};

const KEY: &str = "telegram:1";
const LOG: &str = "telegram_1.jsonl";
const SIDECAR: &str = "telegram_1.meta.json";
const COPIES: &str = ".sessionlog/sidecars.jsonl";
const SCOPE: &str = r#"{"channel":"telegram","version":1.0}"#;

/// What befalls a sidecar.
const FATES: [Option<&[u8]>; 5] = [
    None,
    Some(b""),
    Some(b"\0\0\0\0"),
    Some(b"{"),
    Some(b"{\"key\": \"telegram:1\", \"skip\": oops"),
];

/// Six messages, four of them truncated, a summary, a scope and an alias.
fn furnish(chats: &StoreHandle, key: &str) {
    add_numbers(chats, key, 0..6);
    chats.set_summary(key, "what was said").wait().unwrap();
    let aliases = vec![format!("also:{key}")];
    let upsert = chats.upsert_session_meta(key, scope(SCOPE), aliases);
    upsert.wait().unwrap();
    chats.truncate_history(key, 2).wait().unwrap();
}

/// Looks for what [`furnish`] left, and for the numbers up to `end`.
fn check_furnished(chats: &StoreHandle, key: &str, end: usize) {
    let exact = chats.exact_keys();
    assert_eq!(texts(&exact, key), numbers(4..end), "{key:?}");
    assert_eq!(chats.list_sessions().wait().unwrap(), [key]);
    let meta = exact.session_meta(key).wait().unwrap();
    assert_eq!(meta.summary, "what was said");
    assert_eq!(meta.scope.as_ref().map(|s| s.get()), Some(SCOPE));
    assert_eq!((meta.skip, meta.count), (4, i64::try_from(end).unwrap()));
    assert!(!meta.created_at.starts_with("0001"), "{}", meta.created_at);
    let alias = format!("also:{key}");
    let resolved = chats.resolve_session_key(&alias).wait().unwrap();
    assert_eq!(resolved.as_deref(), Some(key));
    assert_eq!(texts(chats, &alias), numbers(4..end), "{key:?}");
}

/// Lets all sidecars of a directory meet their fate.
fn spoil(dir: &Path, fate: Option<&[u8]>) {
    for path in sidecars(dir) {
        match fate {
            None => fs::remove_file(&path).unwrap(),
            Some(bytes) => fs::write(&path, bytes).unwrap(),
        }
    }
}

fn sidecars(dir: &Path) -> Vec<PathBuf> {
    let names = visible_names(dir).into_iter();
    let names = names.filter(|name| name.ends_with(".meta.json"));
    names.map(|name| dir.join(name)).collect()
}

/// The histories that a file shows after its sidecar went: of a store whose
/// session's file is replaced by `change`.
fn after_losing_it_with(change: impl FnOnce(&Path)) -> (Vec<String>, String) {
    let dir = scratch();
    let store = open(dir.path());
    furnish(&store.handle(), KEY);
    store.close().unwrap();
    spoil(dir.path(), None);
    change(&dir.path().join(LOG));
    let seen = |store: Store| {
        let chats = store.handle();
        let seen = (texts(&chats, KEY), chats.summary(KEY).wait().unwrap());
        store.close().unwrap();
        seen
    };
    let beside = seen(Store::open_read_only(dir.path()).unwrap());
    let owned = seen(open(dir.path()));
    assert_eq!(owned, beside, "a read-only look shows what opening makes");
    assert_eq!(seen(open(dir.path())), owned, "and it stays so");
    owned
}

#[test]
fn p11_a_lost_sidecar_takes_nothing_along() {
    for key in [KEY, ".hidden", &"k".repeat(600)] {
        for fate in FATES {
            let dir = scratch();
            let store = open(dir.path());
            furnish(&store.handle(), key);
            store.close().unwrap();
            let mut before = files(dir.path());
            spoil(dir.path(), fate);
            let spoilt = files(dir.path());

            let view = Store::open_read_only(dir.path()).unwrap();
            check_furnished(&view.handle(), key, 6);
            assert_eq!(view.recovery_report().findings.len(), 1);
            view.close().unwrap();
            assert_eq!(files(dir.path()), spoilt, "a look writes nothing");

            let store = open(dir.path());
            let findings = &store.recovery_report().findings;
            assert!(findings[0].contains(".meta.json"), "{findings:?}");
            assert_eq!(findings.len(), 1);
            check_furnished(&store.handle(), key, 6);
            store.close().unwrap();
            let mut after = files(dir.path());
            after.retain(|path, bytes| {
                let aside = path.starts_with(".sessionlog/quarantine");
                assert!(!aside || Some(&**bytes) == fate);
                !aside
            });
            // Its number is this life's.
            for files in [&mut before, &mut after] {
                assert!(files.remove(Path::new(".sessionlog/lock")).is_some());
            }
            assert_eq!(after, before, "all is as it was");

            let store = open(dir.path());
            assert!(store.recovery_report().findings.is_empty());
            add_numbers(&store.handle().exact_keys(), key, 6..8);
            check_furnished(&store.handle(), key, 8);
            store.close().unwrap();
        }
    }
}

/// Appends change nothing that is copied.
#[test]
fn p11_lines_appended_since_the_copy_are_there_and_counted() {
    let dir = scratch();
    let store = open(dir.path());
    furnish(&store.handle(), KEY);
    store.handle().flush().wait().unwrap();
    let copied = fs::read(dir.path().join(COPIES)).unwrap();
    add_numbers(&store.handle(), KEY, 6..2_000);
    store.close().unwrap();
    assert_eq!(fs::read(dir.path().join(COPIES)).unwrap(), copied);
    spoil(dir.path(), None);
    let store = open(dir.path());
    check_furnished(&store.handle(), KEY, 2_000);
    store.close().unwrap();
}

#[test]
fn p11_a_crash_that_takes_the_sidecars_along_brings_nothing_back() {
    for flushes in [false, true] {
        for fate in FATES {
            let (dir, left) = (scratch(), scratch());
            let store = open(dir.path());
            furnish(&store.handle(), KEY);
            if flushes {
                store.handle().flush().wait().unwrap();
            }
            add_numbers(&store.handle(), KEY, 6..9);
            copy_dir(dir.path(), left.path());
            store.close().unwrap();

            spoil(left.path(), fate);
            let view = Store::open_read_only(left.path()).unwrap();
            check_furnished(&view.handle(), KEY, 9);
            view.close().unwrap();
            let store = open(left.path());
            check_furnished(&store.handle(), KEY, 9);
            store.close().unwrap();
            // What the journal said of it is gone by now.
            spoil(left.path(), fate);
            let store = open(left.path());
            check_furnished(&store.handle(), KEY, 9);
            store.close().unwrap();
        }
    }
}

#[test]
fn p11_a_session_file_that_grew_keeps_hidden_what_was() {
    let seen = after_losing_it_with(|log| {
        let mut bytes = fs::read(log).unwrap();
        bytes.extend(line("later").bytes());
        fs::write(log, bytes).unwrap();
    });
    assert_eq!(
        seen,
        (
            vec!["4".into(), "5".into(), "later".into()],
            "what was said".into()
        )
    );
}

/// Shown, truncated lines do less harm than acknowledged ones hidden.
#[test]
fn p11_of_another_session_file_no_line_is_hidden() {
    let older = |log: &Path| {
        let text = fs::read_to_string(log).unwrap();
        let lines: Vec<_> = text.split_inclusive('\n').take(5).collect();
        fs::write(log, lines.concat()).unwrap();
    };
    let seen = after_losing_it_with(older);
    assert_eq!(seen, (numbers(0..5), "what was said".into()));

    let other = |log: &Path| {
        let lines: String = (10..30).map(|n| line(&n.to_string())).collect();
        fs::write(log, lines).unwrap();
    };
    let seen = after_losing_it_with(other);
    assert_eq!(seen, (numbers(10..30), "what was said".into()));

    let edited = |log: &Path| {
        let text = fs::read_to_string(log).unwrap();
        fs::write(log, text.replace("\"content\":\"4\"", "\"content\":\"x\"")).unwrap();
    };
    let (texts, _) = after_losing_it_with(edited);
    assert_eq!(texts, ["0", "1", "2", "3", "x", "5"]);
}

#[test]
fn p11_a_copy_from_before_a_compaction_hides_nothing_behind_it() {
    let dir = scratch();
    let store = open(dir.path());
    furnish(&store.handle(), KEY);
    store.close().unwrap();
    let stale = fs::read(dir.path().join(COPIES)).unwrap();
    let store = open(dir.path());
    store.handle().compact(KEY).wait().unwrap();
    add_numbers(&store.handle(), KEY, 6..60);
    store.close().unwrap();
    spoil(dir.path(), None);
    fs::write(dir.path().join(COPIES), stale).unwrap();
    let store = open(dir.path());
    assert_eq!(texts(&store.handle(), KEY), numbers(4..60));
    store.close().unwrap();
}

/// Going back makes another file of a session whose sidecar says the same.
#[test]
fn p11_what_a_revert_left_hidden_stays_hidden() {
    let dir = scratch();
    let store = open(dir.path());
    furnish(&store.handle(), KEY);
    let context = store.handle().context(KEY);
    let checkpoint = context.checkpoint(false).wait().unwrap();
    add_numbers(&store.handle(), KEY, 6..9);
    store.handle().flush().wait().unwrap();
    context.revert_to(checkpoint).wait().unwrap();
    store.close().unwrap();
    spoil(dir.path(), None);
    let store = open(dir.path());
    check_furnished(&store.handle(), KEY, 6);
    store.close().unwrap();
}

#[test]
fn p11_who_removes_a_session_file_removes_the_session() {
    let dir = scratch();
    let store = open(dir.path());
    furnish(&store.handle(), KEY);
    store.close().unwrap();
    spoil(dir.path(), None);
    fs::remove_file(dir.path().join(LOG)).unwrap();
    let store = open(dir.path());
    let chats = store.handle();
    assert!(store.recovery_report().findings.is_empty());
    assert!(chats.list_sessions().wait().unwrap().is_empty());
    assert_eq!(chats.summary(KEY).wait().unwrap(), "");
    // One of the same name has nothing of it, even if it loses its sidecar.
    add_numbers(&chats, KEY, 0..2);
    store.close().unwrap();
    spoil(dir.path(), None);
    let store = open(dir.path());
    assert_eq!(texts(&store.handle(), KEY), numbers(0..2));
    assert_eq!(store.handle().summary(KEY).wait().unwrap(), "");
    store.close().unwrap();
}

#[test]
fn p11_a_deleted_session_leaves_nothing_to_one_of_the_same_name() {
    for dies in [false, true] {
        let (dir, left) = (scratch(), scratch());
        let store = open(dir.path());
        furnish(&store.handle(), KEY);
        store.handle().flush().wait().unwrap();
        store.handle().delete_session(KEY).wait().unwrap();
        if dies {
            copy_dir(dir.path(), left.path());
            store.close().unwrap();
            open(left.path()).close().unwrap();
        } else {
            store.close().unwrap();
            copy_dir(dir.path(), left.path());
            let copies = fs::read_to_string(left.path().join(COPIES)).unwrap();
            assert!(!copies.contains("what was said"), "{copies}");
        }
        fs::write(left.path().join(LOG), line("new")).unwrap();
        let store = open(left.path());
        assert_eq!(texts(&store.handle(), KEY), ["new"]);
        assert_eq!(store.handle().summary(KEY).wait().unwrap(), "");
        let stem = LOG.strip_suffix(".jsonl").unwrap();
        assert_eq!(store.handle().list_sessions().wait().unwrap(), [stem]);
        store.close().unwrap();
    }
}

#[test]
fn p11_a_sidecar_that_is_there_wins_over_its_copy() {
    let dir = scratch();
    let store = open(dir.path());
    furnish(&store.handle(), KEY);
    store.close().unwrap();
    fs::write(dir.path().join(SIDECAR), sidecar(KEY, "PicoClaw's", 5, 6)).unwrap();
    let store = open(dir.path());
    assert_eq!(texts(&store.handle(), KEY), ["5"]);
    assert_eq!(store.handle().summary(KEY).wait().unwrap(), "PicoClaw's");
    add_numbers(&store.handle(), KEY, 6..7);
    store.close().unwrap();
    // The next flush copied it.
    spoil(dir.path(), None);
    let store = open(dir.path());
    assert_eq!(texts(&store.handle(), KEY), ["5", "6"]);
    assert_eq!(store.handle().summary(KEY).wait().unwrap(), "PicoClaw's");
    store.close().unwrap();
}

/// Truncation is a number in the sidecar. Without a copy of that, what was cut
/// off and not compacted away is visible again.
#[test]
fn p11_without_copies_a_history_outlives_its_sidecar_all_the_same() {
    for key in [KEY, ".hidden", &"k".repeat(600)] {
        for fate in FATES {
            let dir = scratch();
            let store = open(dir.path());
            furnish(&store.handle(), key);
            store.close().unwrap();
            spoil(dir.path(), fate);
            fs::remove_file(dir.path().join(COPIES)).unwrap();
            let store = open(dir.path());
            let chats = store.handle();
            assert_eq!(texts(&chats, key), numbers(0..6), "{key:?}");
            // Nothing names the owner of the file any more, until it writes.
            let listed = chats.list_sessions().wait().unwrap();
            assert!(dir.path().join(format!("{}.jsonl", listed[0])).exists());
            assert_eq!(texts(&chats, &listed[0]), numbers(0..6), "{listed:?}");
            add_numbers(&chats, key, 6..7);
            assert_eq!(texts(&chats, key), numbers(0..7), "{key:?}");
            assert_eq!(chats.list_sessions().wait().unwrap(), [key]);
            assert_eq!(chats.summary(key).wait().unwrap(), "");
            store.close().unwrap();
            assert_eq!(
                sidecars(dir.path()).len(),
                1,
                "the file found its owner again"
            );
        }
    }
}

#[test]
fn damaged_copies_cost_only_themselves() {
    let dir = scratch();
    let store = open(dir.path());
    furnish(&store.handle(), KEY);
    store.handle().set_summary("b", "of b").wait().unwrap();
    add_numbers(&store.handle(), "b", 0..1);
    store.close().unwrap();
    let path = dir.path().join(COPIES);
    let text = fs::read_to_string(&path).unwrap();
    let damaged = text.replace("\"skip\":4", "\"skip\":6");
    assert_ne!(damaged, text);
    fs::write(&path, format!("\0\0\0{damaged}{{\"check\":\"torn")).unwrap();
    spoil(dir.path(), None);
    let store = open(dir.path());
    let chats = store.handle();
    assert_eq!(texts(&chats, KEY), numbers(0..6));
    assert_eq!(chats.summary("b").wait().unwrap(), "of b");
    chats.set_summary("b", "again of b").wait().unwrap();
    store.close().unwrap();
    spoil(dir.path(), None);
    let store = open(dir.path());
    assert_eq!(store.handle().summary("b").wait().unwrap(), "again of b");
    store.close().unwrap();
}

#[test]
fn copies_take_no_more_than_twice_the_space_they_need() {
    let disk = MemoryStorage::new();
    let store = open_memory(&disk).unwrap();
    let chats = store.handle();
    let mut longest = 0;
    for n in 0..400 {
        let key = format!("k{}", n % 5);
        let summary = format!("{n} {}", "s".repeat(3_000));
        chats.set_summary(&key, &summary).wait().unwrap();
        chats.flush().wait().unwrap();
        let copies = disk.read_foreign(in_memory(COPIES)).unwrap();
        longest = longest.max(copies.len());
    }
    assert!(longest < 2 * 5 * 3_500 + (64 << 10), "{longest} bytes");
    store.close().unwrap();
}

#[test]
fn a_flush_of_sessions_that_were_only_appended_to_copies_no_sidecar() {
    const SESSIONS: usize = 2_000;
    let dir = scratch();
    let store = open(dir.path());
    let read = || fs::read(dir.path().join(COPIES)).unwrap();
    let chats = store.handle().with_durability(Durability::Buffered);
    let add_to_all = || {
        let replies: Vec<_> = (0..SESSIONS)
            .map(|n| chats.add_message(&format!("chat-{n}"), "user", "hi"))
            .collect();
        let runtime = tokio::runtime::Builder::new_current_thread().build();
        runtime.unwrap().block_on(async {
            for reply in replies {
                reply.await.unwrap();
            }
        });
        chats.flush().wait().unwrap();
    };
    add_to_all();
    let copied = read();
    assert_eq!(copied.split(|&b| b == b'\n').count(), 1 + SESSIONS + 1);
    add_to_all();
    assert!(read() == copied);
    store.close().unwrap();
    assert!(read() == copied);
}

#[test]
fn a_full_disk_fails_no_flush_for_a_copy_and_the_next_one_writes_it() {
    let disk = MemoryStorage::new();
    let store = open_memory(&disk).unwrap();
    let chats = store.handle();
    add_numbers(&chats, KEY, 0..2);
    chats.set_summary(KEY, "one and more").wait().unwrap();
    chats.flush().wait().unwrap();
    wait_for_spare_segment(&disk);
    let copied = disk.read_foreign(in_memory(COPIES)).unwrap();
    let used: usize = disk.dump().values().map(Vec::len).sum();
    // Enough for a new sidecar, which frees that of the old one: no copy fits in there.
    let sidecar = disk.read_foreign(in_memory(SIDECAR)).unwrap().len();
    disk.capacity((used + sidecar) as u64);
    chats.set_summary(KEY, "two and more").wait().unwrap();
    chats.flush().wait().unwrap();
    assert_eq!(disk.read_foreign(in_memory(COPIES)).unwrap(), copied);

    disk.capacity(u64::MAX);
    chats.flush().wait().unwrap();
    assert_ne!(disk.read_foreign(in_memory(COPIES)).unwrap(), copied);
    store.close().unwrap();
    disk.remove_foreign(in_memory(SIDECAR)).unwrap();
    let store = open_memory(&disk).unwrap();
    assert_eq!(store.handle().summary(KEY).wait().unwrap(), "two and more");
    store.close().unwrap();
}

/// It may be readable another time. Put back from its copy, it would be set aside
/// with all that it said since.
#[test]
fn a_sidecar_that_cannot_be_read_is_left_alone() {
    let dir = scratch();
    let store = open(dir.path());
    furnish(&store.handle(), KEY);
    store.close().unwrap();
    let elsewhere = scratch();
    let real = elsewhere.path().join("real");
    fs::rename(dir.path().join(SIDECAR), &real).unwrap();
    std::os::unix::fs::symlink(&real, dir.path().join(SIDECAR)).unwrap();
    let store = open(dir.path());
    assert!(store.handle().history(KEY).wait().is_err());
    store.close().unwrap();
    let link = fs::symlink_metadata(dir.path().join(SIDECAR)).unwrap();
    assert!(link.is_symlink());
}
