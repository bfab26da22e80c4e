//! What every store promises.

use sessionlog::backend::StoreKind;
use sessionlog::scope::build_session_key;
use sessionlog::{
    Appended, Budget, Error, ErrorKind, Keep, Merged, Message, SessionOrder, SessionPage,
    SessionQuery, Unpaired, Update, Version,
};

use super::{add, for_each_store, open_kind, owned, scope, texts};
use crate::support::{Caller, files, numbers, scratch};

#[test]
fn messages_come_back_in_their_order_with_all_they_hold() {
    for_each_store(|store, _| {
        add(store, "telegram:1", &["0", "1"]);
        let json = br#"{"role":"assistant","content":"2","tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{}"}}],"mood":"good"}"#;
        let full = Message::from_json(json).unwrap();
        store.add_full_message("telegram:1", full).wait().unwrap();
        let turn = vec![Message::tool("c", "3"), Message::assistant("4")];
        store.append_all("telegram:1", turn).wait().unwrap();
        assert_eq!(texts(store, "telegram:1"), numbers(0..5));
        let history = store.history("telegram:1").wait().unwrap();
        assert_eq!(history[2].tool_calls().len(), 1);
        assert_eq!(history[2].unknown_field("mood"), Some("\"good\""));
        assert!(history.iter().all(|message| message.created_at().is_some()));
        assert_eq!(store.list_sessions().wait().unwrap(), ["telegram:1"]);
    });
}

#[test]
fn what_finds_nothing_creates_nothing() {
    for_each_store(|store, _| {
        let thought = Message::assistant("").with_reasoning("hm");
        store.add_full_message("a", thought).wait().unwrap();
        store.append_all("a", Vec::new()).wait().unwrap();
        store.truncate_history("a", 1).wait().unwrap();
        store.save("a").wait().unwrap();
        store.delete_session("a").wait().unwrap();
        assert!(store.history("a").wait().unwrap().is_empty());
        assert_eq!(store.summary("a").wait().unwrap(), "");
        assert_eq!(store.session_scope("a").wait().unwrap(), None);
        assert_eq!(store.resolve_session_key("a").wait().unwrap(), None);
        assert!(store.list_sessions().wait().unwrap().is_empty());
    });
}

#[test]
fn histories_are_replaced_and_truncated_and_summaries_kept() {
    for_each_store(|store, _| {
        add(store, "a", &["0", "1", "2", "3"]);
        store.set_summary("a", "so far").wait().unwrap();
        store.truncate_history("a", 9).wait().unwrap();
        assert_eq!(texts(store, "a"), numbers(0..4));
        store.truncate_history("a", 3).wait().unwrap();
        store.save("a").wait().unwrap();
        assert_eq!(texts(store, "a"), numbers(1..4));
        store
            .set_history("a", vec![Message::user("x")])
            .wait()
            .unwrap();
        add(store, "a", &["y"]);
        assert_eq!(texts(store, "a"), ["x", "y"]);
        store.truncate_history("a", 0).wait().unwrap();
        assert!(texts(store, "a").is_empty());
        assert_eq!(store.summary("a").wait().unwrap(), "so far");
        store.set_history("new", Vec::new()).wait().unwrap();
        let mut listed = store.list_sessions().wait().unwrap();
        listed.sort();
        assert_eq!(listed, ["a", "new"]);
    });
}

#[test]
fn an_alias_means_its_session_until_that_is_deleted() {
    for_each_store(|store, _| {
        let (key, alias) = ("sk_1", "agent:main:irc:direct:bob");
        let bob = scope(&[("sender", "bob")]);
        let ensure = |aliases| store.ensure_session_metadata(key, Some(&bob), aliases);
        assert!(!ensure(owned(&[alias, " ", key])).wait().unwrap());
        assert!(!ensure(owned(&[alias])).wait().unwrap());
        add(store, alias, &["0"]);
        add(store, &format!(" {alias}\n"), &["1"]);
        assert_eq!(texts(store, key), numbers(0..2));
        let resolved = store.resolve_session_key(alias).wait().unwrap();
        assert_eq!(resolved.as_deref(), Some(key));
        assert_eq!(
            store.session_scope(alias).wait().unwrap(),
            Some(bob.clone())
        );
        assert_eq!(store.list_sessions().wait().unwrap(), [key]);

        store.delete_session(alias).wait().unwrap();
        assert_eq!(store.resolve_session_key(alias).wait().unwrap(), None);
        assert!(store.list_sessions().wait().unwrap().is_empty());
        add(store, alias, &["own"]);
        assert_eq!(store.list_sessions().wait().unwrap(), [alias]);
    });
}

