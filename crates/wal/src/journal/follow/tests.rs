//! The reports of a follower of a journal that is written, removed and made again.

use super::*;
use crate::journal::cursor::Route;
use crate::journal::record::{Commit, encode, seal};
use crate::journal::segment::{Filling, Segment, Spare, create, zeroed};
use crate::testing::disk_model::MemoryStorage;

const STORE: StoreId = [7; 16];
const LEN: u64 = 256 << 10;

struct Writer {
    storage: Arc<dyn Storage>,
    segment: Option<Segment>,
    at: u64,
    sequence: u64,
}

impl Writer {
    fn new(storage: &Arc<dyn Storage>) -> Self {
        Self {
            storage: storage.clone(),
            segment: None,
            at: 0,
            sequence: 0,
        }
    }

    fn begin(&mut self, number: u64) {
        let dir = Path::new("journal");
        let blank = zeroed(&*self.storage, dir, number, LEN, Filling::AtOnce).unwrap();
        self.begin_in(number, &blank);
    }

    fn begin_in(&mut self, number: u64, blank: &Spare) {
        let dir = Path::new("journal");
        self.segment = Some(create(&*self.storage, dir, &STORE, number, blank).unwrap());
        self.at = HEADER as u64;
    }

    /// A batch that deletes sessions, given by their stems.
    fn commit(&mut self, stems: &[&str]) {
        let bytes = self.batch(stems, None);
        self.write(&bytes);
    }

    fn end(&mut self) {
        let bytes = self.batch(&[], Some(self.sequence));
        self.write(&bytes);
    }

    fn batch(&mut self, stems: &[&str], clean: Option<u64>) -> Vec<u8> {
        let mut bytes = Vec::new();
        for stem in stems {
            let delete = Record::Delete {
                stem,
                generation: 1,
                before: record::Prior::default(),
            };
            encode(&mut bytes, &delete);
        }
        if let Some(sequence) = clean {
            let clean = true;
            encode(&mut bytes, &Record::Checkpoint { sequence, clean });
        }
        self.sequence += 1;
        let commit = Commit {
            sequence: self.sequence,
            batch_len: bytes.len() as u32,
            durable: self.sequence - 1,
        };
        encode(&mut bytes, &Record::Commit(commit));
        seal(&mut bytes, self.segment.as_ref().unwrap().seed);
        bytes
    }

    fn write(&mut self, bytes: &[u8]) {
        let segment = self.segment.as_ref().unwrap();
        segment
            .file
            .write(bytes, bytes.len(), self.at, Route::Cache)
            .unwrap();
        self.at += bytes.len() as u64;
    }

    fn remove(&self, number: u64) {
        let path = Path::new("journal").join(segment::name(number));
        self.storage.remove_file(&path).unwrap();
    }
}

fn disk() -> Arc<dyn Storage> {
    let storage: Arc<dyn Storage> = Arc::new(MemoryStorage::new());
    storage.create_dir(Path::new("journal")).unwrap();
    storage
}

fn at_end(storage: &Arc<dyn Storage>) -> JournalTail {
    JournalTail::at_end(&**storage, Path::new("journal"), STORE).unwrap()
}

/// The records reported until nothing is left; `-` where some were missed.
fn told(tail: &mut JournalTail, storage: &Arc<dyn Storage>) -> String {
    let mut all = String::new();
    for _ in 0..100 {
        let mut take = |record: &Record<'_>| {
            if let Record::Delete { stem, .. } = record {
                all.push_str(stem);
            }
        };
        match tail.read_on(&**storage, &mut take).unwrap() {
            FollowStep::All => return all,
            FollowStep::Gap => all.push('-'),
        }
    }
    panic!("it never ends: {all}");
}

