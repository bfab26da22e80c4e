//! How long one chat waits beside what is large.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use sessionlog::{Store, StoreHandle, StoreOptions};

use crate::Settings;
use crate::support::load::SplitMix64;
use crate::support::sample::{Latency, median};
use crate::support::scratch::Scratch;
use crate::support::{Outcome, text};
use crate::table::Table;

/// The most that large work may multiply the idle 99th percentile by.
const BAR: f64 = 3.0;

/// How long the neighbour is alone, each time.
const IDLE: Duration = Duration::from_secs(3);

/// Bytes of a line of the large sessions.
const LINE: usize = 4 << 10;

pub(crate) fn measure(settings: &Settings, scratch: &Scratch, table: &mut Table) -> Outcome<()> {
    let mut rounds = Vec::new();
    for round in 0..settings.rounds {
        let dir = scratch.fresh(&format!("neighbour-{round}"))?;
        rounds.push(Round::of(settings, &dir)?);
        std::fs::remove_dir_all(&dir)?;
    }
    let idle = median(rounds.iter().map(|round| round.idle.p99_ms));
    table.say("neighbour alone, p99 of an append, ms", idle);
    let mut row = |what: &str, pick: fn(&Round) -> Latency| {
        let p99 = median(rounds.iter().map(|round| pick(round).p99_ms));
        let ratio = median(rounds.iter().map(|r| pick(r).p99_ms / r.idle.p99_ms));
        table.say(format!("beside {what}, p99, ms"), p99);
        let name = format!("beside {what}, p99 over alone");
        if settings.quick {
            table.say(name, ratio);
        } else {
            table.at_most(name, ratio, BAR);
        }
    };
    row("a damaged line", |round| round.damaged);
    row("one compaction", |round| round.one);
    row("three compactions", |round| round.three);
    Ok(())
}

/// What the neighbour saw.
struct Round {
    idle: Latency,
    damaged: Latency,
    one: Latency,
    three: Latency,
}

impl Round {
    fn of(settings: &Settings, dir: &Path) -> Outcome<Self> {
        let lines = settings.mb << 20 >> 12;
        for n in 0..4 {
            write_lines(&dir.join(format!("large_{n}.jsonl")), lines)?;
        }
        write_damaged(&dir.join("damaged.jsonl"), settings.mb)?;
        let store = Store::open_with(dir, StoreOptions::new().auto_compact(false))?;
        let chats = store.handle();
        let neighbour = Neighbour::start(chats.clone());
        std::thread::sleep(Duration::from_millis(300));
        let idle = timed(|| {
            std::thread::sleep(if settings.quick { IDLE / 10 } else { IDLE });
            Ok(())
        })?;
        // All but the last message: the search comes past the damaged line.
        let damaged = timed(|| Ok(chats.truncate_history("damaged", 2).wait()?))?;
        let keep = lines as usize / 3;
        for n in 0..4 {
            chats.truncate_history(&large(n), keep).wait()?;
        }
        let one = timed(|| Ok(chats.compact(&large(0)).wait()?))?;
        let three = timed(|| {
            let compaction = |n| {
                let chats = chats.clone();
                std::thread::spawn(move || chats.compact(&large(n)).wait())
            };
            for compaction in (1..4).map(compaction).collect::<Vec<_>>() {
                compaction.join().map_err(|_| "a compaction panicked")??;
            }
            Ok(())
        })?;
        let appends = neighbour.stop()?;
        if chats.stats().compactions < 4 {
            return Err("a compaction replied without compacting".into());
        }
        store.close()?;
        Ok(Self {
            idle: during(&appends, &idle),
            damaged: during(&appends, &damaged),
            one: during(&appends, &one),
            three: during(&appends, &three),
        })
    }
}

fn large(n: usize) -> String {
    format!("large_{n}")
}

/// A session file as PicoClaw would have written it.
fn write_lines(path: &Path, count: u64) -> Outcome<()> {
    let mut file = BufWriter::new(File::create(path)?);
    let said = text(LINE - 75, &mut SplitMix64::new(1));
    for n in 0..count {
        writeln!(file, "{{\"role\":\"user\",\"content\":\"{n} {said}\"}}")?;
    }
    file.into_inner()?.sync_all()?;
    Ok(())
}

/// Two messages around a line of NULs, which are really there: 400 MB for 500.
fn write_damaged(path: &Path, mb: u64) -> Outcome<()> {
    let mut file = File::create(path)?;
    let message = b"{\"role\":\"user\",\"content\":\"said\"}\n";
    file.write_all(message)?;
    let nuls = vec![0; 1 << 20];
    for _ in 0..mb * 4 / 5 {
        file.write_all(&nuls)?;
    }
    file.write_all(b"\n")?;
    file.write_all(message)?;
    file.sync_all()?;
    Ok(())
}

/// A thread that appends, one message after the other.
struct Neighbour {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Outcome<Vec<Range<Instant>>>>,
}

impl Neighbour {
    fn start(chats: StoreHandle) -> Self {
        let stop = Arc::<AtomicBool>::default();
        let told = stop.clone();
        let thread = std::thread::spawn(move || {
            let mut appends = Vec::new();
            while !told.load(Ordering::Relaxed) {
                let started = Instant::now();
                chats.add_message("neighbour", "user", "hello").wait()?;
                appends.push(started..Instant::now());
            }
            Ok(appends)
        });
        Self { stop, thread }
    }

    fn stop(self) -> Outcome<Vec<Range<Instant>>> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().map_err(|_| "the neighbour panicked")?
    }
}

fn timed(work: impl FnOnce() -> Outcome<()>) -> Outcome<Range<Instant>> {
    let started = Instant::now();
    work()?;
    Ok(started..Instant::now())
}

/// The appends that were in flight at any moment of `window`.
fn during(appends: &[Range<Instant>], window: &Range<Instant>) -> Latency {
    let within = appends
        .iter()
        .filter(|append| append.start < window.end && append.end > window.start);
    let nanos = within.map(|append| (append.end - append.start).as_nanos() as u64);
    Latency::of(nanos.collect())
}
