//! Durable appends per second of many producers in several processes: the store, beside what
//! others do with the same server and as many connections, round after round. And `tail(50)`
//! beside its bare query.
//!
//! The others are the obvious design (one transaction for each append: lock the session's row,
//! insert, commit), what the `SQLAlchemySession` of the Agents SDK does, and bare
//! inserts, which keep no order. All have prepared statements.
//!
//! ```console
//! cargo run --release -p sessionlog-postgres --example pg_bench -- "host=/run/postgresql dbname=bench"
//! ```

mod contender;
mod figures;
mod tails;
mod worker;

use std::error::Error;

use clap::Parser;
use sessionlog_postgres::{PostgresOptions, PostgresStore};
use tokio_postgres::NoTls;

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
        appends(&args)?;
    }
    tails::measure(&store, &client).await
}

/// Has all contenders append, in turns, and prints what came of it.
fn appends(args: &Args) -> Result<(), Failed> {
    println!(
        "{} processes, {} connections of each contender in each",
        args.processes, args.connections
    );
    let workers = (0..args.processes).map(|number| Worker::start(args, number));
    let mut workers = workers.collect::<Result<Vec<_>, _>>()?;
    for &producers in &args.producers {
        let mut rates: Vec<Vec<Rate>> = Contender::ALL.iter().map(|_| Vec::new()).collect();
        for round in 0..args.rounds {
            print!("{producers:5} producers, round {round}:");
            // Who goes first changes: none always finds what another left to be written.
            for turn in 0..rates.len() {
                let which = (turn + round) % rates.len();
                let rate = worker::measure(&mut workers, Contender::ALL[which], producers)?;
                rates[which].push(rate);
            }
            for (contender, rates) in Contender::ALL.iter().zip(&rates) {
                print!("  {contender} {}", rates[round]);
            }
            println!();
        }
        let of: Vec<Rate> = rates.iter().map(|rates| median(rates)).collect();
        print!("{producers:5} producers, medians:");
        for (contender, rate) in Contender::ALL.iter().zip(&of) {
            print!("  {contender} {rate}");
        }
        println!();
        for (contender, other) in Contender::ALL.iter().zip(&of).skip(1) {
            println!("      store to {contender}: {}", ratio(&of[0], other));
        }
    }
    Ok(())
}
