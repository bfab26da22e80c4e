//! People with several ids.

use std::collections::BTreeMap;

use crate::session_file::fold;

/// The id of a sender as it stands in a scope: the name of the person it is
/// linked to, else the id itself; in lower case, and `""` for a blank one.
#[must_use]
pub fn canonical_session_identity_id(
    channel: &str,
    raw_id: &str,
    identity_links: &BTreeMap<String, Vec<String>>,
) -> String {
    match resolve_linked_peer_id(identity_links, channel, raw_id) {
        Some(name) => fold(name).into_owned(),
        None => fold(raw_id).into_owned(),
    }
}

/// The name of the person that an id is linked to, without the white space around it.
///
/// A link matches the id as it is, with the channel before it, or without the part before its first
/// `:`; case and surrounding white space do not matter. If two people claim the id, the name that
/// sorts first in byte order wins. (PicoClaw takes any of them, another at every call.)
///
/// The part before the `:` need not be a channel, let alone the sender's: a link `100` matches a
/// sender with the self-chosen id `evil:100`, and `telegram:99` matches that id on another
/// platform. If senders choose their ids, use [`resolve_linked_sender`].
///
/// ```
/// use std::collections::BTreeMap;
/// use sessionlog::scope::resolve_linked_peer_id;
///
/// let links = BTreeMap::from([("Alice".to_owned(), vec!["telegram:99".to_owned()])]);
/// assert_eq!(resolve_linked_peer_id(&links, "telegram", "99"), Some("Alice"));
/// assert_eq!(resolve_linked_peer_id(&links, "slack", "99"), None);
/// ```
#[must_use]
pub fn resolve_linked_peer_id<'a>(
    identity_links: &'a BTreeMap<String, Vec<String>>,
    channel: &str,
    peer_id: &str,
) -> Option<&'a str> {
    let (peer, channel) = (fold(peer_id), fold(channel));
    let bare = peer
        .split_once(':')
        .filter(|(before, after)| !before.is_empty() && !after.is_empty())
        .map(|(_, after)| after);
    first_claiming(identity_links, &peer, |id| {
        id == peer || bare == Some(id) || unqualified(id, &channel) == Some(&peer)
    })
}

/// The linked person that a sender is, safe against ids that senders choose for themselves:
/// [`resolve_linked_peer_id`] without the matches through a prefix of the sender's own making.
///
/// A link `channel:id` matches the id on that channel only, a link without `:` the id on every
/// channel. The sender's id may have its own channel before it, and no other. An id that itself
/// holds a `:` is linked with its channel: `matrix:@al:example.org`.
///
/// ```
/// use std::collections::BTreeMap;
/// use sessionlog::scope::{resolve_linked_peer_id, resolve_linked_sender};
///
/// let links = BTreeMap::from([("Alice".to_owned(), vec!["telegram:99".to_owned()])]);
/// assert_eq!(resolve_linked_sender(&links, "telegram", "99"), Some("Alice"));
/// assert_eq!(resolve_linked_sender(&links, "telegram", "telegram:99"), Some("Alice"));
/// assert_eq!(resolve_linked_peer_id(&links, "irc", "telegram:99"), Some("Alice"));
/// assert_eq!(resolve_linked_sender(&links, "irc", "telegram:99"), None);
/// ```
#[must_use]
pub fn resolve_linked_sender<'a>(
    identity_links: &'a BTreeMap<String, Vec<String>>,
    channel: &str,
    sender_id: &str,
) -> Option<&'a str> {
    let (sender, channel) = (fold(sender_id), fold(channel));
    let own = unqualified(&sender, &channel).unwrap_or(&sender);
    first_claiming(identity_links, &sender, |id| {
        match unqualified(id, &channel) {
            Some(id) => id == own || id == sender,
            None => !id.contains(':') && id == own,
        }
    })
}

/// The first person by name with an id that `matches`; `None` for a blank sender.
fn first_claiming<'a>(
    identity_links: &'a BTreeMap<String, Vec<String>>,
    sender: &str,
    matches: impl Fn(&str) -> bool,
) -> Option<&'a str> {
    let claims = |id: &String| {
        let id = fold(id);
        !id.is_empty() && matches(&id)
    };
    if sender.is_empty() {
        return None;
    }
    identity_links
        .iter()
        .map(|(name, ids)| (name.trim(), ids))
        .find(|(name, ids)| !name.is_empty() && ids.iter().any(claims))
        .map(|(name, _)| name)
}

/// The rest of an id that begins with the channel.
fn unqualified<'a>(id: &'a str, channel: &str) -> Option<&'a str> {
    let rest = id.strip_prefix(channel)?.strip_prefix(':')?;
    (!channel.is_empty() && !rest.is_empty()).then_some(rest)
}
