//! The journal's plan for one session.

use std::borrow::Cow;
use std::sync::Arc;

use sessionlog_core::session_file::{self, SessionMeta};

use super::past::{Earlier, First, Past, SidecarEffect};
use crate::disk::copies::lost::RestoredSidecar;

/// The required state of a session's files. `L` holds the lines after the base: one run of them,
/// unless records are missing.
#[derive(Debug, Default, Clone)]
pub(crate) struct Plan<L = Run> {
    pub(crate) base: Base,
    /// Lines after the base.
    pub(crate) appended: L,
    /// The sidecar, as far as the journal holds it whole.
    pub(crate) image: Option<Arc<SessionMeta>>,
    /// The later changes: since that, or since the sidecar on disk.
    pub(crate) patch: Option<Patch>,
    /// The history of the files.
    pub(crate) past: Past<L>,
}

/// The offset of the first line after a base, and all of the lines: the records of one session
/// follow each other without a gap.
pub(crate) type Run = Option<(u64, Vec<u8>)>;

/// Lines after a base, gathered from one record after the other.
pub(crate) trait AppendedLines: Default + Clone {
    /// Takes in the lines of the next record, which begin at `offset`.
    fn append(&mut self, offset: u64, bytes: &[u8]);

    /// True if a record gave any, even of no byte.
    fn is_given(&self) -> bool;
}

impl AppendedLines for Run {
    fn append(&mut self, offset: u64, bytes: &[u8]) {
        let (_, lines) = self.get_or_insert_with(|| (offset, Vec::new()));
        lines.extend_from_slice(bytes);
    }

    fn is_given(&self) -> bool {
        self.is_some()
    }
}

/// The fields an append changes.
#[derive(Debug, Clone)]
pub(crate) struct Patch {
    pub(crate) skip: i64,
    pub(crate) count: i64,
    pub(crate) updated_at: String,
}

/// A session's file before the lines appended to it.
#[derive(Debug, Default, Clone, PartialEq)]
pub(crate) enum Base {
    /// The file that is there.
    #[default]
    OnDisk,
    /// Nothing: the session was deleted.
    Deleted,
    /// A prepared file.
    Swapped(PlannedSwap),
    /// The first bytes of a backup.
    Prefix(Prefix),
}

/// The beginning of a backup that a session was taken back to.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Prefix {
    /// The backup's file name.
    pub(crate) of: String,
    pub(crate) len: u64,
    pub(crate) crc: u32,
    /// The file name of the backup that the session's file became; empty if it became none.
    pub(crate) kept: String,
}

/// A session's file that became a backup.
#[derive(Debug, Clone)]
pub(crate) struct PlannedBackup<L = Run> {
    /// The backup's file name, and the name it may still have.
    pub(crate) name: String,
    pub(crate) link: String,
    /// Its required state: that of the session's file before.
    pub(crate) plan: Plan<L>,
}

/// A prepared file that takes a session file's name.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct PlannedSwap {
    pub(crate) temp: String,
    pub(crate) len: u64,
    pub(crate) crc: u32,
    pub(crate) tail: Vec<u8>,
}

impl<L: AppendedLines> Plan<L> {
    /// True if the session has files when the plan is carried out.
    pub(crate) fn exists(&self) -> bool {
        !matches!(self.base, Base::Deleted) || self.appended.is_given()
    }

    /// Notes the state of the files before the first record that names them.
    pub(super) fn begin(&mut self, first: impl FnOnce() -> First) {
        self.past.first.get_or_insert_with(first);
    }

    /// Puts another file in the session file's place; returns the plan of the old one.
    pub(super) fn replace(&mut self, base: Base) -> Self {
        let past = std::mem::take(&mut self.past);
        self.past.first.clone_from(&past.first);
        let new = Self {
            base,
            past,
            ..Self::default()
        };
        std::mem::replace(self, new)
    }

    pub(super) fn into_earlier(self) -> Earlier<L> {
        Earlier::Replaced {
            base: self.base,
            appended: self.appended,
        }
    }

    pub(super) fn set_image(&mut self, image: &[u8]) {
        // Images are our own encoding behind a checksum; one that does not decode leaves the
        // present sidecar.
        self.image = session_file::decode_sidecar(image).ok().map(Arc::new);
        self.patch = None;
        self.past
            .said
            .extend(self.image.clone().map(SidecarEffect::Whole));
    }

    pub(super) fn set_patch(&mut self, patch: Patch) {
        self.past.said.push(SidecarEffect::Patch(patch.clone()));
        self.patch = Some(patch);
    }

    /// Makes the session exist again, by a sidecar written after a deletion.
    pub(super) fn revive(&mut self) {
        if matches!(self.base, Base::Deleted) && !self.appended.is_given() {
            self.appended.append(0, b"");
        }
    }
}

