//! Reads a directory without owning it: beside its writer, or after a crash before it was
//! recovered. Writes nothing, locks nothing.
//!
//! Journal and sidecars become plans that are never carried out: a session is its file plus the
//! lines that its plan would add. For a lost sidecar, the copy is shown.
//!
//! A view reads the journal once, and later only the added part. For a session, it looks at the
//! files first and at the journal then: see [`group`]. It looks at the sidecars again if the
//! journal reports sessions that came, went or got another name since, if the key is unknown, or if
//! the files name another key. A session with files that are replaced each time it is read is an
//! error, never a mixture of two moments.
//!
//! A writer that came and went between two looks may leave an empty journal, as the one before did.
//! The lock's file tells the two writers apart (`home/life.rs`).

mod follow;
mod group;
mod listing;
mod moment;
mod naming;
mod pieces;

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use self::follow::Following;
pub(crate) use self::group::{Depth, Group, TOGETHER};
pub(crate) use self::listing::Listing;
use self::moment::{Believe, CoveredPlans, DirectoryMoment, FollowedLook, Survey, TRIES, ViewDir};
use self::pieces::Pieces;
pub(crate) use self::pieces::load;
use sessionlog_core::error::{Error, Result};
use sessionlog_core::session_file;
use sessionlog_wal::storage::{FileKind, Storage};
use sessionlog_wal::sync::Mutex;
use sessionlog_wal::sync::atomic::{AtomicBool, Ordering};

use crate::disk::copies::lost::{Copies, RestoredSidecar};
use crate::disk::files::backup::{self, Backup, BackupName};
use crate::engine::catalog::AliasConflict;
use crate::engine::glance::{self, GLANCES};
use crate::engine::home::Home;
use crate::engine::recovery::RecoveryReport;
use crate::engine::recovery::foreign::{ForeignVerdict, SessionFiles, judge_as_seen};
use crate::engine::recovery::plan::Base;
use crate::engine::recovery::planned::PlannedFiles;
use crate::engine::snapshot::{ConversationMoment, Snapshot};
use crate::engine::stats::Counters;

/// Number of times that a session is read anew because a writer rewrote it meanwhile. A read during
/// the rewrite is of two moments, and is not shown.
const CHASES: usize = 1_000;

/// A directory of sessions, as its files and its journal show it.
pub(crate) struct DirectoryView {
    storage: Arc<dyn Storage>,
    dir: PathBuf,
    home: Home,
    report: RecoveryReport,
    counters: Arc<Counters>,
    closed: AtomicBool,
    /// True if the kept catalog was found to be wrong: another program wrote a sidecar in place.
    doubted: AtomicBool,
    followed: Mutex<FollowedLook>,
    following: Following,
}

