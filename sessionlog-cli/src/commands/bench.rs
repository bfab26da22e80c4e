//! `sessionlog bench`: the speed at which a disk takes messages.

use std::io::Write;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};
use serde::Serialize;
use sessionlog::{Durability, Message, Store, StoreOptions};

use crate::failure::{Failure, Outcome, Result};
use crate::output::{self, DIM, Output};
use crate::times;

/// Measure how fast a disk takes messages
///
/// Appends to a store of its own, in a scratch directory within DIR that is removed afterwards,
/// and measures how long a bare sync takes there. A durable append waits for one sync, which it
/// shares with whoever waits at the same time: with one chat at a time the disk sets the pace.
/// What is in DIR is not touched, and a gateway may go on there.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  sessionlog bench /var/lib/gateway
  sessionlog bench /var/lib/gateway --chats 1        what one chat alone waits
  sessionlog bench /mnt/other --time 10s --json      compare another disk

If syncs take milliseconds, writes are slow for the disk: see whether its write cache is on, \
whether it is a network disk, and whether others write to it. If they are fast and appends of \
the gateway slow, look at `sessionlog top DIR`.")]
pub(crate) struct Bench {
    /// A directory on the disk; a store's own will do
    dir: PathBuf,
    /// How long
    #[arg(long, value_name = "TIME", default_value = "3s", value_parser = times::parse_length)]
    time: Duration,
    /// How many chats write at the same time, each waiting for its answer
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u16).range(1..=1024))]
    chats: u16,
    /// Bytes of each message's text
    #[arg(long, value_name = "SIZE", default_value = "300")]
    size: bytesize::ByteSize,
    /// What an answer means
    #[arg(long, value_enum, default_value_t = Level::Durable)]
    durability: Level,
    /// One JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "snake_case")]
enum Level {
    /// It survives power loss
    Durable,
    /// It survives the death of the process
    Buffered,
}

#[derive(Serialize)]
struct Figures {
    durability: Level,
    chats: u16,
    message_bytes: u64,
    seconds: f64,
    appends: usize,
    appends_per_second: f64,
    append_latency: Latency,
    bare_sync_latency: Latency,
    commits: u64,
    syncs: u64,
    messages_per_commit: f64,
    journal_bytes: u64,
    session_bytes: u64,
}

/// In microseconds, for programs.
#[derive(Clone, Copy, Debug, Default, Serialize)]
struct Latency {
    #[serde(rename = "median_us", serialize_with = "micros")]
    median: Duration,
    #[serde(rename = "p99_us", serialize_with = "micros")]
    p99: Duration,
    #[serde(rename = "worst_us", serialize_with = "micros")]
    worst: Duration,
}

fn micros<S: serde::Serializer>(
    time: &Duration,
    serializer: S,
) -> std::result::Result<S::Ok, S::Error> {
    serializer.serialize_f64(time.as_secs_f64() * 1e6)
}

impl Latency {
    fn of(mut times: Vec<Duration>) -> Self {
        times.sort_unstable();
        let at = |per_cent: usize| {
            let place = times.len().saturating_sub(1) * per_cent / 100;
            times.get(place).copied().unwrap_or_default()
        };
        Self {
            median: at(50),
            p99: at(99),
            worst: at(100),
        }
    }

    fn text(self) -> String {
        let Self { median, p99, worst } = self;
        format!("{median:.1?} median, {p99:.1?} p99, {worst:.1?} worst")
    }
}

impl Bench {
    pub(crate) fn run(self) -> Result<Outcome> {
        let scratch = tempfile::Builder::new()
            .prefix(".sessionlog-bench-")
            .tempdir_in(&self.dir)
            .map_err(|error| {
                Failure::new(format!("write to {}: {error}", self.dir.display()))
                    .hint("name a directory on the disk to be measured that you may write to")
            })?;
        let bare = bare_syncs(scratch.path(), self.time / 10)?;
        let figures = self.measure(&scratch.path().join("sessions"), bare)?;
        scratch.close()?;
        let mut out = Output::new();
        if self.json {
            out.json(&figures)?;
        } else {
            figures.show(&mut out)?;
        }
        out.finish()?;
        Ok(Outcome::Done)
    }

