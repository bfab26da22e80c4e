//! The conversation of a session of a store.

use super::Messages;
use crate::error::Error;
use crate::reply::Reply;
use crate::{Message, StoreHandle};

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
        Reply::known(Err(Error::ReadOnly))
    }

    pub(super) fn append_message(&self, messages: Messages) -> Reply<()> {
        self.handle.append_all(&self.key, messages.0)
    }

    pub(super) fn update_token_count(&self, _token_count: i64) -> Reply<()> {
        Reply::known(Err(Error::ReadOnly))
    }

    pub(super) fn checkpoint(&self, _add_user_message: bool) -> Reply<i64> {
        Reply::known(Err(Error::ReadOnly))
    }

    pub(super) fn revert_to(&self, _id: i64) -> Reply<()> {
        Reply::known(Err(Error::ReadOnly))
    }

    pub(super) fn clear(&self) -> Reply<()> {
        Reply::known(Err(Error::ReadOnly))
    }

    pub(super) fn write_system_prompt(&self, _prompt: &str) -> Reply<()> {
        Reply::known(Err(Error::ReadOnly))
    }

    pub(super) fn history(&self) -> Reply<Vec<Message>> {
        self.handle.history(&self.key)
    }

    pub(super) fn token_count(&self) -> Reply<i64> {
        Reply::known(Err(Error::ReadOnly))
    }

    pub(super) fn token_count_with_pending(&self) -> Reply<i64> {
        Reply::known(Err(Error::ReadOnly))
    }

    pub(super) fn n_checkpoints(&self) -> Reply<i64> {
        Reply::known(Err(Error::ReadOnly))
    }

    pub(super) fn system_prompt(&self) -> Reply<Option<String>> {
        Reply::known(Err(Error::ReadOnly))
    }

    pub(super) fn usage_history(&self) -> Reply<Vec<i64>> {
        Reply::known(Err(Error::ReadOnly))
    }
}
