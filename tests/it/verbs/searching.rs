//! Searching messages.

use std::collections::BTreeSet;
use std::future::Future as _;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::Poll;
use std::thread;

use sessionlog::{
    Error, ErrorKind, FoundIn, Message, SearchHit, SearchQuery, SessionOrder, SessionQuery, Store,
    StoreHandle, StoreOptions,
};
use time::OffsetDateTime;

use crate::support::{open, scratch};

fn found(chats: &StoreHandle, query: SearchQuery) -> Vec<SearchHit> {
    let mut search = chats.search(query);
    std::iter::from_fn(|| search.wait_next())
        .collect::<Result<_, _>>()
        .unwrap()
}

fn said(hits: &[SearchHit]) -> Vec<String> {
    let said = |hit: &SearchHit| format!("{}: {}", hit.key, hit.message.text());
    hits.iter().map(said).collect()
}

#[test]
fn messages_are_found_by_what_they_say_whoever_reads() {
    let dir = scratch();
    let store = open(dir.path());
    let chats = store.handle();
    let at = |second: i64| OffsetDateTime::from_unix_timestamp(second).unwrap();
    let dated = |n: i64| {
        let message = Message::assistant("a <needle> in\nhay");
        message
            .with_created_at(&format!("1970-01-01T00:00:0{n}Z"))
            .unwrap()
    };
    for n in 0..9_i64 {
        let key = format!("telegram:{n}");
        let said = vec![
            Message::user(format!("hidden needle {n}")),
            Message::user(format!("first Needle {n}")),
            dated(n),
            Message::user("nothing"),
        ];
        chats.append_all(&key, said).wait().unwrap();
        chats.truncate_history(&key, 3).wait().unwrap();
        chats.context(&key).checkpoint(false).wait().unwrap();
    }
    chats
        .add_message("slack:1", "user", "needle")
        .wait()
        .unwrap();
    chats
        .add_message("telegram:4", "user", "late needle")
        .wait()
        .unwrap();
    let agree = |chats: &StoreHandle| {
        let all = found(chats, SearchQuery::new());
        let mut every = Vec::new();
        for key in chats.list_sessions().wait().unwrap() {
            for message in chats.history(&key).wait().unwrap() {
                every.push(format!("{key}: {}", message.text()));
            }
        }
        assert_eq!(said(&all), every);
        let of = |wanted: fn(&str) -> bool| {
            let every = every.iter().filter(|said| wanted(said));
            every.cloned().collect::<Vec<_>>()
        };
        let needle = SearchQuery::new().text("needle");
        assert_eq!(
            said(&found(chats, needle.clone())),
            of(|s| s.contains("needle"))
        );
        let any_case = said(&found(chats, needle.clone().ignore_case(true)));
        assert_eq!(any_case, of(|s| s.to_lowercase().contains("needle")));
        let marked = SearchQuery::new().text("<needle> in\n");
        assert_eq!(said(&found(chats, marked)), of(|s| s.contains("<needle>")));
        let pattern = SearchQuery::new().regex("^(first|late) [nN]eedle");
        assert_eq!(
            said(&found(chats, pattern)),
            of(|s| s.contains("first") || s.contains("late"))
        );
        let user = needle.clone().role("user").role("tool");
        assert_eq!(
            said(&found(chats, user)),
            ["slack:1: needle", "telegram:4: late needle"]
        );
        let then = needle.clone().since(at(3)).until(at(5));
        let then = found(chats, then);
        let keys: Vec<_> = then.iter().map(|hit| &*hit.key).collect();
        assert_eq!(keys, ["telegram:3", "telegram:4"]);
        assert_eq!(then[0].excerpt(3), "a <needle> i");
        assert_eq!(then[0].excerpt(0), "needle");
        let newest = SessionQuery::new().order(SessionOrder::Updated).limit(1);
        let newest = found(chats, needle.clone().among(newest));
        assert_eq!(newest[1].message.text(), "late needle");
        let prefix = SessionQuery::new().prefix("slack:");
        assert_eq!(
            said(&found(chats, needle.among(prefix))),
            ["slack:1: needle"]
        );
        for hit in &all {
            let snapshot = chats.snapshot(&hit.key).wait().unwrap();
            let history = snapshot.history().wait().unwrap();
            let before = snapshot.before(hit.position, 9).wait().unwrap();
            let after = &history[before.messages.len()];
            assert_eq!(after, &hit.message);
            let as_text = serde_json::to_string(&hit).unwrap();
            assert_eq!(serde_json::from_str::<SearchHit>(&as_text).unwrap(), *hit);
        }
    };
    agree(&chats);
    // For who only reads, positions end when a session gets its file.
    chats.flush().wait().unwrap();
    agree(&Store::open_read_only(dir.path()).unwrap().handle());
    store.close().unwrap();
    agree(&Store::open_read_only(dir.path()).unwrap().handle());
    // Nobody has used any of them since.
    let store = open(dir.path());
    let chats = store.handle();
    agree(&chats);
    store.close().unwrap();
    let mut search = chats.search(SearchQuery::new());
    assert!(matches!(search.wait_next(), Some(Err(Error::Closed))));
    assert!(search.wait_next().is_none());
}

