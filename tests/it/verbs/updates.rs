//! Several changes in one commit, versions to make them by, and messages taken once.

use std::collections::BTreeSet;
use std::path::Path;
use std::thread;

use sessionlog::backend::{EphemeralStore, SessionStore};
use sessionlog::{
    Appended, Budget, Durability, Error, Keep, Message, Position, Store, StoreHandle, StoreOptions,
    Update, Version,
};

use crate::support::{add_numbers, copy_dir, line, manual, numbers, open, scratch, texts};

fn version(chats: &StoreHandle) -> Version {
    chats.snapshot("cli").wait().unwrap().version()
}

fn is_conflict(error: &Error) -> bool {
    matches!(error, Error::VersionConflict { .. })
}

#[test]
fn every_change_makes_another_version_and_a_compaction_none() {
    let dir = scratch();
    let store = open(dir.path());
    let chats = store.handle();
    let mut seen = vec![version(&chats)];
    assert_eq!(seen[0], Version::ABSENT);
    let mut next = |change: &dyn Fn()| {
        change();
        let now = version(&chats);
        assert!(!seen.contains(&now), "{now} was a version before");
        assert_eq!(version(&chats), now);
        seen.push(now);
    };
    next(&|| add_numbers(&chats, "cli", 0..6));
    next(&|| chats.set_summary("cli", "counted").wait().unwrap());
    next(&|| chats.context("cli").update_token_count(7).wait().unwrap());
    next(&|| {
        chats.context("cli").checkpoint(false).wait().unwrap();
    });
    next(&|| chats.truncate_history("cli", 2).wait().unwrap());
    next(&|| chats.context("cli").revert_to(0).wait().unwrap());
    next(&|| add_numbers(&chats, "cli", 6..7));
    next(&|| {
        chats
            .upsert_session_meta("cli", None, vec!["c".into()])
            .wait()
            .unwrap();
    });
    next(&|| chats.restore_backup("cli", 1).wait().unwrap());
    let before = version(&chats);
    chats.compact("cli").wait().unwrap();
    chats.flush().wait().unwrap();
    assert_eq!(version(&chats), before);
    next(&|| {
        chats
            .set_history("cli", vec![Message::user("anew")])
            .wait()
            .unwrap();
    });
    next(&|| chats.context("cli").clear().wait().unwrap());
    chats.delete_session("cli").wait().unwrap();
    assert_eq!(version(&chats), Version::ABSENT);
    next(&|| add_numbers(&chats, "cli", 0..1));
    let last = version(&chats);
    store.close().unwrap();
    let store = open(dir.path());
    assert_ne!(
        version(&store.handle()),
        last,
        "what it knew before may be gone"
    );
    store.close().unwrap();
}

#[test]
fn an_update_changes_all_it_names_or_nothing() {
    let dir = scratch();
    let store = open(dir.path());
    let chats = store.handle();
    let made = chats
        .update(
            "cli",
            Update::new()
                .expect(Version::ABSENT)
                .append(Message::user("0")),
        )
        .wait()
        .unwrap();
    assert_eq!(version(&chats), made);
    add_numbers(&chats, "cli", 1..5);
    let update = Update::new()
        .append([Message::assistant("5"), Message::user("6")])
        .summary("counted to two")
        .keep(Keep::Last(2))
        .tokens(40);
    let refused = chats
        .update("cli", update.clone().expect(made))
        .wait()
        .unwrap_err();
    assert!(is_conflict(&refused), "{refused}");
    let Error::VersionConflict { found, .. } = refused else {
        unreachable!()
    };
    assert_eq!(found, version(&chats));
    assert_eq!(texts(&chats, "cli"), numbers(0..5));
    let made = chats.update("cli", update.expect(found)).wait().unwrap();
    let agree = |chats: &StoreHandle| {
        assert_eq!(texts(chats, "cli"), numbers(3..7));
        assert_eq!(chats.tail("cli", 3).wait().unwrap().len(), 3);
        assert_eq!(chats.summary("cli").wait().unwrap(), "counted to two");
        assert_eq!(chats.context("cli").token_count().wait().unwrap(), 40);
    };
    agree(&chats);
    agree(&Store::open_read_only(dir.path()).unwrap().handle());
    // Nothing is to change: nothing does.
    assert_eq!(chats.update("cli", Update::new()).wait().unwrap(), made);
    chats.compact("cli").wait().unwrap();
    agree(&chats);
    store.close().unwrap();
    let store = open(dir.path());
    agree(&store.handle());
    store.close().unwrap();
}

