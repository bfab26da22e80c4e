//! W3: conversations read as typed messages, one reader, warm.

use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::drive::Window;
use super::{Figures, Player, Stage, Workload, close};
use crate::contender::Contender;
use crate::support::Outcome;
use crate::support::bare::Until;

pub(crate) struct Reads {
    /// Messages of each session, the longest last.
    pub(crate) lengths: Vec<usize>,
    pub(crate) window: Duration,
}

/// What one cell reads.
#[derive(Clone, Copy)]
enum What {
    History { session: usize, length: usize },
    Tail { session: usize },
}

const TAIL: usize = 50;

/// At least so many, whatever they take.
const LEAST_READS: usize = 3;

impl Reads {
    fn reads(&self) -> Vec<What> {
        let histories = self.lengths.iter().enumerate();
        let histories = histories.map(|(session, length)| What::History {
            session,
            length: *length,
        });
        let longest = self.lengths.len() - 1;
        histories.chain([What::Tail { session: longest }]).collect()
    }
}

impl Workload for Reads {
    fn name(&self) -> &'static str {
        "w3"
    }

    fn title(&self) -> String {
        "typed reads, one at a time".into()
    }

    fn cells(&self) -> Vec<String> {
        let longest = self.lengths.last().copied().unwrap_or_default();
        self.reads()
            .iter()
            .map(|what| match what {
                What::History { length, .. } => format!("all {length}"),
                What::Tail { .. } => format!("last {TAIL} of {longest}"),
            })
            .collect()
    }

    fn admits_floors(&self) -> bool {
        false
    }

    fn prepare<C: Contender>(&self, stage: Stage) -> Outcome<Box<dyn Player>> {
        let contender: Arc<C> = stage.open(Until::Synced, self.lengths.len())?;
        for (session, length) in self.lengths.iter().enumerate() {
            contender.fill(session..session + 1, *length)?;
        }
        Ok(Box::new(Turns {
            contender,
            reads: self.reads(),
            window: self.window,
        }))
    }
}

struct Turns<C> {
    contender: Arc<C>,
    reads: Vec<What>,
    window: Duration,
}

impl<C: Contender> Turns<C> {
    /// Reads for as long, and says what each read took.
    fn read(&self, what: What, length: Duration) -> Outcome<Vec<u64>> {
        let mut nanos = Vec::new();
        let until = Instant::now() + length;
        while nanos.len() < LEAST_READS || Instant::now() < until {
            let started = Instant::now();
            let (messages, expected) = match what {
                What::History { session, length } => (self.contender.history(session)?, length),
                What::Tail { session } => (self.contender.tail(session, TAIL)?, TAIL),
            };
            nanos.push(started.elapsed().as_nanos() as u64);
            if black_box(messages).len() != expected {
                return Err(format!("a read of {expected} messages came back short").into());
            }
        }
        Ok(nanos)
    }
}

impl<C: Contender> Player for Turns<C> {
    fn measure(&mut self, cell: usize) -> Outcome<Figures> {
        let what = self.reads[cell];
        self.read(what, self.window / 4)?;
        let (nanos, window) = Window::over(|| self.read(what, self.window))?;
        Ok(window.figures(nanos))
    }

    fn finish(self: Box<Self>) -> Outcome<()> {
        close(self.contender)
    }
}
