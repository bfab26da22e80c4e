//! Moving sessions between a directory and a database, either way, verified, resumable, and
//! while the one is written to.
//!
//! What goes along of a session: its visible lines as bytes, what hidden control records still
//! say, summary, scope, aliases, title, labels and pin, when it was made and last changed, the ids of messages taken
//! once, and its backups. What does not is in the [report](CopyReport::left): the archive of a
//! directory, hidden lines, ids and backups beyond what the copy is to keep, and all of these of a
//! directory that is open for reading only. Versions and positions are the copy's own.

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

/// Copies all sessions, and reads each again to see that it is the same. A session that is
/// there as it is is left; so a copy that was cut short goes on where it stopped. One that
/// differs is replaced; if it had lines that the source does not have, it becomes a backup
/// ([`BackupReason::Import`](sessionlog::BackupReason::Import) in a database,
/// [`BackupReason::Clear`](sessionlog::BackupReason::Clear) in a directory). Backups that the
/// copy lacks are added to its own, under the numbers that they had unless as high ones were
/// given there.
///
/// Sessions that are written to meanwhile are copied as they stood at some moment: for a copy
/// that keeps up see [`follow`].
///
/// A session that cannot be copied is named in the [report](CopyReport::failed)
/// ([`Error::Corrupt`] if it is not the same after it was written), and the others are copied.
/// Four sessions at a time are in memory as a whole, each up to four times; how long a statement
/// may take is [`bulk_timeout`](crate::PostgresOptions::bulk_timeout).
///
/// # Errors
/// Those of either place, if none of its sessions can be read or written.
pub async fn copy(from: &Place, to: &Place) -> Result<CopyReport> {
    let mut copier = Copier::new(from, to);
    let keys = from.keys().await?;
    copier.copy(&keys).await?;
    copier.report(None).await
}

/// Copies all sessions, and then what changes, until `switched` is ready: whoever writes has
/// stopped by then. What changed since is copied, and the report says how long that took after
/// `switched` was ready ([`CopyReport::gap`]), whatever was being copied then. It is as long as what
/// came last takes to copy; that is not much if the copy kept up with the writers; of a directory that is open for reading only,
/// all sessions are looked at again. A session that is deleted in the source meanwhile is deleted in the copy. What the source takes back meanwhile is no backup of
/// the copy's own.
///
/// # Errors
/// As [`copy`]; those of following changes. What was copied stays. A session that failed beside
/// the writers is tried again at the end.
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
        // Who only reads a directory hears of changes later than their callers.
        None if from.is_only_read() => copier.all().await?,
        None => news_at_hand(&mut changes, &copier).await?,
    });
    copier.failed.clear();
    copier.copy(&keys).await?;
    copier.report(begun).await
}

/// Whether and when the writers have stopped. It is noticed beside whatever goes on.
struct Switch<'s, F> {
    switched: Pin<&'s mut F>,
    at: Option<Instant>,
}

impl<F: Future<Output = ()>> Switch<'_, F> {
    /// What comes of `work`, unless the switch is first.
    async fn or<T>(&mut self, work: impl Future<Output = T>) -> Option<T> {
        match select(std::pin::pin!(work), &mut self.switched).await {
            Either::Left((done, _)) => Some(done),
            Either::Right(_) => {
                self.at = Some(Instant::now());
                None
            }
        }
    }

    /// What comes of `work`, which the switch does not interrupt.
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

/// The sessions that changed, as far as that was told by now; all if it was missed.
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

/// What becomes of lines in the copy that the source does not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Replaced {
    /// Somebody may have written them there.
    Kept,
    /// They are the source's own, which it took back since they were copied.
    Dropped,
}

/// So many sessions may go unanswered in a row before their place is given up.
const GONE: usize = 2;

/// How many sessions are copied at a time.
const AT_A_TIME: usize = 4;

/// A copy under way.
struct Copier<'a> {
    from: &'a Place,
    to: &'a Place,
    replaced: Replaced,
    /// The sessions that are there.
    copied: BTreeMap<String, Copied>,
    failed: BTreeMap<String, Error>,
    behind: Behind,
    report: CopyReport,
}

/// A session that was copied.
#[derive(Clone, Debug)]
struct Copied {
    /// The versions that it was at.
    source: Version,
    copy: Version,
    /// Its lines: how many, their bytes, and the SHA-256 of those.
    lines: usize,
    bytes: usize,
    hash: [u8; 32],
    /// What the hash of all sessions is made of.
    digest: [u8; 32],
}

/// What came of a session.
#[derive(Debug, Default)]
struct Came {
    /// Nothing if it is gone.
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

    /// The keys of all sessions that are, or were copied.
    async fn all(&self) -> Result<BTreeSet<String>> {
        let mut keys = self.from.keys().await?;
        keys.extend(self.copied.keys().cloned());
        Ok(keys)
    }

    /// The sessions that are at another version than the one that was copied.
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

    /// Copies sessions; those that are gone are deleted.
    ///
    /// # Errors
    /// Those of a place that is gone: it fails each session, after it was waited for.
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
                    // What fails for good was answered.
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

    /// What was done; `begun`: when the writers had stopped.
    async fn report(mut self, begun: Option<Instant>) -> Result<CopyReport> {
        // Whoever waits may go on.
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
    /// What it was when it was copied before.
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
            // One that was pruned meanwhile is not lacking.
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

    /// The lines of the copy: nobody need read them if nobody wrote there since.
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

    /// Sees that the copy has everything, and says its version. Lines that were added to those
    /// that were there are not read again: a transaction adds all of them or none.
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

/// What lines a copy has.
enum There {
    None,
    /// So many bytes of the source's.
    First(usize),
    Lines(Vec<u8>),
}

impl There {
    /// The lines of the source that come after those of the copy, if that has no others.
    fn added<'l>(&self, source: &'l [u8]) -> Option<&'l [u8]> {
        match self {
            Self::None => None,
            Self::First(bytes) => source.get(*bytes..),
            Self::Lines(lines) => source.strip_prefix(&**lines),
        }
    }

    /// Whether it has some that the source does not have.
    fn is_beyond(&self, source: &[u8]) -> bool {
        matches!(self, Self::Lines(lines) if !source.starts_with(lines))
    }
}
