//! Resolves keys.

use crate::session_file;

/// Trims `key`, unless a session has exactly this key, which would be out of reach otherwise. For
/// verbs that resolve no aliases. `has` tells if there is a session of exactly a key.
pub fn literal(key: &str, has: impl FnOnce(&str) -> bool) -> &str {
    if has(key) { key } else { key.trim() }
}

/// Returns the key of the session that `key` means, or `None`, as `PicoClaw` does. The first match
/// counts: a session of exactly `key`, if `key` has white space around it; then, trimmed, its own
/// session, if it has no `:`, `/` or `\`; the session that claims it as an alias, the first by file
/// name; its own session. `has` tells if there is a session of exactly a key, `claimant` returns the
/// session of another key that has an alias.
pub fn resolve<K: Into<String>>(
    key: &str,
    has: impl Fn(&str) -> bool,
    claimant: impl FnOnce(&str) -> Option<K>,
) -> Option<String> {
    let (padded, key) = (key, key.trim());
    if padded.len() != key.len() && has(padded) {
        return Some(padded.to_owned());
    }
    if key.is_empty() {
        return None;
    }
    let own = || has(key).then(|| key.to_owned());
    if session_file::short_circuits(key)
        && let Some(own) = own()
    {
        return Some(own);
    }
    claimant(key).map(Into::into).or_else(own)
}

/// Returns the name of a sidecar that PicoClaw gives a key. Stores without files list sessions, and
/// decide contested aliases, in the order of its bytes. The engine uses the real file names, which
/// differ where a key makes no safe name.
#[must_use]
pub fn file_name(key: &str) -> String {
    session_file::sidecar_name(&session_file::plain_stem(key))
}

#[cfg(test)]
mod tests {
    use super::{literal, resolve};

    /// Two sessions, one of which has the other's key and a new name as aliases.
    fn means(key: &str) -> Option<String> {
        let has = |key: &str| ["plain", "a:b", " a:b ", "new"].contains(&key);
        resolve(key, has, |alias| {
            ["plain", "a:b", "alias"].contains(&alias).then_some("new")
        })
    }

    #[test]
    fn a_plain_key_means_its_own_session_and_any_other_the_one_that_claims_it() {
        assert_eq!(means("plain").as_deref(), Some("plain"));
        assert_eq!(means("a:b").as_deref(), Some("new"));
        assert_eq!(means("alias").as_deref(), Some("new"));
        assert_eq!(means("nobody"), None);
        assert_eq!(means("  "), None);
    }

    #[test]
    fn white_space_counts_only_where_a_session_has_it() {
        assert_eq!(means(" a:b ").as_deref(), Some(" a:b "));
        assert_eq!(means(" plain").as_deref(), Some("plain"));
        assert_eq!(literal(" a", |key| key == " a"), " a");
        assert_eq!(literal(" a", |key| key == "a"), "a");
    }
}
