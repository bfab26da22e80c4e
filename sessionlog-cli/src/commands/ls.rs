//! `sessionlog ls`: lists the sessions.

use std::cmp::Reverse;

use clap::{Args, ValueEnum};
use sessionlog::{OffsetDateTime, SessionInfo, SessionOrder, SessionPage};
use unicode_width::UnicodeWidthStr;

use crate::failure::{Outcome, Result};
use crate::output::{self, Output};
use crate::select::{self, Select};
use crate::store::{self, Dir};
use crate::{names, safe, times};

/// List sessions, those changed last first
///
/// Of each its key, its labels and its title (or its summary, or how it begins), how many lines it
/// has, its size and when it changed. In place of a key that is a hash its first alias is shown; every
/// command takes either. Keys are whole. On a terminal titles are cut to its width, and on a narrow
/// one columns are left out.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  sessionlog ls ~/.picoclaw/sessions
  sessionlog ls DIR --since yesterday --person 123456   a person's chats since yesterday
  sessionlog ls DIR --channel telegram --sort size -n 10
  sessionlog ls DIR --keys --sort name                  all keys, one per line: quickest
  sessionlog ls DIR --deleted                           what `undelete` can bring back
  sessionlog ls DIR --json | jq .key

Exits with 1 if there is no such session.")]
#[expect(clippy::struct_excessive_bools, reason = "switches of a command line")]
pub(crate) struct Ls {
    #[command(flatten)]
    dir: Dir,
    #[command(flatten)]
    select: Select,
    /// Those changed at that time or later: today, yesterday, 2h, 2026-11-23, ...
    #[arg(long, value_name = "TIME", value_parser = select::time)]
    since: Option<OffsetDateTime>,
    /// What comes first; the largest and the newest do
    #[arg(long, value_enum, default_value_t = Sort::Updated)]
    sort: Sort,
    /// The other way round
    #[arg(short, long)]
    reverse: bool,
    /// Show at most so many; 50 if nothing is said, and all with --keys and --json
    #[arg(short = 'n', long, value_name = "N")]
    limit: Option<usize>,
    /// Show all
    #[arg(short, long, conflicts_with = "limit")]
    all: bool,
    /// Whole keys only, one per line
    #[arg(short, long)]
    keys: bool,
    /// Those in the trash, each with its key there and when it was deleted
    #[arg(long)]
    deleted: bool,
    /// One complete JSON object per line; a session whose files cannot be read has
    /// "unreadable": true
    #[arg(long, conflicts_with = "keys")]
    json: bool,
}

/// In which order sessions are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Sort {
    /// When they were changed
    Updated,
    /// When they were made
    Created,
    /// Their keys, by file name
    Name,
    /// Their bytes
    Size,
    /// How many lines they have
    Lines,
}

impl Ls {
    pub(crate) fn run(self) -> Result<Outcome> {
        let store = self.dir.read()?;
        if self.wants_names_alone() {
            return self.names(&store.chats.list_sessions().wait()?);
        }
        let mut query = self.select.query();
        if let Some(since) = self.since {
            query = query.updated_since(since);
        }
        if self.deleted {
            query = query.deleted();
        }
        let limit = self.limit();
        // The library need not read whole sessions for the orders that it has itself.
        let order = match self.sort {
            Sort::Updated if !self.reverse => Some(SessionOrder::Updated),
            Sort::Name if !self.reverse => Some(SessionOrder::Name),
            _ => None,
        };
        query = match order {
            Some(order) => query.order(order).limit(limit),
            None => query.limit(usize::MAX),
        };
        let mut page = store.chats.sessions(query).wait()?;
        if order.is_none() {
            self.sort(&mut page.sessions);
        }
        if page.sessions.is_empty() && page.unreadable.is_empty() {
            let keys = store.chats.list_sessions().wait()?;
            let near = self.select.near(&store.chats, &keys)?;
            output::note(&if self.deleted {
                String::from("nothing in the trash fits")
            } else if keys.is_empty() {
                String::from("the store has no session")
            } else if near.is_empty() {
                String::from("no session fits; without filters `ls` shows all")
            } else {
                let near = near.join("\n  ");
                format!("no session says that it is; these have it in their keys:\n  {near}")
            });
        }
        let is_cut = page.next.is_some() || page.sessions.len() > limit;
        page.sessions.truncate(limit);
        self.show(&page)?;
        if is_cut && !self.json && !self.keys {
            let shown = page.sessions.len();
            output::note(&format!(
                "there are more than these {shown}: -n N, or --all"
            ));
        }
        Ok(Outcome::found(!page.sessions.is_empty()))
    }

