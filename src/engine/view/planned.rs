//! Sessions and backups as the journal would have them.

use crate::disk::files;
use crate::disk::files::sidecar;
use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::Arc;

use super::bytes::{Bytes, behind_base};
use super::pieces::Pieces;
use crate::disk::copies::lost::Restored;
use crate::disk::files::sidecar::Sidecar;
use crate::disk::session_file::Meta;
use crate::engine::home::Home;
use crate::engine::recovery::plan::{Base, Kept, Plan, Plans};
use crate::engine::recovery::redo;
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

    pub(super) fn session(self, stem: &str, key: &str, plan: &Plan) -> Result<Pieces> {
        if !plan.exists() {
            return Ok(Pieces::empty(key));
        }
        let (on_disk, sidecar) = sidecar::read_sidecar(self.storage, self.dir, stem, key)?;
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
    pub(super) fn backup(self, name: &str) -> Result<Option<Bytes>> {
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
