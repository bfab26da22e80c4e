//! The conversation of a single `context.jsonl`, as kimi-cli keeps it.
//!
//! The files are kimi-cli's: `context.jsonl`, older versions as `context_<n>.jsonl`, and
//! `.context.jsonl.new` for a file that is not yet in place. Lines end in LF, CR LF or CR. They are
//! read as Python and pydantic read them (`disk::session_file::kimi`) and written as these write
//! them. A writer holds flock(2) on the file itself, and locks the new file before it gets the
//! name: there is no lock file beside it. Neither a context nor an export writes where
//! `.sessionlog/identity` exists (`Error::InStore`): data that a store acknowledged would be lost.
//!
//! # What a crash leaves
//!
//! * *Append* (one write at the end, one sync). Unfinished: a torn last line, or zeros;
//!   the next append begins a line of its own. The first messages of a batch may be
//!   there. After: the record.
//! * *Revert and clear* (a copy under the next number, the new file under a hidden name,
//!   both synced, then renamed over the old). Unfinished: the old file, perhaps with a
//!   copy, or part of one, beside it; the next revert replaces the hidden file. After:
//!   the new file, with the old one beside it.

mod backing;
mod conversation;
mod rotation;
#[cfg(test)]
mod tests;

use std::path::PathBuf;
use std::sync::Arc;

use sessionlog_core::error::{Error, Result};
use sessionlog_core::messages::Messages;
use sessionlog_core::session_file::kimi::{KimiRecord, encode};
use sessionlog_wal::storage::Storage;
use sessionlog_wal::sync::Mutex;

use self::backing::Backing;
use self::conversation::ContextConversation;
use crate::Message;
use crate::front::handle::blocking;
use crate::front::reply::Reply;

pub(crate) use self::backing::{create, file_name, is_store, outside_stores, parent, read_all};
pub(crate) use self::conversation::{lines, raw_lines};
pub(crate) use self::rotation::next as next_rotation;

/// See [`Context`](crate::Context).
///
/// The lock is held across the file's I/O: a file has one order of writes, and only its own callers
/// wait for it.
#[derive(Clone)]
pub(crate) struct FileContext {
    opened: Arc<Mutex<OpenContext>>,
}

impl std::fmt::Debug for FileContext {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FileContext").finish_non_exhaustive()
    }
}

/// A context file and the conversation read from it.
#[derive(Debug)]
struct OpenContext {
    backing: Backing,
    conversation: ContextConversation,
    /// True if the conversation is that of the file as opened, and no caller has asked for it yet.
    untouched: bool,
}

impl FileContext {
    pub(crate) fn open(storage: Arc<dyn Storage>, path: PathBuf) -> Result<Self> {
        let mut backing = Backing::new(storage, path);
        let conversation = ContextConversation::of(&backing.read()?.unwrap_or_default());
        let opened = OpenContext {
            backing,
            conversation,
            untouched: true,
        };
        Ok(Self {
            opened: Arc::new(Mutex::new(opened)),
        })
    }

    pub(crate) fn restore(&self) -> Reply<bool> {
        self.run(OpenContext::restore)
    }

    pub(crate) fn append_message(&self, messages: Messages) -> Reply<()> {
        self.run(move |opened| opened.append(messages.as_slice()))
    }

    pub(crate) fn update_token_count(&self, token_count: i64) -> Reply<()> {
        self.run(move |opened| {
            opened.catch_up()?;
            opened.write(&encode::usage(token_count))?;
            opened.conversation.count(token_count);
            Ok(())
        })
    }

    pub(crate) fn checkpoint(&self, add_user_message: bool) -> Reply<i64> {
        self.run(move |opened| opened.checkpoint(add_user_message))
    }

    pub(crate) fn revert_to(&self, id: i64) -> Reply<()> {
        self.run(move |opened| opened.revert_to(id))
    }

    pub(crate) fn clear(&self) -> Reply<()> {
        self.run(|opened| {
            if let Some(old) = opened.backing.read_locked()? {
                opened.backing.replace(b"", Some(&old))?;
            }
            opened.conversation = ContextConversation::default();
            opened.untouched = false;
            Ok(())
        })
    }

    pub(crate) fn write_system_prompt(&self, prompt: &str) -> Reply<()> {
        let prompt = prompt.to_owned();
        self.run(move |opened| opened.write_system_prompt(prompt))
    }

    pub(crate) fn history(&self) -> Reply<Vec<Message>> {
        self.read(|conversation| conversation.history.clone())
    }

    pub(crate) fn token_count(&self) -> Reply<i64> {
        self.read(|conversation| conversation.token_count)
    }

