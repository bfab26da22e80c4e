//! Sessions and backups as the journal would have them.

use crate::disk::files::sidecar;
use crate::disk::files::{self, log_path};
use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::Arc;

use super::bytes::Bytes;
use super::pieces::Pieces;
use crate::disk::copies::lost::Restored;
use crate::disk::files::sidecar::Sidecar;
use crate::disk::session_file::Meta;
use crate::engine::home::Home;
use crate::engine::recovery::plan::{Base, Kept, Plan, Plans, count_left};
use crate::engine::recovery::redo::is_one_file;
use crate::error::{Error, Result};
use crate::ground::storage::{OpenMode, Storage, StorageFile};

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

impl<'p> Planned<'p> {
    /// All lines of a session.
    ///
    /// # Errors
    /// If its files cannot be read.
    pub(crate) fn lines(self, stem: &str) -> Result<Bytes> {
        match self.plans.sessions.get(stem) {
            Some(plan) => self.session_bytes(stem, plan),
            None => Bytes::whole(self.open_log(stem)?, self.dir),
        }
    }

    fn session_bytes(self, stem: &str, plan: &Plan) -> Result<Bytes> {
        let of = Of::Session(stem);
        let bytes = self.bytes(Level { plan, of })?;
        Ok(bytes.unwrap_or_else(Bytes::none))
    }

    pub(super) fn session(self, stem: &str, key: &str, plan: &Plan) -> Result<Pieces> {
        if !plan.exists() {
            return Ok(Pieces::empty(key));
        }
        let (on_disk, sidecar) = sidecar::read_sidecar(self.storage, self.dir, stem, key)?;
        let mut meta = match self.restored.get(stem) {
            Some(restored) if sidecar != Sidecar::Present => plan.meta_restored(restored),
            _ => plan.meta(|| on_disk.to_sidecar()),
        };
        let bytes = self.session_bytes(stem, plan)?;
        if bytes.alone {
            count_left(&mut meta, &bytes.behind);
        } else if bytes.changed {
            meta.skip = on_disk.skip;
        }
        Ok(Pieces {
            bytes,
            meta: Meta::of(meta),
            sidecar,
        })
    }

    /// Sessions whose lines are gone, but for those that the journal holds, one line
    /// each.
    pub(super) fn losses(self) -> Vec<String> {
        let gone = |path: &Path| {
            let info = self.storage.info(path);
            info.is_err_and(|e| e.kind() == io::ErrorKind::NotFound)
        };
        let mut losses = Vec::new();
        for (stem, plan) in &self.plans.sessions {
            let log = log_path(self.dir, stem);
            let lost = match (&plan.base, plan.journalled()) {
                (Base::Swapped(swap), _) => swap.len > 0 && gone(&self.dir.join(&swap.temp)),
                (Base::OnDisk, Some((offset, _))) => offset > 0,
                (Base::OnDisk | Base::Deleted | Base::Prefix(_), _) => false,
            };
            if lost && gone(&log) {
                losses.push(format!(
                    "{} is missing; what the journal holds is all that is left of its lines",
                    log.display()
                ));
            }
        }
        losses
    }

