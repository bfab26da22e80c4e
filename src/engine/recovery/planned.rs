//! Sessions and backups as the journal makes them, put together without being written.

use std::io;
use std::path::Path;
use std::sync::Arc;

use sessionlog_core::error::{Error, Result};
use sessionlog_wal::storage::{OpenMode, Storage, StorageFile};

use super::bytes::Bytes;
use super::plan::{Base, Earlier, Plan, PlannedBackup, Plans, Prefix};
use crate::disk::files::is_taken;

/// The files that the journal may be ahead of.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PlannedFiles<'a> {
    pub(crate) storage: &'a dyn Storage,
    pub(crate) dir: &'a Path,
    pub(crate) backups: &'a Path,
    pub(crate) plans: &'a Plans,
}

impl<'p> PlannedFiles<'p> {
    /// Returns all lines of a session; `None` if a file that they are made of is gone. `log` is the
    /// session's file, if it is the one that the plan means.
    ///
    /// # Errors
    /// If the files cannot be read.
    pub(crate) fn session(self, plan: &Plan, log: Option<Bytes>) -> Result<Option<Bytes>> {
        if let Some(own) = self.own_beginning(plan, log.as_ref())? {
            let len = own.size();
            return self.continued(own, len, plan.appended()).map(Some);
        }
        self.bytes(PlanTarget::Session(plan), log)
    }

    /// Returns the last of the session's earlier files that can be put together, and all lines that
    /// the journal put into later ones. `log` is the session's file, if it is one that it had.
    ///
    /// # Errors
    /// If the files cannot be read.
    pub(crate) fn pieced(self, plan: &Plan, log: Option<Bytes>) -> Result<Bytes> {
        let wrap = |e| Error::io("read", self.dir, e);
        // The lines that a compaction copied last were appended to the file before.
        let mut since = vec![plan.appended()];
        for earlier in plan.past.earlier.iter().rev() {
            let (whole, lines) = match earlier {
                Earlier::Kept(name) => {
                    let Some(kept) = self.plans.ever_backup(name) else {
                        continue;
                    };
                    (self.backup(name)?, kept.plan.appended())
                }
                Earlier::Replaced { base, appended } => {
                    let mut file = Plan {
                        base: base.clone(),
                        appended: appended.clone(),
                        ..Plan::default()
                    };
                    file.past.first.clone_from(&plan.past.first);
                    let whole = self.session(&file, self.own(&file, log.clone())?)?;
                    (whole, appended.as_ref().map_or(&[][..], |(_, lines)| lines))
                }
            };
            if let Some(mut whole) = whole {
                for lines in since.into_iter().rev() {
                    whole = whole.followed(lines).map_err(wrap)?;
                }
                return Ok(whole);
            }
            since.push(lines);
        }
        let there = log.unwrap_or_else(Bytes::none);
        let lines = plan.journalled().unwrap_or_default().1;
        there.followed(&lines).map_err(wrap)
    }

    /// Returns the file, if it begins as one of the session's files did.
    fn own(self, plan: &Plan, log: Option<Bytes>) -> Result<Option<Bytes>> {
        let (len, crc) = match (&plan.base, &plan.past.first) {
            (Base::Swapped(swap), _) => (swap.len, swap.crc),
            (Base::OnDisk, Some(first)) => (first.len, first.crc),
            _ => return Ok(None),
        };
        let Some(log) = log.filter(|log| log.size() >= len) else {
            return Ok(None);
        };
        let begins = log.clone().cut(len).crc();
        let begins = begins.map_err(|e| Error::io("read", self.dir, e))? == crc;
        Ok(begins.then_some(log))
    }

    /// Returns a backup, if it is there.
    ///
    /// # Errors
    /// If the files cannot be read.
    pub(crate) fn backup(self, name: &str) -> Result<Option<Bytes>> {
        match self.plans.ever_backup(name) {
            Some(kept) => self.bytes(PlanTarget::Backup(kept), None),
            None => self.unplanned(name),
        }
    }

    /// Returns the first bytes of a backup that a session became, if the backup still has them
    /// unchanged.
    ///
    /// # Errors
    /// If the files cannot be read.
    pub(super) fn beginning(self, prefix: &Prefix) -> Result<Option<Bytes>> {
        let whole = self.backup(&prefix.of)?;
        let beginning = whole.filter(|whole| whole.size() >= prefix.len);
        self.sound(beginning.map(|whole| whole.cut(prefix.len)), prefix)
    }

    fn sound(self, beginning: Option<Bytes>, prefix: &Prefix) -> Result<Option<Bytes>> {
        let Some(beginning) = beginning else {
            return Ok(None);
        };
        let crc = beginning.crc();
        let crc = crc.map_err(|e| Error::io("read", self.dir, e))?;
        Ok((crc == prefix.crc).then_some(beginning))
    }

