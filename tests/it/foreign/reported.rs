//! What others did that recovery once took for something else: each of these lost, doubled
//! or brought back a message, or kept a store from opening.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::picoclaw::{InMemory, PicoClaw};
use sessionlog::testing::disk_model::{Fault, Image, MemoryStorage, Repeat};
use sessionlog::testing::sim::{DIR, Sim};
use sessionlog::{BackupReason, Message, Reply, StoreOptions};

fn open(disk: &MemoryStorage) -> sessionlog::Result<Sim> {
    let options = StoreOptions::new().auto_compact(false);
    Sim::open(disk.clone(), &options, 0)
}

fn run<T: Clone + Send + 'static>(
    sim: &mut Sim,
    call: impl FnOnce(&sessionlog::StoreHandle) -> Reply<T>,
) -> T {
    let reply = call(&sim.handle().exact_keys());
    sim.run(reply).unwrap()
}

fn add(sim: &mut Sim, key: &str, texts: &[&str]) {
    for text in texts {
        run(sim, |chats| chats.add_message(key, "user", text));
    }
}

fn history(sim: &mut Sim, key: &str) -> Vec<String> {
    let messages = run(sim, |chats| chats.history(key));
    messages.iter().map(|m| m.text().into_owned()).collect()
}

/// What each backup of a session shows.
fn backups(sim: &mut Sim, key: &str) -> Vec<Vec<String>> {
    let mut all = Vec::new();
    for backup in run(sim, |chats| chats.list_backups(key)) {
        if backup.reason == BackupReason::Conflict {
            run(sim, |chats| chats.restore_backup(key, backup.number));
            all.push(history(sim, key));
        }
    }
    all
}

fn path(name: &str) -> PathBuf {
    Path::new(DIR).join(name)
}

fn theirs(text: &str) -> Vec<u8> {
    let line = r#"{"role":"user","content":"TEXT","created_at":"2031-01-01T00:00:00Z"}"#;
    (line.replace("TEXT", text) + "\n").into_bytes()
}

fn sidecar(skip: usize, count: usize) -> Vec<u8> {
    let times = r#""created_at":"2026-01-01T00:00:00Z","updated_at":"2031-01-01T00:00:00Z""#;
    format!(r#"{{"key":"a","summary":"","skip":{skip},"count":{count},{times}}}"#).into_bytes()
}

fn count(log: &[u8]) -> usize {
    log.split(|byte| *byte == b'\n')
        .filter(|line| !line.is_empty())
        .count()
}

/// The disk after a crash, and after others removed the session or wrote it anew.
fn taken(disk: &MemoryStorage, removed: bool) -> MemoryStorage {
    let disk = disk.image(Image::ProcessDeath);
    disk.remove_foreign(path("a.jsonl")).unwrap();
    let _ = disk.remove_foreign(path("a.meta.json"));
    if !removed {
        let (log, meta) = (theirs("t"), sidecar(0, 1));
        disk.replace_foreign(path("a.jsonl"), &log).unwrap();
        disk.replace_foreign(path("a.meta.json"), &meta).unwrap();
    }
    disk
}

fn temps(disk: &MemoryStorage) -> Vec<PathBuf> {
    let mut names: Vec<_> = disk.dump().into_keys().map(PathBuf::from).collect();
    names.retain(|name| {
        let is_hidden = |name: &str| name.starts_with(".sessionlog-");
        let is_temp = name.extension().is_some_and(|ending| ending == "tmp");
        is_temp
            && name
                .file_name()
                .and_then(|name| name.to_str())
                .is_some_and(is_hidden)
    });
    names
}

/// The disk after a crash before each call of a command; whether it was answered.
fn cut_short<T: Clone + Send + 'static>(
    prepare: impl Fn(&mut Sim),
    command: impl Fn(&sessionlog::StoreHandle) -> Reply<T>,
    mut look: impl FnMut(MemoryStorage, bool),
) {
    for step in 0.. {
        let disk = MemoryStorage::new();
        let mut sim = open(&disk).unwrap();
        prepare(&mut sim);
        disk.crash_at(disk.steps() + step);
        let reply = command(&sim.handle().exact_keys());
        let ticket = sim.submit(reply);
        let answered = matches!(sim.until_answered(&ticket), Some(Ok(_)));
        drop(sim);
        look(disk, answered);
        if answered {
            return;
        }
    }
}