#[test]
fn an_update_of_nothing_makes_no_session() {
    let dir = scratch();
    let store = open(dir.path());
    let chats = store.handle();
    for update in [Update::new(), Update::new().keep(Keep::Last(3))] {
        let made = chats.update("none", update).wait().unwrap();
        assert_eq!(made, Version::ABSENT);
    }
    let expecting = Update::new().expect(store_version(&chats)).summary("no");
    let refused = chats.update("none", expecting).wait().unwrap_err();
    assert!(is_conflict(&refused), "{refused}");
    let large = Update::new()
        .summary("x".repeat(40 << 20))
        .append(Message::user("back"));
    match chats.update("none", large).wait() {
        Err(Error::MessageTooLarge { messages, .. }) => assert_eq!(messages.len(), 1),
        other => panic!("{other:?}"),
    }
    assert_eq!(chats.list_sessions().wait().unwrap(), ["cli"]);
    store.close().unwrap();
}

fn store_version(chats: &StoreHandle) -> Version {
    add_numbers(chats, "cli", 0..1);
    version(chats)
}

/// Sixteen who read, decide and write: no decision is made on what is gone.
#[test]
fn of_those_who_expect_one_version_one_gets_it() {
    let dir = scratch();
    let store = open(dir.path());
    let chats = store.handle();
    add_numbers(&chats, "cli", 0..1);
    let rounds = 25;
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                let mut done = 0;
                while done < rounds {
                    let seen = chats.snapshot("cli").wait().unwrap();
                    let last = seen.tail(1).wait().unwrap()[0].text().into_owned();
                    let next = last.parse::<usize>().unwrap() + 1;
                    let update = Update::new()
                        .expect(seen.version())
                        .append(Message::user(next.to_string()))
                        .keep(Keep::Last(20));
                    match chats.update("cli", update).wait() {
                        Ok(_) => done += 1,
                        Err(error) => assert!(is_conflict(&error), "{error}"),
                    }
                }
            });
        }
    });
    let last = 8 * rounds;
    assert_eq!(texts(&chats, "cli"), numbers(last - 20..last + 1));
    store.close().unwrap();
}

