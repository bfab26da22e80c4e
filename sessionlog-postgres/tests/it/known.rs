//! Sessions that a process changed last are appended to in one round trip. What others did to
//! them meanwhile counts all the same, and so does what comes late.

use std::time::Duration;

use sessionlog::{Appended, Error, Message};
use sessionlog_postgres::{PostgresOptions, PostgresStore};

use crate::support::cluster::Cluster;
use crate::support::proxy::Proxy;
use crate::support::{fresh, numbers, server, texts};

/// A store that the proxy stands before, and one that it does not.
struct Two<'s> {
    server: &'s Cluster,
    schema: String,
    proxy: Proxy,
    store: PostgresStore,
    other: PostgresStore,
}

impl<'s> Two<'s> {
    fn open(set: impl FnOnce(PostgresOptions) -> PostgresOptions) -> Option<Self> {
        Some(Self::of(server()?, set))
    }

    fn of(server: &'s Cluster, set: impl FnOnce(PostgresOptions) -> PostgresOptions) -> Self {
        let proxy = Proxy::to(server.port);
        let schema = fresh("known");
        let options = |dsn: String| PostgresOptions::new(dsn).schema(&schema).lanes(1);
        let store = PostgresStore::open(set(options(proxy.dsn()))).unwrap();
        let other = PostgresStore::open(options(server.dsn())).unwrap();
        Self {
            server,
            schema: schema.clone(),
            proxy,
            store,
            other,
        }
    }

    fn append(&self, key: &str, text: &str) {
        self.store.add_message(key, "user", text).wait().unwrap();
    }

    /// Appends numbers to a session until the store believes what it knows of it.
    fn know(&self, key: &str) -> Vec<String> {
        let all = numbers(0..8);
        for text in &all {
            self.append(key, text);
        }
        assert_eq!(
            self.trips(|| self.append(key, "known")),
            1,
            "it is not known"
        );
        [all, vec!["known".to_owned()]].concat()
    }

    /// How many round trips that took.
    fn trips(&self, act: impl FnOnce()) -> u64 {
        let (_, before) = self.proxy.passed();
        act();
        self.proxy.passed().1 - before
    }
}

#[test]
fn a_session_that_this_process_changed_last_takes_one_round_trip() {
    let Some(two) = Two::open(|options| options) else {
        return;
    };
    two.know("a");
    let known = two.trips(|| (0..100).for_each(|n| two.append("a", &n.to_string())));
    // Long messages may go in parts, and the server answer before the last one.
    assert!((100..120).contains(&known), "{known} round trips");
    let once = |n: i32| {
        let taken = two
            .store
            .append_once("a", &n.to_string(), Message::user("once"));
        taken.wait().unwrap()
    };
    let known = two.trips(|| assert!((0..50).all(|n| matches!(once(n), Appended::New(_)))));
    assert!((50..60).contains(&known), "{known} round trips");
    let version = two.other.snapshot("a").wait().unwrap().version();
    assert_eq!(once(7), Appended::Duplicate(version));
    // What two processes change by turns is looked at first, but for a few tries.
    let shared = two.trips(|| {
        for n in 0..100 {
            two.append("a", &n.to_string());
            two.other.add_message("a", "user", "other").wait().unwrap();
        }
    });
    assert!((200..240).contains(&shared), "{shared} round trips");
    assert_eq!(
        two.store.history("a").wait().unwrap().len(),
        9 + 100 + 50 + 200
    );
}

#[test]
fn what_another_process_did_to_a_session_is_not_written_over() {
    let Some(two) = Two::open(|options| options) else {
        return;
    };
    let (store, other) = (&two.store, &two.other);

    let mut all = two.know("appended");
    other
        .add_message("appended", "user", "other")
        .wait()
        .unwrap();
    two.append("appended", "own");
    all.extend(["other".to_owned(), "own".to_owned()]);
    assert_eq!(texts(store, "appended"), all);

    // Two states never have one version.
    two.know("changed");
    other.set_summary("changed", "said").wait().unwrap();
    let before = other.snapshot("changed").wait().unwrap().version();
    two.append("changed", "own");
    assert_ne!(store.snapshot("changed").wait().unwrap().version(), before);

    // A compaction changes neither version nor time.
    two.know("compacted");
    other.truncate_history("compacted", 6).wait().unwrap();
    two.know("compacted");
    other.compact("compacted").wait().unwrap();
    two.append("compacted", "own");
    let meta = store.session_meta("compacted").wait().unwrap();
    assert_eq!((meta.count, meta.skip), (16, 0));

    two.know("deleted");
    other.delete_session("deleted").wait().unwrap();
    two.append("deleted", "new");
    assert_eq!(texts(store, "deleted"), ["new"]);

    two.know("cleared");
    other.context("cleared").clear().wait().unwrap();
    two.append("cleared", "new");
    assert_eq!(texts(store, "cleared"), ["new"]);
}

#[test]
fn a_key_that_became_anothers_alias_leads_there() {
    let Some(two) = Two::open(|options| options) else {
        return;
    };
    two.know("chat:a");
    two.other.add_message("b", "user", "b").wait().unwrap();
    let claimed = two
        .other
        .upsert_session_meta("b", None, vec!["chat:a".into()]);
    claimed.wait().unwrap();
    two.append("chat:a", "to b");
    assert_eq!(texts(&two.other, "b"), ["b", "to b"]);
}