    fn measure(&self, dir: &std::path::Path, bare_sync_latency: Latency) -> Result<Figures> {
        let level = match self.durability {
            Level::Durable => Durability::Durable,
            Level::Buffered => Durability::Buffered,
        };
        let store = Store::open_with(dir, StoreOptions::new().durability(level))?;
        let size = usize::try_from(self.size.as_u64()).unwrap_or(usize::MAX);
        let text = "x".repeat(size.min(16 << 20));
        let begun = Instant::now();
        let end = begun + self.time;
        let write = |chat: u16| -> Result<Vec<Duration>> {
            let (chats, key) = (store.handle(), format!("bench:{chat}"));
            let mut times = Vec::new();
            while Instant::now() < end {
                let message = Message::user(text.clone());
                let asked = Instant::now();
                chats.add_full_message(&key, message).wait()?;
                times.push(asked.elapsed());
            }
            Ok(times)
        };
        let times = std::thread::scope(|scope| {
            let writers: Vec<_> = (0..self.chats)
                .map(|chat| scope.spawn(move || write(chat)))
                .collect();
            let joined = writers.into_iter().map(|writer| {
                let times = writer.join();
                times.unwrap_or_else(|_| Err(Failure::new("a thread of the benchmark panicked")))
            });
            joined.collect::<Result<Vec<_>>>()
        })?;
        let seconds = begun.elapsed().as_secs_f64();
        let times: Vec<Duration> = times.into_iter().flatten().collect();
        let stats = store.handle().stats();
        store.close()?;
        let appends = times.len();
        Ok(Figures {
            durability: self.durability,
            chats: self.chats,
            message_bytes: text.len() as u64,
            seconds,
            appends,
            appends_per_second: ratio(appends as u64, 1) / seconds,
            append_latency: Latency::of(times),
            bare_sync_latency,
            commits: stats.commits,
            syncs: stats.syncs,
            messages_per_commit: ratio(stats.messages, stats.commits),
            journal_bytes: stats.journal_bytes,
            session_bytes: stats.session_bytes,
        })
    }
}

#[expect(
    clippy::cast_precision_loss,
    reason = "counts of a few seconds, for people"
)]
fn ratio(number: u64, of: u64) -> f64 {
    number as f64 / of.max(1) as f64
}

/// Measures a write of 4 KiB over present bytes with its sync: the least that a durable append can
/// wait.
fn bare_syncs(dir: &std::path::Path, time: Duration) -> Result<Latency> {
    use std::os::unix::fs::FileExt;
    let mut file = std::fs::File::create(dir.join("sync"))?;
    file.write_all(&[0; 4096])?;
    file.sync_all()?;
    let end = Instant::now() + time;
    let mut times = Vec::new();
    while times.is_empty() || Instant::now() < end {
        let begun = Instant::now();
        file.write_all_at(&[1; 4096], 0)?;
        file.sync_data()?;
        times.push(begun.elapsed());
    }
    Ok(Latency::of(times))
}

impl Figures {
    fn show(&self, out: &mut Output) -> Result<()> {
        let Self {
            appends,
            appends_per_second,
            seconds,
            ..
        } = self;
        let level = match self.durability {
            Level::Durable => "durable",
            Level::Buffered => "buffered",
        };
        let chats = output::count(usize::from(self.chats), "chat");
        out.line(&format!(
            "{appends_per_second:.0} {level} appends/s ({appends} in {seconds:.1} s, {chats}, {} each)",
            output::bytes(self.message_bytes)
        ))?;
        out.line(&format!("append     {}", self.append_latency.text()))?;
        out.line(&format!("bare sync  {}", self.bare_sync_latency.text()))?;
        let about = format!(
            "{} commits, {} syncs, {:.1} messages a commit; {} to the journal, {} to session files",
            self.commits,
            self.syncs,
            self.messages_per_commit,
            output::bytes(self.journal_bytes),
            output::bytes(self.session_bytes)
        );
        out.line(&out.paint(DIM, &about))
    }
}
