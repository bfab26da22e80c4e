//! `sessionlog title` and `sessionlog label`: the texts that lists show for a session.

use clap::Args;
use sessionlog::Update;

use crate::failure::{Outcome, Result};
use crate::output::{self, Output};
use crate::store::{Dir, Writing};
use crate::{names, resolve, safe};

/// Give a session a title
///
/// `ls`, `search` and the browser view show it. An empty title takes it away. It stands in the
/// session's sidecar.
/// DIR must not be in use by another process.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  sessionlog title DIR telegram:7 \"Oslo in May\"
  sessionlog title DIR telegram:7 \"\"                takes it away")]
pub(crate) struct Title {
    #[command(flatten)]
    dir: Dir,
    /// The session: its whole key or alias
    session: String,
    /// The title
    #[arg(value_name = "TITLE")]
    text: String,
    #[command(flatten)]
    writing: Writing,
}

impl Title {
    pub(crate) fn run(self) -> Result<Outcome> {
        let store = self.dir.write(self.writing)?;
        let chats = store.handle();
        let key = resolve::whole(&chats, &self.session)?;
        chats.exact_keys().set_title(&key, &self.text).wait()?;
        let title = chats.exact_keys().session_meta(&key).wait()?.tags.title;
        let name = names::name(&key);
        store.close()?;
        let mut out = Output::new();
        out.line(&if title.is_empty() {
            format!("{name} has no title")
        } else {
            format!("{name} is called {}", safe::line(&title))
        })?;
        out.finish()?;
        Ok(Outcome::found(true))
    }
}

/// Give a session labels, take some away, or pin it
///
/// Prints the labels that it has then. `ls --label` finds sessions by them, `ls --pinned` those that
/// are pinned. They stand in the session's sidecar.
/// DIR must not be in use by another process.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  sessionlog label DIR telegram:7 travel open
  sessionlog label DIR telegram:7 --remove open
  sessionlog label DIR telegram:7 --pin
  sessionlog ls DIR --label travel")]
pub(crate) struct Label {
    #[command(flatten)]
    dir: Dir,
    /// The session: its whole key or alias
    session: String,
    /// Labels to add
    labels: Vec<String>,
    /// A label to take away; may be repeated
    #[arg(long, value_name = "LABEL")]
    remove: Vec<String>,
    /// Pin the session
    #[arg(long, conflicts_with = "unpin")]
    pin: bool,
    /// Unpin it
    #[arg(long)]
    unpin: bool,
    #[command(flatten)]
    writing: Writing,
}

impl Label {
    pub(crate) fn run(self) -> Result<Outcome> {
        let store = self.dir.write(self.writing)?;
        let chats = store.handle();
        let key = resolve::whole(&chats, &self.session)?;
        let chats = chats.exact_keys();
        let mut labels = chats.session_meta(&key).wait()?.tags.labels;
        labels.retain(|label| !self.remove.iter().any(|gone| gone.trim() == label));
        labels.extend(self.labels);
        let mut update = Update::new().labels(labels);
        if self.pin || self.unpin {
            update = update.pinned(self.pin);
        }
        chats.update(&key, update).wait()?;
        let tags = chats.session_meta(&key).wait()?.tags;
        store.close()?;
        let mut out = Output::new();
        for label in &tags.labels {
            out.line(&safe::line(label))?;
        }
        out.finish()?;
        if tags.pinned {
            output::note("it is pinned");
        }
        Ok(Outcome::Done)
    }
}
