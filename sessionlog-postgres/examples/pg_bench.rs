//! Durable appends per second: the store, beside the obvious design (one transaction for each
//! append: lock the session's row, insert, commit) and bare inserts, on the same server, with
//! as many connections, round after round. And `tail(50)` beside its bare query.
//!
//! ```console
//! cargo run --release -p sessionlog-postgres --example pg_bench -- "host=/run/postgresql dbname=bench"
//! ```

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use clap::Parser;
use sessionlog::Message;
use sessionlog_postgres::{PostgresOptions, PostgresStore};
use tokio::sync::Mutex;
use tokio_postgres::types::Type;
use tokio_postgres::{Client, NoTls};

#[derive(Parser)]
struct Args {
    dsn: String,
    /// How long each measurement takes, seconds.
    #[arg(long, default_value_t = 3.0)]
    seconds: f64,
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Connections that write, of each contender.
    #[arg(long, default_value_t = 4)]
    connections: usize,
}

type Failed = Box<dyn Error + Send + Sync>;

/// Appends per second, and the 50th and 99th of a hundred latencies.
struct Rate {
    per_second: f64,
    p50: Duration,
    p99: Duration,
}

#[tokio::main]
async fn main() -> Result<(), Failed> {
    let args = Args::parse();
    let options = PostgresOptions::new(&args.dsn)
        .schema("bench")
        .lanes(args.connections);
    let store = PostgresStore::connect(options).await?;
    println!("{:?}", store.promise());
    let naive = Arc::new(Naive::open(&args.dsn, args.connections).await?);
    let during = Duration::from_secs_f64(args.seconds);
    for producers in [1, 64, 256, 1024] {
        for round in 0..args.rounds {
            let group = {
                let store = store.clone();
                measure(producers, during, move |n| {
                    let (store, key) = (store.clone(), format!("r{round}:{n}"));
                    async move { Ok(store.add_message(&key, "user", TEXT).await?) }
                })
                .await?
            };
            let one = {
                let naive = naive.clone();
                measure(producers, during, move |n| {
                    let naive = naive.clone();
                    async move { naive.append(n).await }
                })
                .await?
            };
            let bare = {
                let naive = naive.clone();
                measure(producers, during, move |n| {
                    let naive = naive.clone();
                    async move { naive.insert(n).await }
                })
                .await?
            };
            print!("{producers:5} producers, round {round}:");
            for (name, rate) in [("store", group), ("naive", one), ("bare", bare)] {
                let Rate {
                    per_second,
                    p50,
                    p99,
                } = rate;
                print!("  {name} {per_second:8.0}/s p50 {p50:.1?} p99 {p99:.1?}");
            }
            println!();
        }
    }
    tails(&store, &naive).await
}

const TEXT: &str = "a message of about two hundred bytes, as people write them to each other, \
    with some words more than are needed, and a few that say what the matter is about: \
    trains, weather, invoices";

/// Has producers append for a while, each one after the other.
async fn measure<F>(
    producers: usize,
    during: Duration,
    append: impl Fn(usize) -> F + Send + Sync + Clone + 'static,
) -> Result<Rate, Failed>
where
    F: Future<Output = Result<(), Failed>> + Send,
{
    let begun = Instant::now();
    let tasks = (0..producers).map(|n| {
        let append = append.clone();
        tokio::spawn(async move {
            let mut took = Vec::new();
            while begun.elapsed() < during {
                let at = Instant::now();
                append(n).await?;
                took.push(at.elapsed());
            }
            Ok::<_, Failed>(took)
        })
    });
    let mut took = Vec::new();
    for task in tasks.collect::<Vec<_>>() {
        took.extend(task.await??);
    }
    let elapsed = begun.elapsed();
    took.sort_unstable();
    let at = |percent: usize| took[(took.len() - 1) * percent / 100];
    Ok(Rate {
        per_second: f64::from(u32::try_from(took.len())?) / elapsed.as_secs_f64(),
        p50: at(50),
        p99: at(99),
    })
}

/// One transaction for each append, over connections that are shared.
struct Naive {
    clients: Vec<Mutex<Client>>,
    next: AtomicUsize,
}