#[test]
fn what_is_found_comes_in_order_however_much_it_is() {
    let dir = scratch();
    let store = open(dir.path());
    let chats = store.handle();
    let mut every = Vec::new();
    for n in 0..5 {
        let key = format!("s{n}");
        for m in 0..100 {
            let text = format!("{m} {}", "long ".repeat(20_000));
            let quick = chats.with_durability(sessionlog::Durability::Buffered);
            quick.add_message(&key, "user", &text).wait().unwrap();
            every.push((key.clone(), m));
        }
    }
    for chats in [&chats, &Store::open_read_only(dir.path()).unwrap().handle()] {
        let mut search = chats.search(SearchQuery::new().text("long"));
        let mut seen = Vec::new();
        while let Some(hit) = search.wait_next() {
            let hit = hit.unwrap();
            let text = hit.message.text();
            let number = text.split(' ').next().unwrap();
            seen.push((hit.key.clone(), number.parse().unwrap()));
        }
        assert_eq!(seen, every);
    }
    store.close().unwrap();
}

#[test]
fn a_search_that_nobody_waits_for_any_more_goes_on_with_the_next_who_does() {
    let dir = scratch();
    let store = open(dir.path());
    let chats = store.handle();
    for n in 0..100 {
        chats
            .add_message(&format!("s{n:02}"), "user", "hi")
            .wait()
            .unwrap();
    }
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let mut search = chats.search(SearchQuery::new().text("hi"));
    let mut keys = BTreeSet::new();
    runtime.block_on(async {
        for n in 0.. {
            let hit = {
                let mut next = pin!(search.next());
                let polled = std::future::poll_fn(|cx| Poll::Ready(next.as_mut().poll(cx)));
                match polled.await {
                    Poll::Pending if n % 2 == 0 => continue,
                    Poll::Pending => next.await,
                    Poll::Ready(hit) => hit,
                }
            };
            match hit {
                Some(hit) => assert!(keys.insert(hit.unwrap().key)),
                None => break,
            }
        }
    });
    assert_eq!(keys.len(), 100);
    store.close().unwrap();
}

#[test]
fn a_pattern_that_is_none_is_refused() {
    let dir = scratch();
    let store = open(dir.path());
    let mut search = store.handle().search(SearchQuery::new().regex("(a"));
    match search.wait_next() {
        Some(Err(error @ Error::InvalidPattern { .. })) => {
            assert_eq!(error.kind(), ErrorKind::InvalidInput);
            assert!(error.to_string().contains("unclosed group"), "{error}");
        }
        other => panic!("{other:?}"),
    }
    assert!(search.wait_next().is_none());
    store.close().unwrap();
}

#[test]
fn one_session_that_does_not_read_keeps_no_other_from_being_searched() {
    let dir = scratch();
    let store = open(dir.path());
    for key in ["a", "b", "c"] {
        store
            .handle()
            .add_message(key, "user", "hi")
            .wait()
            .unwrap();
    }
    store.close().unwrap();
    let store = open(dir.path());
    let chats = store.handle();
    std::fs::remove_file(dir.path().join("b.jsonl")).unwrap();
    std::fs::create_dir(dir.path().join("b.jsonl")).unwrap();
    for order in [SessionOrder::Name, SessionOrder::Updated] {
        let query = SearchQuery::new().among(SessionQuery::new().order(order));
        let mut search = chats.search(query);
        let all: Vec<_> = std::iter::from_fn(|| search.wait_next()).collect();
        let keys: BTreeSet<_> = all.iter().flatten().map(|hit| &*hit.key).collect();
        assert_eq!(keys, ["a", "c"].into());
        let [error] = &*all.into_iter().filter_map(Result::err).collect::<Vec<_>>() else {
            panic!("one is not read")
        };
        assert!(error.to_string().contains("b.jsonl"), "{error}");
    }
    store.close().unwrap();
}

