//! A session's identity and its inheritance, in one step.

use sessionlog::scope::{SessionScope, build_session_key};
use sessionlog::{AliasConflict, Durability, Error, Store};

use crate::support::{
    add_numbers, for_each_caller, manual, numbers, open, said, scope, scratch, texts,
};

fn owned(aliases: &[&str]) -> Vec<String> {
    aliases.iter().map(ToString::to_string).collect()
}

fn told_apart_by(values: &[(&str, &str)]) -> SessionScope {
    let names = values.iter().map(|(name, _)| (*name).to_owned());
    let values = values
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    SessionScope {
        version: 1,
        dimensions: names.collect(),
        values: values.collect(),
        ..SessionScope::default()
    }
}

#[test]
fn identity_and_inheritance_come_in_one_step() {
    for_each_caller(|caller, chats, _| {
        add_numbers(chats, "old:1", 0..3);
        caller.ok(chats.truncate_history("old:1", 2));
        caller.ok(chats.set_summary("old:1", " was "));
        let before = chats.stats().commands;
        let aliases = owned(&["agent:main:main", "nobody", "old:1"]);
        let ensured = chats.ensure_session_metadata(" new\n", scope("{\"v\":1}"), aliases.clone());
        assert!(caller.ok(ensured));
        assert_eq!(chats.stats().commands, before + 1);
        assert_eq!(said(&caller.ok(chats.history("new"))), numbers(1..3));
        let meta = caller.ok(chats.session_meta("new"));
        assert_eq!((meta.skip, meta.summary.as_str()), (0, "was"));
        assert_eq!(meta.scope.unwrap().get(), "{\"v\":1}");
        assert_eq!(meta.aliases, aliases);
    });
}

#[test]
fn a_session_that_has_its_identity_is_not_written_to() {
    let dir = scratch();
    let store = open(dir.path());
    let chats = store.handle();
    add_numbers(&chats, "old:1", 0..2);
    let ensure = |scope| {
        let aliases = owned(&["old:1", "old:2"]);
        chats.ensure_session_metadata("new", scope, aliases).wait()
    };
    assert!(ensure(scope("{\"v\":1}")).unwrap());
    let commands = chats.stats().commands;
    for _ in 0..5 {
        assert!(!ensure(scope("{\"v\":1}")).unwrap());
    }
    assert_eq!(chats.stats().commands, commands);
    assert!(!ensure(scope("{\"v\":2}")).unwrap());
    assert!(!ensure(None).unwrap());
    assert_eq!(chats.stats().commands, commands + 2);
    let meta = chats.session_meta("new").wait().unwrap();
    assert!(meta.scope.is_none());
    store.close().unwrap();
    let store = open(dir.path());
    let chats = store.handle();
    let ensured = chats.ensure_session_metadata("new", None, owned(&["old:1", "old:2"]));
    assert!(!ensured.wait().unwrap());
    assert_eq!(chats.stats().commands, 0);
    assert_eq!(texts(&chats, "old:1"), numbers(0..2));
}

/// The identity that a buffered command gave may be gone after a power loss;
/// a durable one must not rely on it.
#[test]
fn a_durable_identity_does_not_rely_on_a_buffered_one() {
    use sessionlog::testing::disk_model::{Image, MemoryStorage};
    let disk = MemoryStorage::new();
    let store = crate::support::open_memory(&disk).unwrap();
    let chats = store.handle();
    let buffered = chats.with_durability(Durability::Buffered);
    for n in 0..50 {
        let (key, aliases) = (format!("k{n}"), owned(&[&format!("a:{n}")]));
        let ensure = |chats: &sessionlog::StoreHandle| {
            chats
                .ensure_session_metadata(&key, None, aliases.clone())
                .wait()
                .unwrap()
        };
        ensure(&buffered);
        ensure(&chats);
        let lost = disk.image(Image::AllLost);
        let after = crate::support::open_memory(&lost).unwrap();
        let resolved = after
            .handle()
            .resolve_session_key(&format!("a:{n}"))
            .wait()
            .unwrap();
        assert_eq!(resolved.as_deref(), Some(key.as_str()));
        after.close().unwrap();
    }
    store.close().unwrap();
}

#[test]
fn callers_who_ensure_at_once_inherit_once() {
    for _ in 0..20 {
        let dir = scratch();
        let store = open(dir.path());
        let chats = store.handle();
        add_numbers(&chats, "old:1", 0..3);
        let promoted: usize = std::thread::scope(|threads| {
            let ensure = || {
                let aliases = owned(&["old:1"]);
                let promoted = chats
                    .ensure_session_metadata("new", None, aliases)
                    .wait()
                    .unwrap();
                usize::from(promoted)
            };
            let callers: Vec<_> = (0..4).map(|_| threads.spawn(ensure)).collect();
            callers
                .into_iter()
                .map(|caller| caller.join().unwrap())
                .sum()
        });
        assert_eq!(promoted, 1);
        assert_eq!(texts(&chats, "new"), numbers(0..3));
    }
}

