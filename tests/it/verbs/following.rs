//! Following the changes of all sessions.

use std::thread;

use serde_json::value::RawValue;
use sessionlog::{
    ChangeFilter, ChangeKind, Changes, Error, Keep, Message, Store, StoreHandle, Update, Version,
};

use crate::support::{add_numbers, numbers, open, scratch, texts};

fn next(changes: &mut Changes) -> (String, ChangeKind, Version) {
    let change = changes.wait_next().unwrap();
    (change.key, change.kind, change.version)
}

fn version(chats: &StoreHandle, key: &str) -> Version {
    chats.snapshot(key).wait().unwrap().version()
}

#[test]
fn every_change_is_told_with_its_version_and_a_compaction_is_none() {
    let dir = scratch();
    let store = open(dir.path());
    let chats = store.handle();
    add_numbers(&chats, "cli", 0..5);
    let mut changes = chats.changes(ChangeFilter::new());
    let mut told = |kind: ChangeKind, change: &dyn Fn()| {
        change();
        let (key, was, made) = next(&mut changes);
        assert_eq!((&*key, was), ("cli", kind));
        if kind != ChangeKind::Deleted {
            assert_eq!(made, version(&chats, "cli"));
        }
        made
    };
    told(ChangeKind::Appended, &|| add_numbers(&chats, "cli", 5..6));
    told(ChangeKind::Appended, &|| {
        chats.context("cli").checkpoint(false).wait().unwrap();
    });
    told(ChangeKind::Updated, &|| {
        chats.set_summary("cli", "sum").wait().unwrap();
    });
    told(ChangeKind::Updated, &|| {
        chats.set_title("cli", "title").wait().unwrap();
    });
    let update = Update::new().summary("more").append(Message::user("6"));
    told(ChangeKind::Updated, &|| {
        chats.update("cli", update.clone()).wait().unwrap();
    });
    let cut = told(ChangeKind::Truncated, &|| {
        chats.truncate_to("cli", Keep::Last(2)).wait().unwrap();
    });
    chats.compact("cli").wait().unwrap();
    chats.flush().wait().unwrap();
    told(ChangeKind::Replaced, &|| {
        chats.set_history("cli", Vec::new()).wait().unwrap();
    });
    told(ChangeKind::Deleted, &|| {
        chats.delete_session("cli").wait().unwrap();
    });
    // Who stopped goes on.
    let mut again = chats.changes(ChangeFilter::new().after(cut));
    assert_eq!(next(&mut again).1, ChangeKind::Replaced);
    assert_eq!(next(&mut again).1, ChangeKind::Deleted);
    let mut lost = chats.changes(ChangeFilter::new().after(Version::ABSENT));
    let missed = lost.wait_next();
    assert!(
        matches!(missed, Err(Error::ChangesMissed { missed: None })),
        "{missed:?}"
    );
    add_numbers(&chats, "other", 0..1);
    assert_eq!(next(&mut lost).0, "other");
    store.close().unwrap();
    assert_eq!(next(&mut again).0, "other");
    let ended = again.wait_next();
    assert!(matches!(ended, Err(Error::Closed)), "{ended:?}");
    let ended = chats.changes(ChangeFilter::new()).wait_next();
    assert!(matches!(ended, Err(Error::Closed)), "{ended:?}");
}

#[test]
fn changes_are_filtered_by_prefix_and_agent() {
    let dir = scratch();
    let store = open(dir.path());
    let chats = store.handle();
    let json = r#"{"version":1,"agent_id":"main","channel":"c","account":"d","dimensions":null,"values":null}"#;
    let scope = RawValue::from_string(json.to_owned()).ok();
    let mut mine = chats.changes(ChangeFilter::new().agent("main"));
    let mut slack = chats.changes(ChangeFilter::new().prefix("slack:"));
    add_numbers(&chats, "telegram:1", 0..1);
    chats
        .upsert_session_meta("telegram:1", scope, Vec::new())
        .wait()
        .unwrap();
    add_numbers(&chats, "slack:1", 0..1);
    add_numbers(&chats, "telegram:1", 1..2);
    assert_eq!(next(&mut mine).1, ChangeKind::Updated);
    assert_eq!(next(&mut mine).0, "telegram:1");
    assert_eq!(next(&mut slack).0, "slack:1");
    store.close().unwrap();
}

