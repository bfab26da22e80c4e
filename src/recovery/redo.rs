//! Carrying out what the journal says, in two steps: everything that can be
//! written beside what is there is written and synced; then names change. A
//! crash between them finds the journal untouched and both sets of files whole.

mod backups;

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::plan::{Base, Kept, Plan, Plans, Swap};
use super::report::RecoveryReport;
use crate::copies::lost::Copies;
use crate::error::{Error, Result};
use crate::session_file::{self, SessionMeta};
use crate::shard::load;
use crate::shard::rewrite::{is_temp_name, log_path};
use crate::storage::{FileKind, OpenMode, Storage, StorageFile};

/// Where a store's files are.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Places<'a> {
    pub(crate) dir: &'a Path,
    /// Where damaged sidecars are set aside, and what has the name of one and is
    /// somebody's session.
    pub(crate) quarantine: &'a Path,
    pub(crate) backups: &'a Path,
}

/// Brings all session files and backups up to the journal and makes them
/// durable.
///
/// # Errors
/// As the operating system reports them. The journal is untouched then, and
/// opening again does the same again.
pub(crate) fn redo(
    storage: &dyn Storage,
    places: Places<'_>,
    plans: &Plans,
    copies: &mut Copies<'_>,
    report: &mut RecoveryReport,
) -> Result<()> {
    let Places {
        dir,
        quarantine,
        backups,
    } = places;
    let mut redo = Redo {
        storage,
        dir,
        quarantine,
        backups,
        kept: BTreeMap::new(),
        report,
        renames: Vec::new(),
        removals: Vec::new(),
        counter: 0,
    };
    redo.clear_scratch()?;
    if plans.sessions.is_empty() {
        // A sync of the whole file system waits for what every other program
        // wrote; there is nothing of ours to wait for.
        return redo.clear_temps(plans);
    }
    for kept in &plans.backups {
        redo.backup(kept)?;
    }
    for (stem, plan) in &plans.sessions {
        redo.session(stem, plan, copies)?;
    }
    redo.remove_backups(plans)?;
    let sync = || storage.sync_all(dir).map_err(|e| Error::io("sync", dir, e));
    sync()?;
    redo.change_names()?;
    redo.clear_temps(plans)?;
    sync()
}

struct Redo<'a> {
    storage: &'a dyn Storage,
    dir: &'a Path,
    quarantine: &'a Path,
    backups: &'a Path,
    /// Where the bytes of each backup that the journal made are now, by its
    /// file name.
    kept: BTreeMap<String, PathBuf>,
    report: &'a mut RecoveryReport,
    renames: Vec<(PathBuf, PathBuf)>,
    removals: Vec<PathBuf>,
    counter: u64,
}

