//! Writing copies.

use std::collections::{BTreeMap, HashSet};
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use sessionlog_core::error::{Error, Result};
use sessionlog_core::session_file::{LOG, SIDECAR};
use sessionlog_wal::storage::{FileKind, OpenMode, Storage, StorageFile};

use super::{Copy, line};
use crate::disk::files;

/// The bytes by which the file may outgrow twice its needed length.
const SLACK: u64 = 64 << 10;

/// The most bytes of the file's first line.
const HEADER: usize = 64;

/// The file of copies, and the copies to be written to it.
#[derive(Debug)]
pub(crate) struct CopyFile {
    storage: Arc<dyn Storage>,
    /// The directory of the session files.
    dir: PathBuf,
    path: PathBuf,
    /// Copies not written yet; copies that find no space wait here for the next flush.
    pending: BTreeMap<Arc<str>, Copy>,
    /// The length at which the file is written anew, once known.
    limit: Option<u64>,
    /// The file, if bytes were written to it and not synced.
    file_owed: Option<Arc<dyn StorageFile>>,
    name_owed: bool,
    /// True if it holds copies of sessions that were deleted.
    holds_gone: bool,
}

impl CopyFile {
    /// The file at `path`, about the sessions in `dir`.
    pub(crate) fn new(storage: Arc<dyn Storage>, dir: PathBuf, path: PathBuf) -> Self {
        Self {
            storage,
            dir,
            path,
            pending: BTreeMap::new(),
            limit: None,
            file_owed: None,
            name_owed: false,
            holds_gone: false,
        }
    }

    /// Removes a file that a crash left before it was in place.
    pub(crate) fn clear_temp(&self) {
        let temp = self.path.with_extension("tmp");
        // If it cannot be removed now, it is harmless until the next rewrite.
        let _ = self.storage.remove_file(&temp);
    }

    /// Takes in a copy, to be written with the others.
    pub(crate) fn add(&mut self, copy: Copy) {
        let newer = |old: &Copy| old.order > copy.order;
        if !self.pending.get(&copy.stem).is_some_and(newer) {
            self.pending.insert(copy.stem.clone(), copy);
        }
    }

    /// Writes the pending copies. If that fails they are kept: no flush may fail because of a
    /// cache.
    pub(crate) fn write(&mut self) {
        if self.pending.is_empty() {
            return;
        }
        match self.append() {
            Ok(()) => self.pending.clear(),
            Err(error) => tracing::warn!(%error, "copies of sidecars wait for the next flush"),
        }
    }

    /// Removes the copies of deleted sessions: a deletion must leave nothing of them.
    pub(crate) fn clear_gone(&mut self) {
        if self.holds_gone
            && let Err(error) = self.rewrite()
        {
            tracing::warn!(%error, "copies of deleted sessions' sidecars stay for now");
        }
    }

    /// Rewrites the file, if there is one. Afterwards it has no copies of deleted sessions, and no
    /// bytes between lines.
    ///
    /// # Errors
    /// If it cannot be written; the old file then stays.
    pub(crate) fn purge(&mut self) -> Result<()> {
        if !files::is_there(&*self.storage, &self.path)? {
            return Ok(());
        }
        let written = self.clear_way().and_then(|()| self.rewrite());
        written.map_err(|e| Error::io("write", &self.path, e))
    }

    /// Syncs the written copies.
    ///
    /// # Errors
    /// If that fails.
    pub(crate) fn sync(&mut self) -> Result<()> {
        if let Some(file) = self.file_owed.take() {
            file.sync_data()
                .map_err(|e| Error::io("sync", &self.path, e))?;
        }
        if self.name_owed {
            let home = self.path.parent().unwrap_or(&self.dir);
            self.storage
                .sync_dir(home)
                .map_err(|e| Error::io("sync", home, e))?;
        }
        self.name_owed = false;
        Ok(())
    }

    /// Records that everything was synced by other means.
    pub(crate) fn all_synced(&mut self) {
        self.file_owed = None;
        self.name_owed = false;
    }

    /// Sets aside anything that is not a file and has the name of this one. Only the copies stored
    /// there are lost.
    fn clear_way(&mut self) -> io::Result<()> {
        if !files::is_impostor(&*self.storage, &self.path, FileKind::File) {
            return Ok(());
        }
        self.name_owed = true;
        let quarantine = self.path.with_file_name(files::QUARANTINE);
        let aside = files::set_aside(&*self.storage, &self.path, &quarantine)?;
        let (path, aside) = (self.path.display(), aside.display());
        tracing::warn!(%path, %aside, "what has the name of a file of the store is set aside");
        Ok(())
    }

