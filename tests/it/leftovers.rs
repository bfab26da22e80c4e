//! What a store writes besides session files goes away again while it runs.

use std::path::Path;

use sessionlog::StoreOptions;
use sessionlog::testing::disk_model::MemoryStorage;
use sessionlog::testing::sim::{DIR, Sim};
use sessionlog::testing::storage::Storage;

/// The store's own files beside the session files.
fn scratch_files(disk: &MemoryStorage) -> Vec<String> {
    let entries = disk.read_dir(Path::new(DIR)).expect("a store made it");
    let names = entries.into_iter().map(|entry| entry.name);
    names
        .filter(|name| name.strip_suffix(".tmp").is_some())
        .collect()
}

/// A truncation makes a copy that is under way worthless. A gateway truncates
/// as often as it compacts: copies left behind would fill its disk until the
/// store is opened again.
#[test]
fn a_copy_that_a_truncation_made_worthless_is_removed_at_once() {
    let mut overtaken = 0;
    for seed in 0..24 {
        let disk = MemoryStorage::new();
        let options = StoreOptions::new()
            .auto_compact(false)
            .journal_segments(16 << 10, 64 << 10);
        let mut store = Sim::open(disk.clone(), &options, seed).unwrap();
        let chats = store.handle();
        for turn in 0..20 {
            store
                .run(chats.add_message("cli", "user", &format!("turn {turn}")))
                .unwrap();
        }
        store.run(chats.truncate_history("cli", 10)).unwrap();
        let compacted = store.submit(chats.compact("cli"));
        let truncated = store.submit(chats.truncate_history("cli", 5));
        store.until_answered(&truncated).unwrap().unwrap();
        overtaken += usize::from(compacted.answer().is_none());
        store.until_answered(&compacted).unwrap().unwrap();

        assert_eq!(scratch_files(&disk), Vec::<String>::new(), "seed {seed}");
        assert_eq!(store.run(chats.history("cli")).unwrap().len(), 5);
    }
    assert!(overtaken > 0, "no compaction was overtaken by a truncation");
}
