//! W1 and W2: appends by waiting producers, durable and buffered.

use std::sync::Arc;
use std::time::Duration;

use super::{Figures, Player, Stage, Workload, close, verify};
use crate::contender::Contender;
use crate::meter::Written;
use crate::support::bare::Until;
use crate::support::load::{Appender, Load, run};
use crate::support::sample::float;
use crate::support::{LINE_BYTES, Outcome};

pub(crate) struct Appends {
    pub(crate) until: Until,
    pub(crate) producers: Vec<usize>,
    pub(crate) sessions: usize,
    pub(crate) warm_up: Duration,
    pub(crate) window: Duration,
}

impl Workload for Appends {
    fn name(&self) -> &'static str {
        match self.until {
            Until::Synced => "w1",
            Until::Written => "w2",
        }
    }

    fn title(&self) -> String {
        let kind = match self.until {
            Until::Synced => "durable",
            Until::Written => "buffered",
        };
        format!("{kind} appends to {} sessions", self.sessions)
    }

    fn cells(&self) -> Vec<String> {
        self.producers.iter().map(usize::to_string).collect()
    }

    fn admits_floors(&self) -> bool {
        true
    }

    fn prepare<C: Contender>(&self, stage: Stage) -> Outcome<Box<dyn Player>> {
        let contender: Arc<C> = stage.open(self.until, self.sessions)?;
        if !stage.kind.is_floor() {
            contender.fill(0..self.sessions, 1)?;
        }
        let loads = self.producers.iter().map(|producers| Load {
            producers: *producers,
            sessions: self.sessions,
            texts: stage.texts.count(),
            warm_up: self.warm_up,
            window: self.window,
            seed: stage.round as u64,
        });
        Ok(Box::new(Turns {
            loads: loads.collect(),
            expected: self.sessions,
            stage,
            contender,
        }))
    }
}

struct Turns<C> {
    stage: Stage,
    contender: Arc<C>,
    loads: Vec<Load>,
    expected: usize,
}

/// A contender as the load sees it.
pub(super) struct Appending<C>(pub(super) Arc<C>);

impl<C: Contender> Appender for Appending<C> {
    async fn append(&self, session: usize, text: usize) {
        self.0.append(session, text).await;
    }
}

impl<C: Contender> Player for Turns<C> {
    fn measure(&mut self, cell: usize) -> Outcome<Figures> {
        let appending = Arc::new(Appending(Arc::clone(&self.contender)));
        let written = Written::now(&self.stage.dir)?;
        let commits = self.contender.commits();
        let measured = run(&self.stage.runtime, &appending, self.loads[cell])?;
        let commits = self.contender.commits() - commits;
        // Also what a window left for later belongs to it, and must not run
        // into the next contender's.
        self.contender.flush()?;
        let payload = measured.acknowledged * LINE_BYTES;
        let amplification = Written::now(&self.stage.dir)?.amplification(written, payload);
        self.expected += measured.acknowledged;
        Ok(Figures {
            ops: measured.ops,
            latency: measured.latency,
            cpu_micros_per_op: Some(measured.cpu_per_million),
            ops_per_sync: (commits > 0).then(|| float(measured.acknowledged) / float(commits)),
            amplification: Some(amplification),
            ..Figures::default()
        })
    }

    fn finish(self: Box<Self>) -> Outcome<()> {
        if !self.stage.kind.is_floor() {
            verify(&*self.contender, self.expected)?;
        }
        close(self.contender)
    }
}