#[test]
fn a_promotion_copies_once_and_only_into_a_session_that_shows_nothing() {
    for_each_store(|store, _| {
        let aliases = || owned(&["agent:main:main", "nobody", "old:1", "old:2"]);
        add(store, "agent:main:main", &["main"]);
        add(store, "old:1", &["0", "1", "2"]);
        store.truncate_history("old:1", 2).wait().unwrap();
        store.set_summary("old:1", " was ").wait().unwrap();
        add(store, "old:2", &["other"]);
        let ensure = |key, aliases| store.ensure_session_metadata(key, None, aliases).wait();
        assert!(ensure(" new ", aliases()).unwrap());
        assert_eq!(texts(store, "new"), numbers(1..3));
        assert_eq!(store.summary("new").wait().unwrap(), "was");
        // From here on the alias leads to the session; nothing comes twice.
        add(store, "old:1", &["3"]);
        assert!(!ensure("new", aliases()).unwrap());
        assert_eq!(texts(store, "new"), numbers(1..4));
        store.truncate_history("new", 0).wait().unwrap();
        assert!(!ensure("new", aliases()).unwrap(), "a summary is something");
        assert!(!ensure("mine", owned(&["agent:main:main"])).unwrap());
        assert!(texts(store, "mine").is_empty());
    });
}

#[test]
fn an_alias_of_two_sessions_means_the_first_by_file_name() {
    for_each_store(|store, _| {
        for key in ["sk_b", "sk_a", "sk_c"] {
            let ensured = store.ensure_session_metadata(key, None, owned(&["group:1"]));
            ensured.wait().unwrap();
        }
        let resolve = || store.resolve_session_key("group:1").wait().unwrap();
        assert_eq!(resolve().as_deref(), Some("sk_a"));
        store.delete_session("sk_a").wait().unwrap();
        assert_eq!(resolve().as_deref(), Some("sk_b"));
    });
}

/// PicoClaw joins the parts of a scope without escaping them.
#[test]
fn a_forged_scope_does_not_get_anothers_session() {
    for_each_store(|store, _| {
        let bob = scope(&[("chat", "direct:1"), ("sender", "bob")]);
        let forged = scope(&[("chat", "direct:1|sender=bob")]);
        let key = build_session_key(&bob);
        assert_eq!(build_session_key(&forged), key);
        let ensure = |scope, aliases| store.ensure_session_metadata(&key, Some(scope), aliases);
        ensure(&bob, owned(&["irc:bob"])).wait().unwrap();
        add(store, "irc:forged", &["evil"]);
        let refused = ensure(&forged, owned(&["irc:forged"])).wait();
        assert!(
            matches!(refused, Err(Error::ScopeConflict { .. })),
            "{refused:?}"
        );
        assert_eq!(store.session_scope(&key).wait().unwrap(), Some(bob.clone()));
        assert!(texts(store, &key).is_empty());
        let resolved = store.resolve_session_key("irc:forged").wait().unwrap();
        assert_eq!(resolved.as_deref(), Some("irc:forged"));
        ensure(&bob, owned(&["irc:bob"])).wait().unwrap();
    });
}

#[test]
fn keys_that_are_none_are_refused_by_every_verb() {
    for_each_store(|store, _| {
        let long = "k".repeat(64 << 10);
        for key in ["", "nul\0", &long] {
            let results = [
                store.add_message(key, "user", "x").wait(),
                store.append_all(key, Vec::new()).wait(),
                store.set_history(key, Vec::new()).wait(),
                store.truncate_history(key, 0).wait(),
                store.set_summary(key, "s").wait(),
                store.save(key).wait(),
                store.delete_session(key).wait(),
                store.history(key).wait().map(drop),
                store.summary(key).wait().map(drop),
                store.session_scope(key).wait().map(drop),
                store
                    .ensure_session_metadata(key, None, Vec::new())
                    .wait()
                    .map(drop),
            ];
            for (verb, result) in results.into_iter().enumerate() {
                assert!(
                    matches!(result, Err(Error::InvalidKey { .. })),
                    "{verb}: {result:?}"
                );
            }
            assert_eq!(store.resolve_session_key(key).wait().unwrap(), None);
        }
        let blank = store
            .ensure_session_metadata(" \t\n", None, Vec::new())
            .wait();
        assert!(matches!(blank, Err(Error::InvalidKey { .. })));
        assert!(store.list_sessions().wait().unwrap().is_empty());
    });
}

