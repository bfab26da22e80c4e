//! The places where a conversation may be cut: no tool result may lose its call.

use std::collections::BTreeMap;

use super::Message;

/// Walks back through messages and finds where turns begin: at a message of a user such that no
/// result after it answers a call before it.
///
/// Only when the first message is reached is it known that a result has no call. So each message of
/// a user counts until an older call is met that a newer result answers. A result without a call
/// belongs to no turn and ends none.
#[derive(Debug)]
pub struct Turns<T> {
    /// Possible begins of turns, newest first.
    begins: Vec<T>,
    /// The results without a call so far, by call id, each with the number of `begins` that are
    /// newer.
    open: BTreeMap<String, usize>,
}

impl<T> Default for Turns<T> {
    fn default() -> Self {
        Self {
            begins: Vec::new(),
            open: BTreeMap::new(),
        }
    }
}

impl<T> Turns<T> {
    /// Takes in the message before those taken in. `begin` is the value for a turn that begins with
    /// it; `None` if no turn may begin there.
    pub fn take_back(&mut self, message: &Message, begin: Option<T>) {
        if let Some(id) = answered_call(message) {
            let newer = self.begins.len();
            self.open.entry(id.to_owned()).or_insert(newer);
        }
        self.take_calls(message);
        if message.role() == "user" {
            self.begins.extend(begin);
        }
    }

    /// Takes in the calls of an older message in which no turn may begin.
    pub fn take_calls(&mut self, message: &Message) {
        for call in message.tool_calls() {
            if let Some(newer) = self.open.remove(&call.id) {
                self.begins.truncate(newer);
            }
        }
    }

    /// Returns true while an older message may still show that a turn begins elsewhere.
    #[must_use]
    pub fn is_open(&self) -> bool {
        !self.open.is_empty()
    }

    /// The newest begin of a turn.
    #[must_use]
    pub fn newest(&self) -> Option<&T> {
        self.begins.first()
    }

    /// The oldest begin of a turn.
    #[must_use]
    pub fn oldest(&self) -> Option<&T> {
        self.begins.last()
    }
}

/// The id of the call that a message answers, if it is a tool's result. The id may be empty.
#[must_use]
pub fn answered_call(message: &Message) -> Option<&str> {
    let id = message.tool_call_id();
    (message.role() == "tool" || !id.is_empty()).then_some(id)
}
