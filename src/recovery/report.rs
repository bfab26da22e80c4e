//! What opening a directory found.

/// What opening the directory found and mended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RecoveryReport {
    /// Whether the last writer closed the store in order, or there was none.
    pub clean: bool,
    /// Journal records brought into session files.
    pub replayed_records: u64,
    /// Bytes of an unfinished last commit that were discarded. Nobody was told
    /// that it held.
    pub torn_bytes: u64,
    /// Sessions found.
    pub sessions: usize,
    /// Everything else that was met, one line each, for a person: damaged
    /// sidecars, files without owner, files another program changed.
    pub findings: Vec<String>,
}
