//! How a store is opened.
//!
//! # What each level survives
//!
//! * Answered at `Durable`, or by a verb that is always durable. It survives a killed
//!   process and a power loss. If the sync fails it is never answered: the store stops.
//! * Answered at `Buffered`. It survives a killed process; it survives a power loss if a
//!   sync followed. After a failed sync: as after a killed process, unless the page cache
//!   goes back.
//! * Answered with an error that [may pass](crate::Error::is_retryable). It is not there.
//! * Not answered, or answered with any other error. It is there wholly or not at all.
//!
//! A sync begins within `BUFFERED_LINGER` of a buffered command, or when the one under way
//! ends if that is later; or with the next durable command, `flush` or close.

mod clamped;

pub use self::clamped::Clamped;

use std::num::NonZeroUsize;
use std::time::Duration;

use crate::disk::journal::segment::Lengths;
use crate::disk::session_file;

/// What an acknowledged write survives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Durability {
    /// Power loss: the reply comes after the journal record reached the disk.
    #[default]
    Durable,
    /// The death of this process, however it dies, not a power loss or a crash
    /// of the operating system: the reply comes once the journal record is with
    /// the operating system. It reaches the disk with the store's next durable
    /// command or flush, and by itself about 10 ms later. All or nothing holds
    /// for each command here as well.
    Buffered,
}

/// Options of [`Store::open_with`](crate::Store::open_with). Every limit has a
/// documented default; values outside the bounds are [clamped](Self::clamped). What is
/// set can be read through the `get_` methods.
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

