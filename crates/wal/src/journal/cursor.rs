//! The end of the journal: the segment in use, and the contents of its last page.
//!
//! Whole pages are written, each with its earlier contents: then the system need not read the rest
//! of a page that is not in its cache, and batches that are synced at once need no cache. Less than
//! a page is written only to a page that was last written through the cache, and to the last page
//! of a segment.

use std::fmt;
use std::io;
use std::mem;
use std::sync::Arc;

use super::segment::{HEADER, Segment};
use crate::storage::StorageFile;

/// Writes begin and end at multiples of this, or at the segment's end; in bytes.
pub(super) const PAGE: usize = 4096;

/// The most bytes written at a time: whole pages.
const AT_ONCE: usize = 1 << 20;

/// The bytes of each segment that are left free for the supervisor's records: the checkpoint that
/// gives full segments up must not need the space that only it can free.
pub(super) const RESERVE: u64 = 4096;

/// The end of the journal.
pub(super) struct JournalCursor {
    segment: Segment,
    /// Where the next batch begins.
    position: u64,
    /// The contents of the page of `position`, up to there. They may be written again with the next
    /// batch: if a byte differed from the segment, an acknowledged record would be damaged.
    page: Vec<u8>,
    /// True if that whole page was last written through the cache.
    is_cached: bool,
    room: AlignedBuffer,
}

/// The way of a batch to its segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Route {
    /// Through the system's cache.
    Cache,
    /// To the disk, past the cache: for batches that are synced next. It costs more if the cache
    /// holds unwritten data: that goes first.
    Disk,
}

impl JournalCursor {
    /// At the beginning of `segment`.
    pub(super) fn new(segment: Segment) -> Self {
        Self {
            segment,
            position: HEADER as u64,
            page: Vec::with_capacity(PAGE),
            is_cached: false,
            room: AlignedBuffer::new(AT_ONCE),
        }
    }

    pub(super) fn segment(&self) -> &Segment {
        &self.segment
    }

    /// True if this many bytes go into the segment.
    pub(super) fn takes(&self, len: u64) -> bool {
        self.position + len <= self.segment.len
    }

    /// The [reserved](RESERVE) bytes of the segment; in the small segments of tests only a part.
    pub(super) fn reserve(&self) -> u64 {
        RESERVE.min((self.segment.len - HEADER as u64) / 8)
    }

    /// The file to sync: it covers everything written to the segment, through the cache or past it.
    pub(super) fn file(&self) -> Arc<dyn StorageFile> {
        self.segment.file.file.clone()
    }

    /// True if the next batch begins in the second half of the segment.
    pub(super) fn is_past_half(&self) -> bool {
        self.position >= self.segment.len / 2
    }

    /// Continues at the beginning of `next`; returns the segment that was in use.
    pub(super) fn go_on_in(&mut self, next: Segment) -> Segment {
        self.position = HEADER as u64;
        self.page.clear();
        self.is_cached = false;
        mem::replace(&mut self.segment, next)
    }

    /// Writes a batch that the segment [takes](Self::takes).
    ///
    /// # Errors
    /// Errors of writing. The next batch then begins where this one did.
    pub(super) fn write(&mut self, batch: &[u8], route: Route) -> io::Result<()> {
        let held = self.page.len();
        // After a failure the page is written whole, so that nothing of a refused batch stays on
        // it.
        let on_page = mem::take(&mut self.is_cached) && route == Route::Cache && held > 0;
        let whole = if on_page && held + batch.len() <= PAGE {
            let file = &self.segment.file;
            file.write(batch, batch.len(), self.position, route)?
        } else {
            self.write_pages(batch, route)?
        };
        self.is_cached = whole && route == Route::Cache;
        self.move_by(batch);
        Ok(())
    }

