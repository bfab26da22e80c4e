//! The names of a directory's sessions, and its backups.

use std::collections::BTreeSet;
use std::io;
use std::sync::Arc;

use sessionlog_core::error::{Error, Result};
use sessionlog_wal::storage::OpenMode;

use super::DirectoryView;
use crate::disk::files::backup::{self, BackupName};
use crate::engine::catalog::Catalog;
use crate::engine::glance::SessionLines;
use crate::engine::recovery::bytes::Bytes;

/// The sessions that one look found.
pub(crate) struct Listing<'a> {
    pub(crate) view: &'a DirectoryView,
    catalog: Arc<Catalog>,
    /// The file names of sessions with sidecars that do not say all.
    elsewhere: BTreeSet<String>,
}

impl<'a> Listing<'a> {
    /// Looks at the directory.
    ///
    /// # Errors
    /// If the directory cannot be read.
    pub(crate) fn of(view: &'a DirectoryView) -> Result<Self> {
        let moment = view.look_again()?;
        let stems = moment.plans.sessions.keys().chain(moment.restored.keys());
        Ok(Self {
            view,
            catalog: moment.catalog.clone(),
            elsewhere: stems.cloned().collect(),
        })
    }

    /// See [`Catalog::all`].
    pub(crate) fn all(&self) -> Vec<(String, String)> {
        self.catalog.all()
    }

    /// See [`Catalog::listed`].
    pub(crate) fn listed(&self) -> Vec<(String, String)> {
        self.catalog.listed()
    }

    /// Returns the time of a session's update, if the look found it: nanoseconds since 1970.
    pub(crate) fn updated(&self, (stem, key): &(String, String)) -> Option<i64> {
        let is_here = !self.elsewhere.contains(stem);
        is_here.then(|| self.catalog.found_updated(key)).flatten()
    }

    /// Returns the names, without extension, of files that name no session.
    pub(crate) fn orphans(&self) -> Vec<String> {
        self.catalog.orphans()
    }
}

impl DirectoryView {
    /// Visits the files of all backups, each open only during the visit.
    ///
    /// # Errors
    /// If they cannot be listed, and the errors of `visit`.
    pub(crate) fn each_backup(
        &self,
        visit: &mut dyn FnMut(&str, Result<SessionLines>) -> Result<()>,
    ) -> Result<()> {
        let Self { storage, home, .. } = self;
        let moment = self.begin()?;
        let plans = &moment.plans;
        let found = backup::list(&**storage, &home.backups);
        let found = found.map_err(|e| Error::io("list", &home.backups, e))?;
        let kept = plans.backups.iter();
        let kept = kept.filter_map(|kept| BackupName::parse(&kept.name));
        let found = found.into_iter().map(|stored| stored.name);
        let names = found.filter(|name| !plans.unmakes(name)).chain(kept);
        let files: BTreeSet<String> = names.flat_map(|name| name.files()).collect();
        let planned = self.planned(&moment);
        for file in files {
            // If it cannot be made, the writer has made it since, or pruned it.
            let made = planned
                .backup(&file)
                .ok()
                .flatten()
                .map(SessionLines::of_bytes);
            let path = home.backups.join(&file);
            let lines = match made {
                Some(lines) => Ok(lines),
                None => match storage.open(&path, OpenMode::Read) {
                    Err(e) if e.kind() == io::ErrorKind::NotFound => continue,
                    Err(e) => Err(Error::io("open", &path, e)),
                    Ok(opened) => Bytes::whole(Some(opened), &path).map(SessionLines::of_bytes),
                },
            };
            visit(&file, lines)?;
        }
        Ok(())
    }
}
