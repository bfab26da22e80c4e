//! What an operator meets: mistakes are told at once, with what to do about them.

use std::process::Command;
use std::time::Duration;

use sessionlog::SessionQuery;
use sessionlog_postgres::{PostgresOptions, PostgresStore};

use crate::support::cluster::{Cluster, skip};
use crate::support::{fresh, numbers, options, scratch, server, texts};

/// Why a store cannot be opened. Something that was tried again would not end.
fn refused(options: PostgresOptions) -> String {
    let options = options.retry(Duration::from_hours(1));
    PostgresStore::open(options).unwrap_err().to_string()
}

fn assert_says(told: &str, parts: &[&str]) {
    for part in parts {
        assert!(told.contains(part), "{part:?} is not in {told:?}");
    }
}

#[test]
fn a_database_of_an_encoding_without_all_characters_is_refused_with_what_makes_another() {
    let Some(server) = server() else { return };
    for (name, encoding) in [("latin", "LATIN1"), ("ascii", "SQL_ASCII")] {
        server.sql(&format!(
            "CREATE DATABASE {name} ENCODING '{encoding}' LOCALE 'C' TEMPLATE template0"
        ));
    }
    let at =
        |name: &str| PostgresOptions::new(server.dsn().replace("=postgres", &format!("={name}")));
    let told = refused(at("latin"));
    assert_says(
        &told,
        &["LATIN1", "createdb --template=template0 --encoding=UTF8"],
    );
    let store = PostgresStore::open(at("ascii")).unwrap();
    store.add_message("a", "user", "é\u{1f600}").wait().unwrap();
    assert_eq!(texts(&store, "a"), ["é\u{1f600}"]);
}

#[test]
fn what_is_printed_of_a_store_has_no_password() {
    let dsn = "postgres://bot:hunter2@db1/chats";
    let options = PostgresOptions::new(dsn).listen_dsn(dsn);
    assert!(!format!("{options:?}").contains("hunter2"));
    let Some(server) = server() else { return };
    let options = PostgresOptions::new(format!("{} password=hunter2", server.dsn()));
    let store = PostgresStore::open(options.schema(fresh("printed"))).unwrap();
    let printed = format!("{store:?} {:?} {:?}", store.context("a"), store.promise());
    assert!(!printed.contains("hunter2"), "{printed}");
}

#[test]
fn mistakes_of_names_and_rights_are_told_at_once_with_what_to_do() {
    let Some(server) = server() else { return };
    let with = |from: &str, to: &str| PostgresOptions::new(server.dsn().replace(from, to));
    let told = refused(with("dbname=postgres", "dbname=nowhere"));
    assert_says(&told, &["nowhere", "createdb"]);
    let told = refused(with("user=bot", "user=nobody"));
    assert_says(&told, &["nobody", "CREATE ROLE"]);
    let told = refused(with("127.0.0.1", "no-such-host.invalid"));
    assert_says(&told, &["no-such-host.invalid", "check the host's name"]);
    let told = refused(with("user=bot", "user=bot sslmode=require"));
    assert_says(&told, &["127.0.0.1", "ssl = on"]);
    server.sql("CREATE DATABASE closed");
    server.sql("REVOKE CONNECT ON DATABASE closed FROM PUBLIC");
    server.sql("CREATE ROLE weak LOGIN");
    let told = refused(with("user=bot dbname=postgres", "user=weak dbname=closed"));
    assert_says(&told, &["closed", "GRANT CONNECT"]);

    let schema = fresh("rights");
    let weak = || with("user=bot", "user=weak").schema(&schema);
    let told = refused(weak());
    assert_says(&told, &["permission denied", "GRANT CREATE ON DATABASE"]);
    server.sql(&sessionlog_postgres::migrations_sql(&schema).unwrap());
    let told = refused(weak().migrate(false));
    assert_says(&told, &["permission denied", "GRANT USAGE"]);
    server.sql(&format!("GRANT USAGE ON SCHEMA {schema} TO weak"));
    server.sql(&format!(
        "GRANT SELECT ON ALL TABLES IN SCHEMA {schema} TO weak"
    ));
    let told = refused(weak().migrate(false));
    assert_says(
        &told,
        &["the role weak may not use table", "GRANT SELECT, INSERT"],
    );
    server.sql(&format!(
        "GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {schema} TO weak"
    ));
    let store = PostgresStore::open(weak().migrate(false)).unwrap();
    store.add_message("a", "user", "0").wait().unwrap();
    assert_eq!(texts(&store, "a"), ["0"]);
}

#[test]
fn a_table_that_is_missing_is_found_when_the_store_is_opened() {
    let Some(server) = server() else { return };
    let schema = fresh("missing");
    let options = PostgresOptions::new(server.dsn()).schema(&schema);
    PostgresStore::open(options.clone())
        .unwrap()
        .close()
        .wait()
        .unwrap();
    server.sql(&format!("DROP TABLE {schema}.message_ids"));
    for migrate in [true, false] {
        let told = refused(options.clone().migrate(migrate));
        assert_says(&told, &["message_ids", "restore it"]);
    }
}