    /// Writes whole pages; returns true if the last of them was written whole.
    fn write_pages(&mut self, batch: &[u8], route: Route) -> io::Result<bool> {
        let mut whole = true;
        let mut at = self.position - self.page.len() as u64;
        let mut held = &self.page[..];
        let mut rest = batch;
        while !rest.is_empty() {
            let (now, later) = rest.split_at(rest.len().min(AT_ONCE - held.len()));
            let end = held.len() + now.len();
            let left = usize::try_from(self.segment.len - at).unwrap_or(usize::MAX);
            let pages = &mut self.room.bytes()[..end.next_multiple_of(PAGE).min(left)];
            pages[..held.len()].copy_from_slice(held);
            pages[held.len()..end].copy_from_slice(now);
            pages[end..].fill(0);
            whole = self.segment.file.write(pages, end, at, route)?;
            at += end as u64;
            (held, rest) = (&[], later);
        }
        Ok(whole)
    }

    fn move_by(&mut self, batch: &[u8]) {
        self.position += batch.len() as u64;
        let on_page = (self.position % PAGE as u64) as usize;
        let new = on_page.min(batch.len());
        // The earlier contents stay only if the batch ends on the page that it began on.
        self.page.truncate(on_page - new);
        self.page.extend_from_slice(&batch[batch.len() - new..]);
    }
}

/// Without the lines, which are users' data.
impl fmt::Debug for JournalCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cursor")
            .field("segment", &self.segment)
            .field("position", &self.position)
            .finish_non_exhaustive()
    }
}

/// The file of a segment that takes batches.
#[derive(Debug)]
pub(super) struct SegmentFile {
    file: Arc<dyn StorageFile>,
    /// The same file, opened past the cache, if that is possible here.
    direct: Option<Arc<dyn StorageFile>>,
}

impl SegmentFile {
    pub(super) fn new(file: Arc<dyn StorageFile>) -> Self {
        let direct = file.past_cache();
        Self { file, direct }
    }

    /// Writes `bytes`, of which the first `needed` are required: to the disk, whole pages of an
    /// [`AlignedBuffer`] buffer. Returns true if all were written.
    ///
    /// # Errors
    /// As the operating system reports them. Then not all of the `needed` bytes are written: a
    /// refused batch must not be there whole.
    pub(super) fn write(
        &self,
        bytes: &[u8],
        needed: usize,
        at: u64,
        route: Route,
    ) -> io::Result<bool> {
        if let (Route::Disk, Some(direct)) = (route, &self.direct) {
            match write_most(&**direct, bytes, needed, at) {
                // Not possible here, or not for so few bytes at a time. The cache takes anything.
                Err(e) if is_unsupported(&e) => {}
                other => return other,
            }
        }
        write_most(&*self.file, bytes, needed, at)
    }

    /// The file, once it takes no more batches: the handle past the cache costs a second
    /// descriptor.
    pub(super) fn into_file(self) -> Arc<dyn StorageFile> {
        self.file
    }

    /// As [`StorageFile::sync_data`], for data written by either route.
    ///
    /// # Errors
    /// As the operating system reports them.
    pub(super) fn sync(&self) -> io::Result<()> {
        self.file.sync_data()
    }
}

fn is_unsupported(error: &io::Error) -> bool {
    use io::ErrorKind::{InvalidInput, Unsupported};
    matches!(error.kind(), InvalidInput | Unsupported)
}

