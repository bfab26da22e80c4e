//! Two servers, synchronous replication, failover, and an old primary that is fenced.

use std::time::Duration;

use sessionlog_postgres::{PostgresOptions, PostgresStore};

use crate::support::cluster::Cluster;
use crate::support::crew::Crew;
use crate::support::load::assert_kept;
use crate::support::texts;

#[test]
fn a_killed_primary_and_a_promoted_standby_lose_and_double_nothing_of_four_processes() {
    let rounds = std::env::var("SESSIONLOG_LONG").map_or(2, |_| 20);
    let Some(initialized) = Cluster::initialized() else {
        return;
    };
    for round in 0..rounds {
        let mut primary = initialized.started(&[]);
        let standby = primary.standby("standby", &[]);
        primary.sql("ALTER SYSTEM SET synchronous_standby_names = 'standby'");
        primary.sql("SELECT pg_reload_conf()");
        while primary.sql("SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'")
            == "0"
        {
            std::thread::sleep(Duration::from_millis(20));
        }
        let dsn = format!(
            "host=127.0.0.1,127.0.0.1 port={},{} user=bot dbname=postgres connect_timeout=2",
            primary.port, standby.port
        );
        let store = PostgresStore::open(PostgresOptions::new(&dsn)).unwrap();
        assert!(store.promise().is_replicated());
        let crew = Crew::start(&dsn, "sessionlog");
        crew.wait_for(20 + 5 * (round % 8));
        primary.kill();
        standby.promote();
        // Each process has met the new primary then.
        crew.wait_for(10);
        // The old one comes back as if nothing had been, and takes writes; nobody talks to it.
        primary.launch();
        primary.sql("ALTER SYSTEM RESET synchronous_standby_names");
        primary.sql("SELECT pg_reload_conf()");
        standby.sql(
            "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
             WHERE application_name = 'sessionlog'",
        );
        crew.wait_for(10);
        let told = crew.stop();
        // By its own name: this process has not met the new primary.
        let store = PostgresStore::open(PostgresOptions::new(standby.dsn())).unwrap();
        assert_kept(&store, &told);
        let last = told
            .iter()
            .flat_map(|one| &one.said)
            .filter(|(_, there)| *there == Some(true));
        let there: usize = (0..3).map(|n| texts(&store, &format!("s{n}")).len()).sum();
        assert!(there >= last.count());
        let old = primary.sql("SELECT sum(messages) FROM sessionlog.sessions");
        assert!(
            old.parse::<usize>().unwrap() < there,
            "the old primary took writes"
        );
    }
}
