//! Moving sessions between a directory and a database, either way. A copy is verified, can be
//! resumed, and works while the source is written to.
//!
//! Of a session the copy takes:
//!
//! * its visible lines as bytes
//! * the content of hidden control records that is still in force
//! * summary, scope, aliases, title, labels and pin
//! * the times when it was made and last changed
//! * the ids of messages taken once
//! * its backups
//!
//! The [report](CopyReport::left) names the rest: the archive of a directory, hidden lines, and the
//! ids and backups beyond what the copy is to keep. For a directory that is open for reading only,
//! it names all ids and backups. Versions and positions are the copy's own.

mod place;
mod report;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::future::Future;
use std::pin::Pin;
use std::time::Instant;

use futures_util::StreamExt;
use futures_util::future::{Either, select};
use futures_util::stream::FuturesUnordered;
use sessionlog::{Error, Result, Version};
use sha2::{Digest, Sha256};

pub use self::place::Place;
use self::place::Whole;
pub use self::report::CopyReport;
use self::report::{Behind, Left};

/// Copies all sessions, and reads each again to verify that it is the same. A session that is
/// already there unchanged is left alone, so a copy that was cut short continues where it stopped.
/// A session that differs is replaced. If it had lines that the source does not have, it becomes a
/// backup ([`BackupReason::Import`](sessionlog::BackupReason::Import) in a database,
/// [`BackupReason::Clear`](sessionlog::BackupReason::Clear) in a directory). Backups that the copy
/// lacks are added to its own. They keep their numbers, unless the copy already gave numbers as
/// high.
///
/// Sessions that are written to meanwhile are copied in the state of some moment. For a copy that
/// keeps up see [`follow`].
///
/// A session that cannot be copied is named in the [report](CopyReport::failed), and the others are
/// copied. The error is [`Error::Corrupt`] if the session is not the same after it was written.
/// Four sessions at a time are in memory as a whole, each up to four times. The time limit of a
/// statement is [`bulk_timeout`](crate::PostgresOptions::bulk_timeout).
///
/// # Errors
/// Those of either place, if none of its sessions can be read or written.
pub async fn copy(from: &Place, to: &Place) -> Result<CopyReport> {
    let mut copier = Copier::new(from, to);
    let keys = from.keys().await?;
    copier.copy(&keys).await?;
    copier.report(None).await
}

/// Copies all sessions, and then their changes, until `switched` is ready. By then all writers must
/// have stopped. The last changes are copied then, and the report gives the time that this took
/// after `switched` was ready ([`CopyReport::gap`]), whatever was being copied at that moment. The
/// gap is the time to copy the last changes. It is short if the copy kept up with the writers. For
/// a directory that is open for reading only, all sessions are looked at again. A session that is
/// deleted in the source meanwhile is deleted in the copy. Content that the source takes back
/// meanwhile does not become a backup of the copy.
///
/// # Errors
/// As [`copy`], and those of following changes. The sessions that were copied stay. A session that
/// failed while writers were at work is tried again at the end.
pub async fn follow(
    from: &Place,
    to: &Place,
    switched: impl Future<Output = ()>,
) -> Result<CopyReport> {
    let mut switch = Switch {
        switched: std::pin::pin!(switched),
        at: None,
    };
    let mut changes = switch.beside(from.changes()).await?;
    let mut copier = Copier::new(from, to);
    let keys = switch.beside(from.keys()).await?;
    switch.beside(copier.copy(&keys)).await?;
    copier.replaced = Replaced::Dropped;
    while switch.at.is_none() {
        let Some(first) = switch.or(changes.next()).await else {
            break;
        };
        let keys = switch.beside(news(first, &mut changes, &copier)).await?;
        switch.beside(copier.copy(&keys)).await?;
    }
    let begun = switch.at;
    let mut keys: BTreeSet<String> = copier.failed.keys().cloned().collect();
    keys.extend(match from.versions().await? {
        Some(versions) => copier.differing(versions),
        // A reader of a directory learns of changes later than the callers that made them.
        None if from.is_only_read() => copier.all().await?,
        None => news_at_hand(&mut changes, &copier).await?,
    });
    copier.failed.clear();
    copier.copy(&keys).await?;
    copier.report(begun).await
}

/// Notes whether and when the writers have stopped. It notices this beside the work under way.
struct Switch<'s, F> {
    switched: Pin<&'s mut F>,
    at: Option<Instant>,
}

impl<F: Future<Output = ()>> Switch<'_, F> {
    /// Returns the result of `work`, unless the switch is first.
    async fn or<T>(&mut self, work: impl Future<Output = T>) -> Option<T> {
        match select(std::pin::pin!(work), &mut self.switched).await {
            Either::Left((done, _)) => Some(done),
            Either::Right(_) => {
                self.at = Some(Instant::now());
                None
            }
        }
    }

    /// Returns the result of `work`, which the switch does not interrupt.
    async fn beside<T>(&mut self, work: impl Future<Output = T>) -> T {
        let mut work = std::pin::pin!(work);
        if self.at.is_none()
            && let Some(done) = self.or(work.as_mut()).await
        {
            return done;
        }
        work.await
    }
}

