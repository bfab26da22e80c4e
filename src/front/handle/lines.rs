//! Messages as the lines that a command writes, and the limits of those.

use sessionlog_core::error::{Oversized, Result, check_size};
use sessionlog_core::rules::lines::{self, LineLimits};
use sessionlog_core::session_file;
use sessionlog_core::stamp::StampText;
use sessionlog_wal::emptied;

use super::StoreHandle;
use crate::engine::Engine;
use crate::front::reply::Reply;
use crate::{Message, SessionMeta, StoreOptions};

/// The most that one command may write, in bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct CommandLimits {
    /// One line, without its line feed.
    pub(super) line: usize,
    /// All of its lines.
    pub(super) batch: usize,
    /// A sidecar, encoded.
    sidecar: usize,
}

impl CommandLimits {
    pub(super) fn of(options: &StoreOptions) -> Self {
        Self {
            line: options.max_line_bytes,
            batch: options.max_batch_bytes,
            sidecar: options.max_sidecar_bytes(),
        }
    }

    fn of_lines(self) -> LineLimits {
        LineLimits {
            line: self.line,
            batch: self.batch,
        }
    }

    /// The limits of an imported whole session: it is prepared in a file, and so stands in no
    /// record.
    fn of_a_whole_session(self) -> Self {
        Self {
            batch: usize::MAX,
            ..self
        }
    }
}

impl StoreHandle {
    /// Refuses a summary over the limit of a line, as [`set_summary`](Self::set_summary) does.
    ///
    /// # Errors
    /// `MessageTooLarge`.
    pub(crate) fn check_summary(&self, summary: &str) -> Result<()> {
        lines::check_summary(summary, self.limits.line)
    }

    /// Refuses a sidecar over the limit.
    ///
    /// # Errors
    /// `MessageTooLarge`.
    pub(crate) fn check_sidecar(&self, meta: &SessionMeta) -> Result<()> {
        let size = session_file::encoded_sidecar_len(meta);
        check_size(Oversized::Sidecar, size, self.limits.sidecar)
    }

    /// Refuses messages if one of them, encoded as a line, is over the limit; `now` is the time of
    /// those that have none.
    ///
    /// # Errors
    /// `MessageTooLarge`, without messages.
    pub(crate) fn check_lines(&self, messages: &[Message], now: &str) -> Result<()> {
        for message in messages.iter().filter(|message| !message.is_transient()) {
            let size = session_file::encode(message, Some(now)).len();
            check_size(Oversized::Message, size, self.limits.line)?;
        }
        Ok(())
    }

    /// As [`set_history`](Self::set_history), for a session of any length. It is prepared in a file
    /// and takes effect in one step, as every history does, so its contents pass through no journal
    /// record.
    pub(crate) fn import_history(&self, key: &str, messages: Vec<Message>) -> Reply<()> {
        self.replace_history(key, messages, None, self.limits.of_a_whole_session())
    }

    /// Refuses a system prompt over the limit of a line.
    ///
    /// # Errors
    /// `MessageTooLarge`.
    pub(crate) fn check_prompt(&self, prompt: &str) -> Result<()> {
        lines::prompt(prompt, self.limits.line).map(drop)
    }
}

pub(super) struct EncodedLines {
    pub(super) bytes: Vec<u8>,
    pub(super) count: u32,
}

/// As [`encode`], for a message that is only text.
pub(super) fn encode_text(
    role: &str,
    text: &str,
    max: CommandLimits,
    engine: &Engine,
) -> Result<EncodedLines> {
    session_file::check_role(role)?;
    let now = StampText::of(engine.shared.clock.now());
    let mut bytes = emptied::buffer();
    session_file::encode_text_onto(role, text, now.as_str(), &mut bytes);
    check_size(Oversized::Message, bytes.len(), max.line)?;
    bytes.push(b'\n');
    check_size(Oversized::Batch, bytes.len(), max.batch)?;
    Ok(EncodedLines { bytes, count: 1 })
}

/// Encodes messages to be stored; those without a time get the current time.
pub(super) fn encode(
    messages: &[Message],
    max: CommandLimits,
    engine: &Engine,
) -> Result<EncodedLines> {
    let now = StampText::of(engine.shared.clock.now());
    let (mut bytes, limits) = (emptied::buffer(), max.of_lines());
    let count = lines::encode(messages, now.as_str(), limits, &mut bytes, |_, _| {})?;
    Ok(EncodedLines { bytes, count })
}