#[test]
fn every_batch_is_told_once_from_where_it_began() {
    let storage = disk();
    let mut writer = Writer::new(&storage);
    writer.begin(1);
    writer.commit(&["a"]);
    let mut tail = at_end(&storage);
    assert_eq!(told(&mut tail, &storage), "");
    writer.commit(&["b", "c"]);
    writer.commit(&["d"]);
    assert_eq!(told(&mut tail, &storage), "bcd");
    assert_eq!(told(&mut tail, &storage), "");
    // The last of one segment and the first of the next come between two looks.
    writer.commit(&["e"]);
    writer.begin(2);
    assert_eq!(told(&mut tail, &storage), "e");
    writer.commit(&["f"]);
    writer.remove(1);
    writer.begin(3);
    writer.commit(&["g"]);
    assert_eq!(told(&mut tail, &storage), "fg");
}

#[test]
fn a_batch_is_told_when_it_is_whole_however_large_it_is() {
    let storage = disk();
    let mut writer = Writer::new(&storage);
    writer.begin(1);
    let mut tail = at_end(&storage);
    let long = "x".repeat(100_000);
    let bytes = writer.batch(&["a", &long, "b"], None);
    let (begin, rest) = bytes.split_at(60_000);
    let at = writer.at;
    writer.write(begin);
    for _ in 0..50 {
        assert_eq!(told(&mut tail, &storage), "");
    }
    writer.at = at + 60_000;
    writer.write(rest);
    let mut looks = 0;
    while told(&mut tail, &storage).is_empty() {
        looks += 1;
        assert!(looks <= SELDOM, "it is looked at again");
    }
}

#[test]
fn what_a_writer_says_last_is_told_though_its_segments_are_gone() {
    let storage = disk();
    let mut writer = Writer::new(&storage);
    writer.begin(1);
    writer.commit(&["a"]);
    let mut tail = at_end(&storage);
    writer.commit(&["b"]);
    writer.end();
    writer.remove(1);
    assert_eq!(told(&mut tail, &storage), "b");
    // The next writer begins with number 1 again, and nothing was missed.
    let mut next = Writer::new(&storage);
    next.begin(1);
    next.commit(&["c"]);
    assert_eq!(told(&mut tail, &storage), "c");
}

#[test]
fn who_misses_some_is_told_so_and_goes_on() {
    let storage = disk();
    let mut writer = Writer::new(&storage);
    writer.begin(1);
    writer.commit(&["a"]);
    let mut tail = at_end(&storage);
    writer.begin(2);
    writer.commit(&["b"]);
    writer.remove(1);
    writer.begin(3);
    writer.commit(&["c"]);
    writer.remove(2);
    assert_eq!(told(&mut tail, &storage), "-c");
    // The writer was killed, and the recovery of its store removed the journal.
    writer.commit(&["d"]);
    writer.remove(3);
    assert_eq!(told(&mut tail, &storage), "d-");
    assert_eq!(told(&mut tail, &storage), "");
}

#[test]
fn a_segment_in_the_blocks_of_another_is_another() {
    let storage = disk();
    let mut writer = Writer::new(&storage);
    writer.begin(1);
    writer.commit(&["a", "b", "c", "d", "e", "f"]);
    let mut tail = at_end(&storage);
    let retired = Path::new("journal").join(segment::name(1));
    let spare = Spare {
        path: retired,
        file: writer.segment.take().unwrap().file.into_file(),
        len: LEN,
    };
    writer.begin_in(2, &spare);
    assert_eq!(told(&mut tail, &storage), "");
    writer.commit(&["g"]);
    assert_eq!(told(&mut tail, &storage), "g");
    let mut late = at_end(&storage);
    assert_eq!(told(&mut late, &storage), "");
    writer.commit(&["h"]);
    assert_eq!(told(&mut late, &storage), "h");
    assert_eq!(told(&mut tail, &storage), "h");
}

#[test]
fn a_journal_that_is_made_while_it_is_followed_is_told_from_its_begin() {
    let storage = disk();
    let mut tail = JournalTail::at_begin(Path::new("journal"), STORE);
    assert_eq!(told(&mut tail, &storage), "");
    let mut writer = Writer::new(&storage);
    writer.begin(1);
    writer.commit(&["a"]);
    assert_eq!(told(&mut tail, &storage), "a");
}
