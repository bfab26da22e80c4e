//! Finding sessions among many.

use std::collections::BTreeSet;
use std::thread;
use std::time::SystemTime;

use serde_json::value::RawValue;
use sessionlog::{
    Erase, Message, SearchQuery, SessionOrder, SessionPage, SessionQuery, Store, StoreHandle,
};

use crate::support::{line, open, said, scratch};

fn found(chats: &StoreHandle, query: SessionQuery) -> SessionPage {
    chats.sessions(query).wait().unwrap()
}

fn keys(page: &SessionPage) -> Vec<&str> {
    page.sessions.iter().map(|info| &*info.key).collect()
}

fn scope(agent: &str, channel: &str) -> Option<Box<RawValue>> {
    let json = format!(
        r#"{{"version":1,"agent_id":"{agent}","channel":"{channel}","account":"default","dimensions":null,"values":null}}"#
    );
    RawValue::from_string(json).ok()
}

#[test]
fn sessions_are_found_by_what_their_sidecars_say_whoever_reads() {
    let dir = scratch();
    let store = open(dir.path());
    let chats = store.handle();
    for n in 0..6 {
        let key = format!("telegram:{n}");
        let agent = if n % 2 == 0 { "even" } else { "odd" };
        let said = vec![
            Message::user(format!("first {n}")),
            Message::assistant("x".repeat(40_000)),
            Message::user(format!("last {n}")),
        ];
        chats.append_all(&key, said).wait().unwrap();
        chats
            .upsert_session_meta(&key, scope(agent, "telegram"), Vec::new())
            .wait()
            .unwrap();
    }
    chats.add_message("cli", "user", "hi").wait().unwrap();
    chats.set_summary("cli", "greeted").wait().unwrap();
    let middle = SystemTime::now();
    chats.truncate_history("telegram:2", 2).wait().unwrap();
    chats
        .set_summary("summary only", "nothing was said")
        .wait()
        .unwrap();
    let agree = |chats: &StoreHandle| {
        let all = found(chats, SessionQuery::new());
        assert_eq!(keys(&all), chats.list_sessions().wait().unwrap());
        assert!(all.next.is_none() && all.unreadable.is_empty());
        for info in &all.sessions {
            let meta = chats.session_meta(&info.key).wait().unwrap();
            assert_eq!(
                (&info.summary, &info.updated_at),
                (&meta.summary, &meta.updated_at)
            );
            assert_eq!(i64::try_from(info.lines).unwrap(), meta.count - meta.skip);
            let history = chats.history(&info.key).wait().unwrap();
            let text = |message: Option<&Message>| {
                let text = message.map(|m| m.text().chars().take(200).collect::<String>());
                text.unwrap_or_default()
            };
            assert_eq!(info.first_text, text(history.first()), "{}", info.key);
            assert_eq!(info.last_text, text(history.last()), "{}", info.key);
        }
        let odd = found(chats, SessionQuery::new().agent("odd").channel("telegram"));
        assert_eq!(keys(&odd), ["telegram:1", "telegram:3", "telegram:5"]);
        assert_eq!(odd.sessions[0].agent, "odd");
        let since = SessionQuery::new()
            .updated_since(middle)
            .prefix("telegram:");
        assert_eq!(keys(&found(chats, since)), ["telegram:2"]);
        let newest = SessionQuery::new().order(SessionOrder::Updated).limit(3);
        let newest = found(chats, newest);
        assert_eq!(keys(&newest), ["summary only", "telegram:2", "cli"]);
        for order in [SessionOrder::Name, SessionOrder::Updated] {
            let whole = found(chats, SessionQuery::new().order(order));
            for limit in [0, 1, 3, 8, 9] {
                let query = SessionQuery::new().order(order).limit(limit);
                let mut page = found(chats, query.clone());
                let mut all = page.sessions.clone();
                while let Some(next) = page.next {
                    assert_eq!(page.sessions.len(), limit.max(1));
                    page = found(chats, query.clone().after(next));
                    all.extend(page.sessions.clone());
                }
                assert_eq!(all, whole.sessions, "{order:?} {limit}");
            }
        }
    };
    agree(&chats);
    agree(&Store::open_read_only(dir.path()).unwrap().handle());
    chats.flush().wait().unwrap();
    store.close().unwrap();
    // Nobody has used any of them since.
    let store = open(dir.path());
    agree(&store.handle());
    store.handle().compact("telegram:2").wait().unwrap();
    store.close().unwrap();
}