/// Without the sessions: this ends up in logs, and would hold up other readers.
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

    /// Reports the changes of other programs. A session with files that are replaced while they are
    /// looked at was changed by its writer.
    fn report_changes(&mut self) -> Result<()> {
        let begin = self.begin()?;
        let mut report = begin.report.clone();
        let stems: Vec<String> = begin.plans.sessions.keys().cloned().collect();
        drop(begin);
        for stems in stems.chunks(TOGETHER) {
            let mut judged = self.judged(stems)?;
            for _ in 1..TRIES {
                if judged.is_some() {
                    break;
                }
                judged = self.judged(stems)?;
            }
            for judged in judged.unwrap_or_default() {
                match judged {
                    ForeignVerdict::Ours { finding, .. } => report.findings.extend(finding),
                    ForeignVerdict::Changed(changed) if changed.lost => {
                        report.lose(changed.finding);
                    }
                    ForeignVerdict::Changed(changed) => report.findings.push(changed.finding),
                    ForeignVerdict::Barred(barred) => report.findings.push(barred.finding),
                }
            }
        }
        self.report = report;
        Ok(())
    }

    /// Returns the verdicts on sessions that the journal names, unless a checkpoint came in
    /// between.
    fn judged(&self, stems: &[String]) -> Result<Option<Vec<ForeignVerdict>>> {
        let era = self.begin()?.era;
        let files = |stem: &String| SessionFiles::of(&*self.storage, &self.dir, stem);
        let files = glance::each(stems, GLANCES, &files);
        let moment = self.go_on()?;
        if moment.era != era {
            return Ok(None);
        }
        let planned = self.planned(&moment);
        let both = stems.iter().zip(files);
        let judged = both.filter_map(|(stem, files)| {
            let plan = moment.plans.sessions.get(stem)?;
            let judged = files.and_then(|files| judge_as_seen(planned, stem, plan, files));
            judged.transpose()
        });
        judged.collect::<Result<_>>().map(Some)
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

    /// Returns every listed key.
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

    /// Returns a session as it stands: its file, and the lines that the journal holds beyond it.
    ///
    /// # Errors
    /// If its files cannot be read.
    pub(crate) fn snapshot(&self, key: &str, resolve: bool) -> Result<Arc<Snapshot>> {
        let snapshot = self.session(key, resolve, Pieces::snapshot)?;
        Ok(Arc::new(snapshot))
    }

    /// Returns a session's conversation, of the lines that [`snapshot`](Self::snapshot) returns.
    ///
    /// # Errors
    /// If its files cannot be read.
    pub(crate) fn looked(&self, key: &str, resolve: bool) -> Result<ConversationMoment> {
        self.session(key, resolve, Pieces::looked)
    }

    /// Returns a session's backups, oldest first.
    ///
    /// # Errors
    /// If they cannot be listed.
    pub(crate) fn backups(&self, key: &str, resolve: bool) -> Result<Vec<Backup>> {
        let moment = self.look_again()?;
        self.backups_at(&moment, key, resolve)
    }

    fn backups_at(
        &self,
        moment: &DirectoryMoment,
        key: &str,
        resolve: bool,
    ) -> Result<Vec<Backup>> {
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
            let name = BackupName::parse(&kept.name).filter(|name| *name.stem == *stem);
            Some((name?, kept))
        });
        let mut sizes: BTreeMap<&str, u64> = BTreeMap::new();
        for (name, kept) in named {
            // Otherwise each would be followed down to the first.
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

    fn planned<'a>(&'a self, moment: &'a DirectoryMoment) -> PlannedFiles<'a> {
        PlannedFiles {
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
        let mut failures = 0;
        loop {
            // Its moment is not held while it is read, so that it need not be copied when others
            // look.
            let (_, pieces) = self.chase(key, resolve, Depth::Both)?;
            match read(pieces) {
                Ok(found) => return Ok(found),
                Err(error) => {
                    failures += 1;
                    if failures == TRIES {
                        return Err(Error::io("read", &self.dir, error));
                    }
                }
            }
        }
    }

    /// Looks at a session until its files have the same names throughout.
    fn chase(&self, key: &str, resolve: bool, depth: Depth) -> Result<(Group<'_>, Pieces)> {
        let mut begin = self.current(key)?;
        let mut failures = 0;
        for _ in 0..CHASES {
            let group = Group::since(self, begin, (&[key], resolve), depth);
            let found = group.and_then(|group| {
                let Some(group) = group else { return Ok(None) };
                let pieces = group.pieces(key, resolve)?;
                Ok(pieces.map(|pieces| (group, pieces)))
            });
            begin = match found {
                Ok(Some(found)) => return Ok(found),
                Ok(None) => self.begin()?,
                Err(error) => {
                    failures += 1;
                    if failures == TRIES {
                        return Err(error);
                    }
                    self.look_again()?
                }
            };
        }
        let outrun = io::Error::other("the session is rewritten faster than it is read");
        Err(Error::io("read", &self.dir, outrun))
    }

    /// Returns the error for a session's files that are another's. The next look does not trust the
    /// kept catalog.
    fn anothers(&self, moment: &DirectoryMoment, (stem, key): (&str, &str), now: &str) -> Error {
        self.doubted.fetch_or(moment.is_kept, Ordering::Relaxed);
        Error::Corrupt {
            path: self.dir.join(session_file::sidecar_name(stem)),
            detail: format!("it was {key:?}'s and names the key {now:?} now"),
        }
    }

    /// Returns the copy of a session's sidecar that does not read. A kept catalog is trusted before
    /// the sidecars are looked at, so it knows of no lost ones.
    fn restored(&self, moment: &DirectoryMoment, stem: &str) -> Result<Option<RestoredSidecar>> {
        if moment.is_kept {
            return Copies::new(&*self.storage, &self.dir, &self.home.copies).restore(stem);
        }
        Ok(moment.restored.get(stem).cloned())
    }

    /// Returns the present moment, with the sidecars looked at if the key is unknown.
    fn current(&self, key: &str) -> Result<Arc<DirectoryMoment>> {
        let moment = self.begin()?;
        if moment.catalog.resolve(key).is_some() {
            return Ok(moment);
        }
        drop(moment);
        self.look_again()
    }

    /// Returns the present moment, as far as the journal shows it.
    fn begin(&self) -> Result<Arc<DirectoryMoment>> {
        self.look(Survey::IfChanged, CoveredPlans::Go)
    }

    /// Does the same, staying in the same era if possible: files were looked at in it.
    fn go_on(&self) -> Result<Arc<DirectoryMoment>> {
        self.look(Survey::IfChanged, CoveredPlans::Stay)
    }

    /// Returns the present moment, with all sidecars looked at.
    fn look_again(&self) -> Result<Arc<DirectoryMoment>> {
        self.look(Survey::Always, CoveredPlans::Go)
    }

    fn look(&self, survey: Survey, covered: CoveredPlans) -> Result<Arc<DirectoryMoment>> {
        if self.closed.load(Ordering::Relaxed) {
            return Err(Error::Closed);
        }
        let believe = if self.doubted.load(Ordering::Relaxed) {
            Believe::Sidecars
        } else {
            Believe::Kept
        };
        let place = ViewDir {
            storage: &*self.storage,
            dir: &self.dir,
            home: &self.home,
            believe,
        };
        self.followed.lock().look(place, survey, covered)
    }
}

#[cfg(test)]
mod tests;
