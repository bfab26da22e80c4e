//! W7: the first messages of sessions that do not exist.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use super::drive::Window;
use super::{Figures, Player, Stage, Workload, close, verify};
use crate::contender::Contender;
use crate::meter::Written;
use crate::support::bare::Until;
use crate::support::sample::float;
use crate::support::{LINE_BYTES, Outcome};

pub(crate) struct Fresh {
    pub(crate) sessions: usize,
}

const PRODUCERS: usize = 64;

/// Appends to sessions that do, before anything counts: threads and files of
/// the store itself are not what is measured.
const WARM_UP_SESSIONS: usize = 64;

impl Workload for Fresh {
    fn name(&self) -> &'static str {
        "w7"
    }

    fn title(&self) -> String {
        format!("first durable appends to {} new sessions", self.sessions)
    }

    fn cells(&self) -> Vec<String> {
        vec![PRODUCERS.to_string()]
    }

    fn admits_floors(&self) -> bool {
        false
    }

    fn prepare<C: Contender>(&self, stage: Stage) -> Outcome<Box<dyn Player>> {
        let all = self.sessions + WARM_UP_SESSIONS;
        let contender: Arc<C> = stage.open(Until::Synced, all)?;
        contender.fill(self.sessions..all, 1)?;
        Ok(Box::new(Turns {
            sessions: self.sessions,
            stage,
            contender,
        }))
    }
}

struct Turns<C> {
    stage: Stage,
    contender: Arc<C>,
    sessions: usize,
}

impl<C: Contender> Turns<C> {
    /// Every new session's first append, by producers that take the next one.
    fn append_all(&self) -> Outcome<Vec<u64>> {
        let next = Arc::new(AtomicUsize::new(0));
        let producers: Vec<_> = (0..PRODUCERS)
            .map(|_| {
                let producer = produce(
                    Arc::clone(&self.contender),
                    Arc::clone(&next),
                    self.sessions,
                );
                self.stage.runtime.spawn(producer)
            })
            .collect();
        let mut nanos = Vec::with_capacity(self.sessions);
        for producer in producers {
            nanos.append(&mut self.stage.runtime.block_on(producer)?);
        }
        Ok(nanos)
    }
}

async fn produce<C: Contender>(
    contender: Arc<C>,
    next: Arc<AtomicUsize>,
    sessions: usize,
) -> Vec<u64> {
    let mut nanos = Vec::new();
    loop {
        let session = next.fetch_add(1, Ordering::Relaxed);
        if session >= sessions {
            return nanos;
        }
        let started = Instant::now();
        contender.append(session, 0).await;
        nanos.push(started.elapsed().as_nanos() as u64);
    }
}

impl<C: Contender> Player for Turns<C> {
    fn measure(&mut self, _cell: usize) -> Outcome<Figures> {
        let written = Written::now(&self.stage.dir)?;
        let commits = self.contender.commits();
        let (nanos, window) = Window::over(|| self.append_all())?;
        let commits = self.contender.commits() - commits;
        let ((), flush) = Window::over(|| self.contender.flush())?;
        let payload = self.sessions * LINE_BYTES;
        let amplification = Written::now(&self.stage.dir)?.amplification(written, payload);
        let mut figures = window.figures(nanos);
        figures.ops_per_sync = (commits > 0).then(|| float(self.sessions) / float(commits));
        figures.amplification = Some(amplification);
        let flush_ms = flush.length().as_secs_f64() * 1e3;
        figures.more.insert("flush ms", flush_ms);
        Ok(figures)
    }

    fn finish(self: Box<Self>) -> Outcome<()> {
        verify(&*self.contender, self.sessions + WARM_UP_SESSIONS)?;
        close(self.contender)
    }
}
