//! The state of a conversation from the lines of a context file.

use std::borrow::Cow;

use sessionlog_core::error::Error;
use sessionlog_core::session_file::kimi::{self, KimiRecord};
use sessionlog_core::session_file::{self, free_checkpoint};

use crate::Message;

/// The state of a conversation.
#[derive(Clone, Default)]
pub(super) struct ContextConversation {
    pub(super) history: Vec<Message>,
    pub(super) token_count: i64,
    /// Characters of the texts since the last token count. The number of characters is kept, not
    /// the estimate: rounded down for each message, the sum would differ from that of the same file
    /// when it is opened again.
    pending: usize,
    /// The ids of the checkpoints, oldest first.
    pub(super) checkpoints: Vec<i64>,
    pub(super) system_prompt: Option<String>,
    /// Every token count, oldest first.
    pub(super) usage: Vec<i64>,
}

/// Shows nothing of the messages: the output ends up in logs, and reading them would take time.
impl std::fmt::Debug for ContextConversation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Conversation")
            .field("messages", &self.history.len())
            .finish_non_exhaustive()
    }
}

impl ContextConversation {
    pub(super) fn of(bytes: &[u8]) -> Self {
        let mut conversation = Self::default();
        for line in lines(bytes) {
            conversation.take(kimi::decode(&line));
        }
        conversation
    }

    pub(super) fn take(&mut self, record: KimiRecord) {
        match record {
            KimiRecord::Blank | KimiRecord::Rejected | KimiRecord::Foreign => {}
            KimiRecord::Usage(token_count) => self.count(token_count),
            KimiRecord::Checkpoint(id) | KimiRecord::LostCheckpoint(id) => {
                self.checkpoints.push(id);
            }
            KimiRecord::SystemPrompt(prompt) => self.system_prompt = Some(prompt),
            KimiRecord::Message(message) => self.push(*message),
        }
    }

    pub(super) fn push(&mut self, message: Message) {
        self.pending += message.text().chars().count();
        self.history.push(message);
    }

    pub(super) fn count(&mut self, token_count: i64) {
        self.token_count = token_count;
        self.pending = 0;
        self.usage.push(token_count);
    }

    /// The number of checkpoints as kimi-cli counts them: one more than the last id.
    pub(super) fn n_checkpoints(&self) -> i64 {
        let last = self.checkpoints.last();
        last.map_or(0, |id| id.saturating_add(1))
    }

    /// The id of the next checkpoint: the same as in kimi-cli, unless the last id is the greatest
    /// number.
    pub(super) fn next_checkpoint(&self) -> i64 {
        match self.n_checkpoints() {
            i64::MAX => free_checkpoint(&self.checkpoints.iter().copied()),
            next => next,
        }
    }

    pub(super) fn token_count_with_pending(&self) -> i64 {
        let pending = i64::try_from(self.pending / 4).unwrap_or(i64::MAX);
        self.token_count.saturating_add(pending)
    }
}

/// The rest of a file that is reverted to a checkpoint.
pub(super) struct FileRest {
    pub(super) bytes: Vec<u8>,
    pub(super) conversation: ContextConversation,
}

/// Reverts a file to its state before checkpoint `id`: keeps the lines that count, unchanged, up to
/// its record.
///
/// `None` if `id` does not exist.
pub(super) fn revert(file: &[u8], id: i64) -> Option<FileRest> {
    let mut reverted = FileRest {
        bytes: Vec::new(),
        conversation: ContextConversation::default(),
    };
    for line in lines(file) {
        let record = kimi::decode(&line);
        match record {
            KimiRecord::Blank | KimiRecord::Rejected => continue,
            KimiRecord::Checkpoint(found) if found == id => return Some(reverted),
            _ => {}
        }
        reverted.bytes.extend_from_slice(line.as_bytes());
        reverted.bytes.push(b'\n');
        reverted.conversation.take(record);
    }
    None
}

/// The error for a file that cannot be reverted to checkpoint `id`.
pub(super) fn not_found(file: &[u8], id: i64) -> Error {
    let (mut existing, mut lost) = (Vec::new(), false);
    for line in lines(file) {
        match kimi::decode(&line) {
            KimiRecord::Checkpoint(found) => existing.push(found.into()),
            KimiRecord::LostCheckpoint(upto) => lost |= (0..=upto).contains(&id),
            _ => {}
        }
    }
    let id = id.into();
    Error::CheckpointNotFound { id, existing, lost }
}

/// The file with `line`, a system prompt, in front, where kimi-cli reads it first; `None` if the
/// file holds a prompt already. The line then belongs at the end, since the last prompt counts.
pub(super) fn with_prompt_in_front(file: &[u8], line: &str) -> Option<Vec<u8>> {
    let holds_one =
        lines(file).any(|line| matches!(kimi::decode(&line), KimiRecord::SystemPrompt(_)));
    if holds_one {
        return None;
    }
    let mut bytes = Vec::with_capacity(line.len() + 1 + file.len());
    bytes.extend_from_slice(line.as_bytes());
    bytes.push(b'\n');
    let mut rest = session_file::without_mark(file);
    while let Some(end) = memchr::memchr(b'\r', rest) {
        bytes.extend_from_slice(&rest[..end]);
        bytes.push(b'\n');
        rest = &rest[end + 1..];
        rest = rest.strip_prefix(b"\n").unwrap_or(rest);
    }
    bytes.extend_from_slice(rest);
    Some(bytes)
}

/// The lines of a file as Python reads them: ended by LF, CR LF or CR, with invalid UTF-8 replaced.
/// A byte order mark is not part of the first line.
pub(crate) fn lines(file: &[u8]) -> impl Iterator<Item = Cow<'_, str>> {
    raw_lines(file).map(String::from_utf8_lossy)
}

/// [`lines`] as bytes.
pub(crate) fn raw_lines(file: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = session_file::without_mark(file);
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let end = memchr::memchr2(b'\n', b'\r', rest).unwrap_or(rest.len());
        let line = &rest[..end];
        rest = &rest[end..];
        rest = match rest {
            [b'\r', b'\n', after @ ..] | [_, after @ ..] => after,
            [] => rest,
        };
        Some(line)
    })
}
