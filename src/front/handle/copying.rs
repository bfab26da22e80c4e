//! Copies of a whole store.

mod besides;

use std::collections::BTreeSet;
use std::path::Path;

use serde::{Deserialize, Serialize};
use sessionlog_core::error::{Error, Result, Version};
use sessionlog_core::session_file::{Meta, SIDECAR, encode_sidecar, log_name, sidecar_name};

use self::besides::in_backups;
use super::finding::{ListedSession, OwnedSessions, Sight as _};
use super::{Side, StoreHandle, blocking};
use crate::disk::files::{backup, once};
use crate::engine::glance::{self, SessionLines};
use crate::engine::home::Home;
use crate::engine::shard::verbs::whole::Whole;
use crate::engine::supervisor::SupervisorRequest;
use crate::engine::view::{Depth, DirectoryView, Group, Listing, TOGETHER};
use crate::front::reply::Reply;
use crate::maintenance::copy_dir::{CopyContent, CopyDir};

/// The outcome of [`StoreHandle::backup_to`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct BackupReport {
    /// The number of sessions in the copy. Files without a sidecar name no session; they are copied
    /// but not counted.
    pub sessions: usize,
    /// The number of bytes written. Files that the earlier copy already had with the same bytes do
    /// not count.
    pub written: u64,
    /// The keys of sessions that could not be read, and the names of backup files and of files
    /// without a sidecar, each with the reason. Where the earlier copy had one of these, the copy
    /// still has it unchanged. Each is also logged as a warning.
    pub failed: Vec<(String, String)>,
}