impl Redo<'_> {
    fn session(&mut self, stem: &str, plan: &Plan, copies: &mut Copies<'_>) -> Result<()> {
        if !plan.exists() {
            self.removals.push(log_path(self.dir, stem));
            self.removals.push(self.sidecar_path(stem));
            return Ok(());
        }
        self.log(stem, plan)?;
        self.sidecar(stem, plan, copies)
    }

    fn log(&mut self, stem: &str, plan: &Plan) -> Result<()> {
        match &plan.base {
            Base::OnDisk => self.append_in_place(stem, plan),
            Base::Deleted => self.start_anew(stem, plan),
            Base::Swapped(swap) => self.swap(stem, swap, plan),
            Base::Prefix(prefix) => match self.rebuild(prefix, plan)? {
                Some(scratch) => {
                    self.renames.push((scratch, log_path(self.dir, stem)));
                    Ok(())
                }
                None => self.append_in_place(stem, plan),
            },
        }
    }

    fn append_in_place(&mut self, stem: &str, plan: &Plan) -> Result<()> {
        let Some((offset, lines)) = &plan.appended else {
            return Ok(());
        };
        if lines.is_empty() {
            return Ok(());
        }
        let path = log_path(self.dir, stem);
        let file = self.open_or_create(&path)?;
        self.put(&*file, &path, *offset, lines)
    }

    /// Puts journalled lines where they belong, or behind what another program
    /// wrote there meanwhile.
    fn put(
        &mut self,
        file: &dyn StorageFile,
        path: &Path,
        offset: u64,
        lines: &[u8],
    ) -> Result<()> {
        let wrap = |e| Error::io("recover", path, e);
        let len = file.info().map_err(wrap)?.len;
        let here = len >= offset && ours(file, offset, lines, len).map_err(wrap)?;
        let glued = here && glued(file, offset, lines).map_err(wrap)?;
        if here && (!glued || len > offset) {
            if glued {
                // The line feed before them is damaged: without it the line
                // before would take the first of them along.
                self.report.findings.push(format!(
                    "{} is damaged before byte {offset}, where journalled lines begin",
                    path.display(),
                ));
                file.write_all_at(b"\n", offset - 1).map_err(wrap)?;
            }
            return file.write_all_at(lines, offset).map_err(wrap);
        }
        if let Some(at) = resumed_at(file, lines, len).map_err(wrap)? {
            return file.write_all_at(lines, at).map_err(wrap);
        }
        self.report.findings.push(format!(
            "{} was changed by another program after a crash; {} journalled bytes were appended",
            path.display(),
            lines.len(),
        ));
        let mut at = len;
        if len > 0 {
            let mut last = [0];
            file.read_exact_at(&mut last, len - 1).map_err(wrap)?;
            if last != *b"\n" {
                file.write_all_at(b"\n", at).map_err(wrap)?;
                at += 1;
            }
        }
        file.write_all_at(lines, at).map_err(wrap)
    }

    /// The session was deleted and written to again: its file starts empty.
    fn start_anew(&mut self, stem: &str, plan: &Plan) -> Result<()> {
        let lines = plan.appended.as_ref().map_or(&[][..], |(_, lines)| lines);
        let path = log_path(self.dir, stem);
        if lines.is_empty() {
            self.removals.push(path);
            return Ok(());
        }
        let (temp, file) = self.scratch()?;
        file.write_all_at(lines, 0)
            .map_err(|e| Error::io("recover", &temp, e))?;
        self.renames.push((temp, path));
        Ok(())
    }

    fn swap(&mut self, stem: &str, swap: &Swap, plan: &Plan) -> Result<()> {
        let path = log_path(self.dir, stem);
        let temp = self.dir.join(&swap.temp);
        let behind = swap.len + swap.tail.len() as u64;
        let file = match self.storage.open(&temp, OpenMode::ReadWrite) {
            Ok(file) => {
                self.renames.push((temp.clone(), path.clone()));
                check(&*file, swap, &temp)?;
                file
            }
            Err(e) if e.kind() == io::ErrorKind::NotFound => {
                // Renamed before the crash: the file there must be the one.
                let file = match self.storage.open(&path, OpenMode::ReadWrite) {
                    Err(e) if e.kind() == io::ErrorKind::NotFound => return Err(gone(&path)),
                    other => other.map_err(|e| Error::io("recover", &path, e))?,
                };
                // What stands there stays; what was acknowledged since comes
                // behind it.
                if check(&*file, swap, &path).is_err() {
                    self.report.findings.push(format!(
                        "{} is not the file the journal rewrote; it stays as it is",
                        path.display()
                    ));
                }
                file
            }
            Err(e) => return Err(Error::io("recover", &temp, e)),
        };
        let mut lines = swap.tail.clone();
        if let Some((offset, appended)) = &plan.appended {
            debug_assert_eq!(*offset, behind);
            lines.extend_from_slice(appended);
        }
        if lines.is_empty() {
            return Ok(());
        }
        self.put(&*file, &path, swap.len, &lines)
    }

    fn sidecar(&mut self, stem: &str, plan: &Plan, copies: &mut Copies<'_>) -> Result<()> {
        if plan.image.is_none() && plan.patch.is_none() {
            return Ok(());
        }
        let path = self.sidecar_path(stem);
        let mut damaged = false;
        let on_disk = match load::read_whole(self.storage, &path) {
            Ok(bytes) if session_file::holds_session(&bytes) => {
                self.set_aside(stem, &path);
                None
            }
            Ok(bytes) => {
                let decoded = session_file::decode_sidecar(&bytes).ok();
                damaged = decoded.is_none();
                decoded
            }
            Err(e) if e.kind() == io::ErrorKind::NotFound => None,
            Err(e) => return Err(Error::io("read", &path, e)),
        };
        let meta = if on_disk.is_none() && plan.image.is_none() {
            let Some(restored) = copies.restore(stem)? else {
                self.report.findings.push(format!(
                    "{} is missing or damaged, and the journal holds only part of it",
                    path.display()
                ));
                return Ok(());
            };
            if damaged {
                self.set_aside(stem, &path);
            }
            self.report.findings.push(restored.finding.clone());
            plan.meta_restored(&restored)
        } else {
            plan.meta(|| on_disk.unwrap_or_else(|| SessionMeta::empty("")))
        };
        let (temp, file) = self.scratch()?;
        file.write_all_at(&session_file::encode_sidecar(&meta), 0)
            .map_err(|e| Error::io("recover", &temp, e))?;
        self.renames.push((temp, path));
        Ok(())
    }

    fn set_aside(&mut self, stem: &str, path: &Path) {
        let name = session_file::sidecar_name(stem);
        let aside = load::free_path(self.storage, self.quarantine, &name);
        self.renames.push((path.to_owned(), aside));
    }

    fn sidecar_path(&self, stem: &str) -> PathBuf {
        self.dir.join(session_file::sidecar_name(stem))
    }

    fn open_or_create(&self, path: &Path) -> Result<Arc<dyn StorageFile>> {
        match self.storage.open(path, OpenMode::ReadWrite) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => {
                self.storage.open(path, OpenMode::CreateNew)
            }
            other => other,
        }
        .map_err(|e| Error::io("recover", path, e))
    }

    fn scratch(&mut self) -> Result<(PathBuf, Arc<dyn StorageFile>)> {
        let path = self
            .dir
            .join(format!("{SCRATCH_PREFIX}{:016x}", self.counter));
        self.counter += 1;
        let file = self
            .storage
            .open(&path, OpenMode::CreateNew)
            .map_err(|e| Error::io("recover", &path, e))?;
        Ok((path, file))
    }

    fn change_names(&mut self) -> Result<()> {
        for (from, to) in self.renames.drain(..) {
            self.storage
                .rename(&from, &to)
                .map_err(|e| Error::io("recover", &to, e))?;
        }
        for path in self.removals.drain(..) {
            remove(self.storage, &path)?;
        }
        Ok(())
    }

    /// What an earlier recovery wrote and did not come to rename.
    fn clear_scratch(&self) -> Result<()> {
        self.clear(is_scratch_name)
    }

    /// Prepared files that no record names: their commit never happened.
    fn clear_temps(&self, plans: &Plans) -> Result<()> {
        let named = |name: &str| {
            plans.sessions.values().any(|plan| match &plan.base {
                Base::Swapped(swap) => swap.temp == name,
                Base::OnDisk | Base::Deleted | Base::Prefix(_) => false,
            })
        };
        self.clear(|name| is_temp_name(name) && !named(name))?;
        self.clear_links()
    }

    fn clear(&self, is_ours: impl Fn(&str) -> bool) -> Result<()> {
        let entries = self
            .storage
            .read_dir(self.dir)
            .map_err(|e| Error::io("list", self.dir, e))?;
        for entry in entries {
            if entry.kind == FileKind::File && is_ours(&entry.name) {
                remove(self.storage, &self.dir.join(&entry.name))?;
            }
        }
        Ok(())
    }
}

