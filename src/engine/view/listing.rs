//! Many sessions of a directory, from one look at the journal.

use std::collections::BTreeSet;
use std::io;
use std::path::Path;
use std::sync::Arc;

use super::DirectoryView;
use super::moment::Moment;
use super::pieces::Pieces;
use crate::disk::files::backup::{self, Name};
use crate::disk::files::once::{self, Taken};
use crate::disk::files::sidecar::read_meta;
use crate::disk::session_file::Meta;
use crate::engine::glance::Lines;
use crate::engine::recovery::bytes::Bytes;
use crate::engine::snapshot::Snapshot;
use crate::error::{Error, Result};
use crate::ground::storage::OpenMode;
use crate::ground::sync::Mutex;

/// The sessions of one look.
pub(crate) struct Listing<'a> {
    view: &'a DirectoryView,
    moment: Arc<Moment>,
    /// Sessions whose files are ahead of the journal that was looked at.
    ahead: Mutex<BTreeSet<String>>,
}

impl<'a> Listing<'a> {
    /// Looks.
    ///
    /// # Errors
    /// If the directory cannot be read.
    pub(crate) fn of(view: &'a DirectoryView) -> Result<Self> {
        Ok(Self::at(view, view.look_again()?))
    }

    /// Looks at the journal alone, unless that tells of other sessions: for who has the names
    /// of sessions from a look before.
    ///
    /// # Errors
    /// If the directory cannot be read.
    pub(crate) fn recent(view: &'a DirectoryView) -> Result<Self> {
        Ok(Self::at(view, view.catch_up()?))
    }

    fn at(view: &'a DirectoryView, moment: Arc<Moment>) -> Self {
        Self {
            view,
            moment,
            ahead: Mutex::default(),
        }
    }

    /// Whether the journal stands where it stood at the look, and no session's files were
    /// ahead of it: all that was read since belongs to that, and no other look need tell.
    pub(crate) fn is_current(&self) -> bool {
        self.ahead.lock().is_empty() && self.view.is_current(&self.moment)
    }

    /// See [`Catalog::all`](crate::engine::catalog::Catalog::all).
    pub(crate) fn all(&self) -> Vec<(String, String)> {
        self.moment.catalog.all()
    }

    /// See [`Catalog::listed`](crate::engine::catalog::Catalog::listed).
    pub(crate) fn listed(&self) -> Vec<(String, String)> {
        self.moment.catalog.listed()
    }

    /// What the sidecar of a session says.
    ///
    /// # Errors
    /// If its files cannot be read.
    pub(crate) fn meta(&self, stem: &str, key: &str) -> Result<Meta> {
        let Moment {
            plans, restored, ..
        } = &*self.moment;
        let glance = || {
            let found = self.glance(key)?;
            Ok(found.map_or_else(|| Meta::empty(key), |(meta, _)| meta))
        };
        if plans.sessions.contains_key(stem) || restored.contains_key(stem) {
            return glance();
        }
        let (meta, sidecar) = read_meta(&*self.view.storage, &self.view.dir, stem, key)?;
        if !sidecar.is_read()
            && let Some(restored) = self.view.restored(&self.moment, stem)?
        {
            return Ok(Meta::of(restored.meta));
        }
        if meta.text.key != *key {
            return glance();
        }
        Ok(meta)
    }

    /// When a session was updated, if the look found it out: nanoseconds since 1970.
    pub(crate) fn updated(&self, (stem, key): &(String, String)) -> Option<i64> {
        let Moment {
            plans, restored, ..
        } = &*self.moment;
        let elsewhere = plans.sessions.contains_key(stem)
            || restored.contains_key(stem)
            || self.moment.is_touched_since_survey(stem);
        (!elsewhere)
            .then(|| self.moment.catalog.found_updated(key))
            .flatten()
    }

    /// A session as it stood at the look, unless its files changed since: see
    /// [`is_still`](Self::is_still). Nothing if it is gone.
    ///
    /// # Errors
    /// If its files cannot be read.
    pub(crate) fn glance(&self, key: &str) -> Result<Option<(Meta, Lines)>> {
        let pieces = self.view.pieces(&self.moment, key, false);
        // Gone since, or in the midst of a change.
        let pieces = pieces.or_else(|_| self.view.session(key, false, Ok))?;
        if pieces.changed {
            self.ahead.lock().insert(key.to_owned());
        }
        let is_there = pieces.exists;
        let Pieces { bytes, meta, .. } = pieces;
        Ok(is_there.then(|| (meta, Lines::of_bytes(bytes))))
    }

    /// At least the lines of a session, without a look at its sidecar if the journal says
    /// nothing of it: those that the sidecar skips are among them then. None if it is gone.
    ///
    /// # Errors
    /// If its files cannot be read.
    pub(crate) fn lines(&self, (stem, key): &(String, String)) -> Result<Option<Lines>> {
        if self.moment.plans.sessions.contains_key(stem) {
            return Ok(self.glance(key)?.map(|(_, lines)| lines));
        }
        let view = self.view;
        Lines::of_file(&*view.storage, &view.dir, stem).map(Some)
    }

