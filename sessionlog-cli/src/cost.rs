//! The cost of work: processor time, because on a busy machine the time on the clock tells nothing.

use std::time::{Duration, Instant};

/// The beginning of some work.
pub(crate) struct Cost {
    begun: Instant,
    spent: Option<Duration>,
}

impl Cost {
    pub(crate) fn begin() -> Self {
        Self {
            begun: Instant::now(),
            spent: spent(),
        }
    }

    /// Returns the processor time of the work so far, or clock time where the system does not tell.
    pub(crate) fn so_far(&self) -> Duration {
        match (self.spent, spent()) {
            (Some(then), Some(now)) => now.saturating_sub(then),
            _ => self.begun.elapsed(),
        }
    }
}

/// Returns the processor time of all threads of this process, where the system tells, in hundredths
/// of a second.
fn spent() -> Option<Duration> {
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    // The name of the program, in brackets, may hold any character.
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_whitespace().skip(11);
    let user: u64 = fields.next()?.parse().ok()?;
    let system: u64 = fields.next()?.parse().ok()?;
    Some(Duration::from_millis((user + system) * 10))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_costs_processor_time() {
        let cost = Cost::begin();
        while cost.so_far() < Duration::from_millis(20) {
            std::hint::black_box((0..10_000_u64).sum::<u64>());
        }
        assert!(cost.begun.elapsed() > Duration::ZERO);
    }
}
