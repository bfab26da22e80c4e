//! Durable appends, beside the bare journal loop in the same run.
//!
//! Producers append 300-byte messages to 10,000 sessions, each waiting for its
//! reply before the next. Every round runs bare, ours, bare, ours, … over the
//! producer counts, in directories of its own; only ratios taken within a round
//! are compared, because a shared machine moves absolute figures by 2x.
//!
//! What is not timed: creating the sessions (one message each), and the flush
//! after each of our cells, which keeps what one cell left behind out of the
//! next contender's window. Its duration is reported. Within a window the store
//! flushes when it wants to; `--seconds 60 --rounds 1` shows the steady state.
//! After each round every acknowledged append is read back.
//!
//! `cargo bench --bench append -- --producers 1,64 --rounds 3 --seconds 2`
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "a bench is a program, not the engine"
)]

mod support;

use std::path::PathBuf;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use clap::Parser;
use serde::Serialize;
use sessionlog::{Store, StoreHandle, StoreOptions};
use tokio::runtime::Runtime;

use support::Outcome;
use support::bare::{Bare, Until, Wake};
use support::contest::{Contest, ContestOutcome, Turn, print_table};
use support::load::{Appender, Load, run};
use support::machine::{Machine, raise_open_files};
use support::scratch::Scratch;

/// Measures durable appends beside a bare journal loop.
#[derive(Parser)]
#[expect(clippy::struct_excessive_bools, reason = "command-line switches")]
struct Settings {
    /// Producer counts, each one cell.
    #[arg(long, value_delimiter = ',', default_values_t = [1, 16, 64, 256, 1024])]
    producers: Vec<usize>,
    /// Interleaved rounds.
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Length of a measured window.
    #[arg(long, default_value_t = 1.2)]
    seconds: f64,
    /// Sessions the appends are spread over.
    #[arg(long, default_value_t = 10_000)]
    sessions: usize,
    /// Where the files go. Default: Cargo's temporary directory.
    #[arg(long)]
    dir: Option<PathBuf>,
    /// Who wakes the bare loop's producers.
    #[arg(long, value_enum, default_value_t = Wake::Batched)]
    bare: Wake,
    /// Runs the bare loop alone.
    #[arg(long)]
    bare_only: bool,
    /// Prints JSON instead of a table.
    #[arg(long)]
    json: bool,
    /// Leaves the files behind.
    #[arg(long)]
    keep: bool,
    /// Fails where a bar is missed.
    #[arg(long)]
    check: bool,
    /// One short round over 200 sessions: shows that it runs, measures nothing.
    #[arg(long)]
    quick: bool,
    /// What Cargo passes to every benchmark.
    #[arg(long, hide = true)]
    bench: bool,
}

const WARM_UP: Duration = Duration::from_millis(200);
const TEXTS: usize = 64;

#[derive(Serialize)]
struct Report {
    machine: Machine,
    settings: String,
    contests: Vec<ContestOutcome>,
}

fn main() -> Outcome<()> {
    let settings = Settings::parse().shortened();
    raise_open_files()?;
    let scratch = Scratch::new(settings.dir.as_deref(), "append", settings.keep)?;
    let machine = Machine::describe(scratch.root());
    let runtime = tokio::runtime::Builder::new_multi_thread().build()?;

    let mut contests: Vec<_> = settings
        .producers
        .iter()
        .map(|&n| Contest::new(n))
        .collect();
    for round in 0..settings.rounds {
        eprintln!("round {} of {}", round + 1, settings.rounds);
        run_round(&settings, &scratch, &runtime, round, &mut contests)?;
    }

    let report = Report {
        machine,
        settings: settings.describe(),
        contests: contests.iter().map(Contest::outcome).collect(),
    };
    if settings.json {
        println!("{}", serde_json::to_string_pretty(&report)?);
    } else {
        println!("{}settings     {}\n", report.machine, report.settings);
        print_table(&report.contests);
    }
    if settings.check && report.contests.iter().any(ContestOutcome::missed) {
        return Err("a bar was missed".into());
    }
    Ok(())
}

impl Settings {
    fn shortened(mut self) -> Self {
        if self.quick {
            self.producers = vec![1, 64];
            self.rounds = 1;
            self.seconds = 0.2;
            self.sessions = 200;
        }
        self
    }

    fn describe(&self) -> String {
        format!(
            "rounds {} of {} s, {} sessions, lines of {} bytes, bare loop waking {:?}",
            self.rounds,
            self.seconds,
            self.sessions,
            support::LINE_BYTES,
            self.bare
        )
        .to_lowercase()
    }