    /// All lines of a session at one moment, none if it is gone, and where those begin that are
    /// not hidden; `alone` if it is to be read until it stands still.
    ///
    /// # Errors
    /// If its files cannot be read.
    pub(crate) fn whole(&self, key: &str, alone: bool) -> Result<(Arc<Snapshot>, u64)> {
        let whole = match self.view.pieces(&self.moment, key, false) {
            Ok(pieces) if !alone => {
                if pieces.changed {
                    self.ahead.lock().insert(key.to_owned());
                }
                pieces
                    .whole()
                    .map_err(|e| Error::io("read", Path::new(key), e))
            }
            _ => self.view.session(key, false, Pieces::whole),
        };
        whole.map(|(snapshot, start)| (Arc::new(snapshot), start))
    }

    /// Whether the session of `key` stands on what it stood on at the look before: what was
    /// read of it in between belongs to that.
    pub(crate) fn is_still(&self, before: &Self, key: &str) -> bool {
        let moved = before.ahead.lock().contains(key);
        let then = before.moment.standing(key, false);
        !moved && self.moment.only_adds_to(&then, key, false)
    }

    /// Whether it took as many messages once as at the look before, as far as the journal
    /// says: what its files say then belongs to that, if it [is still](Self::is_still), too.
    pub(crate) fn took_as_before(&self, before: &Self, stem: &str) -> bool {
        let [before, now] = [before, self].map(|look| {
            let once = look.moment.plans.once.get(stem);
            once.map(|once| (once.anew, once.lines.len()))
        });
        before == now
    }

    /// What the files of a session say, and will, of the messages that it took once.
    ///
    /// # Errors
    /// If they cannot be read.
    pub(crate) fn taken(&self, stem: &str) -> Result<[Vec<u8>; 2]> {
        let planned = self.moment.plans.once.get(stem);
        let [newest, old] = once::paths(&self.view.home.once, stem).map(|path| {
            if planned.is_some_and(|planned| planned.anew) {
                return Ok(Vec::new());
            }
            let read = once::read_file(&*self.view.storage, &path);
            read.map_err(|e| Error::io("read", &path, e))
        });
        let (newest, old) = (newest?, old?);
        let taken = Taken::of([&newest, &old]);
        Ok(match planned {
            Some(planned) if !planned.lacks_nothing(&taken) => [planned.after(&newest), old],
            _ => [newest, old],
        })
    }

    /// The names, without extension, of files that name no session.
    pub(crate) fn orphans(&self) -> Vec<String> {
        self.moment.catalog.orphans()
    }

    /// Visits the files of all backups, each open only then.
    ///
    /// # Errors
    /// If they cannot be listed, and those of `visit`.
    pub(crate) fn each_backup(
        &self,
        visit: &mut dyn FnMut(&str, Result<Lines>) -> Result<()>,
    ) -> Result<()> {
        let DirectoryView { storage, home, .. } = self.view;
        let plans = &self.moment.plans;
        let found = backup::list(&**storage, &home.backups);
        let found = found.map_err(|e| Error::io("list", &home.backups, e))?;
        let kept = plans.backups.iter();
        let kept = kept.filter_map(|kept| Name::parse(&kept.name));
        let found = found.into_iter().map(|stored| stored.name);
        let names = found.filter(|name| !plans.unmakes(name)).chain(kept);
        let files: BTreeSet<String> = names.flat_map(|name| name.files()).collect();
        let planned = self.view.planned(&self.moment);
        for file in files {
            // If it cannot be made, the writer has made it since, or pruned it.
            let made = planned.backup(&file).ok().flatten().map(Lines::of_bytes);
            let path = home.backups.join(&file);
            let lines = match made {
                Some(lines) => Ok(lines),
                None => match storage.open(&path, OpenMode::Read) {
                    Err(e) if e.kind() == io::ErrorKind::NotFound => continue,
                    Err(e) => Err(Error::io("open", &path, e)),
                    Ok(opened) => Bytes::whole(Some(opened), &path).map(Lines::of_bytes),
                },
            };
            visit(&file, lines)?;
        }
        Ok(())
    }

    /// What `read` makes of a session that is read until it stands still.
    ///
    /// # Errors
    /// If its files cannot be read.
    pub(crate) fn chase<T>(
        &self,
        key: &str,
        read: impl Fn(Meta, Lines) -> io::Result<T>,
    ) -> Result<Option<T>> {
        self.view.session(key, false, |pieces| {
            let Pieces { bytes, meta, .. } = pieces;
            let lines = pieces.exists.then(|| Lines::of_bytes(bytes));
            lines.map(|lines| read(meta, lines)).transpose()
        })
    }
}
