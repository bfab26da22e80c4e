//! Connections that are cut, servers that die, pools that are full: what was acknowledged is
//! there once, and what was not is told as it is.

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use sessionlog::{Error, Message};
use sessionlog_postgres::{PostgresOptions, PostgresStore};

use crate::support::cluster::Cluster;
use crate::support::crew::Crew;
use crate::support::load::{Load, assert_kept};
use crate::support::proxy::Proxy;
use crate::support::{fresh, numbers, options, server, texts};

#[test]
fn a_connection_cut_at_any_byte_loses_and_doubles_nothing() {
    let Some(server) = server() else { return };
    let proxy = Proxy::to(server.port);
    let schema = fresh("cut");
    let options = PostgresOptions::new(proxy.dsn()).schema(&schema).lanes(1);
    let store = PostgresStore::open(options).unwrap();
    let mut said = 0;
    let mut say = |times| {
        let replies: Vec<_> = (0..times)
            .map(|_| {
                said += 1;
                store.add_message("a", "user", &(said - 1).to_string())
            })
            .collect();
        for reply in replies {
            reply.wait().unwrap();
        }
        said
    };
    // What begins a transaction is some 1,900 bytes, what ends it from 700 on; what comes back
    // is less. Every distance is met more than once.
    for round in 0..160_i64 {
        match round % 4 {
            0 => proxy.cut_to_client_after(round * 7 % 1_000),
            1 => proxy.cut_to_server_after(round * 41 % 4_500),
            // The end of a transaction, with what commits it.
            2 => proxy.cut_to_server_after(2_000 + round * 13 % 2_000),
            _ => proxy.cut_to_client_after(200 + round * 3 % 400),
        }
        let said = say(3);
        if round % 16 == 0 {
            proxy.heal();
            assert_eq!(texts(&store, "a").len(), said, "until round {round}");
        }
    }
    assert!(proxy.cuts() >= 100, "only {} cuts", proxy.cuts());
    // The same of transactions that are one round trip: the session is as the lane left it.
    let before = proxy.cuts();
    for round in 0..120_i64 {
        proxy.heal();
        for _ in 0..3 {
            say(1);
        }
        let sent = proxy.passed().0;
        say(1);
        let sent = i64::try_from(proxy.passed().0 - sent).unwrap();
        match round % 3 {
            0 => proxy.cut_to_client_after(round * 7 % 300),
            1 => proxy.cut_to_server_after(round * 41 % sent),
            // What commits it.
            _ => proxy.cut_to_server_after(sent - 1 - round % 80),
        }
        say(1);
    }
    proxy.heal();
    let (said, cuts) = (say(1), proxy.cuts() - before);
    assert!(cuts >= 80, "only {cuts} cuts");
    assert_eq!(texts(&store, "a"), numbers(0..said));
    let kept = server.sql(&format!(
        "SELECT lines, messages, end_at FROM {schema}.sessions"
    ));
    let lines = server.sql(&format!(
        "SELECT count(*), count(*), sum(octet_length(line) + 1) FROM {schema}.lines"
    ));
    assert_eq!(kept, lines, "the row counts what is there");
}

#[test]
fn batches_of_four_processes_whose_connections_are_cut_are_settled_whole() {
    let Some(server) = server() else { return };
    let proxy = Proxy::to(server.port);
    let schema = fresh("cut");
    let options = PostgresOptions::new(server.dsn()).schema(&schema);
    let store = PostgresStore::open(options).unwrap();
    let crew = Crew::start(&proxy.dsn(), &schema);
    crew.wait_for(5);
    for round in 0..60_i64 {
        crew.wait_for(2);
        match round % 2 {
            0 => proxy.cut_to_client_after(round * 17 % 700),
            _ => proxy.cut_to_server_after(round * 67 % 5_000),
        }
    }
    crew.wait_for(5);
    let told = crew.stop();
    assert!(proxy.cuts() >= 40, "only {} cuts", proxy.cuts());
    assert!(
        told.iter()
            .flat_map(|one| &one.said)
            .all(|(_, there)| *there == Some(true))
    );
    assert_kept(&store, &told);
}

#[test]
fn what_a_server_acknowledged_survives_its_crashes_once() {
    let Some(mut server) = Cluster::start(&[]) else {
        return;
    };
    let store = PostgresStore::open(options(&server)).unwrap();
    let other = PostgresStore::open(options(&server).schema("other")).unwrap();
    let load = Load::default();
    let told: Vec<_> = std::thread::scope(|scope| {
        let callers: Vec<_> = (0..8)
            .map(|n| {
                let store = if n % 4 == 0 { &other } else { &store };
                load.caller(scope, store, (format!("s{}", n % 3), format!("c{n}")))
            })
            .collect();
        for round in 0..6 {
            load.wait_for(60);
            match round % 3 {
                // One backend dies: the server kills the others, and recovers.
                0 => kill_a_backend(&server),
                1 => {
                    server.stop_at_once();
                    server.launch();
                }
                _ => {
                    let _ = server.sql(
                        "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
                         WHERE application_name = 'sessionlog'",
                    );
                }
            }
        }
        load.wait_for(60);
        load.stop();
        callers
            .into_iter()
            .map(|caller| caller.join().unwrap())
            .collect()
    });
    let (of_other, of_store): (Vec<_>, Vec<_>) = told
        .into_iter()
        .partition(|one| one.said[0].0.starts_with("c0-") || one.said[0].0.starts_with("c4-"));
    assert_kept(&store, &of_store);
    assert_kept(&other, &of_other);
    assert_eq!(store.promise().weaknesses(), Vec::<String>::new());
}

