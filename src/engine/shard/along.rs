//! The data that goes along when a session's lines move to another key: see
//! [`moving`](super::moving).

use std::io;
use std::path::Path;
use std::sync::Arc;

use sessionlog_core::error::{Error, Result};
use sessionlog_core::session_file;
use sessionlog_wal::storage::OpenMode;

use super::shared::SharedState;
use crate::disk::archive::{self, ArchivePart};
use crate::disk::files::backup::{BackupFile, BackupName, BackupReason};
use crate::disk::files::extent::{self, Extent};
use crate::disk::files::{self, once};
use crate::engine::catalog::Entry;
use crate::engine::numbering::Numbering;
use crate::engine::shard::rebase::make_directory;

/// The data that goes along with the lines of a session.
#[derive(Debug)]
pub(crate) struct Move {
    /// Its shard, and its number there.
    pub(super) from: (usize, usize),
    /// The new session's entry.
    entry: Arc<Entry>,
    /// Turns offsets in its file into positions, if the offsets stay.
    pub(super) numbering: Option<Numbering>,
    /// The lines that name the messages it took once.
    pub(super) once: String,
    pub(super) backups: Vec<MovedBackup>,
    /// The highest number that a backup had.
    highest: u64,
    parts: Vec<MovedPart>,
    /// For a session that comes out of the trash: those of its aliases that were keys of others,
    /// too.
    pub(super) aliases_over_keys: Option<Vec<String>>,
}

/// A backup that moves along.
#[derive(Debug)]
pub(super) struct MovedBackup {
    was: BackupName,
    /// The name of the copy until it has the new one.
    pub(super) link: String,
    pub(super) name: BackupName,
}

/// A part of an archive that moves along.
#[derive(Debug)]
struct MovedPart {
    was: ArchivePart,
    part: ArchivePart,
}

impl Move {
    /// Collects the data that goes along from one session to another.
    pub(super) fn new(
        from: (usize, usize),
        (old, entry): (&Entry, &Arc<Entry>),
        ids: impl Iterator<Item = String>,
        numbering: Option<Numbering>,
        shared: &SharedState,
    ) -> Self {
        let (old, new) = (&old.stem, &entry.stem);
        let next = shared.backups.next_number(new);
        let backups = shared.backups.of(old).into_iter().zip(next..);
        let backups = backups.map(|(stored, number)| MovedBackup {
            link: shared.next_temp(),
            name: BackupName {
                stem: new.to_string(),
                // A number that a caller wrote down finds the same backup, unless it is another's.
                number: if next == 1 {
                    stored.name.number
                } else {
                    number
                },
                ..stored.name.clone()
            },
            was: stored.name,
        });
        let last = shared.archive.of(new).pop().map_or(0, |part| part.last);
        let parts = shared.archive.of(old).into_iter();
        let parts = parts.map(|was| MovedPart {
            part: ArchivePart {
                stem: new.to_string(),
                first: last + was.first,
                last: last + was.last,
                under_way: None,
                ..was.clone()
            },
            was,
        });
        let once = ids.map(|id| once::line(&entry.key, &id));
        Self {
            from,
            entry: entry.clone(),
            numbering,
            once: once.collect(),
            backups: backups.collect(),
            highest: shared.backups.next_number(old) - 1,
            parts: parts.collect(),
            aliases_over_keys: None,
        }
    }
    /// Copies the backups and the archive under hidden names, synced. On failure, none of them is
    /// left.
    ///
    /// # Errors
    /// `StorageFull` and other refusals of the operating system; `Poisoned` if something could
    /// not be synced.
    pub(super) fn prepare(&self, shared: &SharedState, temp: &str) -> Result<Vec<Option<Extent>>> {
        let prepared = self.copy_backups(shared).and_then(|extents| {
            self.copy_parts(shared, temp)?;
            Ok(extents)
        });
        prepared.inspect_err(|_| self.discard(shared, temp))
    }

    fn copy_backups(&self, shared: &SharedState) -> Result<Vec<Option<Extent>>> {
        let (storage, backups) = (&*shared.storage, &shared.backups);
        if self.backups.is_empty() {
            return Ok(Vec::new());
        }
        make_directory(storage, &backups.dir, &backups.synced)?;
        let copy = |backup: &MovedBackup| {
            let (from, to) = (backups.path(&backup.was), backups.dir.join(&backup.link));
            match files::duplicate(storage, &from, &to) {
                // It was pruned meanwhile.
                Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
                copied => copied.map_err(|e| Error::io("keep", &from, e))?,
            }
            let wrap = |e| Error::io("read", &to, e);
            let file = storage.open(&to, OpenMode::Read).map_err(wrap)?;
            let len = file.info().map_err(wrap)?.len;
            let extent = extent::measure(Some(&*file), len, &[], 0).map_err(wrap)?;
            Ok(Some(extent))
        };
        let extents = self.backups.iter().map(copy).collect::<Result<_>>()?;
        let synced = storage.sync_dir(&backups.dir);
        synced.map_err(|e| Error::sync(&backups.dir, e))?;
        Ok(extents)
    }

