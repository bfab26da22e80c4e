//! Moving to a database: into a server that the tests start themselves. Where there is no
//! Postgres they say `SKIPPED`; `SESSIONLOG_POSTGRES=required` makes that a failure.

// Those of the crate that keeps sessions in PostgreSQL.
#[path = "../../../sessionlog-postgres/tests/it/support/cluster.rs"]
#[allow(
    dead_code,
    clippy::doc_markdown,
    reason = "its owner needs more of it, and has another list of names"
)]
mod cluster;
#[path = "../../../sessionlog-postgres/tests/it/support/ports.rs"]
mod ports;

use sessionlog::{Appended, BackupReason, Message, Store, StoreHandle};
use sessionlog_postgres::{PostgresOptions, PostgresStore};

use self::cluster::Cluster;
use crate::support::{Fixture, json, run, run_with};

fn take(chats: &StoreHandle, id: &str) {
    let taken = chats
        .append_once("a", id, Message::user(id))
        .wait()
        .unwrap();
    assert!(matches!(taken, Appended::New(_)), "{taken:?}");
}

/// A session with a backup, that took messages once.
fn filled() -> Fixture {
    let fixture = Fixture::empty();
    fixture.write(|chats| {
        take(chats, "update 1");
        chats.context("a").clear().wait().unwrap();
        take(chats, "update 2");
    });
    fixture
}

fn database(server: &Cluster, schema: &str) -> PostgresStore {
    PostgresStore::open(PostgresOptions::new(server.dsn()).schema(schema)).unwrap()
}

/// Returns true if a message counts as delivered before.
fn is_known(database: &PostgresStore, id: &str) -> bool {
    let again = vec![Message::user("again")];
    let taken = database.append_once("a", id, again).wait().unwrap();
    matches!(taken, Appended::Duplicate(_))
}

#[test]
fn a_directory_that_nobody_writes_to_is_copied_with_ids_and_backups() {
    let Some(server) = Cluster::start(&["fsync=off"]) else {
        return;
    };
    let fixture = filled();
    let told = run("copy", &fixture.dir(), &[&server.dsn()]).exits(0);
    assert!(!told.contains("not copied"), "{told}");
    let copied = database(&server, "sessionlog");
    assert!(is_known(&copied, "update 1") && is_known(&copied, "update 2"));
    let backups = copied.list_backups("a").wait().unwrap();
    let reasons: Vec<_> = backups.iter().map(|one| one.reason).collect();
    assert_eq!(reasons, [BackupReason::Clear]);
    assert_eq!(copied.count("a").wait().unwrap(), 1);
}

#[test]
fn beside_a_gateway_what_stays_behind_is_told_with_the_command_that_carries_it() {
    let Some(server) = Cluster::start(&["fsync=off"]) else {
        return;
    };
    let fixture = filled();
    let gateway = Store::open(fixture.dir()).unwrap();
    let dsn = server.dsn();
    let copy = |args: &[&str]| {
        let args = [&[&*dsn, "--schema", "beside"], args].concat();
        run("copy", &fixture.dir(), &args).exits(0)
    };
    let told = copy(&[]);
    let next = format!("run: sessionlog copy {}", fixture.dir().display());
    assert!(
        told.contains(&next) && told.contains("--schema beside"),
        "{told}"
    );
    assert!(told.contains("locked by another writer"), "{told}");
    // The gateway goes on, and what it takes then is copied, too.
    take(&gateway.handle(), "update 3");
    let told = json(&copy(&["--json"])).remove(0);
    assert_eq!(
        (&told["message_ids"], &told["backups"]),
        (&0.into(), &0.into())
    );
    assert!(
        told["next"]
            .as_str()
            .unwrap()
            .starts_with("sessionlog copy")
    );
    gateway.close().unwrap();
    let told = json(&copy(&["--json", "--live"])).remove(0);
    assert_eq!(told["message_ids"], 0);
    let told = json(&copy(&["--json"])).remove(0);
    assert_eq!(told["next"], serde_json::Value::Null);
    let copied = database(&server, "beside");
    for id in ["update 1", "update 2", "update 3"] {
        assert!(is_known(&copied, id), "{id}");
    }
    assert_eq!(copied.list_backups("a").wait().unwrap().len(), 1);
}

#[test]
fn a_copy_that_keeps_up_carries_ids_and_backups_after_the_switch() {
    let Some(server) = Cluster::start(&["fsync=off"]) else {
        return;
    };
    let fixture = filled();
    let dsn = server.dsn();
    let args = [&*dsn, "--follow", "--json"];
    let told = run_with("copy", &fixture.dir(), &args, "\n").exits(0);
    let told = json(&told).remove(0);
    assert_eq!(
        (&told["message_ids"], &told["backups"]),
        (&2.into(), &1.into())
    );
    assert!(told["gap_seconds"].is_number(), "{told}");
    let copied = database(&server, "sessionlog");
    assert!(is_known(&copied, "update 1") && is_known(&copied, "update 2"));
    assert_eq!(copied.list_backups("a").wait().unwrap().len(), 1);
}

#[test]
fn a_directory_of_picoclaws_is_copied_as_it_is_and_left_so() {
    let Some(server) = Cluster::start(&["fsync=off"]) else {
        return;
    };
    let fixture = Fixture::empty();
    std::fs::create_dir(fixture.dir()).unwrap();
    let line = "{\"role\":\"user\",\"content\":\"hi\"}\n";
    std::fs::write(fixture.dir().join("a.jsonl"), line).unwrap();
    let sidecar = r#"{"key":"a","count":1}"#;
    std::fs::write(fixture.dir().join("a.meta.json"), sidecar).unwrap();
    let before = fixture.files();
    run("copy", &fixture.dir(), &[&server.dsn()]).exits(0);
    assert_eq!(fixture.files(), before);
    assert_eq!(
        database(&server, "sessionlog").count("a").wait().unwrap(),
        1
    );
}

#[test]
fn an_address_that_is_no_database_makes_no_directory_of_its_name() {
    let fixture = Fixture::new();
    let told = run("copy", &fixture.dir(), &["mysql://db/chats"]).fails();
    assert!(told.contains("postgres://"), "{told}");
    assert!(!std::path::Path::new("mysql:").exists());
}
