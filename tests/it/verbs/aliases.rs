//! Keys, aliases, listings, promotion.

use sessionlog::{Error, Fork, Message, Store, export_kimi};

use crate::support::{add_numbers, for_each_caller, numbers, open, said, scope, scratch, texts};

fn owned(aliases: &[&str]) -> Vec<String> {
    aliases.iter().map(ToString::to_string).collect()
}

#[test]
fn scope_and_aliases_are_replaced_wholesale_and_tidied() {
    for_each_caller(|caller, chats, _| {
        let json = "{\"version\":2,\"id\":12345678901234567890123,\"f\":1.0}";
        let aliases = owned(&[" a:1 ", "a:1", "", "  ", "key", "B:2", "b:2"]);
        caller.ok(chats.upsert_session_meta("key", scope(json), aliases));
        let meta = caller.ok(chats.session_meta("key"));
        assert_eq!(meta.scope.as_ref().unwrap().get(), json);
        assert_eq!(meta.aliases, ["a:1", "B:2", "b:2"]);
        caller.ok(chats.upsert_session_meta("key", scope("{}"), owned(&["c:3"])));
        let meta = caller.ok(chats.session_meta("key"));
        assert_eq!(
            (meta.scope.unwrap().get(), meta.aliases),
            ("{}", owned(&["c:3"]))
        );
        assert_eq!(caller.ok(chats.resolve_session_key("a:1")), None);
        assert_eq!(
            caller.ok(chats.resolve_session_key("c:3")).as_deref(),
            Some("key")
        );
    });
}

#[test]
fn an_alias_means_its_session_for_reads_and_writes() {
    for_each_caller(|caller, chats, _| {
        caller.ok(chats.add_message("sk_1", "user", "0"));
        caller.ok(chats.upsert_session_meta("sk_1", None, owned(&["telegram:1"])));
        caller.ok(chats.add_message("telegram:1", "user", "1"));
        caller.ok(chats.append_all("telegram:1", vec![Message::user("2")]));
        assert_eq!(said(&caller.ok(chats.history("telegram:1"))), numbers(0..3));
        assert_eq!(said(&caller.ok(chats.tail(" telegram:1\t", 1))), ["2"]);
        caller.ok(chats.set_summary("telegram:1", "s"));
        assert_eq!(caller.ok(chats.summary("sk_1")), "s");
        assert_eq!(caller.ok(chats.session_meta("telegram:1")).key, "sk_1");
        caller.ok(chats.truncate_history("telegram:1", 1));
        caller.ok(chats.compact("telegram:1"));
        assert_eq!(said(&caller.ok(chats.history("sk_1"))), ["2"]);
        caller.ok(chats.set_history("telegram:1", vec![Message::user("x")]));
        assert_eq!(said(&caller.ok(chats.history("sk_1"))), ["x"]);
        assert_eq!(caller.ok(chats.list_sessions()), ["sk_1"]);

        let exact = chats.exact_keys();
        assert!(caller.ok(exact.history("telegram:1")).is_empty());
        caller.ok(exact.add_message("telegram:1", "user", "own"));
        assert_eq!(said(&caller.ok(exact.history("telegram:1"))), ["own"]);
        // The alias stands before a session of that key.
        assert_eq!(said(&caller.ok(chats.history("telegram:1"))), ["x"]);
        caller.ok(chats.delete_session("telegram:1"));
        assert_eq!(said(&caller.ok(chats.history("telegram:1"))), ["own"]);
    });
}

#[test]
fn keys_resolve_as_picoclaw_resolves_them() {
    for_each_caller(|caller, chats, _| {
        let resolve = |key: &str| caller.ok(chats.resolve_session_key(key));
        let exact = chats.exact_keys();
        for key in ["plain", "b:1", "a:1", "c:1"] {
            caller.ok(exact.add_message(key, "user", key));
        }
        let claim = owned(&["plain", "shared", "c:1", "b:1"]);
        caller.ok(exact.upsert_session_meta("b:1", None, claim.clone()));
        caller.ok(exact.upsert_session_meta("a:1", None, claim));
        // Without `:`, `/` or `\` a key with files means itself.
        assert_eq!(resolve("plain").as_deref(), Some("plain"));
        assert_eq!(
            resolve("shared").as_deref(),
            Some("a:1"),
            "the first by file name"
        );
        assert_eq!(
            resolve("c:1").as_deref(),
            Some("a:1"),
            "an alias before a session"
        );
        assert_eq!(resolve("b:1").as_deref(), Some("a:1"), "not its own alias");
        assert_eq!(resolve("a:1").as_deref(), Some("a:1"));
        assert_eq!(resolve("\u{2003}shared\n").as_deref(), Some("a:1"));
        assert_eq!(resolve("SHARED"), None, "case matters");
        assert_eq!(resolve("nobody"), None);
        assert_eq!(resolve(" "), None);
        caller.ok(exact.delete_session("a:1"));
        assert_eq!(resolve("shared").as_deref(), Some("b:1"));
        assert_eq!(resolve("b:1").as_deref(), Some("b:1"));
    });
}

