//! The segments that exist at each time.

use super::super::committer::{Batch, Committer};
use super::*;
use crate::journal::cursor::Route;
use crate::sync::thread;
use crate::testing::disk_model::{Fault, MemoryStorage, Repeat};

fn pool() -> (Arc<SegmentPool>, Arc<dyn Storage>) {
    let storage: Arc<dyn Storage> = Arc::new(MemoryStorage::new());
    let dir = Path::new("journal");
    storage.create_dir(dir).unwrap();
    let small = Lengths {
        first: segment::HEADER as u64,
        largest: segment::HEADER as u64,
        ..Lengths::default()
    };
    let pool = SegmentPool::new(storage.clone(), dir.into(), [7; 16], 1, small);
    (Arc::new(pool), storage)
}

/// Recovery reads segments by number. If batches were written into segment 4 before segment 3, it
/// would find a hole between them and refuse to open the store.
#[test]
fn segments_are_handed_out_in_the_order_of_their_numbers() {
    for _ in 0..50 {
        let (pool, _storage) = pool();
        let preparing = pool.clone();
        let background = thread::spawn("background", move || {
            for _ in 0..20 {
                preparing.prepare().unwrap();
            }
        })
        .unwrap();
        let mut last = 0;
        for _ in 0..20 {
            let segment = pool.next(0, false).unwrap();
            assert!(segment.number > last, "{} after {last}", segment.number);
            last = segment.number;
        }
        background.join().unwrap();
    }
}

#[test]
fn segments_prepared_twice_at_once_leave_no_file_that_nobody_knows() {
    for _ in 0..50 {
        let (pool, storage) = pool();
        let preparing = pool.clone();
        let background = thread::spawn("background", move || preparing.prepare().unwrap()).unwrap();
        pool.prepare().unwrap();
        background.join().unwrap();
        let active = pool.next(0, false).unwrap();
        pool.remove_all(&active).unwrap();
        assert_eq!(storage.read_dir(&pool.dir).unwrap(), []);
    }
}

/// To the next open, a segment left behind looks like a crash.
#[test]
fn a_store_that_has_ended_prepares_no_more_segments() {
    let (pool, storage) = pool();
    let active = pool.next(0, false).unwrap();
    pool.remove_all(&active).unwrap();
    pool.prepare().unwrap();
    assert_eq!(storage.read_dir(&pool.dir).unwrap(), []);
}

/// If a closed store left it behind, no checkpoint would cover its batches: the next open would
/// replay them onto files that are ahead of them, or find a hole before them and refuse the store.
#[test]
fn a_segment_that_could_not_be_given_up_is_given_up_later() {
    let storage = MemoryStorage::new();
    let dir = Path::new("journal");
    storage.create_dir(dir).unwrap();
    let shared: Arc<dyn Storage> = Arc::new(storage.clone());
    let pool = SegmentPool::new(shared, dir.into(), [7; 16], 1, Lengths::default());
    for sequence in 1..=3 {
        let full = pool.next(0, false).unwrap();
        pool.filled(full, sequence);
    }
    let active = pool.next(0, false).unwrap();
    storage.fail_at(storage.steps() + 1, Fault::Eio, Repeat::Once);
    pool.retire(3).unwrap_err();
    assert!(pool.full_bytes() > 0);
    pool.remove_all(&active).unwrap();
    let left = storage.read_dir(dir).unwrap();
    assert!(
        left.iter()
            .all(|entry| segment::number_of(&entry.name).is_none()),
        "{left:?}"
    );
}

fn roomy(capacity: u64) -> (MemoryStorage, SegmentPool) {
    let storage = MemoryStorage::new();
    let dir = Path::new("journal");
    storage.create_dir(dir).unwrap();
    storage.capacity(capacity);
    let shared: Arc<dyn Storage> = Arc::new(storage.clone());
    let pool = SegmentPool::new(shared, dir.into(), [7; 16], 1, Lengths::default());
    (storage, pool)
}

fn full_disk(storage: &MemoryStorage, free: u64) {
    let used: usize = storage.dump().values().map(Vec::len).sum();
    storage.capacity(used as u64 + free);
}

/// If they were given up, as many would be made anew during the next flush, and filled with zeros.
#[test]
fn under_load_spares_are_kept_beside_as_many_full_segments_and_given_up_after_it() {
    let storage: Arc<dyn Storage> = Arc::new(MemoryStorage::new());
    let dir = Path::new("journal");
    storage.create_dir(dir).unwrap();
    let lengths = Lengths {
        first: 8 << 10,
        largest: 8 << 10,
        budget: 64 << 10,
    };
    let pool = SegmentPool::new(storage.clone(), dir.into(), [7; 16], 1, lengths);
    for sequence in 1..=14 {
        let full = pool.next(0, false).unwrap();
        pool.filled(full, sequence);
    }
    let _active = pool.next(0, false).unwrap();
    let segments = || storage.read_dir(dir).unwrap().len();
    // Five of seven: two thirds of the budget.
    pool.retire(7).unwrap();
    assert_eq!(segments(), 7 + 1 + 5);
    // Three full ones are not a reason to keep as many.
    pool.retire(11).unwrap();
    assert_eq!(segments(), 3 + 1 + 4);
    pool.retire(14).unwrap();
    assert_eq!(segments(), 1 + 7);
}

/// The space that a flush needs may be in segments that are not needed.
#[test]
fn spares_make_room_where_a_flush_finds_none() {
    let (storage, pool) = roomy(64 << 20);
    for sequence in 1..=4 {
        let full = pool.next(0, false).unwrap();
        pool.filled(full, sequence);
    }
    let _active = pool.next(0, false).unwrap();
    pool.retire(4).unwrap();
    full_disk(&storage, 0);
    let before = storage.dump().len();
    assert!(pool.give_way().unwrap());
    assert!(storage.dump().len() < before);
    assert!(!pool.give_way().unwrap());
}

