//! Import of PicoClaw's older stores, which kept each session in one JSON file.

mod names;

use std::collections::HashMap;
use std::io;
use std::path::Path;
use std::sync::Arc;

use serde_json::value::RawValue;
use sessionlog_core::error::{Error, Result};
use sessionlog_core::rules::dates::Dates;
use sessionlog_core::session_file::{self, LegacySession, SIDECAR, SessionTags, TagChange};
use sessionlog_core::stamp;
use sessionlog_wal::storage::{FileKind, Storage};

use super::MigrationReport;
use crate::disk::files;
use crate::disk::files::backup::BackupReason;
use crate::engine::Engine;
use crate::engine::shard::verbs::clear::Clear;
use crate::engine::shard::verbs::update;
use crate::{Durability, Message, SessionMeta, StoreHandle};

pub(crate) use names::candidates;

/// Imports the sessions of PicoClaw's older manager, one `*.json` file each; returns their number.
/// [`migrate_from_json_report`] also returns the files that were left; this only logs them, as
/// warnings.
///
/// ```
/// use sessionlog::{Store, migrate_from_json};
///
/// # fn main() -> sessionlog::Result<()> {
/// # let scratch = tempfile::tempdir().unwrap();
/// # let dir = scratch.path();
/// std::fs::write(
///     dir.join("telegram_123.json"),
///     r#"{"key":"telegram:123","messages":[{"role":"user","content":"hi"}],"summary":"greeting"}"#,
/// ).unwrap();
///
/// let store = Store::open(dir)?;
/// assert_eq!(migrate_from_json(dir, &store.handle())?, 1);
/// assert_eq!(store.handle().history("telegram:123").wait()?[0].text(), "hi");
/// assert_eq!(migrate_from_json(dir, &store.handle())?, 0);
/// # store.close()
/// # }
/// ```
///
/// # Errors
/// As [`migrate_from_json_report`].
pub fn migrate_from_json(dir: impl AsRef<Path>, store: &StoreHandle) -> Result<usize> {
    Ok(migrate_from_json_report(dir, store)?.migrated)
}

/// Imports the sessions of PicoClaw's older manager, one `*.json` file each, and reports the files
/// that were left.
///
/// `dir` is usually the store's own directory; one that does not exist holds nothing to import.
/// Each file directly in it whose name ends in `.json` is imported, in the order of names. It
/// replaces the history of the session it names (its key, or if that is empty its file name without
/// `.json`), and the summary if it has one. As in PicoClaw, sessions are dated to now;
/// [`import_picoclaw`] keeps their times. Scope and aliases, which only
/// [`LegacyJsonStore`](crate::backend::LegacyJsonStore) writes there, are given to a session that
/// has neither; otherwise the session keeps its own. Keys are taken literally. Then the file is
/// renamed to `….json.migrated`, replacing any file of that name. A `….meta.json` is a sidecar, and
/// left alone, unless it is the file in which the older manager kept a session whose key ends in
/// `.meta`; those come first.
///
/// A session of any length is imported whole, in one step: until then the store shows its old
/// content, and after a crash the old or the new one. It is in memory meanwhile. A file stays as it
/// is, is reported, and is logged as a warning if it does not decode, or if the store does not
/// accept its key, its summary or one of its messages. So the import can run at every start: with
/// nothing left to import it changes nothing.
///
/// The existing content of a session becomes a [backup](StoreHandle::list_backups), and is
/// reported, unless it equals that of the file; a replaced summary does not become a backup.
///
/// Run it before anything else writes to the sessions: a crash just before a file is renamed makes
/// the next run import it again, over anything added since.
///
/// Blocks until everything is on disk: call it from a plain thread, or in async code through
/// `spawn_blocking`.
///
/// # Errors
/// [`Error::ReadOnly`] on a store opened read-only; any error of the store, or of listing or
/// renaming files, and errors of reading them that the disk causes. Sessions imported before stay
/// imported, with their files renamed; the one that failed and all after it are imported by the
/// next run.
pub fn migrate_from_json_report(
    dir: impl AsRef<Path>,
    store: &StoreHandle,
) -> Result<MigrationReport> {
    Import::of(dir.as_ref(), store)?.one_by_one()
}

