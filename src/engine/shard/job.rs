//! Work that must not hold up a shard: the background pool does it and sends the result back to the
//! owner.

use std::sync::Arc;

use sessionlog_core::error::{Error, Result};
use sessionlog_core::session_file::{Conversation, Meta};
use sessionlog_wal::journal::pool::{SegmentPool, reserve};
use sessionlog_wal::storage::StorageFile;

use super::loaded::{LoadedSession, Lost};
use super::locate::{self, CutPlace};
use super::rewrite::{self, More, PreparedFile};
use super::shared::SharedState;
use super::source::FileSource;
use crate::disk::copies::lost::Copies;
use crate::disk::files::conversation;
use crate::disk::files::extent;
use crate::engine::home::Home;

/// The most that a short job reads and writes, bytes.
const SHORT: u64 = 4 << 20;

/// The receiver of a result: a session of a shard.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Owner {
    pub(crate) shard: usize,
    pub(crate) session: usize,
}

/// A piece of background work.
#[derive(Debug)]
pub(crate) enum Job {
    /// Measure a big session file.
    Measure { owner: Owner, loaded: LoadedSession },
    /// Find where a long truncation ends.
    Locate {
        owner: Owner,
        file: Arc<dyn StorageFile>,
        query: locate::Query,
    },
    /// Read the control records of a big session.
    Controls {
        owner: Owner,
        file: Option<Arc<dyn StorageFile>>,
        len: u64,
        rest: Vec<u8>,
    },
    /// Write a new session file.
    Rewrite {
        owner: Owner,
        temp: String,
        source: FileSource,
    },
    /// Add the changes made since to a compaction's copy.
    Extend {
        owner: Owner,
        prepared: PreparedFile,
        more: More,
        /// True if the session's commands wait for it.
        awaited: bool,
    },
    /// Close a file: dropping the last handle of a replaced file frees its
    /// blocks, which takes long for a big one.
    Close(Arc<dyn StorageFile>),
    /// Have the next journal segment ready before it is needed.
    PrepareSegment(Arc<SegmentPool>),
    /// The pool ends.
    Stop,
}

/// The report of a job that ended.
#[derive(Debug)]
pub(crate) enum JobReport {
    /// To its owner.
    Done { owner: Owner, done: JobResult },
    /// The store must stop.
    Fatal(Error),
}

/// The result of a job.
#[derive(Debug)]
pub(crate) enum JobResult {
    Measured(Result<LoadedSession>),
    Located(Result<CutPlace>),
    Controls(Result<Conversation>),
    /// The file of this name is ready, or nothing is left of it.
    Rewritten {
        temp: String,
        prepared: Result<PreparedFile>,
    },
}

impl Job {
    /// True if its owner waits for a result.
    pub(crate) fn has_result(&self) -> bool {
        !matches!(self, Self::Close(_) | Self::PrepareSegment(_) | Self::Stop)
    }

    /// True if it reads or writes so much that other jobs must not queue behind it.
    pub(crate) fn is_long(&self) -> bool {
        let bytes = match self {
            Self::Measure { loaded, .. } => loaded.extent.end,
            Self::Locate { query, .. } => query.end - query.start,
            Self::Controls { len, .. } => *len,
            Self::Rewrite { source, .. } => source.bytes(),
            Self::Extend { more, .. } => more.bytes(),
            Self::Close(_) | Self::PrepareSegment(_) | Self::Stop => 0,
        };
        bytes > SHORT
    }

    /// True if no command waits for it, unless a caller asked for a compaction.
    pub(crate) fn compacts(&self) -> bool {
        match self {
            Self::Rewrite { source, .. } => matches!(source, FileSource::Live { .. }),
            Self::Extend { awaited, .. } => !awaited && self.is_long(),
            _ => false,
        }
    }

    /// Returns what its owner must be told if the work never ends.
    pub(crate) fn lost(&self, error: Error) -> Option<JobReport> {
        let (owner, done) = match self {
            Self::Measure { owner, .. } => (*owner, JobResult::Measured(Err(error))),
            Self::Locate { owner, .. } => (*owner, JobResult::Located(Err(error))),
            Self::Controls { owner, .. } => (*owner, JobResult::Controls(Err(error))),
            Self::Rewrite { owner, temp, .. } => {
                let (temp, prepared) = (temp.clone(), Err(error));
                (*owner, JobResult::Rewritten { temp, prepared })
            }
            Self::Extend {
                owner, prepared, ..
            } => {
                let (temp, prepared) = (prepared.temp.clone(), Err(error));
                (*owner, JobResult::Rewritten { temp, prepared })
            }
            Self::Close(_) | Self::PrepareSegment(_) | Self::Stop => return None,
        };
        Some(JobReport::Done { owner, done })
    }

