//! The beginning of a conversation, for providers that demand the user first.

use super::export::{Export, Opening};
use super::turn::is_models;
use crate::session_file::Message;

/// The user's first message where the assistant began.
pub(super) const PLACEHOLDER: &str = "[The assistant begins.]";

/// Puts a placeholder before the first message if that is the assistant's, or leaves out all
/// messages before the user's first. System messages stay where they are.
pub(super) fn prepare(messages: &mut Vec<(usize, Message)>, opening: Opening, export: &mut Export) {
    let is_aside = |message: &Message| matches!(message.role(), "system" | "developer");
    let is_sent = |message: &Message| {
        let is_tools = !message.tool_calls().is_empty() || !message.tool_call_id().is_empty();
        is_tools || message.says_something()
    };
    let mut places = messages.iter();
    let first = places.position(|(_, message)| !is_aside(message) && is_sent(message));
    let Some(first) = first.filter(|first| !is_users(&messages[*first].1)) else {
        return;
    };
    if opening == Opening::Placeholder {
        let at = messages[first].0;
        messages.insert(first, (at, Message::user(PLACEHOLDER)));
        return;
    }
    let mut is_begun = false;
    messages.retain(|(at, message)| {
        is_begun |= is_users(message);
        let stays = is_begun || is_aside(message);
        if !stays {
            export.leave_out(*at, "a message before the user's first");
        }
        stays
    });
}

fn is_users(message: &Message) -> bool {
    let is_result = crate::session_file::answered_call(message).is_some();
    !is_result && !is_models(message.role()) && message.says_something()
}

/// Removes the placeholder again.
pub(super) fn remove(messages: &mut Vec<Message>) {
    let first = messages
        .iter()
        .position(|message| message.role() != "system");
    if let Some(first) = first.filter(|at| messages[*at].text() == PLACEHOLDER) {
        messages.remove(first);
    }
}