#[test]
fn a_line_taken_out_that_is_as_long_as_the_last_doubles_nothing() {
    for image in [Image::ProcessDeath, Image::AllLost] {
        let disk = MemoryStorage::new();
        let mut sim = open(&disk).unwrap();
        let made = |text: &str| Message::user(text).with_created_at("2030-01-01T00:00:00Z");
        for text in ["aa", "bb"] {
            run(&mut sim, |chats| {
                chats.add_full_message("a", made(text).unwrap())
            });
        }
        sim.flush().unwrap();
        run(&mut sim, |chats| {
            chats.add_full_message("a", made("cc").unwrap())
        });
        sim.pause(Duration::from_millis(200));
        drop(sim);
        let disk = disk.image(image);
        let log = disk.read_foreign(path("a.jsonl")).unwrap();
        let lines: Vec<_> = log.split_inclusive(|byte| *byte == b'\n').collect();
        disk.replace_foreign(path("a.jsonl"), &lines[1..].concat())
            .unwrap();
        let mut sim = open(&disk).unwrap();
        let found = history(&mut sim, "a");
        let seen: Vec<_> = ["bb", "cc"][..lines.len() - 1].to_vec();
        let kept = backups(&mut sim, "a").concat();
        assert_eq!(found, seen, "{image:?}");
        assert!(
            found.iter().chain(&kept).any(|text| text == "cc"),
            "{image:?}: {kept:?}"
        );
    }
}

#[test]
fn a_new_history_that_another_program_replaced_or_removed_is_a_backup_unless_there_was_none() {
    for removed in [false, true] {
        for flushed in [false, true] {
            let disk = MemoryStorage::new();
            let mut sim = open(&disk).unwrap();
            if flushed {
                add(&mut sim, "a", &["old"]);
                sim.flush().unwrap();
            }
            let new = || vec![Message::user("x"), Message::user("y")];
            run(&mut sim, |chats| chats.set_history("a", new()));
            add(&mut sim, "a", &["z"]);
            sim.pause(Duration::from_millis(200));
            drop(sim);
            let disk = taken(&disk, removed);
            let mut sim = open(&disk).unwrap();
            let new = ["x", "y", "z"];
            let there: &[&str] = match (removed, flushed) {
                // It may be that the crash came before there was a file.
                (true, false) => &new,
                (false, false) => &["x", "y", "z", "t"],
                (true, true) => &[],
                (false, true) => &["t"],
            };
            let what = format!("removed {removed}, flushed {flushed}");
            assert_eq!(history(&mut sim, "a"), there, "{what}");
            let listed = run(&mut sim, sessionlog::StoreHandle::list_sessions);
            assert_eq!(listed.is_empty(), there.is_empty(), "{what}: {listed:?}");
            let kept = backups(&mut sim, "a");
            assert!(!flushed || kept == [new], "{what}: {kept:?}");
        }
    }
}

#[test]
fn what_the_journal_holds_of_a_compacted_session_that_they_replaced_is_a_backup() {
    let disk = MemoryStorage::new();
    let mut sim = open(&disk).unwrap();
    add(&mut sim, "a", &["0", "1", "2", "3"]);
    run(&mut sim, |chats| chats.truncate_history("a", 2));
    run(&mut sim, |chats| chats.compact("a"));
    add(&mut sim, "a", &["4"]);
    drop(sim);
    for removed in [false, true] {
        let disk = taken(&disk, removed);
        let mut sim = open(&disk).unwrap();
        let there: &[&str] = if removed { &[] } else { &["t"] };
        assert_eq!(history(&mut sim, "a"), there);
        assert_eq!(
            backups(&mut sim, "a"),
            [["2", "3", "4"]],
            "removed {removed}"
        );
    }
}

