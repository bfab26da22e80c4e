//! Messages as the lines a command writes, and the limits of those.

use super::StoreHandle;
use crate::disk::session_file;
use crate::engine::Engine;
use crate::engine::shard::command::Verb;
use crate::error::{Error, Oversized, Result, check_size};
use crate::ground::clock::Stamp;
use crate::ground::sync::slot::Promise;
use crate::{Durability, Message};

/// The largest batch one command may write, bytes.
pub(super) const MAX_BATCH: usize = 64 << 20;

impl StoreHandle {
    /// Refuses a summary over the limit of a line, as
    /// [`set_summary`](Self::set_summary) does.
    ///
    /// # Errors
    /// `MessageTooLarge`.
    pub(crate) fn check_summary(&self, summary: &str) -> Result<()> {
        check_size(Oversized::Summary, summary.len(), self.max_line)
    }

    /// Refuses messages that encoded as lines have one over the limit, or are
    /// more than one command may write; `now` stands for the time of those that
    /// have none.
    ///
    /// # Errors
    /// `MessageTooLarge`, without messages.
    pub(crate) fn check_lines(&self, messages: &[Message], now: &str) -> Result<()> {
        let mut total = 0;
        for message in messages.iter().filter(|message| !message.is_transient()) {
            let size = session_file::encode(message, Some(now)).len();
            check_size(Oversized::Message, size, self.max_line)?;
            total += size + 1;
        }
        check_size(Oversized::Batch, total, MAX_BATCH)
    }

    /// Refuses a system prompt over the limit of a line.
    ///
    /// # Errors
    /// `MessageTooLarge`.
    pub(crate) fn check_prompt(&self, prompt: &str) -> Result<()> {
        let size = session_file::encode_system_prompt(prompt).len();
        check_size(Oversized::Prompt, size, self.max_line)
    }
}

pub(super) struct Lines {
    pub(super) bytes: Vec<u8>,
    pub(super) count: u32,
}

impl Lines {
    /// The command that appends them, and whether there is nothing to do.
    pub(super) fn into_append(
        self,
        level: Durability,
        answer: Promise<Result<()>>,
    ) -> (Verb, bool) {
        let nothing = self.count == 0;
        let verb = Verb::Append {
            count: self.count,
            lines: self.bytes,
            level,
            answer,
        };
        (verb, nothing)
    }
}

/// The error, with the messages in it that its caller may want back.
pub(super) fn hand_back(mut error: Error, given: Vec<Message>) -> Error {
    if let Error::MessageTooLarge { messages, .. } = &mut error {
        *messages = given;
    }
    error
}

/// As [`encode`], for a message that is only text.
pub(super) fn encode_text(role: &str, text: &str, max: usize, engine: &Engine) -> Result<Lines> {
    session_file::check_role(role)?;
    let now = Stamp::of(engine.context.clock.now());
    let mut bytes = session_file::encode_text(role, text, now.as_str());
    check_size(Oversized::Message, bytes.len(), max)?;
    bytes.push(b'\n');
    check_size(Oversized::Batch, bytes.len(), MAX_BATCH)?;
    Ok(Lines { bytes, count: 1 })
}

/// Encodes what is to be stored; messages without a time get the time of now.
pub(super) fn encode(messages: &[Message], max: usize, engine: &Engine) -> Result<Lines> {
    let now = Stamp::of(engine.context.clock.now());
    let mut lines = Lines {
        bytes: Vec::new(),
        count: 0,
    };
    for message in messages.iter().filter(|message| !message.is_transient()) {
        message.check_writable()?;
        let line = session_file::encode(message, Some(now.as_str()));
        check_size(Oversized::Message, line.len(), max)?;
        if lines.bytes.is_empty() {
            lines.bytes = line;
        } else {
            lines.bytes.extend_from_slice(&line);
        }
        lines.bytes.push(b'\n');
        lines.count += 1;
        check_size(Oversized::Batch, lines.bytes.len(), MAX_BATCH)?;
    }
    Ok(lines)
}
