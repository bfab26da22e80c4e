//! What is asked of the contenders, one workload a file.

pub(crate) mod append;
pub(crate) mod drive;
pub(crate) mod fresh;
mod histogram;
pub(crate) mod mixed;
pub(crate) mod open;
pub(crate) mod read;
pub(crate) mod soak;
pub(crate) mod truncate;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use serde::Serialize;
use tokio::runtime::Runtime;

use crate::contender::{Contender, Kind, Setup, Texts};
use crate::contenders::committer::BareCommitter;
use crate::contenders::files::Files;
use crate::contenders::fjall::Fjall;
use crate::contenders::leader::BareLeader;
use crate::contenders::raft_engine::RaftEngine;
use crate::contenders::redb::Redb;
#[cfg(feature = "rocksdb")]
use crate::contenders::rocksdb::RocksDb;
use crate::contenders::sessionlog::SessionLog;
use crate::contenders::sqlite::Sqlite;
use crate::engines::Batched;
use crate::meter::Amplification;
use crate::support::Outcome;
use crate::support::bare::Until;
use crate::support::sample::Latency;

/// What one contender came to in one round at one cell.
#[derive(Clone, Default, Serialize)]
pub(crate) struct Figures {
    pub(crate) ops: f64,
    pub(crate) latency: Latency,
    /// Processor time of the whole process, producers included.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) cpu_micros_per_op: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) ops_per_sync: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) amplification: Option<Amplification>,
    /// What only this workload has.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) more: BTreeMap<&'static str, f64>,
}

/// Where a contender takes its turns.
pub(crate) struct Stage {
    pub(crate) kind: Kind,
    /// Empty, unless the workload keeps what an earlier round made.
    pub(crate) dir: PathBuf,
    pub(crate) runtime: Arc<Runtime>,
    pub(crate) texts: Arc<Texts>,
    pub(crate) round: usize,
}

impl Stage {
    fn setup(&self, until: Until, sessions: usize) -> Setup {
        Setup {
            dir: self.dir.clone(),
            until,
            sessions,
            runtime: self.runtime.handle().clone(),
            texts: Arc::clone(&self.texts),
        }
    }

    fn open<C: Contender>(&self, until: Until, sessions: usize) -> Outcome<Arc<C>> {
        Ok(Arc::new(C::open(&self.setup(until, sessions))?))
    }
}

/// A contender prepared for a round of one workload.
pub(crate) trait Player {
    fn measure(&mut self, cell: usize) -> Outcome<Figures>;

    /// Checks that what was acknowledged is there, and closes.
    fn finish(self: Box<Self>) -> Outcome<()>;
}

pub(crate) trait Workload {
    fn name(&self) -> &'static str;

    fn title(&self) -> String;

    fn cells(&self) -> Vec<String>;

    /// Whether bare loops can take part: they keep nothing.
    fn admits_floors(&self) -> bool;

    /// Whether a round needs a directory that no round used before.
    fn wants_fresh_directory(&self) -> bool {
        true
    }

    fn prepare<C: Contender>(&self, stage: Stage) -> Outcome<Box<dyn Player>>;
}

/// Work with a contender whose type is known only from options.
pub(crate) trait Task {
    type Output;

    fn run<C: Contender>(self) -> Outcome<Self::Output>;
}

pub(crate) fn with<T: Task>(kind: Kind, task: T) -> Outcome<T::Output> {
    match kind {
        Kind::Sessionlog => task.run::<SessionLog>(),
        Kind::Sqlite => task.run::<Batched<Sqlite>>(),
        Kind::Redb => task.run::<Batched<Redb>>(),
        Kind::Fjall => task.run::<Batched<Fjall>>(),
        Kind::RaftEngine => task.run::<Batched<RaftEngine>>(),
        #[cfg(feature = "rocksdb")]
        Kind::Rocksdb => task.run::<Batched<RocksDb>>(),
        Kind::Files => task.run::<Files>(),
        Kind::BareCommitter => task.run::<BareCommitter>(),
        Kind::BareLeader => task.run::<BareLeader>(),
    }
}

/// Closes a contender that nobody else holds any more.
fn close<C: Contender>(contender: Arc<C>) -> Outcome<()> {
    Arc::into_inner(contender)
        .ok_or("a producer outlives its window")?
        .close()
}

/// A rate of appends that are not there is no rate.
fn verify<C: Contender>(contender: &C, expected: usize) -> Outcome<()> {
    let found = contender.count()?;
    if found == expected {
        Ok(())
    } else {
        Err(format!("{expected} messages expected, {found} found").into())
    }
}
