//! Finds the sessions with new messages.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use jiff::Timestamp;
use sessionlog::{
    OffsetDateTime, SessionInfo, SessionOrder, SessionQuery, SessionSnapshot, StoreHandle, Version,
};

use super::anchor::{Anchor, News};
use crate::excerpt::Excerpt;
use crate::failure::Result;

/// The new part of a session.
#[derive(Debug)]
pub(super) struct Fresh {
    pub(super) key: String,
    pub(super) remark: Option<String>,
    pub(super) excerpt: Excerpt,
}

impl Fresh {
    fn of(key: &str, news: News) -> Option<Self> {
        let News { excerpt, remark } = news;
        let is_any = remark.is_some() || excerpt.each().next().is_some();
        is_any.then(|| Self {
            key: key.to_owned(),
            remark: remark.map(String::from),
            excerpt,
        })
    }
}

/// Some sessions.
#[derive(Debug, Default)]
pub(super) struct Few(Vec<Followed>);

#[derive(Debug)]
struct Followed {
    key: String,
    anchor: Anchor,
    /// True if it was not there at the last look: while a session gets another key, a look may find
    /// neither.
    is_missing: bool,
}

impl Few {
    pub(super) fn push(&mut self, key: &str, anchor: Anchor) {
        self.0.push(Followed {
            key: key.to_owned(),
            anchor,
            is_missing: false,
        });
    }

    /// Returns the news since the last look.
    pub(super) fn fresh(&mut self, chats: &StoreHandle) -> Result<Vec<Fresh>> {
        let mut fresh = Vec::new();
        for followed in &mut self.0 {
            let is_there = chats.exact_keys().exists(&followed.key).wait()?;
            if !is_there && let Some(now) = chats.resolve_session_key(&followed.key).wait()? {
                let key = std::mem::replace(&mut followed.key, now);
                fresh.push(Fresh {
                    remark: Some(format!("goes on as {}", followed.key)),
                    excerpt: Excerpt::default(),
                    key,
                });
            }
            let snapshot = chats.snapshot(&followed.key).wait()?;
            let is_missing = snapshot.version() == Version::ABSENT;
            if !is_missing || followed.is_missing {
                let news = followed.anchor.advance(&snapshot)?;
                fresh.extend(Fresh::of(&followed.key, news));
            }
            followed.is_missing = is_missing;
        }
        Ok(fresh)
    }
}

/// The time that a look goes back before the newest known change, for sessions that were changed at
/// the same time and shown in the files later.
const SLACK: Duration = Duration::from_secs(10);

/// The time after which a look is made although nothing seems to change: a program without a
/// journal, such as PicoClaw, writes into files without a trace.
const ANYWAY: Duration = Duration::from_secs(5);

/// All sessions that a query finds.
#[derive(Debug)]
pub(super) struct All {
    dir: PathBuf,
    query: SessionQuery,
    /// The last seen state of each session, and its shown part.
    known: HashMap<String, Known>,
    /// The newest change.
    newest: Option<Timestamp>,
    /// The state of the directory's files at the last look, and the time of that look.
    seen: Seen,
    looked: Instant,
    /// The time at which following began.
    began: Timestamp,
}

#[derive(Debug)]
struct Known {
    bytes: u64,
    lines: u64,
    updated_at: String,
    last_text: String,
    /// `None` until something new was found.
    anchor: Option<Anchor>,
}

/// Names, lengths and times of the files that show changes.
type Seen = Vec<(PathBuf, u64, SystemTime)>;

impl All {
    pub(super) fn new(dir: &Path, query: SessionQuery) -> Self {
        Self {
            dir: dir.to_owned(),
            query: query.order(SessionOrder::Updated),
            known: HashMap::new(),
            newest: None,
            seen: Seen::new(),
            looked: Instant::now(),
            began: Timestamp::now(),
        }
    }

    /// Returns the keys of `many` sessions, those changed last first. If they are to be followed,
    /// all sessions are looked at.
    pub(super) fn listed(
        &mut self,
        chats: &StoreHandle,
        many: usize,
        follows: bool,
    ) -> Result<Vec<String>> {
        (self.seen, self.looked) = (seen(&self.dir), Instant::now());
        let limit = if follows { usize::MAX } else { many };
        let page = chats.sessions(self.query.clone().limit(limit)).wait()?;
        let sessions = page.sessions.iter().take(many);
        let listed = sessions.map(|session| session.key.clone()).collect();
        if follows {
            for session in page.sessions {
                self.know(session, None);
            }
        }
        Ok(listed)
    }

