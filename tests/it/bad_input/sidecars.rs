//! What a session's sidecar takes, and what one that lies on disk may hold.

use serde_json::value::RawValue;
use sessionlog::{Error, Oversized, Result, Store, StoreHandle};

use crate::support::{files, line, manual, open, scratch, sidecar, texts};

fn nested(levels: usize) -> Box<RawValue> {
    RawValue::from_string("[".repeat(levels) + &"]".repeat(levels)).unwrap()
}

fn too_large<T: std::fmt::Debug>(result: Result<T>) -> Oversized {
    match result {
        Err(Error::MessageTooLarge { what, messages, .. }) => {
            assert!(messages.is_empty());
            what
        }
        other => panic!("{other:?}"),
    }
}

fn scope_of(chats: &StoreHandle, key: &str) -> Option<String> {
    let scope = chats.session_meta(key).wait().unwrap().scope;
    scope.map(|scope| scope.get().to_owned())
}

#[test]
fn a_scope_nested_deeper_than_128_is_refused_by_every_verb_that_takes_one() {
    let dir = scratch();
    let store = open(dir.path());
    let chats = store.handle();
    for levels in [129, 9_000, 10_001, 46_000, 1_000_000] {
        let scope = || Some(nested(levels));
        let refused = [
            chats.upsert_session_meta("a", scope(), Vec::new()).wait(),
            chats
                .promote_alias_history("a", scope(), Vec::new())
                .wait()
                .map(drop),
            chats
                .ensure_session_metadata("a", scope(), Vec::new())
                .wait()
                .map(drop),
        ];
        for refused in refused {
            let Err(Error::InvalidScope { reason }) = refused else {
                panic!("{levels}: {refused:?}");
            };
            assert!(reason.contains("128"), "{reason}");
        }
    }
    assert_eq!(chats.stats().commits, 0);

    let add = |chats: &StoreHandle, text| chats.add_message("a", "user", text).wait().unwrap();
    add(&chats, "old");
    add(&chats, "new");
    chats.truncate_history("a", 1).wait().unwrap();
    let deepest = Some(nested(128));
    chats
        .upsert_session_meta("a", deepest, Vec::new())
        .wait()
        .unwrap();
    store.close().unwrap();
    let store = open(dir.path());
    assert_eq!(texts(&store.handle(), "a"), ["new"]);
    assert_eq!(
        scope_of(&store.handle(), "a").unwrap(),
        nested(128).get().to_owned()
    );
    store.close().unwrap();
}

#[test]
fn what_is_acknowledged_makes_no_sidecar_over_its_limit() {
    let dir = scratch();
    let store = Store::open_with(dir.path(), manual().max_line_bytes(1 << 20)).unwrap();
    let chats = store.handle();
    let limit = (2 << 20) + (16 << 10);
    // One character, and six on disk.
    let escaped = |bytes: usize| "\u{1}".repeat(bytes);
    let summary = |bytes| chats.set_summary("a", &escaped(bytes)).wait();
    let aliases = |bytes| {
        let aliases = vec![escaped(bytes)];
        chats.upsert_session_meta("a", None, aliases).wait()
    };

    assert_eq!(too_large(summary((1 << 20) + 1)), Oversized::Summary);
    assert_eq!(too_large(aliases((1 << 20) + 1)), Oversized::Aliases);
    let long = RawValue::from_string(format!("\"{}\"", "x".repeat(1 << 20))).unwrap();
    let scope = chats.upsert_session_meta("a", Some(long), Vec::new());
    assert_eq!(too_large(scope.wait()), Oversized::Scope);
    assert_eq!(too_large(summary(1 << 20)), Oversized::Sidecar);
    assert_eq!(too_large(aliases(1 << 20)), Oversized::Sidecar);
    // A refused first write leaves nothing.
    assert_eq!(chats.resolve_session_key("a").wait().unwrap(), None);
    assert_eq!(chats.stats().commits, 0);

    summary(200_000).unwrap();
    assert_eq!(too_large(aliases(200_000)), Oversized::Sidecar);
    let ensured = chats.ensure_session_metadata("a", None, vec![escaped(200_000)]);
    assert_eq!(too_large(ensured.wait()), Oversized::Sidecar);
    aliases(100_000).unwrap();
    summary(10).unwrap();
    aliases(200_000).unwrap();

    // Taking a summary over counts, too.
    chats.set_summary("b", &escaped(200_000)).wait().unwrap();
    let names = vec![String::from("b"), escaped(200_000)];
    let promoted = chats.promote_alias_history("c", None, names.clone()).wait();
    assert_eq!(too_large(promoted), Oversized::Sidecar);
    let ensured = chats.ensure_session_metadata("c", None, names).wait();
    assert_eq!(too_large(ensured), Oversized::Sidecar);
    store.close().unwrap();

    let sidecars = files(dir.path()).into_iter();
    for (name, bytes) in sidecars.filter(|(name, _)| name.extension().is_some_and(|e| e == "json"))
    {
        assert!(bytes.len() <= limit, "{}: {}", name.display(), bytes.len());
    }
    let store = open(dir.path());
    assert_eq!(store.recovery_report().findings, [""; 0]);
    let meta = store.handle().session_meta("a").wait().unwrap();
    assert_eq!(
        (meta.summary, meta.aliases),
        (escaped(10), vec![escaped(200_000)])
    );
    assert!(
        store
            .handle()
            .resolve_session_key("c")
            .wait()
            .unwrap()
            .is_none()
    );
    store.close().unwrap();
}

