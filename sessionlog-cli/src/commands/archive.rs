//! `sessionlog archive`: the lines that compactions dropped and kept compressed.

use clap::{Args, Subcommand};

use crate::failure::{Failure, Outcome, Result};
use crate::output::Output;
use crate::resolve;
use crate::store::Dir;
use crate::transcript::Transcript;

/// Read what compactions dropped and the archive keeps
#[derive(Debug, Subcommand)]
#[command(after_help = "\
Examples:
  sessionlog archive list DIR telegram:123456            the months in which there is something
  sessionlog archive show DIR telegram:123456 2026-11
  sessionlog search DIR invoice --archived               in all sessions

Nothing is there unless the gateway opened its store with the archive, or `compact --archive`.")]
pub(crate) enum Archive {
    List(List),
    Show(Show),
}

/// List the months of a session
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  sessionlog archive list DIR telegram:123456

Exits with 1 if there are none.")]
pub(crate) struct List {
    #[command(flatten)]
    dir: Dir,
    /// The session: its key, an alias, or the beginning of either
    session: String,
    /// One JSON array
    #[arg(long)]
    json: bool,
}

/// Show what was dropped of a session in a month, or in all
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  sessionlog archive show DIR telegram:123456 2026-11
  sessionlog archive show DIR telegram:123456 --json | jq -r .content

Exits with 1 if there is nothing.")]
pub(crate) struct Show {
    #[command(flatten)]
    dir: Dir,
    /// The session: its key, an alias, or the beginning of either
    session: String,
    /// The month, such as 2026-11; all if none is named
    month: Option<String>,
    /// Tool calls, their results and reasoning as a whole
    #[arg(long)]
    full: bool,
    /// One JSON object per message and line
    #[arg(long)]
    json: bool,
    /// Not through a pager
    #[arg(long)]
    no_pager: bool,
}

impl Archive {
    pub(crate) fn run(self) -> Result<Outcome> {
        match self {
            Self::List(command) => command.run(),
            Self::Show(command) => command.run(),
        }
    }
}

impl List {
    fn run(self) -> Result<Outcome> {
        let store = self.dir.read()?;
        let key = resolve::session(&store.chats, &self.session)?;
        let months = store.chats.archived_months(&key).wait()?;
        let mut out = Output::new();
        if self.json {
            out.json(&months)?;
        } else {
            for month in &months {
                out.line(month)?;
            }
        }
        out.finish()?;
        Ok(Outcome::found(!months.is_empty()))
    }
}

impl Show {
    fn run(self) -> Result<Outcome> {
        let store = self.dir.read()?;
        let key = resolve::session(&store.chats, &self.session)?;
        let months = store.chats.archived_months(&key).wait()?;
        let wanted = match &self.month {
            None => months,
            Some(month) if months.contains(month) => vec![month.clone()],
            Some(month) => {
                let what = format!("nothing of that session was archived in {month:?}");
                return Err(Failure::new(what).hint(format!("months: {}", months.join(" "))));
            }
        };
        let mut out = Output::paged(!self.json && !self.no_pager);
        let transcript = Transcript { full: self.full };
        for month in &wanted {
            for message in &store.chats.archived(&key, month).wait()? {
                if self.json {
                    out.json(message)?;
                } else {
                    transcript.write(&mut out, None, message)?;
                }
            }
        }
        out.finish()?;
        Ok(Outcome::found(!wanted.is_empty()))
    }
}
