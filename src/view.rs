//! Reading a directory without owning it: beside its writer, or after a crash
//! before anybody recovered it. Writes nothing, locks nothing.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::catalog::{AliasConflict, Catalog};
use crate::copies::lost::{Copies, Restored};
use crate::engine::home::Home;
use crate::error::{Error, Result};
use crate::journal::scan::{End, Scan, Tip};
use crate::recovery::RecoveryReport;
use crate::recovery::plan::{Base, Kept, Plan, Plans};
use crate::recovery::redo::{self, glued, ours, resumed_at};
use crate::recovery::survey::survey;
use crate::shard::backup::{self, Backup, Name};
use crate::shard::conversation::fold;
use crate::shard::load as files;
use crate::shard::session::Sidecar;
use crate::snapshot::{Looked, Meta, Snapshot, Tail};
use crate::stats::Counters;
use crate::storage::{FileKind, OpenMode, Storage, StorageFile};
use crate::sync::Mutex;
use crate::sync::atomic::{AtomicBool, Ordering};

/// How often a look at files that change underneath is repeated.
const TRIES: usize = 20;

/// How often a session is read anew that a writer rewrote meanwhile. What was read
/// then is of two moments, and is not shown.
const CHASES: usize = 1_000;

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
    /// The sidecars that are lost, as their copies have them.
    restored: BTreeMap<String, Restored>,
    report: RecoveryReport,
    /// The journal's end then. While nothing stands there that did not stand
    /// there before, the journal is the same.
    journal: Option<End>,
    tips: Vec<Tip>,
    /// Up to which batch the journal says that everything is in the files.
    checkpoint: u64,
}

impl Moment {
    /// The session that `key` means, and the name of its files, if it has any.
    fn find(&self, key: &str, resolve: bool) -> (Arc<str>, Option<Arc<str>>) {
        let other = resolve.then(|| self.catalog.resolve_other(key)).flatten();
        let key: Arc<str> = other.unwrap_or_else(|| key.into());
        let entry = self.catalog.get(&key).map(|entry| entry.stem.clone());
        let stem = entry.or_else(|| self.catalog.orphan_of(&key));
        (key, stem)
    }

