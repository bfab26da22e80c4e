//! `sessionlog show`: the conversation of a session.

use std::ops::Range;

use clap::Args;
use sessionlog::{OffsetDateTime, SessionSnapshot};

use crate::excerpt::{self, Excerpt, Shown};
use crate::failure::{Outcome, Result};
use crate::output::{self, DIM, HEAD, Output};
use crate::store::Dir;
use crate::transcript::Transcript;
use crate::{names, resolve, safe, select, times};

/// Show a conversation
///
/// Message by message, with who said it and when, through $PAGER (or less) on a terminal. Tool
/// calls, their results and reasoning are cut to a line each, unless --full is given. Lines
/// that are damaged are marked where they stand.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  sessionlog show DIR telegram:123456          by key
  sessionlog show DIR agent:main:telegram      by the beginning of a key or an alias
  sessionlog show DIR telegram:123456 -n 20    the newest 20 messages
  sessionlog show DIR telegram:123456 --since yesterday --until today
  sessionlog show DIR telegram:123456 --range 10..20 --numbers
  sessionlog show DIR telegram:123456 --json | jq -r .content

Exits with 1 if there are no such messages, or if damaged lines are left out among them.")]
#[expect(clippy::struct_excessive_bools, reason = "switches of a command line")]
pub(crate) struct Show {
    #[command(flatten)]
    dir: Dir,
    /// The session: its key, an alias, or the beginning of either
    session: String,
    /// Only the newest so many messages
    #[arg(
        short = 'n',
        long,
        visible_alias = "last",
        value_name = "N",
        conflicts_with = "range"
    )]
    limit: Option<usize>,
    /// Only the messages from one number to another, the first being 1: 10..20, 10.. or ..20
    #[arg(long, value_name = "FROM..TO", value_parser = range)]
    range: Option<Range<usize>>,
    /// Only what was said at that time or later: yesterday, 2h, 2026-11-23, ...
    #[arg(long, value_name = "TIME", value_parser = select::time)]
    since: Option<OffsetDateTime>,
    /// Only what was said before that time
    #[arg(long, value_name = "TIME", value_parser = select::time)]
    until: Option<OffsetDateTime>,
    /// Tool calls, their results and reasoning as a whole
    #[arg(long)]
    full: bool,
    /// The number of each message, which `edit` and `remove` take
    #[arg(long, conflicts_with = "json")]
    numbers: bool,
    /// One JSON object per message and line
    #[arg(long)]
    json: bool,
    /// Not through a pager
    #[arg(long)]
    no_pager: bool,
}

impl Show {
    pub(crate) fn run(self) -> Result<Outcome> {
        let store = self.dir.read()?;
        let key = resolve::session(&store.chats, &self.session)?;
        let snapshot = store.chats.snapshot(&key).wait()?;
        let excerpt = self.excerpt(&snapshot)?;
        if self.json {
            let mut out = Output::new();
            for message in &excerpt.messages {
                out.json(message)?;
            }
            out.finish()?;
        } else {
            self.transcript(&key, &snapshot, &excerpt)?;
        }
        excerpt::note_damaged(excerpt.damaged());
        let is_whole = !excerpt.messages.is_empty() && excerpt.damaged() == 0;
        Ok(Outcome::found(is_whole))
    }

    fn excerpt(&self, snapshot: &SessionSnapshot) -> Result<Excerpt> {
        let is_by_time = self.since.is_some() || self.until.is_some();
        let mut excerpt = match self.limit {
            Some(limit) if !is_by_time && !self.numbers => Excerpt::newest(snapshot, limit)?,
            _ => Excerpt::whole(snapshot)?,
        };
        if let Some(range) = &self.range {
            excerpt.cut(range.clone());
        }
        if is_by_time {
            excerpt.between(self.since, self.until);
        }
        if let Some(limit) = self.limit {
            let all = excerpt.messages.len();
            excerpt.cut(all.saturating_sub(limit)..all);
        }
        Ok(excerpt)
    }

    fn transcript(&self, key: &str, snapshot: &SessionSnapshot, excerpt: &Excerpt) -> Result<()> {
        let mut out = Output::paged(!self.no_pager);
        head(&mut out, key, snapshot)?;
        let transcript = Transcript { full: self.full };
        let mut numbers = excerpt.first + 1..;
        for shown in excerpt.each() {
            match shown {
                Shown::Message(message) => {
                    let number = numbers.next().filter(|_| self.numbers);
                    let number = number.map(|number| format!("#{number}"));
                    transcript.write(&mut out, number.as_deref(), message)?;
                }
                Shown::Damaged(lines) => Transcript::damaged(&mut out, None, lines)?,
            }
        }
        out.finish()
    }
}

/// Reads `10..20`: numbers of messages from 1 on, both among them.
fn range(text: &str) -> std::result::Result<Range<usize>, String> {
    let wrong = || format!("{text:?} is no range; use 10..20, 10.. or ..20");
    let (from, to) = text.split_once("..").ok_or_else(wrong)?;
    let number = |text: &str, absent| match text.trim() {
        "" => Ok(absent),
        text => text.parse().map_err(|_| wrong()),
    };
    let (from, to): (usize, usize) = (number(from, 1)?, number(to, usize::MAX)?);
    if from == 0 || to < from {
        return Err(wrong());
    }
    Ok(from - 1..to)
}

/// Prints the session's name and its data.
fn head(out: &mut Output, key: &str, snapshot: &SessionSnapshot) -> Result<()> {
    let meta = snapshot.meta();
    let name = names::of(key, &meta.aliases);
    out.line(&out.paint(HEAD, &safe::line(name)))?;
    let others = meta.aliases.iter().map(String::as_str).chain([key]);
    for alias in others.filter(|other| *other != name) {
        out.line(&out.paint(DIM, &format!("also {}", safe::line(alias))))?;
    }
    let (made, changed) = (
        times::shown(&meta.created_at),
        times::shown(&meta.updated_at),
    );
    let hidden = u64::try_from(meta.skip).unwrap_or(0);
    let hidden = match hidden {
        0 => String::new(),
        hidden => format!(", {} hidden", output::count(hidden as usize, "line")),
    };
    out.line(&out.paint(DIM, &format!("made {made}, changed {changed}{hidden}")))?;
    if !meta.summary.trim().is_empty() {
        out.line(&out.paint(DIM, "summary of what came before:"))?;
        for line in safe::block(&meta.summary).lines() {
            out.line(&format!("  {line}"))?;
        }
    }
    out.line("")
}
