//! Messages made from others, for handing them on: the store itself never changes a message.

use std::borrow::Cow;

use super::message::{Message, intern};
use super::parts::ToolCall;
use super::raw::RawField;
use super::timestamp;

impl Message {
    /// The same message with other calls.
    pub(crate) fn with_calls(mut self, calls: Vec<ToolCall>) -> Self {
        self.tool_calls = calls;
        self
    }

    /// The same message of another role.
    pub(crate) fn with_role(mut self, role: &str) -> Self {
        self.role = intern(Cow::Borrowed(role));
        self
    }

    /// The same message as the answer to another call.
    #[doc(hidden)]
    #[must_use]
    pub fn answering(mut self, call_id: &str) -> Self {
        call_id.clone_into(&mut self.tool_call_id);
        self
    }

    /// The same message with the value of an unknown field as JSON text, or without it.
    pub(crate) fn with_field(mut self, name: &str, value: Option<&str>) -> Self {
        self.unknown.retain(|field| &*field.name != name);
        self.unknown
            .extend(value.map(|value| RawField::new(name, value)));
        self
    }

    /// The same message, with the time and the model of `other`.
    pub(crate) fn dated_as(mut self, other: &Self) -> Self {
        self.created_at.clone_from(&other.created_at);
        self.model_name.clone_from(&other.model_name);
        self
    }

    /// The same message with `time`, if that is a valid time and the message has none.
    #[doc(hidden)]
    #[must_use]
    pub fn dated(mut self, time: Option<&str>) -> Self {
        if self.created_at.is_none() {
            self.created_at = time.and_then(timestamp::canonical).map(Into::into);
        }
        self
    }
}

impl ToolCall {
    /// The value, as JSON text, of a field that this crate does not know.
    pub(crate) fn unknown_field(&self, name: &str) -> Option<&str> {
        let mut fields = self.unknown.iter().rev();
        let field = fields.find(|field| &*field.name == name)?;
        Some(&field.value)
    }
}
