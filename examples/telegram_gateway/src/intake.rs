//! Storing a message before Telegram forgets it.
//!
//! Telegram forgets an update when it is asked for later ones. `teloxide`'s polling asks as soon
//! as the last update of a batch was taken from it, whether or not a handler has begun. A process
//! that dies between would lose those messages. [`StoreFirst`] stands between: it stores each
//! message durably, and only then takes the next update from the polling.

use std::sync::Arc;

use futures_util::StreamExt;
use futures_util::stream::BoxStream;
use teloxide::stop::StopToken;
use teloxide::types::{AllowedUpdate, Update};
use teloxide::update_listeners::{AsUpdateStream, Polling, UpdateListener};
use teloxide::{Bot, RequestError};

use crate::gateway::Gateway;

/// A listener whose messages are in the store when they come out of it. It ends if the store
/// takes no more.
pub struct StoreFirst {
    polling: Polling<Bot>,
    gateway: Arc<Gateway>,
}

impl StoreFirst {
    /// Puts the store between the polling and the handlers.
    #[must_use]
    pub fn new(polling: Polling<Bot>, gateway: Arc<Gateway>) -> Self {
        Self { polling, gateway }
    }
}

impl<'a> AsUpdateStream<'a> for StoreFirst {
    type StreamErr = RequestError;
    type Stream = BoxStream<'a, Result<Update, RequestError>>;

    fn as_stream(&'a mut self) -> Self::Stream {
        let gateway = &self.gateway;
        let updates = self.polling.as_stream();
        // An update at a time: the next one is not asked for before this one is stored.
        let stored = updates.scan((), move |(), update| async move {
            let is_stored = match &update {
                Ok(update) => gateway.take(update).await,
                Err(_) => true,
            };
            is_stored.then_some(update)
        });
        stored.boxed()
    }
}

impl UpdateListener for StoreFirst {
    type Err = RequestError;

    fn stop_token(&mut self) -> StopToken {
        self.polling.stop_token()
    }

    fn hint_allowed_updates(&mut self, hint: &mut dyn Iterator<Item = AllowedUpdate>) {
        self.polling.hint_allowed_updates(hint);
    }
}
