//! The tables: how they come to be, who may use them, and what the server promises.

use sessionlog::{Durability, Error};
use sessionlog_postgres::{PostgresOptions, PostgresStore, SCHEMA_VERSION, migrations_sql};

use crate::support::cluster::Cluster;
use crate::support::load::{Load, assert_kept};
use crate::support::pooler::Pooler;
use crate::support::{fresh, numbers, options, server, texts};

#[test]
fn processes_that_open_at_once_make_the_tables_once() {
    let Some(server) = server() else { return };
    let options = PostgresOptions::new(server.dsn()).schema(fresh("once"));
    let stores: Vec<_> = std::thread::scope(|scope| {
        let opening: Vec<_> = (0..6)
            .map(|_| scope.spawn(|| PostgresStore::open(options.clone()).unwrap()))
            .collect();
        opening.into_iter().map(|one| one.join().unwrap()).collect()
    });
    for (n, store) in stores.iter().enumerate() {
        store
            .add_message("a", "user", &n.to_string())
            .wait()
            .unwrap();
    }
    assert_eq!(texts(&stores[0], "a"), numbers(0..6));
}

#[test]
fn tables_that_are_missing_or_too_new_are_refused_and_made_by_hand() {
    let Some(server) = server() else { return };
    let schema = fresh("byhand");
    let options = PostgresOptions::new(server.dsn())
        .schema(&schema)
        .migrate(false);
    let missing = PostgresStore::open(options.clone()).unwrap_err();
    assert!(missing.to_string().contains("migrations"), "{missing}");
    server.sql(&migrations_sql(&schema).unwrap());
    let store = PostgresStore::open(options.clone()).unwrap();
    store.add_message("a", "user", "0").wait().unwrap();
    store
        .sessions(sessionlog::SessionQuery::new())
        .wait()
        .unwrap();
    assert_eq!(texts(&store, "a"), ["0"]);
    let newer = SCHEMA_VERSION + 1;
    server.sql(&format!(
        "INSERT INTO {schema}.schema_migrations VALUES ({newer}, 'newer')"
    ));
    for options in [options.clone(), options.migrate(true)] {
        let refused = PostgresStore::open(options).unwrap_err();
        assert!(refused.to_string().contains("use a newer one"), "{refused}");
    }
    let refused = PostgresStore::open(PostgresOptions::new(server.dsn()).schema("a; DROP"));
    assert!(matches!(refused, Err(Error::Io { .. })), "{refused:?}");
}