#[test]
fn one_session_that_does_not_read_keeps_no_other_from_being_listed() {
    let dir = scratch();
    for key in ["a", "b"] {
        std::fs::write(dir.path().join(format!("{key}.jsonl")), line("hi")).unwrap();
        let sidecar = format!(r#"{{"key":"{key}","skip":0,"count":1}}"#);
        std::fs::write(dir.path().join(format!("{key}.meta.json")), sidecar).unwrap();
    }
    let store = open(dir.path());
    let chats = store.handle();
    std::fs::remove_file(dir.path().join("a.jsonl")).unwrap();
    std::fs::create_dir(dir.path().join("a.jsonl")).unwrap();
    for order in [SessionOrder::Name, SessionOrder::Updated] {
        let page = found(&chats, SessionQuery::new().order(order));
        assert_eq!(
            (keys(&page), &*page.unreadable),
            (vec!["b"], &["a".to_owned()][..])
        );
    }
    store.close().unwrap();
}

/// Beside a writer that appends, truncates and compacts, every session that is there all
/// the time is found every time, as it was at some moment.
#[test]
fn sessions_are_found_beside_a_writer() {
    let dir = scratch();
    let store = Store::open(dir.path()).unwrap();
    let chats = store.handle();
    for n in 0..40 {
        chats
            .add_message(&format!("s{n}"), "user", "0")
            .wait()
            .unwrap();
    }
    let reader = Store::open_read_only(dir.path()).unwrap();
    thread::scope(|scope| {
        let writer = scope.spawn(|| {
            for round in 1..40 {
                for n in 0..40 {
                    let key = format!("s{n}");
                    chats
                        .add_message(&key, "user", &round.to_string())
                        .wait()
                        .unwrap();
                    if round % 5 == n % 5 {
                        chats.truncate_history(&key, 1).wait().unwrap();
                    }
                }
            }
        });
        while !writer.is_finished() {
            for chats in [&chats, &reader.handle()] {
                let page = found(chats, SessionQuery::new().prefix("s"));
                let distinct: BTreeSet<_> = keys(&page).into_iter().collect();
                assert_eq!(distinct.len(), 40);
                for info in &page.sessions {
                    let first: u32 = info.first_text.parse().unwrap();
                    let last: u32 = info.last_text.parse().unwrap();
                    assert_eq!(u64::from(last - first) + 1, info.lines, "{info:?}");
                }
            }
        }
        writer.join().unwrap();
    });
    store.close().unwrap();
}

/// So many that lines wait for company before they go to their files.
const BUSY: usize = 40;

#[test]
fn what_is_written_after_a_deletion_is_listed_searched_backed_up_and_erased() {
    let (dir, elsewhere) = (scratch(), scratch());
    let store = open(dir.path());
    let chats = store.handle();
    let say = |key: &str, text: &str| chats.add_message(key, "user", text).wait().unwrap();
    let names = ["listed", "searched", "copied", "erased"].map(|name| format!("again:{name}"));
    for key in &names {
        say(key, "before");
    }
    let again = |key: &str| {
        chats.delete_session(key).wait().unwrap();
        let others: Vec<_> = (0..BUSY)
            .map(|n| chats.add_message(&format!("other:{n}"), "user", "company"))
            .collect();
        for said in others {
            said.wait().unwrap();
        }
        say(key, "needle");
    };
    let [to_list, to_search, to_copy, to_erase] = &names;

    again(to_list);
    let page = found(&chats, SessionQuery::new().prefix(to_list));
    assert_eq!(page.sessions[0].last_text, "needle");

    again(to_search);
    let mut search = chats.search(SearchQuery::new().text("needle"));
    let hits = std::iter::from_fn(|| search.wait_next());
    let hits: Vec<_> = hits.map(|hit| hit.unwrap().key).collect();
    assert!(hits.contains(to_search), "{hits:?}");

    again(to_copy);
    let copy = elsewhere.path().join("copy");
    chats.backup_to(&copy).wait().unwrap();
    let backup = Store::open_read_only(&copy).unwrap();
    let texts = backup.handle().history(to_copy).wait().unwrap();
    assert_eq!(said(&texts), ["needle"]);

    chats.delete_session(to_erase).wait().unwrap();
    let scope = r#"{"version":1,"agent_id":"main","channel":"telegram","account":"default","dimensions":["sender"],"values":{"sender":"7"}}"#;
    let scope = RawValue::from_string(scope.to_owned()).unwrap();
    say(to_erase, "needle");
    chats
        .upsert_session_meta(to_erase, Some(scope), Vec::new())
        .wait()
        .unwrap();
    let receipt = chats.erase(Erase::person("7")).wait().unwrap();
    assert_eq!(receipt.sessions, [to_erase.as_str()]);
    store.close().unwrap();
}
