//! Samples on a terminal.

use std::collections::{HashMap, VecDeque};
use std::path::Path;
use std::time::Duration;

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::Stylize;
use ratatui::text::Line;
use ratatui::widgets::{Block, Paragraph, Row, Sparkline, Table};

use super::sample::{Figure, Group, Sample, Value};
use crate::{output, safe, times};

/// Number of samples that are remembered.
const REMEMBERED: usize = 512;

/// The height of the panels of rates, and the least height left to sessions, lines.
const RATES: u16 = 5;
const LEAST_RECENT: u16 = 7;

/// The number of columns from which on dates, sizes and rates are shown.
const WIDE: u16 = 72;

/// The last sample, and the history of its rates.
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

    /// Shows this sample from now on.
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
        let area = frame.area();
        let keys = format!(
            "every {:.1} s, + - change that, q ends",
            interval.as_secs_f64()
        );
        let sizes: Vec<_> = self.sample.groups.iter().map(size_of).collect();
        let left = area.height.saturating_sub(1 + LEAST_RECENT);
        let packed = packed(&sizes, (area.width, left));
        let high: u16 = packed.iter().map(|row| row.height).sum();
        let has_rates = !self.rates.is_empty() && high + RATES <= left && area.width >= WIDE;
        let rows = [
            Constraint::Length(1),
            Constraint::Length(high),
            Constraint::Length(if has_rates { RATES } else { 0 }),
            Constraint::Min(0),
        ];
        let [head, groups, rates, recent] = Layout::vertical(rows).areas(area);
        self.draw_head(frame, head, &keys);
        self.draw_groups(frame, groups, &packed);
        if has_rates {
            self.draw_rates(frame, rates);
        }
        self.draw_recent(frame, recent);
    }

    /// Shows that nothing was read yet.
    pub(super) fn draw_loading(&self, frame: &mut Frame<'_>) {
        self.draw_head(frame, frame.area(), "reading the store …");
    }

    fn draw_head(&self, frame: &mut Frame<'_>, area: Rect, says: &str) {
        // The message is whole; the directory gets the rest.
        let wide = usize::from(area.width).saturating_sub(says.chars().count() + 2);
        let line = if wide < 8 {
            Line::from(says.to_owned().dim())
        } else {
            let title = safe::short_name(&self.title, wide);
            Line::from(vec![title.bold(), "  ".into(), says.to_owned().dim()])
        };
        frame.render_widget(line, Rect { height: 1, ..area });
    }

    fn draw_groups(&self, frame: &mut Frame<'_>, area: Rect, packed: &[PanelRow]) {
        let mut top = area.y;
        for row in packed {
            let mut left = area.x;
            for (nth, &(group, width)) in row.panels.iter().enumerate() {
                let is_last = nth + 1 == row.panels.len();
                let width = if is_last { area.right() - left } else { width };
                let place = Rect::new(left, top, width, row.height);
                frame.render_widget(panel_of(&self.sample.groups[group], width), place);
                left += width;
            }
            top += row.height;
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
        let is_wide = area.width >= WIDE;
        // The width that the columns of fixed width and the frame leave, in the proportion below.
        let (fixed, share) = if is_wide { (33, (2, 3)) } else { (11, (3, 2)) };
        let wide = usize::from(area.width.saturating_sub(fixed)) * share.0 / (share.0 + share.1);
        let rows = self.sample.recent.iter().map(|recent| {
            let time = times::shown(&recent.updated_at);
            let name = safe::short_name(&recent.session, wide.max(8));
            let title = safe::short(&recent.title, 200);
            if is_wide {
                Row::new([time, name, output::bytes(recent.bytes), title])
            } else {
                let of_day = time.rsplit(' ').next().unwrap_or_default().to_owned();
                Row::new([of_day, name, title])
            }
        });
        let fill = |part| Constraint::Fill(u16::try_from(part).unwrap_or(1));
        let (name, title) = (fill(share.0), fill(share.1));
        let widths = if is_wide {
            vec![Constraint::Length(19), name, Constraint::Length(9), title]
        } else {
            vec![Constraint::Length(8), name, title]
        };
        let table = Table::new(rows, widths).block(Block::bordered().title("changed last"));
        frame.render_widget(table, area);
    }
}

/// Panels beside each other: the group and the width of each.
#[derive(Debug, PartialEq, Eq)]
struct PanelRow {
    height: u16,
    panels: Vec<(usize, u16)>,
}

