//! A glance at a session, for long lists: its sidecar, and its first and last words. It costs two
//! small reads, whatever the length of the visible part; for a session that is not loaded, all
//! hidden lines are read.

use std::io;
use std::path::Path;
use std::sync::Arc;

use memchr::{memchr, memrchr};
use sessionlog_core::error::Result;
use sessionlog_core::session_file::{self, Decoded, Kind, Meta};
use sessionlog_wal::storage::{OpenMode, Storage, StorageFile};
use sessionlog_wal::sync::atomic::{AtomicUsize, Ordering};
use sessionlog_wal::sync::thread;

use crate::disk::files;
use crate::disk::files::lines::{LONGEST, for_each_line, for_each_line_back};
use crate::disk::files::sidecar;
use crate::engine::recovery::bytes::Bytes;
use crate::engine::snapshot::Snapshot;

/// The bytes that are read first to find the first words.
const FIRST: u64 = 16 << 10;

/// Number of characters of a text that are shown.
pub(crate) const SHOWN: usize = 200;

/// The lines of a session, in their place.
#[derive(Debug)]
pub(crate) struct SessionLines {
    file: Option<Arc<dyn StorageFile>>,
    len: u64,
    behind: Vec<u8>,
    /// Offset of the first line that is not hidden, if known.
    start: Option<u64>,
}

/// The part of the lines that a glance shows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Words {
    /// The length of all lines, hidden ones included, bytes.
    pub(crate) size: u64,
    pub(crate) first: String,
    pub(crate) last: String,
}

impl SessionLines {
    /// Takes the first `len` bytes of a file, and the bytes after them.
    pub(crate) fn of_parts(file: Option<Arc<dyn StorageFile>>, len: u64, behind: Vec<u8>) -> Self {
        Self {
            file,
            len,
            behind,
            start: None,
        }
    }

    pub(crate) fn of_snapshot(snapshot: &Snapshot) -> Self {
        Self {
            file: snapshot.live.file.clone(),
            len: snapshot.live.end,
            behind: snapshot.tail(),
            start: Some(snapshot.live.start),
        }
    }

    pub(crate) fn of_bytes(bytes: Bytes) -> Self {
        Self::of_parts(bytes.file, bytes.len, bytes.behind)
    }

    /// Takes the file of a session that was not written to since the open: it has all lines.
    ///
    /// # Errors
    /// If the file cannot be opened.
    pub(crate) fn of_file(storage: &dyn Storage, dir: &Path, stem: &str) -> Result<Self> {
        let file = files::open_log(storage, dir, stem, OpenMode::Read)?;
        Ok(Self::of_bytes(Bytes::whole(file, dir)?))
    }

    /// Returns the length of all lines, hidden ones included, bytes.
    pub(crate) fn len(&self) -> u64 {
        self.len + self.behind.len() as u64
    }

    /// Returns true if there is a file or a line.
    pub(crate) fn is_any(&self) -> bool {
        self.file.is_some() || self.len() > 0
    }