/// A session that shows its last line, "3", and a file of another program with these lines
/// of it.
fn left_with(lines: &[usize]) -> MemoryStorage {
    let disk = MemoryStorage::new();
    let mut sim = open(&disk).unwrap();
    add(&mut sim, "a", &["0"]);
    sim.flush().unwrap();
    // Of one time.
    let texts = ["1", "2", "3"].map(Message::user);
    run(&mut sim, |chats| chats.append_all("a", texts.into()));
    run(&mut sim, |chats| chats.truncate_history("a", 1));
    sim.pause(Duration::from_millis(50));
    drop(sim);
    let disk = disk.image(Image::ProcessDeath);
    let log = disk.read_foreign(path("a.jsonl")).unwrap();
    let all: Vec<_> = log.split_inclusive(|byte| *byte == b'\n').collect();
    let left: Vec<_> = lines.iter().map(|nth| all[*nth]).collect();
    disk.replace_foreign(path("a.jsonl"), &left.concat())
        .unwrap();
    disk
}

#[test]
fn truncated_lines_that_they_took_out_hide_none_that_is_shown() {
    for left in [&[3][..], &[0, 3], &[2, 3], &[0, 1, 3], &[1, 2, 3]] {
        let mut sim = open(&left_with(left)).unwrap();
        assert_eq!(history(&mut sim, "a"), ["3"], "{left:?}");
    }
}

#[test]
fn a_truncated_line_that_they_left_is_not_taken_for_a_shown_one_of_its_time() {
    for left in [&[1][..], &[2], &[0, 2], &[1, 2]] {
        let mut sim = open(&left_with(left)).unwrap();
        assert_eq!(history(&mut sim, "a"), [""; 0], "{left:?}");
        assert_eq!(backups(&mut sim, "a"), [["3"]], "{left:?}");
    }
}

#[test]
fn what_another_program_cleared_stays_cleared_and_is_a_backup() {
    for clear_first in [false, true] {
        for wait in [40, 200, 1_500] {
            let disk = MemoryStorage::new();
            let mut sim = open(&disk).unwrap();
            if clear_first {
                add(&mut sim, "a", &["old"]);
                sim.flush().unwrap();
                run(&mut sim, |chats| chats.context("a").clear());
            }
            add(&mut sim, "a", &["one", "two"]);
            sim.pause(Duration::from_millis(wait));
            drop(sim);
            let disk = disk.image(Image::ProcessDeath);
            disk.replace_foreign(path("a.meta.json"), &sidecar(0, 0))
                .unwrap();
            disk.replace_foreign(path("a.jsonl"), b"").unwrap();
            let mut sim = open(&disk).unwrap();
            let what = format!(
                "clear_first {clear_first}, {wait} ms: {:?}",
                sim.report().findings
            );
            assert_eq!(history(&mut sim, "a"), [""; 0], "{what}");
            if wait < 1_500 {
                assert_eq!(backups(&mut sim, "a"), [["one", "two"]], "{what}");
            }
        }
    }
}