/// A rewritten file that is neither under its hidden nor under its own name.
pub(crate) fn gone(path: &Path) -> Error {
    Error::Corrupt {
        path: path.into(),
        detail: String::from("the rewritten session file is missing"),
    }
}

/// The beginning of the names of files that recovery has not put in place.
pub(super) const SCRATCH_PREFIX: &str = ".sessionlog-recovery-";

/// Whether `name` is one of recovery's scratch files.
pub(crate) fn is_scratch_name(name: &str) -> bool {
    name.starts_with(SCRATCH_PREFIX)
}

/// Whether a rewritten file that became a backup is what the journal says.
///
/// # Errors
/// `Corrupt` if not; else as the operating system reports them.
pub(crate) fn backup_fault(storage: &dyn Storage, backups: &Path, kept: &Kept) -> Result<()> {
    let Base::Swapped(swap) = &kept.plan.base else {
        return Ok(());
    };
    for name in [&kept.link, &kept.name] {
        let path = backups.join(name);
        match storage.open(&path, OpenMode::Read) {
            Ok(file) => return check(&*file, swap, &path),
            Err(e) if e.kind() == io::ErrorKind::NotFound => {}
            Err(e) => return Err(Error::io("read", &path, e)),
        }
    }
    Ok(())
}

/// Why a rewrite cannot be carried out, if it cannot.
///
/// # Errors
/// As the operating system reports them.
pub(crate) fn rewrite_fault(
    storage: &dyn Storage,
    dir: &Path,
    stem: &str,
    swap: &Swap,
) -> Result<Option<String>> {
    let fault = |e: Error| match e {
        Error::Corrupt { detail, .. } => Ok(Some(detail)),
        other => Err(other),
    };
    let temp = dir.join(&swap.temp);
    match storage.open(&temp, OpenMode::Read) {
        Ok(file) => return check(&*file, swap, &temp).map_or_else(fault, |()| Ok(None)),
        Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(Error::io("read", &temp, e)),
        Err(_) => {}
    }
    // Renamed already, perhaps over something else's bytes: that is a finding
    // of recovery's, and nothing stops.
    let path = log_path(dir, stem);
    match storage.open(&path, OpenMode::Read) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => fault(gone(&path)),
        Err(e) => Err(Error::io("read", &path, e)),
        Ok(_) => Ok(None),
    }
}

