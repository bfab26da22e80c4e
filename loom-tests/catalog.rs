//! The catalog: shards that change it at the same time, and callers who look.

use std::sync::Arc;

use crate::explore::Model;
use crate::stage::{joined, spawned};
use sessionlog::testing::rig::{Names, Rope};
use sessionlog::testing::sync::atomic::{AtomicU64, Ordering};

pub(crate) const MODELS: &[Model] = &[
    Model {
        name: "catalog_aliases",
        bound: 4,
        at_least: 20,
        runs: &[
            an_alias_is_found_whatever_others_take_away,
            an_alias_of_two_sessions_is_found_by_both,
        ],
    },
    Model {
        name: "catalog_names",
        bound: 4,
        at_least: 20,
        runs: &[a_file_name_has_one_owner],
    },
    Model {
        name: "catalog_found",
        bound: 4,
        at_least: 20,
        runs: &[
            what_was_found_at_open_is_found_while_it_is_first_used,
            what_was_found_at_open_stays_deleted,
        ],
    },
    Model {
        name: "worker_bells",
        bound: 3,
        at_least: 20,
        runs: &[a_ring_is_answered_with_what_came_before_it],
    },
];

fn text(name: &str) -> [String; 1] {
    [String::from(name)]
}

/// One shard enters an alias while another takes its own away.
fn an_alias_is_found_whatever_others_take_away() {
    let names = Arc::new(Names::default());
    let (mine, other) = (names.claim("mine"), names.claim("other"));
    names.set_aliases(&other, &[], &text("b"));
    let worker = {
        let names = names.clone();
        spawned(move || names.set_aliases(&other, &text("b"), &text("c")))
    };
    names.set_aliases(&mine, &[], &text("a"));
    assert_eq!(names.resolve_other("a").as_deref(), Some("mine"));
    joined([worker]);
    assert_eq!(names.resolve("b"), None);
    assert_eq!(names.resolve("c").as_deref(), Some("other"));
}

/// Two shards enter one alias, and each finds it.
fn an_alias_of_two_sessions_is_found_by_both() {
    let names = Arc::new(Names::default());
    let (one, other) = (names.claim("one"), names.claim("other"));
    let worker = {
        let names = names.clone();
        spawned(move || {
            names.set_aliases(&other, &[], &text("a"));
            assert!(names.resolve_other("a").is_some(), "entered and not found");
            names.set_aliases(&other, &text("a"), &[]);
        })
    };
    names.set_aliases(&one, &[], &text("a"));
    assert!(names.resolve_other("a").is_some(), "entered and not found");
    joined([worker]);
    assert_eq!(names.resolve_other("a").as_deref(), Some("one"));
}

/// Two shards enter sessions that would have the same file.
fn a_file_name_has_one_owner() {
    let names = Arc::new(Names::default());
    let worker = {
        let names = names.clone();
        spawned(move || {
            let entered = names.claim("a:b");
            assert_eq!(entered.stem(), names.claim("a:b").stem(), "has two files");
        })
    };
    let mine = names.claim("a_b").stem().to_owned();
    joined([worker]);
    assert_ne!(mine, names.claim("a:b").stem(), "two write into one file");
}

/// A shard uses a session for the first time, while a caller looks for it in every way.
fn what_was_found_at_open_is_found_while_it_is_first_used() {
    let names = Arc::new(Names::found("a:1", "b"));
    let shard = {
        let names = names.clone();
        spawned(move || {
            let used = names.claim("a:1");
            names.set_aliases(&used, &text("b"), &["b", "c"].map(String::from));
        })
    };
    assert_eq!(
        names.resolve("a:1").as_deref(),
        Some("a:1"),
        "known and not found"
    );
    assert_eq!(names.resolve_other("b").as_deref(), Some("a:1"));
    assert_eq!(names.list(), ["a:1"], "not listed once");
    joined([shard]);
    assert_eq!(names.resolve("c").as_deref(), Some("a:1"));
}

/// A shard deletes a session, which a caller looks at for the first time.
fn what_was_found_at_open_stays_deleted() {
    let names = Arc::new(Names::found("a:1", "b"));
    let caller = {
        let names = names.clone();
        spawned(move || drop(names.claim("a:1")))
    };
    let deleted = names.claim("a:1");
    names.remove(&deleted, &text("b"));
    joined([caller]);
    assert_eq!(names.resolve("a:1"), None, "deleted and back");
    assert_eq!(names.resolve("b"), None, "its alias stays");
    assert_eq!(names.list(), [""; 0], "deleted and listed");
}

/// Two shards ring, one of them twice, and the leader sleeps until it is told: it answers every
/// ring, and sees what was done before it.
fn a_ring_is_answered_with_what_came_before_it() {
    let rope = Arc::new(Rope::default());
    let queued = Arc::new([AtomicU64::new(0), AtomicU64::new(0)]);
    let ringing = [(0, 2), (1, 1)].map(|(shard, times)| {
        let (rope, queued) = (rope.clone(), queued.clone());
        spawned(move || {
            for _ in 0..times {
                queued[shard].fetch_add(1, Ordering::Relaxed);
                if rope.ring(shard) {
                    rope.rouse();
                }
            }
        })
    });
    let mut seen = [0, 0];
    while seen != [2, 1] {
        for shard in rope.wait() {
            seen[shard] = queued[shard].load(Ordering::Relaxed);
            assert!(seen[shard] > 0, "answered before it came");
        }
    }
    joined(ringing);
}
