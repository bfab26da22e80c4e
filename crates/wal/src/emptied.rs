//! Emptied buffers, for the next lines that are encoded on the same thread.

use std::cell::RefCell;

/// The number of buffers that a thread keeps, for as long as it lives.
const KEPT: usize = 32;

/// Larger buffers are not kept, in bytes: one line must not keep the room of a thousand.
const LARGEST: usize = 2 << 10;

thread_local! {
    static OWN: RefCell<Vec<Vec<u8>>> = const { RefCell::new(Vec::new()) };
}

/// An empty buffer, with the memory of a returned one if there is one.
#[must_use]
pub fn buffer() -> Vec<u8> {
    // A thread whose locals are gone is ending.
    let own = OWN.try_with(|own| own.borrow_mut().pop());
    own.ok().flatten().unwrap_or_default()
}

/// Keeps the memory of a buffer for the next one.
pub fn give_back(mut buffer: Vec<u8>) {
    if buffer.capacity() == 0 || buffer.capacity() > LARGEST {
        return;
    }
    buffer.clear();
    let _ = OWN.try_with(|own| {
        let mut own = own.borrow_mut();
        if own.len() < KEPT {
            own.push(buffer);
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_given_back_comes_back_empty_and_with_its_room() {
        let mut used = Vec::with_capacity(1000);
        used.extend_from_slice(b"a line");
        give_back(used);
        let again = buffer();
        assert!(again.is_empty() && again.capacity() >= 1000);
    }

    #[test]
    fn what_is_kept_is_within_bounds() {
        give_back(Vec::with_capacity(LARGEST + 1));
        assert_eq!(buffer().capacity(), 0);
        for _ in 0..KEPT + 2 {
            give_back(Vec::with_capacity(100));
        }
        let kept = std::iter::from_fn(|| Some(buffer()).filter(|b| b.capacity() > 0));
        assert_eq!(kept.count(), KEPT);
    }
}