/// SIGKILL to a backend that is committing, if one is.
fn kill_a_backend(server: &Cluster) {
    let pid = server.sql(
        "SELECT pid FROM pg_stat_activity WHERE application_name = 'sessionlog'
         ORDER BY query = 'COMMIT' DESC, state = 'active' DESC LIMIT 1",
    );
    let killed = Command::new("kill").args(["-9", &pid]).status();
    assert!(killed.unwrap().success());
}

#[test]
fn two_processes_worth_of_stores_write_one_session_in_one_order() {
    let Some(server) = server() else { return };
    let options = options(server);
    let stores = [
        PostgresStore::open(options.clone()).unwrap(),
        PostgresStore::open(options.lanes(2)).unwrap(),
    ];
    let load = Load::default();
    let told: Vec<_> = std::thread::scope(|scope| {
        let callers: Vec<_> = (0..8)
            .map(|n| {
                let key = format!("s{}", n % 2);
                load.caller(scope, &stores[n % 2], (key, format!("c{n}")))
            })
            .collect();
        let crossed: Vec<_> = (8..12)
            .map(|n| {
                load.caller(
                    scope,
                    &stores[n % 2],
                    (String::from("both"), format!("c{n}")),
                )
            })
            .collect();
        load.wait_for(1500);
        load.stop();
        let all = callers.into_iter().chain(crossed);
        all.map(|caller| caller.join().unwrap()).collect()
    });
    assert!(
        told.iter()
            .flat_map(|one| &one.said)
            .all(|(_, there)| *there == Some(true))
    );
    assert_kept(&stores[0], &told);
    let both = texts(&stores[0], "both");
    assert_eq!(both, texts(&stores[1], "both"));
    let expected: usize = told
        .iter()
        .filter(|one| one.key == "both")
        .map(|one| one.said.len())
        .sum();
    assert_eq!(both.len(), expected);
}

/// A session of the operator that holds locks for as long as this lives.
pub(crate) struct Holder {
    child: Child,
    /// By which the server knows it and no other one.
    name: String,
}

impl Holder {
    pub(crate) fn of(server: &Cluster, statements: &str) -> Self {
        let name = fresh("holder");
        let script = format!("BEGIN; {statements}; NOTIFY held; SELECT pg_sleep(60)");
        let child = Command::new("psql")
            .args([
                "-h",
                "127.0.0.1",
                "-p",
                &server.port.to_string(),
                "-U",
                "bot",
                "-d",
                "postgres",
            ])
            .args(["-XAtq", "-c", &script])
            .env("PGAPPNAME", &name)
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let asleep = format!(
            "SELECT count(*) FROM pg_stat_activity
             WHERE application_name = '{name}' AND wait_event = 'PgSleep'"
        );
        let begun = Instant::now();
        while server.sql(&asleep) == "0" {
            assert!(begun.elapsed() < Duration::from_secs(30));
            std::thread::sleep(Duration::from_millis(10));
        }
        Self { child, name }
    }

    pub(crate) fn release(mut self, server: &Cluster) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        server.sql(&format!(
            "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
             WHERE application_name = '{}'",
            self.name
        ));
    }
}

#[test]
fn a_host_that_falls_silent_is_waited_for_once_and_not_for_each_idle_connection() {
    let Some(server) = server() else { return };
    let proxy = Proxy::to(server.port);
    let schema = fresh("silent");
    // One silent connection takes three seconds, two take longer than is tried.
    let options = PostgresOptions::new(proxy.dsn())
        .schema(&schema)
        .connections(4)
        .statement_timeout(Duration::from_secs(1))
        .retry(Duration::from_secs(5));
    let store = PostgresStore::open(options).unwrap();
    store.add_message("a", "user", "0").wait().unwrap();
    let idle = format!(
        "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'sessionlog'
         AND state = 'idle' AND query LIKE '%{schema}%'"
    );
    while server.sql(&idle).parse::<usize>().unwrap() < 4 {
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| assert_eq!(texts(&store, "a"), ["0"]));
            }
        });
    }
    proxy.silence();
    assert_eq!(texts(&store, "a"), ["0"]);
}