#[test]
fn aliases_that_no_key_can_be_harm_nobody() {
    for_each_store(|store, _| {
        add(store, "old:1", &["0"]);
        let long = "a".repeat(64 << 10);
        let aliases = owned(&[&long, "nul\0", "", "\u{2003}", "old:1"]);
        let ensured = store.ensure_session_metadata("new", None, aliases);
        assert!(ensured.wait().unwrap());
        assert_eq!(texts(store, "new"), ["0"]);
    });
}

/// What looks like a path is a name or an error, never a path; and keys that
/// would have one file are two sessions.
#[test]
fn no_key_leads_out_of_the_directory_or_into_anothers_session() {
    let keys = [
        "..",
        ".",
        "../outside",
        "..\\outside",
        "/etc/passwd",
        "a/../../b",
        "./a",
        ".hidden",
        "a:b",
        "a/b",
        "a_b",
        "a\\b",
        "con",
        "line\nfeed",
        "x.meta",
        "ключ/日本",
        "-rf",
        "~",
        "~/x",
        "k|a=b",
    ];
    for_each_store(|store, dir| {
        let accepted = |key: &&str| match store.add_message(key, "user", key).wait() {
            Ok(()) => true,
            Err(Error::InvalidKey { .. }) => false,
            Err(error) => panic!("{key:?}: {error}"),
        };
        let accepted: Vec<_> = keys.into_iter().filter(accepted).collect();
        assert!(accepted.len() >= 12, "{accepted:?}");
        for key in &accepted {
            store.save(key).wait().unwrap();
            assert_eq!(texts(store, key), [*key]);
        }
        let mut listed = store.list_sessions().wait().unwrap();
        let mut expected = accepted.clone();
        listed.sort();
        expected.sort_unstable();
        assert_eq!(listed, expected);
        let outside = files(dir.parent().unwrap());
        assert!(
            outside.keys().all(|path| path.starts_with("sessions")),
            "{outside:?}"
        );

        store.close().wait().unwrap();
        let again = open_kind(store.kind(), dir);
        for key in accepted.iter().filter(|_| dir.exists()) {
            assert_eq!(texts(&*again, key), [*key], "{key:?}");
        }
        again.close().wait().unwrap();
    });
}

