//! Appending, and reading back.

use sessionlog::{Attachment, Message, SystemPart};

use crate::support::{for_each_caller, line, numbers, open, said, scratch, sidecar};

#[test]
fn messages_come_back_in_the_order_in_which_they_were_added() {
    for_each_caller(|caller, chats, _| {
        for text in numbers(0..20) {
            caller.ok(chats.add_message("telegram:1", "user", &text));
        }
        caller.ok(chats.add_message("telegram:2", "assistant", "other"));
        let history = caller.ok(chats.history("telegram:1"));
        assert_eq!(said(&history), numbers(0..20));
        assert!(history.iter().all(|message| message.role() == "user"));
        let other = caller.ok(chats.history("telegram:2"));
        assert_eq!(said(&other), ["other"]);
        assert_eq!(other[0].role(), "assistant");
    });
}

#[test]
fn an_unknown_session_is_empty_and_reading_it_makes_none() {
    for_each_caller(|caller, chats, dir| {
        assert!(caller.ok(chats.history("nobody")).is_empty());
        assert!(caller.ok(chats.tail("nobody", 5)).is_empty());
        assert_eq!(caller.ok(chats.summary("nobody")), "");
        let meta = caller.ok(chats.session_meta("nobody"));
        assert_eq!((meta.key.as_str(), meta.skip, meta.count), ("nobody", 0, 0));
        assert_eq!(meta.created_at, "0001-01-01T00:00:00Z");
        assert_eq!(caller.ok(chats.resolve_session_key("nobody")), None);
        assert!(caller.ok(chats.list_sessions()).is_empty());
        assert!(crate::support::visible_names(dir).is_empty());
    });
}

#[test]
fn a_tail_is_the_end_of_the_history() {
    for_each_caller(|caller, chats, _| {
        for text in numbers(0..7) {
            caller.ok(chats.add_message("cli", "user", &text));
        }
        // Once from memory, once from the file.
        for _ in 0..2 {
            for n in 0..=8 {
                let tail = caller.ok(chats.tail("cli", n));
                assert_eq!(said(&tail), numbers(7 - n.min(7)..7), "the last {n}");
            }
            assert_eq!(caller.ok(chats.tail("cli", usize::MAX)).len(), 7);
            caller.ok(chats.flush());
        }
    });
}

#[test]
fn a_tail_passes_over_lines_that_are_no_messages() {
    let dir = scratch();
    let transient = "{\"role\":\"assistant\",\"content\":\"\",\"reasoning_content\":\"hm\"}\n";
    let log = [
        &line("0"),
        "not json\n",
        &line("1"),
        transient,
        "{\"role\":\"_usage\",\"token_count\":7}\n",
        "\n\r\n   \n",
        &line("2"),
        "{\"role\":\"user\",\"content\":7}\n",
    ]
    .concat();
    std::fs::write(dir.path().join("cli.jsonl"), log).unwrap();
    std::fs::write(dir.path().join("cli.meta.json"), sidecar("cli", "", 0, 8)).unwrap();
    let store = open(dir.path());
    let chats = store.handle();
    assert_eq!(said(&chats.tail("cli", 2).wait().unwrap()), ["1", "2"]);
    assert_eq!(said(&chats.history("cli").wait().unwrap()), numbers(0..3));
    assert!(chats.stats().corrupt_lines >= 3, "{:?}", chats.stats());
    store.close().unwrap();
}

#[test]
fn a_batch_is_there_in_order_or_not_at_all() {
    for_each_caller(|caller, chats, _| {
        let batch: Vec<_> = numbers(0..50).into_iter().map(Message::user).collect();
        caller.ok(chats.append_all("cli", batch));
        caller.ok(chats.append_all("cli", Vec::new()));
        assert_eq!(said(&caller.ok(chats.history("cli"))), numbers(0..50));
        assert_eq!(caller.ok(chats.session_meta("cli")).count, 50);
        // One bad message refuses its whole batch.
        let batch = vec![Message::user("50"), Message::new("_x", "51")];
        assert!(caller.get(chats.append_all("cli", batch)).is_err());
        assert_eq!(said(&caller.ok(chats.history("cli"))), numbers(0..50));
    });
}