#[test]
fn tables_of_the_first_version_are_brought_up_to_date_with_what_is_in_them() {
    let Some(server) = server() else { return };
    let schema = fresh("older");
    let all = migrations_sql(&schema).unwrap();
    let noted = "VALUES (1, 'sessions, lines, aliases, message ids, lanes, followers');";
    let first = all.find(noted).unwrap() + noted.len();
    server.sql(&all[..first]);
    server.sql(&format!(
        "INSERT INTO {schema}.sessions VALUES (7, 'a', 'a.meta.json', 1, 1, 0, 30, 1, 0, 1, 'of then',
             NULL, '', '', '[]', '', '', 0, 0),
             (8, 'agent:main:telegram:direct:7', 'b.meta.json', 1, 1, 0, 30, 0, 0, 0, '',
             NULL, '', '', '[]', '', '', 0, 0);
         INSERT INTO {schema}.lines VALUES (7, 0, 0, '{{\"role\":\"user\",\"content\":\"0\"}}', '0');
         INSERT INTO {schema}.message_ids SELECT 7, convert_to('old' || n, 'UTF8')
             FROM generate_series(1, 40) n;
         CREATE INDEX lines_by_words ON {schema}.lines
             USING gin (to_tsvector('simple', said)) WHERE said IS NOT NULL;"
    ));
    let options = PostgresOptions::new(server.dsn())
        .schema(&schema)
        .once_ids(16);
    let stale = PostgresStore::open(options.clone().migrate(false)).unwrap_err();
    assert!(stale.to_string().contains("of version 1"), "{stale}");

    let store = PostgresStore::open(options).unwrap();
    assert_eq!(texts(&store, "a"), ["0"]);
    assert_eq!(store.summary("a").wait().unwrap(), "of then");
    let index = format!(
        "SELECT string_agg(indexname, ' ') FROM pg_indexes
         WHERE schemaname = '{schema}' AND indexname SIMILAR TO '(lines_by_|words_)%'"
    );
    assert_eq!(server.sql(&index), "words_of_lines");
    assert_eq!(store.search_words("0", 9).wait().unwrap().len(), 1);
    let seven = sessionlog::SessionQuery::new().person("7");
    let page = store.sessions(seven).wait().unwrap();
    assert_eq!(page.sessions.len(), 1);
    let unknown = format!("SELECT count(*) FROM {schema}.sessions WHERE whom IS NULL");
    assert_eq!(server.sql(&unknown), "0");
    let once = |id: &str| {
        let said = vec![sessionlog::Message::user(id)];
        store.append_once("a", id, said).wait().unwrap()
    };
    assert!(matches!(once("old1"), sessionlog::Appended::Duplicate(_)));
    for n in 0..15 {
        once(&n.to_string());
    }
    assert!(matches!(once("old1"), sessionlog::Appended::Duplicate(_)));
    // Those of unknown age are older than all that have a turn, and go a part at a time.
    for n in 15..60 {
        once(&n.to_string());
    }
    let left = format!("SELECT count(*) FROM {schema}.message_ids WHERE turn <= 0");
    assert_eq!(server.sql(&left), "0");
    assert!(matches!(once("old1"), sessionlog::Appended::New(_)));
    assert!(matches!(once("59"), sessionlog::Appended::Duplicate(_)));
    store.context("a").clear().wait().unwrap();
    assert_eq!(store.list_backups("a").wait().unwrap()[0].number, 1);
}

#[test]
fn tables_are_split_with_what_is_in_them_and_once_only() {
    let Some(server) = server() else { return };
    for is_new in [true, false] {
        let schema = fresh("parts");
        let options = PostgresOptions::new(server.dsn())
            .schema(&schema)
            .text_search(true);
        let split = options.clone().partitions(4);
        let store = PostgresStore::open(if is_new { split.clone() } else { options }).unwrap();
        let keys: Vec<_> = (0..20).map(|n| format!("k{n}")).collect();
        for key in &keys {
            store
                .add_message(key, "user", &format!("of {key}"))
                .wait()
                .unwrap();
            store.context(key).clear().wait().unwrap();
            store.context(key).checkpoint(false).wait().unwrap();
            store
                .add_message(key, "user", &format!("more {key}"))
                .wait()
                .unwrap();
        }
        let parts = || {
            server.sql(&format!(
                "SELECT string_agg(c.relname || ' ' || (SELECT count(*) FROM pg_inherits i
                     WHERE i.inhparent = c.oid), ', ' ORDER BY c.relname)
                 FROM pg_class c WHERE relnamespace = '{schema}'::regnamespace AND relkind = 'p'"
            ))
        };
        assert_eq!(parts().is_empty(), !is_new);
        let other = PostgresStore::open(split.clone()).unwrap();
        assert_eq!(parts(), "backup_lines 4, lines 4");
        // The one that was open while the tables were split goes on, and so does what is opened
        // without a word of it.
        let plain = PostgresOptions::new(server.dsn()).schema(&schema);
        for store in [store, other, PostgresStore::open(plain).unwrap()] {
            for key in &keys {
                let before = texts(&store, key).len();
                store.add_message(key, "user", "and more").wait().unwrap();
                assert_eq!(texts(&store, key).len(), before + 1);
                assert_eq!(store.tail(key, 1).wait().unwrap()[0].text(), "and more");
                assert_eq!(store.checkpoints(key).wait().unwrap().len(), 1);
            }
            let found = store.search_words("more k7", 9).wait().unwrap();
            assert_eq!(found.len(), 1);
        }
        let store = PostgresStore::open(split).unwrap();
        for key in &keys {
            store.restore_backup(key, 1).wait().unwrap();
            assert_eq!(texts(&store, key), [format!("of {key}")]);
        }
        store.delete_session("k3").wait().unwrap();
        let left = server.sql(&format!(
            "SELECT count(*) FROM {schema}.lines WHERE session_id NOT IN
                 (SELECT session_id FROM {schema}.sessions)"
        ));
        assert_eq!(left, "0");
    }
}

