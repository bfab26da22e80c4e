//! The options of opening a store.
//!
//! # What each level survives
//!
//! * Answered at `Durable`, or by a verb that is always durable. It survives a killed process and a
//!   power loss. If the sync fails it is never answered: the store stops.
//! * Answered at `Buffered`. It survives a killed process; it survives a power loss if a sync
//!   followed. After a failed sync: as after a killed process, unless the page cache reverts to
//!   what the disk has.
//! * Answered with an error that [may pass](crate::Error::is_retryable). It is not there.
//! * Not answered, or answered with any other error. It is there wholly or not at all.
//!
//! A sync begins within `BUFFERED_LINGER` of a buffered command, or when the sync under way ends if
//! that is later; or with the next durable command, `flush` or close.

mod clamped;

pub use self::clamped::Clamped;

use std::num::NonZeroUsize;
use std::time::Duration;

use sessionlog_core::session_file;
use sessionlog_wal::journal::segment::Lengths;

/// The failures that an acknowledged write survives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Durability {
    /// Power loss: the reply comes after the journal record reached the disk.
    #[default]
    Durable,
    /// The death of this process, in any way, but not a power loss or a crash of the operating
    /// system: the reply comes once the journal record is with the operating system. It reaches the
    /// disk with the store's next durable command or flush, and by itself about 10 ms later. Each
    /// command is all or nothing here as well.
    Buffered,
}

/// Options of [`Store::open_with`](crate::Store::open_with). Every limit has a documented default;
/// values outside the bounds are [clamped](Self::clamped). The `get_` methods return the current
/// values.
#[derive(Clone, Debug)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "independent switches, not states of one machine"
)]
pub struct StoreOptions {
    pub(crate) durability: Durability,
    pub(crate) auto_compact: bool,
    pub(crate) max_open_files: Option<NonZeroUsize>,
    pub(crate) max_line_bytes: usize,
    pub(crate) max_batch_bytes: usize,
    pub(crate) resolve_aliases: bool,
    pub(crate) allow_other_owner: bool,
    pub(crate) allow_missing_lock: bool,
    pub(crate) segments: Lengths,
    pub(crate) checkpoint_every: Duration,
    pub(crate) open_timeout: Duration,
    pub(crate) once_ids: usize,
    pub(crate) archive: bool,
    pub(crate) trash: Option<Duration>,
    pub(crate) sync_in_poll: bool,
    pub(crate) slow_commit: Duration,
    pub(crate) publish_stats: bool,
    clamped: Vec<Clamped>,
}

/// The maximum of every option that is a time.
const DAY: Duration = Duration::from_hours(24);

impl Default for StoreOptions {
    fn default() -> Self {
        Self::new()
    }
}

impl StoreOptions {
    /// The defaults.
    #[must_use]
    pub fn new() -> Self {
        Self {
            durability: Durability::Durable,
            auto_compact: true,
            max_open_files: None,
            max_line_bytes: 16 << 20,
            max_batch_bytes: 64 << 20,
            resolve_aliases: true,
            allow_other_owner: false,
            allow_missing_lock: false,
            segments: Lengths::default(),
            checkpoint_every: Duration::from_secs(5),
            open_timeout: Duration::ZERO,
            once_ids: 256,
            archive: false,
            trash: None,
            sync_in_poll: false,
            slow_commit: Duration::from_secs(1),
            publish_stats: true,
            clamped: Vec::new(),
        }
    }

    /// Sets the durability of appends and sidecar changes, unless the handle sets another (see
    /// [`with_durability`](crate::StoreHandle::with_durability)). Default: [`Durability::Durable`].
    #[must_use]
    pub fn durability(mut self, level: Durability) -> Self {
        self.durability = level;
        self
    }

    /// Compacts a session in the background once its skipped lines outnumber its live lines. This
    /// is checked when the session is truncated, and at its first use after the store was opened.
    /// Default: `true`.
    #[must_use]
    pub fn auto_compact(mut self, on: bool) -> Self {
        self.auto_compact = on;
        self
    }

    /// Keeps the lines that compactions drop, in `.sessionlog/archive`, compressed with gzip, in
    /// files named by session and month. [`archived`](crate::StoreHandle::archived) reads them;
    /// [`SearchQuery::archived`](crate::SearchQuery::archived) and `zgrep` search them. A
    /// compaction that cannot write there drops nothing. Histories that
    /// [`set_history`](crate::StoreHandle::set_history) replaces are not kept. Deleting a session
    /// deletes its archived lines, whatever is set here. Default: `false`.
    #[must_use]
    pub fn archive(mut self, on: bool) -> Self {
        self.archive = on;
        self
    }

