//! Reading a directory without owning it: beside its writer, or after a crash before
//! anybody recovered it. Writes nothing, locks nothing.
//!
//! Journal and sidecars become plans that are never carried out: a session is its file
//! plus what its plan would add to it. Of a lost sidecar the copy is shown.
//!
//! A view reads the journal once, and then what was added: before a session is read, and
//! after. It looks at the sidecars again if the journal tells of sessions that came, went or
//! have another name since, if the key is unknown, or if the files name another key. What it
//! read of a session counts if no record spoke of that meanwhile, or only of more lines: same
//! checkpoint, same base, as many lines hidden. Otherwise a file may have been swapped between
//! the two, and the view reads the session anew. A session that is rewritten faster than that
//! is an error, never a mixture of two moments.
//!
//! A writer that came and went between two looks may leave an empty journal, as the one before
//! did. The lock's file tells them apart (`home/life.rs`).

mod follow;
mod listing;
mod moment;
mod naming;
mod pieces;

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use self::follow::Following;
pub(crate) use self::listing::Listing;
use self::moment::{Believe, Followed, Moment, Place, Survey, TRIES};
use self::pieces::Pieces;
pub(crate) use self::pieces::load;
use crate::disk::copies::lost::{Copies, Restored};
use crate::disk::files;
use crate::disk::files::backup::{self, Backup, Name};
use crate::disk::session_file::{self, Meta};
use crate::engine::catalog::AliasConflict;
use crate::engine::home::Home;
use crate::engine::recovery::RecoveryReport;
use crate::engine::recovery::bytes::Bytes;
use crate::engine::recovery::foreign::{Judged, judge_beside_a_writer};
use crate::engine::recovery::plan::Base;
use crate::engine::recovery::planned::Planned;
use crate::engine::snapshot::{Looked, Snapshot};
use crate::engine::stats::Counters;
use crate::error::{Error, Result};
use crate::ground::storage::{FileKind, OpenMode, Storage};
use crate::ground::sync::Mutex;
use crate::ground::sync::atomic::{AtomicBool, Ordering};

/// How often a session is read anew that a writer rewrote meanwhile. What was read
/// then is of two moments, and is not shown.
const CHASES: usize = 1_000;

/// A directory of sessions, as its files and its journal show it.
pub(crate) struct DirectoryView {
    storage: Arc<dyn Storage>,
    dir: PathBuf,
    home: Home,
    report: RecoveryReport,
    counters: Arc<Counters>,
    closed: AtomicBool,
    /// Whether the kept catalog was found to be wrong: another program wrote a sidecar in place.
    doubted: AtomicBool,
    followed: Mutex<Followed>,
    following: Following,
}

/// Says nothing of the sessions: it ends up in logs, and would hold up who looks.
impl std::fmt::Debug for DirectoryView {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DirectoryView")
            .field("dir", &self.dir)
            .finish_non_exhaustive()
    }
}

impl DirectoryView {
    /// Looks at `dir`.
    ///
    /// # Errors
    /// If it cannot be read, or its journal is corrupt.
    pub(crate) fn open(storage: Arc<dyn Storage>, dir: PathBuf) -> Result<Self> {
        let info = storage.info(&dir).map_err(|e| Error::io("open", &dir, e))?;
        if info.kind == FileKind::File {
            let error = io::ErrorKind::NotADirectory.into();
            return Err(Error::io("open", &dir, error));
        }
        let home = Home::of(&dir);
        let mut view = Self {
            report: RecoveryReport::default(),
            storage,
            home,
            dir,
            counters: Arc::default(),
            closed: AtomicBool::new(false),
            doubted: AtomicBool::new(false),
            followed: Mutex::default(),
            following: Following::default(),
        };
        view.report_changes()?;
        Ok(view)
    }

    /// Says what other programs changed. Beside a writer whose journal moved meanwhile
    /// nothing can be said of that.
    fn report_changes(&mut self) -> Result<()> {
        let moment = self.catch_up()?;
        self.report = moment.report.clone();
        let planned = self.planned(&moment);
        let mut report = self.report.clone();
        for (stem, plan) in &moment.plans.sessions {
            match judge_beside_a_writer(planned, stem, plan)? {
                Judged::Ours { finding, .. } => report.findings.extend(finding),
                Judged::Changed(changed) if changed.lost => report.lose(changed.finding.clone()),
                Judged::Changed(changed) => report.findings.push(changed.finding.clone()),
            }
        }
        if self.is_current(&moment) {
            self.report = report;
        }
        Ok(())
    }

    pub(crate) fn report(&self) -> RecoveryReport {
        self.report.clone()
    }

    pub(crate) fn counters(&self) -> Arc<Counters> {
        self.counters.clone()
    }

