//! Counters a person watching the store wants.

/// What the store did since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct StoreStats {
    /// Commands that took effect.
    pub commands: u64,
    /// Messages appended, batches counted by their messages.
    pub messages: u64,
    /// Group commits written to the journal.
    pub commits: u64,
    /// Syncs of the journal.
    pub syncs: u64,
    /// Bytes written to the journal.
    pub journal_bytes: u64,
    /// Bytes appended to session files.
    pub session_bytes: u64,
    /// Sessions rewritten to drop skipped lines.
    pub compactions: u64,
    /// Flushes: session files and sidecars synced, journal segments retired.
    pub flushes: u64,
    /// Lines met while reading that could not be decoded.
    pub corrupt_lines: u64,
}