    /// Makes [`delete_session`](crate::StoreHandle::delete_session) move sessions to the trash,
    /// where [retention](crate::StoreHandle::retention) leaves them for this time. By default there
    /// is no trash, and they are gone at once.
    #[must_use]
    pub fn trash(mut self, time: Duration) -> Self {
        self.trash = Some(time);
        self
    }

    /// The number of session files that the store keeps open; the least recently used is closed
    /// first. Each of the 64 shards has an equal part. In addition it opens the journal's segments
    /// (a handful), the file of [`publish_stats`](Self::publish_stats), files being rewritten, and
    /// files that a read under way still holds. Default: half of the process's soft descriptor
    /// limit at open. Bounds: 64 to 1,048,576.
    #[must_use]
    pub fn max_open_files(mut self, files: usize) -> Self {
        let files = self.clamp("max_open_files", files, 64, 1 << 20);
        self.max_open_files = NonZeroUsize::new(files);
        self
    }

    /// The largest encoded message that a write accepts, in bytes without its line feed. The same
    /// limit holds for a summary, for a scope, and for the aliases of a session together. The whole
    /// encoded sidecar may have twice this and 16 KiB. Larger lines found on disk are still read,
    /// and rewritten as they are; but a new history that contains such a message is refused.
    /// Sidecars of up to 128 MiB are read. Default: 16 MiB. Bounds: 1 KiB to 32 MiB.
    #[must_use]
    pub fn max_line_bytes(mut self, bytes: usize) -> Self {
        self.max_line_bytes = self.clamp("max_line_bytes", bytes, 1 << 10, 32 << 20);
        self
    }

    /// Sets [`max_line_bytes`](Self::max_line_bytes) for a directory that PicoClaw reads as well:
    /// 10,485,759. PicoClaw reads lines through a scanner with a buffer of 10 MiB, which has to
    /// hold the line feed, too. A single longer line makes it fail to read the whole session.
    ///
    /// ```
    /// # use sessionlog::{Message, Store, StoreOptions};
    /// # fn main() -> sessionlog::Result<()> {
    /// # let scratch = tempfile::tempdir().unwrap();
    /// let store = Store::open_with(scratch.path(), StoreOptions::new().picoclaw_lines())?;
    /// let long = Message::tool("call-1", "x".repeat(10 << 20));
    /// assert!(store.handle().add_full_message("cli", long).wait().is_err());
    /// # store.close()
    /// # }
    /// ```
    ///
    /// The limit also holds for summaries, scopes and aliases. If both methods are called, the last
    /// call holds.
    #[must_use]
    pub fn picoclaw_lines(self) -> Self {
        self.max_line_bytes(session_file::PICOCLAW_LINE)
    }

    /// The most bytes of lines that one command writes (a batch, a new history), line feeds
    /// included. A batch is in memory several times over until it is durable, and holds up other
    /// writers. Imports of a whole session from a file,
    /// [`migrate_from_json`](crate::migrate_from_json), [`import_picoclaw`](crate::import_picoclaw)
    /// and [`import_kimi`](crate::import_kimi), have no such limit. Default: 64 MiB. Bounds: 64 KiB
    /// to 1 GiB.
    #[must_use]
    pub fn max_batch_bytes(mut self, bytes: usize) -> Self {
        self.max_batch_bytes = self.clamp("max_batch_bytes", bytes, 64 << 10, 1 << 30);
        self
    }

    /// Allows the directory, and the engine's own in it, to belong to another user, as in a volume
    /// that is shared with a group (`fsGroup`). Their owner can read everything in them, and
    /// replace it. Links are not followed either way. Default: `false`, such a directory is
    /// refused.
    #[must_use]
    pub fn allow_other_owner(mut self, allow: bool) -> Self {
        self.allow_other_owner = allow;
        self
    }

    /// Allows a file system that keeps no locks, as some network mounts and container volumes. Then
    /// nothing refuses a second writer, and writes acknowledged by two writers get lost: make sure
    /// that only one process writes. Default: `false`, such a directory is refused with an error
    /// that says so.
    #[must_use]
    pub fn allow_missing_lock(mut self, allow: bool) -> Self {
        self.allow_missing_lock = allow;
        self
    }

