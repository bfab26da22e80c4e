//! Writing the files of one session while others drive its worker.
//!
//! The errand is decided under the worker's seat, and its result is noted under it. In between,
//! callers and the committer stage and settle changes that touch no file, while the worker's
//! thread, which alone touches files, is busy here. If the write were made under the seat, a caller
//! would wait for a disk, and then for two threads.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use sessionlog_wal::storage::StorageFile;

use super::shared::SharedState;
use crate::disk::files::sidecar::Sidecar;

/// The writes due for one session.
#[derive(Debug)]
pub(super) struct Errand {
    pub(super) shard: usize,
    pub(super) session: usize,
    pub(super) purpose: Purpose,
    pub(super) lines: Option<LinesToWrite>,
    pub(super) sidecar: Option<NewSidecar>,
    /// When it began.
    pub(super) started: Duration,
}

/// The reason for the writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    Lines,
    Sidecar,
    Flush,
}

/// Lines for a session file, and where they go.
#[derive(Debug)]
pub(super) struct LinesToWrite {
    pub(super) file: Arc<dyn StorageFile>,
    pub(super) at: u64,
    pub(super) bytes: Vec<u8>,
}

/// A sidecar, and what stands in its place.
#[derive(Debug)]
pub(super) struct NewSidecar {
    pub(super) path: PathBuf,
    pub(super) bytes: Vec<u8>,
    pub(super) was: Sidecar,
    /// True if the journal holds a whole image: a sidecar that a crash leaves half written is
    /// mended from that.
    pub(super) in_journal: bool,
}

/// The result of an errand.
#[derive(Debug)]
pub(super) struct ErrandResult {
    pub(super) errand: Errand,
    pub(super) lines: io::Result<()>,
    /// `None` if it was not tried.
    pub(super) sidecar: Option<io::Result<Arc<dyn StorageFile>>>,
}

impl Errand {
    /// Writes. The sidecar follows only if the lines that it counts were written.
    pub(super) fn run(self, shared: &SharedState) -> ErrandResult {
        let lines = self.lines.as_ref().map_or(Ok(()), LinesToWrite::write);
        let sidecar = self.sidecar.as_ref().filter(|_| lines.is_ok());
        ErrandResult {
            sidecar: sidecar.map(|sidecar| sidecar.write(shared)),
            lines,
            errand: self,
        }
    }
}

impl LinesToWrite {
    pub(super) fn write(&self) -> io::Result<()> {
        self.file.write_all_at(&self.bytes, self.at)
    }
}