    /// Returns the most sessions to show.
    fn limit(&self) -> usize {
        let is_list = !self.all && !self.json && !self.keys;
        let most = if is_list { 50 } else { usize::MAX };
        self.limit.unwrap_or(most)
    }

    /// True if no file of a session need be read.
    fn wants_names_alone(&self) -> bool {
        let by_name = self.sort == Sort::Name && !self.reverse;
        self.keys && by_name && !self.deleted && self.since.is_none() && self.select.is_any()
    }

    fn names(&self, keys: &[String]) -> Result<Outcome> {
        let mut out = Output::new();
        let shown = &keys[..self.limit().min(keys.len())];
        for key in shown {
            name(&mut out, key)?;
        }
        out.finish()?;
        Ok(Outcome::found(!shown.is_empty()))
    }

    fn sort(&self, sessions: &mut [SessionInfo]) {
        match self.sort {
            Sort::Updated => sessions.sort_by_key(|session| Reverse(session.updated())),
            Sort::Created => sessions.sort_by_key(|session| Reverse(session.created())),
            Sort::Size => sessions.sort_by_key(|session| Reverse(session.bytes)),
            Sort::Lines => sessions.sort_by_key(|session| Reverse(session.lines)),
            Sort::Name => {}
        }
        if self.reverse {
            sessions.reverse();
        }
    }

    fn show(&self, page: &SessionPage) -> Result<()> {
        let mut out = Output::new();
        if self.json {
            for session in &page.sessions {
                out.json(session)?;
            }
            for key in &page.unreadable {
                out.json(&serde_json::json!({ "key": key, "unreadable": true }))?;
            }
        } else if self.keys {
            for session in &page.sessions {
                name(&mut out, &session.key)?;
            }
        } else {
            list(&mut out, &page.sessions)?;
        }
        out.finish()?;
        for key in &page.unreadable {
            let verify = store::command("verify", self.dir.path());
            output::warn(&format!(
                "the files of {key:?} cannot be read; `{verify}` says why"
            ));
        }
        Ok(())
    }
}

/// Prints a whole key.
fn name(out: &mut Output, key: &str) -> Result<()> {
    if out.is_terminal() {
        out.line(&safe::line(key))
    } else {
        out.line(key)
    }
}

/// The least columns of a title; with fewer it is left out.
const TITLE: usize = 10;

/// Prints a table of sessions. Keys are whole, so that they can be pasted; on a narrow terminal the
/// other columns go, the least important first. A key that is much longer than most has a line of
/// its own.
pub(crate) fn list(out: &mut Output, sessions: &[SessionInfo]) -> Result<()> {
    if sessions.is_empty() {
        return Ok(());
    }
    let rows: Vec<[String; 4]> = sessions
        .iter()
        .map(|session| {
            [
                safe::line(name_of(session)).into_owned(),
                session.lines.to_string(),
                output::bytes(session.bytes),
                times::shown(changed(session)),
            ]
        })
        .collect();
    let heads = ["SESSION", "LINES", "SIZE", "CHANGED"];
    let usual = usual(rows.iter().map(|row| row[0].width()).collect());
    let is_long = |key: &str| out.is_terminal() && key.width() > usual;
    // Columns are two apart.
    let wide = |column: usize| {
        let cells = rows.iter().map(|row| &row[column]);
        let cells = cells.filter(|cell| column > 0 || !is_long(cell));
        let widest = cells.map(|cell| cell.width()).max().unwrap_or(0);
        widest.max(heads[column].len()) + 2
    };
    let (title, shown) = if out.is_terminal() {
        fit(output::width(), [0, 1, 2, 3].map(wide))
    } else {
        (120, [true; 4])
    };
    let mut head = vec!["SESSION"];
    head.extend((title > 0).then_some("TITLE"));
    head.extend((1..4).filter(|&at| shown[at]).map(|at| heads[at]));
    let numbers = head.iter().enumerate();
    let numbers = numbers.filter(|(_, name)| ["LINES", "SIZE"].contains(*name));
    let numbers: Vec<usize> = numbers.map(|(at, _)| at).collect();
    let mut table = output::table(head);
    for column in numbers {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(comfy_table::CellAlignment::Right);
        }
    }
    let mut above = vec![None];
    for (mut row, session) in rows.into_iter().zip(sessions) {
        above.push(is_long(&row[0]).then(|| std::mem::take(&mut row[0])));
        let mut cells = row.into_iter().enumerate();
        let mut line: Vec<String> = cells.next().map(|(_, key)| key).into_iter().collect();
        line.extend((title > 0).then(|| safe::short(&about(session), title)));
        line.extend(cells.filter(|(at, _)| shown[*at]).map(|(_, cell)| cell));
        table.add_row(line);
    }
    for (above, line) in above.into_iter().zip(table.lines()) {
        if let Some(key) = above {
            out.line(&key)?;
        }
        out.line(line.trim_end())?;
    }
    Ok(())
}

