//! `sessionlog rename`: a session gets another key.

use clap::Args;
use sessionlog::{Error, Merged, StoreHandle};

use crate::failure::{Failure, Outcome, Result};
use crate::output::Output;
use crate::store::{Dir, Writing};
use crate::{names, resolve, safe};

/// Give a session another key
///
/// For a chat whose id changed, as when a Telegram group becomes a supergroup: what was said goes
/// on under the new key, with its backups, its archive and the ids of its messages. The old key
/// becomes an alias of the new one. If the new key has messages already, --merge puts the old
/// ones before them, in one step.
/// DIR must not be in use by another process.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  sessionlog rename DIR telegram:-123 telegram:-100123
  sessionlog rename DIR telegram:-123 telegram:-100123 --merge")]
pub(crate) struct Rename {
    #[command(flatten)]
    dir: Dir,
    /// The session: its whole key
    old: String,
    /// Its new key
    new: String,
    /// Put it before what the new key has
    #[arg(long)]
    merge: bool,
    #[command(flatten)]
    writing: Writing,
}

impl Rename {
    pub(crate) fn run(self) -> Result<Outcome> {
        let store = self.dir.write(self.writing)?;
        let chats = store.handle();
        let old = key_of(&chats, &self.old)?;
        let name = names::name(&old);
        let merged = if self.merge {
            chats.merge_session(&old, &self.new).wait()
        } else {
            let renamed = chats.rename_session(&old, &self.new).wait();
            renamed.map(|()| Merged::Renamed)
        };
        let merged = merged.map_err(|error| match error {
            Error::HasHistory { .. } => {
                Failure::from(error).hint("--merge puts the old one before")
            }
            error => Failure::from(error),
        })?;
        store.close()?;
        let mut out = Output::new();
        let did = match merged {
            Merged::Joined => "stands before what was said in",
            _ => "is now",
        };
        out.line(&format!("{name} {did} {}", safe::line(&self.new)))?;
        out.finish()?;
        Ok(Outcome::found(true))
    }
}

/// Returns the key of the session that is meant. A session with a key that is another session's
/// alias is found all the same: otherwise its own history would be out of reach.
fn key_of(chats: &StoreHandle, name: &str) -> Result<String> {
    let exact = chats.exact_keys();
    if exact.exists(name).wait()? {
        return Ok(name.to_owned());
    }
    resolve::whole(&exact, name)
}
