//! Moving sessions between a directory and a database, either way, verified, resumable, and
//! while the one is written to.
//!
//! What goes along of a session: its visible lines as bytes, what hidden control records still
//! say, summary, scope and aliases, and into a database the time it was made. What does not:
//! when it was changed (that is the time of the copy: limits of age and lists by time begin
//! anew), backups, the archive, and the ids of messages taken once, which a directory keeps
//! beside its sessions.

use std::collections::BTreeSet;
use std::future::Future;

use serde_json::value::RawValue;
use sessionlog::backend::kit;
use sessionlog::{ChangeFilter, Changes, Error, Result, StoreHandle, Version};
use sha2::{Digest, Sha256};

use crate::command::{Identity, Restore, Verb};
use crate::row::NewLine;
use crate::store::PostgresStore;
use crate::write::done;

/// Where sessions are copied from or to.
#[derive(Clone, Debug)]
pub enum Place {
    /// A directory of session files, through its store.
    Directory(StoreHandle),
    /// A database.
    Database(PostgresStore),
}

/// What a copy did.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct CopyReport {
    /// How many sessions there are, and lines in them.
    pub sessions: usize,
    /// See [`sessions`](Self::sessions).
    pub lines: usize,
    /// How many of the sessions were written: the others were there as they are.
    pub written: usize,
    /// The keys of sessions that were there and are not in the source. They are left alone.
    pub others: Vec<String>,
    /// The sessions that could not be copied: their keys, and why.
    pub failed: Vec<(String, Error)>,
    /// A SHA-256, in hexadecimal, of all sessions in the order of their keys: copies of the
    /// same sessions have the same.
    pub hash: String,
}

/// Copies all sessions, and reads each again to see that it is the same. A session that is
/// there as it is is left; so a copy that was cut short goes on where it stopped. One that
/// differs is replaced; if it had lines that the source does not have, it becomes a backup
/// ([`BackupReason::Import`](sessionlog::BackupReason::Import) in a database,
/// [`BackupReason::Clear`](sessionlog::BackupReason::Clear) in a directory).
///
/// Sessions that are written to meanwhile are copied as they stood at some moment: for a copy
/// that keeps up see [`follow`].
///
/// A session that cannot be copied is named in the [report](CopyReport::failed)
/// ([`Error::Corrupt`] if it is not the same after it was written), and the others are copied. A
/// session is in memory as a whole, up to four times; how long a statement may take is
/// [`bulk_timeout`](crate::PostgresOptions::bulk_timeout).
///
/// # Errors
/// Those of either place, if none of its sessions can be read or written.
pub async fn copy(from: &Place, to: &Place) -> Result<CopyReport> {
    copy_all(from, to, Replaced::Kept).await
}

/// What becomes of lines in a database that the source does not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Replaced {
    /// Somebody may have written them there.
    Kept,
    /// They are the source's own, which it took back since they were copied.
    Dropped,
}

/// So many sessions may fail in a row before a place that does not answer is given up.
const GONE: usize = 2;

async fn copy_all(from: &Place, to: &Place, replaced: Replaced) -> Result<CopyReport> {
    let keys = from.keys().await?;
    let mut report = CopyReport::default();
    let mut hash = Sha256::new();
    let mut in_a_row = 0;
    for key in &keys {
        let (whole, written) = match copy_one(from, to, (key, replaced)).await {
            Ok(copied) => copied,
            // A place that is gone fails each of them, after it was waited for.
            Err(error) if error.is_retryable() && in_a_row == GONE => return Err(error),
            Err(error @ Error::Closed) => return Err(error),
            Err(error) => {
                in_a_row += 1;
                report.failed.push((key.clone(), error));
                continue;
            }
        };
        in_a_row = 0;
        let Some(whole) = whole else { continue };
        report.sessions += 1;
        report.lines += whole.count();
        report.written += usize::from(written);
        hash.update(whole.digest(key));
    }
    report.hash = hexadecimal(&hash.finalize());
    let there = to.keys().await?;
    report.others = there.difference(&keys).cloned().collect();
    Ok(report)
}

