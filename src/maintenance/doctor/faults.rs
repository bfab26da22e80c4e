//! Faults by cause: the cost of each, and its remedy.

use std::collections::BTreeMap;
use std::fmt;

use super::report::{
    Claim, DamagedLine, JournalCheck, Mismatch, SegmentEnd, SessionCheck, SidecarCheck,
    VerifyReport,
};

/// A fault, in all the places where it occurs.
///
/// Everything that one cause explains is one fault: a damaged journal is one fault, however many
/// sessions have lines in it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Fault {
    /// The fault, in a few words.
    pub cause: &'static str,
    /// The places and details, one line each.
    pub places: Vec<String>,
    /// The sessions concerned: their keys, or the names of their files without extension where no
    /// key is known.
    pub sessions: Vec<String>,
    /// The losses, one line each. Empty if nothing is lost.
    pub losses: Vec<String>,
    /// The next step.
    pub remedy: Remedy,
}

/// The remedy for a [`Fault`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Remedy {
    /// Open the store: that removes the fault.
    Open,
    /// [`Store::repair`](crate::Store::repair): it loses nothing that is not lost already.
    Repair,
    /// [`Store::repair`](crate::Store::repair) with
    /// [`allow_data_loss`](crate::RepairOptions::allow_data_loss). Without it the store does not
    /// open.
    RepairWithLoss,
    /// Look at the places: no program can decide about them.
    Look,
}

/// The cause of a fault of sessions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Cause {
    Unreadable,
    Rewrite,
    Changed,
    Backup,
    Lines,
    Sidecar,
    Missing,
    Skip,
    Count,
}

/// One fault of one session.
pub(super) struct Trouble {
    pub(super) cause: Cause,
    place: String,
    loss: Option<String>,
}

impl Cause {
    fn name(self) -> &'static str {
        match self {
            Self::Unreadable => "files cannot be read",
            Self::Rewrite => "a new history cannot be put in place as it was meant",
            Self::Changed => "another program changed files after a crash",
            Self::Backup => "backups are damaged",
            Self::Lines => "lines are no records",
            Self::Sidecar => "sidecars do not decode",
            Self::Missing => "session files are missing or empty",
            Self::Skip => "sidecars hide more lines than there are",
            Self::Count => "sidecars count other lines than there are",
        }
    }

    fn remedy(self) -> Remedy {
        match self {
            Self::Unreadable => Remedy::Look,
            Self::Changed => Remedy::Open,
            _ => Remedy::Repair,
        }
    }

    /// True if a journal that cannot be carried out explains the fault: the newest lines and
    /// sidecars are only in the journal.
    fn follows_from_the_journal(self) -> bool {
        matches!(self, Self::Missing | Self::Skip | Self::Count)
    }
}

impl fmt::Display for Remedy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Open => "the next open settles it",
            Self::Repair => "repair the store",
            Self::RepairWithLoss => "repair a copy of the store, and allow data loss",
            Self::Look => "look at it",
        })
    }
}

/// Cause, places, sessions, loss and remedy, indented.
impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "  {}", self.cause)?;
        for place in &self.places {
            writeln!(f, "    {place}")?;
        }
        if self.places.len() < self.sessions.len() {
            let sessions = self.sessions.join(", ");
            writeln!(f, "    sessions concerned: {sessions}")?;
        }
        for loss in &self.losses {
            writeln!(f, "    lost: {loss}")?;
        }
        writeln!(f, "    next: {}", self.remedy)
    }
}

impl VerifyReport {
    /// Returns all faults, by cause. The traces of an unclean end, which the next open removes, are
    /// no faults.
    #[must_use]
    pub fn faults(&self) -> Vec<Fault> {
        let mut journal = self.journal.fault();
        let mut by_cause: BTreeMap<Cause, Fault> = BTreeMap::new();
        for session in &self.sessions {
            for trouble in session.troubles() {
                if let Some(journal) = &mut journal
                    && trouble.cause.follows_from_the_journal()
                {
                    journal.concern(session.name());
                    continue;
                }
                let new = || Fault::new(trouble.cause.name(), trouble.cause.remedy());
                let fault = by_cause.entry(trouble.cause).or_insert_with(new);
                fault.concern(session.name());
                fault.places.push(trouble.place);
                fault.losses.extend(trouble.loss);
            }
        }
        let mut all: Vec<_> = journal.into_iter().chain(by_cause.into_values()).collect();
        all.extend(self.claimed("keys of several sessions", &self.duplicate_keys));
        all.extend(self.claimed("aliases of several sessions", &self.duplicate_aliases));
        all
    }

    /// Returns the places of all [`faults`](Self::faults), one line each.
    #[must_use]
    pub fn problems(&self) -> Vec<String> {
        let faults = self.faults().into_iter();
        faults.flat_map(|fault| fault.places).collect()
    }

