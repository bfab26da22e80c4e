//! The command line.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Parser, ValueEnum};
use serde::Serialize;

use crate::contender::Kind;

const PRODUCERS: [usize; 5] = [1, 16, 64, 256, 1024];

/// sessionlog beside other embedded stores, on the same disk in the same run.
#[derive(Parser, Clone, Serialize)]
pub(crate) struct Options {
    /// What is measured. Default: all but the soak.
    #[arg(long, value_enum, value_delimiter = ',')]
    pub(crate) workloads: Vec<Name>,
    /// Who takes part. Default: all.
    #[arg(long, value_enum, value_delimiter = ',')]
    pub(crate) contenders: Vec<Kind>,
    /// Producer counts of the append workloads, each one cell.
    #[arg(long, value_delimiter = ',', default_values_t = PRODUCERS)]
    pub(crate) producers: Vec<usize>,
    /// Interleaved rounds.
    #[arg(long, default_value_t = 3)]
    pub(crate) rounds: usize,
    /// Length of a measured window.
    #[arg(long, default_value_t = 3.0)]
    pub(crate) seconds: f64,
    /// What runs before a window counts.
    #[arg(long, default_value_t = 1.0)]
    pub(crate) warm_up: f64,
    /// Sessions of the opened stores (w5).
    #[arg(long, default_value_t = 100_000)]
    pub(crate) sessions: usize,
    /// Length of the soak (w8).
    #[arg(long, default_value_t = 10)]
    pub(crate) minutes: usize,
    /// Where the files go: the disk that is measured. Default: Cargo's
    /// temporary directory.
    #[arg(long)]
    #[serde(skip)]
    pub(crate) dir: Option<PathBuf>,
    /// Writes everything measured to a file.
    #[arg(long)]
    #[serde(skip)]
    pub(crate) json: Option<PathBuf>,
    /// Draws durable appends against producers.
    #[arg(long)]
    #[serde(skip)]
    pub(crate) svg: Option<PathBuf>,
    /// Fails where a bar is missed.
    #[arg(long)]
    #[serde(skip)]
    pub(crate) check: bool,
    /// One short round over little data: shows that it runs, measures nothing.
    #[arg(long)]
    pub(crate) quick: bool,
    /// Leaves the files in place: deleting them makes a next run slow for minutes
    #[arg(long)]
    pub(crate) keep: bool,

    /// Opens one store and reports: what w5 starts as its other process.
    #[arg(long, hide = true)]
    #[serde(skip)]
    pub(crate) open: Option<PathBuf>,
}

/// A workload's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Name {
    /// Durable appends
    W1,
    /// Buffered appends
    W2,
    /// Reads
    W3,
    /// Tails and durable appends together
    W4,
    /// Open, list, resolve
    W5,
    /// Appends while sessions are truncated
    W6,
    /// New sessions
    W7,
    /// Soak
    W8,
}

/// How large the workloads are.
pub(crate) struct Sizes {
    pub(crate) append_sessions: usize,
    pub(crate) history_lengths: Vec<usize>,
    pub(crate) mixed_sessions: usize,
    pub(crate) truncated_sessions: usize,
    pub(crate) new_sessions: usize,
}

impl Options {
    /// What was left open, and what `--quick` makes small.
    pub(crate) fn complete(mut self) -> Self {
        if self.workloads.is_empty() {
            let all = Name::value_variants().iter().copied();
            self.workloads = all.filter(|name| *name != Name::W8).collect();
        }
        if self.contenders.is_empty() {
            self.contenders = Kind::value_variants().to_vec();
        }
        if self.quick {
            self.producers
                .retain(|producers| [1, 64, 1024].contains(producers));
            self.rounds = 1;
            self.seconds = 0.3;
            self.warm_up = 0.1;
            self.sessions = self.sessions.min(500);
            self.minutes = 1;
        }
        self
    }

    pub(crate) fn window(&self) -> Duration {
        Duration::from_secs_f64(self.seconds)
    }

    pub(crate) fn warm_up(&self) -> Duration {
        Duration::from_secs_f64(self.warm_up)
    }

    /// A minute of the soak.
    pub(crate) fn minute(&self) -> Duration {
        Duration::from_secs(if self.quick { 5 } else { 60 })
    }

    pub(crate) fn sizes(&self) -> Sizes {
        if self.quick {
            Sizes {
                append_sessions: 200,
                history_lengths: vec![100, 1000, 10_000],
                mixed_sessions: 100,
                truncated_sessions: 50,
                new_sessions: 500,
            }
        } else {
            Sizes {
                append_sessions: 10_000,
                history_lengths: vec![100, 1000, 100_000],
                mixed_sessions: 1000,
                truncated_sessions: 1000,
                new_sessions: 10_000,
            }
        }
    }
}