fn remove(storage: &dyn Storage, path: &Path) -> Result<()> {
    match storage.remove_file(path) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => Err(Error::io("remove", path, e)),
        _ => Ok(()),
    }
}

/// Whether what stands at `offset` is what we wrote there, or what a power loss
/// made of it: zeros where a block did not arrive.
///
/// # Errors
/// As the operating system reports them.
pub(crate) fn ours(
    file: &dyn StorageFile,
    offset: u64,
    lines: &[u8],
    len: u64,
) -> io::Result<bool> {
    let there = (len - offset).min(lines.len() as u64) as usize;
    let mut found = vec![0; there];
    file.read_exact_at(&mut found, offset)?;
    let ours = |(&found, &line): (&u8, &u8)| found == line || found == 0;
    Ok(found.iter().zip(lines).all(ours))
}

/// Whether lines at `offset` would continue the line before them.
///
/// # Errors
/// As the operating system reports them.
pub(crate) fn glued(file: &dyn StorageFile, offset: u64, lines: &[u8]) -> io::Result<bool> {
    let mut before = [b'\n'];
    if offset > 0 && lines.first() != Some(&b'\n') {
        file.read_exact_at(&mut before, offset - 1)?;
    }
    Ok(before != *b"\n")
}

/// Where the journalled lines stand, as far as they came, at the end of a file
/// that another program changed: a recovery that was cut short put them there.
/// Put there once more, they would be there twice.
///
/// # Errors
/// As the operating system reports them.
pub(crate) fn resumed_at(
    file: &dyn StorageFile,
    lines: &[u8],
    len: u64,
) -> io::Result<Option<u64>> {
    // With the byte before, which must end a line.
    let begin = len.saturating_sub(lines.len() as u64 + 1);
    let mut end = vec![0; (len - begin) as usize];
    file.read_exact_at(&mut end, begin)?;
    let mut starts = 0..end.len();
    let after_line = |at: usize| match at.checked_sub(1) {
        Some(before) => end[before] == b'\n',
        None => begin == 0,
    };
    let resumed = starts.find(|&at| {
        let mut there = end[at..].iter().zip(lines);
        after_line(at)
            && end[at] == lines[0]
            && there.all(|(found, line)| found == line || *found == 0)
    });
    Ok(resumed.map(|at| begin + at as u64))
}

