//! The conversation of a session of a store.

use std::io;
use std::path::Path;

use sessionlog_core::error::Error;

use super::Messages;
use crate::engine::reader;
use crate::engine::shard::verbs::clear::Clear;
use crate::engine::shard::verbs::note::{Checkpoint, SystemPrompt};
use crate::engine::shard::verbs::revert::Revert;
use crate::engine::shard::verbs::update::Update;
use crate::engine::snapshot::ConversationMoment;
use crate::engine::stats::Counters;
use crate::front::reply::Reply;
use crate::{BackupReason, Message, StoreHandle};

/// See [`Context`](super::Context).
#[derive(Clone, Debug)]
pub(super) struct SessionContext {
    handle: StoreHandle,
    key: String,
}

impl SessionContext {
    pub(super) fn new(handle: StoreHandle, key: &str) -> Self {
        Self {
            handle,
            key: key.into(),
        }
    }

    pub(super) fn restore(&self) -> Reply<bool> {
        self.look(|looked, _| Ok(looked.lines > 0))
    }

    pub(super) fn append_message(&self, messages: Messages) -> Reply<()> {
        self.handle.append_all(&self.key, messages.into())
    }

    pub(super) fn update_token_count(&self, token_count: i64) -> Reply<()> {
        let count = Update {
            tokens: Some(token_count),
            level: self.handle.level(),
            ..Update::default()
        };
        self.handle.ask(&self.key, count)
    }

    pub(super) fn checkpoint(&self, add_user_message: bool) -> Reply<i64> {
        let checkpoint = Checkpoint {
            message: add_user_message,
            level: self.handle.level(),
        };
        self.handle.ask(&self.key, checkpoint)
    }

    pub(super) fn revert_to(&self, id: i64) -> Reply<()> {
        self.handle.ask(&self.key, Revert { checkpoint: id })
    }

    pub(super) fn clear(&self) -> Reply<()> {
        let reason = BackupReason::Clear;
        self.handle.ask(&self.key, Clear { reason })
    }

    pub(super) fn write_system_prompt(&self, prompt: &str) -> Reply<()> {
        if let Err(error) = self.handle.check_prompt(prompt) {
            return Reply::known(Err(error));
        }
        let prompt = SystemPrompt {
            prompt: prompt.into(),
            level: self.handle.level(),
        };
        self.handle.ask(&self.key, prompt)
    }

    pub(super) fn history(&self) -> Reply<Vec<Message>> {
        self.handle.history(&self.key)
    }

    pub(super) fn token_count(&self) -> Reply<i64> {
        self.look(|looked, _| Ok(looked.now().usage().0))
    }

    pub(super) fn token_count_with_pending(&self) -> Reply<i64> {
        self.look(|looked, counters| {
            let (usage, since) = looked.now().usage();
            let start = looked.start.max(since.unwrap_or(0));
            let mut characters = 0_i64;
            reader::messages_from(looked, start, counters, &mut |message| {
                characters += super::characters(&message);
            })?;
            Ok(usage.saturating_add(super::tokens(characters)))
        })
    }

    pub(super) fn n_checkpoints(&self) -> Reply<i64> {
        self.look(|looked, _| Ok(looked.now().n_checkpoints()))
    }

    pub(super) fn system_prompt(&self) -> Reply<Option<String>> {
        self.look(|looked, _| Ok(looked.now().system_prompt().map(ToString::to_string)))
    }

    pub(super) fn usage_history(&self) -> Reply<Vec<i64>> {
        self.look(|looked, _| Ok(looked.now().usages().collect()))
    }

    /// Reads the state of the conversation.
    fn look<T: Send + 'static>(
        &self,
        read: impl FnOnce(&ConversationMoment, &Counters) -> io::Result<T> + Send + 'static,
    ) -> Reply<T> {
        let counters = self.handle.counters();
        self.handle.looking(&self.key, move |key, looked| {
            read(looked, &counters).map_err(|e| Error::io("read", Path::new(key), e))
        })
    }
}