#[test]
fn a_session_deleted_meanwhile_inherits_again() {
    let dir = scratch();
    let store = open(dir.path());
    let chats = store.handle();
    add_numbers(&chats, "old:1", 0..2);
    for _ in 0..3 {
        let ensured = chats.ensure_session_metadata("new", None, owned(&["old:1"]));
        assert!(ensured.wait().unwrap());
        assert_eq!(texts(&chats, "new"), numbers(0..2));
        chats.delete_session("old:1").wait().unwrap();
        assert_eq!(texts(&chats, "old:1"), numbers(0..2), "its own again");
    }
}

#[test]
fn p14_a_forged_signature_shares_no_session_by_any_verb_that_gives_a_scope() {
    for_each_caller(|caller, chats, _| {
        let bob = told_apart_by(&[("chat", "direct:1"), ("sender", "bob")]);
        let forged = told_apart_by(&[("chat", "direct:1|sender=bob")]);
        let key = build_session_key(&bob);
        assert_eq!(key, build_session_key(&forged));
        let alias = || owned(&["old:evil"]);
        caller.ok(chats.add_message("old:evil", "user", "evil"));
        assert!(!caller.ok(chats.ensure_session_metadata(
            &key,
            Some(bob.to_raw()),
            owned(&["b:1"])
        )));
        let commands = chats.stats().commands;
        let forged = || Some(forged.to_raw());
        for refused in [
            caller
                .get(chats.ensure_session_metadata(&key, forged(), alias()))
                .map(drop),
            caller
                .get(chats.promote_alias_history(&key, forged(), alias()))
                .map(drop),
            caller.get(chats.upsert_session_meta(&key, forged(), alias())),
        ] {
            let Err(Error::ScopeConflict { key: refused }) = refused else {
                panic!("{refused:?}");
            };
            assert_eq!(refused, key);
        }
        assert_eq!(chats.stats().commands, commands);
        let meta = caller.ok(chats.session_meta("b:1"));
        assert_eq!(meta.scope.unwrap().get(), bob.to_raw().get());
        assert_eq!(meta.aliases, ["b:1"]);
        // Another spelling of the same conversation is none other.
        let spelled = told_apart_by(&[("chat", " Direct:1"), ("sender", "BOB ")]);
        assert!(!caller.ok(chats.ensure_session_metadata(
            &key,
            Some(spelled.to_raw()),
            owned(&["b:1"])
        )));
    });
}

#[test]
fn p15_an_over_long_alias_and_a_main_one_keep_no_other_from_being_inherited() {
    let dir = scratch();
    let store = open(dir.path());
    let chats = store.handle();
    add_numbers(&chats, "agent:sales:main", 5..9);
    add_numbers(&chats, "old:1", 0..2);
    let long = "a".repeat(64 << 10);
    let aliases = owned(&["agent:sales:main", &long, "old:1"]);
    assert!(
        chats
            .ensure_session_metadata("new", None, aliases)
            .wait()
            .unwrap()
    );
    assert_eq!(texts(&chats.exact_keys(), "new"), numbers(0..2));
}

#[test]
fn aliases_of_several_sessions_are_reported() {
    let dir = scratch();
    let expected: AliasConflict = {
        let store = open(dir.path());
        let chats = store.handle();
        for key in ["sk_b", "sk_a"] {
            let aliases = owned(&["agent:main:main", "group:1", key, &format!("own:{key}")]);
            chats
                .ensure_session_metadata(key, None, aliases)
                .wait()
                .unwrap();
        }
        let conflicts = chats.alias_conflicts().wait().unwrap();
        store.close().unwrap();
        assert_eq!(conflicts.len(), 1);
        conflicts[0].clone()
    };
    assert_eq!(expected.alias, "group:1");
    assert_eq!(expected.sessions, ["sk_a", "sk_b"]);
    for store in [
        Store::open_with(dir.path(), manual()).unwrap(),
        Store::open_read_only(dir.path()).unwrap(),
    ] {
        assert_eq!(store.recovery_report().contested_aliases, 1);
        let conflicts = store.handle().alias_conflicts().wait().unwrap();
        assert_eq!(conflicts, std::slice::from_ref(&expected));
        store.close().unwrap();
    }
    let store = open(dir.path());
    store.handle().delete_session("sk_a").wait().unwrap();
    assert!(store.handle().alias_conflicts().wait().unwrap().is_empty());
}

