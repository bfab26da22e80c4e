//! Many sessions of a directory, from one look at the journal: beside a busy writer each
//! look reads all of it.

use std::sync::Arc;

use super::DirectoryView;
use super::moment::Moment;
use super::pieces::Pieces;
use crate::disk::session_file::Meta;
use crate::engine::glance::{self, Lines, Words};
use crate::error::Result;

/// The sessions of one look.
pub(crate) struct Listing<'a> {
    view: &'a DirectoryView,
    moment: Arc<Moment>,
}

impl<'a> Listing<'a> {
    /// Looks.
    ///
    /// # Errors
    /// If the directory cannot be read.
    pub(crate) fn of(view: &'a DirectoryView) -> Result<Self> {
        let moment = view.look_again()?;
        Ok(Self { view, moment })
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
            return self.glance(key).map(|(meta, _)| meta);
        }
        glance::meta(&*self.view.storage, &self.view.dir, stem, key)
    }

    /// A session as it stood at the look, unless its files changed since: see
    /// [`is_still`](Self::is_still).
    ///
    /// # Errors
    /// If its files cannot be read.
    pub(crate) fn glance(&self, key: &str) -> Result<(Meta, Lines)> {
        let pieces = self.view.pieces(&self.moment, key, false);
        // Gone since, or in the midst of a change.
        let pieces = pieces.or_else(|_| self.view.session(key, false, Ok))?;
        let Pieces { bytes, meta, .. } = pieces;
        Ok((meta, Lines::of_bytes(bytes)))
    }

    /// Whether the session of `key` stands on what it stood on at the look before: what was
    /// read of it in between belongs to that.
    pub(crate) fn is_still(&self, before: &Self, key: &str) -> bool {
        self.moment.only_adds_to(&before.moment, key, false)
    }

    /// A session, read until it stands still.
    ///
    /// # Errors
    /// If its files cannot be read.
    pub(crate) fn chase(&self, key: &str) -> Result<(Meta, Words)> {
        self.view.session(key, false, |pieces| {
            let Pieces { bytes, meta, .. } = pieces;
            let words = Lines::of_bytes(bytes).words(meta.skip)?;
            Ok((meta, words))
        })
    }
}