#[test]
fn sessions_are_listed_in_the_order_of_their_file_names() {
    let dir = scratch();
    let keys = ["zeta", "a:2", "a_1", "Beta", "a", "a-b", "\u{e9}", "a/3"];
    let mut expected = Vec::new();
    let store = open(dir.path());
    for key in keys {
        store.handle().add_message(key, "user", "x").wait().unwrap();
        let name = key.replace([':', '/'], "_") + ".meta.json";
        expected.push((name, key.to_string()));
    }
    expected.sort();
    let expected: Vec<_> = expected.into_iter().map(|(_, key)| key).collect();
    assert_eq!(store.handle().list_sessions().wait().unwrap(), expected);
    store.close().unwrap();
    let store = open(dir.path());
    assert_eq!(store.handle().list_sessions().wait().unwrap(), expected);
    store.close().unwrap();
}

#[test]
fn a_promotion_takes_over_the_first_alias_that_has_something() {
    for_each_caller(|caller, chats, dir| {
        add_numbers(chats, "old:1", 0..5);
        caller.ok(chats.truncate_history("old:1", 3));
        caller.ok(chats.set_summary("old:1", " what was \n"));
        add_numbers(chats, "old:2", 50..60);
        caller.ok(chats.set_history("empty", Vec::new()));
        let aliases = owned(&["agent:x:main", "nobody", "empty", "old:1", "old:2"]);
        let promoted = chats.promote_alias_history("new", scope("{\"v\":1}"), aliases.clone());
        assert!(caller.ok(promoted));
        let exact = chats.exact_keys();
        assert_eq!(said(&caller.ok(exact.history("new"))), numbers(2..5));
        let meta = caller.ok(exact.session_meta("new"));
        assert_eq!(
            (meta.skip, meta.count, meta.summary.as_str()),
            (0, 3, "what was")
        );
        assert_eq!(meta.scope.unwrap().get(), "{\"v\":1}");
        assert_eq!(meta.aliases, aliases);
        // From now on the alias leads here; its own files stay.
        assert_eq!(said(&caller.ok(chats.history("old:1"))), numbers(2..5));
        assert_eq!(said(&caller.ok(exact.history("old:1"))), numbers(2..5));
        caller.ok(chats.flush());
        assert!(dir.join("old_1.jsonl").exists());

        // What has a history of its own takes over nothing.
        let again = exact.promote_alias_history("new", None, owned(&["old:2"]));
        assert!(!caller.ok(again));
        assert_eq!(caller.ok(exact.session_meta("new")).aliases, aliases);
        assert_eq!(said(&caller.ok(exact.history("new"))), numbers(2..5));
        let nothing = chats.promote_alias_history("other", None, owned(&["nobody"]));
        assert!(!caller.ok(nothing));
        assert_eq!(caller.ok(chats.resolve_session_key("other")), None);
    });
}

#[test]
fn a_promotion_copies_lines_as_bytes_and_keeps_what_was_hidden_hidden() {
    let dir = scratch();
    let odd = "{ \"role\":\"user\",\"content\":\"odd\",\"unknown\":[1.0] }\nnot json\n";
    std::fs::write(dir.path().join("old.jsonl"), odd).unwrap();
    let store = open(dir.path());
    let chats = store.handle().exact_keys();
    add_numbers(&chats, "new", 0..5);
    chats.truncate_history("new", 0).wait().unwrap();
    let promoted = chats.promote_alias_history("new", None, owned(&["old"]));
    assert!(promoted.wait().unwrap());
    assert_eq!(texts(&chats, "new"), ["odd"]);
    chats.add_message("new", "user", "next").wait().unwrap();
    assert_eq!(texts(&chats, "new"), ["odd", "next"]);
    store.close().unwrap();
    let log = std::fs::read_to_string(dir.path().join("new.jsonl")).unwrap();
    assert!(log.starts_with(odd), "{log}");
    assert_eq!(
        std::fs::read_to_string(dir.path().join("old.jsonl")).unwrap(),
        odd
    );
}

#[test]
fn a_message_under_a_padded_key_stays_within_reach() {
    let dir = scratch();
    let store = open(dir.path());
    let chats = store.handle();
    chats.add_message(" pad ", "user", "padded").wait().unwrap();
    let resolved = |key: &str| chats.resolve_session_key(key).wait().unwrap();
    assert_eq!(resolved(" pad ").as_deref(), Some(" pad "));
    assert_eq!(resolved("pad"), None);
    chats.add_message("pad", "user", "plain").wait().unwrap();
    assert_eq!(texts(&chats, " pad "), ["padded"]);
    assert_eq!(texts(&chats, "\tpad"), ["plain"]);
    let ensured = chats.ensure_session_metadata(" pad ", None, owned(&["p:1"]));
    ensured.wait().unwrap();
    assert_eq!(texts(&chats, "p:1"), ["padded"]);
    let refused = chats.ensure_session_metadata(" ", None, Vec::new()).wait();
    assert!(refused.is_err());
    store.close().unwrap();
}