#[test]
fn messages_that_are_none_and_those_over_the_limit_are_refused_whole() {
    for_each_store(|store, _| {
        let control = Message::from_json(br#"{"role":"_usage"}"#);
        let huge = Message::user("x".repeat(17 << 20));
        for bad in control.into_iter().chain([huge]) {
            let batch = vec![Message::user("good"), bad];
            let refused = store.append_all("a", batch.clone()).wait();
            match refused {
                Err(Error::MessageTooLarge { messages, .. }) => assert_eq!(messages.len(), 2),
                Err(Error::InvalidMessage { .. }) => {}
                other => panic!("{other:?}"),
            }
            assert!(store.set_history("a", batch).wait().is_err());
        }
        assert!(
            store
                .set_summary("a", &"s".repeat(17 << 20))
                .wait()
                .is_err()
        );
        let heap = vec!["x".repeat(17 << 20)];
        assert!(
            store
                .ensure_session_metadata("a", None, heap)
                .wait()
                .is_err()
        );
        assert!(store.list_sessions().wait().unwrap().is_empty());
    });
}

#[test]
fn a_verb_does_nothing_before_it_is_asked_for_its_answer() {
    for_each_store(|store, _| {
        drop(store.add_message("a", "user", "x"));
        let later = store.add_message("a", "user", "y");
        assert!(texts(store, "a").is_empty());
        later.wait().unwrap();
        assert_eq!(texts(store, "a"), ["y"]);
    });
}

#[test]
fn every_way_of_waiting_gets_the_same_answers() {
    for caller in Caller::each() {
        for_each_store(|store, _| {
            caller.ok(store.add_message("old:1", "user", "x"));
            assert!(caller.ok(store.ensure_session_metadata("a", None, owned(&["old:1"]))));
            caller.ok(store.save("old:1"));
            assert_eq!(caller.ok(store.history("old:1")).len(), 1);
            assert_eq!(caller.ok(store.session_scope("a")), None);
            caller.ok(store.delete_session("a"));
            caller.ok(store.close());
        });
    }
}

#[test]
fn a_closed_store_refuses_everything_and_closes_again() {
    for_each_store(|store, _| {
        add(store, "a", &["x"]);
        store.close().wait().unwrap();
        store.close().wait().unwrap();
        for result in [
            store.add_message("a", "user", "x").wait(),
            store.history("a").wait().map(drop),
            store.save("a").wait(),
            store.list_sessions().wait().map(drop),
            store.resolve_session_key("a").wait().map(drop),
            store
                .ensure_session_metadata("a", None, Vec::new())
                .wait()
                .map(drop),
        ] {
            assert!(matches!(result, Err(Error::Closed)), "{result:?}");
        }
    });
}

#[test]
fn threads_that_write_to_one_session_lose_nothing() {
    for_each_store(|store, _| {
        std::thread::scope(|threads| {
            for thread in 0..4 {
                threads.spawn(move || {
                    for n in 0..10 {
                        add(store, "a", &[&format!("{thread}-{n}")]);
                        store.save("a").wait().unwrap();
                    }
                });
            }
        });
        let texts = texts(store, "a");
        assert_eq!(texts.len(), 40);
        for thread in 0..4 {
            let prefix = format!("{thread}-");
            let own: Vec<_> = texts
                .iter()
                .filter(|text| text.starts_with(&prefix))
                .collect();
            assert!(own.is_sorted(), "{own:?}");
        }
    });
}

#[test]
fn what_was_closed_is_there_when_it_is_opened_again() {
    for kind in super::KINDS {
        let dir = scratch();
        let store = open_kind(kind, dir.path());
        add(&*store, "telegram:1", &["0", "1", "2"]);
        store.set_summary("telegram:1", "s").wait().unwrap();
        store.truncate_history("telegram:1", 2).wait().unwrap();
        store.close().wait().unwrap();
        let again = open_kind(kind, dir.path());
        let lasting = dir.path().read_dir().unwrap().next().is_some();
        let expected = if lasting { numbers(1..3) } else { Vec::new() };
        assert_eq!(texts(&*again, "telegram:1"), expected);
        assert_eq!(
            again.summary("telegram:1").wait().unwrap().is_empty(),
            !lasting
        );
    }
}

/// The file system is where a scope can be anything.
#[test]
fn a_scope_that_is_none_costs_itself_alone() {
    let scopes = [
        "5",
        "\"x\"",
        "{\"version\":\"one\"}",
        "[{}]",
        "{\"values\":[1]}",
    ];
    for json in scopes {
        let dir = scratch();
        let sidecar = format!("{{\"key\":\"a\",\"scope\":{json},\"aliases\":[\"b:1\"]}}");
        std::fs::write(dir.path().join("a.meta.json"), sidecar).unwrap();
        std::fs::write(dir.path().join("a.jsonl"), crate::support::line("x")).unwrap();
        let store = open_kind(sessionlog::backend::StoreKind::Jsonl, dir.path());
        assert_eq!(texts(&*store, "b:1"), ["x"]);
        let found = store.session_scope("a").wait();
        assert!(
            matches!(found, Err(Error::InvalidScope { .. })),
            "{found:?}"
        );
        let bob = scope(&[("sender", "bob")]);
        store
            .ensure_session_metadata("a", Some(&bob), Vec::new())
            .wait()
            .unwrap();
        assert_eq!(store.session_scope("a").wait().unwrap(), Some(bob));
        assert_eq!(texts(&*store, "a"), ["x"]);
    }
}

#[test]
fn an_update_is_one_change_at_the_version_it_expects() {
    for_each_store(|store, _| {
        let nobody = store.update("a", Update::new()).wait().unwrap();
        assert_eq!(nobody, Version::ABSENT);
        assert!(
            !store.exists("a").wait().unwrap(),
            "finding nothing makes nothing"
        );
        let first_one = Update::new().append(Message::user("0")).expect(nobody);
        let first = store.update("a", first_one.clone()).wait().unwrap();
        assert_ne!(first, Version::ABSENT);
        let again = store.update("a", first_one).wait();
        assert!(
            matches!(again, Err(Error::VersionConflict { expected, found, .. })
                if expected == nobody && found == first),
        );
        add(store, "a", &["1", "2"]);
        let seen = store.update("a", Update::new()).wait().unwrap();
        assert_ne!(seen, first);
        let late = Update::new().expect(first).summary("late");
        assert!(store.update("a", late).wait().is_err());
        let all = Update::new()
            .expect(seen)
            .keep(Keep::Last(1))
            .summary("so far")
            .append([Message::user("3"), Message::assistant("4")]);
        let made = store.update("a", all).wait().unwrap();
        assert_eq!(store.update("a", Update::new()).wait().unwrap(), made);
        assert_eq!(texts(store, "a"), ["2", "3", "4"]);
        assert_eq!(store.summary("a").wait().unwrap(), "so far");
        assert_eq!(store.count("a").wait().unwrap(), 3);
        assert!(store.exists("a").wait().unwrap());
        let tail = store.tail("a", 2).wait().unwrap();
        assert_eq!(
            tail.iter().map(|m| m.text()).collect::<Vec<_>>(),
            ["3", "4"]
        );
        let large = Update::new()
            .summary("x")
            .append(Message::user("y".repeat(33 << 20)));
        let refused = store.update("a", large).wait();
        let Err(Error::MessageTooLarge { messages, .. }) = refused else {
            panic!("{refused:?}");
        };
        assert_eq!(messages.len(), 1);
        assert_eq!(store.summary("a").wait().unwrap(), "so far");
        let whole = Update::new()
            .replace([Message::user("5")])
            .append(Message::assistant("6"))
            .keep(Keep::Last(9));
        let now = store.update("a", Update::new()).wait().unwrap();
        let late = store.update("a", whole.clone().expect(seen)).wait();
        assert!(matches!(late, Err(Error::VersionConflict { .. })));
        let anew = store.update("a", whole.expect(now)).wait().unwrap();
        assert_eq!(store.update("a", Update::new()).wait().unwrap(), anew);
        assert_eq!(texts(store, "a"), ["5", "6"]);
        assert_eq!(store.summary("a").wait().unwrap(), "so far");
    });
}

#[test]
fn a_window_has_whole_turns_and_says_where_it_begins() {
    for_each_store(|store, _| {
        let turn = |n: usize| {
            let id = format!("call_{n}");
            vec![
                Message::user(format!("{n}?")),
                Message::assistant("").with_tool_call(&id, "f", "{}"),
                Message::tool(&id, "x"),
                Message::assistant(format!("{n}!")),
            ]
        };
        for n in 0..3 {
            store.append_all("a", turn(n)).wait().unwrap();
        }
        store.set_summary("a", "so far").wait().unwrap();
        let budget = Budget::unlimited().messages(9);
        let window = store.window("a", budget).wait().unwrap();
        assert_eq!((window.messages.len(), window.omitted), (8, 4));
        assert_eq!((&*window.summary, window.is_partial), ("so far", false));
        assert_eq!(
            window.version,
            store.update("a", Update::new()).wait().unwrap()
        );
        add(store, "a", &["late"]);
        store
            .truncate_to("a", Keep::From(window.start))
            .wait()
            .unwrap();
        assert_eq!(
            store.count("a").wait().unwrap(),
            9,
            "what came meanwhile stays"
        );
        store.truncate_to("a", Keep::Turns(2)).wait().unwrap();
        assert_eq!(texts(store, "a")[0], "2?");
        store.set_history("a", turn(7)).wait().unwrap();
        let gone = store.truncate_to("a", Keep::From(window.start)).wait();
        assert!(
            matches!(gone, Err(Error::PositionNotFound { .. })),
            "{gone:?}"
        );
        let cut = Budget::unlimited().messages(2).unpaired(Unpaired::Error);
        assert_eq!(
            store.window("a", cut).wait().unwrap_err().kind(),
            ErrorKind::Conflict
        );
        let nobody = store.window("b", Budget::unlimited()).wait().unwrap();
        assert_eq!(
            (nobody.messages.len(), nobody.version),
            (0, Version::ABSENT)
        );
    });
}

#[test]
fn what_is_delivered_again_is_not_appended_again() {
    for_each_store(|store, _| {
        let deliver = |key: &str, id: &str| {
            let said = vec![Message::user(id)];
            store.append_once(key, id, said).wait()
        };
        if store.kind() == StoreKind::LegacyJson {
            let refused = deliver("a", "1").unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::Unsupported);
            assert!(!store.exists("a").wait().unwrap());
            return;
        }
        assert!(matches!(deliver("a", "1").unwrap(), Appended::New(_)));
        assert!(matches!(deliver("a", "2").unwrap(), Appended::New(_)));
        store.set_history("a", Vec::new()).wait().unwrap();
        let at = store.update("a", Update::new()).wait().unwrap();
        assert_eq!(deliver("a", "1").unwrap(), Appended::Duplicate(at));
        assert!(matches!(deliver("b", "1").unwrap(), Appended::New(_)));
        store.delete_session("a").wait().unwrap();
        assert!(matches!(deliver("a", "1").unwrap(), Appended::New(_)));
        assert_eq!(texts(store, "a"), ["1"]);
        assert!(matches!(
            deliver("a", ""),
            Err(Error::InvalidMessageId { .. })
        ));
    });
}

