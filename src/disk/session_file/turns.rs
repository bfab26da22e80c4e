//! Where a conversation may be cut: no tool's result without the call that asked for it.

use std::collections::BTreeSet;

use super::Message;

/// The results met, walking back through messages, whose calls were not.
#[derive(Debug, Default)]
pub(crate) struct Turns {
    open: BTreeSet<String>,
}

impl Turns {
    /// Takes in the message before those taken in. Whether a turn begins with it: it is a
    /// user's, and nothing from it on answers a call before it.
    pub(crate) fn take_back(&mut self, message: &Message) -> bool {
        let answered = message.tool_call_id();
        // Without ids, any call may be the one.
        if message.role() == "tool" || !answered.is_empty() {
            self.open.insert(answered.to_owned());
        }
        for call in message.tool_calls() {
            self.open.remove(&call.id);
        }
        self.open.is_empty() && message.role() == "user"
    }
}
