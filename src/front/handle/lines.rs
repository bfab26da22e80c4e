//! Messages as the lines a command writes, and the limits of those.

use super::StoreHandle;
use crate::disk::session_file;
use crate::engine::Engine;
use crate::engine::shard::verbs::append::Append;
use crate::error::{Error, Result, check_size};
use crate::ground::clock::Stamp;
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
        check_size(summary.len(), self.max_line)
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
            check_size(size, self.max_line)?;
            total += size + 1;
        }
        check_size(total, MAX_BATCH)
    }

    /// Refuses a system prompt over the limit of a line.
    ///
    /// # Errors
    /// `MessageTooLarge`.
    pub(crate) fn check_prompt(&self, prompt: &str) -> Result<()> {
        check_size(
            session_file::encode_system_prompt(prompt).len(),
            self.max_line,
        )
    }
}

pub(super) struct Lines {
    pub(super) bytes: Vec<u8>,
    pub(super) count: u32,
}

impl Lines {
    /// An append, unless there is nothing to append.
    pub(super) fn into_append(self, level: Durability) -> Option<Append> {
        (self.count > 0).then_some(Append {
            lines: self.bytes,
            count: self.count,
            level,
        })
    }
}

/// Why messages cannot be stored.
pub(super) enum Unfit {
    Invalid(Error),
    TooLarge { size: usize, limit: usize },
}

impl Unfit {
    /// The error, with the messages in it that its caller may want back.
    pub(super) fn hand_back(self, messages: Vec<Message>) -> Error {
        match self {
            Self::Invalid(error) => error,
            Self::TooLarge { size, limit } => Error::MessageTooLarge {
                size,
                limit,
                messages,
            },
        }
    }
}

/// As [`encode`], for a message that is only text.
pub(super) fn encode_text(
    role: &str,
    text: &str,
    max: usize,
    engine: &Engine,
) -> std::result::Result<Lines, Unfit> {
    session_file::check_role(role).map_err(Unfit::Invalid)?;
    let now = Stamp::of(engine.context.clock.now());
    let mut bytes = session_file::encode_text(role, text, now.as_str());
    fits(bytes.len(), max)?;
    bytes.push(b'\n');
    fits(bytes.len(), MAX_BATCH)?;
    Ok(Lines { bytes, count: 1 })
}

/// Encodes what is to be stored; messages without a time get the time of now.
pub(super) fn encode(
    messages: &[Message],
    max: usize,
    engine: &Engine,
) -> std::result::Result<Lines, Unfit> {
    let now = Stamp::of(engine.context.clock.now());
    let mut lines = Lines {
        bytes: Vec::new(),
        count: 0,
    };
    for message in messages.iter().filter(|message| !message.is_transient()) {
        message.check_writable().map_err(Unfit::Invalid)?;
        let line = session_file::encode(message, Some(now.as_str()));
        fits(line.len(), max)?;
        if lines.bytes.is_empty() {
            lines.bytes = line;
        } else {
            lines.bytes.extend_from_slice(&line);
        }
        lines.bytes.push(b'\n');
        lines.count += 1;
        fits(lines.bytes.len(), MAX_BATCH)?;
    }
    Ok(lines)
}

fn fits(size: usize, limit: usize) -> std::result::Result<(), Unfit> {
    if size > limit {
        return Err(Unfit::TooLarge { size, limit });
    }
    Ok(())
}