/// Returns the width of keys in a column, given these widths: up to twice that of most.
fn usual(mut widths: Vec<usize>) -> usize {
    widths.sort_unstable();
    let most = widths.get(widths.len() * 3 / 4).copied();
    most.unwrap_or(0).saturating_mul(2)
}

/// Returns the width of the title, and which of the other columns have room; the key is always
/// shown.
fn fit(width: usize, wide: [usize; 4]) -> (usize, [bool; 4]) {
    let mut shown = [true; 4];
    // The time of change goes last.
    for out in [None, Some(2), Some(1), Some(3)] {
        if let Some(out) = out {
            shown[out] = false;
        }
        let taken = (0..4).filter(|&at| shown[at]).map(|at| wide[at]);
        // After the last column nothing is needed.
        let taken = taken.sum::<usize>().saturating_sub(2);
        let left = width.saturating_sub(taken);
        if left >= TITLE + 2 {
            return (left - 2, shown);
        }
        if taken <= width {
            return (0, shown);
        }
    }
    (0, shown)
}

/// Returns the time at which a session was changed, or deleted.
fn changed(session: &SessionInfo) -> &str {
    let deleted = session.deleted.as_ref();
    deleted.map_or(&session.updated_at, |deletion| &deletion.at)
}

/// Returns a session's name: its key, or in place of a hash an alias of its own.
pub(crate) fn name_of(session: &SessionInfo) -> &str {
    names::of(&session.key, &session.aliases)
}

/// Returns a session's title, or its summary, or its first text.
pub(crate) fn title_of(session: &SessionInfo) -> &str {
    let names = [&session.title, &session.summary];
    let mut said = names.into_iter().filter(|name| !name.trim().is_empty());
    said.next().unwrap_or(&session.first_text)
}

/// Returns the same, with its labels.
fn about(session: &SessionInfo) -> String {
    let labels = session.labels.iter().map(|label| format!("[{label}] "));
    labels.chain([title_of(session).to_owned()]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_narrow_terminal_leaves_columns_out_and_keeps_the_key() {
        // A key of 30 columns, lines, size, time; two columns between.
        let wide = [32, 7, 8, 21];
        assert_eq!(fit(100, wide), (32, [true; 4]));
        assert_eq!(fit(66, wide), (0, [true; 4]));
        assert_eq!(fit(60, wide), (0, [true, true, false, true]));
        assert_eq!(fit(51, wide), (0, [true, false, false, true]));
        assert_eq!(fit(42, wide), (10, [true, false, false, false]));
        assert_eq!(fit(20, wide), (0, [true, false, false, false]));
    }

    #[test]
    fn a_key_much_longer_than_most_does_not_widen_the_column() {
        assert_eq!(usual(vec![10, 12, 14, 12, 80]), 28);
        assert_eq!(usual(vec![80]), 160);
    }
}
