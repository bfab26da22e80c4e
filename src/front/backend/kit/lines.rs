//! Messages and control records as the lines of a session.

use std::borrow::Borrow;

use sessionlog_core::error::Result;
use sessionlog_core::rules::{self, lines::LineLimits};
use sessionlog_core::session_file::{self, ControlContent, Conversation, Decoded, Kind, Turns};
use sessionlog_core::stamp::{self, StampText};
use sessionlog_wal::clock::{Clock, SystemClock};
use time::OffsetDateTime;

use crate::Message;

/// The kind of a line.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LineKind {
    /// A message.
    Message,
    /// A control record: the number of tokens of the conversation.
    Usage(i64),
    /// A control record: a checkpoint.
    Checkpoint {
        /// Its number.
        id: i64,
        /// True if the lines before it are gone: it only numbers the next one.
        lost: bool,
    },
    /// A control record: the system prompt.
    SystemPrompt(String),
    /// A line without effect: an unknown control record, a transient message, or bytes that
    /// do not decode.
    Other,
}

/// Encodes messages as lines, without line feeds, as PicoClaw writes them, with unknown fields at
/// the end. Messages without a time get `now`; transient ones become no line. `max_line` and
/// `max_batch` are in bytes.
///
/// # Errors
/// [`Error::InvalidMessage`](crate::Error::InvalidMessage); [`Error::MessageTooLarge`](crate::Error::MessageTooLarge), with the messages in it.
pub fn encode(
    messages: Vec<Message>,
    now: OffsetDateTime,
    max_line: usize,
    max_batch: usize,
) -> Result<Vec<Vec<u8>>> {
    let (now, mut encoded) = (StampText::of(now), Vec::new());
    let limits = LineLimits {
        line: max_line,
        batch: max_batch,
    };
    let mut ends = Vec::with_capacity(messages.len());
    let each = |_: &Message, len| ends.push(len);
    match rules::lines::encode(&messages, now.as_str(), limits, &mut encoded, each) {
        Ok(_) => {
            let mut rest = &encoded[..];
            let lines = ends.into_iter().map(|len| {
                let (line, behind) = rest.split_at(len);
                rest = &behind[1..];
                line.to_vec()
            });
            Ok(lines.collect())
        }
        Err(error) => Err(rules::lines::hand_back(error, || messages)),
    }
}

/// The current time, and the same as a session's sidecar writes it.
#[must_use]
pub fn now() -> (OffsetDateTime, String) {
    let now = SystemClock::default().now();
    (now, stamp::rfc3339(now))
}

/// The message of a line, if it shows one.
#[must_use]
pub fn message_of(line: &[u8]) -> Option<Message> {
    match session_file::decode(line) {
        Decoded::Message(message) => Some(message),
        _ => None,
    }
}

/// A text as [`encode`] writes it in a line, quotes included. The encoding of a part of a text is,
/// without the quotes, a part of the encoding of the whole.
#[must_use]
pub fn json_text(text: &str) -> String {
    session_file::encode_string(text)
}

/// The kind of a line.
#[must_use]
pub fn read_line(line: &[u8]) -> LineKind {
    if session_file::classify(line) == Kind::Message {
        return LineKind::Message;
    }
    let mut conversation = Conversation::default();
    conversation.note(line, 0, 0);
    match conversation.before(1).last() {
        Some(ControlContent::Usage(count)) => LineKind::Usage(*count),
        Some(ControlContent::Checkpoint { id, lost }) => LineKind::Checkpoint {
            id: *id,
            lost: *lost,
        },
        Some(ControlContent::SystemPrompt(text)) => LineKind::SystemPrompt(text.to_string()),
        None => LineKind::Other,
    }
}

/// The line of a token count.
#[must_use]
pub fn usage_line(token_count: i64) -> Vec<u8> {
    session_file::encode_usage(token_count).into_bytes()
}

/// The line of a checkpoint.
#[must_use]
pub fn checkpoint_line(id: i64) -> Vec<u8> {
    session_file::encode_checkpoint(id).into_bytes()
}

/// The line of the message that tells the model of a checkpoint.
#[must_use]
pub fn checkpoint_message_line(id: i64) -> Vec<u8> {
    session_file::encode_checkpoint_message(id).into_bytes()
}

/// A control record after the lines before it are gone or replaced: a checkpoint becomes lost.
#[must_use]
pub fn lost_checkpoint_line(line: &[u8]) -> Vec<u8> {
    session_file::without_place(line).into_owned()
}

/// The line of a system prompt of at most `max_line` bytes.
///
/// # Errors
/// [`Error::MessageTooLarge`](crate::Error::MessageTooLarge), without messages.
pub fn system_prompt_line(prompt: &str, max_line: usize) -> Result<Vec<u8>> {
    rules::lines::prompt(prompt, max_line).map(String::into_bytes)
}

/// The place where at least the newest `n` messages begin, with the rest of the turn that the
/// oldest of them belongs to, as [`Keep::Turns`](crate::Keep::Turns) defines it; `None` if all
/// stay. Takes the messages newest first, each with its place, and no more of them than it needs.
/// The second value is true if older messages than those given would not change the answer.
pub fn turn_begins_at(
    newest_first: impl Iterator<Item = (u64, impl Borrow<Message>)>,
    n: usize,
) -> (Option<u64>, bool) {
    let (mut turns, mut kept, mut spoken) = (Turns::default(), 0, None);
    for (at, message) in newest_first {
        kept += 1;
        let message = message.borrow();
        let here = (kept >= n).then_some(at);
        turns.take_back(message, here);
        if message.role() == "user" {
            spoken = spoken.or(here);
        }
        if let (false, Some(begin)) = (turns.is_open(), turns.newest()) {
            return (Some(*begin), true);
        }
    }
    (turns.newest().copied().or(spoken), false)
}
