//! Keys whose file names some file systems do not tell apart.

use std::collections::BTreeMap;
use std::sync::Arc;

use sessionlog::backend::{LegacyJsonStore, SessionStore};
use sessionlog::testing::disk_model::{Image, MemoryStorage};
use sessionlog::{Message, Result, Store, StoreHandle};

use crate::support::{
    files, in_memory, line, open, open_memory, scratch, sidecar, texts, visible_names,
};

/// All of one file where names are folded.
const ALIKE: [&str; 5] = [
    "slack:U1abc",
    "slack:U1ABC",
    "slack/u1abc",
    "slack:u1abc",
    "slack_U1aBc",
];
const COMPOSED: [&str; 3] = ["caf\u{e9}:1", "cafe\u{301}:1", "CAF\u{c9}:1"];

fn folding() -> MemoryStorage {
    let disk = MemoryStorage::new();
    disk.fold_names();
    disk
}

fn keys() -> impl Iterator<Item = &'static str> {
    ALIKE.into_iter().chain(COMPOSED)
}

fn each_has_its_own(chats: &StoreHandle, rounds: usize) {
    for key in keys() {
        let own: Vec<_> = (0..rounds).map(|round| format!("{key} {round}")).collect();
        assert_eq!(texts(chats, key), own, "{key}");
        assert_eq!(chats.summary(key).wait().unwrap(), key);
    }
}

#[test]
fn sessions_of_one_folded_name_never_share_a_history() {
    for disk in [folding(), MemoryStorage::new()] {
        for round in 0..3 {
            let store = open_memory(&disk).unwrap();
            let chats = store.handle();
            for key in keys() {
                let text = format!("{key} {round}");
                chats.add_message(key, "user", &text).wait().unwrap();
                chats.set_summary(key, key).wait().unwrap();
            }
            each_has_its_own(&chats, round + 1);
            store.close().unwrap();
        }
        let store = open_memory(&disk).unwrap();
        let chats = store.handle();
        assert_eq!(store.recovery_report().findings, [""; 0]);
        assert_eq!(chats.list_sessions().wait().unwrap().len(), keys().count());
        each_has_its_own(&chats, 3);
        // The name that is free now is only its own key's to have again.
        for key in keys() {
            chats.delete_session(key).wait().unwrap();
            assert!(texts(&chats, key).is_empty(), "{key}");
            chats
                .add_message(key, "user", &format!("{key} 0"))
                .wait()
                .unwrap();
            chats.set_summary(key, key).wait().unwrap();
        }
        each_has_its_own(&chats, 1);
        store.close().unwrap();
        let store = open_memory(&disk).unwrap();
        each_has_its_own(&store.handle(), 1);
        store.close().unwrap();
    }
}

#[test]
fn the_first_has_the_name_that_picoclaw_gives_it_and_the_second_one_that_no_case_makes_its() {
    let disk = folding();
    let store = open_memory(&disk).unwrap();
    for key in &ALIKE[..3] {
        store.handle().add_message(key, "user", "x").wait().unwrap();
    }
    store.close().unwrap();
    let names = sessions(&disk);
    assert!(names.contains(&String::from("slack_U1abc.jsonl")));
    let mut folded: Vec<_> = names.iter().map(|name| name.to_lowercase()).collect();
    folded.sort();
    folded.dedup();
    assert_eq!(folded.len(), 3, "{names:?}");
}

fn sessions(disk: &MemoryStorage) -> Vec<String> {
    let files = disk.dump().into_keys();
    let names = files.filter_map(|path| Some(path.strip_prefix("s/")?.to_owned()));
    let logs = names.filter(|name| !name.contains('/') && !name.contains(".meta."));
    logs.collect()
}

