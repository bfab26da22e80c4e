//! W6: appends while many sessions are cut short and their space is given back.

use std::sync::Arc;
use std::time::Duration;

use super::drive::{Mix, Producers, Window};
use super::{Figures, Player, Stage, Workload, close, verify};
use crate::contender::Contender;
use crate::meter::disk_mb;
use crate::support::Outcome;
use crate::support::bare::Until;

pub(crate) struct Truncations {
    /// As many again are appended to, so that it is known how many messages of
    /// the truncated ones are left.
    pub(crate) sessions: usize,
    pub(crate) messages: usize,
    pub(crate) keep: usize,
    pub(crate) warm_up: Duration,
    pub(crate) window: Duration,
}

const PRODUCERS: usize = 64;

/// Files that nobody needs any more are deleted in the background.
const SETTLING: Duration = Duration::from_millis(500);

impl Workload for Truncations {
    fn name(&self) -> &'static str {
        "w6"
    }

    fn title(&self) -> String {
        format!(
            "durable appends while {} sessions of {} are truncated to {} and their space reclaimed",
            self.sessions, self.messages, self.keep
        )
    }

    fn cells(&self) -> Vec<String> {
        vec![PRODUCERS.to_string()]
    }

    fn admits_floors(&self) -> bool {
        false
    }

    fn prepare<C: Contender>(&self, stage: Stage) -> Outcome<Box<dyn Player>> {
        let all = self.sessions * 2;
        let contender: Arc<C> = stage.open(Until::Synced, all)?;
        contender.fill(0..self.sessions, self.messages)?;
        contender.fill(self.sessions..all, 1)?;
        Ok(Box::new(Turns {
            contender,
            sessions: self.sessions,
            keep: self.keep,
            warm_up: self.warm_up,
            window: self.window,
            expected: self.sessions * (self.keep + 1),
            stage,
        }))
    }
}

struct Turns<C> {
    stage: Stage,
    contender: Arc<C>,
    sessions: usize,
    keep: usize,
    warm_up: Duration,
    window: Duration,
    expected: usize,
}

impl<C: Contender> Player for Turns<C> {
    fn measure(&mut self, _cell: usize) -> Outcome<Figures> {
        let runtime = &self.stage.runtime;
        let mix = Mix {
            contender: Arc::clone(&self.contender),
            sessions: self.sessions..self.sessions * 2,
            tails_percent: 0,
            tail: 0,
            texts: self.stage.texts.count(),
        };
        let disk_before = disk_mb(&self.stage.dir)?;
        let producers = Producers::start(runtime, PRODUCERS, self.stage.round, mix);
        std::thread::sleep(self.warm_up);
        let alone = Window::asleep(self.window)?;
        let (truncation, beside) = Window::over(|| {
            let sessions = 0..self.sessions;
            let ((), truncation) =
                Window::over(|| self.contender.truncate(sessions.clone(), self.keep))?;
            self.contender.reclaim(sessions)?;
            Ok(truncation.length())
        })?;
        let record = producers.stop(runtime)?;
        self.expected += record.appends();
        self.contender.flush()?;
        std::thread::sleep(SETTLING);
        let alone = record.within(&alone, None);
        let mut figures = record.within(&beside, None);
        let ratio = figures.ops / alone.ops;
        figures.more.extend([
            ("alone ops/s", alone.ops),
            ("alone p99 ms", alone.latency.p99_ms),
            ("beside / alone", ratio),
            ("truncate s", truncation.as_secs_f64()),
            ("total s", beside.length().as_secs_f64()),
            ("disk MB before", disk_before),
            ("disk MB after", disk_mb(&self.stage.dir)?),
        ]);
        Ok(figures)
    }

    fn finish(self: Box<Self>) -> Outcome<()> {
        verify(&*self.contender, self.expected)?;
        close(self.contender)
    }
}
