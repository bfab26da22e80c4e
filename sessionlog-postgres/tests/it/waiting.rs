//! Who waits for another process's transaction finds the session as that left it.

use std::time::Duration;

use sessionlog::{BackupLimits, BackupReason, Error, Fork, Store};
use sessionlog_postgres::copy::{CopyReport, Place, copy};
use sessionlog_postgres::{PostgresOptions, PostgresStore};

use crate::support::cluster::Cluster;
use crate::support::{fresh, scratch, server, texts};

/// Does `act` while another process's transaction, which changes the session's row, ends only
/// after `act` waits for it.
fn while_held<T>(server: &'static Cluster, schema: &str, act: impl FnOnce() -> T) -> T {
    let held = format!(
        "BEGIN; UPDATE {schema}.sessions SET version = version + 1 WHERE key = 'a';
         SELECT pg_advisory_lock(1, 1); SELECT pg_sleep(0.7); COMMIT;
         SELECT pg_advisory_unlock(1, 1)"
    );
    let other = std::thread::spawn(move || server.sql(&held));
    let is_held = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND classid = 1 \
         AND objid = 1 AND granted";
    while server.sql(is_held).trim() != "1" {
        std::thread::sleep(Duration::from_millis(5));
    }
    let acted = act();
    other.join().unwrap();
    acted
}

fn said(store: &PostgresStore, texts: &[&str]) {
    for text in texts {
        store.add_message("a", "user", text).wait().unwrap();
    }
}

#[test]
fn a_session_that_was_waited_for_is_there() {
    let Some(server) = server() else { return };
    for prepare in [true, false] {
        let schema = fresh("waiting");
        let options = PostgresOptions::new(server.dsn()).schema(&schema);
        let store = PostgresStore::open(options.lanes(1).prepare(prepare)).unwrap();
        let chat = store.context("a");
        let held = |act: &dyn Fn() -> sessionlog::Result<()>| {
            while_held(server, &schema, act).unwrap_or_else(|e| panic!("prepare {prepare}: {e}"));
        };
        said(&store, &["0"]);
        held(&|| chat.clear().wait());
        assert!(texts(&store, "a").is_empty());
        assert_eq!(store.list_backups("a").wait().unwrap().len(), 1);
        said(&store, &["1", "2"]);
        let checkpoint = chat.checkpoint(false).wait().unwrap();
        said(&store, &["3"]);
        held(&|| store.fork_session("a", "b", Fork::End).wait().map(drop));
        assert_eq!(texts(&store, "b"), ["1", "2", "3"]);
        held(&|| chat.revert_to(checkpoint).wait().map(drop));
        assert_eq!(texts(&store, "a"), ["1", "2"]);
        held(&|| store.truncate_history("a", 1).wait());
        assert_eq!(texts(&store, "a"), ["2"]);
        held(&|| {
            let limits = BackupLimits::new().count(0);
            let pruned = store.prune_backups("a", limits).wait();
            pruned.map(|pruned| assert_eq!(pruned, 2, "prepare {prepare}"))
        });
        held(&|| store.delete_session("a").wait());
        assert!(!store.exists("a").wait().unwrap(), "prepare {prepare}");
    }
}

#[test]
fn what_another_process_appends_while_a_copy_waits_is_kept() {
    let Some(server) = server() else { return };
    let schema = fresh("waiting");
    let options = PostgresOptions::new(server.dsn()).schema(&schema);
    let open = || PostgresStore::open(options.clone()).unwrap();
    let (store, other) = (open(), open());
    let dir = scratch();
    let source = Store::open(dir.path()).unwrap();
    let chats = source.handle();
    let run = |work: std::pin::Pin<Box<dyn Future<Output = sessionlog::Result<CopyReport>>>>| {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        runtime.block_on(work)
    };
    let copied = || {
        let (from, to) = (
            Place::Directory(chats.clone()),
            Place::Database(store.clone()),
        );
        run(Box::pin(async move { copy(&from, &to).await }))
    };
    chats.add_message("a", "user", "0").wait().unwrap();
    copied().unwrap();
    chats.add_message("a", "user", "1").wait().unwrap();
    chats.set_summary("a", "of then").wait().unwrap();
    // The copy looks at the session, and waits for its row behind the append.
    let (appended, told) = while_held(server, &schema, || {
        let appending = std::thread::spawn(move || other.add_message("a", "user", "theirs").wait());
        let waits = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'";
        while server.sql(waits).trim() == "0" && !appending.is_finished() {
            std::thread::sleep(Duration::from_millis(5));
        }
        let told = copied();
        (appending.join().unwrap(), told)
    });
    appended.unwrap();
    let kept = store.list_backups("a").wait().unwrap();
    let is_there = texts(&store, "a").contains(&String::from("theirs"));
    assert!(is_there || kept.len() == 1, "{told:?}");
    if let Some(backup) = kept.first() {
        assert_eq!(backup.reason, BackupReason::Import);
        store.restore_backup("a", backup.number).wait().unwrap();
        assert_eq!(texts(&store, "a"), ["0", "theirs"]);
    }
    source.close().unwrap();
}