#[test]
fn an_edit_beside_a_sidecar_that_a_crash_tore_shows_nothing_that_was_truncated() {
    for torn in [false, true] {
        let disk = MemoryStorage::new();
        let mut sim = open(&disk).unwrap();
        add(&mut sim, "a", &["one", "two", "three", "four"]);
        sim.flush().unwrap();
        run(&mut sim, |chats| chats.truncate_history("a", 1));
        if torn {
            sim.flush().unwrap();
            add(&mut sim, "a", &["five"]);
        }
        drop(sim);
        let disk = disk.image(Image::ProcessDeath);
        if torn {
            let mut bytes = disk.read_foreign(path("a.meta.json")).unwrap();
            bytes[30..].fill(0);
            disk.write_foreign(path("a.meta.json"), &bytes).unwrap();
        }
        let log = String::from_utf8(disk.read_foreign(path("a.jsonl")).unwrap()).unwrap();
        let log = log.replace("four", "fourth");
        disk.replace_foreign(path("a.jsonl"), log.as_bytes())
            .unwrap();
        let mut sim = open(&disk).unwrap();
        let found = history(&mut sim, "a");
        assert!(found.contains(&"fourth".into()), "torn {torn}: {found:?}");
        for hidden in ["one", "two", "three"] {
            assert!(!found.contains(&hidden.into()), "torn {torn}: {found:?}");
        }
    }
}

/// They saw the file from before a compaction, and hid all but its last line.
#[test]
fn a_line_equal_to_one_that_was_hidden_before_is_not_hidden_with_it() {
    let made = |text: &str| {
        Message::user(text)
            .with_created_at("2030-01-01T00:00:00Z")
            .unwrap()
    };
    let prepare = |sim: &mut Sim| {
        let four = ["ok", "a", "b", "c"].map(made).to_vec();
        run(sim, |chats| chats.append_all("a", four));
        run(sim, |chats| chats.truncate_history("a", 2));
        sim.flush().unwrap();
    };
    let (mut looks, options) = (0, StoreOptions::new().auto_compact(false));
    for step in 0..200 {
        let disk = MemoryStorage::new();
        let mut sim = Sim::open(disk.clone(), &options, 0).unwrap();
        prepare(&mut sim);
        disk.crash_at(disk.steps() + step);
        let reply = sim.handle().exact_keys().compact("a");
        let compacted = sim.submit(reply);
        sim.until_answered(&compacted);
        let reply = sim
            .handle()
            .exact_keys()
            .append_all("a", vec![made("ok"), made("ok2")]);
        let added = sim.submit(reply);
        let answered = matches!(sim.until_answered(&added), Some(Ok(())));
        drop(sim);
        for image in [Image::AllLost, Image::ProcessDeath]
            .into_iter()
            .filter(|_| answered)
        {
            let disk = disk.image(image);
            let lines = count(&disk.read_foreign(path("a.jsonl")).unwrap());
            disk.replace_foreign(path("a.meta.json"), &sidecar(lines - 1, lines))
                .unwrap();
            let mut sim = open(&disk).unwrap();
            let found = history(&mut sim, "a");
            if lines == 4 {
                assert_eq!(found, ["c", "ok", "ok2"], "step {step}, {image:?}");
                looks += 1;
            }
        }
    }
    assert!(
        looks > 0,
        "no crash left the file from before the compaction"
    );
}

#[test]
fn a_prepared_file_that_somebody_tidied_away_takes_no_line_along() {
    let prepare = |sim: &mut Sim| {
        add(sim, "a", &["one", "two"]);
        run(sim, |chats| chats.truncate_history("a", 1));
        sim.flush().unwrap();
        add(sim, "a", &["three"]);
    };
    let mut looks = 0;
    cut_short(
        prepare,
        |chats| chats.compact("a"),
        |disk, _| {
            for image in [Image::AllLost, Image::ProcessDeath] {
                let disk = disk.image(image);
                for temp in temps(&disk) {
                    disk.remove_foreign(temp).unwrap();
                    looks += 1;
                }
                let mut sim = open(&disk).unwrap();
                assert_eq!(history(&mut sim, "a"), ["two", "three"], "{image:?}");
            }
        },
    );
    assert!(looks > 0);
}