/// What comes between the look and the truncation stays, and so it does through a
/// compaction in between.
#[test]
fn who_keeps_from_a_position_loses_nothing_that_came_meanwhile() {
    let dir = scratch();
    let store = open(dir.path());
    let chats = store.handle();
    add_numbers(&chats, "cli", 0..10);
    chats.truncate_history("cli", 6).wait().unwrap();
    let seen = chats.snapshot("cli").wait().unwrap();
    let page = seen.before(seen.end(), 3).wait().unwrap();
    assert_eq!(page.messages[0].text(), "7");
    let text = page.start.to_string();
    add_numbers(&chats, "cli", 10..12);
    chats.compact("cli").wait().unwrap();
    add_numbers(&chats, "cli", 12..13);
    let start: Position = text.parse().unwrap();
    let update = Update::new().summary("seven").keep(Keep::From(start));
    chats.update("cli", update.clone()).wait().unwrap();
    assert_eq!(texts(&chats, "cli"), numbers(7..13));
    // It was truncated since: there is nothing to cut.
    chats.truncate_history("cli", 2).wait().unwrap();
    chats.update("cli", update.clone()).wait().unwrap();
    assert_eq!(texts(&chats, "cli"), numbers(11..13));
    // It was compacted away, and something else stands there now.
    let prompt = "x".repeat(4_000);
    chats
        .context("cli")
        .write_system_prompt(&prompt)
        .wait()
        .unwrap();
    chats.truncate_history("cli", 1).wait().unwrap();
    chats.compact("cli").wait().unwrap();
    chats.update("cli", update.clone()).wait().unwrap();
    assert_eq!(texts(&chats, "cli"), numbers(12..13));
    let gone = chats
        .snapshot("cli")
        .wait()
        .unwrap()
        .before(start, 1)
        .wait();
    assert!(
        matches!(gone, Err(Error::PositionNotFound { .. })),
        "{gone:?}"
    );
    // Another history, or another session, has other positions.
    chats
        .set_history("cli", vec![Message::user("anew")])
        .wait()
        .unwrap();
    add_numbers(&chats, "other", 0..9);
    for key in ["cli", "other"] {
        let refused = chats.update(key, update.clone()).wait().unwrap_err();
        assert!(
            matches!(refused, Error::PositionNotFound { .. }),
            "{refused}"
        );
        let refused = chats
            .truncate_to(key, Keep::From(start))
            .wait()
            .unwrap_err();
        assert!(
            matches!(refused, Error::PositionNotFound { .. }),
            "{refused}"
        );
    }
    assert_eq!(texts(&chats, "other"), numbers(0..9));
    // Its last line lacked the LF: what is appended follows one.
    std::fs::write(dir.path().join("torn.jsonl"), line("0").trim_end()).unwrap();
    chats.set_summary("torn", "torn").wait().unwrap();
    let end = chats.snapshot("torn").wait().unwrap().end();
    add_numbers(&chats, "torn", 1..3);
    let older = chats
        .snapshot("torn")
        .wait()
        .unwrap()
        .before(end, 9)
        .wait()
        .unwrap();
    assert_eq!(older.messages.len(), 1);
    chats.truncate_to("torn", Keep::From(end)).wait().unwrap();
    assert_eq!(texts(&chats, "torn"), numbers(1..3));
    // Not where a line begins.
    let end = chats.snapshot("other").wait().unwrap().end().to_string();
    let (of, at) = end.split_once('-').unwrap();
    let amiss = u64::from_str_radix(at, 16).unwrap() - 3;
    let amiss = format!("{of}-{amiss:x}").parse().unwrap();
    let refused = chats
        .truncate_to("other", Keep::From(amiss))
        .wait()
        .unwrap_err();
    assert!(
        matches!(refused, Error::PositionNotFound { .. }),
        "{refused}"
    );
    assert_eq!(texts(&chats, "other"), numbers(0..9));
    store.close().unwrap();
}

#[test]
fn a_position_far_back_is_found_in_the_background() {
    let dir = scratch();
    let store = open(dir.path());
    let chats = store.handle();
    let long = |n: usize| Message::user(format!("{n} {}", "x".repeat(200)));
    for chunk in 0..10 {
        let messages = (chunk * 1000..(chunk + 1) * 1000).map(long).collect();
        chats.append_all("cli", messages).wait().unwrap();
    }
    let seen = chats.snapshot("cli").wait().unwrap();
    let page = seen.before(seen.end(), 9_000).wait().unwrap();
    let update = Update::new()
        .keep(Keep::From(page.start))
        .append(long(10_000));
    let (cut, added) = thread::scope(|scope| {
        let cut = scope.spawn(|| chats.update("cli", update).wait());
        let added = scope.spawn(|| chats.add_message("cli", "user", "beside").wait());
        (cut.join().unwrap(), added.join().unwrap())
    });
    cut.unwrap();
    added.unwrap();
    assert_eq!(chats.count("cli").wait().unwrap(), 9_002);
    chats.truncate_to("cli", Keep::Turns(8_000)).wait().unwrap();
    assert_eq!(chats.count("cli").wait().unwrap(), 8_000);
    store.close().unwrap();
}

#[test]
fn a_turn_is_not_cut_in_two() {
    let dir = scratch();
    let store = open(dir.path());
    let chats = store.handle();
    let said = vec![
        Message::user("weather?"),
        Message::assistant("").with_tool_call("call", "weather", "{}"),
        // Said while the tool ran.
        Message::user("quick!"),
        Message::tool("call", "rain"),
        Message::assistant("It rains."),
        Message::user("thanks"),
        Message::assistant("Any time."),
    ];
    for (keep, left) in [(0, 0), (1, 2), (2, 2), (3, 7), (5, 7), (7, 7), (9, 7)] {
        chats.set_history("cli", said.clone()).wait().unwrap();
        chats.truncate_to("cli", Keep::Turns(keep)).wait().unwrap();
        assert_eq!(chats.count("cli").wait().unwrap(), left, "{keep}");
    }
    // Its call is gone for good: the next best user's message must do.
    chats.set_history("cli", said[2..].to_vec()).wait().unwrap();
    chats.truncate_to("cli", Keep::Turns(4)).wait().unwrap();
    assert_eq!(chats.count("cli").wait().unwrap(), 5);
    chats.truncate_to("cli", Keep::Turns(2)).wait().unwrap();
    assert_eq!(chats.count("cli").wait().unwrap(), 2);
    store.close().unwrap();
}