#[test]
fn an_alias_that_is_too_long_for_a_key_is_an_alias_all_the_same() {
    let dir = scratch();
    let store = open(dir.path());
    let chats = store.handle();
    let long = "x".repeat(5_000);
    let ensured = chats.ensure_session_metadata("new", None, vec![long.clone()]);
    ensured.wait().unwrap();
    chats.add_message(&long, "user", "hi").wait().unwrap();
    assert_eq!(texts(&chats, &long), ["hi"]);
    assert_eq!(texts(&chats, "new"), ["hi"]);
    assert!(chats.add_message(&long[1..], "user", "hi").wait().is_err());
    assert!(chats.exact_keys().history(&long).wait().is_err());
    store.close().unwrap();
    let view = Store::open_read_only(dir.path()).unwrap();
    assert_eq!(texts(&view.handle(), &long), ["hi"]);
}

/// A key that is only an alias is no session to a handle that takes keys literally.
#[test]
fn exact_keys_follow_no_alias_in_any_verb() {
    let dir = scratch();
    let store = open(dir.path());
    let chats = store.handle();
    add_numbers(&chats, "new", 0..2);
    chats
        .upsert_session_meta("new", None, owned(&["old:1"]))
        .wait()
        .unwrap();
    let exact = chats.exact_keys();
    let missing = |result: sessionlog::Result<()>| {
        assert!(
            matches!(result, Err(Error::SessionNotFound { .. })),
            "{result:?}"
        );
    };
    missing(exact.fork_session("old:1", "fork", Fork::End).wait());
    let outside = scratch();
    let file = outside.path().join("context.jsonl");
    missing(export_kimi("old:1", &file, &exact));
    assert!(!file.exists());
    let view = Store::open_read_only(dir.path()).unwrap();
    missing(export_kimi("old:1", &file, &view.handle().exact_keys()));
    assert_eq!(chats.resolve_session_key("fork").wait().unwrap(), None);

    // And it may be one beside the session that claims it.
    exact
        .fork_session("new", "old:1", Fork::End)
        .wait()
        .unwrap();
    assert_eq!(texts(&exact, "old:1"), numbers(0..2));
    exact
        .fork_session("old:1", "fork", Fork::End)
        .wait()
        .unwrap();
    export_kimi("old:1", &file, &exact).unwrap();

    chats
        .fork_session("old:1", "second", Fork::End)
        .wait()
        .unwrap();
    export_kimi("old:1", outside.path().join("resolved.jsonl"), &chats).unwrap();
    export_kimi("old:1", outside.path().join("viewed.jsonl"), &view.handle()).unwrap();
    store.close().unwrap();
}

#[test]
fn a_promotion_looks_at_what_there_is_and_takes_over_again_after_a_clear() {
    let dir = scratch();
    let store = open(dir.path());
    let chats = store.handle();
    add_numbers(&chats, "old:1", 0..2);
    let promote = || {
        let promoted = chats.promote_alias_history("new", None, owned(&["old:1"]));
        promoted.wait().unwrap()
    };
    let ensure = || {
        let ensured = chats.ensure_session_metadata("new", None, owned(&["old:1"]));
        ensured.wait().unwrap()
    };
    assert!(promote());
    assert!(!promote());
    chats.context("new").clear().wait().unwrap();
    assert!(!ensure());
    assert!(texts(&chats, "new").is_empty());
    assert!(promote());
    assert_eq!(texts(&chats, "new"), numbers(0..2));
    store.close().unwrap();
}

#[test]
fn a_session_that_is_kept_is_written_to_where_its_key_leads() {
    for_each_caller(|caller, chats, _| {
        let chat = chats.session("telegram:1");
        caller.ok(chat.add_message("user", "0"));
        caller.ok(chat.add_message("user", "1"));
        assert_eq!(said(&caller.ok(chat.tail(1))), ["1"]);
        caller.ok(chat.delete_session());
        caller.ok(chat.add_full_message(Message::user("2")));
        assert_eq!(said(&caller.ok(chats.history("telegram:1"))), ["2"]);
        caller.ok(chat.delete_session());
        caller.ok(chats.add_message("sk_1", "user", "3"));
        caller.ok(chats.upsert_session_meta("sk_1", None, owned(&["telegram:1"])));
        caller.ok(chat.append_all(vec![Message::user("4")]));
        assert_eq!(said(&caller.ok(chats.history("sk_1"))), ["3", "4"]);
        assert!(!caller.ok(chats.exact_keys().exists("telegram:1")));
        let refused = caller
            .get(chats.session("").add_message("user", "5"))
            .unwrap_err();
        assert!(matches!(refused, Error::InvalidKey { .. }), "{refused}");
    });
}
