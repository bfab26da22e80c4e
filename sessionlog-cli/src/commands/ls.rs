//! `sessionlog ls`: which sessions there are.

use std::cmp::Reverse;

use clap::{Args, ValueEnum};
use sessionlog::{OffsetDateTime, SessionInfo, SessionOrder, SessionPage};

use crate::failure::{Outcome, Result};
use crate::output::{self, Output};
use crate::select::{self, Select};
use crate::store::Dir;
use crate::{safe, times};

/// List sessions, those changed last first
///
/// Of each its key, a title (its summary, or how it begins), how many lines it has, its size
/// and when it changed. In place of a key that is a hash its first alias is shown; every
/// command takes either. On a terminal texts are cut to its width.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  sessionlog ls ~/.picoclaw/sessions
  sessionlog ls DIR --since yesterday --person 123456   a person's chats since yesterday
  sessionlog ls DIR --channel telegram --sort size -n 10
  sessionlog ls DIR --keys --all --sort name            all keys, one per line: quickest
  sessionlog ls DIR --all --json | jq .key

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
    /// Show at most so many
    #[arg(short = 'n', long, value_name = "N", default_value_t = 50)]
    limit: usize,
    /// Show all
    #[arg(short, long, conflicts_with = "limit")]
    all: bool,
    /// Whole keys only, one per line
    #[arg(short, long)]
    keys: bool,
    /// One JSON object per line, with all there is to say
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
        let limit = if self.all { usize::MAX } else { self.limit };
        // What the library orders it need not read whole to order it.
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
        if page.sessions.is_empty() && !self.json && !self.keys {
            output::note("there is no such session");
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

    /// Whether no file of a session need be read.
    fn wants_names_alone(&self) -> bool {
        let by_name = self.sort == Sort::Name && !self.reverse;
        self.keys && by_name && self.since.is_none() && self.select.is_any()
    }

    fn names(&self, keys: &[String]) -> Result<Outcome> {
        let mut out = Output::new();
        let limit = if self.all { usize::MAX } else { self.limit };
        let shown = &keys[..limit.min(keys.len())];
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
        } else if self.keys {
            for session in &page.sessions {
                name(&mut out, &session.key)?;
            }
        } else {
            list(&mut out, &page.sessions)?;
        }
        out.finish()?;
        for key in &page.unreadable {
            output::warn(&format!(
                "the files of {key:?} cannot be read; `sessionlog verify` says why"
            ));
        }
        Ok(())
    }
}

/// A whole key.
fn name(out: &mut Output, key: &str) -> Result<()> {
    if out.is_terminal() {
        out.line(&safe::line(key))
    } else {
        out.line(key)
    }
}

/// Columns that a key takes at most, if not all fits.
const KEY: usize = 44;

/// Columns of all but key and title, with what is between them.
const OTHERS: usize = 8 + 10 + 21;

/// A table of sessions.
pub(crate) fn list(out: &mut Output, sessions: &[SessionInfo]) -> Result<()> {
    if sessions.is_empty() {
        return Ok(());
    }
    let (key, title) = if out.is_terminal() {
        let left = output::width().saturating_sub(OTHERS + 4);
        let longest = sessions
            .iter()
            .map(|session| name_of(session).chars().count());
        let key = longest
            .max()
            .unwrap_or(0)
            .clamp(7, KEY.min(left / 2).max(7));
        (key, left.saturating_sub(key).max(5))
    } else {
        (usize::MAX / 8, 120)
    };
    let mut table = output::table(["SESSION", "TITLE", "LINES", "SIZE", "CHANGED"]);
    for column in [2, 3] {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(comfy_table::CellAlignment::Right);
        }
    }
    for session in sessions {
        table.add_row([
            safe::short_name(name_of(session), key),
            safe::short(title_of(session), title),
            session.lines.to_string(),
            output::bytes(session.bytes),
            times::shown(&session.updated_at),
        ]);
    }
    out.table(&table)
}

/// What a session is called: its key, or in place of a hash an alias that is its own.
pub(crate) fn name_of(session: &SessionInfo) -> &str {
    if !sessionlog::scope::is_opaque_session_key(&session.key) {
        return &session.key;
    }
    let is_main = |alias: &str| alias.starts_with("agent:") && alias.ends_with(":main");
    let mut own = session.aliases.iter().filter(|alias| !is_main(alias));
    own.next().unwrap_or(&session.key)
}

/// What a session is about.
pub(crate) fn title_of(session: &SessionInfo) -> &str {
    if session.summary.trim().is_empty() {
        &session.first_text
    } else {
        &session.summary
    }
}
