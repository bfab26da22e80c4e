//! Who goes next.

/// Decides who goes next. Seed 0 always takes the first of the list.
#[derive(Debug)]
pub(super) struct Schedule(pub(super) u64);

impl Schedule {
    pub(super) fn order(&mut self, parties: usize) -> Vec<usize> {
        let mut order: Vec<usize> = (0..parties).collect();
        if self.0 != 0 {
            for place in (1..parties).rev() {
                order.swap(place, self.below(place + 1));
            }
        }
        order
    }

    pub(super) fn prefers_supervisor(&mut self) -> bool {
        self.0 != 0 && self.below(4) == 0
    }

    /// Whether callers find the leader's thread asleep, and may lead in its place.
    pub(super) fn finds_the_leader_asleep(&mut self) -> bool {
        self.0 != 0 && self.below(2) == 0
    }

    /// Buffered records age even while somebody else is always busy, as a
    /// worker is that finds no space for its lines.
    pub(super) fn lets_buffered_age(&mut self) -> bool {
        self.0 != 0 && self.below(32) == 0
    }

    /// Whether others go on while buffered records are synced.
    pub(super) fn writes_beside_a_sync(&mut self) -> bool {
        self.0 != 0 && self.below(2) == 0
    }

    /// Xorshift: never 0 from a state that is not.
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 16) as usize % bound
    }
}