#[test]
fn processes_that_migrate_at_once_under_serializable_all_succeed() {
    let Some(server) = server() else { return };
    let dsn = format!(
        "{} options='-c default_transaction_isolation=serializable'",
        server.dsn()
    );
    for _ in 0..3 {
        let options = PostgresOptions::new(&dsn).schema(fresh("serial"));
        let stores: Vec<_> = std::thread::scope(|scope| {
            let opening: Vec<_> = (0..4)
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
        assert_eq!(texts(&stores[0], "a"), numbers(0..4));
    }
}

#[test]
fn a_role_that_may_have_few_connections_waits_for_one() {
    let Some(server) = server() else { return };
    for limit in [1, 3] {
        let role = fresh("few");
        server.sql(&format!(
            "CREATE ROLE {role} LOGIN CONNECTION LIMIT {limit}"
        ));
        server.sql(&format!("GRANT CREATE ON DATABASE postgres TO {role}"));
        let dsn = server.dsn().replace("user=bot", &format!("user={role}"));
        let store = PostgresStore::open(PostgresOptions::new(dsn).schema(fresh("few"))).unwrap();
        std::thread::scope(|scope| {
            for n in 0..8 {
                let store = &store;
                scope.spawn(move || {
                    let key = format!("s{n}");
                    for said in 0..5 {
                        store
                            .add_message(&key, "user", &said.to_string())
                            .wait()
                            .unwrap();
                        assert_eq!(texts(store, &key), numbers(0..said + 1));
                    }
                });
            }
        });
    }
}

#[test]
fn a_nul_in_a_filter_finds_nothing() {
    let Some(server) = server() else { return };
    let store = PostgresStore::open(options(server)).unwrap();
    store.add_message("a", "user", "0").wait().unwrap();
    let all = SessionQuery::new;
    for query in [
        all().prefix("a\0"),
        all().agent("\0"),
        all().channel("tele\0gram"),
        all().person("a\0b"),
        all().chat("\0"),
        all().label("\0"),
    ] {
        let page = store.sessions(query).wait().unwrap();
        assert!(page.sessions.is_empty() && page.next.is_none());
    }
    assert_eq!(store.sessions(all()).wait().unwrap().sessions.len(), 1);
    let search = sessionlog::SearchQuery::new().text("0\0");
    assert!(store.search(search).wait_next().is_none());
    assert!(store.search_words("\0", 5).wait().unwrap().is_empty());
}

/// A certificate for a name, signed by itself: `(certificate, key)` as PEM.
fn certificate(name: &str) -> Option<(Vec<u8>, Vec<u8>)> {
    let dir = scratch();
    let (cert, key) = (dir.path().join("cert"), dir.path().join("key"));
    let made = Command::new("openssl")
        .args([
            "req",
            "-x509",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:P-256",
        ])
        .args(["-nodes", "-days", "2", "-subj", &format!("/CN={name}")])
        .args(["-addext", &format!("subjectAltName=DNS:{name}")])
        .args(["-addext", "basicConstraints=critical,CA:FALSE"])
        .arg("-out")
        .arg(&cert)
        .arg("-keyout")
        .arg(&key)
        .output()
        .ok()?;
    assert!(made.status.success(), "{made:?}");
    Some((std::fs::read(cert).unwrap(), std::fs::read(key).unwrap()))
}

#[test]
fn tls_is_checked_as_asked_and_its_errors_name_the_host_and_what_to_do() {
    let Some(mut server) = Cluster::start(&["fsync=off"]) else {
        return;
    };
    let Some((cert, key)) = certificate("localhost") else {
        skip("there is no openssl");
        return;
    };
    server.put("server.crt", &cert);
    server.put("server.key", &key);
    server.sql("ALTER SYSTEM SET ssl = on");
    server.stop_at_once();
    server.launch();
    let dir = scratch();
    let (root, other) = (dir.path().join("root's.pem"), dir.path().join("other.pem"));
    std::fs::write(&root, &cert).unwrap();
    std::fs::write(&other, certificate("other").unwrap().0).unwrap();
    let quoted = |path: &std::path::Path| path.display().to_string().replace('\'', "\\'");
    let dsn = |host: &str, mode: &str, root: &std::path::Path| {
        let base = server.dsn().replace("127.0.0.1", host);
        PostgresOptions::new(format!(
            "{base} sslmode={mode} sslrootcert='{}'",
            quoted(root)
        ))
    };
    for mode in ["require", "verify-ca", "verify-full"] {
        let store = PostgresStore::open(dsn("localhost", mode, &root)).unwrap();
        store.add_message(mode, "user", "0").wait().unwrap();
        let told = refused(dsn("localhost", mode, &other));
        assert_says(&told, &["TLS with localhost", "sslrootcert"]);
        let told = refused(dsn("127.0.0.1", mode, &root));
        assert_says(
            &told,
            &["TLS with 127.0.0.1", "a name that the certificate has"],
        );
    }
    let told = refused(dsn(
        "localhost",
        "verify-full",
        &dir.path().join("none.pem"),
    ));
    assert_says(&told, &["sslrootcert", "none.pem"]);
    let url = format!(
        "postgres://bot@localhost:{}/postgres?sslmode=verify-full&sslrootcert={}",
        server.port,
        root.display().to_string().replace('\'', "%27")
    );
    let store = PostgresStore::open(PostgresOptions::new(url)).unwrap();
    assert_eq!(texts(&store, "verify-full"), ["0"]);
}