#[test]
fn tables_that_are_split_keep_their_owners_and_who_may_use_them() {
    let Some(server) = server() else { return };
    let schema = fresh("parts");
    let (owner, app, dump) = (fresh("owner"), fresh("app"), fresh("dump"));
    let options = PostgresOptions::new(server.dsn()).schema(&schema);
    PostgresStore::open(options.clone()).unwrap();
    server.sql(&format!(
        "CREATE ROLE {owner}; CREATE ROLE {app} LOGIN; CREATE ROLE {dump};
         GRANT USAGE ON SCHEMA {schema} TO {app};
         GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {schema} TO {app};
         GRANT SELECT ON {schema}.lines TO {dump} WITH GRANT OPTION;
         GRANT UPDATE (said) ON {schema}.lines TO {dump};
         GRANT SELECT ON {schema}.backup_lines TO PUBLIC;
         ALTER TABLE {schema}.lines OWNER TO {owner}"
    ));
    let dsn = server.dsn().replace("user=bot", &format!("user={app}"));
    let app = || {
        let options = PostgresOptions::new(&dsn).schema(&schema);
        PostgresStore::open(options.migrate(false)).unwrap()
    };
    let before = app();
    before.add_message("a", "user", "0").wait().unwrap();
    let rights = |tables: &str| {
        server.sql(&format!(
            "SELECT c.relowner::regrole, a.grantee::regrole, a.privilege_type, a.is_grantable,
                 NULL AS named FROM pg_class c, aclexplode(relacl) a WHERE c.oid IN ({tables})
             UNION SELECT c.relowner::regrole, a.grantee::regrole, a.privilege_type,
                 a.is_grantable, attname FROM pg_class c JOIN pg_attribute ON attrelid = c.oid,
                 aclexplode(attacl) a WHERE c.oid IN ({tables})
             ORDER BY 1, 2, 3, 4, 5"
        ))
    };
    let names = ["lines", "backup_lines"].map(|name| format!("'{schema}.{name}'::regclass"));
    let was = names.clone().map(|name| rights(&name));
    assert!(was[0].contains(&owner) && was[0].contains("|t|"), "{was:?}");
    PostgresStore::open(options.partitions(2)).unwrap();
    assert_eq!(names.clone().map(|name| rights(&name)), was);
    for (name, was) in names.iter().zip(was) {
        let parts = format!("SELECT inhrelid FROM pg_inherits WHERE inhparent = {name}");
        assert_eq!(rights(&parts), was, "of the parts of {name}");
    }
    // Who was there goes on, and who comes later may, too.
    for store in [before, app()] {
        store.add_message("a", "user", "1").wait().unwrap();
        store.add_message("b", "user", "1").wait().unwrap();
        store.context("b").clear().wait().unwrap();
    }
    assert_eq!(texts(&app(), "a"), ["0", "1", "1"]);
}

#[test]
fn settings_of_the_tables_are_those_that_updates_in_place_need() {
    let Some(server) = server() else { return };
    let schema = fresh("settings");
    PostgresStore::open(PostgresOptions::new(server.dsn()).schema(&schema)).unwrap();
    let of = |table: &str| {
        server.sql(&format!(
            "SELECT array_to_string(reloptions, ' ') FROM pg_class
             WHERE oid = '{schema}.{table}'::regclass"
        ))
    };
    assert_eq!(
        of("sessions"),
        "fillfactor=60 autovacuum_vacuum_scale_factor=0.05"
    );
    assert_eq!(of("message_ids"), "autovacuum_vacuum_scale_factor=0.05");
    assert_eq!(
        of("lanes"),
        "fillfactor=30 autovacuum_vacuum_scale_factor=0 autovacuum_vacuum_threshold=1000"
    );
}