    fn copy_parts(&self, shared: &SharedState, temp: &str) -> Result<()> {
        let (storage, archive) = (&*shared.storage, &shared.archive);
        for MovedPart { was, part } in &self.parts {
            let from = archive.dir.join(was.to_text());
            let wrap = |e| Error::io("archive", &from, e);
            let bytes = files::read_whole(storage, &from).map_err(wrap)?;
            let lines = archive::decode(&bytes).map_err(|e| Error::Corrupt {
                path: from.clone(),
                detail: format!("the archive does not read: {e}"),
            })?;
            let member = archive::encode(&self.entry.key, &lines).map_err(wrap)?;
            let to = archive.dir.join(part.hidden(temp));
            let file = storage.open(&to, OpenMode::CreateNew).map_err(wrap)?;
            file.write_all_at(&member, 0).map_err(wrap)?;
            file.sync_data().map_err(|e| Error::sync(&to, e))?;
        }
        if self.parts.is_empty() {
            return Ok(());
        }
        let synced = archive.sync(storage);
        synced.map_err(|e| Error::sync(&archive.dir, e))
    }

    /// Removes the prepared files, which will not be kept.
    pub(super) fn discard(&self, shared: &SharedState, temp: &str) {
        let links = self.backups.iter();
        let links = links.map(|backup| shared.backups.dir.join(&backup.link));
        let parts = self.parts.iter();
        let parts = parts.map(|moved| shared.archive.dir.join(moved.part.hidden(temp)));
        shared.names_changed();
        for path in links.chain(parts) {
            match shared.storage.remove_file(&path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    tracing::warn!(path = %path.display(), %error, "left behind until the next open");
                }
                _ => {}
            }
        }
    }

    /// Gives backups and parts their names.
    pub(super) fn name_all(
        &self,
        shared: &SharedState,
        temp: &str,
        extents: &[Option<Extent>],
    ) -> io::Result<()> {
        let (storage, backups, archive) = (&*shared.storage, &shared.backups, &shared.archive);
        // Before and after the renames, as when a file becomes a backup.
        shared.names_changed();
        for (backup, extent) in self.backups.iter().zip(extents) {
            let Some(extent) = extent else { continue };
            let name = backup.name.clone();
            storage.rename(&backups.dir.join(&backup.link), &backups.path(&name))?;
            let size = extent.end;
            backups.enter(BackupFile { name, size });
        }
        for MovedPart { part, .. } in &self.parts {
            let hidden = archive.dir.join(part.hidden(temp));
            storage.rename(&hidden, &archive.dir.join(part.to_text()))?;
            archive.enter(part.clone());
        }
        if !self.parts.is_empty() {
            // Later records of the session would leave recovery no hidden name to look for.
            archive.sync(storage)?;
        }
        shared.names_changed();
        Ok(())
    }

    /// Brings along the rest of a backup: the sidecar, and the highest number given.
    pub(super) fn follow_up(&self, shared: &SharedState) -> Result<()> {
        let (storage, backups) = (&*shared.storage, &shared.backups);
        for MovedBackup { was, name, .. } in &self.backups {
            if was.reason != BackupReason::Conflict {
                continue;
            }
            if let Some(mut sidecar) = backups.sidecar(storage, was) {
                self.entry.key.as_ref().clone_into(&mut sidecar.key);
                write(shared, &backups.dir.join(name.sidecar()), &sidecar)?;
            }
        }
        let numbers = self.backups.iter().map(|backup| backup.name.number);
        let kept_numbers = self.backups.iter().all(|b| b.name.number == b.was.number);
        if kept_numbers && self.highest > numbers.max().unwrap_or(0) {
            let highest = BackupName {
                stem: self.entry.stem.to_string(),
                number: self.highest,
                reason: BackupReason::Revert,
                millis: 0,
                skip: 0,
            };
            let marked = backups.keep_number(storage, &highest);
            marked.map_err(|e| Error::io("mark", &backups.dir, e))?;
        }
        Ok(())
    }
}

fn write(shared: &SharedState, path: &Path, sidecar: &session_file::SessionMeta) -> Result<()> {
    let wrap = |e| Error::io("write", path, e);
    let file = shared
        .storage
        .open(path, OpenMode::CreateNew)
        .map_err(wrap)?;
    let bytes = session_file::encode_sidecar(sidecar);
    file.write_all_at(&bytes, 0).map_err(wrap)
}