#[test]
fn sessions_are_found_in_pages() {
    for_each_store(|store, _| {
        for key in ["telegram:1", "telegram:2", "telegram:3", "slack:1"] {
            add(store, key, &[key, "last"]);
        }
        store
            .set_summary("telegram:1", "first of them")
            .wait()
            .unwrap();
        let page = |query| store.sessions(query).wait().unwrap();
        let query = SessionQuery::new().prefix("telegram:").limit(2);
        let first = page(query.clone());
        let keys = |page: &SessionPage| {
            let keys = page.sessions.iter().map(|info| info.key.clone());
            keys.collect::<Vec<_>>()
        };
        assert_eq!(keys(&first), ["telegram:1", "telegram:2"]);
        assert_eq!(first.sessions[0].first_text, "telegram:1");
        assert_eq!(first.sessions[0].last_text, "last");
        assert_eq!(first.sessions[0].summary, "first of them");
        assert_eq!(first.sessions[0].lines, 2);
        let rest = page(query.clone().after(first.next.unwrap()));
        assert_eq!(
            (keys(&rest), rest.next),
            (vec!["telegram:3".to_owned()], None)
        );
        let newest = page(SessionQuery::new().order(SessionOrder::Updated).limit(1));
        assert_eq!(keys(&newest), ["telegram:1"]);
        let next = page(
            SessionQuery::new()
                .order(SessionOrder::Updated)
                .after(newest.next.unwrap()),
        );
        assert_eq!(keys(&next), ["slack:1", "telegram:3", "telegram:2"]);
    });
}

