//! Power cuts and deaths between any two steps of a change to several files.

use sessionlog::testing::disk_model::{Image, MemoryStorage};
use sessionlog::{BackupReason, Message, Store, StoreHandle};

use crate::support::{
    add_numbers, copy_dir, line, numbers, open, open_memory, scope, scratch, sidecar, texts,
    wait_for_spare_segment,
};

const KEY: &str = "telegram:1";

/// What is looked at of a crash before `step`.
fn images(step: u64) -> impl Iterator<Item = Image> {
    let drawn = (0..2).map(move |n| Image::Random(step * 2 + n));
    Image::NAMED.into_iter().chain(drawn)
}

/// Makes `change` on what `prepare` left, with the power cut before every step
/// in turn, and lets `check` look at every image of the crash. It is told
/// whether the change was acknowledged. Ends with a run that no cut reached.
fn crash_at_every_step(
    prepare: impl Fn(&StoreHandle),
    change: impl Fn(&StoreHandle) -> bool,
    check: impl Fn(&StoreHandle, bool, &str),
) {
    let prepared = MemoryStorage::new();
    let store = open_memory(&prepared).unwrap();
    prepare(&store.handle());
    store.close().unwrap();
    for later in 0.. {
        let disk = prepared.image(Image::AllLost);
        let store = open_memory(&disk).unwrap();
        wait_for_spare_segment(&disk);
        let step = disk.steps() + later;
        disk.crash_at(step);
        let acknowledged = change(&store.handle());
        let _ = store.close();
        let survived = disk.steps() <= step;
        for image in images(step) {
            let after = disk.image(image);
            let when = format!(
                "cut before step {step}, {image:?}, after\n{}",
                disk.last_calls(40).join("\n")
            );
            let store = open_memory(&after).unwrap_or_else(|e| panic!("{when}: {e}"));
            check(&store.handle(), acknowledged, &when);
            store.close().unwrap();
            let leftovers: Vec<_> = after
                .dump()
                .into_keys()
                .filter(|name| name.contains(".tmp") || name.contains("recovery-"))
                .collect();
            assert!(leftovers.is_empty(), "{when}: {leftovers:?}");
        }
        if survived {
            assert!(acknowledged, "the change failed without a crash");
            return;
        }
    }
}

fn ten_of_which_two_are_live(chats: &StoreHandle) {
    add_numbers(chats, KEY, 0..10);
    chats.truncate_history(KEY, 2).wait().unwrap();
}

#[test]
fn p04_no_crash_during_a_compaction_brings_truncated_messages_back() {
    crash_at_every_step(
        ten_of_which_two_are_live,
        |chats| chats.compact(KEY).wait().is_ok(),
        |chats, _, when| assert_eq!(texts(chats, KEY), numbers(8..10), "{when}"),
    );
}

#[test]
fn p04_no_crash_during_set_history_mixes_old_and_new() {
    let new = || vec![Message::user("new"), Message::assistant("newer")];
    crash_at_every_step(
        ten_of_which_two_are_live,
        |chats| chats.set_history(KEY, new()).wait().is_ok(),
        |chats, acknowledged, when| {
            let found = texts(chats, KEY);
            let old = !acknowledged && found == numbers(8..10);
            assert!(old || found == ["new", "newer"], "{when}: {found:?}");
        },
    );
}

#[test]
fn p04_no_crash_between_truncate_and_append_brings_truncated_messages_back() {
    crash_at_every_step(
        |chats| add_numbers(chats, KEY, 0..5),
        |chats| {
            chats.truncate_history(KEY, 1).wait().is_ok()
                && chats.add_message(KEY, "user", "5").wait().is_ok()
        },
        |chats, acknowledged, when| {
            let found = texts(chats, KEY);
            let possible = [numbers(0..5), numbers(4..5), numbers(4..6)];
            let from = if acknowledged { 2 } else { 0 };
            assert!(possible[from..].contains(&found), "{when}: {found:?}");
        },
    );
}

#[test]
fn p05_no_crash_during_a_promotion_hides_what_was_promoted_or_comes_after() {
    let alias = "telegram:old";
    crash_at_every_step(
        |chats| {
            add_numbers(chats, KEY, 0..5);
            chats.truncate_history(KEY, 0).wait().unwrap();
            add_numbers(chats, alias, 10..13);
            chats.set_summary(alias, "before").wait().unwrap();
        },
        |chats| {
            let promoted = chats.promote_alias_history(KEY, None, vec![alias.into()]);
            promoted.wait().is_ok_and(|taken| taken)
        },
        |chats, acknowledged, when| {
            let exact = chats.exact_keys();
            let mut found = texts(&exact, KEY);
            let summary = exact.summary(KEY).wait().unwrap();
            if !acknowledged && found.is_empty() {
                assert_eq!(summary, "", "{when}");
            } else {
                assert_eq!(found, numbers(10..13), "{when}");
                assert_eq!(summary, "before", "{when}");
            }
            exact.add_message(KEY, "user", "next").wait().unwrap();
            found.push(String::from("next"));
            assert_eq!(texts(&exact, KEY), found, "{when}");
            assert_eq!(texts(&exact, alias), numbers(10..13), "{when}");
        },
    );
}

