//! Many sessions of a directory, from one look at the journal: beside a busy writer each
//! look reads all of it.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use super::DirectoryView;
use super::moment::Moment;
use super::pieces::Pieces;
use crate::disk::session_file::Meta;
use crate::engine::glance::{self, Lines, Words};
use crate::engine::snapshot::Snapshot;
use crate::error::{Error, Result};
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
        let moment = view.look_again()?;
        Ok(Self {
            view,
            moment,
            ahead: Mutex::default(),
        })
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
        if plans.sessions.contains_key(stem) || restored.contains_key(stem) {
            let found = self.glance(key)?;
            return Ok(found.map_or_else(|| Meta::empty(key), |(meta, _)| meta));
        }
        glance::meta(&*self.view.storage, &self.view.dir, stem, key)
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

    /// The same, as one moment of the session, an empty one if it is gone; `alone` if it is
    /// to be read until it stands still.
    ///
    /// # Errors
    /// If its files cannot be read.
    pub(crate) fn snapshot(&self, key: &str, alone: bool) -> Result<Arc<Snapshot>> {
        let pieces = match self.view.pieces(&self.moment, key, false) {
            Ok(pieces) if !alone => pieces,
            _ => return self.view.snapshot(key, false),
        };
        if pieces.changed {
            self.ahead.lock().insert(key.to_owned());
        }
        let snapshot = pieces.snapshot();
        snapshot
            .map(Arc::new)
            .map_err(|e| Error::io("read", Path::new(key), e))
    }

    /// Whether the session of `key` stands on what it stood on at the look before: what was
    /// read of it in between belongs to that.
    pub(crate) fn is_still(&self, before: &Self, key: &str) -> bool {
        let moved = before.ahead.lock().contains(key);
        !moved && self.moment.only_adds_to(&before.moment, key, false)
    }

    /// A session, read until it stands still.
    ///
    /// # Errors
    /// If its files cannot be read.
    pub(crate) fn chase(&self, key: &str) -> Result<Option<(Meta, Words)>> {
        self.view.session(key, false, |pieces| {
            if !pieces.exists {
                return Ok(None);
            }
            let Pieces { bytes, meta, .. } = pieces;
            let words = Lines::of_bytes(bytes).words(meta.skip)?;
            Ok(Some((meta, words)))
        })
    }
}