fn deliver(chats: &StoreHandle, id: &str) -> Appended {
    let message = Message::user(format!("message {id}"));
    chats.append_once("cli", id, message).wait().unwrap()
}

fn is_new(chats: &StoreHandle, id: &str) -> bool {
    matches!(deliver(chats, id), Appended::New(_))
}

#[test]
fn a_message_is_taken_once_whatever_becomes_of_the_history() {
    let dir = scratch();
    let store = open(dir.path());
    let chats = store.handle();
    let Appended::New(made) = deliver(&chats, "1") else {
        panic!("it is the first")
    };
    assert_eq!(deliver(&chats, "1"), Appended::Duplicate(made));
    assert!(is_new(&chats, "with \"quotes\"\n and lines"));
    assert!(!is_new(&chats, "with \"quotes\"\n and lines"));
    let quick = chats.with_durability(Durability::Buffered);
    assert!(is_new(&quick, "2"));
    assert!(!is_new(&quick, "2"));
    store.close().unwrap();
    let store = open(dir.path());
    let chats = store.handle();
    for id in ["1", "2"] {
        assert!(!is_new(&chats, id), "{id}");
    }
    chats.truncate_history("cli", 0).wait().unwrap();
    chats.compact("cli").wait().unwrap();
    chats.set_history("cli", Vec::new()).wait().unwrap();
    chats.context("cli").clear().wait().unwrap();
    assert!(!is_new(&chats, "1"));
    assert_eq!(chats.count("cli").wait().unwrap(), 0);
    chats.delete_session("cli").wait().unwrap();
    assert!(is_new(&chats, "1"));
    store.close().unwrap();
}

/// Nothing is left of a deleted session, also if its files were removed by hand before.
#[test]
fn ids_go_with_their_session() {
    let dir = scratch();
    let once = dir.path().join(".sessionlog/once");
    let store = open(dir.path());
    let chats = store.handle();
    assert!(is_new(&chats, "1"));
    chats.flush().wait().unwrap();
    assert_eq!(std::fs::read_dir(&once).unwrap().count(), 1);
    chats.delete_session("cli").wait().unwrap();
    assert_eq!(std::fs::read_dir(&once).unwrap().count(), 0);
    assert!(is_new(&chats, "1"));
    store.close().unwrap();
    assert_eq!(std::fs::read_dir(&once).unwrap().count(), 1);
}

/// Were it an error, no flush would succeed while it is there, and no open after a crash.
#[test]
fn what_has_the_name_of_a_file_of_ids_is_set_aside() {
    let dir = scratch();
    let ids = dir.path().join(".sessionlog/once/cli.ids.jsonl");
    let quarantined = |dir: &Path| {
        let quarantine = dir.join(".sessionlog/quarantine");
        std::fs::read_dir(quarantine).map_or(0, Iterator::count)
    };
    let store = open(dir.path());
    let chats = store.handle();
    let take = |ids: &Path| {
        std::fs::create_dir_all(ids).unwrap();
        std::fs::write(ids.join("somebody's"), "").unwrap();
    };
    // Before it is read, and then before it is written.
    take(&ids);
    assert!(is_new(&chats, "1"));
    assert_eq!(quarantined(dir.path()), 1);
    take(&ids);
    chats.flush().wait().unwrap();
    assert_eq!(quarantined(dir.path()), 2);
    assert!(!is_new(&chats, "1"));
    assert!(is_new(&chats, "2"));
    // As a crash leaves it.
    let copy = scratch();
    copy_dir(dir.path(), copy.path());
    store.close().unwrap();
    let ids = copy.path().join(".sessionlog/once/cli.ids.jsonl");
    std::fs::remove_file(&ids).unwrap();
    take(&ids);
    let store = open(copy.path());
    assert_eq!(quarantined(copy.path()), 3);
    assert!(!is_new(&store.handle(), "2"));
    store.close().unwrap();
}

