//! Minutes of everything at once: whether a store keeps the bounds that README names.
//!
//! First a mix: chats that are appended to, truncated, compacted, taken back, read,
//! deleted and begun again, one of them large, while files, memory and descriptors
//! are measured. Every read is compared with what the chat must hold. Then a
//! neighbour: one chat appends on its own, while a line that is no record is searched
//! past, and while one session, and three, of `--mb` are compacted. Prints a table,
//! and fails if a bound is exceeded.
//!
//! `cargo bench --bench soak -- --minutes 10 --mb 500`
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "a bench is a program, not the engine"
)]
#![expect(
    clippy::cast_precision_loss,
    reason = "what is counted here is far below 2^53"
)]

mod chats;
mod gauges;
mod neighbour;
#[path = "../support/mod.rs"]
mod support;
mod table;

use std::path::PathBuf;
use std::time::Duration;

use clap::Parser;
use sessionlog::{Store, StoreOptions};

use gauges::Gauges;
use support::Outcome;
use support::machine::{Machine, raise_open_files};
use support::scratch::Scratch;
use table::Table;

/// Runs a store for minutes and checks what README promises of its size.
#[derive(Parser)]
struct Settings {
    /// How long the mix goes on.
    #[arg(long, default_value_t = 2.0)]
    minutes: f64,
    /// Chats of the mix.
    #[arg(long, default_value_t = 400)]
    chats: usize,
    /// Threads of the mix; each has its share of the chats.
    #[arg(long, default_value_t = 4)]
    threads: usize,
    /// Size of the sessions that are compacted beside the neighbour, megabytes.
    #[arg(long, default_value_t = 500)]
    mb: u64,
    /// Interleaved rounds of the neighbour; medians count.
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Where the files go. Default: Cargo's temporary directory.
    #[arg(long)]
    dir: Option<PathBuf>,
    /// Leaves the files in place.
    #[arg(long)]
    keep: bool,
    /// A few seconds over 4 MB: shows that it runs. Latencies and memory are not judged.
    #[arg(long)]
    quick: bool,
    /// What Cargo passes to every benchmark.
    #[arg(long, hide = true)]
    bench: bool,
}

/// Session files a store of the mix keeps open.
const OPEN_FILES: usize = 256;

fn main() -> Outcome<()> {
    let mut settings = Settings::parse();
    if settings.quick {
        (settings.minutes, settings.mb, settings.rounds) = (0.05, 4, 1);
    }
    raise_open_files()?;
    let scratch = Scratch::new(settings.dir.as_deref(), "soak", settings.keep)?;
    println!("{}", Machine::describe(scratch.root()));
    let mut table = Table::default();
    mix(&settings, &scratch, &mut table)?;
    neighbour::measure(&settings, &scratch, &mut table)?;
    table.print()
}

/// The mix, measured while it runs.
fn mix(settings: &Settings, scratch: &Scratch, table: &mut Table) -> Outcome<()> {
    let dir = scratch.fresh("mix")?;
    let options = StoreOptions::new().max_open_files(OPEN_FILES);
    let store = Store::open_with(&dir, options)?;
    let chats = chats::start(settings.threads, settings.chats, &store.handle());
    let length = Duration::from_secs_f64(settings.minutes * 60.0);
    let gauges = Gauges::over(length, &dir, &chats)?;
    let tally = chats.stop()?;
    let stats = store.handle().stats();
    store.close()?;
    tally.report(table);
    gauges.report(&stats, !settings.quick, table);
    let verified = Store::verify(&dir)?;
    table.at_most(
        "problems that verify finds",
        verified.problems().len() as f64,
        0.0,
    );
    Ok(())
}
