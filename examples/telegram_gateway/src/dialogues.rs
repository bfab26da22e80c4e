//! The state of `teloxide`'s dialogues, kept in the store.

use std::marker::PhantomData;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use serde::Serialize;
use serde::de::DeserializeOwned;
use sessionlog::{Keep, Message, StoreHandle, Update};
use teloxide::dispatching::dialogue::Storage;
use teloxide::types::ChatId;

/// A [`Storage`] over sessions. Each dialogue is a session of its own. Its newest message is the
/// state as JSON, as durable as every message of the store.
pub struct SessionDialogues<D> {
    chats: StoreHandle,
    state: PhantomData<fn() -> D>,
}

/// Why a dialogue's state could not be read or written.
#[derive(Debug)]
pub enum DialogueError {
    /// The store refused.
    Store(sessionlog::Error),
    /// The state is no JSON of its type.
    State(serde_json::Error),
    /// There is no dialogue to remove.
    NotFound,
}

impl<D> SessionDialogues<D> {
    /// Keeps dialogues in this store, beside the conversations.
    #[must_use]
    pub fn new(chats: StoreHandle) -> Arc<Self> {
        let state = PhantomData;
        Arc::new(Self { chats, state })
    }

    /// Returns the key of a chat's dialogue.
    #[must_use]
    pub fn key(chat: ChatId) -> String {
        format!("dialogue:telegram:{chat}")
    }
}

impl<D: Serialize + DeserializeOwned + 'static> Storage<D> for SessionDialogues<D> {
    type Error = DialogueError;

    fn remove_dialogue(self: Arc<Self>, chat: ChatId) -> BoxFuture<'static, Result<(), Self::Error>>
    where
        D: Send + 'static,
    {
        Box::pin(async move {
            let key = Self::key(chat);
            if !self.chats.exists(&key).await? {
                return Err(DialogueError::NotFound);
            }
            Ok(self.chats.delete_session(&key).await?)
        })
    }

    fn update_dialogue(
        self: Arc<Self>,
        chat: ChatId,
        dialogue: D,
    ) -> BoxFuture<'static, Result<(), Self::Error>>
    where
        D: Send + 'static,
    {
        Box::pin(async move {
            let state = serde_json::to_string(&dialogue).map_err(DialogueError::State)?;
            // One commit: the new state is there and the old one is hidden, or neither.
            let update = Update::new()
                .keep(Keep::Last(0))
                .append(Message::new("state", state));
            self.chats.update(&Self::key(chat), update).await?;
            Ok(())
        })
    }

    fn get_dialogue(
        self: Arc<Self>,
        chat: ChatId,
    ) -> BoxFuture<'static, Result<Option<D>, Self::Error>> {
        Box::pin(async move {
            let newest = self.chats.tail(&Self::key(chat), 1).await?;
            let state = newest
                .first()
                .map(|state| serde_json::from_str(&state.text()));
            state.transpose().map_err(DialogueError::State)
        })
    }
}

impl From<sessionlog::Error> for DialogueError {
    fn from(error: sessionlog::Error) -> Self {
        Self::Store(error)
    }
}

impl std::fmt::Display for DialogueError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Store(error) => error.fmt(f),
            Self::State(error) => write!(f, "the state of a dialogue: {error}"),
            Self::NotFound => f.write_str("there is no such dialogue"),
        }
    }
}

impl std::error::Error for DialogueError {}