#[test]
fn what_the_server_promises_is_told_at_open() {
    let Some(server) = Cluster::start(&["fsync=off", "synchronous_commit=off"]) else {
        return;
    };
    let store = PostgresStore::open(options(&server)).unwrap();
    let promise = store.promise();
    assert!(promise.is_postgresql());
    assert_eq!(
        (&*promise.fsync, &*promise.synchronous_commit),
        ("off", "off")
    );
    assert_eq!(promise.weaknesses().len(), 2);
    assert!(!promise.is_replicated());
}

#[test]
fn buffered_appends_do_not_wait_for_the_disk_and_truncations_do() {
    let Some(server) = Cluster::start(&["log_statement=all"]) else {
        return;
    };
    let store = PostgresStore::open(options(&server).schema("levels")).unwrap();
    let quick = store.with_durability(Durability::Buffered);
    let level = |statement: &str| {
        let log = server.log();
        let begin = log.rfind(statement).unwrap();
        log[..begin]
            .rfind("BEGIN ISOLATION LEVEL READ COMMITTED")
            .map(|at| log[at..begin].contains("synchronous_commit = off"))
    };
    quick.add_message("a", "user", "0").wait().unwrap();
    assert_eq!(level("COMMIT"), Some(true));
    store.add_message("a", "user", "1").wait().unwrap();
    assert_eq!(level("COMMIT"), Some(false));
    quick.truncate_history("a", 1).wait().unwrap();
    assert_eq!(level("COMMIT"), Some(false));
}

#[test]
fn a_pooler_in_transaction_mode_is_no_hindrance() {
    let Some(server) = server() else { return };
    let Some(pooler) = Pooler::before(server) else {
        return;
    };
    let options = PostgresOptions::new(pooler.dsn())
        .listen_dsn(server.dsn())
        .schema(fresh("pooled"))
        .lanes(8);
    let stores = [
        PostgresStore::open(options.clone()).unwrap(),
        PostgresStore::open(options).unwrap(),
    ];
    let mut changes = stores[0]
        .follow(sessionlog::ChangeFilter::new())
        .wait()
        .unwrap();
    stores[1].add_message("told", "user", "0").wait().unwrap();
    assert_eq!(changes.wait_next().unwrap().key, "told");
    let load = Load::default();
    let told: Vec<_> = std::thread::scope(|scope| {
        let callers: Vec<_> = (0..12)
            .map(|n| {
                load.caller(
                    scope,
                    &stores[n % 2],
                    (format!("s{}", n % 5), format!("c{n}")),
                )
            })
            .collect();
        load.wait_for(300);
        for _ in 0..20 {
            stores[0].set_summary("s1", "x").wait().unwrap();
            stores[1]
                .window("s1", sessionlog::Budget::unlimited())
                .wait()
                .unwrap();
            stores[0]
                .sessions(sessionlog::SessionQuery::new())
                .wait()
                .unwrap();
            stores[1].truncate_history("other", 1).wait().unwrap();
            stores[0].context("other").checkpoint(true).wait().unwrap();
        }
        load.stop();
        callers
            .into_iter()
            .map(|caller| caller.join().unwrap())
            .collect()
    });
    assert_kept(&stores[0], &told);
}

#[test]
fn statements_have_names_only_where_nobody_is_between() {
    let Some(server) = Cluster::start(&["fsync=off", "log_statement=all"]) else {
        return;
    };
    let Some(pooler) = Pooler::before(&server) else {
        return;
    };
    // How often a statement with a name was carried out since the last look.
    let mut seen = 0;
    let mut named = |dsn: String, prepare: bool| {
        let options = PostgresOptions::new(dsn)
            .listen_dsn(server.dsn())
            .prepare(prepare);
        let store = PostgresStore::open(options).unwrap();
        store.add_message("a", "user", "0").wait().unwrap();
        store.tail("a", 50).wait().unwrap();
        store
            .sessions(sessionlog::SessionQuery::new())
            .wait()
            .unwrap();
        store.close().wait().unwrap();
        let log = server.log();
        let named = log[seen..].matches("execute s").count();
        seen = log.len();
        named
    };
    assert_eq!(named(pooler.dsn(), true), 0);
    assert!(named(server.dsn(), true) > 5);
    assert_eq!(named(server.dsn(), false), 0);
    assert_eq!(named(pooler.dsn(), true), 0);
}