    pub(crate) fn token_count_with_pending(&self) -> Reply<i64> {
        self.read(ContextConversation::token_count_with_pending)
    }

    pub(crate) fn n_checkpoints(&self) -> Reply<i64> {
        self.read(ContextConversation::n_checkpoints)
    }

    pub(crate) fn system_prompt(&self) -> Reply<Option<String>> {
        self.read(|conversation| conversation.system_prompt.clone())
    }

    pub(crate) fn usage_history(&self) -> Reply<Vec<i64>> {
        self.read(|conversation| conversation.usage.clone())
    }

    fn read<T: Send + 'static>(
        &self,
        read: impl FnOnce(&ContextConversation) -> T + Send + 'static,
    ) -> Reply<T> {
        self.run(move |opened| Ok(read(&opened.conversation)))
    }

    /// Does `work` once the reply is asked for, on a thread where it may block.
    fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut OpenContext) -> Result<T> + Send + 'static,
    ) -> Reply<T> {
        let opened = self.opened.clone();
        Reply::lookup(move |place| Box::pin(blocking(place, move || work(&mut opened.lock()))))
    }
}

impl OpenContext {
    fn restore(&mut self) -> Result<bool> {
        if !self.untouched && !self.conversation.history.is_empty() {
            return Err(Error::AlreadyRestored);
        }
        let bytes = self.backing.read()?.unwrap_or_default();
        if bytes.is_empty() {
            if self.untouched {
                self.conversation = ContextConversation::default();
            }
            return Ok(false);
        }
        self.conversation = ContextConversation::of(&bytes);
        self.untouched = false;
        Ok(true)
    }

    fn append(&mut self, messages: &[Message]) -> Result<()> {
        let mut lines = String::new();
        let mut read_back = Vec::new();
        for message in messages {
            let (line, message) = encode::encode(message)?;
            lines.push_str(&line);
            lines.push('\n');
            read_back.push(message);
        }
        if read_back.is_empty() {
            return Ok(());
        }
        self.catch_up()?;
        self.backing.append(lines.as_bytes())?;
        self.untouched = false;
        for message in read_back {
            self.conversation.push(message);
        }
        Ok(())
    }

    fn checkpoint(&mut self, add_user_message: bool) -> Result<i64> {
        self.catch_up()?;
        let id = self.conversation.next_checkpoint();
        let mut lines = encode::checkpoint(id);
        let mut told = None;
        if add_user_message {
            let message = Message::user(format!("<system>CHECKPOINT {id}</system>"));
            lines.push('\n');
            lines.push_str(&message.to_kimi_json());
            told = Some(message);
        }
        self.write(&lines)?;
        self.conversation.take(KimiRecord::Checkpoint(id));
        if let Some(message) = told {
            self.conversation.push(message);
        }
        Ok(id)
    }

    fn revert_to(&mut self, id: i64) -> Result<()> {
        self.catch_up()?;
        let old = self.backing.read_locked()?.unwrap_or_default();
        // Another program's checkpoints count once they were restored.
        let next = self.conversation.n_checkpoints();
        let known = self.conversation.checkpoints.contains(&id) && (id < next || next == i64::MAX);
        let found = known.then(|| conversation::revert(&old, id)).flatten();
        let reverted = found.ok_or_else(|| conversation::not_found(&old, id))?;
        self.backing.replace(&reverted.bytes, Some(&old))?;
        self.untouched = false;
        self.conversation = reverted.conversation;
        Ok(())
    }

    fn write_system_prompt(&mut self, prompt: String) -> Result<()> {
        self.catch_up()?;
        let line = encode::system_prompt(&prompt);
        let old = self.backing.read_locked()?.unwrap_or_default();
        match conversation::with_prompt_in_front(&old, &line) {
            Some(bytes) if !old.is_empty() => {
                self.backing.replace(&bytes, None)?;
                self.untouched = false;
            }
            _ => self.write(&line)?,
        }
        self.conversation.system_prompt = Some(prompt);
        Ok(())
    }

    /// Continues with the checkpoints of a writer that used the file before this context held it:
    /// if two had the same id, a revert would find the first. Other lines of that writer stay
    /// unknown until they are restored, as in kimi-cli.
    fn catch_up(&mut self) -> Result<()> {
        if let Some(bytes) = self.backing.catch_up()? {
            let found = ContextConversation::of(&bytes);
            if found.n_checkpoints() > self.conversation.n_checkpoints() {
                self.conversation.checkpoints = found.checkpoints;
            }
        }
        Ok(())
    }

    fn write(&mut self, lines: &str) -> Result<()> {
        self.backing.append(format!("{lines}\n").as_bytes())?;
        self.untouched = false;
        Ok(())
    }
}