    /// The largest encoded sidecar that a command may write: room for its parts at their largest,
    /// and for a key.
    pub(crate) fn max_sidecar_bytes(&self) -> usize {
        2 * self.max_line_bytes + (16 << 10)
    }

    /// The most that the journal takes on disk, in bytes, including segments kept for reuse. The
    /// journal never takes more than an eighth of the available space, whatever is set here; a
    /// flush begins at a third of the limit. While flushes follow each other, the journal may
    /// exceed the limit by what is written during one flush, and by a single batch that is larger.
    /// Default: 768 MiB. Bounds: 1 MiB to 16 GiB.
    #[must_use]
    pub fn journal_budget(mut self, bytes: u64) -> Self {
        self.segments.budget = self.clamp("journal_budget", bytes, 1 << 20, 16 << 30);
        self
    }

    /// The least number of message ids that [`append_once`](crate::StoreHandle::append_once)
    /// remembers for each session; the oldest are dropped first. For a session in use they are in
    /// memory, some 120 bytes each. Default: 256. Bounds: 16 to 65,536.
    #[must_use]
    pub fn once_ids(mut self, ids: usize) -> Self {
        self.once_ids = self.clamp("once_ids", ids, 16, 1 << 16);
        self
    }

    /// The longest time between checkpoints while the store is never idle: after this time all
    /// files are brought up to date and synced. If another program touches the files after a crash,
    /// before the store is opened again, only writes since the last checkpoint can conflict with
    /// it. Default: 5 s. Bounds: 100 ms to a day.
    #[must_use]
    pub fn checkpoint_every(mut self, time: Duration) -> Self {
        let least = Duration::from_millis(100);
        self.checkpoint_every = self.clamp("checkpoint_every", time, least, DAY);
        self
    }

    /// The time that [`Store::open_with`](crate::Store::open_with) waits while another writer holds
    /// the directory: after a restart the previous process may still be closing. It tries every 20
    /// ms; the first to try after the directory is free gets it. Blocks its thread meanwhile. In
    /// async code, open on a thread for blocking work; otherwise the task that would close the
    /// other store may wait for this one. Default: 0, which fails with
    /// [`Error::Locked`](crate::Error::Locked) at once. Bounds: 0 to a day.
    #[must_use]
    pub fn open_timeout(mut self, time: Duration) -> Self {
        self.open_timeout = self.clamp("open_timeout", time, Duration::ZERO, DAY);
        self
    }

    /// Allows the poll of a [`Reply`](crate::Reply) to sync, if no other caller waits for a commit.
    /// The task then commits on its runtime's thread, instead of waking the leader's thread and
    /// being woken by it. Many callers are committed together either way. It blocks that thread for
    /// one sync: some 100 µs where the disk has a cache that it need not empty, several ms where it
    /// must, more if the device is busy. Useful for a gateway with few callers, a runtime of
    /// several threads and a quick disk. A caller that [waits](crate::Reply::wait) on a thread
    /// syncs there whatever is set here. Default: `false`, a poll never syncs.
    #[must_use]
    pub fn sync_in_poll(mut self, on: bool) -> Self {
        self.sync_in_poll = on;
        self
    }

    /// The time from which a group commit counts as slow. A slow commit is logged as an event of
    /// level `WARN`, at most every 10 s, and counted in
    /// [`StoreStats::slow_commits`](crate::StoreStats::slow_commits). Default: 1 s. Bounds: 1 ms to
    /// a day.
    #[must_use]
    pub fn slow_commit(mut self, time: Duration) -> Self {
        let least = Duration::from_millis(1);
        self.slow_commit = self.clamp("slow_commit", time, least, DAY);
        self
    }

    /// Publishes the store's statistics and status in `.sessionlog/stats` for other processes,
    /// which read them with [`published_stats`](crate::published_stats). The file is written at
    /// most once a second and only if something happened, never synced, and removed at close. It
    /// takes one file descriptor and some KiB; without them the store runs as well. It names no
    /// session. Default: `true`.
    #[must_use]
    pub fn publish_stats(mut self, on: bool) -> Self {
        self.publish_stats = on;
        self
    }

    /// The sizes of journal segments in bytes: the first, and the largest. With small segments a
    /// short test covers what happens in a long run.
    #[cfg(any(test, feature = "testing"))]
    #[doc(hidden)]
    #[must_use]
    pub fn journal_segments(mut self, first: u64, largest: u64) -> Self {
        let budget = self.segments.budget;
        self.segments = Lengths {
            first,
            largest,
            budget,
        };
        self
    }
}