#[test]
fn an_id_that_is_none_is_refused() {
    let dir = scratch();
    let store = open(dir.path());
    let chats = store.handle();
    for id in ["", &"x".repeat(257)] {
        let refused = chats.append_once("cli", id, Message::user("hi")).wait();
        let size = id.len();
        match refused {
            Err(Error::InvalidMessageId { size: told, .. }) => assert_eq!(told, size),
            other => panic!("{other:?}"),
        }
    }
    assert!(is_new(&chats, &"x".repeat(256)));
    assert_eq!(chats.count("cli").wait().unwrap(), 1);
    store.close().unwrap();
}

/// Many who deliver the same updates at once, as after a platform's time limit.
#[test]
fn of_deliveries_at_once_one_is_new() {
    let dir = scratch();
    let store = open(dir.path());
    let chats = store.handle();
    let ids: Vec<_> = (0..40).map(|n| n.to_string()).collect();
    let news: usize = thread::scope(|scope| {
        let callers: Vec<_> = (0..8)
            .map(|_| scope.spawn(|| ids.iter().filter(|id| is_new(&chats, id)).count()))
            .collect();
        callers
            .into_iter()
            .map(|caller| caller.join().unwrap())
            .sum()
    });
    assert_eq!(news, 40);
    let said: BTreeSet<_> = texts(&chats, "cli").into_iter().collect();
    assert_eq!(said.len(), 40);
    assert_eq!(chats.count("cli").wait().unwrap(), 40);
    store.close().unwrap();
}

#[test]
fn the_newest_ids_are_remembered_and_the_file_stays_small() {
    let dir = scratch();
    let options = || manual().once_ids(16);
    let mut store = Store::open_with(dir.path(), options()).unwrap();
    for n in 0..200 {
        assert!(is_new(&store.handle(), &n.to_string()));
        if n % 10 == 9 {
            store.handle().flush().wait().unwrap();
        }
        if n % 50 == 49 {
            store.close().unwrap();
            store = Store::open_with(dir.path(), options()).unwrap();
        }
    }
    for n in 184..200 {
        assert!(!is_new(&store.handle(), &n.to_string()), "{n}");
    }
    store.close().unwrap();
    let ids = dir.path().join(".sessionlog/once/cli.ids.jsonl");
    let old = dir.path().join(".sessionlog/once/cli.old.jsonl");
    let lines = |path| std::fs::read_to_string(path).map_or(0, |text| text.lines().count());
    assert!((16..50).contains(&(lines(ids) + lines(old))));
    assert!(StoreOptions::new().once_ids(1).get_once_ids() == 16);
    // Its owner is gone, and another key gets its name.
    std::fs::remove_file(dir.path().join("cli.jsonl")).unwrap();
    let other = std::fs::read_to_string(dir.path().join("cli.meta.json")).unwrap();
    let other = other.replace("\"cli\"", "\"c l i\"");
    std::fs::write(dir.path().join("cli.meta.json"), other).unwrap();
    std::fs::write(dir.path().join("cli.jsonl"), line("hi")).unwrap();
    let store = Store::open_with(dir.path(), options()).unwrap();
    let chats = store.handle();
    let appended = chats
        .append_once("c l i", "199", Message::user("mine"))
        .wait()
        .unwrap();
    assert!(matches!(appended, Appended::New(_)));
    store.close().unwrap();
}

#[test]
fn a_store_that_is_read_only_takes_none_of_it() {
    let dir = scratch();
    let store = open(dir.path());
    add_numbers(&store.handle(), "cli", 0..3);
    let reader = Store::open_read_only(dir.path()).unwrap();
    let chats = reader.handle();
    let refused = [
        chats
            .update("cli", Update::new().summary("x"))
            .wait()
            .map(drop),
        chats
            .append_once("cli", "1", Message::user("x"))
            .wait()
            .map(drop),
        chats.truncate_to("cli", Keep::Last(1)).wait(),
    ];
    for refused in refused {
        assert!(matches!(refused, Err(Error::ReadOnly)), "{refused:?}");
    }
    store.close().unwrap();
}

