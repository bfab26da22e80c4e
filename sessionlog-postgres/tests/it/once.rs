//! Messages that are taken once: which ids are remembered, and for how long.

use sessionlog::{Appended, Message};
use sessionlog_postgres::{PostgresOptions, PostgresStore};

use crate::support::{fresh, server, texts};

fn is_new(store: &PostgresStore, key: &str, id: usize) -> bool {
    let messages = vec![Message::user(id.to_string())];
    let told = store.append_once(key, &format!("id{id}"), messages);
    matches!(told.wait().unwrap(), Appended::New(_))
}

#[test]
fn the_newest_ids_are_remembered_and_few_more_at_any_time() {
    let Some(server) = server() else { return };
    let schema = fresh("once");
    let options = PostgresOptions::new(server.dsn())
        .schema(&schema)
        .once_ids(16);
    let store = PostgresStore::open(options).unwrap();
    let kept = |key: &str| -> usize {
        let sql = format!(
            "SELECT count(*) FROM {schema}.message_ids JOIN {schema}.sessions USING (session_id)
             WHERE key = '{key}'"
        );
        server.sql(&sql).parse().unwrap()
    };
    assert!(is_new(&store, "other", 0));
    let mut most = 0;
    for id in 0..75 {
        assert!(is_new(&store, "a", id), "{id}");
        if id % 8 == 7 {
            most = most.max(kept("a"));
        }
        for old in id.saturating_sub(15)..=id {
            assert!(!is_new(&store, "a", old), "{old} after {id}");
        }
    }
    assert!((16..=20).contains(&most), "{most} were there at a time");
    assert!((16..=20).contains(&kept("a")));
    assert!(is_new(&store, "a", 0), "it was forgotten long ago");
    assert!(!is_new(&store, "other", 0), "another session's is not");
}

#[test]
fn ids_that_are_taken_in_one_transaction_are_bounded_too() {
    let Some(server) = server() else { return };
    let schema = fresh("once");
    let options = PostgresOptions::new(server.dsn())
        .schema(&schema)
        .lanes(1)
        .once_ids(16);
    let store = PostgresStore::open(options).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    // All are queued before the lane answers the first: few transactions take many each.
    runtime.block_on(async {
        let taken = (0..200).map(|id| {
            let messages = vec![Message::user(id.to_string())];
            store.append_once("a", &format!("id{id}"), messages)
        });
        for told in futures_util::future::join_all(taken).await {
            assert!(matches!(told.unwrap(), Appended::New(_)));
        }
    });
    let sql = format!("SELECT count(*) FROM {schema}.message_ids");
    let kept: usize = server.sql(&sql).parse().unwrap();
    assert!((16..32).contains(&kept), "{kept}");
    // In the order in which they were taken, which need not be that of the calls.
    let taken = texts(&store, "a");
    assert_eq!(taken.len(), 200);
    for id in &taken[184..] {
        assert!(!is_new(&store, "a", id.parse().unwrap()), "{id}");
    }
}

#[test]
fn each_id_is_looked_for_in_its_own_session_only() {
    let Some(server) = server() else { return };
    let schema = fresh("once");
    let options = PostgresOptions::new(server.dsn()).schema(&schema).lanes(1);
    let sessions = 200;
    let take = |id: &str| {
        // A process that knows none of the sessions looks for all of them.
        let store = PostgresStore::open(options.clone()).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap();
        runtime.block_on(async {
            let taken = (0..sessions)
                .map(|n| store.append_once(&format!("s{n}"), id, vec![Message::user(id)]));
            for told in futures_util::future::join_all(taken).await {
                assert!(matches!(told.unwrap(), Appended::New(_)));
            }
        });
        store.close().wait().unwrap();
    };
    let ended = "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend'
         AND application_name = 'sessionlog' AND query LIKE '%";
    let looks = || -> u64 {
        // The server counts when a connection ends.
        while server.sql(&format!("{ended}{schema}%'")) != "0" {
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        let looks = server.sql(&format!(
            "SELECT idx_scan FROM pg_stat_all_indexes
             WHERE schemaname = '{schema}' AND indexrelname = 'message_ids_pkey'"
        ));
        looks.parse().unwrap()
    };
    take("first");
    let before = looks();
    take("second");
    let looked = looks() - before;
    assert!(looked <= 2 * sessions, "{looked} looks for {sessions} ids");
}