/// Copies.
impl StoreHandle {
    /// Makes `dir` a copy of the store. Every session is copied as it is at one moment, with
    /// everything acknowledged before the call, its backups, its
    /// [archive](crate::StoreOptions::archive), and the ids of messages taken
    /// [once](Self::append_once). Different sessions are of different moments. Writers are not held
    /// up. The copy is a directory of sessions like the store's own: it can be opened read-only
    /// where it lies. To restore it, copy it elsewhere and open that.
    ///
    /// `dir` must be new or empty, or an earlier copy of the same store that was never opened for
    /// writing. An earlier copy is replaced as a whole: until then, and after a crash, it is
    /// unchanged. (The copy is put together in `.<name>.copying` beside it. After a call that
    /// failed or was cut short, that directory stays, and the next call goes on with it. A crash
    /// between two renames leaves the earlier copy as `.<name>.replaced`; the next call gives it
    /// its name back.) Files that the earlier copy has with the same bytes are read but not written
    /// again. Backups of sessions are hard links where both directories are on one file system, so
    /// no file of the copy may be written to. Everything is synced, and all written files are read
    /// again and compared.
    ///
    /// Files in `.sessionlog/quarantine`, and files that belong to no session, are not copied.
    /// Reads as many sessions at a time as the machine runs threads. Ids of messages that are
    /// buffered and not synced yet may be missing. Beside a writer in another process, the ids of
    /// the newest messages of a session that is written to all the time may be missing too. No id
    /// is there without its message.
    ///
    /// ```
    /// use sessionlog::Store;
    ///
    /// # fn main() -> sessionlog::Result<()> {
    /// # let scratch = tempfile::tempdir().unwrap();
    /// # let store = Store::open(scratch.path().join("sessions"))?;
    /// # let dir = scratch.path().join("copy");
    /// let chats = store.handle();
    /// chats.add_message("telegram:1", "user", "hi").wait()?;
    /// chats.add_message("telegram:2", "user", "hi").wait()?;
    /// let report = chats.backup_to(&dir).wait()?;
    /// assert_eq!((report.sessions, report.failed.len()), (2, 0));
    ///
    /// chats.add_message("telegram:2", "user", "Are you there?").wait()?;
    /// chats.backup_to(&dir).wait()?; // writes only what changed
    /// let copy = Store::open_read_only(&dir)?;
    /// assert_eq!(copy.handle().count("telegram:2").wait()?, 2);
    /// # store.close()
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::InStore`] if `dir` is a store's directory or inside one. [`Error::Io`] if it
    /// contains something other than a copy of this store, or cannot be written to.
    /// [`Error::Locked`] if a copy is being put together there. [`Error::Corrupt`] if a written
    /// file reads differently. In all these cases the earlier copy is still there. The errors all
    /// verbs share. A session that cannot be read is reported, and does not fail the call.
    pub fn backup_to(&self, dir: impl AsRef<Path>) -> Reply<BackupReport> {
        let (this, dir) = (self.exact_keys(), dir.as_ref().to_owned());
        Reply::lookup(move |place| Box::pin(blocking(place, move || this.copy_to(&dir))))
    }

    fn copy_to(&self, dir: &Path) -> Result<BackupReport> {
        let storage = self.storage();
        let own_dir = match &self.side {
            Side::Writer(engine) if engine.is_closed() => return Err(engine.failure()),
            Side::Writer(engine) => engine.shared.dir.clone(),
            Side::Reader(view) => view.dir().to_owned(),
        };
        // A directory that was never opened has a path and no identity.
        let path = std::path::absolute(&own_dir).unwrap_or_else(|_| own_dir.clone());
        let mut names = vec![path.display().to_string(), own_dir.display().to_string()];
        if let Some(id) = Home::of(&own_dir).read_identity(&*storage)? {
            names.insert(0, format!("{:032x}", u128::from_be_bytes(id)));
        }
        let copy = DirectoryCopy {
            into: CopyDir::prepare(storage, dir, &names[0], &names[1..])?,
        };
        match &self.side {
            Side::Writer(engine) => copy.own(&OwnedSessions(self, engine)),
            Side::Reader(view) => copy.beside(view),
        }
    }
}

/// A session with everything to copy.
struct CopySource {
    meta: Meta,
    lines: SessionLines,
    /// The ids of messages that it took once.
    ids: [Vec<u8>; 2],
}

/// The outcome of copying a session.
#[derive(Debug)]
enum CopyOutcome {
    Copied,
    Gone,
    Failed(Error),
}

struct DirectoryCopy {
    into: CopyDir,
}

/// The number of sessions for which starting a thread pays.
const WORTH: usize = 8;

impl DirectoryCopy {
    fn own(self, store: &OwnedSessions<'_>) -> Result<BackupReport> {
        let OwnedSessions(_, engine) = store;
        let shared = &engine.shared;
        let mut report = BackupReport::default();
        // Listed first: an orphan that is adopted meanwhile is in this list or the next.
        let orphans = shared.catalog.orphans();
        let stems = self.sessions(store, &mut report)?;
        self.orphans(&*shared.storage, &shared.dir, orphans, &stems, &mut report)?;
        // After a flush, lines written to a file before it became a backup are in it.
        engine.ask(SupervisorRequest::Flush)?;
        let dir = &shared.backups.dir;
        self.backup_files(&*shared.storage, dir, &mut report, |name| {
            let log = name.strip_suffix(SIDECAR).map(log_name);
            backup::BackupName::parse(log.as_deref().unwrap_or(name)).is_some()
        })?;
        self.archive(&*shared.storage, &shared.archive.dir, &mut report)?;
        // A closed store forgets the parts of its sessions that are not in their files.
        if engine.is_closed() {
            return Err(engine.failure());
        }
        report.written = self.into.finish()?;
        Ok(report)
    }

    /// Copies all sessions; returns the stems of their files. A session that is renamed meanwhile
    /// is copied under the old key, the new key or both: one that is gone is looked for under its
    /// new key, also if that key was copied before the rename.
    fn sessions(
        &self,
        store: &OwnedSessions<'_>,
        report: &mut BackupReport,
    ) -> Result<BTreeSet<String>> {
        let catalog = &store.1.shared.catalog;
        let mut stems = BTreeSet::new();
        let (mut seen, mut again) = (BTreeSet::new(), BTreeSet::new());
        loop {
            let mut listed = catalog.listed();
            listed.retain(|(_, key)| seen.insert(key.clone()) || again.remove(key));
            if listed.is_empty() {
                return Ok(stems);
            }
            let copied = glance::each(&listed, WORTH, &|session| {
                self.session(session, store.original(session))
            });
            let gone = |(session, outcome): &(&ListedSession, &Result<CopyOutcome>)| {
                let is_gone = matches!(outcome, Ok(CopyOutcome::Gone));
                is_gone.then(|| catalog.resolve_other(&session.1)).flatten()
            };
            let gone = listed.iter().zip(&copied).filter_map(|both| gone(&both));
            again.extend(gone.map(|to| to.to_string()));
            // A session that is copied again does not count twice.
            let repeated = listed
                .iter()
                .filter(|(stem, _)| stems.contains(stem))
                .count();
            stems.extend(report.take(listed.into_iter().zip(copied))?);
            report.sessions = report.sessions.saturating_sub(repeated);
        }
    }

    fn beside(self, view: &DirectoryView) -> Result<BackupReport> {
        let storage = view.storage();
        let listing = Listing::of(view)?;
        let mut report = BackupReport::default();
        let mut stems = BTreeSet::new();
        for sessions in listing.listed().chunks(TOGETHER) {
            let keys: Vec<&str> = sessions.iter().map(|(_, key)| &**key).collect();
            let group = Group::of(view, &keys, Depth::Copy);
            let copied = glance::each(sessions, WORTH, &|session| {
                let found = group.original(&session.1);
                let original = |(meta, lines, ids)| CopySource { meta, lines, ids };
                self.session(session, found.map(|found| found.map(original)))
            });
            stems.extend(report.take(sessions.iter().cloned().zip(copied))?);
        }
        let orphans = listing.orphans();
        self.orphans(&*storage, view.dir(), orphans, &stems, &mut report)?;
        view.each_backup(&mut |name, lines| {
            let failed = self.raw(&in_backups(name), lines)?;
            report.take_raw(name, failed);
            Ok(())
        })?;
        let dir = &view.home().backups;
        self.backup_files(&*storage, dir, &mut report, |_| false)?;
        self.archive(&*storage, &view.home().archive, &mut report)?;
        report.written = self.into.finish()?;
        Ok(report)
    }

    fn session(
        &self,
        (stem, key): &ListedSession,
        found: Result<Option<CopySource>>,
    ) -> Result<CopyOutcome> {
        let names = names(stem);
        self.into.forget(&names);
        let outcome = match found {
            Ok(Some(original)) => self.put(&names, key, original)?,
            Ok(None) => CopyOutcome::Gone,
            Err(error) => CopyOutcome::Failed(error),
        };
        if let CopyOutcome::Failed(_) = outcome {
            self.into.keep(&names)?;
        }
        Ok(outcome)
    }

    fn put(&self, names: &[String; 4], key: &str, original: CopySource) -> Result<CopyOutcome> {
        let CopySource { meta, lines, ids } = original;
        let mut sidecar = meta.to_sidecar();
        key.clone_into(&mut sidecar.key);
        let log = lines.is_any().then(|| CopyContent::from(lines));
        let [newest, old] = ids.map(|ids| (!ids.is_empty()).then(|| CopyContent::from(ids)));
        let sidecar = Some(CopyContent::from(encode_sidecar(&sidecar)));
        for (name, content) in names.iter().zip([log, newest, old, sidecar]) {
            if let Some(content) = content
                && let Some(error) = self.put_file(name, &content)?
            {
                return Ok(CopyOutcome::Failed(error));
            }
        }
        Ok(CopyOutcome::Copied)
    }

    /// Returns the error if the file cannot be read. An `Err` is about the copy.
    fn put_file(&self, name: &str, content: &CopyContent) -> Result<Option<Error>> {
        match self.into.put(name, content) {
            Err(error) if content.is_unreadable() => Ok(Some(error)),
            put => put.map(|()| None),
        }
    }
}

/// The names of a session's files in a copy. The sidecar comes last: a history without a sidecar is
/// shown, but a sidecar without its history may hide lines.
fn names(stem: &str) -> [String; 4] {
    let [newest, old] = once::paths(Path::new(".sessionlog/once"), stem)
        .map(|path| path.to_string_lossy().into_owned());
    [log_name(stem), newest, old, sidecar_name(stem)]
}

impl OwnedSessions<'_> {
    /// `None` if it is gone.
    fn original(&self, session: &ListedSession) -> Result<Option<CopySource>> {
        let key = &session.1;
        if self.is_cold(key) {
            let original = self.cold(session);
            // Its owner may have begun to write meanwhile.
            if self.is_cold(key) {
                return original.map(Some);
            }
        }
        let whole = Reply::command(self.1.clone(), key.as_str().into(), Whole);
        let (snapshot, ids) = whole.wait()?;
        let is_there = snapshot.meta.version != Version::ABSENT;
        Ok(is_there.then(|| CopySource {
            lines: SessionLines::of_snapshot(&snapshot),
            meta: snapshot.meta,
            ids,
        }))
    }

    /// A session that was not written to since the open.
    fn cold(&self, session: &ListedSession) -> Result<CopySource> {
        let shared = &self.1.shared;
        let lines = SessionLines::of_file(&*shared.storage, &shared.dir, &session.0)?;
        let paths = once::paths(&shared.once, &session.0);
        let [newest, old] = paths.map(|path| {
            let read = once::read_file(&*shared.storage, &path);
            read.map_err(|e| Error::io("read", &path, e))
        });
        Ok(CopySource {
            meta: self.meta(session)?,
            lines,
            ids: [newest?, old?],
        })
    }
}

impl BackupReport {
    /// Takes in the outcomes; returns the stems of the sessions that exist.
    fn take(
        &mut self,
        copied: impl Iterator<Item = (ListedSession, Result<CopyOutcome>)>,
    ) -> Result<BTreeSet<String>> {
        let mut stems = BTreeSet::new();
        for ((stem, key), outcome) in copied {
            match outcome? {
                CopyOutcome::Gone => continue,
                CopyOutcome::Copied => self.sessions += 1,
                CopyOutcome::Failed(error) => self.fail(key, &error),
            }
            stems.insert(stem);
        }
        Ok(stems)
    }

    fn take_raw(&mut self, name: &str, failed: Option<Error>) {
        if let Some(error) = failed {
            self.fail(name.to_owned(), &error);
        }
    }

    fn fail(&mut self, key: String, error: &Error) {
        tracing::warn!(key, %error, "not copied");
        self.failed.push((key, error.to_string()));
    }
}
