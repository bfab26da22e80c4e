//! A sync under way.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use crate::storage::StorageFile;

/// A sync of all data written before it began, and of nothing else. More may be written to the
/// segment while it runs, but no caller may be answered for that because of this sync.
#[derive(Debug)]
#[must_use = "whoever waits for what it syncs is told when it is ended"]
pub struct Syncing {
    pub(super) file: Arc<dyn StorageFile>,
    /// The last batch written when it began.
    pub(super) sequence: u64,
    pub(super) began: Duration,
}

impl Syncing {
    /// Syncs, and blocks for as long as that takes.
    ///
    /// # Errors
    /// As the operating system reports them.
    pub fn run(&self) -> io::Result<()> {
        self.file.sync_data()
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::committer::{Batch, Committer};
    use super::super::pool::SegmentPool;
    use super::super::progress::Progress;
    use super::super::segment::Lengths;
    use super::*;
    use crate::storage::Storage;
    use crate::testing::disk_model::MemoryStorage;

    fn written(committer: &mut Committer) {
        let mut batch = Batch::default();
        batch.bytes.resize(8, 0);
        committer.write(&mut batch).unwrap();
    }

    fn begun() -> (Arc<SegmentPool>, Arc<Progress>, Committer) {
        let storage = MemoryStorage::new();
        let dir = Path::new("journal");
        storage.create_dir(dir).unwrap();
        let storage: Arc<dyn Storage> = Arc::new(storage);
        let pool = SegmentPool::new(storage, dir.into(), [7; 16], 1, Lengths::default());
        let (pool, progress) = (Arc::new(pool), Arc::new(Progress::default()));
        let counters = Arc::default();
        let committer = Committer::new(pool.clone(), 0, progress.clone(), counters);
        (pool, progress, committer.unwrap())
    }

    /// Data written to the next segment may be on disk before the data that the sync covers.
    #[test]
    fn a_segment_that_is_synced_is_left_when_that_is_over() {
        let (pool, _, mut committer) = begun();
        written(&mut committer);
        let syncing = committer.begin_sync().unwrap();
        let synced = committer.segment_number();
        pool.renew().unwrap();
        written(&mut committer);
        assert_eq!(committer.segment_number(), synced);
        let ran = syncing.run();
        committer.end_sync(&syncing, ran, || {}).unwrap();
        written(&mut committer);
        assert_ne!(committer.segment_number(), synced);
    }

    #[test]
    fn a_sync_speaks_of_what_was_written_before_it_began() {
        let (_, progress, mut committer) = begun();
        written(&mut committer);
        let syncing = committer.begin_sync().unwrap();
        written(&mut committer);
        let synced = syncing.run();
        let tell = || assert_eq!(progress.synced(), 0);
        committer.end_sync(&syncing, synced, tell).unwrap();
        assert_eq!(progress.synced(), 1);
        let syncing = committer.begin_sync().unwrap();
        let synced = syncing.run();
        committer.end_sync(&syncing, synced, || {}).unwrap();
        assert_eq!(progress.synced(), 2);
        assert!(committer.begin_sync().is_none());
    }
}
