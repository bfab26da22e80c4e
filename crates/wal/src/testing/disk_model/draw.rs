//! Reproducible choices.

/// A splitmix64 stream: the same seed makes the same choices on every machine.
#[derive(Clone, Debug)]
pub(in crate::testing) struct Draw(u64);

impl Draw {
    pub(in crate::testing) fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// A stream of its own for one subject, so that what is drawn for one file
    /// does not depend on how much was drawn for another.
    pub(in crate::testing) fn about(&self, subject: u64) -> Self {
        Self(mix(self.0 ^ mix(subject)))
    }

    pub(in crate::testing) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }

    /// A number in `0..=most`.
    pub(in crate::testing) fn up_to(&mut self, most: usize) -> usize {
        (self.next() % (most as u64 + 1)) as usize
    }
}

fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
