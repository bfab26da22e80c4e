//! Carrying out what the journal says, in two steps: everything that can be
//! written beside what is there is written and synced; then names change. A
//! crash between them finds the journal untouched and both sets of files whole.

mod backups;
mod lines;
mod log;
mod place;
mod rewritten;
mod scratch;
mod sidecar;

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

pub(crate) use self::lines::{alone, glued, ours, resumed_at};
pub(crate) use self::place::is_one_file;
pub(crate) use self::rewritten::{backup_fault, rewrite_fault};
pub(super) use self::scratch::SCRATCH_PREFIX;
pub(crate) use self::scratch::is_scratch_name;
use super::plan::{Plan, Plans};
use super::report::RecoveryReport;
use crate::disk::copies::lost::Copies;
use crate::disk::files::{self, log_path};
use crate::error::{Error, Result};
use crate::ground::storage::{FileKind, Storage};

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
        for path in [log_path(self.dir, stem), self.sidecar_path(stem)] {
            self.clear_way(&path)?;
        }
        if !plan.exists() {
            self.removals.push(log_path(self.dir, stem));
            self.removals.push(self.sidecar_path(stem));
            return Ok(());
        }
        let before = self.renames.len();
        let left = self.log(stem, plan)?;
        self.sidecar(stem, plan, (left, before), copies)
    }

    /// Sets aside what is no file and has the name of one of a session's that the
    /// journal speaks of: it must keep neither that session's lines from it, nor
    /// the store from opening.
    fn clear_way(&mut self, path: &Path) -> Result<()> {
        let name = path.file_name().and_then(|name| name.to_str());
        let kind = files::kind_of(self.storage, path);
        let (Some(name), Some(FileKind::Directory | FileKind::Symlink | FileKind::Other)) =
            (name, kind)
        else {
            return Ok(());
        };
        let aside = files::free_path(self.storage, self.quarantine, name)?;
        self.storage
            .rename(path, &aside)
            .map_err(|e| Error::io("set aside", path, e))?;
        self.report.findings.push(format!(
            "{} was no file; it is now {}",
            path.display(),
            aside.display()
        ));
        Ok(())
    }

    fn change_names(&mut self) -> Result<()> {
        for (from, to) in std::mem::take(&mut self.renames) {
            self.rename(&from, &to)?;
        }
        for path in self.removals.drain(..) {
            match remove(self.storage, &path) {
                // Somebody else's, of a name that is free: it is in nobody's way.
                Err(Error::Io { source, .. }) if files::is_taken(&source) => {
                    let finding = format!("{} is not removed: {source}", path.display());
                    self.report.findings.push(finding);
                }
                other => other?,
            }
        }
        Ok(())
    }
}

fn remove(storage: &dyn Storage, path: &Path) -> Result<()> {
    match storage.remove_file(path) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => Err(Error::io("remove", path, e)),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::recovery::plan::{Base, Swap};
    use crate::testing::disk_model::MemoryStorage;

    /// Cut short after the write, recovery does the same again.
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
