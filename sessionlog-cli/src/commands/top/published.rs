//! The statistics that a running store publishes.

use std::path::Path;
use std::time::Duration;

use sessionlog::{Health, OffsetDateTime, PublishedStats, StoreStats};

use super::sample::{Group, Sample, Source, Value};
use crate::failure::Result;

/// The statistics that a running store publishes about once a second.
pub(super) struct Published<'a> {
    dir: &'a Path,
    last: Option<PublishedStats>,
    rates: Option<Rates>,
}

/// The counts between two publications.
struct Rates {
    seconds: f64,
    done: StoreStats,
}

impl<'a> Published<'a> {
    pub(super) fn of(dir: &'a Path) -> Self {
        Self {
            dir,
            last: None,
            rates: None,
        }
    }

    /// Takes in the last publication. An idle store publishes nothing.
    fn take(&mut self, now: PublishedStats) {
        match &self.last {
            Some(last) if last.pid == now.pid && now.written_at > last.written_at => {
                let seconds = (now.written_at - last.written_at).as_seconds_f64();
                let done = now.stats.since(&last.stats);
                self.rates = Some(Rates { seconds, done });
            }
            Some(last) if last.pid == now.pid => {
                let age = OffsetDateTime::now_utc() - now.written_at;
                if age.as_seconds_f64() > IDLE {
                    self.rates = Some(Rates {
                        seconds: 1.0,
                        done: StoreStats::default(),
                    });
                }
            }
            _ => self.rates = None,
        }
        self.last = Some(now);
    }
}

/// After this time without a publication, seconds, the store counts as idle.
const IDLE: f64 = 3.0;

impl Source for Published<'_> {
    fn add(&mut self, sample: &mut Sample) -> Result<()> {
        let Some(now) = sessionlog::published_stats(self.dir)? else {
            (self.last, self.rates) = (None, None);
            return Ok(());
        };
        self.take(now);
        if let Some(last) = &self.last {
            sample.groups.push(writes(last, self.rates.as_ref()));
            sample.groups.push(waits(last, self.rates.as_ref()));
        }
        Ok(())
    }
}

/// Returns the group of write rates.
fn writes(now: &PublishedStats, rates: Option<&Rates>) -> Group {
    #[expect(clippy::cast_precision_loss, reason = "a rate for people")]
    let rate = |count: fn(&StoreStats) -> u64| {
        let rate = rates.map(|rates| count(&rates.done) as f64 / rates.seconds);
        rate.map_or(Value::Unknown(None), Value::PerSecond)
    };
    let health = match &now.status.health {
        Health::Healthy => String::from("healthy"),
        Health::Full => String::from("no space, inode or descriptor is left: messages are refused"),
        Health::Poisoned { reason } => format!("stopped writing: {reason}"),
        _ => String::from("closed"),
    };
    let mut group = Group::new("writes", "writes");
    group.add("health", "health", Value::Text(health));
    group.add(
        "messages_per_second",
        "messages",
        rate(|done| done.messages),
    );
    group.add("commits_per_second", "commits", rate(|done| done.commits));
    group.add("syncs_per_second", "syncs", rate(|done| done.syncs));
    let bytes = Value::Bytes(now.status.journal_limit);
    group.add("journal_limit_bytes", "journal at most", bytes);
    group.add(
        "sessions_in_use",
        "sessions in use",
        Value::Count(now.stats.sessions_resident),
    );
    group
}

/// Returns the group of waits: since the publication before, or since the store was opened.
fn waits(now: &PublishedStats, rates: Option<&Rates>) -> Group {
    let newest = rates.map(|rates| &rates.done);
    let newest = newest.filter(|done| done.commit_nanos.count() > 0);
    let stats = newest.unwrap_or(&now.stats);
    let time = |nanos| Value::Time(Duration::from_nanos(nanos));
    let mut group = Group::new("waits", "waits");
    group.add(
        "commit_p50_us",
        "commit, median",
        time(stats.commit_nanos.p50()),
    );
    group.add(
        "commit_p99_us",
        "commit, p99",
        time(stats.commit_nanos.p99()),
    );
    group.add("sync_p50_us", "sync, median", time(stats.sync_nanos.p50()));
    group.add("sync_p99_us", "sync, p99", time(stats.sync_nanos.p99()));
    group.add("queued", "queued", Value::Count(now.status.queued as u64));
    group.add(
        "slow_commits",
        "slow commits",
        Value::Count(now.stats.slow_commits),
    );
    group
}