/// Beside a writer that appends, truncates and compacts, what is there all the time is
/// found every time, once, and in its place.
#[test]
fn messages_are_found_beside_a_writer() {
    let dir = scratch();
    let store = Store::open(dir.path()).unwrap();
    let chats = store.handle();
    let add = |n: usize, text: &str| {
        let key = format!("s{n:02}");
        chats.add_message(&key, "user", text).wait().unwrap();
    };
    for n in 0..40 {
        add(n, "needle 0");
    }
    let reader = Store::open_read_only(dir.path()).unwrap();
    thread::scope(|scope| {
        let writer = scope.spawn(|| {
            for round in 1..30 {
                for n in 0..40 {
                    add(n, "hay");
                    add(n, &format!("needle {round}"));
                    if round % 5 == n % 5 {
                        chats
                            .truncate_history(&format!("s{n:02}"), 1)
                            .wait()
                            .unwrap();
                    }
                }
            }
        });
        while !writer.is_finished() {
            for chats in [&chats, &reader.handle()] {
                let hits = found(chats, SearchQuery::new().text("needle"));
                let keys: BTreeSet<_> = hits.iter().map(|hit| &*hit.key).collect();
                assert_eq!(keys.len(), 40);
                for of_one in hits.chunk_by(|one, other| one.key == other.key) {
                    let text = |hit: &SearchHit| hit.message.text()[7..].parse::<u32>().unwrap();
                    let rounds: Vec<_> = of_one.iter().map(text).collect();
                    assert!(
                        rounds.windows(2).all(|two| two[0] + 1 == two[1]),
                        "{rounds:?}"
                    );
                }
            }
        }
        writer.join().unwrap();
    });
    store.close().unwrap();
}

/// Hidden lines stand in the file until a compaction takes them to the archive, which may
/// never come; each is found once wherever it is.
#[test]
fn what_a_truncation_hid_is_found_with_the_archive_before_and_after_a_compaction() {
    for keeps in [true, false] {
        let dir = scratch();
        let options = StoreOptions::new().auto_compact(false).archive(keeps);
        let store = Store::open_with(dir.path(), options).unwrap();
        let chats = store.handle();
        let add = |range: std::ops::Range<usize>| {
            let lines = range.map(|n| Message::user(format!("line {n}")));
            chats.append_all("c", lines.collect()).wait().unwrap();
        };
        let look = |chats: &StoreHandle, archived: bool| {
            let mut search = chats.search(SearchQuery::new().text("line").archived(archived));
            let hits = std::iter::from_fn(|| search.wait_next());
            let hits = hits.map(Result::unwrap);
            hits.map(|hit| {
                let state = match (&hit.archived, hit.hidden) {
                    (None, false) => "shown",
                    (None, true) => "hidden",
                    (Some(_), _) => "archived",
                };
                format!("{} {state}", hit.message.text())
            })
            .collect::<Vec<_>>()
        };
        let lines = |range: std::ops::Range<usize>, state: &str| {
            let named = range.map(|n| format!("line {n} {state}"));
            named.collect::<Vec<_>>()
        };
        let view = Store::open_read_only(dir.path()).unwrap();
        let agree = |expected: &[Vec<String>]| {
            for chats in [&chats, &view.handle()] {
                assert_eq!(look(chats, true), expected.concat());
                assert_eq!(look(chats, false), expected[expected.len() - 1]);
            }
        };
        add(0..8);
        agree(&[lines(0..8, "shown")]);
        chats.truncate_history("c", 6).wait().unwrap();
        agree(&[lines(0..2, "hidden"), lines(2..8, "shown")]);
        chats.flush().wait().unwrap();
        agree(&[lines(0..2, "hidden"), lines(2..8, "shown")]);
        chats.compact("c").wait().unwrap();
        let archived = if keeps {
            lines(0..2, "archived")
        } else {
            Vec::new()
        };
        agree(&[archived.clone(), lines(2..8, "shown")]);
        add(8..10);
        chats.truncate_history("c", 3).wait().unwrap();
        agree(&[archived, lines(2..7, "hidden"), lines(7..10, "shown")]);
        store.close().unwrap();
    }
}

