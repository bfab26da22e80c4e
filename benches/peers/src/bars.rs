//! What is promised, in one table.

use serde::Serialize;

use crate::contender::Kind;
use crate::report::Report;
use crate::report::summary::{CellSummary, Spread};

/// Above this a sync is slow, and what it takes decides over the small cells.
const SLOW_SYNC_MICROS: f64 = 200.0;

/// What a bar looks at.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Measure {
    /// Operations per second, as a multiple of the best peer's.
    OpsToPeer,
    /// Operations per second, as a share of the best bare loop's.
    OpsToBare,
    /// The 99th percentile, as a multiple of the best peer's.
    P99ToPeer,
    /// Milliseconds of opening and listing.
    OpenAndList,
    /// Appends per second, as a share of those without compaction.
    OpsToAlone,
    /// Appends per second, as a share of those to old sessions (w1).
    OpsToOld,
}

#[derive(Clone, Copy)]
enum Limit {
    AtLeast(f64),
    AtMost(f64),
}

use Limit::{AtLeast, AtMost};
use Measure::{OpenAndList, OpsToAlone, OpsToBare, OpsToOld, OpsToPeer, P99ToPeer};

type Bar = (&'static str, &'static str, Measure, Limit);

const FAST_SYNC: &[Bar] = &[
    ("w1", "1", OpsToPeer, AtLeast(1.0)),
    ("w1", "16", OpsToPeer, AtLeast(1.3)),
    ("w1", "64", OpsToPeer, AtLeast(1.5)),
    ("w1", "256", OpsToPeer, AtLeast(1.5)),
    ("w1", "1024", OpsToPeer, AtLeast(1.5)),
];

const SLOW_SYNC: &[Bar] = &[
    ("w1", "1", OpsToBare, AtLeast(0.95)),
    ("w1", "16", OpsToBare, AtLeast(0.9)),
    ("w1", "64", OpsToBare, AtLeast(0.9)),
    ("w1", "256", OpsToPeer, AtLeast(1.3)),
    ("w1", "1024", OpsToPeer, AtLeast(1.7)),
];

const ANY: &str = "";

const ANY_SYNC: &[Bar] = &[
    ("w1", ANY, P99ToPeer, AtMost(1.0)),
    ("w2", ANY, OpsToPeer, AtLeast(2.0)),
    ("w4", ANY, OpsToPeer, AtLeast(2.0)),
    ("w5", "100000", OpenAndList, AtMost(60.0)),
    ("w6", ANY, OpsToAlone, AtLeast(0.6)),
    ("w7", "64", OpsToOld, AtLeast(0.5)),
];

/// What a bar came to.
#[derive(Serialize)]
pub(crate) struct Verdict {
    pub(crate) workload: &'static str,
    pub(crate) cell: String,
    pub(crate) measure: &'static str,
    pub(crate) limit: String,
    pub(crate) value: f64,
    pub(crate) met: bool,
}

impl Verdict {
    pub(crate) fn is_missed(&self) -> bool {
        !self.met
    }
}

/// Every bar whose workload was measured.
pub(crate) fn judge(report: &Report) -> Vec<Verdict> {
    let by_sync = if report.sync.micros() > SLOW_SYNC_MICROS {
        SLOW_SYNC
    } else {
        FAST_SYNC
    };
    let mut verdicts = Vec::new();
    for (workload, bar_cell, measure, limit) in by_sync.iter().chain(ANY_SYNC) {
        let cells = report.summary.iter().filter(|cell| {
            cell.workload == *workload && (*bar_cell == ANY || cell.cell == *bar_cell)
        });
        for cell in cells {
            if let Some(value) = measure.of(cell, report) {
                verdicts.push(Verdict {
                    workload,
                    cell: cell.cell.clone(),
                    measure: measure.name(),
                    limit: limit.describe(),
                    value,
                    met: limit.is_met(value),
                });
            }
        }
    }
    verdicts
}

impl Measure {
    fn name(self) -> &'static str {
        match self {
            OpsToPeer => "ops/s to best peer",
            OpsToBare => "ops/s to best bare loop",
            P99ToPeer => "p99 to best peer",
            OpenAndList => "open + list ms",
            OpsToAlone => "ops/s to without compaction",
            OpsToOld => "ops/s to old sessions",
        }
    }

    /// Nothing where who it compares with did not take part.
    fn of(self, cell: &CellSummary, report: &Report) -> Option<f64> {
        let spread = |spread: &Option<Spread>| spread.as_ref().map(|spread| spread.median);
        match self {
            OpsToPeer => spread(&cell.ops_to_peer),
            OpsToBare => spread(&cell.ops_to_bare),
            P99ToPeer => spread(&cell.p99_to_peer),
            OpenAndList => cell.ours(|figures| figures.more.get("open + list ms").copied()),
            OpsToAlone => cell.ours(|figures| figures.more.get("beside / alone").copied()),
            OpsToOld => {
                let old = report
                    .cell("w1", &cell.cell)?
                    .ours(|figures| Some(figures.ops))?;
                cell.ours(|figures| Some(figures.ops / old))
            }
        }
    }
}

impl Limit {
    fn is_met(self, value: f64) -> bool {
        match self {
            AtLeast(limit) => value >= limit,
            AtMost(limit) => value <= limit,
        }
    }

    fn describe(self) -> String {
        match self {
            AtLeast(limit) => format!("at least {limit}"),
            AtMost(limit) => format!("at most {limit}"),
        }
    }
}

impl CellSummary {
    /// Of sessionlog's medians.
    fn ours<T>(&self, pick: impl FnOnce(&crate::workloads::Figures) -> Option<T>) -> Option<T> {
        let (_, figures) = self
            .contenders
            .iter()
            .find(|(kind, _)| *kind == Kind::Sessionlog)?;
        pick(figures)
    }
}
