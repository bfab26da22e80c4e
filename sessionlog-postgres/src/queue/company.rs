//! Whether a transaction waits for those whom the last one answered.
//!
//! Callers that wait for their answers fall into two halves, one in the transaction under way
//! and one after it, and each half pays for a transaction of its own. A part of the last one's
//! time is enough for the first of them to wait for the others, if they come back at all.

use std::time::Duration;

use tokio::time::Instant;

/// A quicker transaction is not waited for: time is measured in milliseconds.
const SHORTEST: Duration = Duration::from_millis(1);

/// The longest wait. A server that stalls once must not hold up the next transaction, too.
const LONGEST: Duration = Duration::from_millis(2);

/// Transactions that begin at once after waiting was in vain: at least, at most.
const PAUSE: (u32, u32) = (4, 256);

#[derive(Debug, Default)]
pub(super) struct Company {
    /// How many sessions are waited for, and until when.
    wanted: usize,
    until: Option<Instant>,
    /// Transactions to let go before it is tried again, and what becomes of that if it is in
    /// vain again.
    pause: u32,
    next_pause: u32,
}

impl Company {
    /// So many sessions' callers were answered, by a transaction that took so long.
    pub(super) fn answered(&mut self, sessions: usize, took: Duration, now: Instant) {
        // Who waits already does not wait anew.
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

    /// Until when the next transaction waits while so many sessions are ready.
    pub(super) fn awaited(&self, ready: usize, now: Instant) -> Option<Instant> {
        self.until
            .filter(|until| ready < self.wanted && now < *until)
    }

    /// A transaction begins with so many of them.
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

    /// Whether the next transaction waits, after one of eight; and it begins with so many.
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