#[test]
fn a_new_history_whose_file_somebody_tidied_away_brings_no_old_line_back() {
    let old = ["one", "two", "three"];
    let mut looks = 0;
    cut_short(
        |sim| {
            add(sim, "a", &old);
            sim.flush().unwrap();
        },
        |chats| chats.set_history("a", vec![Message::user("new")]),
        |disk, answered| {
            let disk = disk.image(Image::ProcessDeath);
            for temp in temps(&disk) {
                disk.remove_foreign(temp).unwrap();
                looks += 1;
            }
            let mut sim = open(&disk).unwrap();
            let history = history(&mut sim, "a");
            let is_old = history == old && !answered;
            assert!(is_old || history == ["new"], "{answered}: {history:?}");
        },
    );
    assert!(looks > 0);
}

#[test]
fn a_prepared_file_of_a_session_that_is_gone_does_not_stay() {
    let prepare = |sim: &mut Sim| {
        add(sim, "a", &["one"]);
        add(sim, "b", &["one"]);
        sim.flush().unwrap();
    };
    let mut looks = 0;
    let new = |text| vec![Message::user(text)];
    cut_short(
        prepare,
        |chats| chats.set_history("a", new("new")),
        |disk, _| {
            let disk = disk.image(Image::ProcessDeath);
            looks += temps(&disk).len();
            disk.remove_foreign(path("a.jsonl")).unwrap();
            disk.remove_foreign(path("a.meta.json")).unwrap();
            let mut sim = open(&disk).unwrap();
            assert_eq!(temps(&disk), [""; 0].map(PathBuf::from));
            run(&mut sim, |chats| chats.set_history("b", new("b2")));
        },
    );
    assert!(looks > 0);
}

#[test]
fn a_full_disk_takes_no_more_with_every_open_that_fails() {
    let disk = MemoryStorage::new();
    let big = "x".repeat(1 << 18);
    let mut sim = open(&disk).unwrap();
    for key in ["a", "b"] {
        add(&mut sim, key, &[&*big; 4]);
    }
    sim.flush().unwrap();
    for key in ["a", "b"] {
        add(&mut sim, key, &["ours"]);
    }
    drop(sim);
    let disk = disk.image(Image::ProcessDeath);
    for key in ["a", "b"] {
        disk.append_foreign(path(&format!("{key}.jsonl")), &theirs("t"))
            .unwrap();
    }
    let used: usize = disk.dump().values().map(Vec::len).sum();
    let opens = |free: usize| {
        let disk = disk.image(Image::ProcessDeath);
        disk.capacity((used + free) as u64);
        open(&disk).is_ok()
    };
    let needed = (1..100).map(|n| n << 16).find(|free| opens(*free)).unwrap();
    disk.capacity((used + needed - (1 << 18)) as u64);
    for _ in 0..4 {
        open(&disk).unwrap_err();
    }
    disk.capacity((used + needed) as u64);
    let mut sim = open(&disk).unwrap();
    assert_eq!(history(&mut sim, "b").last().unwrap(), "t");
}

#[test]
fn recovery_of_many_sessions_needs_few_open_files() {
    for cleared in [false, true] {
        let disk = MemoryStorage::new();
        let mut sim = open(&disk).unwrap();
        let keys: Vec<_> = (0..60).map(|n| format!("k{n}")).collect();
        for key in &keys {
            add(&mut sim, key, &["one"]);
        }
        sim.flush().unwrap();
        for key in &keys {
            if cleared {
                run(&mut sim, |chats| chats.context(key).clear());
            } else {
                add(&mut sim, key, &["two"]);
            }
        }
        drop(sim);
        let disk = disk.image(Image::ProcessDeath);
        for key in keys.iter().filter(|_| !cleared) {
            disk.append_foreign(path(&format!("{key}.jsonl")), &theirs("t"))
                .unwrap();
        }
        disk.set_open_file_limit(40);
        let mut sim = open(&disk).unwrap();
        for key in &keys {
            let there: &[&str] = if cleared { &[] } else { &["one", "two", "t"] };
            assert_eq!(history(&mut sim, key), there);
        }
    }
}

