//! How much of its file system the journal may take.

use super::segment::Lengths;

/// Of the space there is, the journal's own included, it takes one part in so many:
/// the sessions need the rest, twice for a while if one is rewritten.
const PART: u64 = 8;

/// Segments of the largest size that fit into what the journal may take.
const SEGMENTS: u64 = 8;

/// No segment is smaller, however little space there is: each costs two syncs.
pub(crate) const SMALLEST: u64 = 64 << 10;

/// What the journal may take now: bytes of all segments, spares included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Budget {
    bytes: u64,
    /// The space there is does not make it smaller.
    is_whole: bool,
    /// How large the next segment is at most, unless a batch needs more.
    pub(crate) segment: u64,
    /// How small it may be.
    pub(crate) least: u64,
}

impl Budget {
    /// What a journal of `own` bytes may take if `free` are left.
    pub(crate) fn of(lengths: &Lengths, free: u64, own: u64) -> Self {
        let bytes = lengths.budget.min(free.saturating_add(own) / PART);
        let least = SMALLEST.min(lengths.largest);
        let segment = (bytes / SEGMENTS).clamp(least, lengths.largest);
        Self {
            bytes,
            is_whole: bytes == lengths.budget,
            segment: segment / 4096 * 4096,
            least,
        }
    }

    /// Bytes of all segments, spares included.
    pub(crate) fn bytes(self) -> u64 {
        self.bytes
    }

    /// Whether a journal of `bytes` keeps within it.
    pub(crate) fn allows(self, bytes: u64) -> bool {
        bytes <= self.bytes
    }

    /// Whether that many bytes of spares may be kept beyond it, beside so many of full
    /// segments. While a flush lasts about as much is written as it will give up: were the
    /// spares for that given up first, each segment would be filled with zeros anew, a third
    /// of all that a busy store writes.
    pub(crate) fn allows_beyond(self, spares: u64, full: u64) -> bool {
        self.is_whole && spares <= full.min(self.bytes / 3 * 2)
    }

    /// Whether so many bytes of full segments start a flush, which gives them up: a third.
    /// As much may come while it lasts, and the rest are the segments in use and the next.
    pub(crate) fn is_long(self, full: u64) -> bool {
        full > 0 && full >= self.bytes / 3
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_volume_gets_small_segments_and_early_flushes() {
        let lengths = Lengths::default();
        let roomy = Budget::of(&lengths, u64::MAX, 0);
        assert_eq!(roomy.segment, lengths.largest);
        assert!(!roomy.is_long(255 << 20) && roomy.is_long(256 << 20));
        let small = Budget::of(&lengths, 32 << 20, 0);
        assert_eq!(small.segment, 512 << 10);
        assert!(small.allows(4 << 20) && !small.allows((4 << 20) + 1));
        assert!(small.is_long(2 << 20));
        let none = Budget::of(&lengths, 0, 0);
        assert_eq!(none.segment, SMALLEST);
        assert!(!none.is_long(0) && none.is_long(1));
    }

    #[test]
    fn spares_beyond_the_budget_are_kept_only_beside_as_many_full_segments() {
        let lengths = Lengths::default();
        let budget = Budget::of(&lengths, u64::MAX, 0);
        assert!(budget.allows_beyond(300 << 20, 300 << 20));
        assert!(!budget.allows_beyond(300 << 20, 299 << 20));
        assert!(!budget.allows_beyond(513 << 20, 1 << 30));
        let tight = Budget::of(&lengths, 5 << 30, 0);
        assert!(!tight.allows_beyond(300 << 20, 300 << 20));
        let small = Lengths {
            budget: 3 << 20,
            ..lengths
        };
        let small = Budget::of(&small, u64::MAX, 0);
        assert!(small.allows_beyond(2 << 20, 300 << 20));
        assert!(!small.allows_beyond(3 << 20, 300 << 20));
    }

    #[test]
    fn what_the_journal_has_counts_as_space_that_there_is() {
        let lengths = Lengths::default();
        let [before, after] =
            [(8 << 20, 0), (4 << 20, 4 << 20)].map(|(free, own)| Budget::of(&lengths, free, own));
        assert_eq!(before, after);
    }
}