    /// What a session, or the backup `kept`, is made of; `None` for a backup that is
    /// gone.
    ///
    /// What was taken back many times is the beginning of a backup, which is the
    /// beginning of another, and so on: as deep as there were reverts since the
    /// last checkpoint, so it is walked down and up, not recursed into.
    fn bytes<'a>(self, mut level: Level<'a>) -> Result<Option<Bytes>>
    where
        'p: 'a,
    {
        let mut above = Vec::new();
        let mut bytes = loop {
            let Base::Prefix(prefix) = &level.plan.base else {
                break self.grounded(level)?;
            };
            above.push((prefix.len, level));
            match self.plans.backup(&prefix.of) {
                Some(kept) => level = Level::of_backup(kept),
                None => break self.unplanned(&prefix.of)?,
            }
        };
        for (len, level) in above.into_iter().rev() {
            // Of what is gone, or shorter, nothing can be the beginning.
            bytes = match bytes.filter(|bytes| bytes.size() >= len) {
                Some(whole) => {
                    let continued = whole.continued(len, level.plan.appended());
                    Some(continued.map_err(|e| Error::io("read", self.dir, e))?)
                }
                None => self.grounded(level)?,
            };
        }
        Ok(bytes)
    }

    /// [`bytes`](Self::bytes) of what is the beginning of no backup, or of one
    /// that is gone.
    fn grounded(self, level: Level<'_>) -> Result<Option<Bytes>> {
        let Level { plan, of } = level;
        let temp = match &plan.base {
            Base::Swapped(swap) => {
                let temp = self.dir.join(&swap.temp);
                self.open_if_there(&temp)?
            }
            Base::OnDisk | Base::Deleted | Base::Prefix(_) => None,
        };
        let file = match (temp, of) {
            (Some(temp), _) => Some(temp),
            (None, _) if plan.base == Base::Deleted => None,
            (None, Of::Session(stem)) => {
                if let Some(bytes) = self.stayed(stem, plan)? {
                    return Ok(Some(bytes));
                }
                self.open_log(stem)?
            }
            (None, Of::Backup(kept)) => match self.kept_log(kept)? {
                Some(file) => Some(file),
                None => return Ok(None),
            },
        };
        let bytes = Bytes::whole(file, self.dir)?;
        match plan.journalled() {
            Some((base, journalled)) => bytes.followed_by(base, journalled.into_owned()),
            None => Ok(bytes),
        }
        .map(Some)
        .map_err(|e| Error::io("read", self.dir, e))
    }

    /// A session that was taken back to what is gone, if its file is a backup by
    /// another name still.
    fn stayed(self, stem: &str, plan: &Plan) -> Result<Option<Bytes>> {
        let Base::Prefix(prefix) = &plan.base else {
            return Ok(None);
        };
        let Some(kept) = self.plans.backup(&prefix.kept) else {
            return Ok(None);
        };
        let log = log_path(self.dir, stem);
        for name in [&kept.link, &kept.name] {
            if is_one_file(self.storage, &log, &self.home.backups.join(name))? {
                let was = self.bytes(Level::of_backup(kept))?;
                let stayed = was.map(|was| was.followed(plan.appended()));
                return stayed
                    .transpose()
                    .map_err(|e| Error::io("read", self.dir, e));
            }
        }
        Ok(None)
    }

    fn open_log(self, stem: &str) -> Result<Option<Arc<dyn StorageFile>>> {
        files::open_log(self.storage, self.dir, stem, OpenMode::Read)
    }

    /// A backup, if it is there.
    pub(super) fn backup(self, name: &str) -> Result<Option<Bytes>> {
        match self.plans.backup(name) {
            Some(kept) => self.bytes(Level::of_backup(kept)),
            None => self.unplanned(name),
        }
    }

    /// A backup that the journal does not speak of, if it is there.
    fn unplanned(self, name: &str) -> Result<Option<Bytes>> {
        let path = self.home.backups.join(name);
        let file = self.open_if_there(&path)?;
        let there = file.map(|file| Bytes::whole(Some(file), &path));
        there.transpose()
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

/// What a plan is of.
#[derive(Debug, Clone, Copy)]
enum Of<'a> {
    /// The session of this file name.
    Session(&'a str),
    Backup(&'a Kept),
}

/// A plan, and what it is of.
#[derive(Debug, Clone, Copy)]
struct Level<'a> {
    plan: &'a Plan,
    of: Of<'a>,
}

impl<'a> Level<'a> {
    fn of_backup(kept: &'a Kept) -> Self {
        Self {
            plan: &kept.plan,
            of: Of::Backup(kept),
        }
    }
}