/// Imports the sessions of PicoClaw's older manager as [`migrate_from_json_report`] does, and keeps
/// their times: a session counts as created no later than its file says. Its time of change is the
/// file's, unless it had messages.
///
/// Blocks until everything is on disk, durably.
///
/// # Errors
/// As [`migrate_from_json_report`].
pub fn import_picoclaw(dir: impl AsRef<Path>, store: &StoreHandle) -> Result<MigrationReport> {
    let mut import = Import::of(dir.as_ref(), store)?;
    import.keeps_times = true;
    import.one_by_one()
}

/// As [`migrate_from_json_report`], but no file is renamed before every session is in the store. If
/// renaming fails for one file, all get their old names back: the files hold everything, or nothing
/// that the store does not hold.
///
/// # Errors
/// As [`migrate_from_json_report`]. If a file could not be given its old name back, that error.
pub(crate) fn migrate_together(dir: &Path, store: &StoreHandle) -> Result<MigrationReport> {
    let import = Import::of(dir, store)?;
    let mut report = MigrationReport::default();
    let mut imported = Vec::new();
    for name in import.candidates()? {
        if import.counted(&name, &mut report)? {
            imported.push(name);
        }
    }
    if imported.is_empty() {
        return Ok(report);
    }
    import.retire_all(&imported)?;
    Ok(report)
}

/// The keys of the sessions that [`migrate_together`] would import, each with the name of its file;
/// if several files have one key, the last. A file that it would leave is not included: the store's
/// session of that key is not a copy of it.
///
/// # Errors
/// If the directory cannot be listed, or a file cannot be read.
pub(crate) fn keys_to_import(dir: &Path, store: &StoreHandle) -> Result<HashMap<String, String>> {
    let import = Import::of(dir, store)?;
    let mut keys = HashMap::new();
    for name in import.candidates()? {
        if let LegacyContent::Session(session) = read(&*import.storage, dir, &name)?
            && import.check(&session, LONGEST_TIME).is_ok()
        {
            keys.insert(session.key, name);
        }
    }
    Ok(keys)
}

/// The longest time that the store gives a message: a session that fits with this one fits whenever
/// it is imported.
const LONGEST_TIME: &str = "2026-01-02T03:04:05.123456789Z";

/// The content of a file that may be a session of the older manager.
pub(crate) enum LegacyContent {
    Session(LegacySession),
    Sidecar,
    /// Neither of the two, with the reason.
    Neither(String),
}

/// Reads a file. A file that cannot be ours, or is no regular file, is `Neither`. If the disk fails
/// to read a file, its content is unknown, and it must not be skipped.
///
/// # Errors
/// If the disk fails.
pub(crate) fn read(storage: &dyn Storage, dir: &Path, name: &str) -> Result<LegacyContent> {
    let path = dir.join(name);
    let bytes = match files::read_whole(storage, &path) {
        Ok(bytes) => bytes,
        Err(e) if !is_about_the_file(&e, storage, &path) => {
            return Err(Error::io("read", &path, e));
        }
        Err(_) if name.ends_with(SIDECAR) => return Ok(LegacyContent::Sidecar),
        Err(e) => return Ok(LegacyContent::Neither(e.to_string())),
    };
    if name.ends_with(SIDECAR) && !session_file::holds_own_session(name, &bytes) {
        return Ok(LegacyContent::Sidecar);
    }
    Ok(match session_file::decode_legacy(&bytes) {
        Err(reason) => LegacyContent::Neither(reason),
        Ok(mut session) => {
            if session.key.is_empty() {
                name.strip_suffix(".json")
                    .unwrap_or(name)
                    .clone_into(&mut session.key);
            }
            LegacyContent::Session(session)
        }
    })
}

fn is_about_the_file(error: &io::Error, storage: &dyn Storage, path: &Path) -> bool {
    use io::ErrorKind::{NotFound, PermissionDenied};
    let no_file = || {
        storage
            .info(path)
            .is_ok_and(|info| info.kind != FileKind::File)
    };
    matches!(error.kind(), NotFound | PermissionDenied) || no_file()
}

