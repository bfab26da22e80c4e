//! Summary, truncation, replacement, compaction, deletion.

use sessionlog::Message;

use crate::support::{
    Caller, add_numbers, for_each_caller, line, numbers, open, said, scratch, sidecar, texts,
    visible_names,
};

#[test]
fn a_summary_is_replaced_and_kept_through_everything_but_deletion() {
    for_each_caller(|caller, chats, _| {
        caller.ok(chats.set_summary("cli", "first"));
        assert_eq!(caller.ok(chats.summary("cli")), "first");
        assert_eq!(caller.ok(chats.list_sessions()), ["cli"]);
        let summary = "second: \"quoted\" <b>&\u{2028}\n\u{1f600}";
        caller.ok(chats.set_summary("cli", summary));
        caller.ok(chats.add_message("cli", "user", "x"));
        caller.ok(chats.set_history("cli", vec![Message::user("y")]));
        caller.ok(chats.truncate_history("cli", 0));
        caller.ok(chats.compact("cli"));
        assert_eq!(caller.ok(chats.summary("cli")), summary);
        caller.ok(chats.set_summary("cli", ""));
        assert_eq!(caller.ok(chats.summary("cli")), "");
    });
}

#[test]
fn a_truncation_keeps_the_newest_messages_in_the_file_and_in_sight() {
    for_each_caller(|caller, chats, dir| {
        for (keep, live) in [
            (20, 0..10),
            (10, 0..10),
            (4, 6..10),
            (1, 9..10),
            (0, 10..10),
        ] {
            let key = format!("k{keep}");
            add_numbers(chats, &key, 0..10);
            caller.ok(chats.truncate_history(&key, keep));
            assert_eq!(said(&caller.ok(chats.history(&key))), numbers(live.clone()));
            let meta = caller.ok(chats.session_meta(&key));
            assert_eq!(
                (meta.skip, meta.count),
                (i64::try_from(live.start).unwrap(), 10)
            );
            caller.ok(chats.add_message(&key, "user", "10"));
            assert_eq!(
                said(&caller.ok(chats.history(&key))),
                numbers(live.start..11)
            );
            caller.ok(chats.flush());
            let log = std::fs::read_to_string(dir.join(format!("{key}.jsonl"))).unwrap();
            assert_eq!(log.lines().count(), 11, "nothing is cut out of the file");
        }
    });
}

#[test]
fn a_long_truncation_cuts_where_a_short_one_would() {
    let dir = scratch();
    let store = open(dir.path());
    let chats = store.handle();
    let batch = numbers(0..3_000).into_iter().map(Message::user).collect();
    chats.append_all("cli", batch).wait().unwrap();
    for keep in [2_999, 2_000, 257, 256, 255] {
        chats.truncate_history("cli", keep).wait().unwrap();
        assert_eq!(texts(&chats, "cli"), numbers(3_000 - keep..3_000));
    }
    store.close().unwrap();
}

#[test]
fn a_truncation_counts_messages_and_skips_lines() {
    let dir = scratch();
    let log = [
        &line("0"),
        "junk\n",
        &line("1"),
        "\n",
        "junk\n",
        &line("2"),
        "junk\n",
    ]
    .concat();
    std::fs::write(dir.path().join("cli.jsonl"), log).unwrap();
    std::fs::write(dir.path().join("cli.meta.json"), sidecar("cli", "", 0, 6)).unwrap();
    let store = open(dir.path());
    let chats = store.handle();
    chats.truncate_history("cli", 2).wait().unwrap();
    let meta = chats.session_meta("cli").wait().unwrap();
    assert_eq!((meta.skip, meta.count), (1, 6));
    chats.truncate_history("cli", 1).wait().unwrap();
    assert_eq!(chats.session_meta("cli").wait().unwrap().skip, 3);
    assert_eq!(texts(&chats, "cli"), ["2"]);
    store.close().unwrap();
}

#[test]
fn set_history_replaces_the_messages_and_nothing_else() {
    for_each_caller(|caller, chats, dir| {
        add_numbers(chats, "cli", 0..10);
        caller.ok(chats.set_summary("cli", "kept"));
        caller.ok(chats.upsert_session_meta("cli", None, vec!["alias".into()]));
        caller.ok(chats.truncate_history("cli", 3));
        let new = vec![Message::user("a"), Message::assistant("b")];
        caller.ok(chats.set_history("cli", new));
        assert_eq!(said(&caller.ok(chats.history("cli"))), ["a", "b"]);
        let meta = caller.ok(chats.session_meta("cli"));
        assert_eq!(
            (meta.skip, meta.count, meta.summary.as_str()),
            (0, 2, "kept")
        );
        assert_eq!(meta.aliases, ["alias"]);
        let stamped = caller.ok(chats.history("cli"));
        assert!(stamped.iter().all(|message| message.created_at().is_some()));

        caller.ok(chats.set_history("new", Vec::new()));
        assert_eq!(caller.ok(chats.list_sessions()), ["cli", "new"]);
        caller.ok(chats.flush());
        let names = ["cli.jsonl", "cli.meta.json", "new.jsonl", "new.meta.json"];
        assert_eq!(visible_names(dir), names);
    });
}

