//! A session put together of what stands on disk, for a reader without an owner.

use crate::disk::files;
use crate::disk::files::extent;
use crate::disk::files::sidecar;
use std::io;
use std::path::Path;
use std::sync::Arc;

use super::bytes::Bytes;
use crate::disk::files::conversation;
use crate::disk::files::sidecar::Sidecar;
use crate::disk::session_file::Meta;
use crate::engine::snapshot::{Looked, Snapshot, Tail};
use crate::error::Result;
use crate::ground::storage::{OpenMode, Storage};

/// A session from its two files alone.
///
/// # Errors
/// If they cannot be read.
pub(crate) fn load(storage: &dyn Storage, dir: &Path, stem: &str, key: &str) -> Result<Pieces> {
    let (meta, sidecar) = sidecar::read_sidecar(storage, dir, stem, key)?;
    let file = files::open_log(storage, dir, stem, OpenMode::Read)?;
    Ok(Pieces {
        bytes: Bytes::whole(file, dir)?,
        meta,
        sidecar,
    })
}

/// What a session is made of when nobody owns it.
#[derive(Debug)]
pub(crate) struct Pieces {
    pub(super) bytes: Bytes,
    pub(super) meta: Meta,
    /// Where `meta` comes from.
    pub(super) sidecar: Sidecar,
}

impl Pieces {
    pub(super) fn empty(key: &str) -> Self {
        Self {
            bytes: Bytes::none(),
            meta: Meta::empty(key),
            sidecar: Sidecar::Missing,
        }
    }

    /// The live lines.
    ///
    /// # Errors
    /// As the operating system reports them.
    pub(crate) fn snapshot(self) -> io::Result<Snapshot> {
        let start = self.extent()?.start;
        Ok(self.from(start))
    }

    /// All lines, and what they say of the conversation.
    ///
    /// # Errors
    /// As the operating system reports them.
    pub(crate) fn looked(self) -> io::Result<Looked> {
        let extent = self.extent()?;
        let Bytes {
            file, len, behind, ..
        } = &self.bytes;
        let conversation = conversation::read(file.as_deref(), *len, behind)?;
        Ok(Looked {
            conversation: Arc::new(conversation),
            start: extent.start,
            end: extent.end,
            lines: extent.lines,
            snapshot: self.from(0),
        })
    }

    fn extent(&self) -> io::Result<extent::Extent> {
        let Bytes {
            file, len, behind, ..
        } = &self.bytes;
        extent::measure(file.as_deref(), *len, behind, self.meta.skip)
    }

    fn from(self, start: u64) -> Snapshot {
        let Bytes {
            file, len, behind, ..
        } = self.bytes;
        let live = start.saturating_sub(len) as usize;
        let mut snapshot = Snapshot::without_lines(self.meta.clone());
        snapshot.live.tail = Tail::with_lines(self.meta, behind[live..].to_vec());
        snapshot.tail_len = behind.len() - live;
        snapshot.live.file = file;
        snapshot.live.start = start.min(len);
        snapshot.live.end = len;
        snapshot
    }
}
