//! The share of a worker's time that goes to writing files.
//!
//! No caller waits for files written between flushes: the journal has their content. If many
//! sessions are written to, each needs a write and a sidecar of its own, and these take processors
//! from the commands. So the more such writing costs, the longer it waits, and the more lines go
//! out with one write.

use std::time::Duration;

/// Writing takes at most one part in `SHARE` of a worker's time, unless it has waited for the
/// longest time.
const SHARE: u32 = 16;

/// The wait between two periods of writing.
#[derive(Debug)]
pub(super) struct WriteBudget {
    least: Duration,
    longest: Duration,
    wait: Duration,
    /// Start of the present period, and the time spent writing in it.
    since: Duration,
    spent: Duration,
}

impl WriteBudget {
    /// Returns a budget with waits between `least` and `longest`.
    pub(super) fn new(least: Duration, longest: Duration) -> Self {
        Self {
            least,
            longest,
            wait: least,
            since: Duration::ZERO,
            spent: Duration::ZERO,
        }
    }

    pub(super) fn wait(&self) -> Duration {
        self.wait
    }

    /// Notes that something was written in this period, between two times.
    pub(super) fn spend(&mut self, from: Duration, to: Duration) {
        self.spent += to.saturating_sub(from);
    }

    /// Begins a period, if the last one is over; returns true if it is.
    pub(super) fn begin(&mut self, now: Duration) -> bool {
        let is_over = now >= self.since + self.wait;
        if is_over {
            // A period after which nothing was written costs no more than it did.
            let idle = now.saturating_sub(self.since + self.wait) > self.longest;
            let spent = if idle { Duration::ZERO } else { self.spent };
            self.wait = spent.saturating_mul(SHARE).clamp(self.least, self.longest);
            self.since = now;
            self.spent = Duration::ZERO;
        }
        is_over
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn lines() -> WriteBudget {
        WriteBudget::new(400 * MS, 4_000 * MS)
    }

    /// Writes for so long at the end of each wait; returns the last wait.
    fn after(budget: &mut WriteBudget, costs: &[u32]) -> Duration {
        let mut now = Duration::ZERO;
        for cost in costs {
            now += budget.wait();
            assert!(budget.begin(now));
            budget.spend(now, now + *cost * MS);
            now += *cost * MS;
        }
        budget.begin(now + budget.wait());
        budget.wait()
    }

    #[test]
    fn what_costs_little_waits_no_longer_than_the_least() {
        assert_eq!(after(&mut lines(), &[25; 20]), 400 * MS);
    }

    #[test]
    fn what_costs_much_takes_its_share_of_the_time_and_no_more() {
        let wait = after(&mut lines(), &[100; 20]);
        assert_eq!(wait, 100 * SHARE * MS);
    }

    #[test]
    fn nothing_waits_longer_than_the_longest() {
        assert_eq!(after(&mut lines(), &[1_000; 20]), 4_000 * MS);
    }

    #[test]
    fn once_it_costs_little_again_it_waits_the_least_again() {
        assert_eq!(after(&mut lines(), &[300, 300, 300, 1, 1]), 400 * MS);
    }

    #[test]
    fn after_a_pause_it_waits_the_least() {
        let mut budget = lines();
        after(&mut budget, &[300; 5]);
        budget.begin(Duration::from_mins(1));
        assert_eq!(budget.wait(), 400 * MS);
    }
}
