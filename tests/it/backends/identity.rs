//! Whose session a key is, and what it takes over: one rule in every store.

use std::sync::Arc;

use proptest::prelude::*;
use sessionlog::backend::{EphemeralStore, JsonlBackend, LegacyJsonStore, SessionStore};
use sessionlog::scope::{SessionScope, build_main_session_key, build_session_key};
use sessionlog::testing::disk_model::MemoryStorage;
use sessionlog::{Error, Message, Result};

use super::{add, for_each_store, owned, scope, texts};
use crate::support::{open_memory, scratch};

/// A key of an agent that its name does not betray.
fn sales() -> String {
    build_main_session_key("sales")
}

fn bob() -> SessionScope {
    scope(&[("chat", "direct:1"), ("sender", "bob")])
}

/// Has the key of [`bob`].
fn forged() -> SessionScope {
    scope(&[("chat", "direct:1|sender=bob")])
}

fn of_sales() -> SessionScope {
    SessionScope {
        agent_id: "Sales".into(),
        ..scope(&[("sender", "bob")])
    }
}

fn is_conflict<T>(result: &Result<T>) -> bool {
    matches!(result, Err(Error::ScopeConflict { .. }))
}

/// A scope that was lost or erased must not open a door.
#[test]
fn a_session_of_unknown_origin_goes_to_no_scope_that_could_be_a_forgery() {
    for_each_store(|store, _| {
        let key = build_session_key(&bob());
        let ensure = |scope: Option<&SessionScope>| {
            store.ensure_session_metadata(&key, scope, owned(&["irc:bob"]))
        };
        add(store, &key, &["private"]);
        assert!(is_conflict(&ensure(Some(&forged())).wait()));
        assert_eq!(store.session_scope(&key).wait().unwrap(), None);
        ensure(Some(&bob())).wait().unwrap();
        ensure(None).wait().unwrap();
        assert!(is_conflict(&ensure(Some(&forged())).wait()));
        ensure(Some(&bob())).wait().unwrap();
        assert_eq!(texts(store, "irc:bob"), ["private"]);
    });
}

#[test]
fn a_scope_that_leads_elsewhere_does_not_vouch_for_a_forged_one() {
    for_each_store(|store, _| {
        let key = build_session_key(&bob());
        let ensure =
            |scope: &SessionScope| store.ensure_session_metadata(&key, Some(scope), Vec::new());
        ensure(&of_sales()).wait().unwrap();
        assert!(is_conflict(&ensure(&forged()).wait()));
        ensure(&bob()).wait().unwrap();
    });
}

/// What happened to a store before.
type Prepare<'a> = &'a dyn Fn(&dyn SessionStore);

