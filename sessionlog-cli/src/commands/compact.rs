//! `sessionlog compact`: hidden lines leave the files.

use clap::Args;
use sessionlog::{SessionQuery, StoreHandle, StoreOptions};

use crate::failure::{Failure, Outcome, Result};
use crate::output::{self, Output};
use crate::store::{Dir, Writing};
use crate::{names, progress, resolve, safe};

/// Drop the lines that are hidden
///
/// Truncated messages stay in a session's file, hidden, until it is compacted; a running
/// gateway does that by itself once they are more than the rest. With --archive they are kept
/// compressed in DIR/.sessionlog/archive, where `archive` and `search --archived` find them.
/// DIR must not be in use by another process.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  sessionlog compact DIR telegram:123456
  sessionlog compact DIR --all --archive")]
pub(crate) struct Compact {
    #[command(flatten)]
    dir: Dir,
    /// Sessions: keys, aliases, or the beginnings of either
    #[arg(value_name = "SESSION", required_unless_present = "all")]
    sessions: Vec<String>,
    /// All sessions
    #[arg(short, long, conflicts_with = "sessions")]
    all: bool,
    /// Keep what is dropped, compressed
    #[arg(long)]
    archive: bool,
    #[command(flatten)]
    writing: Writing,
}

impl Compact {
    pub(crate) fn run(self) -> Result<Outcome> {
        let options = StoreOptions::new().archive(self.archive);
        let store = self.dir.write_with(self.writing, options)?;
        let chats = store.handle().exact_keys();
        let keys = if self.all {
            chats.list_sessions().wait()?
        } else {
            let names = self.sessions.iter();
            names
                .map(|name| resolve::session(&chats, name))
                .collect::<Result<Vec<_>>>()?
        };
        let before = bytes_of(&chats)?;
        let failed = compact(&chats, &keys)?;
        let after = bytes_of(&chats)?;
        let mut out = Output::new();
        let sessions = output::count(keys.len() - failed.len(), "session");
        let (before, after) = (output::bytes(before), output::bytes(after));
        out.line(&format!(
            "{sessions} compacted; all sessions: {before} before, {after} now"
        ))?;
        for (key, why) in &failed {
            let line = format!("{key}: left as it is: {why}");
            out.line(&out.paint(output::BAD, &safe::line(&names::text(&line))))?;
        }
        out.finish()?;
        store.close()?;
        Ok(Outcome::found(failed.is_empty()))
    }
}

/// Compacts sessions; returns those that could not be compacted, with the reason.
fn compact<'a>(chats: &StoreHandle, keys: &'a [String]) -> Result<Vec<(&'a str, String)>> {
    let mut failed = Vec::new();
    let bar = progress::counted(keys.len(), "sessions");
    for key in keys {
        match chats.compact(key).wait() {
            Ok(()) => {}
            // This is about one session; the others can be compacted.
            Err(error @ (sessionlog::Error::Io { .. } | sessionlog::Error::Corrupt { .. })) => {
                failed.push((key.as_str(), error.to_string()));
            }
            Err(error) => return Err(Failure::from(error)),
        }
        bar.inc(1);
    }
    bar.finish_and_clear();
    Ok(failed)
}

fn bytes_of(chats: &StoreHandle) -> Result<u64> {
    let page = chats
        .sessions(SessionQuery::new().limit(usize::MAX))
        .wait()?;
    Ok(page.sessions.iter().map(|session| session.bytes).sum())
}
