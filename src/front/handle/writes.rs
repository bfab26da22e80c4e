//! The verbs that change a session's history and summary, and flushing.

use std::fmt::Debug;

use sessionlog_core::error::{Result, Version};
use sessionlog_core::position::Keep;
use sessionlog_core::rules::lines::hand_back;

use super::lines::{CommandLimits, EncodedLines, encode, encode_text};
use super::{Side, StoreHandle, blocking};
use crate::Message;
use crate::engine::Engine;
use crate::engine::shard::request::Verb;
use crate::engine::shard::verbs::compact::Compact;
use crate::engine::shard::verbs::set_history::SetHistory;
use crate::engine::shard::verbs::summary::SetSummary;
use crate::engine::shard::verbs::update::UpdateOutcome;
use crate::engine::supervisor::SupervisorRequest;
use crate::front::appending::{Appending, To};
use crate::front::reply::Reply;

/// Writing.
impl StoreHandle {
    /// Appends a text message, stamped with the time of the call.
    ///
    /// # Errors
    /// [`Error::InvalidMessage`](crate::Error::InvalidMessage) for a role that starts with `_`,
    /// [`Error::MessageTooLarge`](crate::Error::MessageTooLarge), and the errors all verbs share.
    pub fn add_message(&self, key: &str, role: &str, content: &str) -> Reply<()> {
        self.add_text(key.into(), role, content)
    }

    pub(in crate::front) fn add_text(&self, to: To<'_>, role: &str, content: &str) -> Reply<()> {
        let max = self.limits;
        self.append(to, move |engine| {
            let lines = encode_text(role, content, max, engine);
            lines.map_err(|e| hand_back(e, || vec![Message::new(role, content)]))
        })
    }