    /// Whether the session of `key` still stands on what it stood on in the moment
    /// before: what was read of its files in between then belongs to that moment.
    /// Another session's commits do not count, nor do lines appended since; beside
    /// a busy writer the journal as a whole never stands still.
    fn only_adds_to(&self, before: &Self, key: &str, resolve: bool) -> bool {
        let (_, stem) = before.find(key, resolve);
        let same = stem == self.find(key, resolve).1 && self.checkpoint == before.checkpoint;
        let plans = stem.map(|stem| [before, self].map(|m| m.plans.sessions.get(&*stem)));
        same && match plans {
            None | Some([None, None]) => true,
            Some([Some(before), Some(now)]) => now.only_adds_to(before),
            Some(_) => false,
        }
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
        self.closed.store(true, Ordering::Relaxed);
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
                Base::Prefix(prefix) => sizes.get(&*prefix.of).map(|size| (size, prefix.len)),
                _ => None,
            };
            let size = match below {
                Some((size, len)) => Some((*size).min(len) + kept.plan.appended().len() as u64),
                None => planned.backup(&kept.name)?.map(|bytes| bytes.size()),
            };
            if let Some(size) = size {
                sizes.insert(&kept.name, size);
                own.insert(name.number, name.describe(size));
            }
        }
        Ok(own.into_values().collect())
    }

    fn planned<'a>(&'a self, moment: &'a Moment) -> Planned<'a> {
        Planned {
            storage: &*self.storage,
            dir: &self.dir,
            home: &self.home,
            plans: &moment.plans,
            restored: &moment.restored,
        }
    }

    fn session<T>(
        &self,
        key: &str,
        resolve: bool,
        read: impl Fn(Pieces) -> io::Result<T>,
    ) -> Result<T> {
        let mut moment = self.current(key)?;
        let mut failures = 0;
        for _ in 0..CHASES {
            let found = self
                .pieces(&moment, key, resolve)
                .and_then(|pieces| read(pieces).map_err(|e| Error::io("read", &self.dir, e)));
            // Beside a writer, a file may have been replaced, or its sidecar
            // written over, since the journal was read.
            if found.is_ok() && self.is_current(&moment) {
                return found;
            }
            failures += usize::from(found.is_err());
            if failures == TRIES {
                return found;
            }
            let now = self.look_again()?;
            if found.is_ok() && now.only_adds_to(&moment, key, resolve) {
                return found;
            }
            moment = now;
        }
        let outrun = io::Error::other("the session is rewritten faster than it is read");
        Err(Error::io("read", &self.dir, outrun))
    }

    fn pieces(&self, moment: &Moment, key: &str, resolve: bool) -> Result<Pieces> {
        let (key, stem) = moment.find(key, resolve);
        crate::session_file::validate_key(&key)?;
        let Some(stem) = stem else {
            return Ok(Pieces::empty(&key));
        };
        if let Some(plan) = moment.plans.sessions.get(&*stem) {
            return self.planned(moment).session(&stem, &key, plan);
        }
        let mut pieces = load(&*self.storage, &self.dir, &stem, &key)?;
        if let Some(restored) = moment.restored.get(&*stem)
            && pieces.sidecar != Sidecar::Present
        {
            pieces.meta = Meta::of(restored.meta.clone());
        }
        Ok(pieces)
    }

    /// The last look, if the journal has not moved and knows the key.
    fn current(&self, key: &str) -> Result<Arc<Moment>> {
        if self.closed.load(Ordering::Relaxed) {
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
        let is_free = |tip: &Tip| tip.is_taken(&*self.storage).is_ok_and(|taken| !taken);
        end.is_ok_and(|end| end == moment.journal) && moment.tips.iter().all(is_free)
    }

    fn look_again(&self) -> Result<Arc<Moment>> {
        if self.closed.load(Ordering::Relaxed) {
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
        moment.checkpoint = scan.checkpoint;
        moment.tips = scan.tips;
    } else if home.has_segments(storage).unwrap_or(false) {
        // What the journal holds would be missing from every answer.
        return Err(home.missing_identity());
    } else {
        moment.report.clean = true;
    }
    let Moment {
        catalog,
        plans,
        report,
        ..
    } = &mut moment;
    let mut copies = Copies::new(storage, dir, &home.copies);
    moment.restored = survey(storage, dir, plans, catalog, &mut copies, report)?;
    Ok(moment)
}

/// A session from its two files alone.
///
/// # Errors
/// If they cannot be read.
pub(crate) fn load(storage: &dyn Storage, dir: &Path, stem: &str, key: &str) -> Result<Pieces> {
    let (meta, sidecar) = files::read_sidecar(storage, dir, stem, key)?;
    let file = files::open_log(storage, dir, stem, OpenMode::Read)?;
    Ok(Pieces {
        bytes: Bytes::whole(file, dir)?,
        meta,
        sidecar,
    })
}

/// What a session is made of when nobody owns it.
#[derive(Debug)]
pub(crate) struct Pieces {
    bytes: Bytes,
    meta: Meta,
    /// Where `meta` comes from.
    sidecar: Sidecar,
}

/// The lines of a session, or of a backup: a file as far as it counts, and what
/// the journal puts behind that.
#[derive(Debug)]
pub(crate) struct Bytes {
    pub(crate) file: Option<Arc<dyn StorageFile>>,
    pub(crate) len: u64,
    pub(crate) behind: Vec<u8>,
}

impl Bytes {
    fn whole(file: Option<Arc<dyn StorageFile>>, path: &Path) -> Result<Self> {
        let len = match &file {
            Some(file) => file.info().map_err(|e| Error::io("read", path, e))?.len,
            None => 0,
        };
        Ok(Self {
            file,
            len,
            behind: Vec::new(),
        })
    }

    fn size(&self) -> u64 {
        self.len + self.behind.len() as u64
    }

    /// Without what stands at `len` and behind.
    fn cut(mut self, len: u64) -> Self {
        self.behind.truncate(len.saturating_sub(self.len) as usize);
        self.len = self.len.min(len);
        self
    }
}

impl Pieces {
    fn empty(key: &str) -> Self {
        Self {
            bytes: Bytes {
                file: None,
                len: 0,
                behind: Vec::new(),
            },
            meta: Meta::empty(key),
            sidecar: Sidecar::Missing,
        }
    }

    /// The live lines.
    ///
    /// # Errors
    /// As the operating system reports them.
    pub(crate) fn snapshot(self) -> io::Result<Snapshot> {
        let start = self.extent()?.start;
        Ok(self.from(start))
    }

    /// All lines, and what they say of the conversation.
    ///
    /// # Errors
    /// As the operating system reports them.
    pub(crate) fn looked(self) -> io::Result<Looked> {
        let extent = self.extent()?;
        let Bytes { file, len, behind } = &self.bytes;
        let conversation = fold(file.as_deref(), *len, behind)?;
        Ok(Looked {
            conversation: Arc::new(conversation),
            start: extent.start,
            end: extent.end,
            lines: extent.lines,
            snapshot: self.from(0),
        })
    }

    fn extent(&self) -> io::Result<files::Extent> {
        let Bytes { file, len, behind } = &self.bytes;
        files::measure(file.as_deref(), *len, behind, self.meta.skip)
    }

    fn from(self, start: u64) -> Snapshot {
        let Bytes { file, len, behind } = self.bytes;
        let live = start.saturating_sub(len) as usize;
        let mut snapshot = Snapshot::without_lines(self.meta.clone());
        snapshot.live.tail = Tail::with_lines(self.meta, behind[live..].to_vec());
        snapshot.tail_len = behind.len() - live;
        snapshot.live.file = file;
        snapshot.live.start = start.min(len);
        snapshot.live.end = len;
        snapshot
    }
}

/// What the journal may hold more of than the files.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Planned<'a> {
    pub(crate) storage: &'a dyn Storage,
    pub(crate) dir: &'a Path,
    pub(crate) home: &'a Home,
    pub(crate) plans: &'a Plans,
    /// Lost sidecars, as their copies have them.
    pub(crate) restored: &'a BTreeMap<String, Restored>,
}