#[test]
fn a_compaction_keeps_live_lines_byte_for_byte() {
    let dir = scratch();
    let odd = [
        "{ \"content\" : \"spaced\",\"role\":\"user\", \"unknown\":{\"b\":1,\"a\":1e400} }",
        "{\"role\":\"user\",\"content\":\"twice\",\"CONTENT\":\"wins\"}",
        "not json at all",
        "\u{feff}{\"role\":\"user\",\"content\":\"bom\"}",
        "{\"role\":\"user\",\"content\":\"\u{2028}<tag>\"}",
        "{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"parts\"}]}",
        "  ",
    ];
    let deep = "[".repeat(300) + &"]".repeat(300);
    let deep = format!("{{\"role\":\"user\",\"content\":\"deep\",\"x\":{deep}}}");
    let raw: Vec<u8> =
        [b"{\"role\":\"user\",\"content\":\"bad utf8 \xff\xfe\"}".as_slice()].concat();
    let mut live: Vec<u8> = Vec::new();
    for line in odd
        .iter()
        .map(|l| l.as_bytes())
        .chain([deep.as_bytes(), &raw])
    {
        live.extend_from_slice(line);
        live.push(b'\n');
    }
    let log = [(line("dead") + &line("dead too")).as_bytes(), &live].concat();
    std::fs::write(dir.path().join("cli.jsonl"), log).unwrap();
    std::fs::write(dir.path().join("cli.meta.json"), sidecar("cli", "s", 2, 11)).unwrap();
    let store = open(dir.path());
    let chats = store.handle();
    let before = texts(&chats, "cli");
    assert_eq!(before.len(), 7, "{before:?}");
    chats.compact("cli").wait().unwrap();
    assert_eq!(texts(&chats, "cli"), before);
    let meta = chats.session_meta("cli").wait().unwrap();
    assert_eq!((meta.skip, meta.count, meta.summary.as_str()), (0, 9, "s"));
    store.close().unwrap();
    assert_eq!(std::fs::read(dir.path().join("cli.jsonl")).unwrap(), live);
}

#[test]
fn a_compaction_carries_on_what_skipped_control_records_say() {
    let dir = scratch();
    let controls = [
        "{\"role\":\"_system_prompt\",\"content\":\"old\"}\n",
        "{\"role\":\"_system_prompt\",\"content\":\"be kind\"}\n",
        "{\"role\":\"_checkpoint\",\"id\":4}\n",
        "{\"role\":\"_usage\",\"token_count\":99}\n",
    ];
    let log = controls.concat() + &line("dead") + &line("live");
    std::fs::write(dir.path().join("cli.jsonl"), log).unwrap();
    std::fs::write(dir.path().join("cli.meta.json"), sidecar("cli", "", 5, 6)).unwrap();
    let store = open(dir.path());
    store.handle().compact("cli").wait().unwrap();
    assert_eq!(texts(&store.handle(), "cli"), ["live"]);
    store.close().unwrap();
    let after = std::fs::read_to_string(dir.path().join("cli.jsonl")).unwrap();
    let lost = "{\"role\": \"_checkpoint\", \"id\": 4, \"lost\": true}\n";
    let carried = [controls[1], lost, controls[3]].concat();
    assert_eq!(after, carried + &line("live"));
}

#[test]
fn a_compaction_of_nothing_skipped_touches_nothing() {
    for_each_caller(|caller, chats, dir| {
        caller.ok(chats.compact("nobody"));
        assert!(visible_names(dir).is_empty());
        add_numbers(chats, "cli", 0..3);
        caller.ok(chats.flush());
        let before = crate::support::files(dir).remove(std::path::Path::new("cli.jsonl"));
        caller.ok(chats.compact("cli"));
        assert_eq!(chats.stats().compactions, 0);
        let after = crate::support::files(dir).remove(std::path::Path::new("cli.jsonl"));
        assert_eq!(before, after);
    });
}

#[test]
fn a_deleted_session_is_gone_and_one_of_its_key_starts_anew() {
    for_each_caller(|caller, chats, dir| {
        for round in 0..3 {
            add_numbers(chats, "telegram:1", 0..4);
            caller.ok(chats.set_summary("telegram:1", "s"));
            caller.ok(chats.truncate_history("telegram:1", 2));
            caller.ok(chats.upsert_session_meta("telegram:1", None, vec!["alias".into()]));
            if round == 1 {
                caller.ok(chats.flush());
            }
            caller.ok(chats.delete_session("alias"));
            assert!(caller.ok(chats.history("telegram:1")).is_empty());
            assert!(caller.ok(chats.list_sessions()).is_empty());
            assert_eq!(caller.ok(chats.resolve_session_key("alias")), None);
            assert_eq!(caller.ok(chats.resolve_session_key("telegram:1")), None);
            assert_eq!(caller.ok(chats.summary("telegram:1")), "");
            caller.ok(chats.flush());
            assert!(visible_names(dir).is_empty());
            caller.ok(chats.delete_session("telegram:1"));
        }
        caller.ok(chats.add_message("telegram:1", "user", "anew"));
        let meta = caller.ok(chats.session_meta("telegram:1"));
        assert_eq!((meta.skip, meta.count, meta.summary.as_str()), (0, 1, ""));
        caller.ok(chats.add_message("alias", "user", "alone"));
        assert_eq!(said(&caller.ok(chats.history("telegram:1"))), ["anew"]);
    });
}

#[test]
fn rewrites_in_a_row_build_on_each_other() {
    let dir = scratch();
    let store = open(dir.path());
    let chats = store.handle();
    let caller = Caller::PlainThread;
    for round in 0..10 {
        add_numbers(&chats, "cli", 0..5);
        caller.ok(chats.truncate_history("cli", 2));
        caller.ok(chats.compact("cli"));
        add_numbers(&chats, "cli", 5..6);
        assert_eq!(texts(&chats, "cli"), ["3", "4", "5"], "round {round}");
        caller.ok(chats.set_history("cli", vec![Message::user("x")]));
        caller.ok(chats.delete_session("cli"));
    }
    store.close().unwrap();
    assert!(visible_names(dir.path()).is_empty());
}
