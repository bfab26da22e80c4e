//! Reads of warm sessions, and alias resolution among 100,000 sessions.
//!
//! Every read runs beside what a program without the store would do: read the
//! whole file, split it, parse every line into an owned struct with `serde_json`
//! (for a history), or scan the directory's sidecars as PicoClaw does (for an
//! alias). Both sides run warm, in turns, on the calling thread; figures are
//! medians.
//!
//! `cargo bench --bench read -- --messages 1000000 --sessions 100000`
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "a bench is a program, not the engine"
)]

mod support;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::Parser;
use serde::{Deserialize, Serialize};
use sessionlog::{Message, Store, StoreHandle, StoreOptions};
use tokio::runtime::Runtime;

use support::figure::{Figure, NO_BASELINE, compare};
use support::load::SplitMix64;
use support::machine::{Machine, raise_open_files};
use support::scratch::Scratch;
use support::{Outcome, texts};

/// Measures history, tail and alias resolution.
#[derive(Parser)]
#[expect(clippy::struct_excessive_bools, reason = "command-line switches")]
struct Settings {
    /// Messages of the longest session.
    #[arg(long, default_value_t = 1_000_000)]
    messages: usize,
    /// Sessions with an alias each.
    #[arg(long, default_value_t = 100_000)]
    sessions: usize,
    /// Time spent on one figure.
    #[arg(long, default_value_t = 2.0)]
    seconds: f64,
    /// Where the files go. Default: Cargo's temporary directory.
    #[arg(long)]
    dir: Option<PathBuf>,
    /// Prints JSON instead of a table.
    #[arg(long)]
    json: bool,
    /// Leaves the files behind.
    #[arg(long)]
    keep: bool,
    /// Small sessions: shows that it runs, measures nothing.
    #[arg(long)]
    quick: bool,
    /// What Cargo passes to every benchmark.
    #[arg(long, hide = true)]
    bench: bool,
}

const WINDOW: usize = 50;

fn main() -> Outcome<()> {
    let settings = Settings::parse().shortened();
    raise_open_files()?;
    let scratch = Scratch::new(settings.dir.as_deref(), "read", settings.keep)?;
    let machine = Machine::describe(scratch.root());
    let runtime = tokio::runtime::Builder::new_multi_thread().build()?;

    let mut figures = Vec::new();
    read_long(&settings, &scratch.fresh("long")?, &mut figures)?;
    read_many(&settings, &scratch.fresh("many")?, &runtime, &mut figures)?;

    let report = Report { machine, figures };
    if settings.json {
        println!("{}", serde_json::to_string_pretty(&report)?);
    } else {
        report.print();
    }
    Ok(())
}

impl Settings {
    fn shortened(mut self) -> Self {
        if self.quick {
            self.messages = 2_000;
            self.sessions = 500;
            self.seconds = 0.05;
        }
        self
    }

    fn budget(&self) -> Duration {
        Duration::from_secs_f64(self.seconds)
    }
}

/// Histories and tails of sessions of different lengths.
fn read_long(settings: &Settings, dir: &Path, figures: &mut Vec<Figure>) -> Outcome<()> {
    let store = Store::open_with(dir, StoreOptions::new().auto_compact(false))?;
    let handle = store.handle();
    let longest = settings.messages;
    let middle = (longest / 10).max(1);
    for length in [100, 1_000, middle, longest] {
        eprintln!("writing {length} messages");
        fill(&handle, &key_of(length), length)?;
    }
    handle.flush().wait()?;

    for length in [100, 1_000, middle] {
        let (key, file) = (key_of(length), file_of(dir, length));
        figures.push(compare(
            &format!("history of {length}"),
            settings.budget(),
            || expect(length, handle.history(&key).wait()?.len()),
            Some(("read and parse the file", || {
                expect(length, parse_file(&file)?.len())
            })),
        )?);
    }
    for length in [middle, longest] {
        let (key, file) = (key_of(length), file_of(dir, length));
        let window = WINDOW.min(length);
        figures.push(compare(
            &format!("tail({WINDOW}) of {length}"),
            settings.budget(),
            || expect(window, handle.tail(&key, WINDOW).wait()?.len()),
            Some(("read and parse the file", || {
                expect(length, parse_file(&file)?.len())
            })),
        )?);
    }
    store.close()?;
    Ok(())
}

