//! What is taken back is kept: nobody who clears the wrong chat, or reverts too far, has lost
//! it.

use sessionlog::{BackupLimits, BackupReason, Erase, Error, Message, RetentionPolicy};
use sessionlog_postgres::{PostgresOptions, PostgresStore};

use crate::support::cluster::Cluster;
use crate::support::proxy::Proxy;
use crate::support::{fresh, numbers, server, texts};

fn say(store: &PostgresStore, key: &str, texts: &[&str]) {
    let messages = texts.iter().map(|text| Message::user(*text));
    store.append_all(key, messages.collect()).wait().unwrap();
}

fn reasons(store: &PostgresStore, key: &str) -> Vec<(u64, BackupReason)> {
    let backups = store.list_backups(key).wait().unwrap().into_iter();
    backups
        .map(|backup| (backup.number, backup.reason))
        .collect()
}

/// A store of its own, and the schema that it has.
fn open(server: &Cluster) -> (PostgresStore, String) {
    let schema = fresh("backups");
    let options = PostgresOptions::new(server.dsn()).schema(&schema);
    (PostgresStore::open(options).unwrap(), schema)
}

#[test]
fn what_was_taken_back_comes_back_with_what_was_hidden_hidden() {
    let Some(server) = server() else { return };
    let (store, schema) = open(server);
    let chat = store.context("a");
    say(&store, "a", &["0", "1", "2"]);
    chat.write_system_prompt("Be brief.").wait().unwrap();
    let checkpoint = chat.checkpoint(false).wait().unwrap();
    say(&store, "a", &["3", "4"]);
    store.truncate_history("a", 4).wait().unwrap();
    store.set_summary("a", "of then").wait().unwrap();
    let stored = || {
        let sql = format!(
            "SELECT sum(octet_length(line) + 1), md5(string_agg(line, '' ORDER BY line_at))
             FROM {schema}.lines"
        );
        server.sql(&sql)
    };
    let before = stored();

    chat.revert_to(checkpoint).wait().unwrap();
    assert_eq!(texts(&store, "a"), ["1", "2"]);
    chat.clear().wait().unwrap();
    assert!(texts(&store, "a").is_empty());
    store.set_summary("a", "of now").wait().unwrap();
    let backups = store.list_backups("a").wait().unwrap();
    assert_eq!(
        reasons(&store, "a"),
        [(1, BackupReason::Revert), (2, BackupReason::Clear)]
    );
    assert!(before.starts_with(&format!("{}|", backups[0].size)));
    assert!(
        backups[0].created_at.starts_with("20"),
        "{}",
        backups[0].created_at
    );

    let told = store.snapshot("a").wait().unwrap().version();
    store.restore_backup("a", 1).wait().unwrap();
    assert_ne!(store.snapshot("a").wait().unwrap().version(), told);
    assert_eq!(stored(), before, "all bytes, hidden lines included");
    assert_eq!(texts(&store, "a"), ["1", "2", "3", "4"]);
    assert_eq!(store.count("a").wait().unwrap(), 4);
    assert_eq!(store.summary("a").wait().unwrap(), "of now");
    let prompt = chat.system_prompt().wait().unwrap();
    assert_eq!(prompt.as_deref(), Some("Be brief."));
    assert_eq!(store.checkpoints("a").wait().unwrap(), [checkpoint]);
    // It was empty: there was nothing to keep. What is restored stays a backup.
    assert_eq!(reasons(&store, "a").len(), 2);
    say(&store, "a", &["5"]);
    store.restore_backup("a", 2).wait().unwrap();
    assert_eq!(texts(&store, "a"), ["1", "2"]);
    assert_eq!(reasons(&store, "a")[2], (3, BackupReason::Restore));
    store.restore_backup("a", 3).wait().unwrap();
    assert_eq!(texts(&store, "a"), ["1", "2", "3", "4", "5"]);
    for (key, number) in [("a", 9), ("a", u64::MAX), ("nobody", 1)] {
        let refused = store.restore_backup(key, number).wait();
        assert!(
            matches!(refused, Err(Error::BackupNotFound { .. })),
            "{refused:?}"
        );
    }
}

#[test]
fn a_number_is_not_given_again_until_the_session_is_deleted() {
    let Some(server) = server() else { return };
    let (store, _) = open(server);
    let clear = || {
        say(&store, "a", &["0"]);
        store.context("a").clear().wait().unwrap();
    };
    (0..3).for_each(|_| clear());
    let none = BackupLimits::new();
    assert_eq!(store.prune_backups("a", none).wait().unwrap(), 0);
    assert_eq!(store.prune_backups("a", none.count(1)).wait().unwrap(), 2);
    assert_eq!(reasons(&store, "a"), [(3, BackupReason::Clear)]);
    assert_eq!(store.prune_backups("a", none.count(0)).wait().unwrap(), 1);
    clear();
    assert_eq!(reasons(&store, "a"), [(4, BackupReason::Clear)]);
    store.delete_session("a").wait().unwrap();
    assert!(reasons(&store, "a").is_empty());
    assert_eq!(store.prune_backups("a", none.count(0)).wait().unwrap(), 0);
    clear();
    assert_eq!(reasons(&store, "a"), [(1, BackupReason::Clear)]);
}

