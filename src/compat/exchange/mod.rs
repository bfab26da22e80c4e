//! Conversations in the shapes in which others keep or send them.

mod anthropic;
mod markdown;
mod openai;
#[cfg(test)]
mod tests;

use serde_json::Value;

use crate::Message;
use crate::disk::session_file::{self, Control, Decoded};
use crate::engine::window::unpaired;
use crate::error::{Error, Result};

/// In which shape a conversation is handed over, by
/// [`StoreHandle::export`](crate::StoreHandle::export) and
/// [`StoreHandle::import`](crate::StoreHandle::import).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Format {
    /// The session's lines that are not hidden, as they stand in its file: messages with all
    /// they have, and control records, the last hidden ones that still count included. The
    /// import leaves control records out, and refuses lines that are no records.
    Jsonl,
    /// A transcript for people, with a heading for each message. It cannot be imported.
    Markdown,
    /// The `messages` of OpenAI's chat completions, as a JSON array: roles, contents, tool
    /// calls and their results; the system prompt first. Media, attachments, reasoning, images
    /// that are not a user's, and tool calls without their results, and the other way round,
    /// are left out.
    OpenAi,
    /// What Anthropic's messages API takes, as a JSON object with `system` and `messages`:
    /// texts, images, tool calls and their results; messages of one side that follow each
    /// other are one, and all of the system's are `system`. Media, attachments, reasoning,
    /// which would need the provider's signature, and tool calls without their results, and
    /// the other way round, are left out; results that are not text are not imported.
    Anthropic,
}

/// A conversation in another shape, of all its lines, of which those before `start` are hidden.
#[must_use]
pub fn export(lines: &[u8], start: usize, format: Format) -> String {
    let (hidden, live) = lines.split_at(start.min(lines.len()));
    let lines = session_file::without_hidden(hidden, live);
    if format == Format::Jsonl {
        return String::from_utf8_lossy(&lines).into_owned();
    }
    let (mut prompt, mut messages) = (None, Vec::new());
    for (_, line) in session_file::lines(&lines) {
        match session_file::decode(line) {
            Decoded::Message(message) => messages.push(message),
            Decoded::Control(Control::SystemPrompt { content }) => prompt = Some(content),
            _ => {}
        }
    }
    messages.splice(0..0, prompt.map(Message::system));
    write(&messages, format)
}

/// The messages in a shape other than their own.
pub(crate) fn write(messages: &[Message], format: Format) -> String {
    match format {
        Format::Jsonl | Format::OpenAi => openai::write(&paired(messages)).to_string(),
        Format::Anthropic => anthropic::write(&paired(messages)).to_string(),
        Format::Markdown => markdown::write(messages),
    }
}

/// The messages that a text of some shape has.
///
/// # Errors
/// [`Error::InvalidMessage`], which says the place of the one that is none.
pub fn import(text: &str, format: Format) -> Result<Vec<Message>> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    match format {
        Format::Jsonl => lines(text),
        Format::OpenAi => openai::read(text),
        Format::Anthropic => anthropic::read(&json(text)?),
        Format::Markdown => Err(invalid("Markdown cannot be imported")),
    }
}

/// Blank lines and control records are no messages.
fn lines(text: &str) -> Result<Vec<Message>> {
    let mut messages = Vec::new();
    for (at, line) in text.split('\n').enumerate() {
        match session_file::decode(line.as_bytes()) {
            Decoded::Blank | Decoded::Control(_) => {}
            Decoded::Message(message) | Decoded::Transient(message) => messages.push(message),
            Decoded::Corrupt(reason) => {
                return Err(at_place("line", at, &invalid(reason.to_string())));
            }
        }
    }
    Ok(messages)
}

/// Without calls that nothing answers and results that nothing asked for: the providers
/// refuse them.
fn paired(messages: &[Message]) -> Vec<&Message> {
    let (unpaired, _) = unpaired(messages);
    let numbered = messages.iter().enumerate();
    let paired = numbered.filter(|(at, _)| !unpaired.contains(at));
    paired.map(|(_, message)| message).collect()
}

fn json(text: &str) -> Result<Value> {
    serde_json::from_str(text).map_err(|error| invalid(error.to_string()))
}

/// The list of messages, alone or as the field `messages`.
fn list(value: &Value) -> Result<&Vec<Value>> {
    let list = value
        .as_array()
        .or_else(|| value.get("messages")?.as_array());
    list.ok_or_else(|| invalid("there is no list of messages"))
}

/// Who says a message.
fn role(message: &Value) -> Result<&str> {
    let role = message.get("role").and_then(Value::as_str);
    role.filter(|role| !role.is_empty())
        .ok_or_else(|| invalid("there is no role"))
}

fn invalid(reason: impl Into<String>) -> Error {
    Error::InvalidMessage {
        reason: reason.into(),
    }
}

fn at_place(what: &str, at: usize, error: &Error) -> Error {
    let reason = match error {
        Error::InvalidMessage { reason } => reason.clone(),
        other => other.to_string(),
    };
    invalid(format!("{what} {}: {reason}", at + 1))
}

/// The parts of a content, if it is a list of parts.
fn parts(message: &Message) -> Option<Vec<Value>> {
    serde_json::from_str(message.content_parts()?).ok()
}