    /// Appends a message. A missing `created_at` becomes the time of the call.
    ///
    /// A transient message (an assistant's reasoning and nothing else) is accepted and not stored,
    /// as in PicoClaw.
    ///
    /// ```
    /// # use sessionlog::{Message, Store};
    /// # fn main() -> sessionlog::Result<()> {
    /// # let scratch = tempfile::tempdir().unwrap();
    /// # let store = Store::open(scratch.path())?;
    /// # let chats = store.handle();
    /// let json = br#"{"role":"user","content":"look","media":["media://1/a.png"],"mood":"good"}"#;
    /// chats.add_full_message("slack:T1/C1", Message::from_json(json)?).wait()?;
    /// # store.close()
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`add_message`](Self::add_message).
    pub fn add_full_message(&self, key: &str, message: Message) -> Reply<()> {
        self.add_all(key.into(), [message])
    }

    /// Appends several messages as one: after a crash all of them are there, or none. For messages
    /// that belong together, such as a tool call and its result.
    ///
    /// ```
    /// # use sessionlog::{Message, Store};
    /// # fn main() -> sessionlog::Result<()> {
    /// # let scratch = tempfile::tempdir().unwrap();
    /// # let store = Store::open(scratch.path())?;
    /// # let chats = store.handle();
    /// let turn = vec![
    ///     Message::assistant("").with_tool_call("call_1", "weather", r#"{"city":"Oslo"}"#),
    ///     Message::tool("call_1", "4 degrees, rain"),
    /// ];
    /// chats.append_all("telegram:123", turn).wait()?;
    /// # store.close()
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`add_message`](Self::add_message);
    /// [`Error::MessageTooLarge`](crate::Error::MessageTooLarge) also if the batch exceeds [its
    /// limit](crate::StoreOptions::max_batch_bytes).
    pub fn append_all(&self, key: &str, messages: Vec<Message>) -> Reply<()> {
        self.add_all(key.into(), messages)
    }

    pub(in crate::front) fn add_all(
        &self,
        to: To<'_>,
        messages: impl AsRef<[Message]> + Into<Vec<Message>>,
    ) -> Reply<()> {
        let max = self.limits;
        self.append(to, move |engine| {
            let encoded = encode(messages.as_ref(), max, engine);
            encoded.map_err(|e| hand_back(e, || messages.into()))
        })
    }

    /// Replaces a session's history. Transient messages are left out; a missing `created_at`
    /// becomes the time of the call. Summary, scope and aliases stay; prompt, checkpoints and token
    /// counts of its [conversation](Self::context) go with the lines. Readers see the old history
    /// or the new one. No backup is made. Always durable.
    ///
    /// # Errors
    /// As [`append_all`](Self::append_all).
    pub fn set_history(&self, key: &str, messages: Vec<Message>) -> Reply<()> {
        self.replace_history(key, messages, None, self.limits)
    }

    /// Replaces a session's history as [`set_history`](Self::set_history) does, but only if the
    /// session is at this version, as returned by
    /// [`SessionSnapshot::version`](crate::SessionSnapshot::version). For a history that was read,
    /// changed and is written back. Returns the session's new version. [`Version::ABSENT`] expects
    /// that there is no session.
    ///
    /// ```
    /// use sessionlog::{Error, Message, Store};
    ///
    /// # fn main() -> sessionlog::Result<()> {
    /// # let scratch = tempfile::tempdir().unwrap();
    /// # let store = Store::open(scratch.path())?;
    /// let chats = store.handle();
    /// chats.append_all("cli", vec![Message::user("one"), Message::user("two")]).wait()?;
    ///
    /// let seen = chats.snapshot("cli").wait()?;
    /// let mut history = seen.history().wait()?;
    /// history.remove(0);
    /// chats.add_message("cli", "user", "meanwhile").wait()?;
    /// let refused = chats.set_history_at("cli", seen.version(), history).wait();
    /// assert!(matches!(refused, Err(Error::VersionConflict { .. })));
    /// # store.close()
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`append_all`](Self::append_all), and
    /// [`Error::VersionConflict`](crate::Error::VersionConflict).
    pub fn set_history_at(
        &self,
        key: &str,
        version: Version,
        messages: Vec<Message>,
    ) -> Reply<Version> {
        self.replace_history(key, messages, Some(version), self.limits)
    }

    pub(super) fn replace_history<T: From<UpdateOutcome> + Debug + Send + 'static>(
        &self,
        key: &str,
        messages: Vec<Message>,
        expect: Option<Version>,
        max: CommandLimits,
    ) -> Reply<T> {
        self.encoded(key, move |engine| {
            let encoded = encode(&messages, max, engine);
            let lines = encoded.map_err(|e| hand_back(e, || messages))?;
            Ok(SetHistory::of(lines.bytes, expect))
        })
    }

    /// Replaces a session's summary.
    ///
    /// # Errors
    /// The errors all verbs share, and [`Error::MessageTooLarge`](crate::Error::MessageTooLarge),
    /// without messages, for a summary over the limit of a line, or one that would bring the
    /// sidecar over [its own limit](crate::StoreOptions::max_line_bytes).
    pub fn set_summary(&self, key: &str, summary: &str) -> Reply<()> {
        let (level, fits) = (self.level, self.check_summary(summary));
        let summary = summary.to_owned();
        self.write(key, move |_| {
            fits?;
            Ok(Some(SetSummary { summary, level }))
        })
    }

    /// Hides all but the newest `keep_last` messages. The hidden ones stay in the file, as skipped
    /// lines, until it is compacted. The cost depends on what is kept, not on what is there. Does
    /// nothing to a session that does not exist. Always durable.
    ///
    /// # Errors
    /// The errors all verbs share.
    pub fn truncate_history(&self, key: &str, keep_last: usize) -> Reply<()> {
        self.truncate_to(key, Keep::Last(keep_last))
    }

    /// Rewrites the session's file without its skipped lines. Live lines are copied as bytes,
    /// including those that do not decode. Appends to the session go on meanwhile. The store does
    /// this by itself once skipped lines outnumber live ones, unless
    /// [`auto_compact`](crate::StoreOptions::auto_compact) is off. Does nothing if nothing is
    /// skipped. If a compaction is under way, the reply is that one's, and lines truncated since it
    /// began may stay in the file, skipped.
    ///
    /// The reply arrives when the new file is in place, after the compactions that began before it.
    /// While messages are written, each compaction is followed by a rest of twice its time, at most
    /// 20 ms. Needs space for the new file beside the old one; on a full disk that is the space the
    /// store reserves for this, 1 MiB at most. Always durable.
    ///
    /// # Errors
    /// The errors all verbs share.
    pub fn compact(&self, key: &str) -> Reply<()> {
        self.ask(key, Compact)
    }

    /// Waits until everything acknowledged before is in the session files and sidecars, and those
    /// are on disk, so that other programs find them complete. Acknowledged data survives without a
    /// flush. An idle store begins a flush by itself after about half a second.
    ///
    /// If hundreds of sessions changed and commands keep coming, it rests after each session for
    /// twice the time that session took, at most 1 ms, unless the journal has grown long. If more
    /// than a few sessions changed, or one took a message [once](Self::append_once), it syncs the
    /// whole file system, including what other programs wrote there. Awaited inside a tokio runtime
    /// it blocks a thread of the blocking pool; under another runtime, the thread that polls. Does
    /// nothing on a store opened read-only.
    ///
    /// # Errors
    /// The errors all verbs share, and errors of the session files.
    pub fn flush(&self) -> Reply<()> {
        match &self.side {
            Side::Reader(_) => Reply::known(Ok(())),
            Side::Writer(engine) => {
                let engine = engine.clone();
                Reply::lookup(move |place| {
                    Box::pin(blocking(place, move || {
                        engine.ask(SupervisorRequest::Flush)
                    }))
                })
            }
        }
    }

    /// Submits the verb that `make` returns.
    pub(super) fn encoded<V: Verb>(
        &self,
        key: &str,
        make: impl FnOnce(&Engine) -> Result<V>,
    ) -> Reply<V::Output> {
        let (engine, key) = match self.ready_to_ask(key) {
            Ok(ready) => ready,
            Err(error) => return Reply::known(Err(error)),
        };
        match make(engine) {
            Err(error) => Reply::known(Err(error)),
            Ok(verb) => self.submit(engine, key, verb),
        }
    }

    /// Appends the lines that `make` returns, if any.
    fn append(&self, to: To<'_>, make: impl FnOnce(&Engine) -> Result<EncodedLines>) -> Reply<()> {
        let engine = match self.open_for(to.key) {
            Ok(engine) => engine,
            Err(error) => return Reply::known(Err(error)),
        };
        match make(engine) {
            Err(error) => Reply::known(Err(error)),
            Ok(lines) if lines.count == 0 => Reply::known(Ok(())),
            Ok(lines) => Reply::append(Appending::new(
                engine.clone(),
                (to, self.resolve),
                (lines.bytes, lines.count),
                self.level,
            )),
        }
    }

    /// Submits the verb that `make` returns; `None` means that there is nothing to do.
    pub(super) fn write<V: Verb>(
        &self,
        key: &str,
        make: impl FnOnce(&Engine) -> Result<Option<V>>,
    ) -> Reply<V::Output>
    where
        V::Output: Default,
    {
        let (engine, key) = match self.ready_to_ask(key) {
            Ok(ready) => ready,
            Err(error) => return Reply::known(Err(error)),
        };
        match make(engine) {
            Err(error) => Reply::known(Err(error)),
            Ok(None) => Reply::known(Ok(V::Output::default())),
            Ok(Some(verb)) => self.submit(engine, key, verb),
        }
    }
}
