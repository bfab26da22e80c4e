//! The share of the file system that the journal may take.

use super::segment::Lengths;

/// The journal takes one part in this many of the available space, its own included: the sessions
/// need the rest, twice for a while if one is rewritten.
const PART: u64 = 8;

/// The number of segments of the largest size that fit into the budget.
const SEGMENTS: u64 = 8;

/// The smallest segment, however little space there is: each costs two syncs.
pub const SMALLEST: u64 = 64 << 10;

/// The journal's current budget: bytes of all segments, spares included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct JournalBudget {
    bytes: u64,
    /// The bytes that the available space allows, whatever was asked for.
    part: u64,
    /// The largest size of the next segment, unless a batch needs more.
    pub segment: u64,
    /// The smallest size of the next segment.
    pub least: u64,
}

impl JournalBudget {
    /// The budget of a journal of `own` bytes if `free` bytes are left.
    pub(crate) fn of(lengths: &Lengths, free: u64, own: u64) -> Self {
        let bytes = lengths.budget.min(free.saturating_add(own) / PART);
        let least = SMALLEST.min(lengths.largest);
        let segment = (bytes / SEGMENTS).clamp(least, lengths.largest);
        Self {
            bytes,
            part: free.saturating_add(own) / PART,
            segment: segment / 4096 * 4096,
            least,
        }
    }

    /// Bytes of all segments, spares included.
    pub(crate) fn bytes(self) -> u64 {
        self.bytes
    }

    /// True if a journal of `bytes` may keep its spares: if it is within the budget, or has no
    /// more spares than full segments. A flush gives up about as much as is written while it
    /// lasts. If the spares for that were given up first, each segment would be filled with zeros
    /// anew, up to a third of the bytes that a busy store writes.
    pub(crate) fn allows(self, bytes: u64, spares: u64, full: u64) -> bool {
        let needed = || spares <= full.min(self.bytes / 3 * 2);
        bytes <= self.bytes || bytes <= self.part && needed()
    }

    /// True if this many bytes of full segments start a flush, which gives them up: a third. As
    /// much may come before the flush has to [hurry](Self::is_pressing), and the rest is for what
    /// comes then, the segment in use and the next.
    pub(crate) fn is_long(self, full: u64) -> bool {
        full > 0 && full >= self.bytes / 3
    }

    /// True if with this many bytes a flush under way has to hurry, or the journal takes more than
    /// it may: two thirds.
    pub(crate) fn is_pressing(self, full: u64) -> bool {
        full > 0 && full >= self.bytes / 3 * 2
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_volume_gets_small_segments_and_early_flushes() {
        let lengths = Lengths::default();
        let roomy = JournalBudget::of(&lengths, u64::MAX, 0);
        assert_eq!(roomy.segment, lengths.largest);
        assert!(!roomy.is_long(255 << 20) && roomy.is_long(256 << 20));
        assert!(!roomy.is_pressing(511 << 20) && roomy.is_pressing(512 << 20));
        let small = JournalBudget::of(&lengths, 32 << 20, 0);
        assert_eq!(small.segment, 512 << 10);
        let all = |bytes| small.allows(bytes, 1 << 20, 2 << 20);
        assert!(all(4 << 20) && !all((4 << 20) + 1));
        assert!(small.is_long(2 << 20));
        let none = JournalBudget::of(&lengths, 0, 0);
        assert_eq!(none.segment, SMALLEST);
        assert!(!none.is_long(0) && none.is_long(1));
    }

    #[test]
    fn spares_beyond_the_budget_are_kept_only_beside_as_many_full_segments() {
        let lengths = Lengths::default();
        let budget = JournalBudget::of(&lengths, u64::MAX, 0);
        assert!(budget.allows(1 << 30, 300 << 20, 300 << 20));
        assert!(!budget.allows(1 << 30, 300 << 20, 299 << 20));
        assert!(!budget.allows(2 << 30, 513 << 20, 1 << 30));
        // An eighth of the space at most, whatever was asked for.
        let tight = JournalBudget::of(&lengths, 7 << 30, 0);
        assert!(tight.allows(896 << 20, 300 << 20, 300 << 20));
        assert!(!tight.allows(897 << 20, 300 << 20, 300 << 20));
        let small = Lengths {
            budget: 3 << 20,
            ..lengths
        };
        let small = JournalBudget::of(&small, u64::MAX, 0);
        assert!(small.allows(1 << 30, 2 << 20, 300 << 20));
        assert!(!small.allows(1 << 30, 3 << 20, 300 << 20));
    }

    #[test]
    fn what_the_journal_has_counts_as_space_that_there_is() {
        let lengths = Lengths::default();
        let [before, after] = [(8 << 20, 0), (4 << 20, 4 << 20)]
            .map(|(free, own)| JournalBudget::of(&lengths, free, own));
        assert_eq!(before, after);
    }
}