#[test]
fn titles_labels_and_pins_are_found_and_stay_until_the_session_is_deleted() {
    for_each_store(|store, _| {
        let tags = |key: &str| {
            let page = store.sessions(SessionQuery::new().prefix(key)).wait();
            let found = page.unwrap().sessions.swap_remove(0);
            assert_eq!(found.key, key);
            (found.title, found.labels, found.pinned)
        };
        add(store, "telegram:1", &["0", "1", "2"]);
        add(store, "telegram:2", &["0"]);
        store
            .set_title("telegram:1", "  Oslo in May ")
            .wait()
            .unwrap();
        let labels = owned(&["travel", " ours ", "travel", "", "nul \0"]);
        store.set_labels("telegram:1", labels).wait().unwrap();
        store.set_pinned("telegram:1", true).wait().unwrap();
        store
            .set_labels("telegram:2", owned(&["travel"]))
            .wait()
            .unwrap();
        let whole = (
            "Oslo in May".to_owned(),
            owned(&["travel", "ours", "nul \0"]),
            true,
        );
        let is_whole = || assert_eq!(tags("telegram:1"), whole);
        is_whole();
        let found = |query: SessionQuery| {
            let page = store.sessions(query.limit(9)).wait().unwrap();
            let keys = page.sessions.into_iter().map(|info| info.key);
            keys.collect::<Vec<_>>()
        };
        let both = ["telegram:1", "telegram:2"];
        let all = SessionQuery::new;
        assert_eq!(found(all().label("travel")), both);
        assert_eq!(found(all().label("travel").label("ours")), both[..1]);
        assert_eq!(found(all().label("travel").pinned()), both[..1]);
        assert_eq!(found(all().label("nul \0")), both[..1]);
        for other in ["nul  ", "nul", "rave", "TRAVEL", ""] {
            assert!(found(all().label(other)).is_empty(), "{other}");
        }
        assert_eq!(found(all().pinned().prefix("telegram:2")), [""; 0]);

        store.truncate_history("telegram:1", 1).wait().unwrap();
        store
            .set_history("telegram:1", vec![Message::user("anew")])
            .wait()
            .unwrap();
        store.set_summary("telegram:1", "so far").wait().unwrap();
        store.save("telegram:1").wait().unwrap();
        is_whole();
        // One that takes its history over has its own.
        let promoted = store.ensure_session_metadata("sk_new", None, owned(&["telegram:1"]));
        assert!(promoted.wait().unwrap());
        assert_eq!(tags("sk_new"), Default::default());
        store.delete_session("sk_new").wait().unwrap();

        let at = store.update("telegram:1", Update::new()).wait().unwrap();
        let change = Update::new()
            .expect(at)
            .title("Bergen")
            .append(Message::user("more"))
            .keep(Keep::Last(0));
        store.update("telegram:1", change.clone()).wait().unwrap();
        let late = store.update("telegram:1", change.title("late")).wait();
        assert!(matches!(late, Err(Error::VersionConflict { .. })));
        assert_eq!(tags("telegram:1").0, "Bergen");
        assert_eq!(tags("telegram:1").1, whole.1);
        assert_eq!(texts(store, "telegram:1"), ["more"]);
        let huge = store.set_title("telegram:1", &"t".repeat(40 << 20)).wait();
        assert!(
            matches!(huge, Err(Error::MessageTooLarge { .. })),
            "{huge:?}"
        );
        let none = Update::new().title("").labels([""]).pinned(false);
        store.update("telegram:1", none).wait().unwrap();
        assert_eq!(tags("telegram:1"), Default::default());
        assert_eq!(found(all().pinned()), [""; 0]);

        store.delete_session("telegram:2").wait().unwrap();
        add(store, "telegram:2", &["0"]);
        assert_eq!(tags("telegram:2"), Default::default());
        store.set_title("named", "N").wait().unwrap();
        assert!(store.exists("named").wait().unwrap());
    });
}

