//! The bytes of one file, cheap to copy.

use std::ops::Range;
use std::sync::Arc;

/// The page size of the modelled cache: what one failed or partial write-back
/// covers at most.
pub(super) const PAGE: u64 = 4096;

type PageBytes = [u8; PAGE as usize];

/// The bytes and size of a file, shared between copies until one is written.
///
/// Pages that hold only zeros may be absent. Bytes past `len` are zero once
/// [`SharedBytes::set_len`] has run; without that, growing a file would show what
/// it held before it was cut.
#[derive(Clone, Debug, Default)]
pub(super) struct SharedBytes {
    pages: Arc<Vec<Option<Arc<PageBytes>>>>,
    len: u64,
}

impl SharedBytes {
    pub(super) fn from_bytes(bytes: &[u8]) -> Self {
        let mut content = Self::default();
        content.write(0, bytes);
        content
    }

    pub(super) fn len(&self) -> u64 {
        self.len
    }

    pub(super) fn to_vec(&self) -> Vec<u8> {
        let mut bytes = vec![0; self.len as usize];
        self.read(0, &mut bytes);
        bytes
    }

    /// Copies what lies at `offset` into `buf` and says how much that was.
    pub(super) fn read(&self, offset: u64, buf: &mut [u8]) -> usize {
        let end = self.len.min(offset.saturating_add(buf.len() as u64));
        if end <= offset {
            return 0;
        }
        for (index, within) in by_page(offset..end) {
            let at = (index * PAGE + within.start as u64 - offset) as usize;
            let into = &mut buf[at..at + within.len()];
            match self.page(index) {
                Some(page) => into.copy_from_slice(&page[within]),
                None => into.fill(0),
            }
        }
        (end - offset) as usize
    }

    /// Puts `bytes` at `offset`, growing the file to hold them.
    pub(super) fn write(&mut self, offset: u64, bytes: &[u8]) {
        let end = offset + bytes.len() as u64;
        for (index, within) in by_page(offset..end) {
            let at = (index * PAGE + within.start as u64 - offset) as usize;
            let part = &bytes[at..at + within.len()];
            if self.page(index).is_some() || part.iter().any(|byte| *byte != 0) {
                self.page_mut(index)[within].copy_from_slice(part);
            }
        }
        self.len = self.len.max(end);
    }

    /// Overwrites with zeros without growing the file.
    pub(super) fn zero(&mut self, range: Range<u64>) {
        for (index, within) in by_page(range) {
            if self.page(index).is_some() {
                self.page_mut(index)[within].fill(0);
            }
        }
    }

    /// Overwrites a range with what `from` holds there, sizes aside.
    pub(super) fn copy_from(&mut self, from: &Self, range: Range<u64>) {
        for (index, within) in by_page(range) {
            match from.page(index) {
                Some(page) => self.page_mut(index)[within.clone()].copy_from_slice(&page[within]),
                None if self.page(index).is_some() => self.page_mut(index)[within].fill(0),
                None => {}
            }
        }
    }

    /// Cuts or extends the file; what it gains is zero.
    pub(super) fn set_len(&mut self, len: u64) {
        let kept = len.div_ceil(PAGE) as usize;
        if self.pages.len() > kept {
            Arc::make_mut(&mut self.pages).truncate(kept);
        }
        self.zero(len..len.next_multiple_of(PAGE));
        self.len = len;
    }

    pub(super) fn sized(mut self, len: u64) -> Self {
        self.set_len(len);
        self
    }

    fn page(&self, index: u64) -> Option<&PageBytes> {
        self.pages.get(index as usize)?.as_deref()
    }

    fn page_mut(&mut self, index: u64) -> &mut PageBytes {
        let index = index as usize;
        let pages = Arc::make_mut(&mut self.pages);
        if pages.len() <= index {
            pages.resize(index + 1, None);
        }
        Arc::make_mut(pages[index].get_or_insert_with(|| Arc::new([0; PAGE as usize])))
    }
}

/// Splits a range of the file into page numbers and ranges within the page.
fn by_page(range: Range<u64>) -> impl Iterator<Item = (u64, Range<usize>)> {
    pieces(range, PAGE).map(|piece| {
        let index = piece.start / PAGE;
        let start = (piece.start - index * PAGE) as usize;
        (index, start..start + (piece.end - piece.start) as usize)
    })
}

/// Splits a range at every multiple of `grain`.
pub(super) fn pieces(range: Range<u64>, grain: u64) -> impl Iterator<Item = Range<u64>> {
    let mut start = range.start;
    std::iter::from_fn(move || {
        let end = range.end.min((start / grain + 1) * grain);
        let piece = start..end;
        start = end;
        (!piece.is_empty()).then_some(piece)
    })
}

#[cfg(test)]
mod tests {
    use super::{PAGE, SharedBytes};

    #[test]
    fn bytes_past_a_cut_never_come_back() {
        let mut content = SharedBytes::from_bytes(&[7; 3 * PAGE as usize]);
        content.set_len(PAGE + 10);
        content.set_len(2 * PAGE);
        let bytes = content.to_vec();
        assert_eq!(bytes.len() as u64, 2 * PAGE);
        assert!(bytes[..PAGE as usize + 10].iter().all(|b| *b == 7));
        assert!(bytes[PAGE as usize + 10..].iter().all(|b| *b == 0));
    }

    #[test]
    fn a_copy_does_not_see_later_writes() {
        let mut content = SharedBytes::from_bytes(b"before");
        let copy = content.clone();
        content.write(0, b"after, and longer");
        assert_eq!(copy.to_vec(), b"before");
        assert_eq!(content.to_vec(), b"after, and longer");
    }

    #[test]
    fn a_write_across_pages_reads_back_from_any_offset() {
        let mut content = SharedBytes::default();
        let bytes: Vec<u8> = (0..2 * PAGE).map(|n| (n % 251) as u8).collect();
        content.write(PAGE - 3, &bytes);
        let mut buf = vec![0; bytes.len() + 10];
        assert_eq!(content.read(PAGE - 3, &mut buf), bytes.len());
        assert_eq!(buf[..bytes.len()], bytes[..]);
        assert_eq!(content.read(0, &mut buf[..4]), 4);
        assert_eq!(buf[..4], [0, 0, 0, 0]);
        assert_eq!(content.read(content.len(), &mut buf), 0);
    }
}