/// A hash does not say whose main session it stands for: the scope given, the one
/// the session has, a key beside it, and the main session's own aliases or scope do.
#[test]
fn no_agents_main_history_is_taken_over_whoever_names_the_agent() {
    let other = scope(&[("sender", "bob")]);
    let cases: [(&str, Option<SessionScope>, &[&str], Prepare<'_>); 5] = [
        ("the scope given", Some(of_sales()), &[], &|_| {}),
        ("the scope it has", None, &[], &|store| {
            let ensured = store.ensure_session_metadata("new", Some(&of_sales()), Vec::new());
            ensured.wait().unwrap();
        }),
        ("a key", None, &["agent:Sales:irc:direct:7"], &|_| {}),
        ("its aliases", None, &[], &|store| {
            let aliases = owned(&["agent:sales:irc:direct:7"]);
            let ensured = store.ensure_session_metadata(&sales(), None, aliases);
            ensured.wait().unwrap();
        }),
        ("its scope", Some(other), &[], &|store| {
            let ensured = store.ensure_session_metadata(&sales(), Some(&of_sales()), Vec::new());
            ensured.wait().unwrap();
        }),
    ];
    for (who, scope, aliases, prepare) in cases {
        for_each_store(|store, _| {
            add(store, &sales(), &["to the agent"]);
            prepare(store);
            let aliases = [owned(aliases), vec![sales()]].concat();
            let ensured = store.ensure_session_metadata("new", scope.as_ref(), aliases);
            assert!(
                !ensured.wait().unwrap(),
                "{who} names it: {:?}",
                store.kind()
            );
            assert!(texts(store, "new").is_empty());
        });
    }
}

#[test]
fn what_was_cleared_does_not_come_back_through_an_alias_the_session_claims() {
    for_each_store(|store, _| {
        let ensure = |aliases: &[&str]| {
            let ensured = store.ensure_session_metadata("new", None, owned(aliases));
            ensured.wait().unwrap()
        };
        add(store, "old:1", &["0"]);
        assert!(ensure(&["old:1"]));
        store.truncate_history("new", 0).wait().unwrap();
        assert!(!ensure(&["old:1"]));
        assert!(texts(store, "new").is_empty());
        assert!(!ensure(&[]), "it forgets the alias");
        assert!(ensure(&["old:1"]));
        assert_eq!(texts(store, "new"), ["0"]);
    });
}

#[test]
fn white_space_is_part_of_a_key_that_has_it() {
    for_each_store(|store, _| {
        add(store, " a ", &["padded"]);
        add(store, "a", &["bare"]);
        let ensure = |key| {
            store
                .ensure_session_metadata(key, None, owned(&["b:1"]))
                .wait()
        };
        ensure(" a ").unwrap();
        assert_eq!(texts(store, " a "), ["padded"]);
        assert_eq!(texts(store, "a"), ["bare"]);
        assert_eq!(texts(store, "b:1"), ["padded"]);
    });
}

#[derive(Clone, Debug)]
enum Act {
    Ensure(Option<usize>, Vec<usize>),
    Add,
    SetHistory(usize),
    Truncate(usize),
    Summary(bool),
    Delete,
}

fn keys() -> Vec<String> {
    let mut keys = owned(&["a", "b", " a ", "old:1", "agent:sales:irc:direct:7"]);
    keys.extend([build_session_key(&bob()), sales()]);
    keys
}

fn acts() -> impl Strategy<Value = Vec<(usize, Act)>> {
    let act = prop_oneof![
        4 => (prop::option::of(0..4_usize), prop::collection::vec(0..7_usize, 0..4))
            .prop_map(|(scope, aliases)| Act::Ensure(scope, aliases)),
        3 => Just(Act::Add),
        1 => (0..3_usize).prop_map(Act::SetHistory),
        1 => (0..2_usize).prop_map(Act::Truncate),
        1 => any::<bool>().prop_map(Act::Summary),
        1 => Just(Act::Delete),
    ];
    prop::collection::vec((0..7_usize, act), 0..24)
}

/// What came of an act.
fn act(store: &dyn SessionStore, nth: usize, key: &str, act: &Act) -> String {
    let told = nth.to_string();
    let done = match act {
        Act::Ensure(scope, aliases) => {
            let scopes = [bob(), forged(), of_sales(), scope_of_nobody()];
            let scope = scope.map(|scope| &scopes[scope]);
            let aliases = aliases.iter().map(|&alias| keys()[alias].clone()).collect();
            let ensured = store.ensure_session_metadata(key, scope, aliases).wait();
            return format!("{ensured:?}");
        }
        Act::Add => store.add_message(key, "user", &told).wait(),
        Act::SetHistory(len) => {
            let messages = vec![Message::user(told); *len];
            store.set_history(key, messages).wait()
        }
        Act::Truncate(keep) => store.truncate_history(key, *keep).wait(),
        Act::Summary(any) => store.set_summary(key, if *any { &told } else { "" }).wait(),
        Act::Delete => store.delete_session(key).wait(),
    };
    format!("{done:?}")
}

fn scope_of_nobody() -> SessionScope {
    scope(&[("sender", "eve")])
}

/// Everything a store shows of the keys.
fn shown(store: &dyn SessionStore) -> Vec<String> {
    let mut listed = store.list_sessions().wait().unwrap();
    listed.sort();
    let mut shown = vec![format!("{listed:?}")];
    for key in keys() {
        let texts = texts(store, &key);
        let summary = store.summary(&key).wait().unwrap();
        let scope = store.session_scope(&key).wait().unwrap();
        let means = store.resolve_session_key(&key).wait().unwrap();
        shown.push(format!(
            "{key:?}: {texts:?} {summary:?} {scope:?} {means:?}"
        ));
    }
    shown
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(96) })]

    #[test]
    fn every_store_answers_and_shows_the_same(acts in acts()) {
        let dir = scratch();
        let engine = open_memory(&MemoryStorage::new()).unwrap();
        let stores: [Arc<dyn SessionStore>; 3] = [
            Arc::new(JsonlBackend::new(engine)),
            Arc::new(EphemeralStore::new()),
            Arc::new(LegacyJsonStore::open(dir.path()).unwrap()),
        ];
        for (nth, (key, each)) in acts.iter().enumerate() {
            let key = &keys()[*key];
            let seen = |store: &Arc<dyn SessionStore>| (act(&**store, nth, key, each), shown(&**store));
            let [engine, others @ ..] = stores.each_ref().map(seen);
            for other in others {
                prop_assert_eq!(&other, &engine, "{} {:?} on {:?}", nth, each, key);
            }
        }
    }
}
