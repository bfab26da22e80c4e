//! What the two files of a session hold.

use std::sync::Arc;

use crate::disk::files::extent::Extent;
use crate::disk::files::sidecar::Sidecar;
use crate::disk::session_file::Meta;
use crate::ground::storage::StorageFile;

/// What was read of a session.
#[derive(Debug)]
pub(crate) struct Loaded {
    pub(crate) meta: Meta,
    pub(crate) sidecar: Sidecar,
    pub(crate) file: Option<Arc<dyn StorageFile>>,
    pub(crate) extent: Extent,
    /// Under which name its sidecar was found at open, if that is lost since.
    pub(crate) lost: Option<Arc<str>>,
}