#[test]
fn an_error_in_a_transaction_is_told_as_what_it_is() {
    let Some(server) = server() else { return };
    let schema = fresh("waiting");
    let options = PostgresOptions::new(server.dsn()).schema(&schema);
    let store = PostgresStore::open(options.statement_timeout(Duration::from_millis(300))).unwrap();
    said(&store, &["0", "1", "2"]);
    let held =
        format!("BEGIN; LOCK TABLE {schema}.lines IN ACCESS EXCLUSIVE MODE; SELECT pg_sleep(1.5)");
    let other = std::thread::spawn(move || server.sql(&held));
    let locked = format!(
        "SELECT count(*) FROM pg_locks WHERE mode = 'AccessExclusiveLock' AND granted \
         AND relation = '{schema}.lines'::regclass"
    );
    while server.sql(&locked).trim() == "0" && !other.is_finished() {
        std::thread::sleep(Duration::from_millis(5));
    }
    let told = store.truncate_history("a", 2).wait();
    other.join().unwrap();
    assert!(
        matches!(&told, Ok(()) | Err(Error::Unavailable { .. })),
        "{told:?}"
    );
    store.truncate_history("a", 1).wait().unwrap();
}

#[test]
fn a_statement_that_is_prepared_for_another_table_is_prepared_anew() {
    let Some(server) = server() else { return };
    let schema = fresh("waiting");
    let options = PostgresOptions::new(server.dsn()).schema(&schema);
    let store = PostgresStore::open(options).unwrap();
    said(&store, &["0"]);
    server.sql(&format!(
        "ALTER TABLE {schema}.sessions ALTER COLUMN updated_at TYPE varchar"
    ));
    said(&store, &["1"]);
    assert_eq!(texts(&store, "a"), ["0", "1"]);
}

#[test]
fn ids_without_number_are_forgotten_a_part_at_a_time() {
    let Some(server) = server() else { return };
    let schema = fresh("waiting");
    let options = PostgresOptions::new(server.dsn()).schema(&schema);
    let store = PostgresStore::open(options.once_ids(16)).unwrap();
    said(&store, &["0"]);
    server.sql(&format!(
        "INSERT INTO {schema}.message_ids (session_id, message_id, turn)
         SELECT session_id, convert_to('old' || n, 'UTF8'), -n
         FROM {schema}.sessions, generate_series(1, 200000) n"
    ));
    let left = || {
        let many = server.sql(&format!("SELECT count(*) FROM {schema}.message_ids"));
        many.trim().parse::<u64>().unwrap()
    };
    let take = |n: u32| {
        let said = vec![sessionlog::Message::user("again")];
        store.append_once("a", &format!("n{n}"), said).wait()
    };
    for n in 0..24 {
        take(n).unwrap();
    }
    let first = left();
    assert!((150_000..200_000).contains(&first), "{first}");
    for n in 24..160 {
        take(n).unwrap();
    }
    assert!(left() <= 20, "{}", left());
}

#[test]
fn a_database_that_is_not_there_is_told_at_once() {
    let Some(server) = server() else { return };
    let dsn = server.dsn().replace("dbname=postgres", "dbname=nobodys");
    let options = PostgresOptions::new(dsn);
    let told = PostgresStore::open(options).unwrap_err();
    assert!(matches!(told, Error::Io { .. }), "{told:?}");
    assert!(
        told.to_string().contains("connect to") && told.to_string().contains("nobodys"),
        "{told}"
    );
}