/// PicoClaw finds a session by the name that it gives the key.
#[test]
fn where_case_is_told_apart_each_key_has_the_name_that_picoclaw_gives_it() {
    let disk = MemoryStorage::new();
    let each = ["slack:U1abc", "slack:U1ABC", "slack:u1abc"];
    for round in 0..3 {
        let store = open_memory(&disk).unwrap();
        let chats = store.handle();
        for key in each {
            let text = format!("{key} {round}");
            chats.add_message(key, "user", &text).wait().unwrap();
            assert_eq!(texts(&chats, key).len(), round + 1, "{key}");
        }
        store.close().unwrap();
        let mut plain = each.map(|key| format!("{}.jsonl", key.replace(':', "_")));
        plain.sort();
        assert_eq!(sessions(&disk), plain);
    }
    // What is written in two ways and shows alike may be one name all the same.
    let store = open_memory(&disk).unwrap();
    for key in COMPOSED {
        store.handle().add_message(key, "user", key).wait().unwrap();
    }
    for key in COMPOSED {
        assert_eq!(texts(&store.handle(), key), [key]);
    }
    store.close().unwrap();
    let composed =
        |key: &str| sessions(&disk).contains(&format!("{}.jsonl", key.replace(':', "_")));
    assert_eq!(COMPOSED.map(composed), [true, false, true]);
}

type State = BTreeMap<&'static str, Vec<&'static str>>;
type Step = fn(&StoreHandle) -> Result<()>;

/// What is done, and what there is after it.
fn course() -> Vec<(Step, State)> {
    let [a, b, c] = ["k:a", "k:A", "k/A"];
    let state = |all: &[(&'static str, &[&'static str])]| {
        let all = all.iter().map(|(key, texts)| (*key, texts.to_vec()));
        all.collect()
    };
    vec![
        (
            |s| s.add_message("k:a", "user", "a1").wait(),
            state(&[(a, &["a1"])]),
        ),
        (
            |s| s.add_message("k:A", "user", "b1").wait(),
            state(&[(a, &["a1"]), (b, &["b1"])]),
        ),
        (|s| s.delete_session("k:a").wait(), state(&[(b, &["b1"])])),
        (
            |s| s.add_message("k/A", "user", "c1").wait(),
            state(&[(b, &["b1"]), (c, &["c1"])]),
        ),
        (
            |s| s.set_history("k/A", vec![Message::user("c2")]).wait(),
            state(&[(b, &["b1"]), (c, &["c2"])]),
        ),
        (
            |s| s.add_message("k:a", "user", "a2").wait(),
            state(&[(a, &["a2"]), (b, &["b1"]), (c, &["c2"])]),
        ),
        (
            |s| s.delete_session("k:A").wait(),
            state(&[(a, &["a2"]), (c, &["c2"])]),
        ),
    ]
}

fn shown(chats: &StoreHandle) -> State {
    let all = ["a1", "a2", "b1", "c1", "c2"];
    let mut state = State::new();
    for key in ["k:a", "k:A", "k/A"] {
        let texts = texts(chats, key);
        let known = texts
            .iter()
            .map(|text| *all.iter().find(|t| *t == text).unwrap());
        if !texts.is_empty() {
            state.insert(key, known.collect());
        }
    }
    state
}

/// As long as the journal holds it, a deletion is carried out again: on the file of
/// another session, if that got the name in another spelling.
#[test]
fn no_crash_mixes_sessions_of_one_folded_name() {
    let course = course();
    let mut finished = false;
    for step in 0.. {
        let disk = folding();
        disk.crash_at(step);
        let mut done = 0;
        if let Ok(store) = open_memory(&disk) {
            let chats = store.handle();
            done = course
                .iter()
                .take_while(|(run, _)| run(&chats).is_ok())
                .count();
            finished = store.close().is_ok();
        }
        let before = done
            .checked_sub(1)
            .map_or_else(State::new, |last| course[last].1.clone());
        let after = course.get(done).map(|(_, state)| state.clone());
        for image in [
            Image::ProcessDeath,
            Image::AllLost,
            Image::AllKept,
            Image::Random(step),
        ] {
            let disk = disk.image(image);
            for _ in 0..2 {
                let store = open_memory(&disk).unwrap();
                let found = shown(&store.handle());
                assert!(
                    found == before || Some(&found) == after.as_ref(),
                    "step {step}, {image:?}: {found:?}, not {before:?} or {after:?}"
                );
                store.close().unwrap();
            }
        }
        if finished {
            break;
        }
    }
    assert!(finished);
}

