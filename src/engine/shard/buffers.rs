//! Emptied buffers, for tails that grow next.

/// Room for the lines of tails, used again and again: a tail that grew from
/// nothing every time would be allocated on one thread and freed on another, for
/// every few appends, and its pages be had from the system anew.
#[derive(Debug, Default)]
pub(crate) struct Buffers {
    empty: Vec<Vec<u8>>,
    bytes: usize,
}

/// Room kept for later, bytes: while lines come, and when none do.
const KEPT: usize = 64 << 20;
const KEPT_IDLE: usize = 4 << 20;

/// Larger buffers are not kept: a tail of one line must not hold on to the room of
/// a thousand.
const LARGEST: usize = 64 << 10;

impl Buffers {
    /// An empty buffer, with room if one was kept.
    pub(crate) fn take(&mut self) -> Vec<u8> {
        let buffer = self.empty.pop().unwrap_or_default();
        self.bytes -= buffer.capacity();
        buffer
    }

    /// Keeps the room of `buffer`, if there is not enough of it already.
    pub(crate) fn put(&mut self, mut buffer: Vec<u8>) {
        let room = buffer.capacity();
        if room == 0 || room > LARGEST || self.bytes + room > KEPT {
            return;
        }
        buffer.clear();
        self.bytes += room;
        self.empty.push(buffer);
    }

    /// Gives back what was kept for a load that is over.
    pub(crate) fn rest(&mut self) {
        while self.bytes > KEPT_IDLE {
            drop(self.take());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_is_used_again_and_empty() {
        let mut buffers = Buffers::default();
        assert_eq!(buffers.take().capacity(), 0);
        let mut used = Vec::with_capacity(4096);
        used.extend_from_slice(b"a line");
        let place = used.as_ptr();
        buffers.put(used);
        let again = buffers.take();
        assert_eq!((again.len(), again.as_ptr()), (0, place));
    }

    #[test]
    fn room_is_kept_within_bounds() {
        let mut buffers = Buffers::default();
        buffers.put(Vec::with_capacity(LARGEST + 1));
        assert!(buffers.empty.is_empty());
        for _ in 0..=KEPT / LARGEST {
            buffers.put(Vec::with_capacity(LARGEST));
        }
        assert_eq!(buffers.bytes, KEPT);
        assert_eq!(buffers.empty.len(), KEPT / LARGEST);
        buffers.rest();
        assert_eq!(buffers.bytes, KEPT_IDLE);
        assert_eq!(buffers.empty.len(), KEPT_IDLE / LARGEST);
    }
}