#[test]
fn a_session_that_got_another_key_is_not_taken_for_a_new_one_of_its_own() {
    let Some(two) = Two::open(|options| options) else {
        return;
    };
    let mut all = two.know("a");
    two.other.rename_session("a", "b").wait().unwrap();
    two.append("a", "late");
    all.push("late".to_owned());
    assert_eq!(texts(&two.other, "b"), all);
    two.know("moved");
    two.other.rename_session("moved", "away").wait().unwrap();
    // Whose version did not change.
    let made = two.other.upsert_session_meta("moved", None, Vec::new());
    made.wait().unwrap();
    two.append("moved", "of its own");
    assert_eq!(texts(&two.other.exact_keys(), "moved"), ["of its own"]);
    assert_eq!(texts(&two.other, "away").len(), 9);
}

#[test]
fn a_follower_that_came_meanwhile_is_told() {
    let Some(two) = Two::open(|options| options) else {
        return;
    };
    let all = two.know("a");
    let mut watch = two.other.subscribe("a").wait().unwrap();
    two.append("a", "heard");
    let heard = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .unwrap()
        .block_on(async { tokio::time::timeout(Duration::from_secs(20), watch.changed()).await });
    let lines = heard.expect("it is told").unwrap().lines;
    assert_eq!(lines, all.len() as u64 + 1);
}

#[test]
fn an_append_that_comes_after_it_was_given_up_is_refused() {
    let Some(two) = Two::open(|options| options) else {
        return;
    };
    let mut all = two.know("a");
    // The first connection asks what became of it, and the next one tries again.
    two.proxy.hold(2);
    two.append("a", "once");
    all.push("once".to_owned());
    assert_eq!(texts(&two.other, "a"), all);
    all.extend(two.know("a"));
    assert_eq!(texts(&two.other, "a"), all);
}

#[test]
fn an_append_that_comes_after_its_caller_was_told_of_no_effect_has_none() {
    let Some(two) = Two::open(|options| options.retry(Duration::from_millis(50))) else {
        return;
    };
    let all = two.know("a");
    two.proxy.hold(-1);
    let told = two.store.add_message("a", "user", "never").wait();
    assert!(matches!(told, Err(Error::Unavailable { .. })), "{told:?}");
    two.proxy.deliver();
    assert_eq!(texts(&two.other, "a"), all);
}

#[test]
fn an_append_whose_transaction_did_not_begin_is_refused_as_a_whole() {
    let Some(two) = Two::open(|options| options) else {
        return;
    };
    let mut all = two.know("a");
    two.proxy.spoil();
    // What comes after the beginning would be carried out by itself.
    let told = two.store.add_message("a", "user", "never").wait();
    assert!(matches!(told, Err(Error::Io { .. })), "{told:?}");
    two.append("a", "whole");
    all.push("whole".to_owned());
    assert_eq!(texts(&two.other, "a"), all);
}

#[test]
fn an_append_whose_lane_nobody_would_find_is_done_once() {
    let Some(two) = Two::open(|options| options) else {
        return;
    };
    let mut all = two.know("a");
    two.server.sql(&format!("DELETE FROM {}.lanes", two.schema));
    two.append("a", "own");
    all.push("own".to_owned());
    assert_eq!(texts(&two.store, "a"), all);
}

#[test]
fn an_append_that_the_server_refuses_is_told_why_by_its_first_error() {
    let set = |options: PostgresOptions| options.statement_timeout(Duration::from_millis(300));
    let Some(two) = Two::open(set) else { return };
    two.know("a");
    let (asked, schema) = (Duration::from_secs(1), &two.schema);
    let sql = format!("BEGIN; SELECT 1 FROM {schema}.lanes FOR UPDATE; SELECT pg_sleep(1); COMMIT");
    std::thread::scope(|scope| {
        let held = scope.spawn(|| two.server.sql(&sql));
        let locks = "SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%pg_sleep(1)%'
             AND wait_event = 'PgSleep'";
        let began = std::time::Instant::now();
        while two.server.sql(locks).trim() == "0" && began.elapsed() < asked {}
        let told = two.store.add_message("a", "user", "late").wait();
        assert!(matches!(told, Err(Error::Unavailable { .. })), "{told:?}");
        held.join().unwrap();
    });
}

#[test]
fn an_append_to_a_server_that_takes_no_writes_for_a_while_waits_for_it() {
    let Some(server) = Cluster::start(&[]) else {
        return;
    };
    let two = Two::of(&server, |options| options);
    let mut all = two.know("a");
    let set = |value: &str| {
        server.sql(&format!(
            "ALTER SYSTEM SET default_transaction_read_only = {value}"
        ));
        server.sql("SELECT pg_reload_conf()");
        // Whoever connects finds it set at once, and the lane's connection a moment later.
        let is = || server.sql("SHOW default_transaction_read_only");
        while is().trim() != value {}
    };
    set("on");
    std::thread::scope(|scope| {
        // Until one was refused first: the lane's connection learns of it when it does.
        let refused = scope.spawn(|| {
            let mut times = 1..10_000;
            times.find(|_| two.trips(|| two.append("a", "waited")) > 2)
        });
        std::thread::sleep(Duration::from_millis(300));
        set("off");
        let times = refused.join().unwrap().expect("one was refused first");
        all.extend(vec!["waited".to_owned(); times]);
    });
    assert_eq!(texts(&two.other, "a"), all);
}