#[test]
fn a_full_disk_gets_its_next_segment_from_a_spare() {
    let (storage, pool) = roomy(64 << 20);
    let full = pool.next(0, false).unwrap();
    pool.filled(full, 1);
    let active = pool.next(0, false).unwrap();
    pool.retire(1).unwrap();
    full_disk(&storage, 0);
    pool.filled(active, 2);
    let spare = pool.next(0, false).unwrap();
    pool.filled(spare, 3);
    assert!(matches!(
        pool.next(0, false),
        Err(Error::StorageFull { .. })
    ));
    assert!(pool.is_long() && pool.is_pressing());
}

/// Lines in full segments must find room in their session files; otherwise the segments are never
/// given up.
#[test]
fn no_segment_is_made_in_the_space_that_the_lines_of_others_need() {
    let (_storage, pool) = roomy(4 << 20);
    let mut made = 0;
    while let Ok(segment) = pool.next(0, false) {
        made += segment.len;
        pool.filled(segment, 1);
    }
    assert!(made <= (2 << 20) + (128 << 10), "{made} bytes of 4 MiB");
    assert!(pool.is_long());
    pool.retire(1).unwrap();
    pool.next(0, false).unwrap();
}

#[test]
fn a_segment_too_small_for_a_batch_that_finds_no_space_serves_the_next() {
    let (_storage, pool) = roomy(1 << 20);
    pool.prepare().unwrap();
    assert!(matches!(
        pool.next(8 << 20, false),
        Err(Error::StorageFull { .. })
    ));
    assert_eq!(pool.next(0, false).unwrap().number, 1);
}

/// After a failed sync the cache may show zeros that the disk does not have: a power loss would cut
/// short the batches written over them.
#[test]
fn a_segment_whose_sync_failed_is_not_used_again() {
    let (storage, pool) = roomy(u64::MAX);
    // The directory, the available space, the file, its zeros, its header, its sync.
    storage.fail_at(storage.steps() + 5, Fault::Enospc, Repeat::Once);
    assert!(matches!(
        pool.next(0, false),
        Err(Error::StorageFull { .. })
    ));
    assert_eq!(storage.faults_hit(), 1);
    assert!(storage.last_calls(2)[0].contains("sync_data"));
    let created = |storage: &MemoryStorage| {
        let calls = storage.last_calls(512);
        calls
            .iter()
            .filter(|call| call.contains(": create "))
            .count()
    };
    let before = created(&storage);
    pool.next(0, false).unwrap();
    assert_eq!(created(&storage), before + 1);
}

/// Otherwise erased records would stay in the next segment until others are written over them.
#[test]
fn a_renewed_journal_has_no_block_that_held_a_record() {
    let (pool, storage) = pool();
    let written = |segment: &Segment| {
        let at = segment::HEADER as u64;
        segment.file.write(b"secret", 6, at, Route::Cache).unwrap();
    };
    let spare = pool.next(at_least(), false).unwrap();
    written(&spare);
    pool.filled(spare, 1);
    pool.retire(1).unwrap();
    let active = pool.next(at_least(), false).unwrap();
    written(&active);
    // Made from the blocks of the first one.
    pool.prepare().unwrap();
    assert!(!pool.is_outdated(active.number));
    pool.renew().unwrap();
    assert!(pool.is_outdated(active.number));
    let next = pool.next(at_least(), false).unwrap();
    assert!(!pool.is_outdated(next.number));
    pool.filled(active, 2);
    assert!(pool.holds_outdated());
    pool.retire(2).unwrap();
    assert!(!pool.holds_outdated());
    for entry in storage.read_dir(&pool.dir).unwrap() {
        let bytes = storage.read(&pool.dir.join(&entry.name), u64::MAX).unwrap();
        assert_eq!(memchr::memmem::find(&bytes, b"secret"), None, "{entry:?}");
    }
}

fn at_least() -> u64 {
    2 * segment::HEADER as u64
}

/// If the journal moved to a segment that cannot be made, not even the checkpoint that frees space
/// would find room.
#[test]
fn a_renewal_that_finds_no_space_leaves_the_journal_where_it_is() {
    let (storage, pool) = roomy(100 << 10);
    let active = pool.next(0, false).unwrap();
    storage.capacity(0);
    assert!(matches!(pool.renew(), Err(Error::StorageFull { .. })));
    assert!(!pool.is_outdated(active.number));
}

/// The storage calls for making the next segment when the one in use holds `used` bytes.
fn calls_to_prepare(used: usize) -> u64 {
    let storage = MemoryStorage::new();
    let dir = Path::new("journal");
    storage.create_dir(dir).unwrap();
    let lengths = Lengths {
        first: 16 << 20,
        largest: 16 << 20,
        ..Lengths::default()
    };
    let shared: Arc<dyn Storage> = Arc::new(storage.clone());
    let pool = Arc::new(SegmentPool::new(shared, dir.into(), [7; 16], 1, lengths));
    let (progress, counters) = (Arc::default(), Arc::default());
    let mut committer = Committer::new(pool.clone(), 0, progress, counters).unwrap();
    let mut batch = Batch::default();
    batch.bytes.resize(used, 0);
    committer.commit(&mut batch).unwrap();
    let before = storage.steps();
    pool.prepare().unwrap();
    storage.steps() - before
}

/// Otherwise a committing caller would wait for a segment that is made at leisure.
#[test]
fn a_segment_that_is_needed_soon_is_filled_in_few_steps() {
    let [at_leisure, soon] = [1 << 10, 9 << 20].map(calls_to_prepare);
    assert_eq!(at_leisure - soon, 2 * (128 - 16));
}