    /// Fills `buf` from `offset`.
    ///
    /// # Errors
    /// `UnexpectedEof` if the lines end first, and as the operating system reports them.
    pub(crate) fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        let in_file = self.len.saturating_sub(offset).min(buf.len() as u64) as usize;
        let (first, rest) = buf.split_at_mut(in_file);
        if let Some(file) = self.file.as_ref().filter(|_| in_file > 0) {
            file.read_exact_at(first, offset)?;
        }
        let from = offset.saturating_sub(self.len) as usize;
        let behind = self.behind.get(from..from + rest.len());
        rest.copy_from_slice(behind.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    /// Returns the CRC-32 of the first `len` bytes.
    ///
    /// # Errors
    /// `UnexpectedEof` if there are fewer, and as the operating system reports them.
    pub(crate) fn checksum(&self, len: u64) -> io::Result<u32> {
        let (mut check, mut block, mut at) = (crc32fast::Hasher::new(), Vec::new(), 0);
        while at < len {
            block.resize((len - at).min(BLOCK as u64) as usize, 0);
            self.read_exact_at(&mut block, at)?;
            check.update(&block);
            at += block.len() as u64;
        }
        Ok(check.finalize())
    }

    /// Returns the first and the last words, given the number of hidden lines.
    ///
    /// # Errors
    /// As the operating system reports them.
    pub(crate) fn words(&self, skip: i64) -> io::Result<Words> {
        let start = match self.start {
            Some(start) => start,
            None => self.after(u64::try_from(skip).unwrap_or(0))?,
        };
        Ok(Words {
            size: self.len(),
            first: self.first(start)?.unwrap_or_default(),
            last: self.last(start)?.unwrap_or_default(),
        })
    }

    /// Returns the offset after the first `skip` lines.
    fn after(&self, skip: u64) -> io::Result<u64> {
        let (mut left, mut start) = (skip, 0);
        if left == 0 {
            return Ok(0);
        }
        self.each(0, &mut |begin, raw| {
            left -= u64::from(session_file::classify(raw) != Kind::Blank);
            start = begin + raw.len() as u64 + 1;
            left > 0
        })?;
        Ok(start.min(self.len()))
    }

    fn first(&self, start: u64) -> io::Result<Option<String>> {
        let mut first = None;
        self.each(start, &mut |_, raw| {
            first = text_of(raw);
            first.is_none()
        })?;
        Ok(first)
    }

    fn last(&self, start: u64) -> io::Result<Option<String>> {
        let hidden = start.saturating_sub(self.len) as usize;
        let behind = self.behind.get(hidden..).unwrap_or_default();
        let lines: Vec<_> = session_file::lines(behind).collect();
        let mut last = lines.into_iter().rev().find_map(|(_, raw)| text_of(raw));
        if last.is_none()
            && let Some(file) = &self.file
        {
            for_each_line_back(&**file, start, self.len.max(start), &mut |raw| {
                last = text_of(raw.text);
                last.is_none()
            })?;
        }
        Ok(last)
    }

    /// Visits the lines from `start` on, each with its offset, until `visit` returns false.
    ///
    /// # Errors
    /// As the operating system reports them.
    pub(crate) fn each(
        &self,
        start: u64,
        visit: &mut dyn FnMut(u64, &[u8]) -> bool,
    ) -> io::Result<()> {
        let mut goes_on = true;
        if let Some(file) = &self.file {
            // Few bytes first: a line that is cut off there is read again, whole.
            let few = start.saturating_add(FIRST).min(self.len);
            let mut at = start;
            for end in [few, self.len] {
                let walked = for_each_line(&**file, at, end, &mut |raw| {
                    if end == self.len || raw.next() <= end {
                        goes_on = visit(raw.begin, raw.text);
                        at = raw.next();
                    }
                    if goes_on {
                        Ok(())
                    } else {
                        Err(io::ErrorKind::Interrupted.into())
                    }
                });
                if !goes_on {
                    return Ok(());
                }
                walked?;
                if at >= self.len {
                    break;
                }
            }
        }
        let hidden = start.saturating_sub(self.len) as usize;
        for (at, raw) in session_file::lines(self.behind.get(hidden..).unwrap_or_default()) {
            if !goes_on {
                break;
            }
            goes_on = visit(self.len + (hidden + at) as u64, raw);
        }
        Ok(())
    }
}

/// The bytes that are looked through at a time: few enough to stay in a processor's caches.
const BLOCK: usize = 128 << 10;

impl SessionLines {
    /// Does the same as [`each`](Self::each), for the lines in which `find` finds something. `find`
    /// may get many lines at once, and returns the offset of the first thing it finds, which
    /// contains no LF. Most lines are not even split from their neighbours.
    ///
    /// # Errors
    /// As the operating system reports them.
    pub(crate) fn each_with(
        &self,
        start: u64,
        find: &dyn Fn(&[u8]) -> Option<usize>,
        visit: &mut dyn FnMut(u64, &[u8]) -> bool,
    ) -> io::Result<()> {
        let (mut block, mut at, mut size) = (Vec::new(), start, BLOCK);
        while at < self.len() {
            let left = self.len() - at;
            let want = left.min(size as u64) as usize;
            block.resize(want, 0);
            self.read_exact_at(&mut block, at)?;
            let is_last = want as u64 == left;
            let lines = match memrchr(b'\n', &block) {
                _ if is_last => &*block,
                Some(lf) => &block[..=lf],
                None if (size as u64) < LONGEST => {
                    size *= 2;
                    continue;
                }
                // A line that is too long: it is passed over as elsewhere.
                None => return self.each(at, &mut |at, raw| find(raw).is_none() || visit(at, raw)),
            };
            if !each_found(lines, find, &mut |begin, raw| visit(at + begin as u64, raw)) {
                return Ok(());
            }
            at += lines.len() as u64;
        }
        Ok(())
    }
}

/// Visits the lines in which something is found; returns `false` if a visit ends it.
fn each_found(
    lines: &[u8],
    find: &dyn Fn(&[u8]) -> Option<usize>,
    visit: &mut dyn FnMut(usize, &[u8]) -> bool,
) -> bool {
    let mut from = 0;
    while let Some(at) = lines.get(from..).and_then(find) {
        let at = from + at;
        let begin = memrchr(b'\n', &lines[..at]).map_or(0, |lf| lf + 1);
        let end = memchr(b'\n', &lines[at..]).map_or(lines.len(), |lf| at + lf);
        if !visit(begin, &lines[begin..end]) {
            return false;
        }
        from = end + 1;
    }
    true
}

/// Returns the beginning of a message's text.
fn text_of(raw: &[u8]) -> Option<String> {
    match session_file::decode(raw) {
        Decoded::Message(message) => Some(message.text().chars().take(SHOWN).collect()),
        _ => None,
    }
}

/// Returns the sidecar of a session that was not written to since the open.
///
/// # Errors
/// As [`sidecar::read_meta`].
pub(crate) fn meta(storage: &dyn Storage, dir: &Path, stem: &str, key: &str) -> Result<Meta> {
    sidecar::read_meta(storage, dir, stem, key).map(|(meta, _)| meta)
}

/// Returns the results of `look` for all items, in their order, on as many threads as run at once.
/// One thread is used for each `worth` items.
pub(crate) fn each<T: Sync, U: Send>(
    items: &[T],
    worth: usize,
    look: &(dyn Fn(&T) -> U + Sync),
) -> Vec<U> {
    let next = AtomicUsize::new(0);
    let work = || {
        let mut done = Vec::new();
        loop {
            let from = next.fetch_add(worth, Ordering::Relaxed).min(items.len());
            let until = (from + worth).min(items.len());
            if from == until {
                return done;
            }
            let looked = items[from..until].iter().map(look);
            done.push((from, looked.collect::<Vec<_>>()));
        }
    };
    let threads = thread::available_parallelism().min(items.len().div_ceil(worth));
    let mut done = together(threads, &work);
    done.sort_unstable_by_key(|(from, _)| *from);
    done.into_iter().flat_map(|(_, looked)| looked).collect()
}

/// Runs `work` on `threads` threads.
fn together<T: Send>(threads: usize, work: &(dyn Fn() -> Vec<T> + Sync)) -> Vec<T> {
    if threads < 2 {
        return work();
    }
    let half = threads / 2;
    let (mut one, other) = thread::both(|| together(half, work), || together(threads - half, work));
    one.extend(other);
    one
}

/// Number of sessions to glance at that is worth a thread.
pub(crate) const GLANCES: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_that_have_something_are_found_wherever_blocks_end() {
        let filler = |len: usize| format!("{}\n", "-".repeat(len));
        for before in [
            0,
            1,
            BLOCK - 3,
            BLOCK - 2,
            BLOCK - 1,
            BLOCK,
            BLOCK + 1,
            3 * BLOCK,
        ] {
            for end in ["", "\n"] {
                let text = format!("xx\n{}axxb\n\n{}xx{end}", filler(before), filler(before));
                let found = |start: u64| {
                    let lines = SessionLines::of_parts(None, 0, text.clone().into_bytes());
                    let (mut fast, mut slow) = (Vec::new(), Vec::new());
                    let find = |bytes: &[u8]| memchr(b'x', bytes);
                    let mut take = |at, raw: &[u8]| {
                        fast.push((at, raw.to_vec()));
                        true
                    };
                    lines.each_with(start, &find, &mut take).unwrap();
                    let mut take = |at, raw: &[u8]| {
                        slow.extend(find(raw).map(|_| (at, raw.to_vec())));
                        true
                    };
                    lines.each(start, &mut take).unwrap();
                    assert_eq!(fast, slow, "{before} {start}");
                    fast.len()
                };
                assert_eq!((found(0), found(3)), (3, 2));
            }
        }
    }
}
