//! Keys, files and processes that get in each other's way.

use std::io::{BufRead, BufReader, Write};

use sessionlog::{Error, Store, StoreHandle};
use sha2::{Digest, Sha256};

use crate::support::{
    add_numbers, child_dir, line, numbers, open, scope, scratch, sidecar, spawn_child, texts,
    visible_names,
};

const COLLIDING: [&str; 3] = ["telegram:123", "telegram_123", "telegram/123"];

#[test]
fn p03_keys_with_one_file_name_are_sessions_of_their_own() {
    let dir = scratch();
    let store = open(dir.path());
    let chats = store.handle();
    for (n, key) in COLLIDING.iter().enumerate() {
        chats
            .add_message(key, "user", &n.to_string())
            .wait()
            .unwrap();
        let alias = format!("alias-{n}");
        chats
            .upsert_session_meta(key, scope("{}"), vec![alias])
            .wait()
            .unwrap();
    }
    chats.set_history(COLLIDING[1], Vec::new()).wait().unwrap();
    let check = |chats: &StoreHandle| {
        let mut listed = chats.list_sessions().wait().unwrap();
        listed.sort();
        assert_eq!(listed, ["telegram/123", "telegram:123", "telegram_123"]);
        assert_eq!(texts(chats, "alias-0"), ["0"]);
        assert!(texts(chats, "alias-1").is_empty());
        assert_eq!(texts(chats, "alias-2"), ["2"]);
    };
    check(&chats);
    store.close().unwrap();
    assert!(
        dir.path().join("telegram_123.jsonl").exists(),
        "the first keeps PicoClaw's name"
    );
    assert_eq!(visible_names(dir.path()).len(), 6);

    let store = open(dir.path());
    check(&store.handle());
    store.close().unwrap();
}

#[test]
fn p03_concurrent_adds_to_keys_with_one_file_name_lose_nothing() {
    let dir = scratch();
    let store = open(dir.path());
    std::thread::scope(|scope| {
        for key in COLLIDING {
            let chats = store.handle();
            scope.spawn(move || {
                for n in 0..200 {
                    chats
                        .add_message(key, "user", &format!("{key} {n}"))
                        .wait()
                        .unwrap();
                }
            });
        }
    });
    store.close().unwrap();
    let store = open(dir.path());
    for key in COLLIDING {
        let own: Vec<_> = (0..200).map(|n| format!("{key} {n}")).collect();
        assert_eq!(texts(&store.handle(), key), own);
        assert_eq!(store.handle().session_meta(key).wait().unwrap().count, 200);
    }
    store.close().unwrap();
}

#[test]
fn p07_a_second_process_is_refused_and_reads_all_the_same() {
    if let Some(dir) = child_dir() {
        return second_process(&dir);
    }
    let dir = scratch();
    let store = open(dir.path());
    add_numbers(&store.handle(), "cli", 0..3);
    std::fs::write(
        dir.path().join("parent.pid"),
        std::process::id().to_string(),
    )
    .unwrap();
    let child = spawn_child(
        "defects::sharing::p07_a_second_process_is_refused_and_reads_all_the_same",
        dir.path(),
    );
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && said.contains("1 passed"),
        "{said}"
    );
    add_numbers(&store.handle(), "cli", 3..4);
    assert_eq!(texts(&store.handle(), "cli"), numbers(0..4));
    store.close().unwrap();
}

fn second_process(dir: &std::path::Path) {
    let parent = std::fs::read_to_string(dir.join("parent.pid")).unwrap();
    let Err(error) = Store::open(dir) else {
        panic!("two processes write to one directory");
    };
    let Error::Locked { path, pid } = &error else {
        panic!("{error}");
    };
    assert_eq!(path, dir);
    assert_eq!(pid.map(|pid| pid.to_string()), Some(parent.clone()));
    assert!(error.to_string().contains(&parent), "{error}");
    let store = Store::open_read_only(dir).unwrap();
    assert_eq!(texts(&store.handle(), "cli"), numbers(0..3));
}

