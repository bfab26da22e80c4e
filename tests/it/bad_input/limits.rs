//! Keys and messages that no store takes.

use sessionlog::{Error, Message, Oversized, Store, StoreHandle};

use super::{every_read, every_write};
use crate::support::{manual, open, scratch, texts, visible_names};

#[test]
fn a_key_that_is_none_is_refused_by_every_verb() {
    let dir = scratch();
    let store = open(dir.path());
    let chats = store.handle();
    for key in ["", &"k".repeat(1_025), "nul\0nul"] {
        let all = every_write(&chats, key)
            .into_iter()
            .chain(every_read(&chats, key));
        for (verb, result) in all {
            assert!(
                matches!(result, Err(Error::InvalidKey { .. })),
                "{verb}: {result:?}"
            );
        }
        assert_eq!(chats.resolve_session_key(key).wait().unwrap(), None);
    }
    assert_eq!(chats.stats().commits, 0);
    store.close().unwrap();
    assert!(visible_names(dir.path()).is_empty());
}

#[test]
fn the_longest_and_the_strangest_keys_are_taken() {
    let dir = scratch();
    let keys = [
        "k".repeat(1_024),
        "\u{1f600}".repeat(256),
        "a\nb".into(),
        "\u{1}".into(),
        "..".into(),
    ];
    let store = open(dir.path());
    for key in &keys {
        store.handle().add_message(key, "user", key).wait().unwrap();
    }
    store.close().unwrap();
    let store = open(dir.path());
    for key in &keys {
        assert_eq!(texts(&store.handle(), key), [key.as_str()]);
    }
    assert_eq!(
        store.handle().list_sessions().wait().unwrap().len(),
        keys.len()
    );
    store.close().unwrap();
}

/// What a refused call hands back.
fn handed_back(result: sessionlog::Result<()>) -> (usize, usize, Vec<Message>) {
    match result {
        Err(Error::MessageTooLarge {
            size,
            limit,
            messages,
            ..
        }) => (size, limit, messages),
        other => panic!("{other:?}"),
    }
}

fn small(dir: &std::path::Path) -> Store {
    Store::open_with(dir, manual().max_line_bytes(1_024)).unwrap()
}

#[test]
fn a_message_over_the_limit_is_handed_back_and_nothing_is_written() {
    let dir = scratch();
    let store = small(dir.path());
    let chats = store.handle();
    let big = Message::user("x".repeat(2_000)).with_model_name("m");
    let (size, limit, back) = handed_back(chats.add_full_message("cli", big.clone()).wait());
    assert!(size > 2_000 && limit == 1_024);
    assert_eq!(
        back,
        std::slice::from_ref(&big),
        "unchanged, without a time"
    );

    let batch = vec![
        Message::user("fits"),
        big.clone(),
        Message::user("fits too"),
    ];
    let (_, _, back) = handed_back(chats.append_all("cli", batch.clone()).wait());
    assert_eq!(back, batch);
    let (_, _, back) = handed_back(chats.set_history("cli", batch.clone()).wait());
    assert_eq!(back, batch);
    let (size, _, back) = handed_back(chats.set_summary("cli", &"s".repeat(1_025)).wait());
    assert_eq!((size, back.len()), (1_025, 0));
    let aliases = vec!["a".repeat(600), "b".repeat(600)];
    handed_back(
        chats
            .upsert_session_meta("cli", None, aliases.clone())
            .wait(),
    );
    let promoted = chats.promote_alias_history("cli", None, aliases).wait();
    handed_back(promoted.map(drop));

    assert!(chats.history("cli").wait().unwrap().is_empty());
    assert_eq!(chats.stats().commits, 0);
    store.close().unwrap();
    assert!(visible_names(dir.path()).is_empty());
}

#[test]
fn a_message_is_measured_as_the_line_it_becomes() {
    let dir = scratch();
    let store = small(dir.path());
    let chats = store.handle();
    let message = |len: usize| {
        let message = Message::user("x".repeat(len));
        message.with_created_at("2026-01-02T03:04:05Z").unwrap()
    };
    let overhead = crate::support::line("").len() - 1;
    let fits = 1_024 - overhead;
    chats.add_full_message("cli", message(fits)).wait().unwrap();
    let (size, _, _) = handed_back(chats.add_full_message("cli", message(fits + 1)).wait());
    assert_eq!(size, 1_025);
    // Six bytes on disk for one in memory.
    handed_back(chats.add_message("cli", "user", &"<".repeat(200)).wait());
    store.close().unwrap();
}

#[test]
fn a_line_over_the_limit_on_disk_is_read_and_rewritten_all_the_same() {
    let dir = scratch();
    let big = "x".repeat(5_000);
    let log = crate::support::line("old") + &crate::support::line(&big);
    std::fs::write(dir.path().join("cli.jsonl"), log).unwrap();
    let store = small(dir.path());
    let chats = store.handle();
    chats.truncate_history("cli", 1).wait().unwrap();
    chats.compact("cli").wait().unwrap();
    assert_eq!(texts(&chats, "cli"), [big.as_str()]);
    // What was read is too large to be handed in again.
    let history = chats.history("cli").wait().unwrap();
    let (size, _, back) = handed_back(chats.set_history("cli", history.clone()).wait());
    assert!(size > 5_000);
    assert_eq!(back, history);
    assert_eq!(texts(&chats, "cli"), [big]);
    store.close().unwrap();
}