impl Plan {
    /// Returns the offset of the next lines, if the journal tells it: the records of one session
    /// follow each other without a gap.
    pub(super) fn end(&self) -> Option<u64> {
        match (&self.appended, &self.base) {
            (Some((start, lines)), _) => Some(start + lines.len() as u64),
            (None, Base::Deleted) => Some(0),
            (None, Base::Swapped(swap)) => Some(swap.len + swap.tail.len() as u64),
            (None, Base::Prefix(prefix)) => Some(prefix.len),
            (None, Base::OnDisk) => None,
        }
    }

    /// Returns the offset of the first line that the journal holds, if it tells it.
    pub(crate) fn base_end(&self) -> Option<u64> {
        match (&self.base, &self.appended) {
            (Base::OnDisk, Some((start, _))) => Some(*start),
            (Base::OnDisk, None) => self.past.first.as_ref().map(|first| first.len),
            (Base::Swapped(swap), _) => Some(swap.len),
            (Base::Prefix(prefix), _) => Some(prefix.len),
            (Base::Deleted, _) => Some(0),
        }
    }

    /// True if nothing comes before the lines that the journal holds.
    pub(crate) fn begins_empty(&self) -> bool {
        matches!(self.base, Base::OnDisk | Base::Swapped(_)) && self.base_end() == Some(0)
    }

    /// True if the session may have had no file when its process died, given whether a prepared one
    /// waits for the name. A prepared file is synced before the journal names it; one that the
    /// journal holds whole may have been removed before it got the name.
    pub(crate) fn may_be_absent(&self, waits: bool) -> bool {
        let was_empty = self.past.first.as_ref().is_some_and(|first| first.len == 0);
        let prepared = matches!(&self.base, Base::Swapped(swap) if swap.len > 0);
        (was_empty || self.past.deleted) && (waits || !prepared)
    }

    /// True if it has all that `before` had, and perhaps more lines after: the same file, and as
    /// many lines hidden.
    pub(crate) fn only_adds_to(&self, before: &Self) -> bool {
        let follows = match (&before.appended, &self.appended) {
            (None, _) => true,
            (Some((start, lines)), Some((now, all))) => start == now && all.starts_with(lines),
            (Some(_), None) => false,
        };
        follows && self.base == before.base && self.skip() == before.skip()
    }

    /// Returns the number of hidden lines, if the journal states it.
    fn skip(&self) -> Option<i64> {
        let patched = self.patch.as_ref().map(|patch| patch.skip);
        patched.or(self.image.as_ref().map(|image| image.skip))
    }

    /// Returns all lines that the journal holds, and their offset.
    pub(crate) fn journalled(&self) -> Option<(u64, Cow<'_, [u8]>)> {
        match &self.base {
            Base::Swapped(swap) => {
                let lines = [&swap.tail, self.appended()].concat();
                Some((swap.len, lines.into()))
            }
            Base::Deleted => Some((0, self.appended().into())),
            Base::OnDisk | Base::Prefix(_) => {
                let (offset, lines) = self.appended.as_ref()?;
                Some((*offset, lines.into()))
            }
        }
    }

    /// Returns the lines after the base.
    pub(crate) fn appended(&self) -> &[u8] {
        self.appended.as_ref().map_or(&[], |(_, lines)| lines)
    }

    /// Returns the sidecar that holds, given one restored from its copy. Beside a file that the
    /// copy was not made of, the lines that the journal counts as hidden may be others.
    pub(crate) fn meta_restored(&self, restored: &RestoredSidecar) -> SessionMeta {
        let mut meta = self.meta(|| restored.meta.clone());
        if self.image.is_none() && !restored.hides {
            meta.skip = 0;
        }
        meta
    }

    /// Returns the sidecar that holds, given the one on disk.
    pub(crate) fn meta(&self, on_disk: impl FnOnce() -> SessionMeta) -> SessionMeta {
        let mut meta = self.image.as_deref().cloned().unwrap_or_else(on_disk);
        if let Some(patch) = &self.patch {
            patch.apply(&mut meta);
        }
        meta
    }
}

impl Patch {
    /// True if a sidecar has its values in the fields that it changes.
    pub(super) fn is_of(&self, meta: &SessionMeta) -> bool {
        let Self {
            skip,
            count,
            updated_at,
        } = self;
        (*skip, *count) == (meta.skip, meta.count) && *updated_at == meta.updated_at
    }

    /// Changes the earlier sidecar.
    pub(crate) fn apply(&self, meta: &mut SessionMeta) {
        meta.skip = self.skip;
        meta.count = self.count;
        meta.updated_at.clone_from(&self.updated_at);
    }
}
