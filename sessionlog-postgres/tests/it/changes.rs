//! Following what other processes change.

use sessionlog::{ChangeFilter, ChangeKind, Error, Message};
use sessionlog_postgres::{PostgresOptions, PostgresStore};

use crate::support::{fresh, options, server};

#[test]
fn changes_of_other_processes_are_told_in_their_order_with_their_versions() {
    let Some(server) = server() else { return };
    let options = options(server);
    let (here, there) = (
        PostgresStore::open(options.clone()).unwrap(),
        PostgresStore::open(options).unwrap(),
    );
    there
        .add_message("telegram:1", "user", "before")
        .wait()
        .unwrap();
    let mut changes = here
        .follow(ChangeFilter::new().prefix("telegram:"))
        .wait()
        .unwrap();
    there.add_message("slack:1", "user", "x").wait().unwrap();
    there.add_message("telegram:1", "user", "0").wait().unwrap();
    there.set_summary("telegram:1", "s").wait().unwrap();
    there.truncate_history("telegram:1", 1).wait().unwrap();
    there
        .set_history("telegram:1", vec![Message::user("n")])
        .wait()
        .unwrap();
    let version = here.snapshot("telegram:1").wait().unwrap().version();
    there.delete_session("telegram:1").wait().unwrap();
    for expected in [
        ChangeKind::Appended,
        ChangeKind::Updated,
        ChangeKind::Truncated,
        ChangeKind::Replaced,
        ChangeKind::Deleted,
    ] {
        let change = changes.wait_next().unwrap();
        assert_eq!((&*change.key, change.kind), ("telegram:1", expected));
        assert_eq!(change.version == version, expected == ChangeKind::Replaced);
    }
    here.close().wait().unwrap();
    assert!(matches!(changes.wait_next(), Err(Error::Closed)));
}

#[test]
fn who_follows_while_others_write_misses_nothing_from_then_on() {
    let Some(server) = server() else { return };
    let options = options(server);
    let writer = PostgresStore::open(options.clone()).unwrap();
    for round in 0..5 {
        let key = format!("k{round}");
        std::thread::scope(|scope| {
            let writing = scope.spawn(|| {
                for n in 0..60 {
                    writer
                        .add_message(&key, "user", &n.to_string())
                        .wait()
                        .unwrap();
                }
            });
            let reader = PostgresStore::open(options.clone()).unwrap();
            let mut changes = reader
                .follow(ChangeFilter::new().prefix(&key))
                .wait()
                .unwrap();
            let seen = reader.count(&key).wait().unwrap();
            writing.join().unwrap();
            let last = reader.snapshot(&key).wait().unwrap().version();
            // Every version after the one that was seen, up to the last.
            let mut told = Vec::new();
            while told.last() != Some(&last) {
                if seen == 60 && told.is_empty() {
                    break;
                }
                told.push(changes.wait_next().unwrap().version);
            }
            assert!(told.len() >= 60 - seen, "{} told, {seen} seen", told.len());
            let numbers = told.iter().map(|version| version.number());
            assert!(
                numbers
                    .clone()
                    .zip(numbers.skip(1))
                    .all(|(a, b)| a + 1 == b)
            );
        });
    }
}

#[test]
fn a_watch_shows_the_latest_state_and_a_lost_connection_is_made_good() {
    let Some(server) = server() else { return };
    // A name of its own: no other test's connections are to end.
    let dsn = format!("{} application_name=watched", server.dsn());
    let options = PostgresOptions::new(dsn).schema(fresh("watched"));
    let (here, there) = (
        PostgresStore::open(options.clone()).unwrap(),
        PostgresStore::open(options).unwrap(),
    );
    let mut watch = here.subscribe("a").wait().unwrap();
    let mut changes = here.changes(ChangeFilter::new());
    there
        .append_all("a", vec![Message::user("0"), Message::user("1")])
        .wait()
        .unwrap();
    assert_eq!(watch.wait_changed().unwrap().lines, 2);
    assert_eq!(changes.wait_next().unwrap().key, "a");
    server.sql(
        "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
         WHERE application_name = 'watched'
             AND (query LIKE '%followers SET until%' OR query LIKE 'LISTEN%')",
    );
    there.truncate_history("a", 1).wait().unwrap();
    while watch.latest().skip != 1 {
        watch.wait_changed().unwrap();
    }
    loop {
        match changes.wait_next() {
            Err(Error::ChangesMissed { .. }) => break,
            // It came before the connection ended.
            Ok(change) => assert_eq!(change.key, "a"),
            Err(error) => panic!("{error:?}"),
        }
    }
    there.add_message("b", "user", "x").wait().unwrap();
    while changes.wait_next().unwrap().key != "b" {}
}