    /// Notes that the session's content in this snapshot was shown, or is not wanted.
    pub(super) fn was_shown(&mut self, key: &str, snapshot: &SessionSnapshot) -> Result<()> {
        if let Some(known) = self.known.get_mut(key) {
            known.anchor = Some(Anchor::at_end_of(snapshot)?);
        }
        Ok(())
    }

    /// Returns the news since the last look.
    pub(super) fn fresh(&mut self, chats: &StoreHandle) -> Result<Vec<Fresh>> {
        let now = seen(&self.dir);
        if now == self.seen && self.looked.elapsed() < ANYWAY {
            return Ok(Vec::new());
        }
        let since = self.newest.and_then(|newest| since(newest, SLACK));
        let query = match since {
            Some(since) => self.query.clone().updated_since(since),
            None => self.query.clone(),
        };
        let page = chats.sessions(query.limit(usize::MAX)).wait()?;
        let mut fresh = Vec::new();
        // Those changed first are shown first.
        for session in page.sessions.into_iter().rev() {
            fresh.extend(self.news_of(chats, session)?);
        }
        (self.seen, self.looked) = (now, Instant::now());
        Ok(fresh)
    }

    fn news_of(&mut self, chats: &StoreHandle, session: SessionInfo) -> Result<Option<Fresh>> {
        let mut anchor = match self.known.get_mut(&session.key) {
            Some(known) if known.is(&session) => return Ok(None),
            Some(known) => known.anchor.take(),
            None => Some(Anchor::default()),
        };
        let snapshot = chats.snapshot(&session.key).wait()?;
        let anchor = match (&mut anchor, self.known.get(&session.key)) {
            (Some(anchor), _) => anchor,
            (none, known) => none.insert(first_anchor(&snapshot, known)?),
        };
        let mut news = anchor.advance(&snapshot)?;
        // A session that was not there may be an old one: renamed, out of the trash, or copied.
        if !self.known.contains_key(&session.key)
            && let Ok(then) = self.began.checked_sub(SLACK)
        {
            news = news.since(then);
        }
        let fresh = Fresh::of(&session.key, news);
        let anchor = std::mem::take(anchor);
        self.know(session, Some(anchor));
        Ok(fresh)
    }

    fn know(&mut self, session: SessionInfo, anchor: Option<Anchor>) {
        let updated = session.updated_at.parse::<Timestamp>().ok();
        self.newest = self.newest.max(updated);
        self.known.insert(
            session.key,
            Known {
                bytes: session.bytes,
                lines: session.lines,
                updated_at: session.updated_at,
                last_text: session.last_text,
                anchor,
            },
        );
    }
}

impl Known {
    fn is(&self, session: &SessionInfo) -> bool {
        self.bytes == session.bytes
            && self.lines == session.lines
            && self.updated_at == session.updated_at
    }
}

/// Returns the anchor of a session that was only listed until now.
fn first_anchor(snapshot: &SessionSnapshot, known: Option<&Known>) -> Result<Anchor> {
    let Some(known) = known.filter(|known| known.lines > 0) else {
        return Ok(Anchor::default());
    };
    let meta = snapshot.meta();
    let lines = u64::try_from(meta.count.saturating_sub(meta.skip)).unwrap_or(0);
    Anchor::before_lines(
        snapshot,
        lines.saturating_sub(known.lines),
        &known.last_text,
    )
}

fn since(newest: Timestamp, slack: Duration) -> Option<OffsetDateTime> {
    let then = newest.checked_sub(slack).ok()?;
    OffsetDateTime::from_unix_timestamp_nanos(then.as_nanosecond()).ok()
}

/// Returns the files that show changes: the journal's segments, which every change of a running
/// store goes through, and the directory, which gets a name for every new or replaced file.
fn seen(dir: &Path) -> Seen {
    let journal = dir.join(".sessionlog/journal");
    let segments = std::fs::read_dir(&journal).into_iter().flatten().flatten();
    let paths = segments.map(|entry| entry.path());
    let paths = paths.chain([dir.to_owned(), journal]);
    let mut seen: Seen = paths
        .filter_map(|path| {
            let info = std::fs::metadata(&path).ok()?;
            Some((path, info.len(), info.modified().ok()?))
        })
        .collect();
    seen.sort();
    seen
}
