//! How long taking a long session back to its last checkpoint takes.
//!
//! Every round appends a turn behind a checkpoint to a session of many lines,
//! and reverts to it, durably: the lines that stay are copied as bytes, and what
//! the file was becomes a backup. Beside it stands the floor: copying the same
//! bytes to a new file, unsynced, and one synced write.
//!
//! `cargo bench --bench revert -- --lines 100000 --rounds 15`
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "a bench is a program, not the engine"
)]

mod support;

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::Parser;
use serde::Serialize;
use sessionlog::{BackupLimits, Context, Message, Store, StoreHandle};

use support::Outcome;
use support::machine::Machine;
use support::sample::Latency;
use support::scratch::Scratch;

/// Measures reverting a long session to its last checkpoint.
#[derive(Parser)]
#[expect(clippy::struct_excessive_bools, reason = "command-line switches")]
struct Settings {
    /// Lines that stay, of 300 bytes.
    #[arg(long, default_value_t = 100_000)]
    lines: usize,
    /// Rounds; the first one, which finds the checkpoints, is told apart.
    #[arg(long, default_value_t = 15)]
    rounds: usize,
    /// Where the files go. Default: Cargo's temporary directory.
    #[arg(long)]
    dir: Option<PathBuf>,
    /// Prints JSON instead of a table.
    #[arg(long)]
    json: bool,
    /// Fails where the bar is missed.
    #[arg(long)]
    check: bool,
    /// Three rounds over 1,000 lines: shows that it runs, measures nothing.
    #[arg(long)]
    quick: bool,
    /// What Cargo passes to every benchmark.
    #[arg(long, hide = true)]
    bench: bool,
}

const KEY: &str = "telegram:1";

/// Milliseconds that the median revert may take.
const BAR: f64 = 50.0;

/// What was measured.
#[derive(Serialize)]
struct Report {
    machine: Machine,
    lines: usize,
    megabytes: f64,
    first_ms: f64,
    revert: Latency,
    floor: Latency,
    bar_ms: f64,
    met: bool,
}

fn main() -> Outcome<()> {
    let mut settings = Settings::parse();
    if settings.quick {
        (settings.lines, settings.rounds) = (1_000, 3);
    }
    let scratch = Scratch::new(settings.dir.as_deref(), "revert", false)?;
    let dir = scratch.fresh("store")?;
    let store = Store::open(&dir)?;
    let chats = store.handle();
    fill(&chats, settings.lines)?;
    store.close()?;

    // Opened anew: nothing is known of the session.
    let store = Store::open(&dir)?;
    let chat = store.handle().context(KEY);
    let first = revert(&chat)?;
    let mut reverts = Vec::new();
    let mut floors = Vec::new();
    for round in 1..settings.rounds {
        reverts.push(revert(&chat)?);
        floors.push(copy(
            &dir.join("telegram_1.jsonl"),
            &dir.join(format!("floor-{round}")),
        )?);
        let limits = BackupLimits::new().count(2);
        store.handle().prune_backups(KEY, limits).wait()?;
    }
    let bytes = std::fs::metadata(dir.join("telegram_1.jsonl"))?.len();
    store.close()?;

    let revert = Latency::of(reverts);
    let report = Report {
        machine: Machine::describe(scratch.root()),
        lines: settings.lines,
        megabytes: support::sample::float(bytes as usize) / 1e6,
        first_ms: Latency::of(vec![first]).p50_ms,
        revert,
        floor: Latency::of(floors),
        bar_ms: BAR,
        met: revert.p50_ms <= BAR,
    };
    report.print(settings.json)?;
    if settings.check && !report.met {
        return Err("the bar was missed".into());
    }
    Ok(())
}

fn fill(chats: &StoreHandle, lines: usize) -> Outcome<()> {
    let texts = support::texts(1_000);
    for turn in 0..lines.div_ceil(1_000) {
        let messages = texts.iter().map(Message::user).collect();
        chats.append_all(KEY, messages).wait()?;
        let chat = chats.context(KEY);
        chat.checkpoint(false).wait()?;
        chat.update_token_count(i64::try_from(turn)?).wait()?;
    }
    Ok(())
}

/// A turn that goes wrong, and back; nanoseconds of the way back.
fn revert(chat: &Context) -> Outcome<u64> {
    let id = chat.checkpoint(true).wait()?;
    chat.append_message(vec![Message::user("and now?"), Message::assistant("no")])
        .wait()?;
    let started = Instant::now();
    chat.revert_to(id).wait()?;
    let took = started.elapsed();
    if chat.n_checkpoints().wait()? != id {
        return Err("the revert left its checkpoint".into());
    }
    Ok(u64::try_from(took.as_nanos())?)
}

/// The least that a copy and a commit cost; nanoseconds.
fn copy(from: &Path, to: &Path) -> Outcome<u64> {
    let mut journal = File::create(to.with_extension("journal"))?;
    let started = Instant::now();
    std::io::copy(&mut File::open(from)?, &mut File::create(to)?)?;
    journal.write_all(&[0; 512])?;
    journal.sync_data()?;
    let took = started.elapsed();
    std::fs::remove_file(to)?;
    Ok(u64::try_from(took.as_nanos())?)
}

impl Report {
    fn print(&self, json: bool) -> Outcome<()> {
        if json {
            println!("{}", serde_json::to_string_pretty(self)?);
            return Ok(());
        }
        println!(
            "{}settings     {} lines, {:.1} MB, {} reverts\n",
            self.machine, self.lines, self.megabytes, self.revert.count
        );
        println!("ms                 p50      p99      max");
        for (name, latency) in [("revert", self.revert), ("copy and sync", self.floor)] {
            println!(
                "{name:<14} {:>8.2} {:>8.2} {:>8.2}",
                latency.p50_ms, latency.p99_ms, latency.max_ms
            );
        }
        let verdict = if self.met { "met" } else { "MISSED" };
        println!(
            "first use of the session: {:.2} ms; bar for the median: {:.0} ms {verdict}",
            self.first_ms, self.bar_ms
        );
        Ok(())
    }
}