/// Key look-ups, listing and opening with many sessions.
fn read_many(
    settings: &Settings,
    dir: &Path,
    runtime: &Runtime,
    figures: &mut Vec<Figure>,
) -> Outcome<()> {
    let count = settings.sessions;
    eprintln!("writing {count} sessions");
    let store = Store::open(dir)?;
    create_sessions(&store.handle(), count, runtime)?;
    store.close()?;

    // The first close left everything on disk, so every open here is a clean one.
    let mut opens = Vec::new();
    for _ in 0..3 {
        let opening = Instant::now();
        let store = Store::open(dir)?;
        opens.push(opening.elapsed().as_secs_f64());
        store.close()?;
    }
    figures.push(Figure::single(&format!("open {count} sessions"), &opens));

    let store = Store::open(dir)?;
    let handle = store.handle();
    let mut random = SplitMix64::new(3);
    let mut scanned = SplitMix64::new(3);
    figures.push(compare(
        &format!("resolve an alias among {count}"),
        settings.budget(),
        || {
            let n = random.below(count);
            let key = handle.resolve_session_key(&alias(n)).wait()?;
            expect(n, position_of(key.as_deref()))
        },
        Some(("scan the sidecars", || {
            let n = scanned.below(count);
            let key = scan_for_alias(dir, &alias(n))?;
            expect(n, position_of(key.as_deref()))
        })),
    )?);
    figures.push(compare(
        &format!("list {count} sessions"),
        settings.budget(),
        || expect(count, handle.list_sessions().wait()?.len()),
        NO_BASELINE,
    )?);
    store.close()?;
    Ok(())
}

fn key_of(length: usize) -> String {
    format!("read:{length}")
}

fn file_of(dir: &Path, length: usize) -> PathBuf {
    dir.join(format!("read_{length}.jsonl"))
}

fn fill(handle: &StoreHandle, key: &str, length: usize) -> Outcome<()> {
    let messages: Vec<Message> = texts(500).into_iter().map(Message::user).collect();
    let mut left = length;
    while left > 0 {
        let batch = left.min(messages.len());
        handle.append_all(key, messages[..batch].to_vec()).wait()?;
        left -= batch;
    }
    Ok(())
}

fn session(n: usize) -> String {
    format!("many:{n}")
}

fn alias(n: usize) -> String {
    format!("legacy:{n}")
}

/// The number in a session's key; no number where there is none.
fn position_of(key: Option<&str>) -> usize {
    key.and_then(|key| key.strip_prefix("many:")?.parse().ok())
        .unwrap_or(usize::MAX)
}

/// Sessions of one message and one alias each.
fn create_sessions(handle: &StoreHandle, count: usize, runtime: &Runtime) -> Outcome<()> {
    const CREATORS: usize = 1024;
    let creators: Vec<_> = (0..CREATORS)
        .map(|first| {
            let handle = handle.clone();
            runtime.spawn(async move {
                for n in (first..count).step_by(CREATORS) {
                    let key = session(n);
                    handle.add_message(&key, "user", "hello").await?;
                    handle
                        .upsert_session_meta(&key, None, vec![alias(n)])
                        .await?;
                }
                Ok::<(), sessionlog::Error>(())
            })
        })
        .collect();
    for creator in creators {
        runtime.block_on(creator)??;
    }
    Ok(())
}

/// What a program makes of a line when it does not keep what it does not know.
#[derive(Deserialize)]
#[expect(dead_code, reason = "parsed to be paid for, not to be read")]
struct PlainMessage {
    role: String,
    content: String,
    created_at: String,
}

fn parse_file(path: &Path) -> Outcome<Vec<PlainMessage>> {
    let bytes = std::fs::read(path)?;
    bytes
        .split(|byte| *byte == b'\n')
        .filter(|line| !line.is_empty())
        .map(|line| Ok(serde_json::from_slice(line)?))
        .collect()
}

#[derive(Deserialize)]
struct PlainMeta {
    key: String,
    #[serde(default)]
    aliases: Vec<String>,
}

/// Reads the sidecars in file-name order up to the first that names the alias.
fn scan_for_alias(dir: &Path, alias: &str) -> Outcome<Option<String>> {
    let mut names: Vec<_> = std::fs::read_dir(dir)?
        .filter_map(|entry| Some(entry.ok()?.file_name()))
        .filter(|name| name.to_string_lossy().ends_with(".meta.json"))
        .collect();
    names.sort_unstable();
    for name in names {
        let meta: PlainMeta = serde_json::from_slice(&std::fs::read(dir.join(name))?)?;
        if meta.aliases.iter().any(|known| known == alias) {
            return Ok(Some(meta.key));
        }
    }
    Ok(None)
}

fn expect(expected: usize, found: usize) -> Outcome<()> {
    if expected == found {
        Ok(())
    } else {
        Err(format!("expected {expected}, found {found}").into())
    }
}

#[derive(Serialize)]
struct Report {
    machine: Machine,
    figures: Vec<Figure>,
}

impl Report {
    fn print(&self) {
        println!("{}", self.machine);
        println!(
            "{:<36} {:>12} {:>8} {:>12}",
            "read", "ours", "runs", "beside"
        );
        for figure in &self.figures {
            figure.print();
        }
    }
}