#[test]
fn an_answer_to_a_history_that_is_gone_is_refused() {
    for_each_store(|store, _| {
        add(store, "a", &["0", "1"]);
        let answer = || vec![Message::assistant("late")];
        let asked = || {
            let window = store.window("a", Budget::unlimited());
            window.wait().unwrap().start
        };
        let position = asked();
        store.truncate_history("a", 1).wait().unwrap();
        store.append_after("a", position, answer()).wait().unwrap();
        assert_eq!(texts(store, "a"), ["1", "late"]);
        let refused = |position| {
            let late = store.append_after("a", position, answer()).wait();
            assert!(
                matches!(late, Err(Error::PositionNotFound { .. })),
                "{late:?}"
            );
        };
        store.set_history("a", answer()).wait().unwrap();
        refused(position);
        let position = asked();
        store.delete_session("a").wait().unwrap();
        refused(position);
        assert!(!store.exists("a").wait().unwrap(), "it begins no new one");
        add(store, "a", &["another"]);
        refused(position);
        let gone = Update::new().keep(Keep::From(position)).summary("s");
        let gone = store.update("a", gone).wait();
        assert!(
            matches!(gone, Err(Error::PositionNotFound { .. })),
            "{gone:?}"
        );
    });
}

#[test]
fn one_message_is_replaced_or_removed_and_a_history_at_a_version_only() {
    for_each_store(|store, _| {
        add(store, "a", &["0", "1", "2", "3", "4"]);
        store.truncate_history("a", 4).wait().unwrap();
        let newest = |n: usize| {
            let window = store.window("a", Budget::unlimited().messages(n));
            window.wait().unwrap()
        };
        let is_lost = |told: Result<Version, Error>| {
            assert!(
                matches!(told, Err(Error::PositionNotFound { .. })),
                "{told:?}"
            );
        };
        let dates = || {
            let history = store.history("a").wait().unwrap();
            let dates = history
                .into_iter()
                .map(|one| one.created_at().map(str::to_owned));
            dates.collect::<Vec<_>>()
        };
        let (before, at) = (dates(), newest(3).start);
        for text in ["a longer text than before", "b", "short"] {
            let at = newest(3).start;
            let version = store.edit("a", at, Message::user(text)).wait().unwrap();
            assert_eq!(newest(1).version, version);
            assert_eq!(texts(store, "a"), ["1", text, "3", "4"]);
        }
        assert_eq!(dates(), before, "it is dated as the old one");
        is_lost(store.edit("a", at, Message::user("late")).wait());
        is_lost(store.remove("a", at).wait());
        add(store, "a", &["5"]);
        // The first, one between, and the last.
        for (n, left) in [
            (5, &["short", "3", "4", "5"][..]),
            (3, &["short", "4", "5"]),
            (1, &["short", "4"]),
        ] {
            store.remove("a", newest(n).start).wait().unwrap();
            assert_eq!(texts(store, "a"), left);
            assert_eq!(store.count("a").wait().unwrap(), left.len());
        }
        add(store, "a", &["6"]);
        assert_eq!(texts(store, "a"), ["short", "4", "6"]);
        let thought = Message::assistant("").with_reasoning("hm");
        let refused = store.edit("a", newest(1).start, thought).wait();
        assert!(
            matches!(refused, Err(Error::InvalidMessage { .. })),
            "{refused:?}"
        );
        let huge = Message::user("x".repeat(40 << 20));
        let refused = store.edit("a", newest(1).start, huge).wait();
        assert!(matches!(refused, Err(Error::MessageTooLarge { .. })));
        is_lost(store.remove("other", newest(1).start).wait());
        assert_eq!(texts(store, "a"), ["short", "4", "6"]);

        let version = newest(1).version;
        add(store, "a", &["7"]);
        let late = store.set_history_at("a", version, Vec::new()).wait();
        assert!(matches!(late, Err(Error::VersionConflict { .. })));
        let now = newest(1).version;
        let anew = vec![Message::user("anew")];
        let version = store.set_history_at("a", now, anew).wait().unwrap();
        assert_eq!(newest(1).version, version);
        assert_eq!(texts(store, "a"), ["anew"]);
    });
}

