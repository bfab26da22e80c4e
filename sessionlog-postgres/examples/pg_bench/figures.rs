//! Rates and latencies, and how they compare.

use std::fmt;
use std::time::Duration;

/// Appends per second, and the 50th and 99th of a hundred latencies.
#[derive(Clone, Debug)]
pub(crate) struct Rate {
    pub(crate) per_second: f64,
    pub(crate) p50: Duration,
    pub(crate) p99: Duration,
}

impl Rate {
    /// Of latencies, microseconds.
    pub(crate) fn of(mut took: Vec<u64>, per_second: f64) -> Self {
        took.sort_unstable();
        let at = |percent: usize| {
            let last = took.len().saturating_sub(1);
            Duration::from_micros(took.get(last * percent / 100).copied().unwrap_or(0))
        };
        Self {
            per_second,
            p50: at(50),
            p99: at(99),
        }
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            per_second,
            p50,
            p99,
        } = self;
        write!(f, "{per_second:.0}/s p50 {p50:.1?} p99 {p99:.1?}")
    }
}

/// The middle of each figure.
pub(crate) fn median(rates: &[Rate]) -> Rate {
    let mut per_second: Vec<f64> = rates.iter().map(|rate| rate.per_second).collect();
    per_second.sort_unstable_by(f64::total_cmp);
    let middle = |of: fn(&Rate) -> Duration| {
        let mut all: Vec<Duration> = rates.iter().map(of).collect();
        all.sort_unstable();
        all[all.len() / 2]
    };
    Rate {
        per_second: per_second[per_second.len() / 2],
        p50: middle(|rate| rate.p50),
        p99: middle(|rate| rate.p99),
    }
}

/// How many times as many appends, and how long they take of the other's time.
pub(crate) fn ratio(one: &Rate, other: &Rate) -> String {
    format!(
        "{:.1}x the appends/s, {:.2} of its p50, {:.2} of its p99",
        one.per_second / other.per_second,
        one.p50.as_secs_f64() / other.p50.as_secs_f64(),
        one.p99.as_secs_f64() / other.p99.as_secs_f64(),
    )
}
