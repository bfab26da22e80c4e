//! Which of a worker's mailboxes rang.

use crate::disk::session_file::SHARDS;
use crate::ground::sync::atomic::{AtomicU64, Ordering};

// One bit per shard.
const _: () = assert!(SHARDS <= u64::BITS as usize);

/// The bells of one worker's mailboxes. However many ring, one answer is
/// for all: one for each would cost more than the commands themselves.
#[derive(Debug, Default)]
pub(crate) struct Bells {
    rung: AtomicU64,
}

impl Bells {
    /// Rings for a shard. True if the ringer has to see to an answer: no ring before
    /// this one is unanswered.
    pub(crate) fn ring(&self, shard: usize) -> bool {
        self.rung.fetch_or(1 << shard, Ordering::AcqRel) == 0
    }

    /// Whether a ring is unanswered. Writes, like a ring does, though nothing
    /// changes: of a ring and a look, the one that comes second then sees what
    /// the other's thread did before, and a ring that found the worker busy is
    /// seen by whoever looks after they let go of it.
    pub(crate) fn is_rung(&self) -> bool {
        self.rung.fetch_or(0, Ordering::AcqRel) != 0
    }

    /// The shards that rang since the last answer. Taken and cleared in one
    /// step: a ring in between would be lost, and its commands with it.
    pub(crate) fn answer(&self) -> impl Iterator<Item = usize> + use<> {
        let mut rung = self.rung.swap(0, Ordering::AcqRel);
        std::iter::from_fn(move || {
            let shard = rung.trailing_zeros() as usize;
            rung &= rung.wrapping_sub(1);
            (shard < SHARDS).then_some(shard)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::Bells;

    #[test]
    fn only_the_first_unanswered_ring_tells_the_worker() {
        let bells = Bells::default();
        assert!(bells.ring(63));
        assert!(!bells.ring(0));
        assert!(!bells.ring(63));
        assert_eq!(bells.answer().collect::<Vec<_>>(), [0, 63]);
        assert_eq!(bells.answer().count(), 0);
        assert!(bells.ring(0));
    }
}
