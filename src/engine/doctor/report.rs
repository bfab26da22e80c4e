//! What a look at a directory found.

/// Everything [`Store::verify`](crate::Store::verify) found in a directory.
///
/// Its `Display` is a report for a person: every fault, then every journal
/// segment, then every session.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct VerifyReport {
    /// The journal, and what opening would make of it.
    pub journal: JournalCheck,
    /// Every session, by file name.
    pub sessions: Vec<SessionCheck>,
    /// Keys that several sidecars claim. The first named file has the key, the
    /// others are left alone.
    pub duplicate_keys: Vec<Claim>,
    /// Aliases that several sessions claim. The first by file name gets it.
    pub duplicate_aliases: Vec<Claim>,
    /// Names in the store's directory and in its journal that an unfinished
    /// rewrite or recovery left; the next open removes them.
    pub strays: Vec<String>,
    /// Whether the journal changed while this was read: a writer is at work,
    /// and what stands between two of its writes may look unfinished.
    pub busy: bool,
    /// What changed each time it was looked at, and did not look sound: sessions by
    /// their file name without extension, or `the journal`. Nothing is known to be
    /// wrong with them; look again.
    pub unsettled: Vec<String>,
}

/// What the journal holds.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct JournalCheck {
    /// What is wrong with the store's identity, if anything is. A directory
    /// nobody opened has neither journal nor identity.
    pub identity_fault: Option<String>,
    /// Every segment, by number.
    pub segments: Vec<SegmentCheck>,
    /// Everything up to this batch is in the session files.
    pub checkpoint: u64,
    /// The newest batch known to have been synced. What does not read at or
    /// below it is damage.
    pub watermark: u64,
    /// Whether the last writer closed the store in order.
    pub clean: bool,
    /// Records that opening would carry out once more.
    pub replayed_records: u64,
    /// Bytes of an unfinished last commit that opening would discard.
    pub torn_bytes: u64,
    /// Why opening fails with [`Error::Corrupt`](crate::Error::Corrupt), if it
    /// does; [`Store::repair`](crate::Store::repair) can mend it.
    pub damage: Option<String>,
    /// What [`Store::repair`](crate::Store::repair) would give up of a damaged journal, one line
    /// each, in its words. Empty if that loses nothing.
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
    /// What is wrong with its header, if anything is.
    pub fault: Option<String>,
    /// Records in batches that read.
    pub records: u64,
    /// Batches that read.
    pub batches: usize,
    /// Number of the first and of the last batch that reads.
    pub range: Option<(u64, u64)>,
    /// The newest batch that a commit record in it calls synced.
    pub watermark: u64,
    /// How it ends.
    pub end: SegmentEnd,
}

/// How a segment ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SegmentEnd {
    /// Behind its last whole batch there is nothing.
    Whole,
    /// Behind its last whole batch stands a commit that never finished, which
    /// nobody was told would survive.
    Torn {
        /// Where it begins, bytes from the start of the segment.
        offset: u64,
    },
    /// Committed bytes do not read.
    Damaged {
        /// Where they begin, bytes from the start of the segment.
        offset: u64,
        /// Whole batches found after them.
        behind: usize,
    },
}

/// One session.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct SessionCheck {
    /// Its file name without extension.
    pub stem: String,
    /// Whose it is; empty if no sidecar says.
    pub key: String,
    /// Its other keys.
    pub aliases: Vec<String>,
    /// Lines, with those that the journal holds and the file does not yet.
    pub lines: u64,
    /// Messages among them, truncated ones included.
    pub messages: u64,
    /// Control records among them.
    pub controls: u64,
    /// Lines that are no record; they are kept, and never shown.
    pub damaged: Vec<DamagedLine>,
    /// How many there are; only the first 1,000 are listed.
    pub damaged_lines: u64,
    /// Whether the last line lacks its line feed. The next append supplies it.
    pub torn_end: bool,
    /// What the sidecar is like.
    pub sidecar: SidecarCheck,
    /// Lines at the start of the file that the sidecar hides.
    pub skip: i64,
    /// Lines that the sidecar counts.
    pub count: i64,
    /// How what the sidecar says differs from what there is, if it does.
    pub mismatch: Option<Mismatch>,
    /// Why a rewrite that the journal holds cannot be carried out as it was meant,
    /// if it cannot. Opening goes on with what is left of the session.
    pub rewrite_fault: Option<String>,
    /// What another program did to its files after a crash, if it did, and what the
    /// session is with the next open. What the journal holds and is not in it will be a
    /// backup.
    pub changed: Option<String>,
    /// What is wrong with backups that the journal made, one line each.
    pub backup_faults: Vec<String>,
    /// Why its files could not be read, if they could not.
    pub unreadable: Option<String>,
}

/// A line that is no record.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DamagedLine {
    /// Where it begins, bytes from the start of the file.
    pub offset: u64,
    /// Its length without the line feed, bytes.
    pub len: u64,
    /// What is wrong with it.
    pub reason: &'static str,
}

/// What a sidecar is like.
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
        /// What is wrong with it.
        reason: String,
    },
    /// It is none, but a session of PicoClaw's older manager to be imported.
    Unimported,
}

/// How a sidecar differs from the lines there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Mismatch {
    /// It counts lines, and there is no session file, or an empty one.
    LinesMissing,
    /// It hides more lines than there are.
    SkipBeyond,
    /// It counts other lines than there are.
    Stale,
}

/// A name that several sessions claim.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Claim {
    /// The key or alias.
    pub name: String,
    /// The file names without extension of those that claim it; the first has it.
    pub stems: Vec<String>,
}

impl VerifyReport {
    /// Whether nothing was found that is wrong: what
    /// [`Store::repair`](crate::Store::repair) would mend (but for a sidecar that was
    /// never made), or a person should look at, aliases of several sessions among them.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        self.faults().is_empty()
    }
}

impl SessionCheck {
    /// Takes back whatever is wrong: it was of no one moment.
    pub(super) fn forget(&mut self) {
        *self = Self {
            stem: std::mem::take(&mut self.stem),
            key: std::mem::take(&mut self.key),
            sidecar: SidecarCheck::Sound,
            ..Self::default()
        };
    }
}
