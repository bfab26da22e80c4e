//! The sessions, and those that change.

use std::cmp::Reverse;
use std::path::Path;
use std::time::Instant;

use sessionlog::{OffsetDateTime, SessionInfo, SessionOrder, SessionQuery, StoreHandle};

use super::sample::{Group, Recent, Sample, Seldom, Source, Value};
use crate::commands::ls;
use crate::failure::Result;

/// Number of sessions that are shown.
const SHOWN: usize = 12;

/// A look at all sessions, as often as it is cheap.
pub(super) struct Sessions<'a> {
    dir: &'a Path,
    chats: &'a StoreHandle,
    seldom: Seldom,
    last: Option<Looked>,
}

/// The result of a look.
struct Looked {
    at: Instant,
    /// The time of the newest change then, from its sidecar.
    newest: Option<OffsetDateTime>,
    counts: Counts,
    changed_per_second: Option<f64>,
    bytes_per_second: Option<f64>,
    recent: Vec<Recent>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    sessions: u64,
    bytes: u64,
}

impl<'a> Sessions<'a> {
    pub(super) fn of(dir: &'a Path, chats: &'a StoreHandle) -> Self {
        Self {
            dir,
            chats,
            seldom: Seldom::default(),
            last: None,
        }
    }

    fn look(dir: &Path, chats: &StoreHandle, last: Option<&Looked>) -> Result<Looked> {
        let at = Instant::now();
        let counts = Counts::of(dir)?;
        let newest = SessionQuery::new()
            .order(SessionOrder::Updated)
            .limit(SHOWN);
        let mut recent = chats.sessions(newest).wait()?.sessions;
        // Each is shown as it was a little after they were sorted.
        recent.sort_by_key(|session| Reverse(updated(session)));
        let seconds = last.map(|last| at.duration_since(last.at).as_secs_f64());
        let changed = match last.and_then(|last| last.newest) {
            Some(since) => Some(changed_since(chats, since)?),
            None => None,
        };
        let grown = last.map(|last| counts.bytes.saturating_sub(last.counts.bytes));
        #[expect(clippy::cast_precision_loss, reason = "a rate for people")]
        let per_second = |number: Option<u64>| Some(number? as f64 / seconds?);
        Ok(Looked {
            at,
            newest: recent.first().and_then(updated),
            counts,
            changed_per_second: per_second(changed),
            bytes_per_second: per_second(grown),
            recent: recent.iter().map(recent_of).collect(),
        })
    }
}

impl Source for Sessions<'_> {
    fn add(&mut self, sample: &mut Sample) -> Result<()> {
        let Self {
            dir,
            chats,
            seldom,
            last,
        } = self;
        let looked = seldom.run(|| Self::look(dir, chats, last.as_ref()))?;
        if looked.is_some() {
            *last = looked;
        }
        let Some(looked) = last else {
            return Ok(());
        };
        let mut group = Group::new("sessions", "sessions");
        group.add("sessions", "sessions", Value::Count(looked.counts.sessions));
        group.add("bytes", "session files", Value::Bytes(looked.counts.bytes));
        let rate = |rate: Option<f64>| rate.map_or(Value::Unknown(None), Value::PerSecond);
        group.add(
            "changed_per_second",
            "sessions changed",
            rate(looked.changed_per_second),
        );
        group.add(
            "bytes_per_second",
            "files grow, bytes",
            rate(looked.bytes_per_second),
        );
        group.add(
            "looked_seconds_ago",
            "looked",
            Value::Age(looked.at.elapsed().as_secs_f64()),
        );
        sample.groups.push(group);
        sample.recent.clone_from(&looked.recent);
        Ok(())
    }
}

impl Counts {
    fn of(dir: &Path) -> Result<Self> {
        let mut counts = Self::default();
        for entry in std::fs::read_dir(dir)? {
            let entry = entry?;
            let name = entry.file_name();
            let name = name.as_encoded_bytes();
            if name.ends_with(b".meta.json") {
                counts.sessions += 1;
            } else if name.ends_with(b".jsonl") {
                counts.bytes += entry.metadata().map_or(0, |info| info.len());
            }
        }
        Ok(counts)
    }
}

/// Returns the number of sessions that changed after that.
fn changed_since(chats: &StoreHandle, since: OffsetDateTime) -> Result<u64> {
    let query = SessionQuery::new().updated_since(since).limit(usize::MAX);
    let page = chats.sessions(query).wait()?;
    let after = |session: &&SessionInfo| updated(session).is_some_and(|time| time > since);
    Ok(page.sessions.iter().filter(after).count() as u64)
}

fn updated(session: &SessionInfo) -> Option<OffsetDateTime> {
    let time: jiff::Timestamp = session.updated_at.parse().ok()?;
    OffsetDateTime::from_unix_timestamp_nanos(time.as_nanosecond()).ok()
}

fn recent_of(session: &SessionInfo) -> Recent {
    Recent {
        session: ls::name_of(session).to_owned(),
        title: session.last_text.clone(),
        updated_at: session.updated_at.clone(),
        bytes: session.bytes,
    }
}
