//! What opening a directory found.

/// What opening the directory found and mended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RecoveryReport {
    /// Whether the last writer closed the store in order, or there was none.
    /// Opened read-only beside a writer that is running, `false`.
    pub clean: bool,
    /// Records that the journal held beyond its last checkpoint, all of which
    /// are in the session files now; many may have been before. Opened
    /// read-only, they are shown and the files are as they were.
    pub replayed_records: u64,
    /// Bytes of whole records in an unfinished last commit that were discarded.
    /// Nobody was told that they would survive.
    pub torn_bytes: u64,
    /// Sessions found.
    pub sessions: usize,
    /// Aliases that several sessions claim; see
    /// [`StoreHandle::alias_conflicts`](crate::StoreHandle::alias_conflicts).
    pub contested_aliases: usize,
    /// Sessions, by key, that another program changed before this open, and the numbers
    /// of the backups that hold what the journal had of them and they did not keep
    /// ([`BackupReason::Conflict`](crate::BackupReason::Conflict)). An open that was cut
    /// short may have made more, and logged them.
    pub conflicts: Vec<(String, u64)>,
    /// Everything else that was met, one line each, for a person: damaged
    /// sidecars, keys claimed twice, files another program changed.
    pub findings: Vec<String>,
    /// Those of the findings that tell of lines which are gone.
    pub(crate) losses: Vec<String>,
}

impl RecoveryReport {
    /// Takes in a finding that tells of lines which are gone.
    pub(crate) fn lose(&mut self, finding: String) {
        self.losses.push(finding.clone());
        self.findings.push(finding);
    }

    /// Puts before its own what an attempt found that was cut short, each once.
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