/// Returns the places of panels of these widths and heights: beside each other as far as they fit,
/// the first ones first. Panels without room are left out.
fn packed(sizes: &[(u16, u16)], (wide, high): (u16, u16)) -> Vec<PanelRow> {
    let mut rows: Vec<PanelRow> = Vec::new();
    let mut left = high;
    for (group, &(width, height)) in sizes.iter().enumerate() {
        let width = width.min(wide);
        let fits_beside = |row: &&mut PanelRow| {
            let used: u16 = row.panels.iter().map(|(_, width)| width).sum();
            used + width <= wide && height.saturating_sub(row.height) <= left
        };
        if let Some(row) = rows.iter_mut().find(fits_beside) {
            left -= height.saturating_sub(row.height);
            row.height = row.height.max(height);
            row.panels.push((group, width));
        } else if height <= left {
            left -= height;
            rows.push(PanelRow {
                height,
                panels: vec![(group, width)],
            });
        }
    }
    for row in &mut rows {
        let used: u16 = row.panels.iter().map(|(_, width)| width).sum();
        let many = u16::try_from(row.panels.len()).unwrap_or(1);
        for (_, width) in &mut row.panels {
            *width += (wide - used) / many;
        }
    }
    rows
}

/// Returns the size of a group with its frame.
fn size_of(group: &Group) -> (u16, u16) {
    let figures = group.figures.iter();
    let width =
        |figure: &Figure| figure.label.chars().count() + figure.value.text().chars().count();
    let widest = figures.map(width).max().unwrap_or(0).max(group.title.len());
    let number = |len: usize| u16::try_from(len).unwrap_or(u16::MAX);
    (number(widest + 3), number(group.figures.len() + 2))
}

/// Draws a group: values whole, at the right; labels in the rest of the width.
fn panel_of(group: &Group, width: u16) -> Paragraph<'static> {
    let wide = usize::from(width.saturating_sub(2));
    let lines = group.figures.iter().map(|figure| {
        let value = figure.value.text();
        let left = wide.saturating_sub(value.chars().count() + 1);
        let label = safe::short(figure.label, left);
        let label = format!("{label:left$} ");
        Line::from(vec![label.dim(), value.into()])
    });
    Paragraph::new(lines.collect::<Vec<_>>()).block(Block::bordered().title(group.title))
}

#[expect(clippy::cast_sign_loss, reason = "no rate is below 0")]
fn tenths(rate: f64) -> u64 {
    (rate * 10.0) as u64
}

#[cfg(test)]
mod tests {
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    use super::super::sample::Recent;
    use super::*;

    fn sample() -> Sample {
        let group = |name, figures: &[(&'static str, Value)]| {
            let mut group = Group::new(name, name);
            for (label, value) in figures {
                group.add(label, label, value.clone());
            }
            group
        };
        let recent = |nth: u32| Recent {
            session: format!("telegram:12345678{nth}"),
            title: String::from("and then she said"),
            updated_at: format!("2026-11-28T10:00:0{nth}Z"),
            bytes: 123_456,
        };
        Sample {
            groups: vec![
                group(
                    "writes",
                    &[
                        ("health", Value::Text(String::from("healthy"))),
                        ("messages", Value::PerSecond(12_345.0)),
                        ("commits", Value::PerSecond(99.9)),
                        ("journal at most", Value::Bytes(268_435_456)),
                    ],
                ),
                group(
                    "waits",
                    &[("sync, median", Value::Time(Duration::from_micros(1234)))],
                ),
                group("sessions", &[("files grow, bytes", Value::PerSecond(7.5))]),
                group(
                    "store",
                    &[("written to by", Value::Text(String::from("process 4711")))],
                ),
            ],
            recent: (0..9).map(recent).collect(),
        }
    }

    fn drawn(wide: u16, high: u16) -> String {
        let mut screen = Screen::of(Path::new("/srv/gateway/sessions"));
        screen.take(sample());
        let mut terminal = Terminal::new(TestBackend::new(wide, high)).unwrap();
        let draw = |frame: &mut Frame<'_>| screen.draw(frame, Duration::from_secs(1));
        terminal.draw(draw).unwrap();
        terminal.backend().to_string()
    }

    #[test]
    fn values_are_whole_with_their_units_on_terminals_of_any_width() {
        for (wide, high) in [(40, 24), (80, 24), (200, 50)] {
            let screen = drawn(wide, high);
            for group in sample().groups {
                if !screen.contains(group.title) {
                    continue;
                }
                for figure in group.figures {
                    let value = figure.value.text();
                    assert!(screen.contains(&value), "{wide}: {value} in\n{screen}");
                }
            }
            assert!(screen.contains("writes"), "{screen}");
            assert!(screen.contains("m:123456780"), "{screen}");
            if wide >= 80 {
                assert!(screen.contains("telegram:123456780"), "{screen}");
            }
            if wide >= 200 {
                assert!(screen.contains(":00:08"), "{screen}");
            }
        }
    }

    #[test]
    fn panels_without_room_are_left_out_whole() {
        let rows = packed(&[(20, 6), (25, 5), (30, 7), (10, 3)], (40, 13));
        assert_eq!(
            rows,
            [
                PanelRow {
                    height: 6,
                    panels: vec![(0, 25), (3, 15)]
                },
                PanelRow {
                    height: 5,
                    panels: vec![(1, 40)]
                },
            ]
        );
    }
}
