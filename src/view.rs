//! Reading a directory without owning it: beside its writer, or after a crash
//! before anybody recovered it. Writes nothing, locks nothing.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::catalog::{AliasConflict, Catalog};
use crate::engine::home::Home;
use crate::error::{Error, Result};
use crate::journal::scan::{End, Scan};
use crate::recovery::RecoveryReport;
use crate::recovery::plan::{Base, Plan, Plans};
use crate::recovery::redo::ours;
use crate::recovery::survey::survey;
use crate::shard::load as files;
use crate::snapshot::{Meta, Snapshot};
use crate::stats::Counters;
use crate::storage::{FileKind, OpenMode, Storage, StorageFile};
use crate::sync::Mutex;
use crate::sync::atomic::{AtomicBool, Ordering};

/// How often a look at files that change underneath is repeated.
const TRIES: usize = 20;

/// A directory of sessions, as its files and its journal show it.
#[derive(Debug)]
pub(crate) struct DirectoryView {
    storage: Arc<dyn Storage>,
    dir: PathBuf,
    home: Home,
    report: RecoveryReport,
    counters: Arc<Counters>,
    closed: AtomicBool,
    last: Mutex<Arc<Moment>>,
}

/// What the directory held at one look.
#[derive(Debug, Default)]
struct Moment {
    catalog: Catalog,
    plans: Plans,
    report: RecoveryReport,
    /// The journal's end then. While nothing stands there that did not stand
    /// there before, the journal is the same.
    journal: Option<End>,
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
        let moment = look(&*storage, &dir, &home)?;
        Ok(Self {
            report: moment.report.clone(),
            storage,
            home,
            dir,
            counters: Arc::default(),
            closed: AtomicBool::new(false),
            last: Mutex::new(Arc::new(moment)),
        })
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

    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::Release);
    }

    /// Every listed key.
    ///
    /// # Errors
    /// If the directory cannot be read.
    pub(crate) fn list(&self) -> Result<Vec<String>> {
        Ok(self.look_again()?.catalog.list())
    }

    /// See [`Catalog::resolve`].
    ///
    /// # Errors
    /// If the directory cannot be read.
    pub(crate) fn resolve(&self, key: &str) -> Result<Option<String>> {
        Ok(self.look_again()?.catalog.resolve(key))
    }

    /// See [`Catalog::alias_conflicts`].
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
        let mut last = Err(Error::Closed);
        for _ in 0..TRIES {
            let moment = self.current(key)?;
            last = self.read(&moment, key, resolve);
            // Beside a writer, a file may have been replaced, or its sidecar
            // written over, since the journal was read.
            let unchanged = self.is_current(&moment);
            if last.is_ok() && unchanged {
                break;
            }
        }
        last
    }

    fn read(&self, moment: &Moment, key: &str, resolve: bool) -> Result<Arc<Snapshot>> {
        let other = resolve.then(|| moment.catalog.resolve_other(key)).flatten();
        let key: Arc<str> = other.unwrap_or_else(|| key.into());
        let entry = moment.catalog.get(&key).map(|entry| entry.stem.clone());
        let Some(stem) = entry.or_else(|| moment.catalog.orphan_of(&key)) else {
            return Ok(Arc::new(Snapshot::empty(&key)));
        };
        let snapshot = match moment.plans.sessions.get(&*stem) {
            Some(plan) => planned(&*self.storage, &self.dir, &stem, &key, plan)?,
            None => load(&*self.storage, &self.dir, &stem, &key)?,
        };
        Ok(Arc::new(snapshot))
    }

    /// The last look, if the journal has not moved and knows the key.
    fn current(&self, key: &str) -> Result<Arc<Moment>> {
        if self.closed.load(Ordering::Acquire) {
            return Err(Error::Closed);
        }
        let moment = self.last.lock().clone();
        let known = moment.catalog.resolve(key).is_some();
        if known && self.is_current(&moment) {
            return Ok(moment);
        }
        self.look_again()
    }

    fn is_current(&self, moment: &Moment) -> bool {
        let end = Scan::end(&*self.storage, &self.home.journal);
        end.is_ok_and(|end| end == moment.journal)
    }

    fn look_again(&self) -> Result<Arc<Moment>> {
        if self.closed.load(Ordering::Acquire) {
            return Err(Error::Closed);
        }
        let moment = Arc::new(look(&*self.storage, &self.dir, &self.home)?);
        *self.last.lock() = moment.clone();
        Ok(moment)
    }
}

/// Reads journal and sidecars. A writer beside us may take a segment away, or
/// write on in one, between two of our reads: that looks like damage, and is
/// none if another look does not find it.
fn look(storage: &dyn Storage, dir: &Path, home: &Home) -> Result<Moment> {
    let mut result = try_look(storage, dir, home);
    for _ in 1..TRIES {
        if result.is_ok() {
            break;
        }
        result = try_look(storage, dir, home);
    }
    result
}

