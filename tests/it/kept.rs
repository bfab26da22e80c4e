//! The catalog that a store keeps when it ends in order, and the next open believes.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use sessionlog::testing::disk_model::{Image, MemoryStorage};
use sessionlog::testing::sim::{Sim, read_now, read_only};
use sessionlog::{Error, Message, Reply, SessionOrder, SessionQuery, Store, StoreOptions};

use crate::support::{said, scratch};

const KEPT: &str = ".sessionlog/catalog";

fn path(name: &str) -> PathBuf {
    Path::new("/sessions").join(name)
}

/// A store on a modelled disk, which keeps its catalog however few sessions it has.
fn opened(disk: &MemoryStorage) -> Sim {
    let options = StoreOptions::new().auto_compact(false);
    Sim::open(disk.clone(), &options, 0).unwrap()
}

/// Ends it in order, and says whether it kept its catalog.
fn closed(sim: Sim, disk: &MemoryStorage) -> bool {
    sim.close().unwrap();
    disk.read_foreign(path(KEPT)).is_some()
}

fn run<T: Clone + Send + 'static>(sim: &mut Sim, reply: Reply<T>) -> T {
    sim.run(reply).unwrap()
}

fn texts(sim: &mut Sim, key: &str) -> Vec<String> {
    let chats = sim.handle();
    let found: Vec<Message> = run(sim, chats.history(key));
    said(&found)
}

/// Sessions `chat:0` and so on, each with a message and the aliases `also:0` and
/// `agent:main:main`.
fn furnish(sim: &mut Sim, sessions: std::ops::Range<usize>) {
    let chats = sim.handle().exact_keys();
    for n in sessions {
        let key = format!("chat:{n}");
        let aliases = vec![format!("also:{n}"), String::from("agent:main:main")];
        run(sim, chats.add_message(&key, "user", &n.to_string()));
        run(sim, chats.upsert_session_meta(&key, None, aliases));
    }
}

/// A closed store of so many sessions that has kept its catalog.
fn furnished(sessions: usize) -> MemoryStorage {
    let disk = MemoryStorage::new();
    let mut sim = opened(&disk);
    furnish(&mut sim, 0..sessions);
    assert!(closed(sim, &disk), "keeps no catalog");
    disk
}

fn listed(sim: &mut Sim) -> Vec<String> {
    let chats = sim.handle();
    run(sim, chats.list_sessions())
}

fn resolved(sim: &mut Sim, key: &str) -> Option<String> {
    let chats = sim.handle();
    run(sim, chats.resolve_session_key(key))
}

#[test]
fn opening_after_a_clean_end_costs_the_same_however_many_sessions_there_are() {
    let steps = [3, 30].map(|sessions| {
        let disk = furnished(sessions);
        let before = disk.steps();
        let mut sim = opened(&disk);
        let steps = disk.steps() - before;
        assert_eq!(sim.report().sessions, sessions);
        assert_eq!(listed(&mut sim).len(), sessions);
        assert_eq!(sim.report().findings, [""; 0]);
        steps
    });
    assert_eq!(steps[0], steps[1]);
}

#[test]
fn what_is_kept_is_what_the_directory_would_say() {
    let disk = furnished(12);
    let kept = |disk: &MemoryStorage| {
        let mut sim = opened(disk);
        let keys = listed(&mut sim);
        assert_eq!(sim.report().contested_aliases, 0);
        let aliases: Vec<_> = (0..13)
            .map(|n| resolved(&mut sim, &format!("also:{n}")))
            .collect();
        let main = resolved(&mut sim, "agent:main:main");
        let said: Vec<_> = keys.iter().map(|key| texts(&mut sim, key)).collect();
        assert!(closed(sim, disk));
        (keys, aliases, main, said)
    };
    let believed = kept(&disk);
    disk.remove_foreign(path(KEPT)).unwrap();
    assert_eq!(believed, kept(&disk));
    assert_eq!(believed.0[..3], ["chat:0", "chat:1", "chat:10"]);
    assert_eq!(believed.1[11].as_deref(), Some("chat:11"));
    assert_eq!(believed.2.as_deref(), Some("chat:0"));
}