impl Naive {
    async fn open(dsn: &str, connections: usize) -> Result<Self, Failed> {
        let mut clients = Vec::new();
        for _ in 0..connections {
            let (client, connection) = tokio_postgres::connect(dsn, NoTls).await?;
            tokio::spawn(connection);
            clients.push(Mutex::new(client));
        }
        clients[0]
            .get_mut()
            .batch_execute(
                "DROP SCHEMA IF EXISTS naive CASCADE; CREATE SCHEMA naive;
                 CREATE TABLE naive.sessions (key text PRIMARY KEY, lines bigint NOT NULL);
                 CREATE TABLE naive.lines (key text, n bigint, line bytea, PRIMARY KEY (key, n));
                 CREATE TABLE naive.bare (n bigint GENERATED ALWAYS AS IDENTITY, line bytea);
                 INSERT INTO naive.sessions SELECT 's' || n, 0 FROM generate_series(0, 1023) n;",
            )
            .await?;
        Ok(Self {
            clients,
            next: AtomicUsize::new(0),
        })
    }

    async fn client(&self) -> tokio::sync::MutexGuard<'_, Client> {
        let next = self.next.fetch_add(1, Ordering::Relaxed);
        self.clients[next % self.clients.len()].lock().await
    }

    async fn append(&self, n: usize) -> Result<(), Failed> {
        let (key, line) = (format!("s{n}"), TEXT.as_bytes());
        let mut client = self.client().await;
        let transaction = client.transaction().await?;
        let row = transaction
            .query_typed(
                "SELECT lines FROM naive.sessions WHERE key = $1 FOR UPDATE",
                &[(&key, Type::TEXT)],
            )
            .await?;
        let lines: i64 = row[0].get(0);
        transaction
            .execute_typed(
                "INSERT INTO naive.lines VALUES ($1, $2, $3)",
                &[
                    (&key, Type::TEXT),
                    (&lines, Type::INT8),
                    (&line, Type::BYTEA),
                ],
            )
            .await?;
        transaction
            .execute_typed(
                "UPDATE naive.sessions SET lines = lines + 1 WHERE key = $1",
                &[(&key, Type::TEXT)],
            )
            .await?;
        Ok(transaction.commit().await?)
    }

    async fn insert(&self, _: usize) -> Result<(), Failed> {
        let line = TEXT.as_bytes();
        let client = self.client().await;
        client
            .execute_typed(
                "INSERT INTO naive.bare (line) VALUES ($1)",
                &[(&line, Type::BYTEA)],
            )
            .await?;
        Ok(())
    }
}

/// What a `tail(50)` of a session of 10,000 messages takes, and its bare query.
async fn tails(store: &PostgresStore, naive: &Naive) -> Result<(), Failed> {
    let said = (0..10_000).map(|n| Message::user(format!("{n} {TEXT}")));
    store.set_history("long", said.collect()).await?;
    let client = naive.client().await;
    let row = client
        .query_typed(
            "SELECT session_id FROM bench.sessions WHERE key = 'long'",
            &[],
        )
        .await?;
    let id: i64 = row[0].get(0);
    let (mut of_store, mut of_query) = (Vec::new(), Vec::new());
    for _ in 0..500 {
        let at = Instant::now();
        assert_eq!(store.tail("long", 50).await?.len(), 50);
        of_store.push(at.elapsed());
        let at = Instant::now();
        let rows = client
            .query_typed(
                "SELECT line FROM bench.lines WHERE session_id = $1 AND kind = 0
                 ORDER BY line_at DESC LIMIT 50",
                &[(&id, Type::INT8)],
            )
            .await?;
        let decoded = rows.iter().map(|row| Message::from_json(row.get(0)));
        assert_eq!(decoded.collect::<Result<Vec<_>, _>>()?.len(), 50);
        of_query.push(at.elapsed());
    }
    of_store.sort_unstable();
    of_query.sort_unstable();
    println!(
        "tail(50): store {:.0?}, bare query {:.0?} (medians)",
        of_store[250], of_query[250]
    );
    Ok(())
}
