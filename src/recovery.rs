//! RecoveryReport (skeleton).

/// What opening the directory found and mended.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct RecoveryReport {
    /// Whether the last writer closed the store in order.
    pub clean: bool,
    /// Journal records applied to session files.
    pub replayed_records: u64,
    /// Bytes of an unfinished last commit that were discarded.
    pub torn_bytes: u64,
    /// Sessions found.
    pub sessions: usize,
    /// Everything else that was met, one line each, for a person.
    pub findings: Vec<String>,
}