/// Writes `bytes` until at least the first `needed` are written; returns true if all are.
fn write_most(
    file: &dyn StorageFile,
    bytes: &[u8],
    needed: usize,
    offset: u64,
) -> io::Result<bool> {
    let mut done = 0;
    while done < needed {
        match file.write_at(&bytes[done..], offset + done as u64) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(n) => done += n,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(done == bytes.len())
}

/// Memory that begins at a multiple of [`PAGE`], as writes past the cache require.
pub(super) struct AlignedBuffer {
    memory: Vec<u8>,
    begin: usize,
    len: usize,
}

impl AlignedBuffer {
    /// `len` zeros.
    pub(super) fn new(len: usize) -> Self {
        let memory = vec![0; len + PAGE];
        // The offset is at most one less than a page, if it can be computed at all.
        let begin = memory.as_ptr().align_offset(PAGE) % PAGE;
        Self { memory, begin, len }
    }

    pub(super) fn bytes(&mut self) -> &mut [u8] {
        &mut self.memory[self.begin..self.begin + self.len]
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::segment::{Filling, create, zeroed};
    use super::*;
    use crate::storage::{DiskStorage, OpenMode, Storage};
    use crate::testing::disk_model::{Fault, MemoryStorage, Repeat};
    use proptest::prelude::*;

    const LEN: u64 = 3 << 20;

    fn segment(storage: &dyn Storage, dir: &Path) -> Segment {
        let blank = zeroed(storage, dir, 1, LEN, Filling::AtOnce).unwrap();
        create(storage, dir, &[7; 16], 1, &blank).unwrap()
    }

    fn read(storage: &dyn Storage, dir: &Path) -> Vec<u8> {
        let path = dir.join(super::super::segment::name(1));
        let file = storage.open(&path, OpenMode::Read).unwrap();
        let mut bytes = vec![0; LEN as usize - HEADER];
        file.read_exact_at(&mut bytes, HEADER as u64).unwrap();
        bytes
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]

        #[test]
        fn batches_stand_one_after_another_whichever_way_each_went(
            batches in prop::collection::vec(
                (prop_oneof![1..40_usize, 4_000..4_200_usize, 1..700_000_usize], any::<bool>()),
                1..12,
            ),
        ) {
            let dir = tempfile::tempdir().unwrap();
            let storage = DiskStorage::default();
            let mut cursor = JournalCursor::new(segment(&storage, dir.path()));
            let mut expected = Vec::new();
            for (nth, (len, past_cache)) in batches.into_iter().enumerate() {
                if !cursor.takes(len as u64) {
                    break;
                }
                let batch: Vec<u8> = (0..len).map(|at| (at * 7 + nth + 1) as u8 | 1).collect();
                let route = if past_cache { Route::Disk } else { Route::Cache };
                cursor.write(&batch, route).unwrap();
                expected.extend(batch);
                let written = read(&storage, dir.path());
                prop_assert!(written[..expected.len()] == expected[..]);
            }
            let written = read(&storage, dir.path());
            prop_assert!(written[expected.len()..].iter().all(|byte| *byte == 0));
        }
    }

    #[test]
    fn the_batch_after_one_that_found_no_space_begins_where_that_did() {
        let (storage, dir) = (MemoryStorage::new(), Path::new("journal"));
        storage.create_dir(dir).unwrap();
        let mut cursor = JournalCursor::new(segment(&storage, dir));
        cursor.write(b"kept", Route::Cache).unwrap();
        let large = vec![b'x'; AT_ONCE + PAGE];
        // The first part of it is written, the second is not.
        storage.fail_at(storage.steps() + 1, Fault::Enospc, Repeat::Once);
        assert!(cursor.write(&large, Route::Cache).is_err());
        cursor.write(b" and next", Route::Cache).unwrap();
        assert_eq!(&read(&storage, dir)[..14], b"kept and next\0");
    }

    #[test]
    fn nothing_of_a_refused_batch_outlasts_a_page_of_which_half_was_written() {
        let (storage, dir) = (MemoryStorage::new(), Path::new("journal"));
        storage.create_dir(dir).unwrap();
        let mut cursor = JournalCursor::new(segment(&storage, dir));
        let large = vec![b'x'; AT_ONCE + PAGE];
        storage.fail_at(storage.steps() + 1, Fault::Enospc, Repeat::Once);
        assert!(cursor.write(&large, Route::Cache).is_err());
        storage.fail_at(storage.steps(), Fault::Short, Repeat::Once);
        cursor.write(b"one", Route::Cache).unwrap();
        assert_eq!(storage.faults_hit(), 2);
        assert_eq!(read(&storage, dir)[PAGE - 1], b'x');
        cursor.write(b" two", Route::Cache).unwrap();
        let mut page = b"one two".to_vec();
        page.resize(PAGE, 0);
        assert_eq!(read(&storage, dir)[..PAGE], page);
    }
}
