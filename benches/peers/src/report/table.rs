//! The report as text.

use std::fmt;

use super::Report;
use super::summary::{CellSummary, Spread};
use crate::bars::Verdict;
use crate::workloads::Figures;

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let options = &self.options;
        write!(f, "{}", self.machine)?;
        writeln!(
            f,
            "sync         {:.0} us at the start, {:.0} us at the end",
            self.sync.start_micros, self.sync.end_micros
        )?;
        writeln!(
            f,
            "rounds       {} interleaved, windows of {} s after {} s",
            options.rounds, options.seconds, options.warm_up
        )?;
        for (workload, title) in &self.titles {
            writeln!(f, "\n{workload}: {title}")?;
            let cells = self.summary.iter();
            for cell in cells.filter(|cell| cell.workload == *workload) {
                write!(f, "{cell}")?;
            }
        }
        if !self.verdicts.is_empty() {
            writeln!(f, "\nbars")?;
        }
        self.verdicts
            .iter()
            .try_for_each(|verdict| write!(f, "{verdict}"))
    }
}

impl fmt::Display for CellSummary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "\n  {:<20} {:>10} {:>9} {:>9} {:>9} {:>8} {:>7} {:>7} {:>7}",
            self.cell, "ops/s", "p50 ms", "p99 ms", "p99.9 ms", "CPU us", "/sync", "WA", "WA dev"
        )?;
        for (kind, figures) in &self.contenders {
            writeln!(f, "  {:<20} {figures}", kind.name())?;
        }
        for (name, spread) in [
            ("ops/s to best peer", &self.ops_to_peer),
            ("ops/s to best bare loop", &self.ops_to_bare),
            ("p99 to best peer", &self.p99_to_peer),
        ] {
            if let Some(spread) = spread {
                writeln!(f, "    {name:<24} {spread}")?;
            }
        }
        Ok(())
    }
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", rate(self.ops))?;
        let latency = (self.latency.count > 0).then_some(self.latency);
        for value in [
            latency.map(|latency| latency.p50_ms),
            latency.map(|latency| latency.p99_ms),
            latency.map(|latency| latency.p999_ms),
        ] {
            write!(f, " {}", number(value, 9, 3))?;
        }
        write!(f, " {}", number(self.cpu_micros_per_op, 8, 1))?;
        write!(f, " {}", number(self.ops_per_sync, 7, 1))?;
        let process = self.amplification.map(|bytes| bytes.process);
        let device = self.amplification.and_then(|bytes| bytes.device);
        write!(f, " {} {}", number(process, 7, 2), number(device, 7, 2))?;
        for (name, value) in &self.more {
            write!(f, "  {name} {}", short(*value))?;
        }
        Ok(())
    }
}

fn rate(ops: f64) -> String {
    if ops < 100.0 {
        format!("{ops:>10.2}")
    } else {
        format!("{ops:>10.0}")
    }
}

fn number(value: Option<f64>, width: usize, digits: usize) -> String {
    value.map_or_else(
        || format!("{:>width$}", "-"),
        |value| format!("{value:>width$.digits$}"),
    )
}

fn short(value: f64) -> String {
    if value >= 100.0 {
        format!("{value:.0}")
    } else {
        format!("{value:.2}")
    }
}

impl fmt::Display for Spread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:.2} ({:.2}-{:.2})",
            self.median, self.lowest, self.highest
        )
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = if self.met { "met" } else { "MISSED" };
        writeln!(
            f,
            "  {:<3} {:<20} {:<28} {:<14} {:>8.2}  {word}",
            self.workload, self.cell, self.measure, self.limit, self.value
        )
    }
}