    pub(crate) fn storage(&self) -> Arc<dyn Storage> {
        self.storage.clone()
    }

    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Relaxed)
    }

    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::Relaxed);
    }

    /// Every listed key.
    ///
    /// # Errors
    /// If the directory cannot be read.
    pub(crate) fn list(&self) -> Result<Vec<String>> {
        Ok(self.look_again()?.catalog.list())
    }

    /// See [`Catalog::nameless`](crate::engine::catalog::Catalog::nameless).
    ///
    /// # Errors
    /// If the directory cannot be read.
    pub(crate) fn nameless(&self) -> Result<Vec<String>> {
        Ok(self.look_again()?.catalog.nameless())
    }

    /// See [`Catalog::orphans`](crate::engine::catalog::Catalog::orphans).
    ///
    /// # Errors
    /// If the directory cannot be read.
    pub(crate) fn orphans(&self) -> Result<Vec<String>> {
        Ok(self.look_again()?.catalog.orphans())
    }

    /// See [`alias_conflicts`](crate::engine::catalog::Catalog::alias_conflicts).
    ///
    /// # Errors
    /// If the directory cannot be read.
    pub(crate) fn alias_conflicts(&self) -> Result<Vec<AliasConflict>> {
        Ok(self.look_again()?.catalog.alias_conflicts())
    }

    /// A session as it stands: its file, and what the journal holds beyond it.
    ///
    /// # Errors
    /// If its files cannot be read.
    pub(crate) fn snapshot(&self, key: &str, resolve: bool) -> Result<Arc<Snapshot>> {
        let snapshot = self.session(key, resolve, Pieces::snapshot)?;
        Ok(Arc::new(snapshot))
    }

    /// A session's conversation, as [`snapshot`](Self::snapshot) gives its lines.
    ///
    /// # Errors
    /// If its files cannot be read.
    pub(crate) fn looked(&self, key: &str, resolve: bool) -> Result<Looked> {
        self.session(key, resolve, Pieces::looked)
    }

    /// A session's backups, oldest first.
    ///
    /// # Errors
    /// If they cannot be listed.
    pub(crate) fn backups(&self, key: &str, resolve: bool) -> Result<Vec<Backup>> {
        let moment = self.look_again()?;
        self.backups_at(&moment, key, resolve)
    }

    fn backups_at(&self, moment: &Moment, key: &str, resolve: bool) -> Result<Vec<Backup>> {
        let (_, Some(stem)) = moment.find(key, resolve) else {
            return Ok(Vec::new());
        };
        let planned = self.planned(moment);
        let wrap = |e| Error::io("list", &self.home.backups, e);
        let found = backup::list(&*self.storage, &self.home.backups).map_err(wrap)?;
        let mut own: BTreeMap<u64, Backup> = found
            .into_iter()
            .filter(|stored| *stored.name.stem == *stem && !moment.plans.unmakes(&stored.name))
            .map(|stored| (stored.name.number, stored.name.describe(stored.size)))
            .collect();
        let named = moment.plans.backups.iter().filter_map(|kept| {
            let name = Name::parse(&kept.name).filter(|name| *name.stem == *stem);
            Some((name?, kept))
        });
        let mut sizes: BTreeMap<&str, u64> = BTreeMap::new();
        for (name, kept) in named {
            // Made of the one before it, each would be followed to the first.
            let below = match &kept.plan.base {
                Base::Prefix(prefix) => sizes
                    .get(&*prefix.of)
                    .filter(|size| **size >= prefix.len)
                    .map(|_| prefix.len),
                _ => None,
            };
            let size = match below {
                Some(len) => Some(len + kept.plan.appended().len() as u64),
                None => planned.backup(&kept.name)?.map(|bytes| bytes.size()),
            };
            if let Some(size) = size {
                sizes.insert(&kept.name, size);
                own.insert(name.number, name.describe(size));
            }
        }
        Ok(own.into_values().collect())
    }

    pub(crate) fn home(&self) -> &Home {
        &self.home
    }

    fn planned<'a>(&'a self, moment: &'a Moment) -> Planned<'a> {
        Planned {
            storage: &*self.storage,
            dir: &self.dir,
            backups: &self.home.backups,
            plans: &moment.plans,
        }
    }

    fn session<T>(
        &self,
        key: &str,
        resolve: bool,
        read: impl Fn(Pieces) -> io::Result<T>,
    ) -> Result<T> {
        let mut moment = self.current(key)?;
        let (mut failures, mut seen) = (0, None);
        for _ in 0..CHASES {
            let found = self.pieces_as_seen(&moment, key, resolve, seen.take());
            let found = found.and_then(|pieces| {
                let changed = pieces.changed;
                let found = read(pieces).map_err(|e| Error::io("read", &self.dir, e))?;
                Ok((found, changed))
            });
            let before = moment.standing(key, resolve);
            let number = moment.number;
            // Not held, it is not copied when more is read.
            drop(moment);
            let now = self.catch_up()?;
            moment = match found {
                // Beside a writer, a file may have been replaced, or its sidecar
                // written over, since the journal was read.
                Ok((found, _)) if now.number == number => return Ok(found),
                Ok((found, false)) if now.only_adds_to(&before, key, resolve) => return Ok(found),
                Ok((_, false)) => now,
                // A file that is always written to is ahead of each look before.
                Ok((_, true)) => {
                    seen = self.seen(&now, key, resolve)?;
                    drop(now);
                    self.catch_up()?
                }
                Err(error) => {
                    failures += 1;
                    if failures == TRIES {
                        return Err(error);
                    }
                    drop(now);
                    self.look_again()?
                }
            };
        }
        let outrun = io::Error::other("the session is rewritten faster than it is read");
        Err(Error::io("read", &self.dir, outrun))
    }

    /// The file of a session as it is now, if it has one.
    fn seen(&self, moment: &Moment, key: &str, resolve: bool) -> Result<Option<Bytes>> {
        let (_, Some(stem)) = moment.find(key, resolve) else {
            return Ok(None);
        };
        let file = files::open_log(&*self.storage, &self.dir, &stem, OpenMode::Read);
        match file {
            Ok(Some(file)) => Bytes::whole(Some(file), &self.dir).map(Some),
            // What is in its place is found with the rest.
            _ => Ok(None),
        }
    }

    fn pieces(&self, moment: &Moment, key: &str, resolve: bool) -> Result<Pieces> {
        self.pieces_as_seen(moment, key, resolve, None)
    }

    fn pieces_as_seen(
        &self,
        moment: &Moment,
        key: &str,
        resolve: bool,
        seen: Option<Bytes>,
    ) -> Result<Pieces> {
        let (key, stem) = moment.find(key, resolve);
        session_file::validate_key(&key)?;
        let Some(stem) = stem else {
            return Ok(Pieces::empty(&key));
        };
        let pieces = self.pieces_of(moment, (&stem, &key), seen)?;
        // Another session has the file name since.
        if pieces.exists && *pieces.meta.text.key != *key {
            return Err(self.anothers(moment, (&stem, &key), &pieces.meta.text.key));
        }
        Ok(pieces)
    }

    /// Why the files of a session are not given out: they are another's. The next look does
    /// not believe what was kept.
    fn anothers(&self, moment: &Moment, (stem, key): (&str, &str), now: &str) -> Error {
        self.doubted.fetch_or(moment.is_kept, Ordering::Relaxed);
        Error::Corrupt {
            path: self.dir.join(session_file::sidecar_name(stem)),
            detail: format!("it was {key:?}'s and names the key {now:?} now"),
        }
    }

    fn pieces_of(
        &self,
        moment: &Moment,
        (stem, key): (&str, &str),
        seen: Option<Bytes>,
    ) -> Result<Pieces> {
        if let Some(plan) = moment.plans.sessions.get(stem) {
            let restored = moment.restored.get(stem);
            let planned = self.planned(moment);
            return pieces::planned(planned, restored, (stem, key), plan, seen);
        }
        let mut pieces = load(&*self.storage, &self.dir, stem, key)?;
        if !pieces.sidecar.is_read()
            && let Some(restored) = self.restored(moment, stem)?
        {
            pieces.meta = Meta::of(restored.meta);
        }
        Ok(pieces)
    }

    /// What the copy says of a session whose sidecar does not read. A kept catalog is believed
    /// before the sidecars are looked at: it knows of none that is lost.
    fn restored(&self, moment: &Moment, stem: &str) -> Result<Option<Restored>> {
        if moment.is_kept {
            return Copies::new(&*self.storage, &self.dir, &self.home.copies).restore(stem);
        }
        Ok(moment.restored.get(stem).cloned())
    }

    /// What there is now, with the sidecars looked at if the key is unknown.
    fn current(&self, key: &str) -> Result<Arc<Moment>> {
        let moment = self.catch_up()?;
        if moment.catalog.resolve(key).is_some() {
            return Ok(moment);
        }
        drop(moment);
        self.look_again()
    }

    /// Whether nothing was committed since.
    fn is_current(&self, moment: &Moment) -> bool {
        self.catch_up().is_ok_and(|now| now.number == moment.number)
    }

    /// What there is now, as far as the journal tells.
    fn catch_up(&self) -> Result<Arc<Moment>> {
        self.look(Survey::IfChanged)
    }

    /// What there is now, with all sidecars looked at.
    fn look_again(&self) -> Result<Arc<Moment>> {
        self.look(Survey::Always)
    }

    fn look(&self, survey: Survey) -> Result<Arc<Moment>> {
        if self.closed.load(Ordering::Relaxed) {
            return Err(Error::Closed);
        }
        let believe = if self.doubted.load(Ordering::Relaxed) {
            Believe::Sidecars
        } else {
            Believe::Kept
        };
        let place = Place {
            storage: &*self.storage,
            dir: &self.dir,
            home: &self.home,
            believe,
        };
        self.followed.lock().look(place, survey)
    }
}

#[cfg(test)]
mod tests;
