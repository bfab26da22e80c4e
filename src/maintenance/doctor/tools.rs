//! The file operations of a repair: each is durable before the next step relies on it.

use std::path::Path;
use std::sync::Arc;

use sessionlog_core::error::{Error, Result};
use sessionlog_wal::journal::committer::Committer;
use sessionlog_wal::journal::counters::CommitCounters;
use sessionlog_wal::journal::pool::SegmentPool;
use sessionlog_wal::journal::record;
use sessionlog_wal::journal::segment::{Lengths, StoreId};
use sessionlog_wal::storage::OpenMode;

use super::originals::Originals;
use super::repair::Repair;
use crate::disk::files;
use crate::engine::recovery::run;
use crate::engine::recovery::standing::FilesState;

/// A repair needs few and short records, and leaves no segment behind.
const SEGMENTS: Lengths = Lengths {
    first: 16 << 10,
    largest: 64 << 20,
    budget: 512 << 20,
};

impl Repair<'_> {
    /// Prepares a session file beside the old one.
    pub(super) fn rewrite(
        &mut self,
        records: &mut Vec<u8>,
        stem: &str,
        content: &[u8],
        image: &[u8],
    ) -> Result<()> {
        let temp = self.temps.take(&**self.storage, self.dir)?;
        self.write(&self.dir.join(&temp), content)?;
        let standing = FilesState::of(&**self.storage, self.dir, stem)?;
        let made = (content.len() as u64, crc32fast::hash(content));
        let swap = standing.swap(stem, image, &temp, made);
        record::encode(records, &swap);
        Ok(())
    }

    pub(super) fn write(&self, path: &Path, bytes: &[u8]) -> Result<()> {
        let file = self.storage.open(path, OpenMode::CreateNew);
        let written = file.and_then(|file| {
            file.write_all_at(bytes, 0)?;
            file.sync_data()
        });
        written.map_err(|e| Error::io("write", path, e))
    }

    /// Commits `records` as one batch, with a checkpoint over everything before it.
    pub(super) fn commit(
        &self,
        id: &StoreId,
        sequence: u64,
        number: u64,
        records: &[u8],
    ) -> Result<()> {
        let sync = |dir: &Path| {
            let synced = self.storage.sync_dir(dir);
            synced.map_err(|e| Error::io("sync", dir, e))
        };
        sync(self.dir)?;
        sync(&self.home.quarantine)?;
        let mut committer = self.committer(id, sequence, number)?;
        run::commit_checkpoint(&mut committer, sequence, false, records)
    }

    pub(super) fn committer(&self, id: &StoreId, sequence: u64, number: u64) -> Result<Committer> {
        let pool = Arc::new(SegmentPool::new(
            self.storage.clone(),
            self.home.journal.clone(),
            *id,
            number,
            SEGMENTS,
        ));
        Committer::new(
            pool,
            sequence,
            Arc::default(),
            Arc::<CommitCounters>::default(),
        )
    }

    pub(super) fn quarantine(&mut self, name: &str, bytes: &[u8]) -> Result<()> {
        let path = files::free_path(&**self.storage, &self.home.quarantine, name)?;
        self.write(&path, bytes)?;
        self.report.quarantined.push(path);
        Ok(())
    }

    /// Copies files, durably, before they are changed.
    pub(super) fn back_up<P: AsRef<Path>>(
        &mut self,
        paths: impl IntoIterator<Item = P>,
    ) -> Result<()> {
        let mut paths = paths.into_iter().peekable();
        if paths.peek().is_none() {
            return Ok(());
        }
        let storage = &**self.storage;
        let backup = match &mut self.backup {
            Some(backup) => backup,
            none => none.insert(Originals::create(storage, &self.home.backups)?),
        };
        for path in paths {
            backup.copy(storage, path.as_ref())?;
        }
        self.report.backup = Some(backup.path.clone());
        backup.finish(storage)
    }

    pub(super) fn remove<P: AsRef<Path>>(&self, paths: impl IntoIterator<Item = P>) -> Result<()> {
        let mut parent = None;
        for path in paths {
            let path = path.as_ref();
            match self.storage.remove_file(path) {
                Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
                    return Err(Error::io("remove", path, e));
                }
                _ => parent = path.parent().map(Path::to_path_buf),
            }
        }
        let Some(parent) = parent else { return Ok(()) };
        self.storage
            .sync_dir(&parent)
            .map_err(|e| Error::io("sync", &parent, e))
    }
}
