//! The report of examining a directory.

/// The result of [`Store::verify`](crate::Store::verify) for a directory.
///
/// Its `Display` is a report for a person: every fault, then every journal
/// segment, then every session.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct VerifyReport {
    /// The journal, and the result that opening would have.
    pub journal: JournalCheck,
    /// Every session, by file name.
    pub sessions: Vec<SessionCheck>,
    /// Keys that several sidecars claim. The first file listed has the key, the others are left
    /// alone.
    pub duplicate_keys: Vec<Claim>,
    /// Aliases that several sessions claim. The first by file name gets it.
    pub duplicate_aliases: Vec<Claim>,
    /// Names in the store's directory and in its journal that an unfinished
    /// rewrite or recovery left; the next open removes them.
    pub strays: Vec<String>,
    /// True if the journal changed while this was read: a writer is at work, and the state between
    /// two of its writes may look unfinished.
    pub busy: bool,
    /// Things that changed each time they were looked at and did not look sound: sessions by their
    /// file name without extension, or `the journal`. Nothing is known to be wrong with them;
    /// verify again.
    pub unsettled: Vec<String>,
}

/// The content of the journal.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct JournalCheck {
    /// The fault of the store's identity, if it has one. A directory that was never opened has
    /// neither journal nor identity.
    pub identity_fault: Option<String>,
    /// Every segment, by number.
    pub segments: Vec<SegmentCheck>,
    /// Everything up to this batch is in the session files.
    pub checkpoint: u64,
    /// The newest batch known to have been synced. Unreadable bytes at or below it are damage.
    pub watermark: u64,
    /// True if the last writer closed the store in order.
    pub clean: bool,
    /// Number of records that opening would carry out once more.
    pub replayed_records: u64,
    /// Bytes of an unfinished last commit that opening would discard.
    pub torn_bytes: u64,
    /// The reason that opening fails with [`Error::Corrupt`](crate::Error::Corrupt), if it does;
    /// [`Store::repair`](crate::Store::repair) can mend it.
    pub damage: Option<String>,
    /// The parts of a damaged journal that [`Store::repair`](crate::Store::repair) would give up,
    /// one line each, in its words. Empty if it loses nothing.
    pub losses: Vec<String>,
}

/// One segment of the journal.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct SegmentCheck {
    /// Its file name.
    pub name: String,
    /// Its size, bytes.
    pub bytes: u64,
    /// The fault of its header, if it has one.
    pub fault: Option<String>,
    /// Number of records in batches that read.
    pub records: u64,
    /// Number of batches that read.
    pub batches: usize,
    /// Number of the first and of the last batch that reads.
    pub range: Option<(u64, u64)>,
    /// The newest batch that a commit record in it calls synced.
    pub watermark: u64,
    /// Its end.
    pub end: SegmentEnd,
}

/// The end of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SegmentEnd {
    /// Nothing follows its last whole batch.
    Whole,
    /// After its last whole batch stands a commit that never finished; no caller was told that it
    /// would survive.
    Torn {
        /// Its offset, bytes from the start of the segment.
        offset: u64,
    },
    /// Committed bytes do not read.
    Damaged {
        /// Their offset, bytes from the start of the segment.
        offset: u64,
        /// Number of whole batches found after them.
        behind: usize,
    },
}

/// One session.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct SessionCheck {
    /// Its file name without extension.
    pub stem: String,
    /// Its key; empty if no sidecar names it.
    pub key: String,
    /// Its other keys.
    pub aliases: Vec<String>,
    /// Number of lines, with those that the journal holds and the file does not yet.
    pub lines: u64,
    /// Number of messages among them, truncated ones included.
    pub messages: u64,
    /// Number of control records among them.
    pub controls: u64,
    /// Lines that are no record; they are kept, and never shown.
    pub damaged: Vec<DamagedLine>,
    /// Number of damaged lines; only the first 1,000 are listed.
    pub damaged_lines: u64,
    /// True if the last line lacks its line feed. The next append supplies it.
    pub torn_end: bool,
    /// The state of the sidecar.
    pub sidecar: SidecarCheck,
    /// Number of lines at the start of the file that the sidecar hides.
    pub skip: i64,
    /// Number of lines that the sidecar counts.
    pub count: i64,
    /// The difference between the sidecar and the lines, if there is one.
    pub mismatch: Option<Mismatch>,
    /// The reason that a journalled rewrite cannot be carried out as it was meant, if there is one.
    /// Opening continues with the remaining part of the session.
    pub rewrite_fault: Option<String>,
    /// The change that another program made to its files after a crash, if it did, and the session
    /// after the next open. Lines that the journal holds and the session then lacks will be a
    /// backup.
    pub changed: Option<String>,
    /// The faults of backups that the journal made, one line each.
    pub backup_faults: Vec<String>,
    /// The reason that its files could not be read, if they could not.
    pub unreadable: Option<String>,
}

/// A line that is no record.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DamagedLine {
    /// Its offset, bytes from the start of the file.
    pub offset: u64,
    /// Its length without the line feed, bytes.
    pub len: u64,
    /// The reason that it is no record.
    pub reason: &'static str,
}

/// The state of a sidecar.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum SidecarCheck {
    /// It decodes, or the journal holds it whole.
    Sound,
    /// There is none: the session is not listed.
    #[default]
    Missing,
    /// It does not decode.
    Corrupt {
        /// The reason.
        reason: String,
    },
    /// It is no sidecar, but a session of PicoClaw's older manager to be imported.
    Unimported,
}

/// The difference between a sidecar and the lines of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Mismatch {
    /// It counts lines, and there is no session file, or an empty one.
    LinesMissing,
    /// It hides more lines than there are.
    SkipBeyond,
    /// Its count differs from the number of lines.
    Stale,
}

/// A name that several sessions claim.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Claim {
    /// The key or alias.
    pub name: String,
    /// The file names, without extension, of the sessions that claim it; the first has it.
    pub stems: Vec<String>,
}

impl VerifyReport {
    /// True if no fault was found: nothing that [`Store::repair`](crate::Store::repair) would mend
    /// (except a sidecar that was never made), and nothing that a person should look at, such as
    /// aliases of several sessions.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        self.faults().is_empty()
    }
}

impl SessionCheck {
    /// Drops all faults found: they were not of one moment.
    pub(super) fn forget(&mut self) {
        *self = Self {
            stem: std::mem::take(&mut self.stem),
            key: std::mem::take(&mut self.key),
            sidecar: SidecarCheck::Sound,
            ..Self::default()
        };
    }
}