/// Returns the sessions that changed, as far as that was told by now, or all of them if changes
/// were missed.
async fn news(
    first: Result<sessionlog::Change>,
    changes: &mut sessionlog::Changes,
    copier: &Copier<'_>,
) -> Result<BTreeSet<String>> {
    let mut keys = match first {
        Ok(change) => BTreeSet::from([change.key]),
        Err(Error::ChangesMissed { .. }) => copier.all().await?,
        Err(error) => return Err(error),
    };
    keys.extend(news_at_hand(changes, copier).await?);
    Ok(keys)
}

async fn news_at_hand(
    changes: &mut sessionlog::Changes,
    copier: &Copier<'_>,
) -> Result<BTreeSet<String>> {
    let mut keys = BTreeSet::new();
    while let Some(told) = futures_util::future::poll_immediate(changes.next()).await {
        match told {
            Ok(change) => drop(keys.insert(change.key)),
            Err(Error::ChangesMissed { .. }) => keys.extend(copier.all().await?),
            Err(error) => return Err(error),
        }
    }
    Ok(keys)
}

/// Decides about lines in the copy that the source does not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Replaced {
    /// Another writer may have written them there, so they are kept.
    Kept,
    /// They are the source's own lines, which it took back since they were copied.
    Dropped,
}

/// The number of sessions in a row that may go unanswered before their place is given up.
const GONE: usize = 2;

/// Number of sessions that are copied at a time.
const AT_A_TIME: usize = 4;

/// A copy under way.
struct Copier<'a> {
    from: &'a Place,
    to: &'a Place,
    replaced: Replaced,
    /// The sessions that are in the copy.
    copied: BTreeMap<String, Copied>,
    failed: BTreeMap<String, Error>,
    behind: Behind,
    report: CopyReport,
}

/// A session that was copied.
#[derive(Clone, Debug)]
struct Copied {
    /// The versions of the source and of the copy at that time.
    source: Version,
    copy: Version,
    /// Its lines: their number, their bytes, and the SHA-256 of those.
    lines: usize,
    bytes: usize,
    hash: [u8; 32],
    /// The input of the hash of all sessions.
    digest: [u8; 32],
}

/// The result of copying a session.
#[derive(Debug, Default)]
struct Came {
    /// `None` if the session is gone.
    copied: Option<Copied>,
    left: Vec<Left>,
    is_written: bool,
    ids: usize,
    backups: usize,
}

impl<'a> Copier<'a> {
    fn new(from: &'a Place, to: &'a Place) -> Self {
        Self {
            from,
            to,
            replaced: Replaced::Kept,
            copied: BTreeMap::new(),
            failed: BTreeMap::new(),
            behind: Behind::default(),
            report: CopyReport::default(),
        }
    }

    /// Returns the keys of all sessions that exist or were copied.
    async fn all(&self) -> Result<BTreeSet<String>> {
        let mut keys = self.from.keys().await?;
        keys.extend(self.copied.keys().cloned());
        Ok(keys)
    }

    /// Returns the sessions that are at another version than the copied one.
    fn differing(&self, versions: BTreeMap<String, Version>) -> BTreeSet<String> {
        let gone = self
            .copied
            .keys()
            .filter(|key| !versions.contains_key(*key));
        let mut keys: BTreeSet<String> = gone.cloned().collect();
        let is_other = |key: &String, version: Version| {
            self.copied
                .get(key)
                .is_none_or(|copied| copied.source != version)
        };
        let others = versions.into_iter();
        keys.extend(others.filter_map(|(key, version)| is_other(&key, version).then_some(key)));
        keys
    }

    /// Copies sessions. Those that are gone are deleted.
    ///
    /// # Errors
    /// Those of a place that is gone: it fails each session, after a wait for it.
    async fn copy(&mut self, keys: &BTreeSet<String>) -> Result<()> {
        let (from, to, replaced) = (self.from, self.to, self.replaced);
        let mut left = keys.iter();
        let mut under_way = FuturesUnordered::new();
        let mut unanswered = 0;
        loop {
            while under_way.len() < AT_A_TIME
                && let Some(key) = left.next()
            {
                let before = self.copied.get(key).cloned();
                under_way.push(async move {
                    let job = Job {
                        from,
                        to,
                        key,
                        replaced,
                        before,
                    };
                    (key, job.copy().await)
                });
            }
            let Some((key, came)) = under_way.next().await else {
                return Ok(());
            };
            match came {
                Ok(came) => {
                    unanswered = 0;
                    self.take(key, came);
                }
                Err(error) if error.is_retryable() && unanswered == GONE => return Err(error),
                Err(error @ Error::Closed) => return Err(error),
                Err(error) => {
                    // An error that is final is an answer of the place.
                    unanswered = if error.is_retryable() {
                        unanswered + 1
                    } else {
                        0
                    };
                    self.copied.remove(key);
                    self.failed.insert(key.clone(), error);
                }
            }
        }
    }