/// Round after round, so that what came after an open is kept beside what was kept before.
#[test]
fn what_changes_after_an_open_is_kept_at_the_next_end() {
    let disk = furnished(4);
    let mut sim = opened(&disk);
    let chats = sim.handle().exact_keys();
    furnish(&mut sim, 4..6);
    run(&mut sim, chats.delete_session("chat:0"));
    run(
        &mut sim,
        chats.upsert_session_meta("chat:1", None, vec!["new:1".into()]),
    );
    assert!(closed(sim, &disk));
    let mut sim = opened(&disk);
    assert_eq!(
        listed(&mut sim),
        ["chat:1", "chat:2", "chat:3", "chat:4", "chat:5"]
    );
    let meanings = ["also:0", "also:1", "new:1", "also:5", "agent:main:main"];
    let meanings = meanings.map(|alias| resolved(&mut sim, alias));
    let chat = |n| Some(format!("chat:{n}"));
    assert_eq!(meanings, [None, None, chat(1), chat(5), chat(2)]);
    let chats = sim.handle();
    run(&mut sim, chats.add_message("chat:0", "user", "again"));
    assert_eq!(texts(&mut sim, "chat:0"), ["again"]);
    assert_eq!(resolved(&mut sim, "also:0"), None);
    assert!(closed(sim, &disk));
    assert_eq!(listed(&mut opened(&disk)).len(), 6);
}

fn newest_first(limit: usize) -> SessionQuery {
    let query = SessionQuery::new().prefix("chat:").limit(limit);
    query.order(SessionOrder::Updated)
}

#[test]
fn the_newest_session_is_found_without_the_sidecars_of_the_others() {
    let steps = [3, 30].map(|sessions| {
        let disk = furnished(sessions);
        let reader = read_only(disk.clone()).unwrap();
        let before = disk.steps();
        let page = read_now(reader.sessions(newest_first(1))).unwrap();
        assert_eq!(page.sessions[0].key, format!("chat:{}", sessions - 1));
        let mut sim = opened(&disk);
        let read = disk.steps() - before;
        let chats = sim.handle();
        let before = disk.steps();
        let again = run(&mut sim, chats.sessions(newest_first(1)));
        assert_eq!(again.sessions, page.sessions);
        (read, disk.steps() - before)
    });
    assert_eq!(steps[0], steps[1]);
}

/// Every round uses some of the sessions, one way or another, and ends in one of two ways.
#[test]
fn sessions_are_in_the_order_that_their_sidecars_say() {
    let mut disk = furnished(8);
    for round in 0..12_usize {
        let mut sim = opened(&disk);
        let chats = sim.handle().exact_keys();
        let key = |n: usize| format!("chat:{}", (round * 5 + n) % 9);
        sim.pause(Duration::from_millis(3));
        run(&mut sim, chats.add_message(&key(0), "user", "more"));
        sim.pause(Duration::from_millis(3));
        run(&mut sim, chats.set_summary(&key(3), "so far"));
        run(&mut sim, chats.history(&key(6)));
        if round % 4 == 3 {
            run(&mut sim, chats.delete_session(&key(7)));
        }
        let live = run(&mut sim, chats.sessions(newest_first(99))).sessions;
        let times: Vec<_> = live.iter().map(|info| info.updated().unwrap()).collect();
        assert!(times.is_sorted_by(|a, b| a >= b));
        if round % 3 == 2 {
            drop(sim);
            disk = disk.image(Image::AllLost);
        } else {
            assert!(closed(sim, &disk));
        }
        let reader = read_only(disk.clone()).unwrap();
        let read = read_now(reader.sessions(newest_first(99))).unwrap();
        assert_eq!(read.sessions, live, "round {round}");
        let mut sim = opened(&disk);
        let chats = sim.handle();
        let again = run(&mut sim, chats.sessions(newest_first(99)));
        assert_eq!(again.sessions, live, "round {round}");
        assert!(closed(sim, &disk));
    }
}

#[test]
fn a_time_that_another_program_wrote_counts_from_the_first_use() {
    let disk = furnished(3);
    let sidecar = String::from_utf8(disk.read_foreign(path("chat_0.meta.json")).unwrap()).unwrap();
    let (before, after) = sidecar.split_once("\"updated_at\": \"").unwrap();
    let later = format!("{before}\"updated_at\": \"2099{}", &after[4..]);
    disk.write_foreign(path("chat_0.meta.json"), later.as_bytes())
        .unwrap();
    let newest = |disk: &MemoryStorage| {
        let reader = read_only(disk.clone()).unwrap();
        let page = read_now(reader.sessions(newest_first(1))).unwrap();
        page.sessions[0].key.clone()
    };
    assert_eq!(newest(&disk), "chat:2");
    let mut sim = opened(&disk);
    sim.pause(Duration::from_secs(1));
    assert_eq!(texts(&mut sim, "chat:0"), ["0"]);
    assert!(closed(sim, &disk));
    assert_eq!(newest(&disk), "chat:0");
}

