//! The report of opening a directory.

/// The report of opening a directory: the findings, and what was mended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RecoveryReport {
    /// True if the last writer closed the store in order, or there was none. `false` for a
    /// read-only open beside a running writer.
    pub clean: bool,
    /// Number of records that the journal held beyond its last checkpoint, all of which are in the
    /// session files now; many may have been before. In a read-only open, they are shown and the
    /// files are unchanged.
    pub replayed_records: u64,
    /// Bytes of whole records in an unfinished last commit that were discarded. No caller was told
    /// that they would survive.
    pub torn_bytes: u64,
    /// Number of sessions found.
    pub sessions: usize,
    /// Number of aliases that several sessions claim; see
    /// [`StoreHandle::alias_conflicts`](crate::StoreHandle::alias_conflicts).
    pub contested_aliases: usize,
    /// Sessions, by key, that another program changed before this open. The number is that of the
    /// backup with the journal's lines that the program did not keep
    /// ([`BackupReason::Conflict`](crate::BackupReason::Conflict)). An open that was cut short may
    /// have made more backups, and logged them.
    pub conflicts: Vec<(String, u64)>,
    /// All other findings, one line each, for a person: damaged sidecars, keys claimed twice, files
    /// that another program changed.
    pub findings: Vec<String>,
    /// The findings that report lost lines.
    pub(crate) losses: Vec<String>,
}

impl RecoveryReport {
    /// Takes in a finding that reports lost lines.
    pub(crate) fn lose(&mut self, finding: String) {
        self.losses.push(finding.clone());
        self.findings.push(finding);
    }

    /// Puts the findings of an attempt that was cut short before its own, each once.
    pub(crate) fn follow(&mut self, earlier: Self) {
        put_before(&mut self.conflicts, earlier.conflicts);
        put_before(&mut self.findings, earlier.findings);
        put_before(&mut self.losses, earlier.losses);
    }
}

fn put_before<T: PartialEq>(own: &mut Vec<T>, mut earlier: Vec<T>) {
    earlier.retain(|one| !own.contains(one));
    own.splice(0..0, earlier);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_attempt_cut_short_found_comes_first_and_once() {
        let mut earlier = RecoveryReport::default();
        earlier.findings.push(String::from("a link is set aside"));
        earlier.lose(String::from("a line is gone"));
        let mut report = RecoveryReport::default();
        report.lose(String::from("a line is gone"));
        report.follow(earlier);
        assert_eq!(report.findings, ["a link is set aside", "a line is gone"]);
        assert_eq!(report.losses, ["a line is gone"]);
    }
}
