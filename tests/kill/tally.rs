//! What happened, added up.

use std::fmt;

use crate::Result;
use crate::gateway::Ended;

#[derive(Default)]
pub(crate) struct Tally {
    pub(crate) rounds: usize,
    /// Kills before the store was open, while it worked, and after its last
    /// command (close, reopening).
    pub(crate) opening: usize,
    pub(crate) working: usize,
    pub(crate) closing: usize,
    /// Rounds in which the gateway ended before its kill.
    pub(crate) ended: usize,
    /// Kills of a recovery that was not through.
    pub(crate) recoveries: usize,
    pub(crate) acknowledged: u64,
}

impl Tally {
    /// Notes where a kill landed, by what the gateway had reported.
    pub(crate) fn note(&mut self, ended: &Ended) {
        self.rounds += 1;
        let place = if !ended.killed() {
            &mut self.ended
        } else if ended.stdout.is_empty() {
            &mut self.opening
        } else if ended.closing.is_some() {
            &mut self.closing
        } else {
            &mut self.working
        };
        *place += 1;
    }

    /// A test that kills what has ended anyway, or before it was given work,
    /// would pass whatever the store does.
    pub(crate) fn is_worth_its_name(&self) -> Result<()> {
        let landed = self.rounds - self.ended;
        if landed * 4 < self.rounds * 3 {
            return Err("fewer than three in four kills hit a running gateway".into());
        }
        if self.working * 3 < self.rounds {
            return Err("fewer than one in three kills hit a gateway at work".into());
        }
        if self.acknowledged == 0 {
            return Err("nothing was acknowledged".into());
        }
        Ok(())
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            rounds,
            opening,
            working,
            closing,
            ended,
            recoveries,
            acknowledged,
        } = self;
        writeln!(
            f,
            "kill: killed {opening} opening, {working} at work, {closing} closing; \
             {ended} had ended; {recoveries} recoveries killed"
        )?;
        // A round with either ends the test, so whoever gets here met none.
        write!(
            f,
            "kill: {rounds} rounds, {acknowledged} acknowledged commands, 0 missing, 0 back"
        )
    }
}