/// Whether a file begins with what was prepared.
fn check(file: &dyn StorageFile, swap: &Swap, path: &Path) -> Result<()> {
    let wrap = |e| Error::io("read", path, e);
    let mut crc = crc32fast::Hasher::new();
    let mut chunk = vec![0; (1 << 20).min(swap.len as usize)];
    let mut at = 0;
    let damaged = || Error::Corrupt {
        path: path.into(),
        detail: String::from("a rewritten session file is not what the journal says it is"),
    };
    if file.info().map_err(wrap)?.len < swap.len {
        return Err(damaged());
    }
    while at < swap.len {
        let want = (swap.len - at).min(chunk.len() as u64) as usize;
        file.read_exact_at(&mut chunk[..want], at).map_err(wrap)?;
        crc.update(&chunk[..want]);
        at += want as u64;
    }
    if crc.finalize() == swap.crc {
        Ok(())
    } else {
        Err(damaged())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::memory::MemoryStorage;

    /// Cut short behind the write, recovery does the same again.
    #[test]
    fn lines_put_behind_what_another_program_wrote_are_put_there_once() {
        let storage = MemoryStorage::new();
        storage.write_foreign("/cli.jsonl", b"{}\nedited").unwrap();
        let mut plans = Plans::default();
        let appended = Some((3, b"{\"a\":1}\n{\"b\":2}\n".to_vec()));
        let plan = Plan {
            appended,
            ..Plan::default()
        };
        plans.sessions.insert(String::from("cli"), plan);
        for _ in 0..2 {
            syncs(&storage, &plans);
            let log = storage.read_foreign("/cli.jsonl").unwrap();
            assert_eq!(log, b"{}\nedited\n{\"a\":1}\n{\"b\":2}\n");
        }
        storage
            .write_foreign("/cli.jsonl", b"{}\nedited\n{\"a\":1}\n\0\"b")
            .unwrap();
        syncs(&storage, &plans);
        let log = storage.read_foreign("/cli.jsonl").unwrap();
        assert_eq!(log, b"{}\nedited\n{\"a\":1}\n{\"b\":2}\n");
    }

    fn planned(base: Base, at: u64, lines: &[u8]) -> Plans {
        let plan = Plan {
            base,
            appended: Some((at, lines.to_vec())),
            ..Plan::default()
        };
        let mut plans = Plans::default();
        plans.sessions.insert(String::from("cli"), plan);
        plans
    }

    /// The rewrite was renamed into place, and then the file was changed.
    #[test]
    fn lines_acknowledged_since_a_rewrite_are_kept_where_its_file_was_changed() {
        let storage = MemoryStorage::new();
        storage
            .write_foreign("/cli.jsonl", b"{\"edited\":1}\n")
            .unwrap();
        let swap = Swap {
            temp: String::from(".sessionlog-0.tmp"),
            len: 4,
            crc: 1,
            tail: Vec::new(),
        };
        syncs(&storage, &planned(Base::Swapped(swap), 4, b"{\"a\":1}\n"));
        let log = storage.read_foreign("/cli.jsonl").unwrap();
        assert_eq!(log, b"{\"edited\":1}\n{\"a\":1}\n");
    }

    #[test]
    fn a_damaged_line_before_journalled_ones_does_not_take_the_first_along() {
        let storage = MemoryStorage::new();
        storage
            .write_foreign("/cli.jsonl", b"{}\0\0\0\0\0:1}\n")
            .unwrap();
        syncs(&storage, &planned(Base::OnDisk, 3, b"{\"a\":1}\n"));
        let log = storage.read_foreign("/cli.jsonl").unwrap();
        assert_eq!(log, b"{}\n{\"a\":1}\n");
    }

    fn syncs(storage: &MemoryStorage, plans: &Plans) -> usize {
        let mut report = RecoveryReport::default();
        let places = Places {
            dir: Path::new("/"),
            quarantine: Path::new("/quarantine"),
            backups: Path::new("/backups"),
        };
        let mut copies = Copies::new(storage, places.dir, Path::new("/copies"));
        redo(storage, places, plans, &mut copies, &mut report).unwrap();
        let calls = storage.last_calls(100);
        calls
            .iter()
            .filter(|call| call.contains("sync_all"))
            .count()
    }

    #[test]
    fn a_journal_that_asks_for_nothing_costs_no_sync_of_the_file_system() {
        assert_eq!(syncs(&MemoryStorage::new(), &Plans::default()), 0);
    }

    /// Bytes first, then names: a name that reached the disk before its bytes
    /// would show a file of zeros.
    #[test]
    fn what_the_journal_holds_is_synced_before_and_after_names_change() {
        let mut plans = Plans::default();
        plans.sessions.insert(
            String::from("cli"),
            Plan {
                appended: Some((0, b"{}\n".to_vec())),
                ..Plan::default()
            },
        );
        assert_eq!(syncs(&MemoryStorage::new(), &plans), 2);
    }
}