    fn append(&mut self) -> io::Result<()> {
        self.clear_way()?;
        let file = match self.storage.open(&self.path, OpenMode::ReadWrite) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => return self.rewrite(),
            other => other?,
        };
        let len = file.info()?.len;
        let mut lines = Vec::new();
        if !ends_a_line(&*file, len)? {
            lines.push(b'\n');
        }
        for copy in self.pending.values() {
            match &copy.line {
                Some(line) => lines.extend_from_slice(line),
                None => lines.extend(line::encode_gone(&copy.stem)),
            }
        }
        let limit = match self.limit {
            Some(limit) => limit,
            None => limit_of(&*file)?,
        };
        self.limit = Some(limit);
        if len + lines.len() as u64 > limit {
            return self.rewrite();
        }
        file.write_all_at(&lines, len).inspect_err(|_| {
            // A part of a line does not verify; this only saves the space.
            let _ = file.set_len(len);
        })?;
        self.holds_gone |= self.pending.values().any(|copy| copy.line.is_none());
        // The descriptor opened first is told of every failed write-back.
        self.file_owed.get_or_insert(file);
        Ok(())
    }

    /// Puts a new file in place that holds only needed lines.
    fn rewrite(&mut self) -> io::Result<()> {
        let lines = self.needed()?;
        let mut bytes = line::encode_header(lines.len() as u64);
        bytes.extend(&lines);
        let temp = self.path.with_extension("tmp");
        match self.storage.remove_file(&temp) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
            _ => {}
        }
        let file = self.storage.open(&temp, OpenMode::CreateNew)?;
        let placed = file
            .write_all_at(&bytes, 0)
            .and_then(|()| file.sync_data())
            .and_then(|()| self.storage.rename(&temp, &self.path));
        placed.inspect_err(|_| {
            let _ = self.storage.remove_file(&temp);
        })?;
        self.limit = Some(limit(lines.len() as u64));
        self.file_owed = None;
        self.name_owed = true;
        self.holds_gone = false;
        self.pending.clear();
        Ok(())
    }

    /// The last line of each existing session.
    fn needed(&self) -> io::Result<Vec<u8>> {
        let old = match files::read_whole(&*self.storage, &self.path) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => Vec::new(),
            other => other?,
        };
        let mut last = BTreeMap::new();
        for bytes in old.split_inclusive(|&byte| byte == b'\n') {
            let Some(body) = bytes.strip_suffix(b"\n") else {
                continue;
            };
            if let Some(line) = line::decode(body) {
                let stem = line.stem.into_owned();
                match line.said {
                    Some(_) => last.insert(stem, bytes),
                    None => last.remove(&stem),
                };
            }
        }
        let there = self.sessions()?;
        last.retain(|stem, _| there.contains(stem));
        for (stem, copy) in &self.pending {
            match &copy.line {
                Some(line) => last.insert(stem.to_string(), line),
                None => last.remove(&**stem),
            };
        }
        Ok(last.into_values().flatten().copied().collect())
    }

    /// The names of all sessions that have a file.
    fn sessions(&self) -> io::Result<HashSet<String>> {
        let entries = self.storage.read_dir(&self.dir)?.into_iter();
        let stem = |name: String| {
            let stem = name.strip_suffix(LOG).or(name.strip_suffix(SIDECAR));
            stem.map(str::to_owned)
        };
        Ok(entries.filter_map(|entry| stem(entry.name)).collect())
    }
}

fn ends_a_line(file: &dyn StorageFile, len: u64) -> io::Result<bool> {
    let mut last = *b"\n";
    if len > 0 {
        file.read_exact_at(&mut last, len - 1)?;
    }
    Ok(last == *b"\n")
}

/// The length at which the file is rewritten; 0 if its header does not say.
fn limit_of(file: &dyn StorageFile) -> io::Result<u64> {
    let mut start = vec![0; HEADER];
    let read = file.read_at(&mut start, 0)?;
    let header = start[..read].split(|&byte| byte == b'\n').next();
    Ok(header.and_then(line::decode_header).map_or(0, limit))
}

fn limit(live: u64) -> u64 {
    live.saturating_mul(2).saturating_add(SLACK)
}