/// The longest time that an option takes.
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

    /// What a reply to an append or a sidecar change means, unless the handle
    /// says otherwise (see
    /// [`with_durability`](crate::StoreHandle::with_durability)). Default:
    /// [`Durability::Durable`].
    #[must_use]
    pub fn durability(mut self, level: Durability) -> Self {
        self.durability = level;
        self
    }

    /// Whether a session is compacted in the background once its skipped lines
    /// outnumber its live lines: looked at when it is truncated, and at its
    /// first use after the store was opened. Default: `true`.
    #[must_use]
    pub fn auto_compact(mut self, on: bool) -> Self {
        self.auto_compact = on;
        self
    }

    /// Whether compactions keep the lines that they drop, in `.sessionlog/archive`, compressed
    /// with gzip, in files that are named by session and month:
    /// [`archived`](crate::StoreHandle::archived) reads them,
    /// [`SearchQuery::archived`](crate::SearchQuery::archived) searches them, and so does
    /// `zgrep`. A compaction that cannot write there drops nothing. What
    /// [`set_history`](crate::StoreHandle::set_history) replaces is not kept. Deleting the
    /// session deletes them, whatever is set here. Default: `false`.
    #[must_use]
    pub fn archive(mut self, on: bool) -> Self {
        self.archive = on;
        self
    }

    /// Has [`delete_session`](crate::StoreHandle::delete_session) put sessions into the trash,
    /// where [retention](crate::StoreHandle::retention) leaves them for so long. By default
    /// there is no trash, and they are gone at once.
    #[must_use]
    pub fn trash(mut self, time: Duration) -> Self {
        self.trash = Some(time);
        self
    }

    /// How many session files the store keeps open, least recently used closed
    /// first. Each of the 64 shards has an equal part. On top of them come the
    /// journal's segments (a handful), the file of
    /// [`publish_stats`](Self::publish_stats), files being rewritten, and files that a
    /// read under way still holds. Default: half of the process's soft
    /// descriptor limit at open. Bounds: 64 to 1,048,576.
    #[must_use]
    pub fn max_open_files(mut self, files: usize) -> Self {
        let files = self.clamp("max_open_files", files, 64, 1 << 20);
        self.max_open_files = NonZeroUsize::new(files);
        self
    }

    /// The largest encoded message, in bytes without its line feed, that a
    /// write accepts; the same limit holds for a summary, for a scope, and for
    /// the aliases of a session together. The whole sidecar, as it is encoded,
    /// may have twice as many and 16 KiB. Larger lines found on disk are still
    /// read, and rewritten as they are; handed back in a history that is to be
    /// set, such a message is refused. Sidecars of up to 128 MiB are read. Default: 16 MiB. Bounds: 1 KiB to
    /// 32 MiB.
    #[must_use]
    pub fn max_line_bytes(mut self, bytes: usize) -> Self {
        self.max_line_bytes = self.clamp("max_line_bytes", bytes, 1 << 10, 32 << 20);
        self
    }

    /// [`max_line_bytes`](Self::max_line_bytes) for a directory that PicoClaw is to
    /// read as well: 10,485,759. PicoClaw reads lines through a scanner with a buffer
    /// of 10 MiB, which has to hold the line feed, too. A single longer line makes it
    /// fail to read the whole session.
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
    /// It is [`max_line_bytes`](Self::max_line_bytes) with PicoClaw's number, also for
    /// summaries, scopes and aliases: of the two, the last call holds.
    #[must_use]
    pub fn picoclaw_lines(self) -> Self {
        self.max_line_bytes(session_file::PICOCLAW_LINE)
    }

    /// All lines that one command writes (a batch, a new history), in bytes,
    /// line feeds included. A batch is in memory several times over until it is
    /// durable, and holds up what others write. What makes a session of a file,
    /// [`migrate_from_json`](crate::migrate_from_json),
    /// [`import_picoclaw`](crate::import_picoclaw) and [`import_kimi`](crate::import_kimi), has no
    /// such limit. Default: 64 MiB. Bounds: 64 KiB to 1 GiB.
    #[must_use]
    pub fn max_batch_bytes(mut self, bytes: usize) -> Self {
        self.max_batch_bytes = self.clamp("max_batch_bytes", bytes, 64 << 10, 1 << 30);
        self
    }

    /// Whether the directory, and the engine's own in it, may belong to another
    /// user, as a volume does that is shared with a group (`fsGroup`). Their owner
    /// can read everything in them, and put something else in its place. Links are
    /// not followed either way. Default: `false`, such a directory is refused.
    #[must_use]
    pub fn allow_other_owner(mut self, allow: bool) -> Self {
        self.allow_other_owner = allow;
        self
    }

    /// Opens a store also where the file system keeps no locks, as some network mounts and
    /// container volumes do not. Nothing then refuses a second writer, and what two writers
    /// acknowledge gets lost: see to it that one process writes. Default: `false`, such a
    /// directory is refused with an error that says so.
    #[must_use]
    pub fn allow_missing_lock(mut self, allow: bool) -> Self {
        self.allow_missing_lock = allow;
        self
    }

    /// The largest encoded sidecar that a command may make: room for what may
    /// be in it at its largest, and for a key.
    pub(crate) fn max_sidecar_bytes(&self) -> usize {
        2 * self.max_line_bytes + (16 << 10)
    }

    /// The most that the journal takes on disk, in bytes, segments kept for reuse
    /// included. The journal never takes more than an eighth of the space there is,
    /// whatever is set here; a flush begins at a third of it. It may exceed this
    /// for as long as flushes follow each other, by what is written during one, and by a
    /// single batch that is larger. Default: 768 MiB. Bounds: 1 MiB to 16 GiB.
    #[must_use]
    pub fn journal_budget(mut self, bytes: u64) -> Self {
        self.segments.budget = self.clamp("journal_budget", bytes, 1 << 20, 16 << 30);
        self
    }

    /// How many message ids of each session [`append_once`](crate::StoreHandle::append_once)
    /// remembers, at least; the oldest go first. For a session that is in use they are in
    /// memory, some 120 bytes each. Default: 256. Bounds: 16 to 65,536.
    #[must_use]
    pub fn once_ids(mut self, ids: usize) -> Self {
        self.once_ids = self.clamp("once_ids", ids, 16, 1 << 16);
        self
    }

    /// How long the journal may hold what no checkpoint covers while the store is never
    /// idle: after so long all files are brought up to date and synced. If another program
    /// touches the files after a crash, before the store is opened again, only what was
    /// written since the last checkpoint can be at odds with it. Default: 5 s. Bounds:
    /// 100 ms to a day.
    #[must_use]
    pub fn checkpoint_every(mut self, time: Duration) -> Self {
        let least = Duration::from_millis(100);
        self.checkpoint_every = self.clamp("checkpoint_every", time, least, DAY);
        self
    }

    /// How long [`Store::open_with`](crate::Store::open_with) waits while another writer
    /// holds the directory: after a restart the process before may still be closing. Asked
    /// for again every 20 ms; whoever asks first after it is free has it. Blocks its thread
    /// meanwhile: in async code open on a thread for blocking work, or a task that is to
    /// close the other store may wait for this one. Default: 0, which fails with
    /// [`Error::Locked`](crate::Error::Locked) at once. Bounds: 0 to a day.
    #[must_use]
    pub fn open_timeout(mut self, time: Duration) -> Self {
        self.open_timeout = self.clamp("open_timeout", time, Duration::ZERO, DAY);
        self
    }

    /// Whether polling a [`Reply`](crate::Reply) may sync, if nobody else waits for a commit:
    /// the task then commits on its runtime's thread, instead of waking the leader's and
    /// being woken by it. Callers that are many are committed together either way. It blocks
    /// that thread for one sync: some 100 µs where the disk has a cache that it need not
    /// empty, several ms where it must, more if the device is busy. For a gateway of few
    /// callers on a runtime of several threads and a quick disk. A caller who
    /// [waits](crate::Reply::wait) on a thread does so whatever is set here. Default:
    /// `false`, a poll never syncs.
    #[must_use]
    pub fn sync_in_poll(mut self, on: bool) -> Self {
        self.sync_in_poll = on;
        self
    }

    /// How long a group commit may take before it is told of: an event of level `WARN`, at
    /// most every 10 s, and counted in [`StoreStats::slow_commits`](crate::StoreStats::slow_commits).
    /// Default: 1 s. Bounds: 1 ms to a day.
    #[must_use]
    pub fn slow_commit(mut self, time: Duration) -> Self {
        let least = Duration::from_millis(1);
        self.slow_commit = self.clamp("slow_commit", time, least, DAY);
        self
    }

    /// Whether the store says in `.sessionlog/stats` what it does and how it is doing, for
    /// other processes: [`published_stats`](crate::published_stats) reads it. Written at most
    /// once a second and only if something happened, never synced, removed at close. It takes
    /// one file descriptor and some KiB; without them the store runs as well. It names no
    /// session. Default: `true`.
    #[must_use]
    pub fn publish_stats(mut self, on: bool) -> Self {
        self.publish_stats = on;
        self
    }

    /// How large journal segments are, bytes: the first, and the largest. Small
    /// ones make a short test meet what a long run meets.
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
