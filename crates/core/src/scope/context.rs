//! The input from a platform about an inbound message, and a gateway's policy.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize};

/// A platform's information about an inbound message. Every field may be empty and of any length:
/// no content is refused. With serde, unknown fields are ignored, since platforms send more than is
/// used here.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct InboundContext {
    /// The platform, such as `telegram`; `unknown` if empty.
    #[serde(deserialize_with = "or_default")]
    pub channel: String,
    /// The bot's account on the platform; `default` if empty.
    #[serde(deserialize_with = "or_default")]
    pub account: String,
    /// The chat.
    #[serde(deserialize_with = "or_default")]
    pub chat_id: String,
    /// The kind of chat, such as `direct` or `group`. An empty one counts as
    /// `direct` in a scope, and as `unknown` in an alias.
    #[serde(deserialize_with = "or_default")]
    pub chat_type: String,
    /// The topic or thread within the chat.
    #[serde(deserialize_with = "or_default")]
    pub topic_id: String,
    /// The workspace, team or server that the chat belongs to.
    #[serde(deserialize_with = "or_default")]
    pub space_id: String,
    /// The kind of space; `space` if empty.
    #[serde(deserialize_with = "or_default")]
    pub space_type: String,
    /// The id of the message's sender.
    #[serde(deserialize_with = "or_default")]
    pub sender_id: String,
}

/// The dimensions that separate a gateway's conversations.
///
/// With serde, unknown fields are ignored and missing ones empty, as PicoClaw reads its
/// configuration: a misspelt `dimensions` makes all conversations of an account one. A program that
/// reads a file written by people should refuse both, as the example `bot_gateway` does.
///
/// ```
/// let policy: sessionlog::scope::SessionPolicy = serde_json::from_str(
///     r#"{"dimensions": ["chat", "sender"], "identity_links": {"alice": ["telegram:99", "slack:U7"]}}"#,
/// )?;
/// assert_eq!(policy.dimensions, ["chat", "sender"]);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SessionPolicy {
    /// `space`, `chat`, `topic` and `sender`, in the order in which they stand in a scope; other
    /// spellings are ignored. With none, all conversations of an agent on one account of a channel
    /// are one.
    #[serde(deserialize_with = "or_default")]
    pub dimensions: Vec<String>,
    /// The ids under which one person appears, by the person's name. An id is
    /// `channel:id`, or `id` alone for every channel.
    #[serde(deserialize_with = "or_default")]
    pub identity_links: BTreeMap<String, Vec<String>>,
}

/// A `null` counts as missing.
fn or_default<'de, D: Deserializer<'de>, T: Deserialize<'de> + Default>(
    deserializer: D,
) -> Result<T, D::Error> {
    Option::deserialize(deserializer).map(Option::unwrap_or_default)
}