    fn load(&self, producers: usize, round: usize) -> Load {
        Load {
            producers,
            sessions: self.sessions,
            texts: TEXTS,
            warm_up: WARM_UP,
            window: Duration::from_secs_f64(self.seconds),
            seed: round as u64,
        }
    }
}

/// One round: a fresh bare loop and a fresh store, cells interleaved.
fn run_round(
    settings: &Settings,
    scratch: &Scratch,
    runtime: &Runtime,
    round: usize,
    contests: &mut [Contest],
) -> Outcome<()> {
    let texts = support::texts(TEXTS);
    let (bare, committer) = start_bare(settings, scratch, runtime, round, &texts)?;
    let ours = if settings.bare_only {
        None
    } else {
        let dir = scratch.fresh(&format!("ours-{round}"))?;
        Some(Ours::open(&dir, settings.sessions, texts, runtime)?)
    };

    let mut acknowledged = settings.sessions;
    for contest in contests {
        let load = settings.load(contest.producers(), round);
        let commits = bare.commits();
        let cell = run(runtime, &bare, load)?;
        contest.record_bare(Turn {
            cell,
            commits: bare.commits() - commits,
            flush_seconds: 0.0,
        });
        if let Some((store, appender)) = &ours {
            acknowledged += measure_ours(runtime, store, appender, load, contest)?;
        }
    }

    drop(bare);
    committer.join().map_err(|_| "the bare loop panicked")?;
    if let Some((store, appender)) = ours {
        appender.verify(acknowledged)?;
        drop(appender);
        store.close()?;
    }
    Ok(())
}

fn start_bare(
    settings: &Settings,
    scratch: &Scratch,
    runtime: &Runtime,
    round: usize,
    texts: &[String],
) -> Outcome<(Arc<Bare>, JoinHandle<()>)> {
    let dir = scratch.fresh(&format!("bare-{round}"))?;
    Bare::start(&dir, texts, runtime.handle(), settings.bare, Until::Synced)
}

/// Measures one of our cells, then flushes; returns the acknowledged appends.
fn measure_ours(
    runtime: &Runtime,
    store: &Store,
    appender: &Arc<Ours>,
    load: Load,
    contest: &mut Contest,
) -> Outcome<usize> {
    let handle = store.handle();
    let commits = handle.stats().commits;
    let cell = run(runtime, appender, load)?;
    let commits = (handle.stats().commits - commits) as usize;
    let flushing = Instant::now();
    handle.flush().wait()?;
    contest.record_ours(Turn {
        cell,
        commits,
        flush_seconds: flushing.elapsed().as_secs_f64(),
    });
    Ok(cell.acknowledged)
}

/// The store as a contender.
struct Ours {
    handle: StoreHandle,
    keys: Vec<String>,
    texts: Vec<String>,
}

impl Ours {
    /// Opens a store in which every session holds one message.
    fn open(
        dir: &std::path::Path,
        sessions: usize,
        texts: Vec<String>,
        runtime: &Runtime,
    ) -> Outcome<(Store, Arc<Self>)> {
        const CREATORS: usize = 1024;
        let store = Store::open_with(dir, StoreOptions::new().max_open_files(16_384))?;
        let ours = Arc::new(Self {
            handle: store.handle(),
            keys: (0..sessions).map(|n| format!("telegram:{n}")).collect(),
            texts,
        });
        let creators: Vec<_> = (0..CREATORS)
            .map(|first| {
                let ours = Arc::clone(&ours);
                runtime.spawn(async move {
                    for session in (first..sessions).step_by(CREATORS) {
                        ours.append(session, session % TEXTS).await;
                    }
                })
            })
            .collect();
        for creator in creators {
            runtime.block_on(creator)?;
        }
        store.handle().flush().wait()?;
        Ok((store, ours))
    }

    /// Reads everything back: a rate of appends that are not there is no rate.
    fn verify(&self, acknowledged: usize) -> Outcome<()> {
        let mut found = 0;
        for key in &self.keys {
            found += self.handle.history(key).wait()?.len();
        }
        if found == acknowledged {
            Ok(())
        } else {
            Err(format!("{acknowledged} appends acknowledged, {found} found").into())
        }
    }
}

impl Appender for Ours {
    async fn append(&self, session: usize, text: usize) {
        self.handle
            .add_message(&self.keys[session], "user", &self.texts[text])
            .await
            .expect("the append is acknowledged");
    }
}
