//! What an update says.

use crate::error::Version;
use crate::front::context::Messages;
use crate::{Keep, Message, Update};

/// What an [`Update`] says.
#[derive(Clone, Debug, Default)]
pub struct UpdateWords {
    /// The version that the session must be at.
    pub expect: Option<Version>,
    /// What is appended.
    pub messages: Vec<Message>,
    /// What replaces the summary.
    pub summary: Option<String>,
    /// How much stays of what was there before.
    pub keep: Option<Keep>,
    /// How many tokens the conversation has.
    pub tokens: Option<i64>,
}

/// What an update says.
#[must_use]
pub fn update_parts(update: Update) -> UpdateWords {
    UpdateWords {
        expect: update.expect,
        messages: update.messages.0,
        summary: update.summary,
        keep: update.keep,
        tokens: update.tokens,
    }
}

/// The messages that a caller gave.
#[must_use]
pub fn messages(messages: impl Into<Messages>) -> Vec<Message> {
    messages.into().0
}