#[test]
fn p07_the_lock_of_a_killed_process_is_free_and_its_messages_are_there() {
    if let Some(dir) = child_dir() {
        return killed_process(&dir);
    }
    let dir = scratch();
    let mut child = spawn_child(
        "defects::sharing::p07_the_lock_of_a_killed_process_is_free_and_its_messages_are_there",
        dir.path(),
    );
    let mut said = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(said.any(|line| line.unwrap().contains("acknowledged")));
    let refused = Store::open(dir.path()).err();
    assert!(
        matches!(refused, Some(Error::Locked { pid, .. }) if pid == Some(child.id())),
        "{refused:?}"
    );
    child.kill().unwrap();
    child.wait().unwrap();
    let store = open(dir.path());
    assert!(!store.recovery_report().clean);
    assert_eq!(texts(&store.handle(), "cli"), numbers(0..20));
    store.close().unwrap();
}

/// Adds messages, says so, and waits to be killed.
fn killed_process(dir: &std::path::Path) {
    let store = open(dir);
    add_numbers(&store.handle(), "cli", 0..20);
    let mut out = std::io::stdout();
    writeln!(out, "\nacknowledged").unwrap();
    out.flush().unwrap();
    // Ends only if the parent died without killing us.
    let _ = std::io::stdin().read_line(&mut String::new());
    std::process::abort();
}

#[test]
fn p14_keys_that_look_like_each_other_are_sessions_of_their_own() {
    let keys = [
        "v=2|agent=a|channel=c|account=|chat=1|sender=bob",
        "v=2|agent=a|channel=c|account=|chat=1|sender=bob ",
        "v=2|agent=a|channel=c|account=|chat=1\\|sender=bob",
        "v=2_agent=a_channel=c_account=_chat=1_sender=bob",
        "chat=1|sender=bob",
        "chat=1%7Csender=bob",
        "chat=1\nsender=bob",
        "chat=1\rsender=bob",
        "chat=1_sender=bob",
        "chat:1:sender:bob",
        "chat/1/sender/bob",
        "chat\\1\\sender\\bob",
        "CHAT:1:sender:bob",
        // The file name that `..` gets.
        "_.-5ec1f7e700f37c3d0b2981d04855fc34",
        "..",
        ".",
        "../chat",
        "/chat",
        "chat.jsonl",
        "chat.meta",
        "chat",
        "\u{7f}chat",
        "c\u{301}hat",
        "\u{107}hat",
    ];
    let dir = scratch();
    for round in 0..2 {
        let store = open(dir.path());
        let chats = store.handle().exact_keys();
        for key in keys {
            chats
                .add_message(key, "user", &format!("{round} {key}"))
                .wait()
                .unwrap();
        }
        for key in keys {
            let own: Vec<_> = (0..=round).map(|n| format!("{n} {key}")).collect();
            assert_eq!(texts(&chats, key), own);
        }
        assert_eq!(chats.list_sessions().wait().unwrap().len(), keys.len());
        store.close().unwrap();
    }
    assert_eq!(visible_names(dir.path()).len(), 2 * keys.len());
    let outside = dir.path().parent().unwrap().join("chat.jsonl");
    assert!(!outside.exists(), "a key led out of the directory");
}

fn opaque(alias: &str) -> String {
    use std::fmt::Write as _;
    let mut key = String::from("sk_v1_");
    for byte in Sha256::digest(alias.trim().to_lowercase().as_bytes()) {
        let _ = write!(key, "{byte:02x}");
    }
    key
}

