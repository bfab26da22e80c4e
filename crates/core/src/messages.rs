//! Messages that belong together.

use crate::session_file::Message;

/// The argument of verbs that append, such as `StoreHandle::append_once` and
/// `Context::append_message`: one message, an array, a `Vec` or a
/// collected iterator. Several messages are stored all or not at all.
#[derive(Clone, Default)]
pub struct Messages(Vec<Message>);

/// Shows the number of messages, not their text.
impl std::fmt::Debug for Messages {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Messages").field(&self.0.len()).finish()
    }
}

impl From<Message> for Messages {
    fn from(message: Message) -> Self {
        Self(vec![message])
    }
}

impl From<Vec<Message>> for Messages {
    fn from(messages: Vec<Message>) -> Self {
        Self(messages)
    }
}

impl<const N: usize> From<[Message; N]> for Messages {
    fn from(messages: [Message; N]) -> Self {
        Self(messages.into())
    }
}

impl FromIterator<Message> for Messages {
    fn from_iter<I: IntoIterator<Item = Message>>(messages: I) -> Self {
        Self(messages.into_iter().collect())
    }
}

impl Extend<Message> for Messages {
    fn extend<I: IntoIterator<Item = Message>>(&mut self, messages: I) {
        self.0.extend(messages);
    }
}

impl IntoIterator for Messages {
    type Item = Message;
    type IntoIter = std::vec::IntoIter<Message>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl Messages {
    /// The messages, in their order.
    #[must_use]
    pub fn as_slice(&self) -> &[Message] {
        &self.0
    }
}

impl From<Messages> for Vec<Message> {
    fn from(messages: Messages) -> Self {
        messages.0
    }
}