/// A compaction moves hidden lines to the archive while they are looked for.
#[test]
fn hidden_lines_are_found_once_beside_compactions() {
    let dir = scratch();
    let options = StoreOptions::new().auto_compact(false).archive(true);
    let store = Store::open_with(dir.path(), options).unwrap();
    let chats = store.handle();
    let is_over = AtomicBool::new(false);
    let said = AtomicUsize::new(0);
    let view = Store::open_read_only(dir.path()).unwrap();
    let mut looks = 0;
    thread::scope(|scope| {
        scope.spawn(|| {
            for n in 0..60 {
                let text = format!("line {n}");
                chats.add_message("c", "user", &text).wait().unwrap();
                said.store(n + 1, Ordering::Release);
                chats.truncate_history("c", 1).wait().unwrap();
                if n % 3 == 2 {
                    chats.compact("c").wait().unwrap();
                }
            }
            is_over.store(true, Ordering::Release);
        });
        let mut last = false;
        while !last {
            last = is_over.load(Ordering::Acquire);
            for chats in [&store.handle(), &view.handle()] {
                let before = said.load(Ordering::Acquire);
                let query = SearchQuery::new().text("line").archived(true);
                let mut search = chats.search(query);
                let hits = std::iter::from_fn(|| search.wait_next());
                let found: Vec<String> =
                    hits.map(|hit| hit.unwrap().message.text().into()).collect();
                let whole: Vec<String> = (0..found.len()).map(|n| format!("line {n}")).collect();
                assert_eq!(found, whole);
                assert!(found.len() >= before, "{} of {before}", found.len());
                looks += 1;
            }
        }
    });
    assert!(looks > 4, "{looks}");
    store.close().unwrap();
}

#[test]
fn tool_calls_titles_and_summaries_are_searched_if_asked_whoever_reads() {
    let dir = scratch();
    let store = open(dir.path());
    let chats = store.handle();
    for key in ["a", "b", "c"] {
        let call = Message::assistant("Let me look.").with_tool_call("c1", "find", r#"{"q":"x"}"#);
        chats
            .append_all(key, vec![Message::user("hi"), call])
            .wait()
            .unwrap();
    }
    let call =
        Message::assistant("").with_tool_call("c2", "weather", r#"{"city":"\u041e\u0441lo"}"#);
    chats.append_all("b", vec![call]).wait().unwrap();
    chats
        .set_summary("a", "A week in \u{41e}\u{441}lo.")
        .wait()
        .unwrap();
    chats
        .set_title("a", "\u{41e}\u{441}lo in May")
        .wait()
        .unwrap();
    chats.set_labels("b", ["travel"]).wait().unwrap();
    chats.flush().wait().unwrap();
    let beside = Store::open_read_only(dir.path()).unwrap();
    let cold = |chats: &StoreHandle| {
        let all = |query: SearchQuery| {
            let hits = found(chats, query.text("\u{41e}\u{441}lo"));
            let told = hits
                .iter()
                .map(|hit| (hit.key.clone(), hit.found_in, hit.excerpt(0)));
            let told: Vec<_> = told.collect();
            assert!(
                told.iter().all(|(_, _, text)| text == "\u{41e}\u{441}lo"),
                "{told:?}"
            );
            told.into_iter()
                .map(|(key, found_in, _)| (key, found_in))
                .collect::<Vec<_>>()
        };
        let (a, b) = (
            |found_in| ("a".to_owned(), found_in),
            ("b".to_owned(), FoundIn::ToolArguments(0)),
        );
        assert!(all(SearchQuery::new()).is_empty());
        let in_call = std::slice::from_ref(&b);
        assert_eq!(all(SearchQuery::new().tool_calls(true)), in_call);
        let named = [a(FoundIn::Title), a(FoundIn::Summary)];
        assert_eq!(all(SearchQuery::new().summaries(true)), named);
        let both = SearchQuery::new().summaries(true).tool_calls(true);
        assert_eq!(
            all(both.clone()),
            [&named[..], std::slice::from_ref(&b)].concat()
        );
        let newest = SessionQuery::new().order(SessionOrder::Updated);
        assert_eq!(all(both.clone().among(newest)).len(), 3);
        let labelled = SessionQuery::new().label("travel");
        assert_eq!(all(both.clone().among(labelled)), [b]);
        assert!(all(both.clone().role("user")).is_empty());
        let query = SearchQuery::new().text("find").tool_calls(true);
        assert_eq!(found(chats, query).len(), 3);
    };
    cold(&beside.handle());
    drop(beside);
    cold(&chats);
    store.close().unwrap();
    let store = open(dir.path());
    cold(&store.handle());
    store.close().unwrap();
}
