//! Samples on a terminal.

use std::collections::{HashMap, VecDeque};
use std::path::Path;
use std::time::Duration;

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Style, Stylize};
use ratatui::text::Line;
use ratatui::widgets::{Block, Row, Sparkline, Table};

use super::sample::{Group, Sample, Value};
use crate::{output, safe, times};

/// How many samples are remembered.
const REMEMBERED: usize = 512;

/// The last sample, and how its rates went.
pub(super) struct Screen {
    title: String,
    sample: Sample,
    /// Rates, newest last, by group and figure.
    rates: HashMap<(&'static str, &'static str), VecDeque<u64>>,
}

impl Screen {
    pub(super) fn of(dir: &Path) -> Self {
        Self {
            title: safe::line(&dir.to_string_lossy()).into_owned(),
            sample: Sample::default(),
            rates: HashMap::new(),
        }
    }

    /// Shows this from now on.
    pub(super) fn take(&mut self, sample: Sample) {
        for group in &sample.groups {
            for figure in &group.figures {
                let Value::PerSecond(rate) = figure.value else {
                    continue;
                };
                let rates = self.rates.entry((group.name, figure.name)).or_default();
                rates.push_back(tenths(rate));
                while rates.len() > REMEMBERED {
                    rates.pop_front();
                }
            }
        }
        self.sample = sample;
    }

    pub(super) fn draw(&self, frame: &mut Frame<'_>, interval: Duration) {
        let most = self.sample.groups.iter().map(|group| group.figures.len());
        let most = u16::try_from(most.max().unwrap_or(0)).unwrap_or(u16::MAX);
        let rows = [
            Constraint::Length(1),
            Constraint::Length(most.saturating_add(2)),
            Constraint::Length(if self.rates.is_empty() { 0 } else { 5 }),
            Constraint::Min(3),
        ];
        let [head, groups, rates, recent] = Layout::vertical(rows).areas(frame.area());
        let keys = format!(
            "  every {:.1} s, + - change that, q ends",
            interval.as_secs_f64()
        );
        let head_line = Line::from(vec![self.title.as_str().bold(), keys.dim()]);
        frame.render_widget(head_line, head);
        self.draw_groups(frame, groups);
        self.draw_rates(frame, rates);
        self.draw_recent(frame, recent);
    }

    fn draw_groups(&self, frame: &mut Frame<'_>, area: Rect) {
        let columns = vec![Constraint::Fill(1); self.sample.groups.len()];
        let areas = Layout::horizontal(columns).split(area);
        for (group, area) in self.sample.groups.iter().zip(areas.iter()) {
            frame.render_widget(table_of(group), *area);
        }
    }

    fn draw_rates(&self, frame: &mut Frame<'_>, area: Rect) {
        let figures = self.sample.groups.iter().flat_map(|group| {
            let figures = group.figures.iter();
            figures.map(move |figure| (group.name, figure))
        });
        let drawn: Vec<_> = figures
            .filter_map(|(group, figure)| {
                let rates = self.rates.get(&(group, figure.name))?;
                Some((figure.label, rates))
            })
            .collect();
        let columns = vec![Constraint::Fill(1); drawn.len()];
        let areas = Layout::horizontal(columns).split(area);
        for ((label, rates), area) in drawn.into_iter().zip(areas.iter()) {
            let fits = usize::from(area.width.saturating_sub(2));
            let newest = rates.len().saturating_sub(fits);
            let line = Sparkline::default()
                .block(Block::bordered().title(label))
                .data(rates.iter().skip(newest).copied().collect::<Vec<_>>());
            frame.render_widget(line, *area);
        }
    }

    fn draw_recent(&self, frame: &mut Frame<'_>, area: Rect) {
        // What the columns of fixed width and the frame leave, in the proportion below.
        let wide = usize::from(area.width.saturating_sub(33)) * 2 / 5;
        let rows = self.sample.recent.iter().map(|recent| {
            Row::new([
                times::shown(&recent.updated_at),
                safe::short_name(&recent.session, wide.max(8)),
                output::bytes(recent.bytes),
                safe::short(&recent.title, 200),
            ])
        });
        let widths = [
            Constraint::Length(19),
            Constraint::Fill(2),
            Constraint::Length(9),
            Constraint::Fill(3),
        ];
        let table = Table::new(rows, widths).block(Block::bordered().title("changed last"));
        frame.render_widget(table, area);
    }
}

#[expect(clippy::cast_sign_loss, reason = "no rate is below 0")]
fn tenths(rate: f64) -> u64 {
    (rate * 10.0) as u64
}

fn table_of(group: &Group) -> Table<'static> {
    let rows = group.figures.iter().map(|figure| {
        let label = figure.label.to_owned();
        Row::new([
            Line::from(label).style(Style::new().dim()),
            Line::from(figure.value.text()),
        ])
    });
    let widths = [Constraint::Length(20), Constraint::Fill(1)];
    Table::new(rows.collect::<Vec<_>>(), widths).block(Block::bordered().title(group.title))
}
