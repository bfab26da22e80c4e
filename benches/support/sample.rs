//! Medians and percentiles.

/// The middle value; the mean of the two middle ones for an even count. Zero
/// for no values.
pub(crate) fn median(values: impl IntoIterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.into_iter().collect();
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => 0.0,
        n if n % 2 == 1 => values[middle],
        _ => f64::midpoint(values[middle - 1], values[middle]),
    }
}

/// Latencies of one measured window.
#[derive(Clone, Copy, Debug, Default, serde::Serialize)]
pub(crate) struct Latency {
    /// Operations behind the figures.
    pub(crate) count: usize,
    /// Milliseconds.
    pub(crate) p50_ms: f64,
    /// Milliseconds.
    pub(crate) p99_ms: f64,
    /// Milliseconds.
    pub(crate) p999_ms: f64,
    /// Milliseconds.
    pub(crate) max_ms: f64,
}

impl Latency {
    /// Summarises latencies given in nanoseconds.
    pub(crate) fn of(mut nanos: Vec<u64>) -> Self {
        nanos.sort_unstable();
        Self {
            count: nanos.len(),
            p50_ms: percentile_ms(&nanos, 500),
            p99_ms: percentile_ms(&nanos, 990),
            p999_ms: percentile_ms(&nanos, 999),
            max_ms: percentile_ms(&nanos, 1000),
        }
    }

    /// The median of every figure over the rounds.
    pub(crate) fn median_of(rounds: &[Self]) -> Self {
        let of = |pick: fn(&Self) -> f64| median(rounds.iter().map(pick));
        Self {
            count: rounds.iter().map(|round| round.count).sum(),
            p50_ms: of(|round| round.p50_ms),
            p99_ms: of(|round| round.p99_ms),
            p999_ms: of(|round| round.p999_ms),
            max_ms: of(|round| round.max_ms),
        }
    }
}

/// The nearest-rank quantile of sorted nanoseconds, in milliseconds.
fn percentile_ms(sorted: &[u64], per_mille: usize) -> f64 {
    let rank = (sorted.len() * per_mille).div_ceil(1000);
    let nanos = sorted
        .get(rank.saturating_sub(1))
        .copied()
        .unwrap_or_default();
    nanos_to_ms(nanos)
}

#[expect(
    clippy::cast_precision_loss,
    reason = "a latency of 2^53 ns is 104 days"
)]
fn nanos_to_ms(nanos: u64) -> f64 {
    nanos as f64 / 1e6
}

/// A count as a float for rates and ratios.
#[expect(
    clippy::cast_precision_loss,
    reason = "benchmarks count far below 2^53"
)]
pub(crate) fn float(count: usize) -> f64 {
    count as f64
}