fn try_look(storage: &dyn Storage, dir: &Path, home: &Home) -> Result<Moment> {
    let mut moment = Moment::default();
    if let Some(id) = home.read_identity(storage)? {
        let end =
            Scan::end(storage, &home.journal).map_err(|e| Error::io("read", &home.journal, e))?;
        let scan = Scan::read(storage, &home.journal, &id)?;
        scan.replay(storage, |record| moment.plans.add(record))?;
        moment.plans.require_sound(&home.journal)?;
        moment.journal = end;
        moment.report.clean = scan.is_empty() || scan.clean;
        moment.report.torn_bytes = scan.torn_bytes;
        moment.report.replayed_records = moment.plans.records;
    } else {
        moment.report.clean = true;
    }
    let Moment {
        catalog,
        plans,
        report,
        ..
    } = &mut moment;
    survey(storage, dir, plans, catalog, report)?;
    Ok(moment)
}

/// A session from its two files alone.
///
/// # Errors
/// If they cannot be read.
pub(crate) fn load(storage: &dyn Storage, dir: &Path, stem: &str, key: &str) -> Result<Snapshot> {
    let (meta, _) = files::read_sidecar(storage, dir, stem, key)?;
    let file = files::open_log(storage, dir, stem, OpenMode::Read)?;
    let len = match &file {
        Some(file) => file.info().map_err(|e| Error::io("read", dir, e))?.len,
        None => 0,
    };
    compose(file, len, &[], meta, dir)
}

/// A session the journal may hold more of than its files.
fn planned(
    storage: &dyn Storage,
    dir: &Path,
    stem: &str,
    key: &str,
    plan: &Plan,
) -> Result<Snapshot> {
    if !plan.exists() {
        return Ok(Snapshot::empty(key));
    }
    let (on_disk, _) = files::read_sidecar(storage, dir, stem, key)?;
    let meta = Meta::of(plan.meta(|| on_disk.to_sidecar()));
    let (appended_at, appended) = match &plan.appended {
        Some((offset, lines)) => (Some(*offset), &lines[..]),
        None => (None, &[][..]),
    };
    let log = || files::open_log(storage, dir, stem, OpenMode::Read);
    let (file, base, journalled) = match &plan.base {
        Base::Deleted => (None, Some(0), appended.to_vec()),
        Base::OnDisk => (log()?, appended_at, appended.to_vec()),
        Base::Swapped(swap) => {
            let temp = storage.open(&dir.join(&swap.temp), OpenMode::Read).ok();
            let file = if temp.is_some() { temp } else { log()? };
            (file, Some(swap.len), [&swap.tail, appended].concat())
        }
    };
    let len = match &file {
        Some(file) => file.info().map_err(|e| Error::io("read", dir, e))?.len,
        None => 0,
    };
    let base = base.unwrap_or(len);
    let (len, behind) = behind_base(file.as_deref(), len, base, journalled)
        .map_err(|e| Error::io("read", dir, e))?;
    compose(file, len, &behind, meta, dir)
}

/// How much of a file recovery would leave alone, and what it would make stand
/// behind that. What the file has there already may be the zeros a power loss
/// left, so the journal's bytes count.
fn behind_base(
    file: Option<&dyn StorageFile>,
    len: u64,
    base: u64,
    mut journalled: Vec<u8>,
) -> io::Result<(u64, Vec<u8>)> {
    let Some(file) = file else {
        return Ok((0, journalled));
    };
    if len < base || !ours(file, base, &journalled, len)? {
        let mut last = [b'\n'];
        if len > 0 {
            file.read_exact_at(&mut last, len - 1)?;
        }
        if last != *b"\n" {
            journalled.insert(0, b'\n');
        }
        return Ok((len, journalled));
    }
    let end = base + journalled.len() as u64;
    let journal_len = journalled.len();
    journalled.resize(journal_len + len.saturating_sub(end) as usize, 0);
    file.read_exact_at(&mut journalled[journal_len..], end)?;
    Ok((base, journalled))
}

/// A snapshot of `file[..len]` and the journalled lines behind it.
fn compose(
    file: Option<Arc<dyn StorageFile>>,
    len: u64,
    journalled: &[u8],
    meta: Meta,
    dir: &Path,
) -> Result<Snapshot> {
    let extent = files::measure(file.as_deref(), len, journalled, meta.skip)
        .map_err(|e| Error::io("read", dir, e))?;
    let live = extent.start.saturating_sub(len) as usize;
    let mut snapshot = Snapshot::without_lines(meta.clone());
    snapshot.live.tail.extend(&journalled[live..], meta);
    snapshot.tail_len = journalled.len() - live;
    snapshot.live.file = file;
    snapshot.live.start = extent.start.min(len);
    snapshot.live.end = len;
    Ok(snapshot)
}