#[test]
fn a_session_gets_another_key_and_stands_before_what_that_has() {
    for_each_store(|store, _| {
        add(store, "group:1", &["0", "1"]);
        store.set_summary("group:1", "older").wait().unwrap();
        let aliases = owned(&["group:0"]);
        store
            .ensure_session_metadata("group:1", None, aliases)
            .wait()
            .unwrap();
        if store.kind() == StoreKind::LegacyJson {
            let refused = store.rename_session("group:1", "super:1").wait();
            assert_eq!(refused.unwrap_err().kind(), ErrorKind::Unsupported);
            let refused = store.merge_session("group:1", "super:1").wait();
            assert_eq!(refused.unwrap_err().kind(), ErrorKind::Unsupported);
            return;
        }
        let taken = store.append_once("group:1", "id", vec![Message::user("2")]);
        assert!(matches!(taken.wait().unwrap(), Appended::New(_)));
        store.set_title("group:1", "the group").wait().unwrap();
        store.set_labels("group:1", owned(&["x"])).wait().unwrap();
        let newest = |key: &str| {
            let budget = Budget::unlimited().messages(1);
            store.window(key, budget).wait().unwrap()
        };
        let before = newest("group:1");
        store.rename_session("group:1", "moved:1").wait().unwrap();
        let after = newest("moved:1");
        assert_eq!((after.start, after.version), (before.start, before.version));
        let taken = store.append_once("super:1", "newer id", vec![Message::user("3")]);
        assert!(matches!(taken.wait().unwrap(), Appended::New(_)));
        store.set_summary("super:1", "newer").wait().unwrap();
        store.set_labels("super:1", owned(&["y"])).wait().unwrap();
        let refused = store.rename_session("moved:1", "super:1").wait();
        assert_eq!(refused.unwrap_err().kind(), ErrorKind::Conflict);
        for (old, new, kind) in [
            ("group:1", "other:1", ErrorKind::Conflict),
            ("super:1", "group:1", ErrorKind::Conflict),
            ("none", "other:1", ErrorKind::NotFound),
            ("moved:1", "moved:1", ErrorKind::InvalidInput),
            ("moved:1", " ", ErrorKind::InvalidInput),
        ] {
            let refused = store.merge_session(old, new).wait().unwrap_err();
            assert_eq!(refused.kind(), kind, "{old} {new}: {refused}");
        }
        // A key that a third session claims is not left to that one.
        add(store, "plain", &["x"]);
        add(store, "third:1", &["y"]);
        let claims = store.ensure_session_metadata("third:1", None, owned(&["plain"]));
        claims.wait().unwrap();
        let refused = store.rename_session("plain", "other:1").wait();
        assert_eq!(refused.unwrap_err().kind(), ErrorKind::Conflict);
        assert_eq!(texts(store, "plain"), ["x"]);
        for key in ["plain", "third:1"] {
            store.delete_session(key).wait().unwrap();
        }
        let merged = store.merge_session("moved:1", "super:1").wait().unwrap();
        assert_eq!(merged, Merged::Joined);
        assert_eq!(store.list_sessions().wait().unwrap(), ["super:1"]);
        for key in ["super:1", "moved:1", "group:1", "group:0"] {
            assert_eq!(texts(store, key), numbers(0..4), "{key}");
        }
        assert_eq!(store.summary("group:1").wait().unwrap(), "older\n\nnewer");
        for id in ["id", "newer id"] {
            let taken = store.append_once("group:1", id, vec![Message::user("2")]);
            assert!(
                matches!(taken.wait().unwrap(), Appended::Duplicate(_)),
                "{id}"
            );
        }
        let page = store.sessions(SessionQuery::new()).wait().unwrap();
        assert_eq!(page.sessions[0].title, "the group");
        assert_eq!(page.sessions[0].labels, ["y", "x"]);
        let lost = store
            .truncate_to("super:1", Keep::From(before.start))
            .wait();
        assert!(
            matches!(lost, Err(Error::PositionNotFound { .. })),
            "{lost:?}"
        );
    });
}
