//! Decides whether a transaction waits for the callers that the last one answered.
//!
//! Callers that wait for their answers fall into two halves, one in the transaction under way and
//! one after it. Each half pays for a transaction of its own. A part of the last transaction's time
//! is enough for the first callers to wait for the others, if the others come back at all.

use std::time::Duration;

use tokio::time::Instant;

/// The shortest transaction that is waited for: time is measured in milliseconds.
const SHORTEST: Duration = Duration::from_millis(1);

/// The longest wait. A server that stalls once must not delay the next transaction, too.
const LONGEST: Duration = Duration::from_millis(2);

/// The least and the most transactions that begin at once after waiting was in vain.
const PAUSE: (u32, u32) = (4, 256);

#[derive(Debug, Default)]
pub(super) struct Company {
    /// The number of sessions that are waited for, and the end of the wait.
    wanted: usize,
    until: Option<Instant>,
    /// The number of transactions that begin at once before the next try, and the number that is
    /// used if that try is in vain again.
    pause: u32,
    next_pause: u32,
}

impl Company {
    /// Notes that the callers of this number of sessions were answered, by a transaction that took
    /// this long.
    pub(super) fn answered(&mut self, sessions: usize, took: Duration, now: Instant) {
        // A caller that already waits does not wait anew.
        if self.until.is_some_and(|until| until > now) {
            return;
        }
        self.until = None;
        if sessions < 3 || took < SHORTEST {
            return;
        }
        if self.pause > 0 {
            self.pause -= 1;
            return;
        }
        self.wanted = sessions - sessions / 8;
        self.until = Some(now + (took / 4).min(LONGEST));
    }

    /// Returns the time until which the next transaction waits while this number of sessions is
    /// ready.
    pub(super) fn awaited(&self, ready: usize, now: Instant) -> Option<Instant> {
        self.until
            .filter(|until| ready < self.wanted && now < *until)
    }

    /// Notes that a transaction begins with this number of sessions.
    pub(super) fn begins(&mut self, ready: usize) {
        if self.until.take().is_none() {
            return;
        }
        if ready >= self.wanted {
            self.next_pause = PAUSE.0;
        } else {
            self.pause = self.next_pause.max(PAUSE.0);
            self.next_pause = (self.pause * 2).min(PAUSE.1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOOK: Duration = Duration::from_millis(4);

    /// True if the next transaction waits after one of eight sessions. It begins with `ready`
    /// sessions.
    fn waits(company: &mut Company, ready: usize) -> bool {
        let now = Instant::now();
        company.answered(8, TOOK, now);
        let waits = company.awaited(1, now).is_some();
        company.begins(ready);
        waits
    }

    #[test]
    fn waiting_that_pays_is_done_each_time() {
        let mut company = Company::default();
        assert!((0..100).all(|_| waits(&mut company, 7)));
    }

    #[test]
    fn waiting_in_vain_is_done_ever_more_rarely_and_never_not_at_all() {
        let mut company = Company::default();
        let mut count = || (0..1_000).filter(|_| waits(&mut company, 1)).count();
        let (first, later) = (count(), count());
        assert!(later < first && later >= 1_000 / (PAUSE.1 as usize + 1));
    }

    #[test]
    fn neither_few_nor_quick_nor_stalled_transactions_are_waited_for_long() {
        let now = Instant::now();
        let until = |sessions, took| {
            let mut company = Company::default();
            company.answered(sessions, took, now);
            company.awaited(0, now)
        };
        assert_eq!(until(2, TOOK), None);
        assert_eq!(until(8, SHORTEST / 2), None);
        assert_eq!(until(8, TOOK), Some(now + TOOK / 4));
        assert_eq!(until(8, TOOK * 1_000), Some(now + LONGEST));
    }
}
