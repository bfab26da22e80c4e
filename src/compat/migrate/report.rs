//! What an import or an export did.

use std::path::{Path, PathBuf};

/// What a migration did.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct MigrationReport {
    /// Sessions imported.
    pub migrated: usize,
    /// Files left in place as they are, and why: they do not decode, or what
    /// they hold is over a limit of the store. Each is logged as a warning, too.
    /// What such a file holds is in no session: a chat begins anew beside it.
    pub skipped: Vec<(PathBuf, String)>,
    /// Keys of the sessions that had a history, which is a
    /// [backup](crate::BackupReason::Import) now.
    pub replaced: Vec<String>,
    /// Keys of the sessions whose file has a scope or aliases that the store does
    /// not accept, and why: they were imported without. Their files have them
    /// still, under their new names.
    pub without_identity: Vec<(String, String)>,
}

impl MigrationReport {
    /// Notes a file that stays where it is.
    pub(crate) fn skip(&mut self, path: &Path, reason: String) {
        tracing::warn!(path = %path.display(), reason, "not imported");
        self.skipped.push((path.into(), reason));
    }
}

/// What [`export_picoclaw`](crate::export_picoclaw) wrote, and what could not go.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct PicoclawExport {
    /// Sessions written.
    pub sessions: usize,
    /// Messages written, those of all sessions together.
    pub messages: usize,
    /// Keys of the sessions that were not exported, and why. Each is logged as a
    /// warning, too.
    pub not_exported: Vec<(String, String)>,
    /// Keys of exported sessions, and what was left out of them: once for each kind of
    /// thing, with how many there were.
    pub left_out: Vec<(String, String)>,
}
