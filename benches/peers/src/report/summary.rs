//! Medians over the rounds, and ratios taken within each.

use serde::Serialize;

use crate::contender::Kind;
use crate::meter::Amplification;
use crate::rounds::Turn;
use crate::support::sample::{Latency, median};
use crate::workloads::Figures;

/// One cell of one workload.
#[derive(Serialize)]
pub(crate) struct CellSummary {
    pub(crate) workload: &'static str,
    pub(crate) cell: String,
    /// Medians, the most operations per second first.
    pub(crate) contenders: Vec<(Kind, Figures)>,
    /// sessionlog's operations per second to those of the round's best peer.
    pub(crate) ops_to_peer: Option<Spread>,
    /// The same to the round's best bare loop.
    pub(crate) ops_to_bare: Option<Spread>,
    /// sessionlog's 99th percentile to that of the round's best peer.
    pub(crate) p99_to_peer: Option<Spread>,
}

/// A ratio's rounds.
#[derive(Serialize)]
pub(crate) struct Spread {
    pub(crate) median: f64,
    pub(crate) lowest: f64,
    pub(crate) highest: f64,
}

impl Spread {
    /// Nothing of no rounds.
    fn of(ratios: &[f64]) -> Option<Self> {
        (!ratios.is_empty()).then(|| Self {
            median: median(ratios.iter().copied()),
            lowest: ratios.iter().copied().fold(f64::INFINITY, f64::min),
            highest: ratios.iter().copied().fold(0.0, f64::max),
        })
    }
}

/// Every cell, in the order of the first round.
pub(crate) fn summarize(turns: &[Turn]) -> Vec<CellSummary> {
    let mut cells: Vec<(&'static str, &str)> = Vec::new();
    for turn in turns {
        if !cells.contains(&(turn.workload, &turn.cell)) {
            cells.push((turn.workload, &turn.cell));
        }
    }
    cells.sort_by_key(|(workload, _)| *workload);
    cells
        .into_iter()
        .map(|(workload, cell)| {
            let of_cell = |turn: &&Turn| turn.workload == workload && turn.cell == cell;
            let turns: Vec<_> = turns.iter().filter(of_cell).collect();
            summarize_cell(workload, cell, &turns)
        })
        .collect()
}

fn summarize_cell(workload: &'static str, cell: &str, turns: &[&Turn]) -> CellSummary {
    let mut kinds: Vec<Kind> = turns.iter().map(|turn| turn.contender).collect();
    kinds.sort_unstable();
    kinds.dedup();
    let mut contenders: Vec<_> = kinds
        .into_iter()
        .map(|kind| (kind, medians(turns, kind)))
        .collect();
    contenders.sort_by(|(_, a), (_, b)| b.ops.total_cmp(&a.ops));
    let ops = |figures: &Figures| figures.ops;
    // Where there is no latency there is nothing to divide by.
    let p99 = |figures: &Figures| figures.latency.p99_ms;
    let has_latency = turns.iter().all(|turn| turn.figures.latency.count > 0);
    CellSummary {
        workload,
        cell: cell.to_owned(),
        contenders,
        ops_to_peer: ratios(turns, Kind::is_peer, ops),
        ops_to_bare: ratios(turns, Kind::is_floor, ops),
        p99_to_peer: has_latency
            .then(|| ratios(turns, Kind::is_peer, p99))
            .flatten(),
    }
}

/// sessionlog to the fastest of some others, round by round.
fn ratios(turns: &[&Turn], others: fn(Kind) -> bool, pick: fn(&Figures) -> f64) -> Option<Spread> {
    let ours = turns
        .iter()
        .filter(|turn| turn.contender == Kind::Sessionlog);
    let ratios: Vec<f64> = ours
        .filter_map(|ours| {
            let best = turns
                .iter()
                .filter(|turn| turn.round == ours.round && others(turn.contender))
                .max_by(|a, b| a.figures.ops.total_cmp(&b.figures.ops))?;
            Some(pick(&ours.figures) / pick(&best.figures))
        })
        .collect();
    Spread::of(&ratios)
}

fn medians(turns: &[&Turn], kind: Kind) -> Figures {
    let figures: Vec<&Figures> = turns
        .iter()
        .filter(|turn| turn.contender == kind)
        .map(|turn| &turn.figures)
        .collect();
    let latencies: Vec<Latency> = figures.iter().map(|figures| figures.latency).collect();
    let names = figures.iter().flat_map(|figures| figures.more.keys());
    Figures {
        ops: median(figures.iter().map(|figures| figures.ops)),
        latency: Latency::median_of(&latencies),
        cpu_micros_per_op: known(&figures, |figures| figures.cpu_micros_per_op),
        ops_per_sync: known(&figures, |figures| figures.ops_per_sync),
        amplification: amplification(&figures),
        more: names
            .map(|name| {
                (
                    *name,
                    known(&figures, |figures| figures.more.get(name).copied()),
                )
            })
            .filter_map(|(name, value)| Some((name, value?)))
            .collect(),
    }
}

fn amplification(figures: &[&Figures]) -> Option<Amplification> {
    let process = known(figures, |figures| Some(figures.amplification?.process))?;
    let device = known(figures, |figures| figures.amplification?.device);
    Some(Amplification { process, device })
}

/// The median of the rounds that know it.
fn known(figures: &[&Figures], pick: impl Fn(&Figures) -> Option<f64>) -> Option<f64> {
    let values: Vec<f64> = figures.iter().filter_map(|figures| pick(figures)).collect();
    (!values.is_empty()).then(|| median(values))
}
