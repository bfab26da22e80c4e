//! W4: mostly reading the end of a conversation, now and then adding to it.

use std::sync::Arc;
use std::time::Duration;

use super::drive::{Mix, Producers, Verb, Window};
use super::{Figures, Player, Stage, Workload, close, verify};
use crate::contender::Contender;
use crate::support::Outcome;
use crate::support::bare::Until;

pub(crate) struct Mixed {
    pub(crate) sessions: usize,
    pub(crate) messages: usize,
    pub(crate) warm_up: Duration,
    pub(crate) window: Duration,
}

const TASKS: usize = 256;
const TAIL: usize = 50;
const TAILS_PERCENT: usize = 90;

impl Workload for Mixed {
    fn name(&self) -> &'static str {
        "w4"
    }

    fn title(&self) -> String {
        format!(
            "{TAILS_PERCENT} % tails of {TAIL}, the rest durable appends, {} sessions of {}",
            self.sessions, self.messages
        )
    }

    fn cells(&self) -> Vec<String> {
        vec![TASKS.to_string()]
    }

    fn admits_floors(&self) -> bool {
        false
    }

    fn prepare<C: Contender>(&self, stage: Stage) -> Outcome<Box<dyn Player>> {
        let contender: Arc<C> = stage.open(Until::Synced, self.sessions)?;
        contender.fill(0..self.sessions, self.messages)?;
        Ok(Box::new(Turns {
            expected: self.sessions * self.messages,
            sessions: self.sessions,
            warm_up: self.warm_up,
            window: self.window,
            stage,
            contender,
        }))
    }
}

struct Turns<C> {
    stage: Stage,
    contender: Arc<C>,
    sessions: usize,
    warm_up: Duration,
    window: Duration,
    expected: usize,
}

impl<C: Contender> Player for Turns<C> {
    fn measure(&mut self, _cell: usize) -> Outcome<Figures> {
        let mix = Mix {
            contender: Arc::clone(&self.contender),
            sessions: 0..self.sessions,
            tails_percent: TAILS_PERCENT,
            tail: TAIL,
            texts: self.stage.texts.count(),
        };
        let producers = Producers::start(&self.stage.runtime, TASKS, self.stage.round, mix);
        std::thread::sleep(self.warm_up);
        let window = Window::asleep(self.window)?;
        let record = producers.stop(&self.stage.runtime)?;
        self.expected += record.appends();
        let mut figures = record.within(&window, None);
        for (verb, p50, p99) in [
            (Verb::Append, "append p50 ms", "append p99 ms"),
            (Verb::Tail, "tail p50 ms", "tail p99 ms"),
        ] {
            let latency = record.within(&window, Some(verb)).latency;
            figures.more.insert(p50, latency.p50_ms);
            figures.more.insert(p99, latency.p99_ms);
        }
        Ok(figures)
    }

    fn finish(self: Box<Self>) -> Outcome<()> {
        verify(&*self.contender, self.expected)?;
        close(self.contender)
    }
}