/// As PicoClaw leaves them where names are told apart.
#[test]
fn files_that_are_there_under_both_names_keep_their_owners() {
    let dir = scratch();
    let write = |name: &str, text: &str| std::fs::write(dir.path().join(name), text).unwrap();
    for (stem, key) in [("a_B", "a:B"), ("a_b", "a:b")] {
        write(&format!("{stem}.jsonl"), &line(key));
        write(&format!("{stem}.meta.json"), &sidecar(key, key, 0, 1));
    }
    for stem in ["n_X", "n_x"] {
        write(&format!("{stem}.jsonl"), &line(stem));
    }
    let before = files(dir.path());
    let store = open(dir.path());
    let chats = store.handle();
    assert_eq!(store.recovery_report().findings, [""; 0]);
    let listed = chats.list_sessions().wait().unwrap();
    assert_eq!(listed, ["a:B", "a:b", "n_X", "n_x"]);
    for key in ["a:B", "a:b"] {
        assert_eq!(texts(&chats, key), [key]);
        assert_eq!(chats.summary(key).wait().unwrap(), key);
    }
    for (key, text) in [("n:X", "n_X"), ("n:x", "n_x")] {
        assert_eq!(texts(&chats, key), [text]);
    }
    store.close().unwrap();
    let mut after = files(dir.path());
    after.retain(|name, _| !name.starts_with(".sessionlog"));
    assert_eq!(after, before);

    let store = open(dir.path());
    for key in ["a:B", "a:b", "n:X", "n:x"] {
        store
            .handle()
            .add_message(key, "user", "more")
            .wait()
            .unwrap();
        assert_eq!(texts(&store.handle(), key).len(), 2);
    }
    store.close().unwrap();
    let mut names = visible_names(dir.path());
    names.sort();
    let stems = ["a_B", "a_b", "n_X", "n_x"];
    let mut expected: Vec<_> = stems
        .iter()
        .flat_map(|stem| [format!("{stem}.jsonl"), format!("{stem}.meta.json")])
        .collect();
    expected.sort();
    assert_eq!(names, expected);
}

/// A session whose two files are spelled in two ways is one session.
#[test]
fn a_session_file_in_another_spelling_is_nobodys_second_session() {
    let disk = folding();
    disk.write_foreign(in_memory("a_b.jsonl"), line("mine").as_bytes())
        .unwrap();
    let meta = sidecar("a:B", "s", 0, 1);
    disk.write_foreign(in_memory("a_B.meta.json"), meta.as_bytes())
        .unwrap();
    let store = open_memory(&disk).unwrap();
    let chats = store.handle();
    assert_eq!(texts(&chats, "a:B"), ["mine"]);
    assert!(texts(&chats, "a:b").is_empty());
    chats.add_message("a:b", "user", "other").wait().unwrap();
    assert_eq!(texts(&chats, "a:B"), ["mine"]);
    assert_eq!(texts(&chats, "a:b"), ["other"]);
    store.close().unwrap();
}

#[test]
fn older_files_have_names_that_no_case_makes_one() {
    let dir = scratch();
    let store: Arc<dyn SessionStore> = Arc::new(LegacyJsonStore::open(dir.path()).unwrap());
    for key in keys() {
        store.add_message(key, "user", key).wait().unwrap();
    }
    store.close().wait().unwrap();
    let names = visible_names(dir.path());
    assert_eq!(names.len(), keys().count());
    let mut folded: Vec<_> = names.iter().map(|name| name.to_lowercase()).collect();
    folded.sort();
    folded.dedup();
    assert_eq!(folded.len(), names.len());
    let store = LegacyJsonStore::open(dir.path()).unwrap();
    for key in keys() {
        assert_eq!(store.history(key).wait().unwrap()[0].text(), key);
    }
    assert!(Store::verify(dir.path()).is_ok());
}