/// What a store that was opened read-only tells of its writer's changes.
#[test]
fn who_only_reads_is_told_what_the_writer_commits() {
    let dir = scratch();
    let store = open(dir.path());
    let chats = store.handle();
    let scope = r#"{"version":1,"agent_id":"main","channel":"c","account":"d","dimensions":null,"values":null}"#;
    let scope = RawValue::from_string(scope.to_owned()).ok();
    // Known from the journal alone, and from a sidecar.
    chats
        .upsert_session_meta("journalled", scope, Vec::new())
        .wait()
        .unwrap();
    add_numbers(&chats, "old", 0..3);
    let reader = Store::open_read_only(dir.path()).unwrap();
    let watching = reader.handle();
    let mut changes = watching.changes(ChangeFilter::new());
    let mut mine = watching.changes(ChangeFilter::new().agent("main"));
    let mut told = |key: &str, kind: ChangeKind, change: &dyn Fn()| {
        change();
        let (told, was, made) = next(&mut changes);
        assert_eq!((&*told, was), (key, kind));
        made
    };
    told("old", ChangeKind::Appended, &|| {
        add_numbers(&chats, "old", 3..4);
    });
    assert_eq!(
        texts(&watching, "old"),
        numbers(0..4),
        "it is told after it shows"
    );
    told("new", ChangeKind::Appended, &|| {
        add_numbers(&chats, "new", 0..1);
    });
    told("journalled", ChangeKind::Appended, &|| {
        add_numbers(&chats, "journalled", 0..1);
    });
    assert_eq!(next(&mut mine).0, "journalled");
    chats.flush().wait().unwrap();
    let summed = told("old", ChangeKind::Updated, &|| {
        chats.set_summary("old", "sum").wait().unwrap();
    });
    told("old", ChangeKind::Updated, &|| {
        chats.set_title("old", "title").wait().unwrap();
    });
    told("old", ChangeKind::Truncated, &|| {
        chats.truncate_history("old", 1).wait().unwrap();
    });
    told("new", ChangeKind::Replaced, &|| {
        chats
            .set_history("new", vec![Message::user("x")])
            .wait()
            .unwrap();
    });
    told("new", ChangeKind::Deleted, &|| {
        chats.delete_session("new").wait().unwrap();
    });
    // Who stopped goes on.
    let mut again = watching.changes(ChangeFilter::new().after(summed));
    assert_eq!(next(&mut again).1, ChangeKind::Updated);
    store.close().unwrap();
    // Another writer's changes are told, or that some were missed.
    let store = open(dir.path());
    add_numbers(&store.handle(), "next", 0..1);
    loop {
        match changes.wait_next() {
            Ok(change) if change.key == "next" => break,
            Ok(_) | Err(Error::ChangesMissed { .. }) => {}
            Err(error) => panic!("{error}"),
        }
    }
    reader.close().unwrap();
    let ended = changes.wait_next();
    assert!(matches!(ended, Err(Error::Closed)), "{ended:?}");
    let ended = watching.changes(ChangeFilter::new()).wait_next();
    assert!(matches!(ended, Err(Error::Closed)), "{ended:?}");
    store.close().unwrap();
}

/// Segments go while they are read: nothing is told twice, and what is not told is missed.
#[test]
fn who_only_reads_is_told_of_every_change_or_that_some_were_missed() {
    let dir = scratch();
    let store = open(dir.path());
    let chats = store.handle();
    let reader = Store::open_read_only(dir.path()).unwrap();
    let mut changes = reader.handle().changes(ChangeFilter::new());
    let (sessions, rounds) = (4, 40);
    thread::scope(|scope| {
        for n in 0..sessions {
            let chats = &chats;
            scope.spawn(move || {
                for round in 0..rounds {
                    let said = Message::user(format!("{round} ").repeat(10_000));
                    let key = format!("s{n}");
                    chats.add_full_message(&key, said).wait().unwrap();
                    if round % 8 == n {
                        chats.flush().wait().unwrap();
                    }
                }
            });
        }
    });
    add_numbers(&chats, "end", 0..1);
    let (mut told, mut missed) = (vec![0; sessions], false);
    loop {
        match changes.wait_next() {
            Ok(change) if change.key == "end" => break,
            Ok(change) => told[change.key[1..].parse::<usize>().unwrap()] += 1,
            Err(Error::ChangesMissed { .. }) => missed = true,
            Err(error) => panic!("{error}"),
        }
    }
    assert!(told.iter().all(|told| *told <= rounds), "{told:?}");
    assert!(missed || told == vec![rounds; sessions], "{told:?}");
    store.close().unwrap();
}

/// Who reads a session whenever it is told of a change ends with all of it.
#[test]
fn no_change_is_missed_while_many_write() {
    let dir = scratch();
    let store = open(dir.path());
    let chats = store.handle();
    let mut changes = chats.changes(ChangeFilter::new());
    let (sessions, rounds) = (8, 50);
    thread::scope(|scope| {
        let follower = scope.spawn(|| {
            let mut told = vec![0; sessions];
            for _ in 0..sessions * rounds {
                let (key, ..) = next(&mut changes);
                let at: usize = key[1..].parse().unwrap();
                told[at] += 1;
                assert!(chats.count(&key).wait().unwrap() >= told[at]);
            }
            told
        });
        for n in 0..sessions {
            let chats = &chats;
            scope.spawn(move || add_numbers(chats, &format!("s{n}"), 0..rounds));
        }
        assert_eq!(follower.join().unwrap(), vec![rounds; sessions]);
    });
    assert_eq!(texts(&chats, "s3"), numbers(0..rounds));
    store.close().unwrap();
}
