//! Titles, labels, pins and unknown fields, for a custom store.

use crate::SessionTags;

/// The tags as a JSON object, including unknown fields, as they are; `{}` if there are none. It
/// holds no NUL.
#[must_use]
pub fn encode_tags(tags: &SessionTags) -> String {
    tags.encode()
}

/// The tags of such an object; none if the text is not one.
#[must_use]
pub fn decode_tags(text: &str) -> SessionTags {
    SessionTags::decode(text)
}

/// The tags that a fork of a session begins with: title and labels.
#[must_use]
pub fn tags_of_fork(tags: &SessionTags) -> SessionTags {
    tags.of_a_fork()
}
