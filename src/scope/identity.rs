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

/// The name of the person that an id is linked to, without the white space
/// around it.
///
/// A link matches the id as it is, with the channel before it, or without the
/// channel that is part of it; case and surrounding white space do not matter.
/// If several people claim the id, it is the one whose name comes first in byte
/// order. (PicoClaw takes any of them, another at every call.)
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
    let peer = fold(peer_id);
    if identity_links.is_empty() || peer.is_empty() {
        return None;
    }
    let channel = fold(channel);
    let bare = peer
        .split_once(':')
        .filter(|(before, after)| !before.is_empty() && !after.is_empty())
        .map(|(_, after)| after);
    let matches = |id: &String| {
        let id = fold(id);
        let qualified = || {
            let rest = id.strip_prefix(&*channel)?.strip_prefix(':')?;
            (!channel.is_empty() && rest == peer).then_some(())
        };
        !id.is_empty() && (id == peer || bare == Some(&*id) || qualified().is_some())
    };
    identity_links
        .iter()
        .map(|(name, ids)| (name.trim(), ids))
        .find(|(name, ids)| !name.is_empty() && ids.iter().any(matches))
        .map(|(name, _)| name)
}