#[test]
fn a_block_that_cannot_be_read_keeps_no_store_shut() {
    let disk = MemoryStorage::new();
    let mut sim = open(&disk).unwrap();
    add(&mut sim, "a", &["one"]);
    add(&mut sim, "b", &["one"]);
    sim.flush().unwrap();
    add(&mut sim, "a", &["two"]);
    run(&mut sim, |chats| chats.set_summary("b", "s"));
    drop(sim);
    let disk = disk.image(Image::ProcessDeath);
    let probe = disk.image(Image::ProcessDeath);
    drop(open(&probe).unwrap());
    let mut looks = 0;
    for step in 0..probe.steps() {
        let calls = probe.last_calls(usize::try_from(probe.steps() - step).unwrap());
        let call = calls.first().cloned().unwrap_or_default();
        if !call.contains("read_at") || !call.contains(".jsonl") {
            continue;
        }
        let disk = disk.image(Image::ProcessDeath);
        disk.fail_at(step, Fault::Eio, Repeat::Once);
        let mut sim = open(&disk).unwrap();
        assert_eq!(history(&mut sim, "a"), ["one", "two"], "{call}");
        assert_eq!(run(&mut sim, |chats| chats.summary("b")), "s", "{call}");
        looks += 1;
    }
    assert!(looks > 0);
}

#[test]
fn a_title_outlives_whatever_picoclaw_writes_after_a_crash_at_any_call() {
    type Deed = fn(&PicoClaw<InMemory>);
    let deeds: [Deed; 4] = [
        |p| p.set_summary("a", "theirs").unwrap(),
        |p| p.add("a", "user", "theirs").unwrap(),
        |p| p.truncate("a", 1).unwrap(),
        |p| {
            p.set_history("a", &[]).unwrap();
            p.set_summary("a", "").unwrap();
        },
    ];
    let mut cases = 0;
    for deed in deeds {
        let prepare = |sim: &mut Sim| {
            add(sim, "a", &["one", "two"]);
            run(sim, |chats| chats.set_title("a", "old"));
            sim.flush().unwrap();
        };
        let command = |chats: &sessionlog::StoreHandle| chats.set_title("a", "new");
        cut_short(prepare, command, |disk, answered| {
            let disk = disk.image(Image::ProcessDeath);
            deed(&PicoClaw::new(InMemory::new(&disk, DIR), 1));
            for _ in 0..2 {
                let mut sim = open(&disk).unwrap();
                let title = run(&mut sim, |chats| chats.session_meta("a")).tags.title;
                assert!(title == "new" || title == "old" && !answered, "{title:?}");
                sim.close().unwrap();
            }
            cases += 1;
        });
    }
    assert!(cases > 10, "{cases}");
}

#[test]
fn a_field_that_both_changed_is_theirs_and_ours_is_in_the_backup_and_told() {
    let disk = MemoryStorage::new();
    let mut sim = open(&disk).unwrap();
    add(&mut sim, "a", &["one"]);
    sim.flush().unwrap();
    run(&mut sim, |chats| chats.set_summary("a", "ours"));
    run(&mut sim, |chats| {
        chats.upsert_session_meta("a", None, vec![String::from("name")])
    });
    drop(sim);
    let disk = disk.image(Image::ProcessDeath);
    let picoclaw = PicoClaw::new(InMemory::new(&disk, DIR), 1);
    picoclaw.set_summary("a", "theirs").unwrap();

    let mut sim = open(&disk).unwrap();
    let findings = sim.report().findings.join("\n");
    assert!(findings.contains("both changed its summary"), "{findings}");
    let meta = run(&mut sim, |chats| chats.session_meta("a"));
    assert_eq!(
        (meta.summary.as_str(), &*meta.aliases),
        ("theirs", &["name".to_owned()][..])
    );
    assert_eq!(history(&mut sim, "a"), ["one"]);
    assert_eq!(backups(&mut sim, "a"), [["one"]]);
    let is_backup = |path: &str| path.contains("/backups/a.") && path.ends_with(".meta.json");
    let mut sidecars = disk.dump().into_iter().filter(|(path, _)| is_backup(path));
    let of_ours = |bytes: &[u8]| String::from_utf8_lossy(bytes).contains("\"summary\": \"ours\"");
    assert!(sidecars.any(|(_, bytes)| of_ours(&bytes)));
}