    /// Returns the first bytes that a session became, from its own file: the backup that they were
    /// copied from is gone, or damaged since.
    fn own_beginning(self, plan: &Plan, log: Option<&Bytes>) -> Result<Option<Bytes>> {
        let (Base::Prefix(prefix), Some(log)) = (&plan.base, log) else {
            return Ok(None);
        };
        let whole = Some(log.clone()).filter(|log| log.size() >= prefix.len);
        self.sound(whole.map(|log| log.cut(prefix.len)), prefix)
    }

    /// Returns the lines of a session or backup.
    ///
    /// A session that was taken back many times is the beginning of a backup, which is the
    /// beginning of another, and so on: the depth is the number of reverts since the last
    /// checkpoint, so this walks down and up instead of recursing.
    fn bytes<'a>(self, mut level: PlanTarget<'a>, log: Option<Bytes>) -> Result<Option<Bytes>>
    where
        'p: 'a,
    {
        let mut above = Vec::new();
        let mut bytes = loop {
            let Base::Prefix(prefix) = &level.plan().base else {
                break self.grounded(level, log)?;
            };
            above.push((prefix.len, level));
            match self.plans.ever_backup(&prefix.of) {
                Some(kept) => level = PlanTarget::Backup(kept),
                None => break self.unplanned(&prefix.of)?,
            }
        };
        for (len, level) in above.into_iter().rev() {
            // A file that is gone, or shorter, has no such beginning.
            bytes = match bytes.filter(|bytes| bytes.size() >= len) {
                Some(whole) => Some(self.continued(whole, len, level.plan().appended())?),
                None => self.kept_as_is(level)?,
            };
        }
        Ok(bytes)
    }

    /// Does the work of [`bytes`](Self::bytes) for a file that is the beginning of no backup.
    fn grounded(self, level: PlanTarget<'_>, log: Option<Bytes>) -> Result<Option<Bytes>> {
        let plan = level.plan();
        let lines = plan.journalled().unwrap_or_default().1;
        if plan.base == Base::Deleted {
            return Ok(Some(Bytes::of(lines.into_owned())));
        }
        let temp = match &plan.base {
            Base::Swapped(swap) => self.open_if_there(&self.dir.join(&swap.temp))?,
            _ => None,
        };
        let found = match (temp, level) {
            (Some(temp), _) => Some(Bytes::whole(Some(temp), self.dir)?),
            (None, PlanTarget::Session(_)) => log.or_else(|| plan.begins_empty().then(Bytes::none)),
            (None, PlanTarget::Backup(_)) => self.kept_as_is(level)?,
        };
        let Some(found) = found else { return Ok(None) };
        let end = plan.base_end().unwrap_or_else(|| found.size());
        if found.size() < end {
            // Another program cut it short: the rest of it, and the lines that came after.
            let followed = found.followed(&lines);
            return followed
                .map(Some)
                .map_err(|e| Error::io("read", self.dir, e));
        }
        self.continued(found, end, &lines).map(Some)
    }

    fn continued(self, bytes: Bytes, len: u64, lines: &[u8]) -> Result<Bytes> {
        let continued = bytes.continued(len, lines);
        continued.map_err(|e| Error::io("read", self.dir, e))
    }

    /// Returns a backup's file as it stands.
    fn kept_as_is(self, level: PlanTarget<'_>) -> Result<Option<Bytes>> {
        let PlanTarget::Backup(kept) = level else {
            return Ok(None);
        };
        let file = self.kept_log(kept)?;
        let bytes = file.map(|file| Bytes::whole(Some(file), self.dir));
        bytes.transpose()
    }

    /// Returns a backup that the journal does not name, if it is there.
    fn unplanned(self, name: &str) -> Result<Option<Bytes>> {
        let path = self.backups.join(name);
        let file = self.open_if_there(&path)?;
        let there = file.map(|file| Bytes::whole(Some(file), &path));
        there.transpose()
    }

    /// Returns the file of a backup that the journal made. Its second name may become the backup's
    /// between two looks, never the other way round.
    fn kept_log(self, kept: &PlannedBackup) -> Result<Option<Arc<dyn StorageFile>>> {
        for name in [&kept.name, &kept.link, &kept.name] {
            let found = self.open_if_there(&self.backups.join(name))?;
            if found.is_some() {
                return Ok(found);
            }
        }
        Ok(None)
    }

    fn open_if_there(self, path: &Path) -> Result<Option<Arc<dyn StorageFile>>> {
        match self.storage.open(path, OpenMode::Read) {
            Ok(file) => Ok(Some(file)),
            // Another thing of that name is not ours.
            Err(e) if e.kind() == io::ErrorKind::NotFound || is_taken(&e) => Ok(None),
            Err(e) => Err(Error::io("open", path, e)),
        }
    }
}

/// A plan, and the session or backup that it is for.
#[derive(Debug, Clone, Copy)]
enum PlanTarget<'a> {
    Session(&'a Plan),
    Backup(&'a PlannedBackup),
}

impl<'a> PlanTarget<'a> {
    fn plan(self) -> &'a Plan {
        match self {
            Self::Session(plan) => plan,
            Self::Backup(kept) => &kept.plan,
        }
    }
}
