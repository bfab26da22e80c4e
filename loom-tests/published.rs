//! The published snapshot: one moment's value, no older than an answer already
//! given.

use crate::explore::Model;
use sessionlog::testing::sync::Published;
use sessionlog::testing::sync::atomic::{AtomicU64, Ordering};
use sessionlog::testing::sync::thread::spawn;
use std::sync::Arc;

pub(crate) const MODELS: &[Model] = &[Model {
    name: "published_snapshot",
    bound: 3,
    at_least: 900,
    runs: &[a_reader_sees_one_moment],
}];

/// What a reader of a session needs together: with the length of one
/// generation and the file of another it would read past the end, or across a
/// line.
struct Snapshot {
    generation: u64,
    length: u64,
    file: Arc<u64>,
}

impl Snapshot {
    fn of(generation: u64) -> Arc<Self> {
        Arc::new(Self {
            generation,
            length: generation * 100,
            file: Arc::new(generation),
        })
    }
}

/// The owner appends and swaps while two readers look twice each.
fn a_reader_sees_one_moment() {
    let published = Arc::new(Published::new(Snapshot::of(0)));
    let acknowledged = Arc::new(AtomicU64::new(0));
    let readers = [(); 2].map(|()| {
        let (published, acknowledged) = (Arc::clone(&published), Arc::clone(&acknowledged));
        spawn("reader", move || {
            let mut at_least = 0;
            for _ in 0..2 {
                at_least = at_least.max(acknowledged.load(Ordering::Acquire));
                let seen = published.load();
                assert!(
                    seen.generation >= at_least,
                    "an acknowledged write is missing"
                );
                assert_eq!(seen.length, seen.generation * 100, "torn");
                assert_eq!(*seen.file, seen.generation, "torn");
                at_least = seen.generation;
            }
        })
        .expect("loom has room for it")
    });
    for generation in 1..=2 {
        published.store(Snapshot::of(generation));
        acknowledged.store(generation, Ordering::Release);
    }
    for reader in readers {
        reader.join().expect("did not panic");
    }
}