#[test]
fn what_was_taken_away_does_not_come_back_with_the_next_ensure() {
    type Empty = fn(&sessionlog::StoreHandle) -> sessionlog::Result<()>;
    let ways: [Empty; 3] = [
        |chats| chats.set_history("new", Vec::new()).wait(),
        |chats| chats.truncate_history("new", 0).wait(),
        |chats| chats.context("new").clear().wait(),
    ];
    for empty in ways {
        let dir = scratch();
        let mut store = open(dir.path());
        add_numbers(&store.handle(), "old:1", 0..2);
        let ensure = |store: &Store, aliases: &[&str]| {
            let chats = store.handle();
            let ensured = chats.ensure_session_metadata("new", None, owned(aliases));
            ensured.wait().unwrap()
        };
        assert!(ensure(&store, &["old:1"]));
        empty(&store.handle()).unwrap();
        for _ in 0..2 {
            assert!(!ensure(&store, &["old:1", "nobody"]));
            assert_eq!(texts(&store.handle(), "new"), [""; 0]);
            store.close().unwrap();
            store = open(dir.path());
        }
        // One that it did not claim yet is another matter.
        add_numbers(&store.handle(), "old:2", 5..7);
        assert!(ensure(&store, &["old:1", "old:2"]));
        assert_eq!(texts(&store.handle(), "new"), numbers(5..7));
        store.close().unwrap();
    }
}

/// What a session took over is a copy; deleting it leaves the original.
#[test]
fn a_deleted_session_inherits_again_unless_the_older_one_is_deleted_too() {
    let dir = scratch();
    let store = open(dir.path());
    let chats = store.handle();
    add_numbers(&chats, "old:1", 0..2);
    let ensure = || {
        let ensured = chats.ensure_session_metadata("new", None, owned(&["old:1"]));
        ensured.wait().unwrap()
    };
    assert!(ensure());
    chats.delete_session("new").wait().unwrap();
    assert!(ensure());
    chats.exact_keys().delete_session("old:1").wait().unwrap();
    chats.delete_session("new").wait().unwrap();
    assert!(!ensure());
    assert_eq!(texts(&chats, "new"), [""; 0]);
    store.close().unwrap();
}

#[test]
fn p14_a_scope_that_is_lost_or_erased_opens_no_door_to_a_forger() {
    let dir = scratch();
    let store = open(dir.path());
    let chats = store.handle();
    let bob = told_apart_by(&[("chat", "direct:1"), ("sender", "bob")]);
    let forged = told_apart_by(&[("chat", "direct:1|sender=bob")]);
    let key = build_session_key(&bob);
    for erased in [None, scope("null"), scope("{}"), scope("[1]")] {
        let ensure = |scope| {
            chats
                .ensure_session_metadata(&key, scope, Vec::new())
                .wait()
        };
        ensure(Some(bob.to_raw())).unwrap();
        add_numbers(&chats, &key, 0..1);
        ensure(erased.clone()).unwrap();
        let upserted = chats.upsert_session_meta(&key, Some(forged.to_raw()), Vec::new());
        assert!(matches!(upserted.wait(), Err(Error::ScopeConflict { .. })));
        assert!(matches!(
            ensure(Some(forged.to_raw())),
            Err(Error::ScopeConflict { .. })
        ));
        ensure(Some(bob.to_raw())).unwrap();
    }
    // Under a key that the scope does not lead to, its owner chose to.
    add_numbers(&chats, "chosen", 0..1);
    let ensured = chats.ensure_session_metadata("chosen", Some(forged.to_raw()), Vec::new());
    assert!(!ensured.wait().unwrap());
    store.close().unwrap();
}

#[test]
fn an_ensure_beside_a_summary_on_its_way_out_is_asked_once_more_at_most() {
    let dir = scratch();
    let store = open(dir.path());
    let chats = store.handle();
    add_numbers(&chats, "old:1", 0..1);
    for _ in 0..30 {
        chats.set_summary("new", "s").wait().unwrap();
        std::thread::scope(|threads| {
            threads.spawn(|| chats.set_summary("new", "").wait().unwrap());
            let ensured = chats.ensure_session_metadata("new", None, owned(&["old:1"]));
            ensured.wait().unwrap();
        });
        let ensured = chats.ensure_session_metadata("new", None, owned(&["old:1"]));
        assert!(!ensured.wait().unwrap());
        chats.delete_session("new").wait().unwrap();
    }
    store.close().unwrap();
}

#[test]
fn a_write_made_before_its_key_became_an_alias_and_asked_for_after_goes_where_reads_go() {
    for_each_caller(|caller, chats, _| {
        add_numbers(chats, "old:1", 0..1);
        let later = chats.add_message("old:1", "user", "1");
        let reading = chats.history("old:1");
        caller.ok(chats.ensure_session_metadata("new", None, owned(&["old:1"])));
        caller.ok(later);
        assert_eq!(said(&caller.ok(reading)), numbers(0..2));
        assert_eq!(said(&caller.ok(chats.history("new"))), numbers(0..2));
    });
}
