//! What a contender is: an embedded store, or a bare loop that keeps nothing.

use std::future::Future;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::ValueEnum;
use serde::Serialize;
use sessionlog::Message;
use tokio::runtime::Handle;

use crate::support::bare::{Until, line};
use crate::support::{Outcome, texts};

/// Every contender, by the name that options and reports use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Kind {
    Sessionlog,
    Sqlite,
    Redb,
    Fjall,
    RaftEngine,
    #[cfg(feature = "rocksdb")]
    Rocksdb,
    Files,
    BareCommitter,
    BareLeader,
}

impl Kind {
    /// Whether it only writes and syncs: the most that the disk gives, no store.
    pub(crate) fn is_floor(self) -> bool {
        matches!(self, Self::BareCommitter | Self::BareLeader)
    }

    /// Whether it is a store that sessionlog is compared with.
    pub(crate) fn is_peer(self) -> bool {
        !self.is_floor() && self != Self::Sessionlog
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Sessionlog => "sessionlog",
            Self::Sqlite => "sqlite",
            Self::Redb => "redb",
            Self::Fjall => "fjall",
            Self::RaftEngine => "raft-engine",
            #[cfg(feature = "rocksdb")]
            Self::Rocksdb => "rocksdb",
            Self::Files => "files",
            Self::BareCommitter => "bare-committer",
            Self::BareLeader => "bare-leader",
        }
    }
}

/// What a contender is opened with.
#[derive(Clone)]
pub(crate) struct Setup {
    /// A directory of its own; empty, or as the same contender closed it.
    pub(crate) dir: PathBuf,
    /// What an acknowledged append means.
    pub(crate) until: Until,
    /// Session numbers are below this.
    pub(crate) sessions: usize,
    /// Where producers run.
    pub(crate) runtime: Handle,
    pub(crate) texts: Arc<Texts>,
}

impl Setup {
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }
}

/// The messages that producers choose from.
pub(crate) struct Texts {
    /// For who encodes messages itself.
    pub(crate) texts: Vec<String>,
    /// The same as lines of JSON, for who keeps bytes.
    pub(crate) lines: Vec<Vec<u8>>,
}

impl Texts {
    pub(crate) fn new(count: usize) -> Self {
        let texts = texts(count);
        let lines = texts
            .iter()
            .map(|text| {
                let mut line = line(text);
                line.pop();
                line
            })
            .collect();
        Self { texts, lines }
    }

    pub(crate) fn count(&self) -> usize {
        self.texts.len()
    }

    pub(crate) fn line(&self, number: usize) -> &[u8] {
        &self.lines[number % self.lines.len()]
    }
}

/// The key of a session.
pub(crate) fn key_of(session: usize) -> String {
    format!("telegram:{session}")
}

/// Another name that leads to the session, where aliases are made.
pub(crate) fn alias_of(session: usize) -> String {
    format!("agent:main:telegram:direct:{session}")
}

/// One embedded store, driven as someone would who knows it well. Bare loops
/// carry out appends only.
pub(crate) trait Contender: Send + Sync + Sized + 'static {
    fn open(setup: &Setup) -> Outcome<Self>;

    /// Appends one message and returns once it is acknowledged.
    fn append(&self, session: usize, text: usize) -> impl Future<Output = ()> + Send;

    /// Commits that were waited for so far, each one sync where appends are
    /// durable.
    fn commits(&self) -> usize;

    /// Brings everything that appends left for later to disk.
    fn flush(&self) -> Outcome<()> {
        Ok(())
    }

    /// Everything acknowledged is on disk afterwards.
    fn close(self) -> Outcome<()>;

    /// Messages in the store.
    fn count(&self) -> Outcome<usize> {
        keeps_nothing()
    }

    /// Appends so many messages to each of these new sessions, the fastest way.
    fn fill(&self, _sessions: Range<usize>, _messages: usize) -> Outcome<()> {
        keeps_nothing()
    }

    /// Makes [`alias_of`] lead to each of these sessions.
    fn alias(&self, _sessions: Range<usize>) -> Outcome<()> {
        keeps_nothing()
    }

    fn history(&self, _session: usize) -> Outcome<Vec<Message>> {
        keeps_nothing()
    }

    /// The newest messages, oldest first, on the calling thread.
    fn tail(&self, _session: usize, _count: usize) -> Outcome<Vec<Message>> {
        keeps_nothing()
    }

    /// The same for who waits within the runtime. Reads that take microseconds
    /// are fastest where they are asked for.
    fn tail_async(
        &self,
        session: usize,
        count: usize,
    ) -> impl Future<Output = Outcome<Vec<Message>>> + Send {
        async move { self.tail(session, count) }
    }

    fn keys(&self) -> Outcome<Vec<String>> {
        keeps_nothing()
    }

    /// The key of the session that an alias leads to.
    fn resolve(&self, _alias: &str) -> Outcome<Option<String>> {
        keeps_nothing()
    }

    /// Durably forgets all but the newest messages of each session.
    fn truncate(&self, _sessions: Range<usize>, _keep: usize) -> Outcome<()> {
        keeps_nothing()
    }

    /// Gives the space of what was truncated back to the file system.
    fn reclaim(&self, _sessions: Range<usize>) -> Outcome<()> {
        keeps_nothing()
    }
}

fn keeps_nothing<T>() -> Outcome<T> {
    Err("a bare loop keeps nothing".into())
}
