//! Lines as kimi-cli takes them: JSON as Python reads it, records as its model
//! classes validate them.
//!
//! Errors that make kimi-cli give up on a whole file (a part of an unknown type, a message without
//! content, a field called `self`) cost only their line here.

pub mod encode;
mod message;
mod python;
#[cfg(test)]
mod tests;

use std::borrow::Cow;

use self::python::{Members, has_huge_integer, integer, items, text};
use super::message::Message;
use super::raw::tidy;
use crate::error::{Error, Result};

/// The contents of a line of a context file.
#[derive(Clone, Debug, PartialEq)]
pub enum KimiRecord {
    /// White space.
    Blank,
    /// A line that kimi-cli does not keep: no JSON object, or a record that it rejects.
    Rejected,
    /// A record that another version may know: kept, without effect.
    Foreign,
    /// The number of tokens of the conversation.
    Usage(i64),
    /// A checkpoint.
    Checkpoint(i64),
    /// The number of a checkpoint whose place in the conversation is gone: it numbers the next one,
    /// and a revert to it would remove all that is left. kimi-cli does not know such records; this
    /// crate's stores write them.
    LostCheckpoint(i64),
    /// The system prompt.
    SystemPrompt(String),
    /// A message.
    Message(Box<Message>),
}

impl Message {
    /// Decodes a message as kimi-cli reads it: JSON with Python's leniencies, the last of equal
    /// names, `null` for no content, only the roles `user`, `assistant`, `system` and `tool`, and
    /// only parts that it knows.
    ///
    /// ```
    /// use sessionlog::Message;
    ///
    /// let line = r#"{"role":"user","content":[{"type":"text","text":"hi"}],"partial":"yes"}"#;
    /// let message = Message::from_kimi_json(line.as_bytes())?;
    /// assert_eq!(message.to_kimi_json(), r#"{"role":"user","content":"hi","partial":true}"#);
    /// # Ok::<(), sessionlog::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::InvalidMessage`] for a message that kimi-cli does not accept.
    pub fn from_kimi_json(json: &[u8]) -> Result<Self> {
        match decode(&String::from_utf8_lossy(json)) {
            KimiRecord::Message(message) => Ok(*message),
            _ => Err(Error::InvalidMessage {
                reason: String::from("not a message of kimi-cli"),
            }),
        }
    }

    /// The message as kimi-cli writes it: its fields in its order, then unknown ones. A message
    /// that kimi-cli would not read back is written all the same.
    #[must_use]
    pub fn to_kimi_json(&self) -> String {
        encode::to_json(self)
    }
}

/// Decodes one line, given without its line end.
pub fn decode(line: &str) -> KimiRecord {
    if line.chars().all(is_python_space) {
        return KimiRecord::Blank;
    }
    let Some(record) = Members::of(line) else {
        return KimiRecord::Rejected;
    };
    if has_huge_integer(line) {
        return KimiRecord::Foreign;
    }
    let role = record.text("role");
    match role.as_deref() {
        Some("_usage") => {
            integer(record.get("token_count")).map_or(KimiRecord::Rejected, KimiRecord::Usage)
        }
        Some("_checkpoint") => {
            let kind = match record.get("lost") {
                Some("true") => KimiRecord::LostCheckpoint,
                _ => KimiRecord::Checkpoint,
            };
            integer(record.get("id")).map_or(KimiRecord::Rejected, kind)
        }
        Some("_system_prompt") => record.text("content").map_or(KimiRecord::Rejected, |text| {
            KimiRecord::SystemPrompt(text.into())
        }),
        Some(role) if role.starts_with('_') => KimiRecord::Foreign,
        Some(role @ ("user" | "assistant" | "system" | "tool")) => {
            message::message(line, role, &record)
        }
        _ => KimiRecord::Rejected,
    }
}

/// Rewrites a line that only Python accepts as JSON in valid JSON; `None` if Python does not accept
/// it as a record either.
#[must_use]
pub fn strict(line: &str) -> Option<String> {
    match decode(line) {
        KimiRecord::Blank | KimiRecord::Rejected => None,
        _ => Some(tidy(line)),
    }
}

/// True if Python's `str.strip` removes the character.
#[must_use]
pub fn is_python_space(character: char) -> bool {
    character.is_whitespace() || ('\u{1c}'..='\u{1f}').contains(&character)
}

/// The role of a line that is an object, and its content, as JSON text.
pub fn role_and_content(line: &str) -> Option<(Option<String>, Option<&str>)> {
    let record = Members::of(line)?;
    let role = record.text("role").map(Cow::into_owned);
    Some((role, record.get("content")))
}

/// The text of a JSON string, or of the only part of a list of parts.
pub fn only_text(content: &str) -> Option<String> {
    if let Some(text) = text(content) {
        return Some(text.into_owned());
    }
    match &*items(content)? {
        [part] => Members::of(part)?.text("text").map(Cow::into_owned),
        _ => None,
    }
}
