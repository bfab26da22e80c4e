//! What a run says at its end.

pub(crate) mod plot;
pub(crate) mod summary;
mod table;

use std::collections::BTreeMap;

use serde::Serialize;

use crate::bars::Verdict;
use crate::options::Options;
use crate::rounds::{Played, Turn};
use crate::support::Outcome;
use crate::support::machine::Machine;
use summary::{CellSummary, summarize};

/// Median microseconds of a small write and sync on the measured disk.
#[derive(Serialize)]
pub(crate) struct SyncTime {
    pub(crate) start_micros: f64,
    pub(crate) end_micros: f64,
}

impl SyncTime {
    /// The one that bars go by: the faster, since noise only adds.
    pub(crate) fn micros(&self) -> f64 {
        self.start_micros.min(self.end_micros)
    }
}

#[derive(Serialize)]
pub(crate) struct Report {
    pub(crate) machine: Machine,
    pub(crate) options: Options,
    pub(crate) sync: SyncTime,
    /// Of every workload, in their order.
    pub(crate) titles: BTreeMap<&'static str, String>,
    pub(crate) summary: Vec<CellSummary>,
    pub(crate) verdicts: Vec<Verdict>,
    pub(crate) turns: Vec<Turn>,
}

impl Report {
    pub(crate) fn of(
        machine: Machine,
        options: Options,
        sync: SyncTime,
        program: Vec<Played>,
    ) -> Self {
        let mut titles = BTreeMap::new();
        let mut turns = Vec::new();
        for mut played in program {
            titles.insert(played.workload, played.title);
            turns.append(&mut played.turns);
        }
        Self {
            machine,
            options,
            sync,
            titles,
            summary: summarize(&turns),
            verdicts: Vec::new(),
            turns,
        }
    }

    pub(crate) fn cell(&self, workload: &str, cell: &str) -> Option<&CellSummary> {
        self.summary
            .iter()
            .find(|summary| summary.workload == workload && summary.cell == cell)
    }

    /// Writes the files that were asked for.
    pub(crate) fn save(&self, options: &Options) -> Outcome<()> {
        if let Some(path) = &options.json {
            std::fs::write(path, serde_json::to_string_pretty(self)?)?;
        }
        if let Some(path) = &options.svg {
            std::fs::write(path, plot::draw(self))?;
        }
        Ok(())
    }
}