#[test]
fn p15_no_agents_main_session_is_promoted() {
    let dir = scratch();
    let store = open(dir.path());
    let chats = store.handle();
    let plain = "agent:sales:main";
    for main in [plain, &opaque(plain), &opaque("agent:main:main")] {
        chats
            .add_message(main, "user", "the agent's own")
            .wait()
            .unwrap();
    }
    let promote = |key: &str, aliases: &[&str]| {
        let aliases = aliases.iter().map(ToString::to_string).collect();
        chats
            .promote_alias_history(key, None, aliases)
            .wait()
            .unwrap()
    };
    assert!(!promote("a", &["agent:sales:main"]));
    assert!(!promote("b", &[&opaque("agent:main:main")]));
    // A hash tells whose main session it is only beside the agent's name.
    assert!(!promote("c", &[&opaque(plain), plain]));
    assert!(!promote("d", &[plain, &opaque(plain)]));
    assert!(!promote("d", &[&opaque(plain), "agent:Sales:irc:group:1"]));
    let sales = scope(r#"{"version":1,"agent_id":"Sales"}"#);
    let aliases = vec![opaque(plain)];
    let promoted = chats.promote_alias_history("d", sales.clone(), aliases.clone());
    assert!(!promoted.wait().unwrap());
    let ensured = chats.ensure_session_metadata("e", sales.clone(), aliases.clone());
    assert!(!ensured.wait().unwrap());
    chats
        .upsert_session_meta(&opaque(plain), sales, Vec::new())
        .wait()
        .unwrap();
    let ensured = chats.ensure_session_metadata("f", None, aliases);
    assert!(!ensured.wait().unwrap());
    for key in ["a", "b", "c", "d", "e", "f"] {
        assert!(texts(&chats.exact_keys(), key).is_empty(), "{key}");
    }
    store.close().unwrap();
}

#[test]
fn p15_a_session_that_carries_a_main_alias_is_known_for_what_it_is() {
    let dir = scratch();
    let store = open(dir.path());
    let chats = store.handle();
    let main = opaque("agent:sales:main");
    chats
        .add_message(&main, "user", "the agent's own")
        .wait()
        .unwrap();
    let aliases = vec![String::from("agent:sales:main")];
    chats
        .upsert_session_meta(&main, None, aliases)
        .wait()
        .unwrap();
    let promoted = chats.promote_alias_history("new", None, vec![main]);
    assert!(!promoted.wait().unwrap());
    store.close().unwrap();
}

#[test]
fn p15_an_over_long_alias_keeps_no_other_from_being_promoted() {
    let dir = scratch();
    let store = open(dir.path());
    let chats = store.handle();
    add_numbers(&chats, "old", 0..2);
    let aliases = vec!["x".repeat(5_000), String::from("old")];
    let promoted = chats.promote_alias_history("new", None, aliases);
    assert!(promoted.wait().unwrap());
    assert_eq!(texts(&chats.exact_keys(), "new"), numbers(0..2));
    store.close().unwrap();
    let store = open(dir.path());
    assert_eq!(texts(&store.handle().exact_keys(), "new"), numbers(0..2));
    store.close().unwrap();
}

#[test]
fn p15_what_changes_no_session_makes_none() {
    let dir = scratch();
    std::fs::write(dir.path().join("real.jsonl"), crate::support::line("x")).unwrap();
    let with_alias = sidecar("real", "", 0, 1).replace("\n}", ",\n  \"aliases\": [\"ghost\"]\n}");
    std::fs::write(dir.path().join("real.meta.json"), with_alias).unwrap();
    let store = open(dir.path());
    let chats = store.handle();
    let exact = chats.exact_keys();
    exact.truncate_history("ghost", 3).wait().unwrap();
    exact.compact("ghost").wait().unwrap();
    exact.delete_session("ghost").wait().unwrap();
    exact.append_all("ghost", Vec::new()).wait().unwrap();
    assert!(exact.history("ghost").wait().unwrap().is_empty());
    // A session made by the way would now stand before the alias.
    assert_eq!(
        chats
            .resolve_session_key("ghost")
            .wait()
            .unwrap()
            .as_deref(),
        Some("real")
    );
    assert_eq!(texts(&chats, "ghost"), ["x"]);
    exact.truncate_history("telegram/1", 3).wait().unwrap();
    assert_eq!(
        chats.resolve_session_key("telegram/1").wait().unwrap(),
        None
    );
    exact
        .add_message("telegram:1", "user", "hi")
        .wait()
        .unwrap();
    assert_eq!(
        chats.list_sessions().wait().unwrap(),
        ["real", "telegram:1"]
    );
    store.close().unwrap();
    let names = [
        "real.jsonl",
        "real.meta.json",
        "telegram_1.jsonl",
        "telegram_1.meta.json",
    ];
    assert_eq!(visible_names(dir.path()), names);
}

/// The store replaces wholesale what it is told to replace; to say nothing
/// about the scope is the layer above's to express.
#[test]
fn p15_a_missing_scope_erases_scope_and_aliases_and_nothing_else() {
    let dir = scratch();
    let store = open(dir.path());
    let chats = store.handle();
    add_numbers(&chats, "k", 0..2);
    chats.set_summary("k", "kept").wait().unwrap();
    let json = "{\"version\": 1, \"big\": 12345678901234567890123}";
    chats
        .upsert_session_meta("k", scope(json), vec!["a".into()])
        .wait()
        .unwrap();
    chats
        .upsert_session_meta("k", None, Vec::new())
        .wait()
        .unwrap();
    let meta = chats.session_meta("k").wait().unwrap();
    assert!(meta.scope.is_none() && meta.aliases.is_empty());
    assert_eq!((meta.summary.as_str(), meta.count), ("kept", 2));
    assert_eq!(texts(&chats, "k"), numbers(0..2));
    store.close().unwrap();
}

fn put(dir: &std::path::Path, stem: &str, key: &str, alias: &str) {
    let meta = sidecar(key, &format!("of {stem}"), 0, 1);
    let meta = meta.trim_end_matches(['\n', '}']);
    let meta = format!("{meta},\n  \"aliases\": [\"{alias}\"]\n}}");
    std::fs::write(dir.join(format!("{stem}.meta.json")), meta).unwrap();
    std::fs::write(dir.join(format!("{stem}.jsonl")), line(stem)).unwrap();
}

/// Neither is under the key's own name: the first has it, whatever becomes of the
/// key that the second one's file name spells.
#[test]
fn of_two_sidecars_that_claim_a_key_the_first_has_it_and_the_other_is_nobodys() {
    let dir = scratch();
    put(dir.path(), "x", "k", "alias:x");
    put(dir.path(), "y", "k", "alias:y");
    let before = crate::support::files(dir.path());
    for round in 0..2 {
        let store = open(dir.path());
        let chats = store.handle();
        let findings = store.recovery_report().findings.join("\n");
        assert!(findings.contains("y.meta.json"), "{findings}");
        let mut listed = chats.list_sessions().wait().unwrap();
        listed.retain(|key| key == "k");
        assert_eq!(listed, ["k"]);
        assert_eq!(texts(&chats, "k"), ["x"]);
        assert_eq!(chats.summary("k").wait().unwrap(), "of x");
        assert_eq!(texts(&chats, "alias:x"), ["x"]);
        assert_eq!(chats.resolve_session_key("alias:y").wait().unwrap(), None);
        for key in ["x", "y"] {
            assert_eq!(texts(&chats, key).len(), round, "{key}");
            chats.add_message(key, "user", key).wait().unwrap();
        }
        store.close().unwrap();
    }
    let after = crate::support::files(dir.path());
    for (name, bytes) in before {
        assert_eq!(after[&name], bytes, "{}", name.display());
    }
    // The key's own name comes before all others.
    put(dir.path(), "k", "k", "alias:k");
    let store = open(dir.path());
    assert_eq!(texts(&store.handle(), "k"), ["k"]);
    assert_eq!(texts(&store.handle(), "alias:k"), ["k"]);
    assert_eq!(
        store
            .handle()
            .resolve_session_key("alias:x")
            .wait()
            .unwrap(),
        None
    );
    store.close().unwrap();
}
