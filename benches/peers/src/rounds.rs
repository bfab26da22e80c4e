//! Contenders take turns: every round, each at every cell, the order rotated.

use std::sync::Arc;

use serde::Serialize;
use tokio::runtime::Runtime;

use crate::contender::{Contender, Kind, Texts};
use crate::support::Outcome;
use crate::support::scratch::Scratch;
use crate::workloads::{Figures, Player, Stage, Task, Workload, with};

/// What a run consists of.
pub(crate) struct Rounds<'a> {
    pub(crate) contenders: &'a [Kind],
    pub(crate) count: usize,
    pub(crate) scratch: &'a Scratch,
    pub(crate) runtime: Arc<Runtime>,
    pub(crate) texts: Arc<Texts>,
}

/// One round of one workload.
pub(crate) struct Played {
    pub(crate) workload: &'static str,
    pub(crate) title: String,
    pub(crate) turns: Vec<Turn>,
}

/// One contender's turn at one cell in one round.
#[derive(Serialize)]
pub(crate) struct Turn {
    pub(crate) workload: &'static str,
    pub(crate) cell: String,
    pub(crate) round: usize,
    pub(crate) contender: Kind,
    #[serde(flatten)]
    pub(crate) figures: Figures,
}

struct Prepare<'a, W> {
    workload: &'a W,
    stage: Stage,
}

impl<W: Workload> Task for Prepare<'_, W> {
    type Output = Box<dyn Player>;

    fn run<C: Contender>(self) -> Outcome<Box<dyn Player>> {
        self.workload.prepare::<C>(self.stage)
    }
}

impl Rounds<'_> {
    /// One round of one workload. All contenders are open meanwhile, and flushed
    /// whenever it is another's turn: what is compared was measured seconds
    /// apart.
    pub(crate) fn play(&self, workload: &impl Workload, round: usize) -> Outcome<Played> {
        let order = self.order(workload, round);
        let mut players = order
            .iter()
            .map(|kind| Ok((*kind, self.prepare(workload, *kind, round)?)))
            .collect::<Outcome<Vec<_>>>()?;
        rustix::fs::sync();
        let mut turns = Vec::new();
        for (number, cell) in workload.cells().into_iter().enumerate() {
            for (kind, player) in &mut players {
                eprintln!(
                    "round {}, {} {cell}: {}",
                    round + 1,
                    workload.name(),
                    kind.name()
                );
                turns.push(Turn {
                    workload: workload.name(),
                    cell: cell.clone(),
                    round,
                    contender: *kind,
                    figures: player.measure(number)?,
                });
            }
            players.rotate_left(1);
        }
        for (kind, player) in players {
            player
                .finish()
                .map_err(|error| format!("{}: {error}", kind.name()))?;
        }
        Ok(Played {
            workload: workload.name(),
            title: workload.title(),
            turns,
        })
    }

    fn order(&self, workload: &impl Workload, round: usize) -> Vec<Kind> {
        let mut order: Vec<_> = self
            .contenders
            .iter()
            .copied()
            .filter(|kind| workload.admits_floors() || !kind.is_floor())
            .collect();
        if !order.is_empty() {
            let first = round % order.len();
            order.rotate_left(first);
        }
        order
    }

    fn prepare(
        &self,
        workload: &impl Workload,
        kind: Kind,
        round: usize,
    ) -> Outcome<Box<dyn Player>> {
        let is_fresh = workload.wants_fresh_directory();
        let stage = self.stage(kind, workload.name(), round, is_fresh)?;
        with(kind, Prepare { workload, stage })
            .map_err(|error| format!("{}: {error}", kind.name()).into())
    }

    /// A contender's directory, new in every round or only in the first.
    pub(crate) fn stage(
        &self,
        kind: Kind,
        workload: &str,
        round: usize,
        is_fresh: bool,
    ) -> Outcome<Stage> {
        let made_in = if is_fresh { round } else { 0 };
        let name = format!("{workload}-{}-{made_in}", kind.name());
        let dir = if made_in == round {
            self.scratch.fresh(&name)?
        } else {
            self.scratch.root().join(name)
        };
        Ok(Stage {
            kind,
            dir,
            runtime: Arc::clone(&self.runtime),
            texts: Arc::clone(&self.texts),
            round,
        })
    }
}