/// The outcome of one file.
enum FileOutcome {
    Imported,
    /// It stays where it is.
    Left(String),
    /// A sidecar, which is not imported.
    Sidecar,
}

struct Import<'a> {
    dir: &'a Path,
    storage: Arc<dyn Storage>,
    engine: &'a Engine,
    store: StoreHandle,
    keeps_times: bool,
}

impl<'a> Import<'a> {
    fn of(dir: &'a Path, store: &'a StoreHandle) -> Result<Self> {
        Ok(Self {
            dir,
            storage: store.storage(),
            engine: store.engine()?,
            store: store.exact_keys().with_durability(Durability::Durable),
            keeps_times: false,
        })
    }

    /// Imports every file, and renames each before the next.
    fn one_by_one(&self) -> Result<MigrationReport> {
        let mut report = MigrationReport::default();
        for name in self.candidates()? {
            if self.counted(&name, &mut report)? {
                self.retire(&name)?;
            }
        }
        Ok(report)
    }

    /// Imports a file; returns true if it may be retired.
    fn counted(&self, name: &str, report: &mut MigrationReport) -> Result<bool> {
        match self.file(name, report)? {
            FileOutcome::Imported => {
                report.migrated += 1;
                return Ok(true);
            }
            FileOutcome::Left(reason) => report.skip(&self.dir.join(name), reason),
            FileOutcome::Sidecar => {}
        }
        Ok(false)
    }

    fn file(&self, name: &str, report: &mut MigrationReport) -> Result<FileOutcome> {
        let session = match read(&*self.storage, self.dir, name)? {
            LegacyContent::Session(session) => session,
            LegacyContent::Sidecar => return Ok(FileOutcome::Sidecar),
            LegacyContent::Neither(reason) => return Ok(FileOutcome::Left(reason)),
        };
        match self.store_session(session, report) {
            Ok(()) => Ok(FileOutcome::Imported),
            // The error is about the session, not the store, and the same at every run: it must not
            // keep later files from being imported.
            Err(error @ (Error::InvalidKey { .. } | Error::MessageTooLarge { .. })) => {
                Ok(FileOutcome::Left(error.to_string()))
            }
            Err(error) => Err(error),
        }
    }

    /// Imports a session; all commands are on disk when this returns. Content that the store would
    /// refuse is refused before the first command: a session left half imported would be replaced
    /// again by every later run.
    fn store_session(&self, session: LegacySession, report: &mut MigrationReport) -> Result<()> {
        self.check(&session, &stamp::rfc3339(self.engine.shared.clock.now()))?;
        let LegacySession {
            key,
            messages,
            summary,
            scope,
            aliases,
            tags,
            created,
            updated,
        } = session;
        let messages = self.stamped(messages)?;
        let mut dates = Dates {
            created: stamp::parse(&created).map(|_| created),
            updated: stamp::parse(&updated).map(|_| updated),
            keep_later: false,
        };
        if !self.shows(&key, &messages)? {
            if self.keep_live(&key, &messages)? {
                report.replaced.push(key.clone());
                dates.updated = None;
            }
            self.store.import_history(&key, messages).wait()?;
        }
        if !summary.is_empty() {
            self.store.set_summary(&key, &summary).wait()?;
        }
        self.store_tags(&key, *tags)?;
        if (scope.is_some() || !aliases.is_empty())
            && let Some(reason) = self.store_identity(&key, scope, aliases)?
        {
            tracing::warn!(key, reason, "imported without its scope and aliases");
            report.without_identity.push((key.clone(), reason));
        }
        // Last: each of the others dates the session to now.
        if self.keeps_times && (dates.created.is_some() || dates.updated.is_some()) {
            let dates = Some(dates);
            let update = update::Update::<()> {
                dates,
                ..update::Update::default()
            };
            self.store.ask(&key, update).wait()?;
        }
        Ok(())
    }