impl Planned<'_> {
    /// All lines of a session.
    ///
    /// # Errors
    /// If its files cannot be read.
    pub(crate) fn lines(self, stem: &str) -> Result<Bytes> {
        let log = || files::open_log(self.storage, self.dir, stem, OpenMode::Read);
        match self.plans.sessions.get(stem) {
            Some(plan) => self.bytes(plan, &log),
            None => Bytes::whole(log()?, self.dir),
        }
    }

    fn session(self, stem: &str, key: &str, plan: &Plan) -> Result<Pieces> {
        if !plan.exists() {
            return Ok(Pieces::empty(key));
        }
        let (on_disk, sidecar) = files::read_sidecar(self.storage, self.dir, stem, key)?;
        let meta = match self.restored.get(stem) {
            Some(restored) if sidecar != Sidecar::Present => plan.meta_restored(restored),
            _ => plan.meta(|| on_disk.to_sidecar()),
        };
        let log = || files::open_log(self.storage, self.dir, stem, OpenMode::Read);
        Ok(Pieces {
            bytes: self.bytes(plan, &log)?,
            meta: Meta::of(meta),
            sidecar,
        })
    }

    /// A file that `log` opens, as `plan` would have it.
    ///
    /// What was taken back many times is the beginning of a backup, which is the
    /// beginning of another, and so on: as deep as there were reverts since the
    /// last checkpoint, so it is walked down and up, not recursed into.
    fn bytes(
        self,
        plan: &Plan,
        log: &dyn Fn() -> Result<Option<Arc<dyn StorageFile>>>,
    ) -> Result<Bytes> {
        let ground = |plan: &Plan, kept: Option<&Kept>| match kept {
            None => self.grounded(plan, log),
            Some(kept) => self.grounded(plan, &|| self.kept_log(kept)),
        };
        let mut level = (plan, None);
        let mut above = Vec::new();
        let mut bytes = loop {
            let (plan, kept) = level;
            let Base::Prefix(prefix) = &plan.base else {
                break ground(plan, kept)?;
            };
            if let Some(next) = self.plans.backup(&prefix.of) {
                above.push((prefix.len, level));
                level = (&next.plan, Some(next));
            } else if let Some(whole) = self.unplanned(&prefix.of)? {
                above.push((prefix.len, level));
                break whole;
            } else {
                break ground(plan, kept)?;
            }
        };
        // Of what is gone nothing can be the beginning.
        if level.1.is_some_and(|kept| kept.is_gone(&bytes))
            && let Some((_, (plan, kept))) = above.pop()
        {
            bytes = ground(plan, kept)?;
        }
        for (len, (plan, _)) in above.into_iter().rev() {
            bytes = bytes.cut(len);
            bytes.behind.extend_from_slice(plan.appended());
        }
        Ok(bytes)
    }

    /// [`bytes`](Self::bytes) of what is the beginning of no backup, or of one
    /// that is gone.
    fn grounded(
        self,
        plan: &Plan,
        log: &dyn Fn() -> Result<Option<Arc<dyn StorageFile>>>,
    ) -> Result<Bytes> {
        let appended = plan.appended();
        let appended_at = plan.appended.as_ref().map(|(offset, _)| *offset);
        let (file, base, journalled) = match &plan.base {
            Base::Deleted => (None, Some(0), appended.to_vec()),
            Base::OnDisk | Base::Prefix(_) => (log()?, appended_at, appended.to_vec()),
            Base::Swapped(swap) => {
                let temp = self.dir.join(&swap.temp);
                let temp = self.storage.open(&temp, OpenMode::Read).ok();
                let file = if temp.is_some() { temp } else { log()? };
                if file.is_none() {
                    return Err(redo::gone(self.dir));
                }
                (file, Some(swap.len), [&swap.tail, appended].concat())
            }
        };
        let Bytes { file, len, .. } = Bytes::whole(file, self.dir)?;
        let base = base.unwrap_or(len);
        let (len, behind) = behind_base(file.as_deref(), len, base, journalled)
            .map_err(|e| Error::io("read", self.dir, e))?;
        Ok(Bytes { file, len, behind })
    }

    /// A backup, if it is there.
    fn backup(self, name: &str) -> Result<Option<Bytes>> {
        let Some(kept) = self.plans.backup(name) else {
            return self.unplanned(name);
        };
        let bytes = self.bytes(&kept.plan, &|| self.kept_log(kept))?;
        Ok((!kept.is_gone(&bytes)).then_some(bytes))
    }

    /// A backup that the journal does not speak of, if it is there.
    fn unplanned(self, name: &str) -> Result<Option<Bytes>> {
        let path = self.home.backups.join(name);
        let file = self.open_if_there(&path)?;
        let there = file.is_some();
        Ok(there.then_some(Bytes::whole(file, &path)?))
    }

    /// The file of a backup that the journal made. Its second name becomes the
    /// backup's between two looks, never the other way round.
    fn kept_log(self, kept: &Kept) -> Result<Option<Arc<dyn StorageFile>>> {
        for name in [&kept.name, &kept.link, &kept.name] {
            let found = self.open_if_there(&self.home.backups.join(name))?;
            if found.is_some() {
                return Ok(found);
            }
        }
        Ok(None)
    }

    fn open_if_there(self, path: &Path) -> Result<Option<Arc<dyn StorageFile>>> {
        match self.storage.open(path, OpenMode::Read) {
            Ok(file) => Ok(Some(file)),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(e) => Err(Error::io("open", path, e)),
        }
    }
}

