//! Reports for a person.

use std::fmt;

use super::report::{
    JournalCheck, SegmentCheck, SegmentEnd, SessionCheck, SidecarCheck, VerifyReport,
};

impl fmt::Display for VerifyReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let faults = self.faults();
        match faults.len() {
            0 => writeln!(f, "sound")?,
            1 => writeln!(f, "1 fault")?,
            n => writeln!(f, "{n} faults")?,
        }
        for fault in &faults {
            write!(f, "{fault}")?;
        }
        if self.busy {
            writeln!(
                f,
                "a writer is at work; what it has under way may look unfinished"
            )?;
        }
        for name in &self.unsettled {
            writeln!(f, "  {name} changed while it was looked at")?;
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