/// A link has come in the place of the file, which alone had the older lines.
#[test]
fn a_link_in_a_files_place_costs_nothing_wherever_the_open_after_a_crash_is_cut_short() {
    let disk = MemoryStorage::new();
    let mut sim = open(&disk).unwrap();
    add(&mut sim, "a", &["1", "2"]);
    sim.flush().unwrap();
    add(&mut sim, "a", &["3", "4"]);
    run(&mut sim, |chats| chats.truncate_history("a", 3));
    run(&mut sim, |chats| chats.set_summary("a", "new"));
    let crashed = disk.image(Image::AllLost);
    drop(sim);
    let log = crashed.read_foreign(path("a.jsonl")).unwrap();
    crashed.remove_foreign(path("a.jsonl")).unwrap();
    crashed.link_foreign(path("a.jsonl")).unwrap();
    for step in 0.. {
        let disk = crashed.image(Image::ProcessDeath);
        disk.crash_at(disk.steps() + step);
        let was_cut = open(&disk).is_err();
        for image in [Image::AllKept, Image::AllLost] {
            let disk = disk.image(image);
            let mut sim = open(&disk).unwrap_or_else(|e| panic!("{step}: {e}"));
            let refused = sim.handle().history("a");
            let refused = sim.run(refused).unwrap_err().to_string();
            assert!(refused.contains("a.jsonl"), "{step}: {refused}");
            sim.close().unwrap();
            disk.remove_foreign(path("a.jsonl")).unwrap();
            disk.replace_foreign(path("a.jsonl"), &log).unwrap();
            let mut sim = open(&disk).unwrap();
            // What was truncated is the first of the lines that the file has.
            assert_eq!(history(&mut sim, "a"), ["2"], "{step} {image:?}");
            let meta = run(&mut sim, |chats| chats.session_meta("a"));
            assert_eq!(meta.summary, "new", "{step} {image:?}");
            assert_eq!(backups(&mut sim, "a"), [["3", "4"]], "{step} {image:?}");
            sim.close().unwrap();
        }
        if !was_cut {
            assert!(step > 40, "{step}");
            break;
        }
    }
}

/// No other session may be kept from opening by it.
#[test]
fn a_directory_in_a_sidecars_place_goes_aside_also_where_the_file_was_changed() {
    let disk = MemoryStorage::new();
    let mut sim = open(&disk).unwrap();
    add(&mut sim, "a", &["1"]);
    sim.flush().unwrap();
    add(&mut sim, "a", &["2"]);
    add(&mut sim, "b", &["fine"]);
    let disk = disk.image(Image::ProcessDeath);
    drop(sim);
    disk.replace_foreign(path("a.jsonl"), &theirs("t")).unwrap();
    disk.remove_foreign(path("a.meta.json")).unwrap();
    disk.write_foreign(path("a.meta.json/mine"), b"mine")
        .unwrap();
    let mut sim = open(&disk).unwrap();
    assert_eq!(history(&mut sim, "a"), ["t"]);
    assert_eq!(history(&mut sim, "b"), ["fine"]);
    // The first was in the file that they replaced.
    assert_eq!(backups(&mut sim, "a"), [["2"]]);
    sim.close().unwrap();
    let mine = disk.dump().into_values();
    assert_eq!(mine.filter(|bytes| bytes == b"mine").count(), 1);
}
