//! `sessionlog show`: what was said in a session.

use clap::Args;
use sessionlog::{Message, SessionSnapshot};

use crate::failure::{Outcome, Result};
use crate::output::{self, DIM, HEAD, Output};
use crate::store::Dir;
use crate::transcript::Transcript;
use crate::{resolve, safe, times};

/// Show a conversation
///
/// Message by message, with who said it and when, through $PAGER (or less) on a terminal. Tool
/// calls, their results and reasoning are cut to a line each, unless --full is given.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  sessionlog show DIR telegram:123456          by key
  sessionlog show DIR agent:main:telegram      by the beginning of a key or an alias
  sessionlog show DIR telegram:123456 -n 20    the newest 20 messages
  sessionlog show DIR telegram:123456 --json | jq -r .content

Exits with 1 if the session has no messages.")]
pub(crate) struct Show {
    #[command(flatten)]
    dir: Dir,
    /// The session: its key, an alias, or the beginning of either
    session: String,
    /// Only the newest so many messages
    #[arg(short = 'n', long, value_name = "N")]
    tail: Option<usize>,
    /// Tool calls, their results and reasoning as a whole
    #[arg(short, long)]
    full: bool,
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
        let messages = match self.tail {
            Some(n) => snapshot.tail(n).wait()?,
            None => snapshot.history().wait()?,
        };
        if self.json {
            let mut out = Output::new();
            for message in &messages {
                out.json(message)?;
            }
            out.finish()?;
        } else {
            self.transcript(&key, &snapshot, &messages)?;
        }
        Ok(Outcome::found(!messages.is_empty()))
    }

    fn transcript(
        &self,
        key: &str,
        snapshot: &SessionSnapshot,
        messages: &[Message],
    ) -> Result<()> {
        let mut out = Output::paged(!self.no_pager);
        head(&mut out, key, snapshot)?;
        let transcript = Transcript { full: self.full };
        for message in messages {
            transcript.write(&mut out, None, message)?;
        }
        out.finish()
    }
}

/// Whose conversation it is, and what is known of it.
fn head(out: &mut Output, key: &str, snapshot: &SessionSnapshot) -> Result<()> {
    let meta = snapshot.meta();
    out.line(&out.paint(HEAD, &safe::line(key)))?;
    for alias in &meta.aliases {
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
