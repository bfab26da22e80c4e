//! `sessionlog edit` and `sessionlog remove`: one message is changed, or goes.

use std::collections::BTreeMap;
use std::io::Read;
use std::num::NonZeroUsize;

use clap::Args;
use serde_json::value::{RawValue, to_raw_value};
use sessionlog::{Message, Position, Store, StoreHandle};

use crate::failure::{Failure, Outcome, Result};
use crate::output::{self, Output};
use crate::store::{Dir, Writing};
use crate::{names, resolve, safe};

/// Change what one message says
///
/// TEXT takes the place of its text; its role, its time, its tool calls and all else stay. The
/// message as it was is hidden, as truncated ones are: `search --archived` finds it, and the next
/// compaction drops it, into the archive if that is kept (`compact --archive`). Backups and forks
/// keep it. To leave nothing of it in DIR, `erase` the session.
/// DIR must not be in use by another process.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  sessionlog show DIR telegram:7 --numbers
  sessionlog edit DIR telegram:7 12 \"See you in Oslo\"
  sessionlog edit DIR telegram:7 12 - < text
  sessionlog edit DIR telegram:7 12 --as-json '{\"role\":\"user\",\"content\":\"Oslo\"}'")]
pub(crate) struct Edit {
    #[command(flatten)]
    place: Place,
    /// The new text; - for standard input
    text: String,
    /// TEXT is the whole message, as a JSON object
    #[arg(long)]
    as_json: bool,
    #[command(flatten)]
    writing: Writing,
}

/// Remove one message
///
/// It is hidden, as truncated ones are: `search --archived` finds it, and the next compaction drops
/// it, into the archive if that is kept (`compact --archive`). Backups and forks keep it. To leave
/// nothing of it in DIR, `erase` the session. A tool's result stays without its call; models are
/// not sent it then.
/// DIR must not be in use by another process.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  sessionlog show DIR telegram:7 --numbers
  sessionlog remove DIR telegram:7 12")]
pub(crate) struct Remove {
    #[command(flatten)]
    place: Place,
    #[command(flatten)]
    writing: Writing,
}

/// Which message.
#[derive(Args, Debug)]
struct Place {
    #[command(flatten)]
    dir: Dir,
    /// The session: its whole key or alias
    session: String,
    /// The message's number, as `show --numbers` has it; the first is 1
    number: NonZeroUsize,
}

/// A message in an open store.
struct Found {
    store: Store,
    chats: StoreHandle,
    key: String,
    position: Position,
    message: Message,
}

impl Place {
    fn find(&self, writing: Writing) -> Result<Found> {
        let store = self.dir.write(writing)?;
        let chats = store.handle().exact_keys();
        let key = resolve::whole(&chats, &self.session)?;
        let snapshot = chats.snapshot(&key).wait()?;
        let at = self.number.get() - 1;
        let positions = snapshot.outline(snapshot.start(), 1).wait()?.anchors;
        let message = snapshot.history().wait()?.into_iter().nth(at);
        let (Some(&position), Some(message)) = (positions.get(at), message) else {
            let messages = output::count(positions.len(), "message");
            let what = format!("there is no message {} in {key}: {messages}", self.number);
            return Err(
                Failure::new(what).hint("`sessionlog show DIR SESSION --numbers` shows all")
            );
        };
        Ok(Found {
            store,
            chats,
            key,
            position,
            message,
        })
    }

    /// Reports the change of a message; `was` is the message before it.
    fn tell(&self, name: &str, was: &Message, now: &str) -> Result<Outcome> {
        let mut out = Output::new();
        let number = self.number;
        out.line(&format!("message {number} of {name} was {}", shown(was)))?;
        out.line(now)?;
        out.finish()?;
        output::note(
            "`sessionlog search DIR TEXT --archived` finds what it was, until a compaction",
        );
        Ok(Outcome::Done)
    }
}

impl Edit {
    pub(crate) fn run(self) -> Result<Outcome> {
        let text = self.text()?;
        let whole = self.as_json.then(|| Message::from_json(text.as_bytes()));
        let whole = whole.transpose()?;
        let found = self.place.find(self.writing)?;
        let message = match whole {
            Some(message) => message,
            None => with_text(&found.message, &text)?,
        };
        let now = format!("and is {}", shown(&message));
        let edit = found.chats.edit(&found.key, found.position, message);
        edit.wait()?;
        let name = names::name(&found.key);
        found.store.close()?;
        self.place.tell(&name, &found.message, &now)
    }

    fn text(&self) -> Result<String> {
        if self.text != "-" {
            return Ok(self.text.clone());
        }
        let mut text = String::new();
        std::io::stdin().read_to_string(&mut text)?;
        // A shell's input ends with a line end that is not part of the text.
        Ok(text.strip_suffix('\n').unwrap_or(&text).to_owned())
    }
}

impl Remove {
    pub(crate) fn run(self) -> Result<Outcome> {
        let found = self.place.find(self.writing)?;
        found.chats.remove(&found.key, found.position).wait()?;
        let name = names::name(&found.key);
        found.store.close()?;
        self.place.tell(&name, &found.message, "and is removed")
    }
}

/// A message with another text.
///
/// # Errors
/// If it has pictures and the like among its parts: a text would take their place.
fn with_text(message: &Message, text: &str) -> Result<Message> {
    let parts = message.content_parts().unwrap_or("[]");
    let parts: Vec<serde_json::Value> = serde_json::from_str(parts)?;
    let is_text = |part: &serde_json::Value| part.is_string() || part["type"] == "text";
    if !parts.iter().all(is_text) {
        let what = "the message has parts that are no text, and would lose them";
        return Err(Failure::new(what).hint("--as-json takes a whole message"));
    }
    let mut fields: BTreeMap<String, Box<RawValue>> = serde_json::from_slice(&message.to_json())?;
    fields.insert(String::from("content"), to_raw_value(text)?);
    Ok(Message::from_json(&serde_json::to_vec(&fields)?)?)
}

/// A message on one line.
fn shown(message: &Message) -> String {
    let role = safe::line(message.role());
    format!("{role}: {}", safe::short(&message.text(), 100))
}