    fn claimed(&self, cause: &'static str, claims: &[Claim]) -> Option<Fault> {
        let mut fault = Fault::new(cause, Remedy::Look);
        for Claim { name, stems } in claims {
            let (first, others) = stems.split_first()?;
            let others = others.join(", ");
            fault
                .places
                .push(format!("{name:?} leads to {first}; {others} claim it, too"));
            let of = |stem: &&String| self.sessions.iter().find(|check| check.stem == **stem);
            for session in stems.iter().filter_map(|stem| of(&stem)) {
                fault.concern(session.name());
            }
        }
        (!claims.is_empty()).then_some(fault)
    }
}

impl Fault {
    fn new(cause: &'static str, remedy: Remedy) -> Self {
        Self {
            cause,
            places: Vec::new(),
            sessions: Vec::new(),
            losses: Vec::new(),
            remedy,
        }
    }

    fn concern(&mut self, session: &str) {
        if self.sessions.last().is_none_or(|last| last != session) {
            self.sessions.push(session.to_owned());
        }
    }
}

impl JournalCheck {
    /// Returns the journal's fault, if it has one.
    pub(super) fn fault(&self) -> Option<Fault> {
        let mut places = Vec::new();
        for segment in &self.segments {
            let name = &segment.name;
            if let Some(why) = &segment.fault {
                places.push(format!("{name}: {why}"));
            }
            if let SegmentEnd::Damaged { offset, behind } = segment.end {
                places.push(format!(
                    "{name}: damaged at byte {offset}; {behind} whole batches stand behind that"
                ));
            }
        }
        // Opening reports batches only as far as it came; a repair reads on behind damage.
        if places.is_empty() || self.identity_fault.is_some() {
            places.extend(self.damage.iter().map(|why| format!("journal: {why}")));
        }
        let remedy = if self.losses.is_empty() {
            Remedy::Repair
        } else {
            Remedy::RepairWithLoss
        };
        (!places.is_empty()).then(|| Fault {
            places,
            losses: self.losses.clone(),
            ..Fault::new("the journal is damaged", remedy)
        })
    }
}

impl SessionCheck {
    /// Returns the session's key, or its file's name if no key is known.
    pub(super) fn name(&self) -> &str {
        if self.key.is_empty() {
            &self.stem
        } else {
            &self.key
        }
    }

    pub(super) fn troubles(&self) -> Vec<Trouble> {
        let name = self.name();
        let mut all = Vec::new();
        let mut say = |cause, what: &str, loss: Option<String>| {
            all.push(Trouble {
                cause,
                place: format!("{name}: {what}"),
                loss: loss.map(|loss| format!("{name}: {loss}")),
            });
        };
        if let Some(why) = &self.unreadable {
            say(Cause::Unreadable, why, None);
        }
        if let Some(why) = &self.rewrite_fault {
            let loss = "lines of the new history that its file lacks";
            say(Cause::Rewrite, why, Some(loss.into()));
        }
        if let Some(why) = &self.changed {
            say(Cause::Changed, why, None);
        }
        for why in &self.backup_faults {
            say(Cause::Backup, why, Some(String::from("that backup")));
        }
        if let Some(DamagedLine {
            offset,
            len,
            reason,
        }) = self.damaged.first()
        {
            let lines = self.damaged_lines;
            let what = if lines == 1 {
                format!("{len} bytes at {offset} are no record: {reason}")
            } else {
                format!(
                    "{lines} lines are no records; the first, {len} bytes at {offset}: {reason}"
                )
            };
            let loss = match lines {
                1 => String::from("what a damaged line said, but for records found in it"),
                _ => format!("what {lines} damaged lines said, but for records found in them"),
            };
            say(Cause::Lines, &what, Some(loss));
        }
        if let SidecarCheck::Corrupt { reason } = &self.sidecar {
            let loss = "what its sidecar said, where neither that nor a copy of it can be read";
            let what = format!("the sidecar does not decode: {reason}");
            say(Cause::Sidecar, &what, Some(loss.into()));
        }
        let Self {
            lines, skip, count, ..
        } = self;
        let there = i64::try_from(*lines).unwrap_or(i64::MAX);
        let gone = count.saturating_sub(there);
        // A damaged line is there, and no sidecar counts it.
        let damaged = i64::try_from(self.damaged_lines).unwrap_or(i64::MAX);
        let is_explained = (1..=damaged).contains(&there.saturating_sub(*count));
        match self.mismatch {
            Some(Mismatch::LinesMissing) => {
                let what = format!(
                    "the session file is missing or empty; the sidecar counts {count} lines"
                );
                say(Cause::Missing, &what, Some(format!("{count} lines")));
            }
            Some(Mismatch::SkipBeyond) => {
                let what = format!("{skip} lines are to be skipped of {lines}");
                say(Cause::Skip, &what, None);
            }
            Some(Mismatch::Stale) if is_explained => {}
            Some(Mismatch::Stale) => {
                let what = format!("the sidecar counts {count}, {lines} are there");
                let loss = format!("{gone} lines, unless the sidecar was wrong");
                say(Cause::Count, &what, (gone > 0).then_some(loss));
            }
            None => {}
        }
        all
    }
}
