//! Reports of imports and exports.

use std::path::{Path, PathBuf};

/// The outcome of a migration.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct MigrationReport {
    /// Sessions imported.
    pub migrated: usize,
    /// Files left in place as they are, with the reasons: they do not decode, or their content is
    /// over a limit of the store. Each is also logged as a warning. The content of such a file is
    /// in no session: a chat begins anew beside it.
    pub skipped: Vec<(PathBuf, String)>,
    /// Keys of the sessions that already had a history, which is now a
    /// [backup](crate::BackupReason::Import).
    pub replaced: Vec<String>,
    /// Keys of the sessions whose file has a scope or aliases that the store does not accept, with
    /// the reasons: they were imported without. Their files still have them, under their new names.
    pub without_identity: Vec<(String, String)>,
}

impl MigrationReport {
    /// Notes a file that stays where it is.
    pub(crate) fn skip(&mut self, path: &Path, reason: String) {
        tracing::warn!(path = %path.display(), reason, "not imported");
        self.skipped.push((path.into(), reason));
    }
}

/// The outcome of [`export_picoclaw`](crate::export_picoclaw), and the things left out.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct PicoclawExport {
    /// Sessions written.
    pub sessions: usize,
    /// Messages written, of all sessions together.
    pub messages: usize,
    /// Keys of the sessions that were not exported, with the reasons. Each is also logged as a
    /// warning.
    pub not_exported: Vec<(String, String)>,
    /// Keys of exported sessions, and what was left out of them: one entry for each kind, with its
    /// number.
    pub left_out: Vec<(String, String)>,
}