#[test]
fn p04_a_disk_that_fills_up_during_a_compaction_changes_nothing() {
    use sessionlog::testing::disk_model::{Fault, Repeat};
    let prepared = MemoryStorage::new();
    let store = open_memory(&prepared).unwrap();
    ten_of_which_two_are_live(&store.handle());
    store.close().unwrap();
    for later in 0.. {
        let disk = prepared.image(Image::AllLost);
        let store = open_memory(&disk).unwrap();
        let chats = store.handle();
        assert_eq!(texts(&chats, KEY), numbers(8..10));
        disk.fail_at(disk.steps() + later, Fault::Enospc, Repeat::Once);
        let result = chats.compact(KEY).wait();
        assert_eq!(texts(&chats, KEY), numbers(8..10), "{later}: {result:?}");
        let hit = disk.faults_hit() > 0;
        drop(store);
        disk.heal();
        let store = open_memory(&disk).unwrap();
        assert_eq!(
            texts(&store.handle(), KEY),
            numbers(8..10),
            "{later}: {result:?}"
        );
        store.close().unwrap();
        if !hit {
            break;
        }
    }
}

#[test]
fn p05_no_crash_leaves_an_identity_without_its_inheritance_or_the_other_way_round() {
    let alias = "telegram:old";
    let json = "{\"v\":1}";
    crash_at_every_step(
        |chats| add_numbers(chats, alias, 0..3),
        |chats| {
            let ensured = chats.ensure_session_metadata(KEY, scope(json), vec![alias.into()]);
            ensured.wait().is_ok_and(|taken| taken)
        },
        |chats, acknowledged, when| {
            let exact = chats.exact_keys();
            let meta = exact.session_meta(KEY).wait().unwrap();
            let found = texts(&exact, KEY);
            let resolved = chats.resolve_session_key(alias).wait().unwrap();
            if !acknowledged && found.is_empty() {
                assert!(meta.scope.is_none() && meta.aliases.is_empty(), "{when}");
                assert_eq!(resolved.as_deref(), Some(alias), "{when}");
            } else {
                assert_eq!(found, numbers(0..3), "{when}");
                assert_eq!(meta.scope.unwrap().get(), json, "{when}");
                assert_eq!(resolved.as_deref(), Some(KEY), "{when}");
            }
        },
    );
}

/// What PicoClaw does to a session it finds: a compaction that keeps its newest lines,
/// and one message more.
fn picoclaw_compacts_and_adds(dir: &std::path::Path, kept: usize) {
    let log = dir.join("a.jsonl");
    let text = std::fs::read_to_string(&log).unwrap();
    let lines: Vec<_> = text.lines().collect();
    let newest = &lines[lines.len().saturating_sub(kept)..];
    let mut text = newest.join("\n") + "\n";
    text += &line("theirs");
    std::fs::write(log, text).unwrap();
    std::fs::write(
        dir.join("a.meta.json"),
        sidecar("a", "", 0, newest.len() + 1),
    )
    .unwrap();
}

/// The journal counts hidden lines of the file there was: taken for lines of another,
/// they would be what the other program kept, and go for good.
#[test]
fn what_another_program_left_after_a_crash_is_not_hidden_nor_compacted_away() {
    let (dir, left) = (scratch(), scratch());
    let store = open(dir.path());
    let chats = store.handle();
    add_numbers(&chats, "a", 0..50);
    chats.flush().wait().unwrap();
    chats.truncate_history("a", 10).wait().unwrap();
    add_numbers(&chats, "a", 50..51);
    copy_dir(dir.path(), left.path());
    store.close().unwrap();
    picoclaw_compacts_and_adds(left.path(), 10);

    let seen = texts(&Store::open_read_only(left.path()).unwrap().handle(), "a");
    let store = Store::open(left.path()).unwrap();
    assert!(!store.recovery_report().findings.is_empty());
    let found = texts(&store.handle(), "a");
    assert_eq!(found, seen);
    for own in numbers(41..50).into_iter().chain([String::from("theirs")]) {
        assert!(found.contains(&own), "{own} is missing of {found:?}");
    }
    store.close().unwrap();
    let store = Store::open(left.path()).unwrap();
    assert_eq!(texts(&store.handle(), "a"), found);
    // What they had not seen is a backup: they saw it if it had come to the file.
    if found.contains(&String::from("50")) {
        return;
    }
    let chats = store.handle();
    let backups = chats.list_backups("a").wait().unwrap();
    let newest = backups.last().unwrap();
    assert_eq!(newest.reason, BackupReason::Conflict);
    chats.restore_backup("a", newest.number).wait().unwrap();
    assert!(texts(&chats, "a").contains(&String::from("50")));
}
