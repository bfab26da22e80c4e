//! Records of another time, where new ones are expected.

use std::ops::Range;
use std::path::Path;

use sessionlog::StoreOptions;
use sessionlog::testing::disk_model::MemoryStorage;
use sessionlog::testing::sim::{DIR, Sim};

/// The first page of a segment is its header.
const HEADER: usize = 4096;

/// Bytes of a record before its kind.
const HEAD: usize = 8;

/// The kind of the record that ends a batch.
const COMMIT: u8 = 6;

const SEGMENT: &str = "sessions/.sessionlog/journal/segment-0000000000000001.log";

/// A store of the same identity each time, to which some texts were written.
fn store(texts: &[&str]) -> MemoryStorage {
    let disk = MemoryStorage::new();
    let identity = Path::new(DIR).join(".sessionlog/identity");
    let text = "sessionlog 1 000102030405060708090a0b0c0d0e0f\n";
    disk.write_foreign(identity, text.as_bytes()).unwrap();
    let options = StoreOptions::new().journal_segments(8 << 10, 8 << 10);
    let mut sim = Sim::open(disk.clone(), &options, 0).unwrap();
    for text in texts {
        sim.run(sim.handle().add_message("cli", "user", text))
            .unwrap();
    }
    disk
}

/// Where the batches of a segment stand.
fn batches(segment: &[u8]) -> Vec<Range<usize>> {
    let (mut found, mut start, mut at) = (Vec::new(), HEADER, HEADER);
    while let Some(length) = segment.get(at..at + 4) {
        let length = u32::from_le_bytes(length.try_into().unwrap()) as usize;
        if length == 0 {
            break;
        }
        let kind = segment[at + HEAD];
        at += HEAD + length;
        if kind == COMMIT {
            found.push(start..at);
            start = at;
        }
    }
    found
}

/// Blocks that a file once had, or that a copy brought back, may hold a batch
/// of the right number in the right place. Only the salt tells it from ours.
#[test]
fn a_batch_of_another_segment_never_passes_for_the_next_one() {
    let old = store(&["old one", "old two"])
        .read_foreign(SEGMENT)
        .unwrap();
    let disk = store(&["new one"]);
    let mut segment = disk.read_foreign(SEGMENT).unwrap();
    let end = batches(&segment).last().unwrap().end;
    let stale = &old[batches(&old)[1].clone()];
    assert_eq!(batches(&segment).len(), 1);
    segment[end..end + stale.len()].copy_from_slice(stale);
    disk.write_foreign(SEGMENT, &segment).unwrap();

    let mut sim = Sim::open(disk, &StoreOptions::new(), 0).unwrap();
    let held = sim.run(sim.handle().history("cli")).unwrap();
    let texts: Vec<_> = held.iter().map(|m| m.text().to_string()).collect();
    assert_eq!(texts, ["new one"]);
}
