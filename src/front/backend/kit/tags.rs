//! Titles, labels, pins and unknown fields, as a store of one's own keeps them.

use crate::SessionTags;

/// The tags as a JSON object, the fields included that this crate does not know, as they are;
/// `{}` if there are none. It holds no NUL.
#[must_use]
pub fn encode_tags(tags: &SessionTags) -> String {
    tags.encode()
}

/// The tags of such an object; none if it is no such object.
#[must_use]
pub fn decode_tags(text: &str) -> SessionTags {
    SessionTags::decode(text)
}

/// The tags that a fork of a session begins with: title and labels.
#[must_use]
pub fn tags_of_fork(tags: &SessionTags) -> SessionTags {
    tags.of_a_fork()
}