    fn take(&mut self, key: &str, came: Came) {
        self.failed.remove(key);
        self.behind.note(key, &came.left);
        self.report.message_ids += came.ids;
        self.report.backups += came.backups;
        match came.copied {
            Some(copied) => {
                self.report.written += usize::from(came.is_written);
                self.copied.insert(key.to_owned(), copied);
            }
            None => drop(self.copied.remove(key)),
        }
    }

    /// Returns the report. `begun` is the time when the writers had stopped.
    async fn report(mut self, begun: Option<Instant>) -> Result<CopyReport> {
        // The caller that waits may go on.
        self.report.gap = begun.map(|begun| begun.elapsed());
        let mut hash = Sha256::new();
        for copied in self.copied.values() {
            self.report.lines += copied.lines;
            hash.update(copied.digest);
        }
        for byte in hash.finalize() {
            let _ = write!(self.report.hash, "{byte:02x}");
        }
        self.report.sessions = self.copied.len();
        for key in self.from.trash().await? {
            self.behind.note(&key, &[Left::Trash]);
        }
        self.report.left = self.behind.told();
        let there = self.to.keys().await?.into_iter();
        let known = |key: &String| self.copied.contains_key(key) || self.failed.contains_key(key);
        self.report.others = there.filter(|key| !known(key)).collect();
        self.report.failed = self.failed.into_iter().collect();
        Ok(self.report)
    }
}

/// A session that is to be copied.
struct Job<'a> {
    from: &'a Place,
    to: &'a Place,
    key: &'a str,
    replaced: Replaced,
    /// The result of the earlier copy, if there was one.
    before: Option<Copied>,
}

impl Job<'_> {
    async fn copy(&self) -> Result<Came> {
        let (to, key) = (self.to, self.key);
        let whole = self.from.read(key).await?;
        let there = to.besides(key).await?;
        if !whole.besides.is_there() {
            if there.is_there() {
                to.delete(key).await?;
            }
            return Ok(Came::default());
        }
        let lines = self.lines_there(&whole, there.version).await?;
        let added = lines.added(&whole.lines);
        let lack = whole.lacking(to, &there, added);
        let mut came = Came {
            left: whole.left(to),
            is_written: !lack.is_whole(),
            ids: lack.of_ids(),
            backups: lack.backups.len(),
            copied: None,
        };
        let mut version = there.version;
        if came.is_written {
            let is_beyond = lines.is_beyond(&whole.lines);
            let keeps = self.replaced == Replaced::Kept && is_beyond;
            to.write(key, (&whole, &lack), (version, keeps)).await?;
        }
        for number in &lack.backups {
            // A backup that was pruned meanwhile is not lacking.
            if let Some(backup) = self.from.backup(key, *number).await? {
                to.put_backup(key, backup).await?;
            }
        }
        if came.is_written || came.backups > 0 {
            let is_replaced = added.is_none() || to.replaces();
            version = self.check(&whole, is_replaced).await?;
        }
        came.copied = Some(Copied {
            source: whole.besides.version,
            copy: version,
            lines: whole.count(),
            bytes: whole.lines.len(),
            hash: Sha256::digest(&whole.lines).into(),
            digest: whole.digest(key),
        });
        Ok(came)
    }

    /// Returns the lines of the copy. They need not be read if nobody wrote there since.
    async fn lines_there(&self, whole: &Whole, version: Version) -> Result<There> {
        if let Some(before) = &self.before
            && before.copy == version
            && let Some(own) = whole.lines.get(..before.bytes)
            && Sha256::digest(own)[..] == before.hash
        {
            return Ok(There::First(before.bytes));
        }
        if version == Version::ABSENT {
            return Ok(There::None);
        }
        Ok(There::Lines(self.to.lines(self.key).await?))
    }

    /// Checks that the copy has everything, and returns its version. Lines that were added to the
    /// existing ones are not read again: a transaction adds all of them or none.
    async fn check(&self, whole: &Whole, with_lines: bool) -> Result<Version> {
        let there = self.to.besides(self.key).await?;
        let lines = if with_lines {
            Some(self.to.lines(self.key).await?)
        } else {
            None
        };
        let has_lines = lines.is_none_or(|lines| lines == whole.lines);
        let lack = whole.lacking(self.to, &there, Some(&[]));
        if has_lines && lack.is_whole() {
            return Ok(there.version);
        }
        Err(Error::Corrupt {
            path: self.key.into(),
            detail: String::from(
                "the copy of the session is not what was written: does anybody else write there?",
            ),
        })
    }
}

/// The lines that a copy has.
enum There {
    None,
    /// This number of bytes of the source's lines.
    First(usize),
    Lines(Vec<u8>),
}

impl There {
    /// Returns the lines of the source that come after those of the copy, if the copy has no
    /// others.
    fn added<'l>(&self, source: &'l [u8]) -> Option<&'l [u8]> {
        match self {
            Self::None => None,
            Self::First(bytes) => source.get(*bytes..),
            Self::Lines(lines) => source.strip_prefix(&**lines),
        }
    }

    /// True if it has some lines that the source does not have.
    fn is_beyond(&self, source: &[u8]) -> bool {
        matches!(self, Self::Lines(lines) if !source.starts_with(lines))
    }
}