#[test]
fn white_space_never_makes_most_of_a_sidecar() {
    let dir = scratch();
    let store = open(dir.path());
    let items = vec!["1"; 40_000].join(",");
    let text = format!("{}{items}{}", "[".repeat(128), "]".repeat(128));
    let scope = RawValue::from_string(text.clone()).unwrap();
    let chats = store.handle();
    chats
        .upsert_session_meta("a", Some(scope), Vec::new())
        .wait()
        .unwrap();
    store.close().unwrap();
    let len = std::fs::metadata(dir.path().join("a.meta.json"))
        .unwrap()
        .len();
    assert!(len < 200_000, "{len}");
    let store = open(dir.path());
    assert_eq!(scope_of(&store.handle(), "a"), Some(text));
    store.close().unwrap();
}

/// As an editor or another program may leave it.
#[test]
fn a_scope_of_any_depth_on_disk_costs_neither_the_session_nor_what_was_truncated() {
    for levels in [129, 9_990, 10_001, 46_000] {
        let dir = scratch();
        let log = line("hidden") + &line("shown");
        std::fs::write(dir.path().join("a.jsonl"), log).unwrap();
        let meta = sidecar("a", "s", 1, 2);
        let meta = meta.trim_end_matches(['\n', '}']).to_owned();
        let deep = nested(levels);
        let meta = format!(
            "{meta},\n  \"scope\": {},\n  \"aliases\": [\"b\"]\n}}",
            deep.get()
        );
        std::fs::write(dir.path().join("a.meta.json"), meta).unwrap();

        for round in 0..2 {
            let store = open(dir.path());
            let chats = store.handle();
            assert_eq!(store.recovery_report().findings, [""; 0]);
            assert_eq!(texts(&chats, "b")[0], "shown", "{levels}");
            assert_eq!(texts(&chats, "a").len(), 1 + round);
            assert_eq!(scope_of(&chats, "a").as_deref(), Some(deep.get()));
            chats.add_message("a", "user", "more").wait().unwrap();
            chats.set_summary("a", &format!("{round}")).wait().unwrap();
            store.close().unwrap();
            let len = std::fs::metadata(dir.path().join("a.meta.json"))
                .unwrap()
                .len();
            assert!(len < 2 << 20, "{levels}: {len}");
        }
        // What a lost sidecar is made again of holds such a scope as well.
        std::fs::remove_file(dir.path().join("a.meta.json")).unwrap();
        let store = open(dir.path());
        assert_eq!(texts(&store.handle(), "a"), ["shown", "more", "more"]);
        assert_eq!(scope_of(&store.handle(), "a").as_deref(), Some(deep.get()));
        store.close().unwrap();
        assert!(Store::verify(dir.path()).unwrap().is_sound());
    }
}

#[test]
fn a_sidecar_too_large_to_be_one_costs_its_own_session_only() {
    let dir = scratch();
    let log = line("hidden") + &line("shown");
    std::fs::write(dir.path().join("a.jsonl"), log).unwrap();
    let file = std::fs::File::create(dir.path().join("a.meta.json")).unwrap();
    file.set_len(129 << 20).unwrap();
    let store = open(dir.path());
    let chats = store.handle();
    chats.add_message("b", "user", "fine").wait().unwrap();
    assert!(matches!(chats.history("a").wait(), Err(Error::Io { .. })));
    let refused = chats.add_message("a", "user", "x").wait();
    assert!(matches!(refused, Err(Error::Io { .. })), "{refused:?}");
    let findings = &store.recovery_report().findings;
    assert!(
        findings.iter().any(|f| f.contains("a.meta.json")),
        "{findings:?}"
    );
    store.close().unwrap();
    assert_eq!(file.metadata().unwrap().len(), 129 << 20);
}