/// A file system that folds names would give both one file.
#[test]
fn a_new_session_gets_no_file_name_that_a_kept_one_has() {
    let disk = furnished(2);
    let mut sim = opened(&disk);
    let chats = sim.handle();
    for (key, text) in [("chat_0", "mine"), ("CHAT_1", "mine, too")] {
        run(&mut sim, chats.add_message(key, "user", text));
        assert_eq!(texts(&mut sim, key), [text]);
    }
    assert_eq!(texts(&mut sim, "chat:0"), ["0"]);
    assert_eq!(texts(&mut sim, "chat:1"), ["1"]);
    sim.close().unwrap();
    assert!(disk.read_foreign(path("chat_1.jsonl")).is_some());
    // This disk tells case apart.
    assert!(disk.read_foreign(path("CHAT_1.jsonl")).is_some());
    assert!(disk.read_foreign(path("chat_0.jsonl")).is_some());
}

/// What another program did, and the sessions that there are then.
type Change = (&'static str, fn(&MemoryStorage), &'static [&'static str]);

#[test]
fn what_others_make_replace_or_remove_is_found() {
    let changes: [Change; 3] = [
        (
            "made",
            |disk| {
                let meta = br#"{"key":"theirs","aliases":["their:alias"]}"#;
                disk.replace_foreign(path("theirs.meta.json"), meta)
                    .unwrap();
            },
            &["chat:0", "chat:1", "theirs"],
        ),
        (
            "replaced",
            |disk| {
                let meta = br#"{"key":"chat:1","aliases":["their:alias"]}"#;
                disk.replace_foreign(path("chat_1.meta.json"), meta)
                    .unwrap();
            },
            &["chat:0", "chat:1"],
        ),
        (
            "removed",
            |disk| {
                for name in ["chat_1.meta.json", "chat_1.jsonl"] {
                    disk.remove_foreign(path(name)).unwrap();
                }
            },
            &["chat:0"],
        ),
    ];
    for (what, change, keys) in changes {
        let disk = furnished(2);
        change(&disk);
        let mut sim = opened(&disk);
        assert_eq!(listed(&mut sim), keys, "{what}");
        let found = resolved(&mut sim, "their:alias").is_some();
        assert_eq!(found, what != "removed", "{what}");
    }
}

/// The time of the directory at the end is later than what they did.
#[test]
fn what_others_replace_while_the_store_runs_is_found_by_the_next_open() {
    for in_place in [false, true] {
        let disk = furnished(3);
        let mut sim = opened(&disk);
        let chats = sim.handle();
        run(&mut sim, chats.add_message("chat:0", "user", "mine"));
        let meta = br#"{"key":"chat:1","aliases":["their:alias"]}"#;
        let sidecar = path("chat_1.meta.json");
        if in_place {
            disk.write_foreign(sidecar, meta).unwrap();
        } else {
            disk.replace_foreign(sidecar, meta).unwrap();
        }
        assert!(!closed(sim, &disk), "keeps what was not looked at");
        let mut sim = opened(&disk);
        assert_eq!(resolved(&mut sim, "their:alias").as_deref(), Some("chat:1"));
        assert_eq!(resolved(&mut sim, "also:1"), None);
        assert!(closed(sim, &disk));
    }
}

#[test]
fn a_lost_sidecar_without_a_copy_leaves_the_aliases_that_lead_to_its_session() {
    let disk = furnished(2);
    disk.remove_foreign(path(".sessionlog/sidecars.jsonl"))
        .unwrap();
    disk.write_foreign(path("chat_1.meta.json"), b"{").unwrap();
    let mut sim = opened(&disk);
    let chats = sim.handle();
    assert_eq!(texts(&mut sim, "also:1"), ["1"]);
    run(&mut sim, chats.add_message("also:1", "user", "2"));
    sim.close().unwrap();
    let mut sim = opened(&disk);
    assert_eq!(texts(&mut sim, "also:1"), ["1", "2"]);
    let chats = sim.handle();
    run(&mut sim, chats.delete_session("chat:1"));
    assert_eq!(
        resolved(&mut sim, "also:1"),
        None,
        "leads to a session that is gone"
    );
}

/// Nothing of the directory tells that somebody wrote into a file.
#[test]
fn what_others_write_into_a_sidecar_counts_from_the_first_use_of_its_session() {
    let disk = furnished(2);
    let edited = r#"{"key":"chat:1","summary":"s","count":1,"aliases":["their:1"]}"#;
    disk.write_foreign(path("chat_1.meta.json"), edited.as_bytes())
        .unwrap();
    let mut sim = opened(&disk);
    let chats = sim.handle();
    assert_eq!(run(&mut sim, chats.summary("chat:1")), "s");
    assert_eq!(resolved(&mut sim, "their:1").as_deref(), Some("chat:1"));
    assert_eq!(resolved(&mut sim, "also:1"), None);
    assert!(closed(sim, &disk));
    assert_eq!(
        resolved(&mut opened(&disk), "their:1").as_deref(),
        Some("chat:1")
    );
}

#[test]
fn a_sidecar_damaged_in_place_brings_no_truncated_line_back() {
    for damage in ["", "{", "\0\0\0"] {
        let disk = furnished(2);
        let mut sim = opened(&disk);
        let chats = sim.handle();
        run(&mut sim, chats.add_message("chat:1", "user", "kept"));
        run(&mut sim, chats.truncate_history("chat:1", 1));
        run(&mut sim, chats.set_summary("chat:1", "so far"));
        assert!(closed(sim, &disk));
        disk.write_foreign(path("chat_1.meta.json"), damage.as_bytes())
            .unwrap();
        // Who only reads believes the catalog, too, and lists and shows what the copy says.
        let reader = read_only(disk.clone()).unwrap();
        let query = SessionQuery::new().prefix("chat:1");
        let page = read_now(reader.sessions(query)).unwrap();
        assert_eq!(page.sessions[0].summary, "so far", "{damage:?}");
        assert_eq!(said(&read_now(reader.history("chat:1")).unwrap()), ["kept"]);
        for text in ["new", "newer"] {
            let mut sim = opened(&disk);
            let chats = sim.handle();
            let before = texts(&mut sim, "chat:1");
            assert_eq!(before[0], "kept", "{damage:?}");
            run(&mut sim, chats.add_message("also:1", "user", text));
            assert_eq!(
                texts(&mut sim, "also:1").last().unwrap(),
                text,
                "{damage:?}"
            );
            sim.close().unwrap();
        }
    }
}

/// Two keys never share a file, and none is lost: the next open takes it for the other's.
#[test]
fn a_sidecar_that_names_another_key_in_place_closes_the_session_until_the_next_open() {
    let disk = furnished(2);
    disk.write_foreign(path("chat_1.meta.json"), br#"{"key":"other"}"#)
        .unwrap();
    let mut sim = opened(&disk);
    let chats = sim.handle();
    // Nobody used it yet.
    let page = run(&mut sim, chats.sessions(SessionQuery::new()));
    assert_eq!(page.unreadable, ["chat:1"]);
    for _ in 0..2 {
        let refused = sim
            .run(chats.add_message("chat:1", "user", "mine?"))
            .unwrap_err();
        assert!(matches!(refused, Error::Corrupt { .. }), "{refused}");
        assert!(
            refused.to_string().contains(r#"names the key "other" now"#),
            "{refused}"
        );
    }
    assert_eq!(texts(&mut sim, "chat:0"), ["0"]);
    assert!(!closed(sim, &disk), "believes again what was wrong");
    let mut sim = opened(&disk);
    assert_eq!(listed(&mut sim), ["chat:0", "other"]);
    assert_eq!(texts(&mut sim, "other"), ["1"]);
    let chats = sim.handle();
    run(&mut sim, chats.add_message("chat:1", "user", "new"));
    assert_eq!(texts(&mut sim, "chat:1"), ["new"]);
}

#[test]
fn a_damaged_catalog_is_not_believed() {
    for at in [0, 30, 60, 90, 120] {
        let disk = furnished(3);
        let mut kept = disk.read_foreign(path(KEPT)).unwrap();
        kept[at] ^= 1;
        disk.write_foreign(path(KEPT), &kept).unwrap();
        let mut sim = opened(&disk);
        assert_eq!(listed(&mut sim), ["chat:0", "chat:1", "chat:2"]);
        assert_eq!(resolved(&mut sim, "also:2").as_deref(), Some("chat:2"));
    }
}

/// A copy of a directory is another one, and so is one that a backup was put into.
#[test]
fn after_an_unclean_end_nothing_is_believed() {
    let disk = furnished(2);
    let kept = disk.read_foreign(path(KEPT)).unwrap();
    let mut sim = opened(&disk);
    assert!(
        disk.read_foreign(path(KEPT)).is_none(),
        "is there while the store runs"
    );
    furnish(&mut sim, 2..3);
    let left = disk.image(Image::ProcessDeath);
    left.write_foreign(path(KEPT), &kept).unwrap();
    assert_eq!(listed(&mut opened(&left)), ["chat:0", "chat:1", "chat:2"]);
}

#[test]
fn a_directory_with_files_that_need_telling_keeps_no_catalog() {
    let disk = furnished(2);
    let line = b"{\"role\":\"user\",\"content\":\"whose?\"}\n";
    disk.replace_foreign(path("orphan.jsonl"), line).unwrap();
    assert!(!closed(opened(&disk), &disk), "an orphan");
    disk.remove_foreign(path("orphan.jsonl")).unwrap();
    assert!(closed(opened(&disk), &disk));
    let sim = opened(&disk);
    disk.replace_foreign(path("late.meta.json"), br#"{"key":"late"}"#)
        .unwrap();
    assert!(!closed(sim, &disk), "one that came while the store ran");
    assert_eq!(listed(&mut opened(&disk)), ["chat:0", "chat:1", "late"]);
}

/// On the disk there is: its times are what the catalog rests on.
#[test]
fn a_store_of_many_sessions_keeps_its_catalog_and_sees_every_replaced_file() {
    let dir = scratch();
    let open = || Store::open(dir.path()).unwrap();
    let kept = || dir.path().join(KEPT).exists();
    let store = open();
    let chats = store.handle();
    let tickets: Vec<_> = (0..999)
        .map(|n| chats.add_message(&format!("chat:{n:04}"), "user", "hi"))
        .collect();
    for ticket in tickets {
        ticket.wait().unwrap();
    }
    store.close().unwrap();
    assert!(!kept(), "so few are read again");
    let store = open();
    store
        .handle()
        .add_message("chat:0999", "user", "hi")
        .wait()
        .unwrap();
    store.close().unwrap();
    assert!(kept());
    for round in 0..20 {
        let meta = format!(r#"{{"key":"chat:0500","aliases":["alias:{round}"]}}"#);
        let temp = dir.path().join("edit");
        fs::write(&temp, meta).unwrap();
        fs::rename(&temp, dir.path().join("chat_0500.meta.json")).unwrap();
        let store = open();
        assert!(!kept());
        let chats = store.handle();
        let resolved = chats.resolve_session_key(&format!("alias:{round}"));
        assert_eq!(resolved.wait().unwrap().as_deref(), Some("chat:0500"));
        assert_eq!(chats.list_sessions().wait().unwrap().len(), 1_000);
        store.close().unwrap();
        assert!(kept());
    }
}

#[test]
fn a_power_loss_does_not_bring_back_the_catalog_of_an_earlier_end() {
    let images = Image::NAMED.into_iter().chain((0..60).map(Image::Random));
    for image in images {
        let disk = furnished(4).image(Image::AllKept);
        let mut sim = opened(&disk);
        sim.pause(Duration::from_secs(2));
        let chats = sim.handle();
        // Its sidecar is written in place: the directory stays as it was.
        run(&mut sim, chats.add_message("chat:0", "user", "later"));
        sim.close().unwrap();
        let disk = disk.image(image);
        let newest = || {
            let query = SessionQuery::new().order(SessionOrder::Updated);
            query.limit(1)
        };
        let reader = read_only(disk.clone()).unwrap();
        let page = read_now(reader.sessions(newest())).unwrap();
        assert_eq!(page.sessions[0].key, "chat:0", "a reader after {image:?}");
        let mut sim = opened(&disk);
        let chats = sim.handle();
        let page = run(&mut sim, chats.sessions(newest()));
        assert_eq!(page.sessions[0].key, "chat:0", "an owner after {image:?}");
    }
}

/// Nothing of the directory tells that somebody wrote into a file.
#[test]
fn a_reader_gives_out_no_file_whose_sidecar_names_another_key_since() {
    let disk = furnished(2);
    let reader = read_only(disk.clone()).unwrap();
    assert_eq!(said(&read_now(reader.history("chat:1")).unwrap()), ["1"]);
    let meta = br#"{"key":"chat_1","aliases":["also:1"]}"#;
    disk.write_foreign(path("chat_1.meta.json"), meta).unwrap();
    assert!(read_now(reader.history("chat:1")).unwrap().is_empty());
    assert_eq!(
        read_now(reader.session_meta("chat:1")).unwrap().key,
        "chat:1"
    );
    assert_eq!(said(&read_now(reader.history("chat_1")).unwrap()), ["1"]);
    assert_eq!(said(&read_now(reader.history("also:1")).unwrap()), ["1"]);
    let page = read_now(reader.sessions(SessionQuery::new())).unwrap();
    let keys: Vec<_> = page.sessions.iter().map(|info| &*info.key).collect();
    assert_eq!((keys, page.unreadable.len()), (vec!["chat:0", "chat_1"], 0));
}