    /// Checks that the store accepts a session, if messages without a time get the time `now`.
    ///
    /// # Errors
    /// `InvalidKey` or `MessageTooLarge`.
    fn check(&self, session: &LegacySession, now: &str) -> Result<()> {
        session_file::validate_key(&session.key)?;
        self.store.check_summary(&session.summary)?;
        if !session.summary.is_empty() || !session.tags.is_empty() {
            let mut meta = self.store.session_meta(&session.key).wait()?;
            meta.summary.clone_from(&session.summary);
            if meta.tags.is_empty() {
                meta.tags.clone_from(&session.tags);
            }
            self.store.check_sidecar(&meta)?;
        }
        self.store.check_lines(&session.messages, now)
    }

    /// Stores tags. Tags that a session has already are newer, and stay.
    fn store_tags(&self, key: &str, tags: SessionTags) -> Result<()> {
        let is_newer = || Ok(!self.store.session_meta(key).wait()?.tags.is_empty());
        if tags.is_empty() || is_newer()? {
            return Ok(());
        }
        self.store.change_tags(key, TagChange::named(tags)).wait()
    }

    /// Stores scope and aliases. Those that a session has already are newer, and stay. Returns the
    /// error if the store does not accept the file's: it must not keep the messages out.
    fn store_identity(
        &self,
        key: &str,
        scope: Option<Box<RawValue>>,
        aliases: Vec<String>,
    ) -> Result<Option<String>> {
        let meta = self.store.session_meta(key).wait()?;
        if has_identity(&meta) {
            return Ok(None);
        }
        match self.store.upsert_session_meta(key, scope, aliases).wait() {
            Err(
                error @ (Error::ScopeConflict { .. }
                | Error::MessageTooLarge { .. }
                | Error::InvalidScope { .. }),
            ) => Ok(Some(error.to_string())),
            other => other.map(|()| None),
        }
    }

    /// True if a session shows these messages and nothing else, as after an import that was cut
    /// short before the file was renamed. Imported again, it would become a backup of itself. Times
    /// count only where the file has them.
    fn shows(&self, key: &str, coming: &[Message]) -> Result<bool> {
        if self.store.tail(key, 1).wait()?.is_empty() {
            return Ok(false);
        }
        let stored = self.store.history(key).wait()?;
        let (lines, start) = self.store.all_lines(key)?;
        // A line that is not a message is something that the file does not have.
        let only = session_file::lines(&lines[start..]).count() == stored.len();
        let coming = coming.iter().filter(|message| !message.is_transient());
        let line = |message: &Message| session_file::encode(message, None);
        let timed = |message: &Message, stored: &Message| match stored.created_at() {
            Some(time) if message.created_at().is_none() => message.clone().with_created_at(time),
            _ => Ok(message.clone()),
        };
        let same = |(message, stored): (&Message, &Message)| {
            timed(message, stored).is_ok_and(|message| line(&message) == line(stored))
        };
        Ok(only && coming.clone().count() == stored.len() && coming.zip(&stored).all(same))
    }

    /// Makes a backup of a session's visible content, if any: the file may have turned up long
    /// after the session was begun. A crash after this leaves the session empty and the file in
    /// place, for the next run.
    fn keep_live(&self, key: &str, coming: &[Message]) -> Result<bool> {
        if self.store.tail(key, 1).wait()?.is_empty() {
            return Ok(false);
        }
        let now = stamp::rfc3339(self.engine.shared.clock.now());
        self.store.check_lines(coming, &now)?;
        let reason = BackupReason::Import;
        self.store.ask(key, Clear { reason }).wait()?;
        tracing::warn!(
            key,
            "an imported file replaces a history; that is a backup now"
        );
        Ok(true)
    }

    /// Gives the current time to messages that would be control records without one; the store
    /// gives it to the others.
    fn stamped(&self, messages: Vec<Message>) -> Result<Vec<Message>> {
        let now = stamp::rfc3339(self.engine.shared.clock.now());
        let stamp = |message: Message| match message.check_writable() {
            Ok(()) => Ok(message),
            Err(_) => message.with_created_at(&now),
        };
        messages.into_iter().map(stamp).collect()
    }
}

/// True if a session was given a scope or aliases.
fn has_identity(meta: &SessionMeta) -> bool {
    let scope = meta.scope.as_deref();
    scope.is_some_and(|scope| scope.get() != "null") || !meta.aliases.is_empty()
}

#[cfg(test)]
mod tests;