/// Copies all sessions, and then what changes, until `switched` is ready: whoever writes has
/// stopped by then. Copies once more what changed since, and looks at everything again, so
/// that the report is of the same sessions in both places. A session that is deleted in the
/// source meanwhile is deleted in the copy.
///
/// # Errors
/// As [`copy`]; those of following changes. What was copied stays. A session that failed beside
/// the writers is tried again at the end.
pub async fn follow(
    from: &Place,
    to: &Place,
    switched: impl Future<Output = ()>,
) -> Result<CopyReport> {
    let mut changes = from.changes().await?;
    copy(from, to).await?;
    let replaced = Replaced::Dropped;
    let mut switched = std::pin::pin!(switched);
    loop {
        let change = {
            let next = std::pin::pin!(changes.next());
            match futures_util::future::select(next, &mut switched).await {
                futures_util::future::Either::Left((change, _)) => change,
                futures_util::future::Either::Right(_) => break,
            }
        };
        match change {
            // One that fails is tried again at the end, and named if it fails again.
            Ok(change) => drop(copy_one(from, to, (&change.key, replaced)).await),
            Err(Error::ChangesMissed { .. }) => drop(copy_all(from, to, replaced).await?),
            Err(error) => return Err(error),
        }
    }
    copy_all(from, to, replaced).await
}

/// Copies a session, and says whether it had to be written; one that is gone is deleted.
async fn copy_one(
    from: &Place,
    to: &Place,
    (key, replaced): (&str, Replaced),
) -> Result<(Option<Whole>, bool)> {
    let source = from.read(key).await?;
    let there = to.read(key).await?;
    let Some(whole) = source else {
        if there.is_some() {
            to.delete(key).await?;
        }
        return Ok((None, there.is_some()));
    };
    if there.as_ref() == Some(&whole) {
        return Ok((Some(whole), false));
    }
    to.write(key, &whole, (there, replaced)).await?;
    let again = to.read(key).await?;
    if again.as_ref() != Some(&whole) {
        return Err(Error::Corrupt {
            path: key.into(),
            detail: String::from(
                "the copy of the session is not what was written: does anybody else write there?",
            ),
        });
    }
    Ok((Some(whole), true))
}

/// All that is copied of a session. Equal ones have the same.
#[derive(Clone, Debug, Default)]
struct Whole {
    lines: Vec<u8>,
    summary: String,
    scope: Option<String>,
    aliases: Vec<String>,
    created_at: String,
    /// Which version of the session it is, in a database.
    version: Option<Version>,
}

impl PartialEq for Whole {
    fn eq(&self, other: &Self) -> bool {
        self.lines == other.lines
            && self.summary == other.summary
            && self.scope == other.scope
            && self.aliases == other.aliases
    }
}

impl Whole {
    fn count(&self) -> usize {
        kit::split_lines(&self.lines).count()
    }

    fn identity(&self) -> Identity {
        let scope = self.scope.clone();
        Identity {
            scope: scope.and_then(|scope| RawValue::from_string(scope).ok()),
            aliases: self.aliases.clone(),
        }
    }

    fn digest(&self, key: &str) -> [u8; 32] {
        let mut hash = Sha256::new();
        let scope = self.scope.as_deref().unwrap_or_default();
        let texts = [key, &self.summary, scope];
        let texts = texts
            .into_iter()
            .chain(self.aliases.iter().map(String::as_str));
        for part in texts.map(str::as_bytes).chain([&*self.lines]) {
            hash.update((part.len() as u64).to_le_bytes());
            hash.update(part);
        }
        hash.finalize().into()
    }
}