#[test]
fn what_is_over_the_limits_goes_with_the_change_that_makes_another() {
    let Some(server) = server() else { return };
    let schema = fresh("bounded");
    let options = PostgresOptions::new(server.dsn()).schema(&schema);
    let store = PostgresStore::open(options.backups(BackupLimits::new().count(3))).unwrap();
    let clear = |key: &str, text: &str| {
        say(&store, key, &[text]);
        store.context(key).clear().wait().unwrap();
    };
    for n in 1..=5 {
        clear("a", &n.to_string());
    }
    clear("b", "of b");
    let numbers = |key: &str| {
        let backups = store.list_backups(key).wait().unwrap().into_iter();
        backups.map(|backup| backup.number).collect::<Vec<_>>()
    };
    assert_eq!(numbers("a"), [3, 4, 5]);
    // The oldest is there until its lines are the session's.
    say(&store, "a", &["now"]);
    store.restore_backup("a", 3).wait().unwrap();
    assert_eq!(texts(&store, "a"), ["3"]);
    assert_eq!(numbers("a"), [4, 5, 6]);
    let checkpoint = store.context("a").checkpoint(false).wait().unwrap();
    say(&store, "a", &["more"]);
    store.context("a").revert_to(checkpoint).wait().unwrap();
    assert_eq!(numbers("a"), [5, 6, 7]);
    let lines = format!("SELECT count(DISTINCT number) FROM {schema}.backup_lines");
    assert_eq!(
        server.sql(&lines),
        "4",
        "with the first of the other session"
    );
    let one = BackupLimits::new().count(1);
    assert_eq!(store.prune_all_backups(one).wait().unwrap(), 2);
    assert_eq!((numbers("a"), numbers("b")), (vec![7], vec![1]));
    // Nobody who says nothing keeps all for ever, and who wants to can.
    let options = PostgresOptions::new(server.dsn()).schema(&schema);
    for (limits, kept) in [(None, 100), (Some(BackupLimits::new()), 103)] {
        let options = limits.map_or(options.clone(), |limits| options.clone().backups(limits));
        let store = PostgresStore::open(options).unwrap();
        store.delete_session("c").wait().unwrap();
        for n in 0..103 {
            say(&store, "c", &[&n.to_string()]);
            store.context("c").clear().wait().unwrap();
        }
        assert_eq!(store.list_backups("c").wait().unwrap().len(), kept);
    }
}

#[test]
fn an_erasure_and_a_retention_leave_no_row_of_a_backup() {
    let Some(server) = server() else { return };
    let (store, schema) = open(server);
    for key in ["erased", "expired", "stays"] {
        say(&store, key, &["0"]);
        store.context(key).clear().wait().unwrap();
        let messages = vec![Message::user("1")];
        store.append_once(key, "id", messages).wait().unwrap();
    }
    store.erase(Erase::key("erased")).wait().unwrap();
    say(&store, "stays", &["2"]);
    let gone = store.retention(RetentionPolicy::new().count(1)).apply();
    assert_eq!(gone.wait().unwrap().deleted.len(), 1);
    assert_eq!(store.list_sessions().wait().unwrap(), ["stays"]);
    for table in ["backups", "backup_lines", "message_ids", "sessions"] {
        let sql = format!("SELECT count(*) FROM {schema}.{table}");
        assert_eq!(server.sql(&sql), "1", "{table}");
    }
    let owned = format!(
        "SELECT count(*) FROM {schema}.backup_lines JOIN {schema}.sessions USING (session_id)"
    );
    assert_eq!(server.sql(&owned), "1");
}

#[test]
fn a_clear_whose_connection_is_cut_makes_one_backup_of_all_there_was() {
    let Some(server) = server() else { return };
    let proxy = Proxy::to(server.port);
    let options = PostgresOptions::new(proxy.dsn())
        .schema(fresh("cut"))
        .lanes(1);
    let store = PostgresStore::open(options).unwrap();
    let rounds = 60_i64;
    for round in 0..rounds {
        say(&store, "a", &[&round.to_string()]);
        match round % 2 {
            // The clear's statements are some 4,000 bytes, what comes back some hundred.
            0 => proxy.cut_to_server_after(round * 71 % 4_500),
            _ => proxy.cut_to_client_after(round * 13 % 700),
        }
        store.context("a").clear().wait().unwrap();
    }
    proxy.cut_to_client_after(-1);
    proxy.cut_to_server_after(-1);
    assert!(proxy.cuts() >= 30, "only {} cuts", proxy.cuts());
    let backups = store.list_backups("a").wait().unwrap();
    let kept = backups.iter().map(|backup| {
        store.restore_backup("a", backup.number).wait().unwrap();
        texts(&store, "a").join(" ")
    });
    let kept: Vec<_> = kept.collect();
    assert_eq!(kept, numbers(0..usize::try_from(rounds).unwrap()));
}