#[test]
fn every_field_of_a_message_comes_back_unknown_ones_included() {
    let json = br#"{"role":"assistant","content":"c <&>","model_name":"m","created_at":"2026-01-02T03:04:05.123456789+02:00","media":["media://1"],"attachments":[{"type":"image","url":"u"}],"reasoning_content":"r","system_parts":[{"type":"text","text":"s"}],"tool_calls":[{"id":"1","type":"function","function":{"name":"f","arguments":"{}"}}],"tool_call_id":"t","mood":"good","big":123456789012345678901234567890,"nested":{"z":1,"a":[null,1.0]}}"#;
    for_each_caller(|caller, chats, dir| {
        let message = Message::from_json(json).unwrap();
        caller.ok(chats.add_full_message("cli", message.clone()));
        let built = Message::system("s")
            .with_system_part(SystemPart::default())
            .with_attachment(Attachment::default())
            .with_media("media://2")
            .with_model_name("n")
            .with_reasoning("why")
            .with_created_at("2026-01-02T03:04:05Z")
            .unwrap();
        caller.ok(chats.add_full_message("cli", built.clone()));
        let check = || {
            let history = caller.ok(chats.history("cli"));
            assert_eq!(history, [message.clone(), built.clone()]);
            assert_eq!(history[0].unknown_field("mood"), Some("\"good\""));
            let big = history[0].unknown_field("big");
            assert_eq!(big, Some("123456789012345678901234567890"));
            assert_eq!(
                history[0].unknown_field("nested"),
                Some("{\"z\":1,\"a\":[null,1.0]}")
            );
        };
        check();
        // Read and written back by the caller, they are still there.
        let history = caller.ok(chats.history("cli"));
        caller.ok(chats.set_history("cli", history));
        check();
        let log = std::fs::read_to_string(dir.join("cli.jsonl")).unwrap();
        assert!(
            log.contains("\"big\":123456789012345678901234567890,"),
            "{log}"
        );
    });
}

#[test]
fn a_message_without_a_time_gets_that_of_the_call_in_nanoseconds() {
    for_each_caller(|caller, chats, _| {
        let before = now();
        caller.ok(chats.add_message("cli", "user", "x"));
        let message = caller.ok(chats.history("cli")).remove(0);
        let stamp = message.created_at().unwrap().to_owned();
        let time =
            time::OffsetDateTime::parse(&stamp, &time::format_description::well_known::Rfc3339)
                .unwrap();
        assert!(before <= time && time <= now(), "{stamp}");
        assert!(stamp.ends_with('Z'), "{stamp}");
        let fraction = stamp
            .split_once('.')
            .map_or("", |(_, rest)| rest)
            .trim_end_matches('Z');
        assert!(fraction.len() <= 9 && !fraction.ends_with('0'), "{stamp}");
        let meta = caller.ok(chats.session_meta("cli"));
        assert!(meta.created_at.starts_with("20") && meta.updated_at >= meta.created_at);
    });
}

fn now() -> time::OffsetDateTime {
    time::OffsetDateTime::now_utc()
}

#[test]
fn a_transient_message_is_accepted_and_not_stored() {
    for_each_caller(|caller, chats, dir| {
        let thought = || Message::assistant(" ").with_reasoning("hm");
        caller.ok(chats.add_full_message("cli", thought()));
        assert!(caller.ok(chats.list_sessions()).is_empty());
        assert!(crate::support::visible_names(dir).is_empty());
        let batch = vec![Message::user("a"), thought(), Message::assistant("b")];
        caller.ok(chats.append_all("cli", batch.clone()));
        assert_eq!(said(&caller.ok(chats.history("cli"))), ["a", "b"]);
        caller.ok(chats.set_history("cli", batch));
        assert_eq!(said(&caller.ok(chats.history("cli"))), ["a", "b"]);
        assert_eq!(caller.ok(chats.session_meta("cli")).count, 2);
    });
}

#[test]
fn the_counters_say_what_happened() {
    for_each_caller(|caller, chats, _| {
        caller.ok(chats.add_message("cli", "user", "a"));
        let pair = vec![Message::user("b"), Message::user("c")];
        caller.ok(chats.append_all("cli", pair));
        caller.ok(chats.set_summary("cli", "s"));
        caller.ok(chats.flush());
        let stats = chats.stats();
        assert_eq!((stats.commands, stats.messages), (3, 3), "{stats:?}");
        assert!(
            stats.commits >= 3 && stats.syncs >= 3 && stats.flushes >= 1,
            "{stats:?}"
        );
        assert!(stats.journal_bytes > stats.session_bytes, "{stats:?}");
        assert!(stats.session_bytes > 0, "{stats:?}");
        assert_eq!(
            (stats.compactions, stats.corrupt_lines),
            (0, 0),
            "{stats:?}"
        );
        caller.ok(chats.truncate_history("cli", 1));
        caller.ok(chats.compact("cli"));
        assert_eq!(chats.stats().compactions, 1);
    });
}