    /// Does the work; returns what must be reported.
    pub(crate) fn run(self, shared: &SharedState) -> Option<JobReport> {
        let (owner, done) = match self {
            Self::Measure { owner, loaded } => {
                (owner, JobResult::Measured(measured(shared, loaded)))
            }
            Self::Locate { owner, file, query } => {
                let located =
                    locate::locate(&*file, &query).map_err(|e| Error::io("read", &shared.dir, e));
                (owner, JobResult::Located(located))
            }
            Self::Controls {
                owner,
                file,
                len,
                rest,
            } => {
                let read = conversation::read(file.as_deref(), len, &rest)
                    .map_err(|e| Error::io("read", &shared.dir, e));
                (owner, JobResult::Controls(read))
            }
            Self::Rewrite {
                owner,
                temp,
                source,
            } => {
                let mut prepared = rewrite::prepare(shared, &temp, &source);
                if matches!(source, FileSource::Live { .. }) {
                    if matches!(prepared, Err(Error::StorageFull { .. })) && release_reserve(shared)
                    {
                        prepared = rewrite::prepare(shared, &temp, &source);
                    }
                    count_copied(shared, 0, &prepared);
                }
                (owner, JobResult::Rewritten { temp, prepared })
            }
            Self::Extend {
                owner,
                prepared,
                more,
                ..
            } => {
                let (temp, before) = (prepared.temp.clone(), prepared.len);
                let prepared = rewrite::extend(shared, prepared, &more);
                count_copied(shared, before, &prepared);
                (owner, JobResult::Rewritten { temp, prepared })
            }
            Self::Close(file) => {
                drop(file);
                return None;
            }
            Self::PrepareSegment(pool) => {
                // The committer asks again when it needs the segment, and reports the error that it
                // gets then.
                let error = pool.prepare().err()?;
                shared.warn(&error, "the next journal segment is not ready");
                let fatal = matches!(error, Error::Poisoned { .. });
                return fatal.then_some(JobReport::Fatal(error));
            }
            Self::Stop => return None,
        };
        Some(JobReport::Done { owner, done })
    }
}

/// Gives up the space that is reserved for work that frees some, as a compaction does; returns true
/// if there was any.
fn release_reserve(shared: &SharedState) -> bool {
    let journal = Home::of(&shared.dir).journal;
    reserve::release(&*shared.storage, &journal).unwrap_or_else(|error| {
        shared.warn(&error, "the space that is kept stays");
        false
    })
}

/// Counts the bytes that a compaction's copy has beyond `before`.
fn count_copied(shared: &SharedState, before: u64, copy: &Result<PreparedFile>) {
    let copied = copy.as_ref().map_or(0, |copy| copy.len - before);
    shared.counters.compaction_bytes.add(copied);
}

fn measured(shared: &SharedState, mut loaded: LoadedSession) -> Result<LoadedSession> {
    if let Some(lost) = loaded.lost.take() {
        restore(shared, lost, &mut loaded)?;
    }
    if let Some(file) = &loaded.file {
        loaded.extent = file
            .info()
            .and_then(|info| extent::measure(Some(&**file), info.len, &[], loaded.meta.skip))
            .map_err(|e| Error::io("read", &shared.dir, e))?;
    }
    Ok(loaded)
}

/// Restores a lost sidecar from its copy: without it, the session would show truncated lines. If
/// there is no copy, its aliases still lead to it. The next flush of the session writes the
/// sidecar.
fn restore(shared: &SharedState, lost: Lost, loaded: &mut LoadedSession) -> Result<()> {
    let mut copies = Copies::new(&*shared.storage, &shared.dir, &shared.copies);
    let mut sidecar = loaded.meta.to_sidecar();
    match copies.restore(&lost.stem)? {
        Some(restored) if restored.meta.key == sidecar.key => {
            tracing::warn!("{}", restored.finding);
            sidecar = restored.meta;
        }
        _ => sidecar.aliases = lost.aliases,
    }
    loaded.meta = Meta::of(sidecar);
    Ok(())
}