#[test]
fn a_full_pool_and_a_slow_statement_end_in_an_error_that_says_so() {
    let Some(server) = Cluster::start(&["fsync=off"]) else {
        return;
    };
    let options = options(&server)
        .connections(1)
        .wait(Duration::from_millis(300))
        .statement_timeout(Duration::from_secs(2));
    let store = PostgresStore::open(options.clone().schema("slow")).unwrap();
    store.add_message("a", "user", "0").wait().unwrap();
    assert_eq!(texts(&store, "a"), ["0"], "the pool has its connection");
    let holder = Holder::of(&server, "LOCK TABLE slow.lines IN ACCESS EXCLUSIVE MODE");
    std::thread::scope(|scope| {
        let slow = scope.spawn(|| store.history("a").wait());
        while server.sql("SELECT count(*) FROM pg_locks WHERE NOT granted") == "0" {
            std::thread::sleep(Duration::from_millis(10));
        }
        let full = store.history("a").wait().unwrap_err();
        assert!(
            full.to_string().contains("all 1 connections were in use"),
            "{full}"
        );
        assert!(full.is_retryable());
        let slow = slow.join().unwrap().unwrap_err();
        assert!(slow.to_string().contains("a read took over 2s"), "{slow}");
    });
    holder.release(&server);
    assert_eq!(texts(&store, "a"), ["0"], "the pool has a connection again");
}

#[test]
fn a_command_that_takes_too_long_fails_alone() {
    let Some(server) = Cluster::start(&["fsync=off"]) else {
        return;
    };
    let options = options(&server)
        .lanes(1)
        .statement_timeout(Duration::from_millis(500));
    let store = PostgresStore::open(options.schema("slow")).unwrap();
    for key in ["held", "free"] {
        store.add_message(key, "user", "0").wait().unwrap();
    }
    let holder = Holder::of(
        &server,
        "UPDATE slow.sessions SET lines = lines WHERE key = 'held'",
    );
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    // Both are queued before the lane takes either: they go together.
    let (held, free) = runtime.block_on(async {
        tokio::join!(
            store.append_all("held", vec![Message::user("1")]),
            store.append_all("free", vec![Message::user("1")]),
        )
    });
    free.unwrap();
    let held = held.unwrap_err();
    assert!(
        held.to_string().contains("a statement took too long"),
        "{held}"
    );
    holder.release(&server);
    assert_eq!(texts(&store, "held"), ["0"]);
    store.add_message("held", "user", "1").wait().unwrap();
    assert_eq!(texts(&store, "held"), ["0", "1"]);
    assert_eq!(texts(&store, "free"), ["0", "1"]);
}

#[test]
fn a_server_that_is_gone_is_told_in_time_and_comes_back() {
    let Some(mut server) = Cluster::start(&["fsync=off"]) else {
        return;
    };
    let options = options(&server)
        .retry(Duration::from_millis(700))
        .wait(Duration::from_secs(1));
    let store = PostgresStore::open(options).unwrap();
    store.add_message("a", "user", "0").wait().unwrap();
    server.stop_at_once();
    let refused = store.add_message("a", "user", "lost").wait().unwrap_err();
    // The first one may have been sent on a connection that was dead already.
    assert!(matches!(refused, Error::Unavailable { .. }), "{refused:?}");
    let read = store.history("a").wait().unwrap_err();
    assert!(matches!(read, Error::Unavailable { .. }), "{read:?}");
    server.launch();
    store.add_message("a", "user", "1").wait().unwrap();
    assert_eq!(texts(&store, "a"), numbers(0..2));
}

#[test]
fn a_queue_that_is_full_is_told_and_loses_nothing_that_was_taken() {
    let Some(server) = Cluster::start(&["fsync=off"]) else {
        return;
    };
    let options = options(&server)
        .lanes(1)
        .queue(4, 1 << 20)
        .batch_commands(1)
        .wait(Duration::from_millis(200))
        .schema("full");
    let store = PostgresStore::open(options).unwrap();
    store.add_message("a", "user", "first").wait().unwrap();
    let holder = Holder::of(&server, "UPDATE \"full\".sessions SET lines = lines");
    let results: Vec<_> = std::thread::scope(|scope| {
        let (answered, answers) = std::sync::mpsc::channel();
        for n in 0..12 {
            let (store, answered) = (&store, answered.clone());
            scope.spawn(move || {
                let result = store.add_message("a", "user", &n.to_string()).wait();
                answered.send(result).unwrap();
            });
        }
        drop(answered);
        // While the rows are held nothing can be committed: the first answer is a refusal.
        let first = answers.recv().unwrap();
        holder.release(&server);
        std::iter::once(first).chain(answers).collect()
    });
    let refused = results.iter().filter(|result| result.is_err());
    for result in refused.clone() {
        assert!(
            matches!(result, Err(Error::Overloaded { .. })),
            "{result:?}"
        );
    }
    let refused = refused.count();
    assert!((1..12).contains(&refused), "{refused}");
    assert_eq!(texts(&store, "a").len(), 1 + 12 - refused);
}
