//! Prepares to take a session back: its file gets a second name, which is to be a backup, and the
//! first bytes of that, or of an older backup, are copied to a new file.
//!
//! Nothing is synced but the second name. The journal says of which file the new one is the
//! beginning, so that recovery can make it again; a sync of the copy would make going back cost as
//! much as the session is long.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use sessionlog_core::error::{Error, Result};
use sessionlog_core::session_file::Conversation;
use sessionlog_wal::journal::record::{Prior, Record};
use sessionlog_wal::storage::{OpenMode, Storage, StorageFile};
use sessionlog_wal::sync::atomic::{AtomicBool, Ordering};

use super::rewrite::{HiddenLines, PreparedFile};
use super::shared::SharedState;
use crate::disk::files::backup::BackupName;
use crate::disk::files::{self, extent};

/// A session on its way back.
#[derive(Debug)]
pub(crate) struct Rebasing {
    /// The backup that the session's file becomes: its second name, and its name as a backup.
    pub(crate) keep: Option<(String, BackupName)>,
    /// The backup whose first bytes the session becomes.
    pub(crate) of: BackupName,
    /// The content of the control records that stay, if known.
    pub(crate) conversation: Option<Arc<Conversation>>,
}

impl Rebasing {
    /// The file names in its journal record.
    pub(super) fn names(&self) -> RebaseNames {
        let (link, backup) = match &self.keep {
            Some((link, name)) => (link.clone(), name.to_text()),
            None => Default::default(),
        };
        RebaseNames {
            of: self.of.to_text(),
            link,
            backup,
        }
    }

    /// Removes the prepared files, which will not be kept.
    pub(super) fn discard(&self, shared: &SharedState) {
        let Some((link, _)) = &self.keep else { return };
        shared.names_changed();
        let path = shared.backups.dir.join(link);
        if let Err(error) = shared.storage.remove_file(&path) {
            tracing::warn!(path = %path.display(), %error, "left behind until the next open");
        }
    }
}

/// The file names in a rebase's record.
pub(super) struct RebaseNames {
    of: String,
    link: String,
    backup: String,
}

impl RebaseNames {
    pub(super) fn record<'a>(
        &'a self,
        stem: &'a str,
        generation: u64,
        (before, image): (Prior<'a>, &'a [u8]),
        (len, crc): (u64, u32),
    ) -> Record<'a> {
        Record::Rebase {
            stem,
            generation,
            before,
            image,
            of: &self.of,
            len,
            crc,
            link: &self.link,
            backup: &self.backup,
        }
    }
}

/// A request to take a session back.
#[derive(Debug)]
pub(crate) struct Rebase {
    /// The directory of backups.
    pub(crate) backups: PathBuf,
    /// See [`Backups::synced`](super::backups::Backups).
    pub(crate) synced: Arc<AtomicBool>,
    /// The session's file and its second name; `None` if there is nothing to keep.
    pub(crate) keep: Option<(PathBuf, PathBuf)>,
    pub(crate) target: Target,
    /// Number of the new file's lines that are hidden.
    pub(crate) skip: u64,
}

/// The content of the new file.
#[derive(Debug)]
pub(crate) enum Target {
    /// The first bytes of the session's file.
    Prefix {
        file: Arc<dyn StorageFile>,
        len: u64,
    },
    /// A backup, and its length.
    Backup { path: PathBuf, len: u64 },
}

impl Rebase {
    /// Returns the number of bytes that are copied.
    pub(super) fn bytes(&self) -> u64 {
        match self.target {
            Target::Prefix { len, .. } | Target::Backup { len, .. } => len,
        }
    }
}

/// Makes both files. On failure, neither is left.
///
/// # Errors
/// As [`prepare`](super::rewrite::prepare).
pub(crate) fn prepare(
    storage: &dyn Storage,
    dir: &Path,
    temp: &str,
    rebase: &Rebase,
) -> Result<PreparedFile> {
    if let Some((log, link)) = &rebase.keep {
        keep(storage, rebase, log, link)?;
    }
    let path = dir.join(temp);
    copy(storage, &path, temp, rebase).map_err(|e| {
        let _ = storage.remove_file(&path);
        if let Some((_, link)) = &rebase.keep {
            let _ = storage.remove_file(link);
        }
        Error::io("rewrite", &path, e)
    })
}

/// Gives a session's file a second name, on disk.
fn keep(storage: &dyn Storage, rebase: &Rebase, log: &Path, link: &Path) -> Result<()> {
    let backups = &rebase.backups;
    make_directory(storage, backups, &rebase.synced)?;
    files::keep(storage, log, link).map_err(|e| {
        let _ = storage.remove_file(link);
        Error::io("keep", log, e)
    })?;
    // A record that outlived the name would refer to a backup that is not there, and the session
    // would be lost with it.
    storage
        .sync_dir(backups)
        .map_err(|e| Error::sync(backups, e))
}

/// Makes the directory of backups, on disk. It may exist without its name being synced, and a power
/// loss would then take all backups in it.
pub(crate) fn make_directory(
    storage: &dyn Storage,
    backups: &Path,
    synced: &AtomicBool,
) -> Result<()> {
    if synced.load(Ordering::Acquire) {
        return Ok(());
    }
    match storage.create_dir(backups) {
        Err(e) if e.kind() != io::ErrorKind::AlreadyExists => {
            return Err(Error::io("create", backups, e));
        }
        _ => {}
    }
    let home = backups.parent().unwrap_or(backups);
    storage.sync_dir(home).map_err(|e| Error::sync(home, e))?;
    synced.store(true, Ordering::Release);
    Ok(())
}

fn copy(
    storage: &dyn Storage,
    path: &Path,
    temp: &str,
    rebase: &Rebase,
) -> io::Result<PreparedFile> {
    let new = storage.open(path, OpenMode::CreateNew)?;
    let len = match &rebase.target {
        Target::Prefix { file, len } => {
            file.copy_to(&*new, *len)?;
            *len
        }
        Target::Backup { path, .. } => {
            let file = storage.open(path, OpenMode::Read)?;
            let len = file.info()?.len;
            file.copy_to(&*new, len)?;
            len
        }
    };
    let skip = i64::try_from(rebase.skip).unwrap_or(i64::MAX);
    let extent = extent::measure(Some(&*new), len, &[], skip)?;
    Ok(PreparedFile {
        temp: temp.to_owned(),
        file: new,
        len,
        crc: extent.crc,
        lines: extent.lines,
        start: extent.start,
        torn: extent.torn,
        small: Vec::new(),
        hidden: HiddenLines::default(),
        backups: Vec::new(),
    })
}