#[test]
fn a_batch_over_sixty_four_mebibytes_is_handed_back() {
    let dir = scratch();
    let store = open(dir.path());
    let chats = store.handle();
    let batch: Vec<_> = (0..5)
        .map(|_| Message::user("x".repeat(14 << 20)))
        .collect();
    let (size, limit, back) = handed_back(chats.append_all("cli", batch).wait());
    assert!(size > limit && limit == 64 << 20);
    assert_eq!(back.len(), 5);
    assert!(back.iter().all(|message| message.text().len() == 14 << 20));
    assert_eq!(chats.stats().commits, 0);
    store.close().unwrap();
}

#[test]
fn the_limit_of_a_batch_is_an_option() {
    let dir = scratch();
    let options = manual().max_batch_bytes(64 << 10);
    let store = Store::open_with(dir.path(), options).unwrap();
    let chats = store.handle();
    let batch = |count: usize| vec![Message::user("x".repeat(1_000)); count];
    for refused in [
        chats.append_all("cli", batch(70)),
        chats.set_history("cli", batch(70)),
    ] {
        let refused = refused.wait();
        let Err(Error::MessageTooLarge { what, limit, .. }) = &refused else {
            panic!("{refused:?}");
        };
        assert_eq!((*what, *limit), (Oversized::Batch, 64 << 10));
        assert_eq!(handed_back(refused).2.len(), 70);
    }
    chats.append_all("cli", batch(50)).wait().unwrap();
    store.close().unwrap();

    let options = manual().max_batch_bytes(80 << 20);
    let store = Store::open_with(dir.path(), options).unwrap();
    let batch = vec![Message::user("x".repeat(14 << 20)); 5];
    store.handle().append_all("cli", batch).wait().unwrap();
    drop(store);
    let store = open(dir.path());
    assert_eq!(texts(&store.handle(), "cli").len(), 55);
    store.close().unwrap();
}

fn nested(levels: usize) -> String {
    let inner = levels - 1;
    format!(
        "{{\"role\":\"user\",\"content\":\"deep\",\"x\":{}{}}}",
        "[".repeat(inner),
        "]".repeat(inner)
    )
}

#[test]
fn json_nested_too_deep_is_refused_as_input_and_read_from_disk() {
    assert!(Message::from_json(nested(128).as_bytes()).is_ok());
    let refused = Message::from_json(nested(129).as_bytes());
    assert!(
        matches!(refused, Err(Error::InvalidMessage { .. })),
        "{refused:?}"
    );
    assert!(Message::from_json(nested(200_000).as_bytes()).is_err());

    let dir = scratch();
    let log = format!("{}\n{}\n{}\n", nested(129), nested(9_000), nested(200_000));
    std::fs::write(dir.path().join("cli.jsonl"), log).unwrap();
    let store = open(dir.path());
    // What PicoClaw reads, and not the line that would exhaust a stack.
    assert_eq!(texts(&store.handle(), "cli"), ["deep", "deep"]);
    store.close().unwrap();
}

#[test]
fn json_that_is_no_message_is_refused() {
    let inputs: [&[u8]; 9] = [
        b"",
        b"null",
        b"[]",
        b"\"text\"",
        b"{\"role\":1}",
        b"{\"role\":\"user\",\"content\":\"x\"} trailing",
        b"{\"role\":\"user\",\"created_at\":\"yesterday\"}",
        b"{\"role\":\"user\",\"content\":\"raw\nline feed\"}",
        b"{\"role\":\"_checkpoint\",\"id\":1}",
    ];
    for json in inputs {
        let refused = Message::from_json(json);
        let json = String::from_utf8_lossy(json);
        assert!(
            matches!(refused, Err(Error::InvalidMessage { .. })),
            "{json}: {refused:?}"
        );
    }
}

#[test]
fn a_control_role_is_no_message() {
    let dir = scratch();
    let store = open(dir.path());
    let chats = store.handle();
    let refused = |chats: &StoreHandle, role: &str| {
        let result = chats.add_message("cli", role, "{}").wait();
        assert!(
            matches!(result, Err(Error::InvalidMessage { .. })),
            "{role}: {result:?}"
        );
    };
    for role in ["_usage", "_checkpoint", "_system_prompt", "_", "_anything"] {
        refused(&chats, role);
    }
    assert_eq!(chats.stats().commits, 0);
    store.close().unwrap();
    assert!(visible_names(dir.path()).is_empty());
}

#[test]
fn text_of_any_kind_stays_one_line_and_comes_back() {
    let dir = scratch();
    let long = "\u{1f600}".repeat(100_000);
    let odd = [
        "",
        "\n",
        "\r\n\0\u{1}\u{7f}",
        "\u{2028}\u{2029}\u{85}",
        "\\u0000\"}",
        "\u{feff}",
        &long,
    ];
    let store = open(dir.path());
    for text in odd {
        store
            .handle()
            .add_message("cli", "user", text)
            .wait()
            .unwrap();
        store
            .handle()
            .add_message("cli", text.trim_start_matches('_'), "role")
            .wait()
            .unwrap();
    }
    store.close().unwrap();
    let file = std::fs::read_to_string(dir.path().join("cli.jsonl")).unwrap();
    assert_eq!(file.matches('\n').count(), odd.len() * 2);
    let store = open(dir.path());
    let history = store.handle().history("cli").wait().unwrap();
    for (n, text) in odd.iter().enumerate() {
        assert_eq!(history[2 * n].text(), *text);
        assert_eq!(history[2 * n + 1].role(), *text);
    }
    store.close().unwrap();
}
