//! Durable appends against producers, both axes logarithmic, as SVG.

use std::fmt::Write;

use super::Report;
use crate::contender::Kind;

const WIDTH: f64 = 760.0;
const HEIGHT: f64 = 440.0;
const LEFT: f64 = 70.0;
const RIGHT: f64 = 150.0;
const TOP: f64 = 40.0;
const BOTTOM: f64 = 50.0;

/// Of names beside the ends of their lines.
const LABEL_PITCH: f64 = 15.0;

/// Middle greys and colours of middle lightness read on white and on black.
const STYLE: &str = "text{font:12px sans-serif;fill:#808080}\
    .title{font-size:14px}.grid{stroke:#808080;stroke-opacity:.25}\
    polyline{fill:none;stroke-width:2}.floor{stroke-dasharray:5 4}.ours{stroke-width:4}";

fn colour(kind: Kind) -> &'static str {
    match kind {
        Kind::Sessionlog => "#e0562b",
        Kind::Sqlite => "#3d8bd4",
        Kind::Redb => "#b45ad0",
        Kind::Fjall => "#2fa36b",
        Kind::RaftEngine => "#c9971c",
        #[cfg(feature = "rocksdb")]
        Kind::Rocksdb => "#8a6d3b",
        Kind::Files => "#2aa5b0",
        Kind::BareCommitter | Kind::BareLeader => "#808080",
    }
}

fn class(kind: Kind) -> &'static str {
    if kind == Kind::Sessionlog {
        "ours"
    } else if kind.is_floor() {
        "floor"
    } else {
        "peer"
    }
}

/// One contender's medians: producers and appends per second.
struct Line {
    kind: Kind,
    points: Vec<(f64, f64)>,
}

fn lines(report: &Report) -> Vec<Line> {
    let mut lines: Vec<Line> = Vec::new();
    for cell in report.summary.iter().filter(|cell| cell.workload == "w1") {
        let Ok(producers) = cell.cell.parse::<u32>() else {
            continue;
        };
        for (kind, figures) in &cell.contenders {
            let point = (f64::from(producers), figures.ops);
            match lines.iter_mut().find(|line| line.kind == *kind) {
                Some(line) => line.points.push(point),
                None => lines.push(Line {
                    kind: *kind,
                    points: vec![point],
                }),
            }
        }
    }
    lines
}

/// Where values lie on the plot.
struct Axes {
    producers: (f64, f64),
    ops: (f64, f64),
}

impl Axes {
    fn around(lines: &[Line]) -> Self {
        let points = || lines.iter().flat_map(|line| &line.points);
        let lowest = points().map(|(_, ops)| *ops).fold(1e9, f64::min);
        let highest = points().map(|(_, ops)| *ops).fold(1.0, f64::max);
        let most = points()
            .map(|(producers, _)| *producers)
            .fold(2.0, f64::max);
        Self {
            producers: (1.0, most),
            ops: (
                10_f64.powf(lowest.max(1.0).log10().floor()),
                10_f64.powf(highest.log10().ceil()),
            ),
        }
    }

    fn x(&self, producers: f64) -> f64 {
        LEFT + share(producers, self.producers) * (WIDTH - LEFT - RIGHT)
    }

    fn y(&self, ops: f64) -> f64 {
        HEIGHT - BOTTOM - share(ops, self.ops) * (HEIGHT - TOP - BOTTOM)
    }
}

/// How far along a logarithmic axis.
fn share(value: f64, (low, high): (f64, f64)) -> f64 {
    (value / low).ln() / (high / low).ln()
}

/// An empty plot where durable appends were not measured.
pub(crate) fn draw(report: &Report) -> String {
    let lines = lines(report);
    let axes = Axes::around(&lines);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\">\
         <style>{STYLE}</style>"
    );
    // Writing into a string cannot fail.
    grid(&mut svg, &axes, &lines).ok();
    curves(&mut svg, &axes, &lines).ok();
    svg.push_str("</svg>\n");
    svg
}

fn grid(svg: &mut String, axes: &Axes, lines: &[Line]) -> std::fmt::Result {
    write!(
        svg,
        "<text class=\"title\" x=\"{LEFT}\" y=\"20\">Durable appends per second</text>\
         <text x=\"{}\" y=\"{}\" text-anchor=\"middle\">waiting producers</text>",
        f64::midpoint(LEFT, WIDTH - RIGHT),
        HEIGHT - 12.0
    )?;
    let mut ops = axes.ops.0;
    while ops <= axes.ops.1 {
        let y = axes.y(ops);
        write!(
            svg,
            "<path class=\"grid\" d=\"M{LEFT} {y:.1}H{}\"/>\
             <text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
            WIDTH - RIGHT,
            LEFT - 8.0,
            y + 4.0,
            thousands(ops)
        )?;
        ops *= 10.0;
    }
    let longest = lines.iter().max_by_key(|line| line.points.len());
    for (producers, _) in longest.map(|line| &line.points).into_iter().flatten() {
        let x = axes.x(*producers);
        write!(
            svg,
            "<path class=\"grid\" d=\"M{x:.1} {TOP}V{}\"/>\
             <text x=\"{x:.1}\" y=\"{}\" text-anchor=\"middle\">{producers}</text>",
            HEIGHT - BOTTOM,
            HEIGHT - BOTTOM + 18.0
        )?;
    }
    Ok(())
}

/// Lines, and their names from the top down, none on another.
fn curves(svg: &mut String, axes: &Axes, lines: &[Line]) -> std::fmt::Result {
    let mut ends = Vec::new();
    for line in lines {
        let (kind, colour) = (line.kind, colour(line.kind));
        write!(
            svg,
            "<polyline class=\"{}\" stroke=\"{colour}\" points=\"",
            class(kind)
        )?;
        for (producers, ops) in &line.points {
            write!(svg, "{:.1},{:.1} ", axes.x(*producers), axes.y(*ops))?;
        }
        svg.push_str("\"/>");
        if let Some((_, ops)) = line.points.last() {
            ends.push((axes.y(*ops), kind));
        }
    }
    ends.sort_by(|(a, _), (b, _)| a.total_cmp(b));
    let mut free = 0.0_f64;
    for (y, kind) in ends {
        let y = (y + 4.0).max(free);
        free = y + LABEL_PITCH;
        write!(
            svg,
            "<text x=\"{}\" y=\"{y:.1}\" style=\"fill:{}\">{}</text>",
            WIDTH - RIGHT + 8.0,
            colour(kind),
            kind.name()
        )?;
    }
    Ok(())
}

fn thousands(ops: f64) -> String {
    if ops >= 1e6 {
        format!("{:.0} M", ops / 1e6)
    } else if ops >= 1e3 {
        format!("{:.0} k", ops / 1e3)
    } else {
        format!("{ops:.0}")
    }
}