impl Kept {
    /// Whether it was pruned, or deleted with its session: the journal has moved
    /// on then, and whoever asks looks again.
    fn is_gone(&self, bytes: &Bytes) -> bool {
        let needs_file = matches!(self.plan.base, Base::OnDisk | Base::Swapped(_));
        needs_file && bytes.file.is_none()
    }
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
    let holds = len >= base && ours(file, base, &journalled, len)?;
    let base = if holds || journalled.is_empty() {
        base
    } else if let Some(resumed) = resumed_at(file, &journalled, len)? {
        resumed
    } else {
        let mut last = [b'\n'];
        if len > 0 {
            file.read_exact_at(&mut last, len - 1)?;
        }
        if last != *b"\n" {
            journalled.insert(0, b'\n');
        }
        return Ok((len, journalled));
    };
    // The line feed before them is damaged; recovery puts it back.
    if holds && len > base && glued(file, base, &journalled)? {
        let (len, behind) = behind(file, len, base, journalled)?;
        return Ok((len - 1, [b"\n", &behind[..]].concat()));
    }
    behind(file, len, base, journalled)
}

/// The same where the journalled lines stand at `base`.
fn behind(
    file: &dyn StorageFile,
    len: u64,
    base: u64,
    mut journalled: Vec<u8>,
) -> io::Result<(u64, Vec<u8>)> {
    let end = base + journalled.len() as u64;
    let journal_len = journalled.len();
    journalled.resize(journal_len + len.saturating_sub(end) as usize, 0);
    file.read_exact_at(&mut journalled[journal_len..], end)?;
    Ok((base, journalled))
}

#[cfg(test)]
mod tests;
