//! A look at a journal that another process may be writing to.

use sessionlog_core::error::{Error, Result};
use sessionlog_wal::journal::inspect::Inspection;
use sessionlog_wal::journal::scan::{End, Scan, Tip};
use sessionlog_wal::storage::Storage;

use super::report::JournalCheck;
use super::verify::segment;
use crate::engine::home::Home;
use crate::engine::recovery::plan::Plans;

/// Number of times that a journal is read again if it looks damaged and is written to.
const TRIES: usize = 20;

/// One look at the journal.
#[derive(Debug)]
pub(super) struct JournalLook {
    pub(super) report: JournalCheck,
    pub(super) plans: Plans,
    pub(super) strays: Vec<String>,
    /// True if it looked damaged, and different each time.
    pub(super) is_unsettled: bool,
    end: Option<End>,
    tips: Vec<Tip>,
}

/// The change of a session between two looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stood {
    /// The journal says the same of it.
    Still,
    /// It has more lines, and nothing else.
    Grown,
    Moved,
}

impl JournalLook {
    /// Looks until nothing is wrong, or the same is wrong twice. A writer beside us takes segments
    /// away and writes on between two reads. That looks like damage, and is none if it goes away.
    pub(super) fn settled(storage: &dyn Storage, home: &Home) -> Result<Self> {
        let mut look = Self::at(storage, home)?;
        for _ in 1..TRIES {
            let complaints = look.complaints();
            if complaints.is_empty() {
                return Ok(look);
            }
            let moved = look.moved(storage, home);
            look = Self::at(storage, home)?;
            if !moved && look.complaints() == complaints && !look.moved(storage, home) {
                return Ok(look);
            }
        }
        look.is_unsettled = !look.complaints().is_empty();
        if look.is_unsettled {
            look.report.damage = None;
            look.report.segments.clear();
        }
        Ok(look)
    }

    fn at(storage: &dyn Storage, home: &Home) -> Result<Self> {
        let end = Scan::end(storage, &home.journal).unwrap_or_default();
        let (id, identity_fault) = match home.read_identity(storage) {
            Ok(id) => (id, None),
            Err(Error::Corrupt { detail, .. }) => (None, Some(detail)),
            Err(e) => return Err(e),
        };
        let inspection = Inspection::read(storage, &home.journal, id.as_ref())?;
        let mut plans = Plans::default();
        let mut report = JournalCheck {
            identity_fault,
            checkpoint: inspection.checkpoint,
            watermark: inspection.watermark(),
            ..JournalCheck::default()
        };
        let tips = report.judge(storage, home, id, &inspection, &mut plans);
        let damaged = report.damage.is_some();
        let segments = inspection.segments.iter();
        report.segments = segments.map(|s| segment(s, &inspection, damaged)).collect();
        let mut strays = inspection.strays;
        strays.sort();
        Ok(Self {
            report,
            plans,
            strays,
            is_unsettled: false,
            end,
            tips,
        })
    }

    fn complaints(&self) -> Vec<String> {
        self.report
            .fault()
            .map_or_else(Vec::new, |fault| fault.places)
    }

    /// Returns true if the journal has changed since.
    pub(super) fn moved(&self, storage: &dyn Storage, home: &Home) -> bool {
        let end = Scan::end(storage, &home.journal).unwrap_or_default();
        let is_free = |tip: &Tip| tip.is_taken(storage).is_ok_and(|taken| !taken);
        end != self.end || !self.tips.iter().all(is_free)
    }

    /// Returns the change of a session since.
    pub(super) fn stood(&self, now: &Self, stem: &str) -> Stood {
        if self.is_unsettled || now.is_unsettled {
            return Stood::Moved;
        }
        // The records that a checkpoint covers are in files that were written since.
        let covered = self.report.checkpoint != now.report.checkpoint;
        match [self, now].map(|look| look.plans.sessions.get(stem)) {
            _ if covered => Stood::Moved,
            [None, None] => Stood::Still,
            // Records are only added until a checkpoint takes them all.
            [Some(before), Some(now)] if now.past.said.len() == before.past.said.len() => {
                Stood::Still
            }
            [Some(before), Some(now)] if now.only_adds_to(before) => Stood::Grown,
            _ => Stood::Moved,
        }
    }
}
