//! `sessionlog delete` and `sessionlog undelete`: a session goes, and comes back.

use std::time::Duration;

use clap::Args;
use sessionlog::{Error, StoreOptions};

use crate::failure::{Failure, Outcome, Result};
use crate::output::{self, Output};
use crate::store::{Dir, Writing};
use crate::{names, resolve};

/// Delete sessions, into the trash
///
/// Only `ls --deleted` lists them then, and their keys are free. `undelete` brings a session back
/// with its backups, its archive and the ids of its messages. `retention --deleted TIME` removes
/// sessions that were deleted longer ago. `erase` removes everything of a person, a chat or a session.
/// DIR must not be in use by another process.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  sessionlog delete DIR telegram:7
  sessionlog ls DIR --deleted
  sessionlog undelete DIR telegram:7
  sessionlog delete DIR telegram:7 --for-good
  sessionlog retention DIR --deleted 30d --apply")]
pub(crate) struct Delete {
    #[command(flatten)]
    dir: Dir,
    /// The sessions: their keys or aliases, whole
    #[arg(required = true, value_name = "SESSION")]
    sessions: Vec<String>,
    /// Delete past the trash; or out of it, by the key that `ls --deleted` shows
    #[arg(long)]
    for_good: bool,
    #[command(flatten)]
    writing: Writing,
}

impl Delete {
    pub(crate) fn run(self) -> Result<Outcome> {
        let options = StoreOptions::new().trash(Duration::MAX);
        let store = self.dir.write_with(self.writing, options)?;
        let chats = store.handle();
        let mut keys = Vec::new();
        for name in &self.sessions {
            keys.push(resolve::whole(&chats, name)?);
        }
        let exact = chats.exact_keys();
        let mut out = Output::new();
        for key in keys {
            let name = names::name(&key);
            if self.for_good {
                exact.delete_for_good(&key).wait()?;
            } else {
                exact.delete_session(&key).wait()?;
            }
            out.line(&format!("deleted {name}"))?;
        }
        store.close()?;
        out.finish()?;
        if !self.for_good {
            output::note("`sessionlog undelete DIR SESSION` brings it back out of the trash");
        }
        Ok(Outcome::found(true))
    }
}

/// Bring a deleted session back
///
/// The one that was deleted last under that key or alias; or any, by the key that `ls --deleted`
/// shows.
/// DIR must not be in use by another process.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  sessionlog undelete DIR telegram:7
  sessionlog undelete DIR deleted:20261128T192303.123456789Z:telegram:7")]
pub(crate) struct Undelete {
    #[command(flatten)]
    dir: Dir,
    /// The session: the key or an alias that it had, or the key that it is kept under
    session: String,
    #[command(flatten)]
    writing: Writing,
}

impl Undelete {
    pub(crate) fn run(self) -> Result<Outcome> {
        let store = self.dir.write(self.writing)?;
        let undeleted = store.handle().undelete(&self.session).wait();
        let key = undeleted.map_err(|error| match error {
            Error::HasHistory { .. } => Failure::from(error).hint(
                "`sessionlog ls DIR --deleted` shows the key K that it is kept under; \
                 `sessionlog rename DIR K KEY --merge` puts it before what was said since",
            ),
            Error::SessionNotFound { .. } => {
                Failure::from(error).hint("`sessionlog ls DIR --deleted` shows all that are kept")
            }
            error => Failure::from(error),
        })?;
        let name = names::name(&key);
        store.close()?;
        let mut out = Output::new();
        out.line(&format!("{name} is back"))?;
        out.finish()?;
        Ok(Outcome::found(true))
    }
}