impl Place {
    async fn keys(&self) -> Result<BTreeSet<String>> {
        let keys = match self {
            Self::Directory(chats) => chats.list_sessions().await?,
            Self::Database(store) => store.list_sessions().await?,
        };
        Ok(keys.into_iter().collect())
    }

    async fn read(&self, key: &str) -> Result<Option<Whole>> {
        match self {
            Self::Directory(chats) => {
                let chats = chats.exact_keys();
                if !chats.exists(key).await? {
                    return Ok(None);
                }
                let lines = kit::lines_of(&chats, key).await?;
                Ok(Some(whole(lines, chats.session_meta(key).await?)))
            }
            Self::Database(store) => {
                let store = store.exact_keys();
                let Some(row) = store.row(key).await? else {
                    return Ok(None);
                };
                let (lines, start) = store.raw_lines(&row).await?;
                let whole = whole(kit::without_hidden(&lines, start), row.meta());
                Ok(Some(Whole {
                    version: Some(row.version()),
                    ..whole
                }))
            }
        }
    }

    async fn write(
        &self,
        key: &str,
        whole: &Whole,
        (there, replaced): (Option<Whole>, Replaced),
    ) -> Result<()> {
        let lines = |bytes: &[u8]| {
            let lines = kit::split_lines(bytes);
            lines
                .map(|line| NewLine::read(line.to_vec()))
                .collect::<Vec<_>>()
        };
        let is_beyond = |there: &Whole| !whole.lines.starts_with(&there.lines);
        let keeps = replaced == Replaced::Kept && there.as_ref().is_some_and(is_beyond);
        match self {
            Self::Directory(chats) => {
                let Identity { scope, aliases } = whole.identity();
                let (lines, summary) = (whole.lines.clone(), whole.summary.clone());
                kit::put_session(chats, key, lines, summary, (scope, aliases), keeps).await
            }
            Self::Database(store) => {
                // Most of what comes to a session that is followed are lines.
                let added = there.as_ref().and_then(|there| whole.lines_beyond(there));
                let verb = match added {
                    Some(added) => Verb::Update(crate::command::Update {
                        lines: lines(added),
                        ..crate::command::Update::default()
                    }),
                    None => Verb::Restore(Restore {
                        lines: lines(&whole.lines),
                        summary: whole.summary.clone(),
                        identity: whole.identity(),
                        created_at: whole.created_at.clone(),
                        compared: there
                            .as_ref()
                            .and_then(|there| there.version)
                            .unwrap_or(Version::ABSENT),
                        keeps,
                    }),
                };
                done(store.exact_keys().write(key, || Ok(verb))).await
            }
        }
    }

    async fn delete(&self, key: &str) -> Result<()> {
        match self {
            Self::Directory(chats) => chats.exact_keys().delete_session(key).await,
            Self::Database(store) => store.exact_keys().delete_session(key).await,
        }
    }

    async fn changes(&self) -> Result<Changes> {
        match self {
            Self::Directory(chats) => Ok(chats.changes(ChangeFilter::new())),
            Self::Database(store) => store.follow(ChangeFilter::new()).await,
        }
    }
}

fn whole(lines: Vec<u8>, meta: sessionlog::SessionMeta) -> Whole {
    Whole {
        lines,
        summary: meta.summary,
        scope: meta.scope.map(|scope| scope.get().to_owned()),
        aliases: meta.aliases,
        created_at: meta.created_at,
        version: None,
    }
}

impl Whole {
    /// The lines that it has after those of another, if that is all that it has more.
    fn lines_beyond(&self, other: &Self) -> Option<&[u8]> {
        let added = self.lines.strip_prefix(&*other.lines)?;
        let without = Self {
            lines: other.lines.clone(),
            ..self.clone()
        };
        (without == *other).then_some(added)
    }
}

fn hexadecimal(bytes: &[u8]) -> String {
    use std::fmt::Write;
    bytes.iter().fold(String::new(), |mut text, byte| {
        // Writing to a text does not fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}