#[test]
fn an_answer_to_a_history_that_is_gone_is_refused_and_others_are_not() {
    let dir = scratch();
    let store = open(dir.path());
    let chats = store.handle();
    let asked = || {
        add_numbers(&chats, "cli", 0..3);
        chats.snapshot("cli").wait().unwrap().end()
    };
    let answer = |at| {
        chats
            .append_after("cli", at, Message::assistant("late"))
            .wait()
    };
    let is_gone = |at| matches!(answer(at), Err(Error::PositionNotFound { .. }));
    let at = asked();
    add_numbers(&chats, "cli", 3..6);
    answer(at).unwrap();
    chats.truncate_history("cli", 1).wait().unwrap();
    chats.compact("cli").wait().unwrap();
    assert_eq!(texts(&chats, "cli"), ["late"]);
    answer(at).unwrap();
    chats.context("cli").clear().wait().unwrap();
    assert!(is_gone(at));
    assert_eq!(chats.count("cli").wait().unwrap(), 0);
    let at = asked();
    chats
        .set_history("cli", vec![Message::user("anew")])
        .wait()
        .unwrap();
    assert!(is_gone(at));
    let at = asked();
    chats.delete_session("cli").wait().unwrap();
    assert!(is_gone(at));
    assert!(!chats.exists("cli").wait().unwrap());
    assert!(chats.list_sessions().wait().unwrap().is_empty());
    // One that has the key since is another.
    let new = asked();
    assert!(is_gone(at));
    // Together with a version, both count.
    let update = Update::new()
        .after(new)
        .expect(Version::ABSENT)
        .append(Message::user("x"));
    assert!(is_conflict(
        &chats.update("cli", update).wait().unwrap_err()
    ));
    // A deletion that is under way comes first.
    let deletion = chats.delete_session("cli");
    let late = chats.append_after("cli", new, Message::assistant("late"));
    deletion.wait().unwrap();
    late.wait().unwrap_err();
    store.close().unwrap();
}

#[test]
fn an_answer_to_a_session_in_memory_that_is_gone_is_refused() {
    let store = EphemeralStore::new();
    store.add_message("cli", "user", "hi").wait().unwrap();
    let end = store
        .window("cli", Budget::unlimited())
        .wait()
        .unwrap()
        .start;
    let late = || {
        store
            .append_after("cli", end, vec![Message::assistant("late")])
            .wait()
    };
    late().unwrap();
    assert_eq!(store.count("cli").wait().unwrap(), 2);
    store.delete_session("cli").wait().unwrap();
    late().unwrap_err();
    assert!(!store.exists("cli").wait().unwrap());
}

#[test]
fn an_update_puts_messages_in_the_place_of_a_history_with_all_else_that_it_says() {
    let dir = scratch();
    let store = open(dir.path());
    let chats = store.handle();
    add_numbers(&chats, "cli", 0..3);
    let seen = chats.snapshot("cli").wait().unwrap();
    let whole = Update::new()
        .append(Message::assistant("b"))
        .replace([Message::user("a")])
        .summary("two")
        .title("Letters")
        .labels(["open"])
        .tokens(17);
    let elsewhere = chats.snapshot("other").wait().unwrap().end();
    let refused = chats.update("cli", whole.clone().after(elsewhere)).wait();
    assert!(matches!(refused, Err(Error::PositionNotFound { .. })));
    assert_eq!(texts(&chats, "cli"), numbers(0..3));
    let at = whole.clone().expect(seen.version()).after(seen.end());
    let now = chats.update("cli", at.clone()).wait().unwrap();
    let late = chats.update("cli", at).wait();
    assert!(is_conflict(&late.unwrap_err()));
    let check = |chats: &StoreHandle| {
        assert_eq!(texts(chats, "cli"), ["a", "b"]);
        let meta = chats.session_meta("cli").wait().unwrap();
        assert_eq!((&*meta.summary, &*meta.tags.title), ("two", "Letters"));
        assert_eq!(meta.tags.labels, ["open"]);
        let tokens = chats.context("cli").token_count().wait().unwrap();
        assert_eq!((tokens, meta.skip), (17, 0));
    };
    check(&chats);
    assert_eq!(version(&chats), now);
    let absent = whole.expect(Version::ABSENT);
    assert!(is_conflict(
        &chats.update("cli", absent.clone()).wait().unwrap_err()
    ));
    chats.update("new", absent).wait().unwrap();
    assert_eq!(texts(&chats, "new"), ["a", "b"]);
    store.close().unwrap();
    check(&open(dir.path()).handle());
}
