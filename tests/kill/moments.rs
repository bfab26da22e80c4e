//! When to kill: random, and all over the run.

use std::time::Duration;

/// `SplitMix64`: a seed gives the same choices everywhere.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn seeded(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number from 0 to 1, 1 excluded.
    pub(crate) fn fraction(&mut self) -> f64 {
        f64::from((self.next() >> 32) as u32) / (f64::from(u32::MAX) + 1.0)
    }

    /// A number below `end`.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }
}

/// One moment in each `count`-th part of a run, as fractions of its length, in
/// random order: starts and ends of runs get their share however few there are.
pub(crate) fn spread(count: usize, random: &mut Random) -> Vec<f64> {
    let mut places: Vec<u32> = (0..count as u32).collect();
    for last in (1..count).rev() {
        places.swap(last, random.below(last + 1));
    }
    let parts = f64::from(count as u32);
    let moment = |place| (f64::from(place) + random.fraction()) / parts;
    places.into_iter().map(moment).collect()
}

/// How long something takes, by the runs that came to their end.
pub(crate) struct Pace(Duration);

impl Pace {
    pub(crate) fn guessed(length: Duration) -> Self {
        Self(length)
    }

    pub(crate) fn took(&mut self, length: Duration) {
        self.0 = length;
    }

    pub(crate) fn at(&self, fraction: f64) -> Duration {
        self.0.mul_f64(fraction)
    }
}
