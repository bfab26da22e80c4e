//! Emptied buffers on their way back to the threads that fill them.
//!
//! A line is encoded on its caller's thread and done with on another. An allocator locks,
//! and looks for neighbours to merge, for each buffer that one thread makes and another
//! frees. Here they go back many at a time, to any thread that fills some.

use std::cell::RefCell;

use returned::{give_back, take_back};

/// How many go back together. A thread holds no more, for as long as it lives.
const AT_ONCE: usize = 32;

/// Larger buffers are not kept: one line must not hold on to the room of a thousand.
const LARGEST: usize = 2 << 10;

type Lot = Vec<Vec<u8>>;

/// Buffers that were emptied, and of which there are too few yet to go back.
#[derive(Debug, Default)]
pub(crate) struct Emptied(Lot);

impl Emptied {
    pub(crate) fn put(&mut self, buffer: Vec<u8>) {
        if let Some(lot) = self.add(buffer) {
            give_back(lot);
        }
    }

    /// Those that are to go back.
    fn add(&mut self, mut buffer: Vec<u8>) -> Option<Lot> {
        if buffer.capacity() == 0 || buffer.capacity() > LARGEST {
            return None;
        }
        buffer.clear();
        self.0.push(buffer);
        (self.0.len() == AT_ONCE).then(|| std::mem::take(&mut self.0))
    }
}

/// What went back and nobody took.
#[cfg(not(sessionlog_loom))]
mod returned {
    use super::Lot;
    use crate::ground::sync::Mutex;

    /// Lots that wait for somebody to take them: 4 MiB, if all their buffers are the largest.
    pub(super) const LOTS: usize = 64;

    #[derive(Debug)]
    pub(super) struct Returned(pub(super) Mutex<Vec<Lot>>);

    static RETURNED: Returned = Returned(Mutex::new(Vec::new()));

    impl Returned {
        pub(super) fn give(&self, lot: Lot) {
            let mut lots = self.0.lock();
            if lots.len() < LOTS {
                lots.push(lot);
            }
        }

        pub(super) fn take(&self) -> Option<Lot> {
            self.0.lock().pop()
        }
    }

    pub(super) fn give_back(lot: Lot) {
        RETURNED.give(lot);
    }

    pub(super) fn take_back() -> Option<Lot> {
        RETURNED.take()
    }
}

/// Models explore every lock, and nobody waits for a buffer.
#[cfg(sessionlog_loom)]
mod returned {
    use super::Lot;

    pub(super) fn give_back(_: Lot) {}

    pub(super) fn take_back() -> Option<Lot> {
        None
    }
}

thread_local! {
    static OWN: RefCell<Lot> = const { RefCell::new(Vec::new()) };
}

/// An empty buffer, with the room of one that was emptied if there is one.
pub(crate) fn buffer() -> Vec<u8> {
    // A thread whose locals are gone is ending.
    let own = OWN.try_with(|own| one_of(&mut own.borrow_mut(), take_back));
    own.unwrap_or_default()
}

fn one_of(own: &mut Lot, take_back: impl FnOnce() -> Option<Lot>) -> Vec<u8> {
    if own.is_empty()
        && let Some(lot) = take_back()
    {
        *own = lot;
    }
    own.pop().unwrap_or_default()
}

#[cfg(all(test, not(sessionlog_loom)))]
mod tests {
    use super::returned::{LOTS, Returned};
    use super::*;
    use crate::ground::sync::Mutex;

    #[test]
    fn what_was_emptied_comes_back_empty_and_with_its_room() {
        let (mut emptied, returned) = (Emptied::default(), Returned(Mutex::new(Vec::new())));
        for _ in 0..AT_ONCE {
            let mut buffer = Vec::with_capacity(1000);
            buffer.extend_from_slice(b"a line");
            if let Some(lot) = emptied.add(buffer) {
                returned.give(lot);
            }
        }
        let mut own = Lot::new();
        for _ in 0..AT_ONCE {
            let buffer = one_of(&mut own, || returned.take());
            assert!(buffer.is_empty() && buffer.capacity() >= 1000);
        }
        assert_eq!(one_of(&mut own, || returned.take()).capacity(), 0);
    }

    #[test]
    fn what_is_kept_is_within_bounds() {
        let (mut emptied, returned) = (Emptied::default(), Returned(Mutex::new(Vec::new())));
        assert!(emptied.add(Vec::new()).is_none());
        assert!(emptied.add(Vec::with_capacity(LARGEST + 1)).is_none());
        assert!(emptied.0.is_empty());
        for _ in 0..LOTS + 2 {
            returned.give(vec![Vec::with_capacity(100)]);
        }
        assert_eq!(returned.0.lock().len(), LOTS);
    }
}
