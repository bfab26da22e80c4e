//! Durable appends per second of many producers in several processes: the store, beside what
//! others do with the same server and as many connections, round after round. And `tail(50)`
//! beside its bare query.
//!
//! The others are the obvious design (one transaction for each append: lock the session's row,
//! insert, commit), the same in one statement, what the `SQLAlchemySession` of the Agents SDK
//! does, and bare inserts, which keep no order. All have prepared statements.
//!
//! ```console
//! cargo run --profile bench -p sessionlog-postgres --example pg_bench -- "host=/run/postgresql dbname=bench"
//! ```

mod contender;
mod figures;
mod tails;
mod worker;

use std::error::Error;

use clap::Parser;
use sessionlog_postgres::{PostgresOptions, PostgresStore};
use tokio_postgres::{Client, NoTls};

use crate::contender::{Contender, SCHEMA};
use crate::figures::{Rate, median, ratio};
use crate::worker::Worker;

#[derive(Clone, Parser)]
struct Args {
    dsn: String,
    /// How long each measurement takes, seconds.
    #[arg(long, default_value_t = 3.0)]
    seconds: f64,
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Processes that the producers are in.
    #[arg(long, default_value_t = 4)]
    processes: usize,
    /// Connections that write, of each contender in each process.
    #[arg(long, default_value_t = 4)]
    connections: usize,
    /// How many producers there are, in all processes together.
    #[arg(long, value_delimiter = ',', default_values_t = [4, 64, 256, 1024])]
    producers: Vec<usize>,
    /// Who is measured.
    #[arg(long, value_delimiter = ',', default_values_t = Contender::ALL)]
    contenders: Vec<Contender>,
    /// How many message ids each session has from before.
    #[arg(long, default_value_t = 500)]
    remembered: i32,
    /// All connections of the store are cut before each measurement.
    #[arg(long)]
    cut: bool,
    /// Only reads are measured.
    #[arg(long)]
    tails: bool,
    /// This is one of the processes.
    #[arg(long, hide = true)]
    worker: Option<usize>,
}

type Failed = Box<dyn Error + Send + Sync>;

/// What a message of about two hundred bytes says.
const TEXT: &str = "a message of about two hundred bytes, as people write them to each other, \
    with some words more than are needed, and a few that say what the matter is about: \
    trains, weather, invoices";

#[tokio::main]
async fn main() -> Result<(), Failed> {
    let args = Args::parse();
    if let Some(worker) = args.worker {
        return worker::work(&args, worker).await;
    }
    let (client, connection) = tokio_postgres::connect(&args.dsn, NoTls).await?;
    tokio::spawn(connection);
    client.batch_execute(contender::TABLES).await?;
    let options = PostgresOptions::new(&args.dsn).schema(SCHEMA);
    let store = PostgresStore::connect(options).await?;
    println!("{:?}", store.promise());
    if !args.tails {
        remember(&args, &store, &client).await?;
        appends(&args, &client).await?;
    }
    tails::measure(&store, &client).await
}

/// Gives each producer's session ids that were taken before.
async fn remember(args: &Args, store: &PostgresStore, client: &Client) -> Result<(), Failed> {
    let most = args.producers.iter().max().copied().unwrap_or(0);
    let made = (0..most).map(|n| store.add_message(&format!("s{n}"), "user", TEXT));
    futures_util::future::try_join_all(made).await?;
    let taken = args.remembered;
    let sql = format!(
        "INSERT INTO bench.message_ids (session_id, message_id, turn)
         SELECT session_id, convert_to('before' || n, 'UTF8'), n
         FROM bench.sessions, generate_series(1, {taken}) n;
         UPDATE bench.sessions SET taken = {taken};"
    );
    client.batch_execute(&sql).await?;
    Ok(client.batch_execute("VACUUM ANALYZE").await?)
}

/// Has all contenders append, in turns, and prints what came of it.
async fn appends(args: &Args, client: &Client) -> Result<(), Failed> {
    println!(
        "{} processes, {} connections of each contender in each",
        args.processes, args.connections
    );
    let contenders = &args.contenders;
    let workers = (0..args.processes).map(|number| Worker::start(args, number));
    let mut workers = workers.collect::<Result<Vec<_>, _>>()?;
    for &producers in &args.producers {
        let mut rates: Vec<Vec<Rate>> = contenders.iter().map(|_| Vec::new()).collect();
        for round in 0..args.rounds {
            print!("{producers:5} producers, round {round}:");
            // Who goes first changes: none always finds what another left to be written.
            for turn in 0..rates.len() {
                let which = (turn + round) % rates.len();
                if args.cut {
                    cut(client).await?;
                }
                let rate = worker::measure(&mut workers, contenders[which], producers)?;
                rates[which].push(rate);
            }
            for (contender, rates) in contenders.iter().zip(&rates) {
                print!("  {contender} {}", rates[round]);
            }
            println!();
        }
        let of: Vec<Rate> = rates.iter().map(|rates| median(rates)).collect();
        print!("{producers:5} producers, medians:");
        for (contender, rate) in contenders.iter().zip(&of) {
            print!("  {contender} {rate}");
        }
        println!();
        for (contender, other) in contenders.iter().zip(&of).skip(1) {
            println!(
                "      {} to {contender}: {}",
                contenders[0],
                ratio(&of[0], other)
            );
        }
    }
    Ok(())
}

/// Cuts all connections of the store.
async fn cut(client: &Client) -> Result<(), Failed> {
    let sql = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
         WHERE application_name = 'sessionlog'";
    Ok(client.batch_execute(sql).await?)
}
