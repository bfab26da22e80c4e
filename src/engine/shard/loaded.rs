//! The contents of a session's two files.

use std::sync::Arc;

use sessionlog_core::session_file::Meta;
use sessionlog_wal::storage::StorageFile;

use crate::disk::files::extent::Extent;
use crate::disk::files::sidecar::Sidecar;

/// The result of reading a session.
#[derive(Debug)]
pub(crate) struct LoadedSession {
    pub(crate) meta: Meta,
    pub(crate) sidecar: Sidecar,
    pub(crate) file: Option<Arc<dyn StorageFile>>,
    pub(crate) extent: Extent,
    /// The known part of its sidecar, if that was found at open and is lost since.
    pub(crate) lost: Option<Lost>,
}

/// A sidecar that is lost.
#[derive(Debug)]
pub(crate) struct Lost {
    pub(crate) stem: Arc<str>,
    /// The aliases that lead to the session.
    pub(crate) aliases: Vec<String>,
}
