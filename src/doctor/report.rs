//! What a look at a directory found.

use std::fmt;

/// Everything [`Store::verify`](crate::Store::verify) found in a directory.
///
/// Its `Display` is a report for a person: every problem, then every journal
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
        /// Whole batches found behind them.
        behind: usize,
    },
}

/// One session.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct SessionCheck {
    /// Its file name without extension.
    pub stem: String,
    /// Whose it is; empty where no sidecar says.
    pub key: String,
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
    /// Whether it counts other lines than there are.
    pub stale: bool,
    /// Whether it hides more lines than there are.
    pub skip_beyond: bool,
    /// Whether there is a sidecar and no session file, though lines are counted.
    pub orphan_sidecar: bool,
    /// Why a rewrite that the journal holds cannot be carried out, if it cannot.
    pub rewrite_fault: Option<String>,
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
    /// Whether nothing was found that [`Store::repair`](crate::Store::repair)
    /// would mend or a person should look at.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        self.problems().is_empty()
    }

    /// Everything that is wrong, one line each, for a person. What an unclean
    /// end leaves, and the next open clears away, is not wrong.
    #[must_use]
    pub fn problems(&self) -> Vec<String> {
        let mut all = self.journal.problems();
        all.extend(self.sessions.iter().flat_map(SessionCheck::problems));
        let claimed = |what: &str, claim: &Claim| {
            format!(
                "{what} {:?} is claimed by {}",
                claim.name,
                claim.stems.join(", ")
            )
        };
        all.extend(
            self.duplicate_keys
                .iter()
                .map(|claim| claimed("key", claim)),
        );
        all.extend(
            self.duplicate_aliases
                .iter()
                .map(|claim| claimed("alias", claim)),
        );
        all
    }
}

impl JournalCheck {
    fn problems(&self) -> Vec<String> {
        let mut all = Vec::new();
        all.extend(self.damage.iter().map(|why| format!("journal: {why}")));
        for segment in &self.segments {
            let name = &segment.name;
            all.extend(segment.fault.iter().map(|why| format!("{name}: {why}")));
            if let SegmentEnd::Damaged { offset, behind } = segment.end {
                all.push(format!(
                    "{name}: damaged at byte {offset}; {behind} whole batches stand behind that"
                ));
            }
        }
        all
    }
}

impl SessionCheck {
    fn problems(&self) -> Vec<String> {
        let mut all = Vec::new();
        let mut say = |what: String| all.push(format!("{}: {what}", self.stem));
        if let Some(why) = &self.unreadable {
            say(why.clone());
        }
        if let Some(why) = &self.rewrite_fault {
            say(why.clone());
        }
        for line in &self.damaged {
            let DamagedLine {
                offset,
                len,
                reason,
            } = line;
            say(format!("{len} bytes at {offset} are no record: {reason}"));
        }
        let unlisted = self.damaged_lines - self.damaged.len() as u64;
        if unlisted > 0 {
            say(format!("{unlisted} more lines are no records"));
        }
        if let SidecarCheck::Corrupt { reason } = &self.sidecar {
            say(format!("the sidecar does not decode: {reason}"));
        }
        if self.orphan_sidecar {
            say(format!(
                "the session file is missing; the sidecar counts {} lines",
                self.count
            ));
        } else if self.skip_beyond {
            say(format!(
                "{} lines are to be skipped of {}",
                self.skip, self.lines
            ));
        } else if self.stale {
            say(format!(
                "{} lines are counted, {} are there",
                self.count, self.lines
            ));
        }
        all
    }
}

impl fmt::Display for VerifyReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let problems = self.problems();
        match problems.len() {
            0 => writeln!(f, "sound")?,
            n => writeln!(f, "{n} problems")?,
        }
        for problem in &problems {
            writeln!(f, "  {problem}")?;
        }
        if self.busy {
            writeln!(
                f,
                "a writer is at work; what it has under way may look unfinished"
            )?;
        }
        write!(f, "{}", self.journal)?;
        writeln!(f, "{} sessions", self.sessions.len())?;
        for session in &self.sessions {
            writeln!(f, "  {session}")?;
        }
        for stray in &self.strays {
            writeln!(f, "  left over: {stray}")?;
        }
        Ok(())
    }
}

impl fmt::Display for JournalCheck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "journal: {} segments, checkpoint at batch {}, synced up to {}",
            self.segments.len(),
            self.checkpoint,
            self.watermark
        )?;
        for segment in &self.segments {
            writeln!(f, "  {segment}")?;
        }
        match (&self.damage, self.clean) {
            (Some(_), _) => writeln!(f, "  opening refuses it; repair can mend it"),
            (None, true) => writeln!(f, "  closed in order; opening has nothing to do"),
            (None, false) => writeln!(
                f,
                "  opening carries out {} records and discards {} torn bytes",
                self.replayed_records, self.torn_bytes
            ),
        }
    }
}

impl fmt::Display for SegmentCheck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            name,
            bytes,
            batches,
            records,
            ..
        } = self;
        write!(
            f,
            "{name}: {bytes} bytes, {records} records in {batches} batches"
        )?;
        if let Some((first, last)) = self.range {
            write!(f, " ({first} to {last})")?;
        }
        match self.end {
            SegmentEnd::Whole => Ok(()),
            SegmentEnd::Torn { offset } => write!(f, ", torn at {offset}"),
            SegmentEnd::Damaged { offset, .. } => write!(f, ", damaged at {offset}"),
        }
    }
}

impl fmt::Display for SessionCheck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            stem,
            key,
            lines,
            messages,
            controls,
            skip,
            ..
        } = self;
        write!(
            f,
            "{stem} ({key:?}): {lines} lines, {messages} messages, {controls} controls, {} damaged, \
             {skip} skipped",
            self.damaged_lines
        )?;
        if self.torn_end {
            write!(f, ", no last line feed")?;
        }
        if self.sidecar == SidecarCheck::Missing {
            write!(f, ", no sidecar")?;
        }
        Ok(())
    }
}
