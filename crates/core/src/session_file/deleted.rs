//! Deleted sessions in the trash: their keys, and the metadata in their sidecars.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use time::{OffsetDateTime, UtcOffset};

use super::{Meta, MetaText, validate_key};
use crate::stamp;

/// The beginning of a deleted session's key; the time of the deletion and the former key follow,
/// separated by colons.
const PREFIX: &str = "deleted:";

/// The form of that time, in UTC: a zero stands for a digit.
const TIME: &[u8] = b"00000000T000000.000000000Z";

/// The sidecar field with a deleted session's former names.
const FIELD: &str = "deleted_session";

/// The former names of a deleted session.
#[derive(Debug, Default, Serialize, Deserialize)]
struct FormerNames {
    key: String,
    aliases: Vec<String>,
    /// The aliases that were also keys of other sessions.
    #[serde(default)]
    over: Vec<String>,
}

/// The key of a session after its deletion: its former key comes last, if it is not too long.
#[must_use]
pub fn deleted_key(key: &str, at: OffsetDateTime) -> String {
    let at = at.to_offset(UtcOffset::UTC);
    let time = format!(
        "{:04}{:02}{:02}T{:02}{:02}{:02}.{:09}Z",
        at.year(),
        u8::from(at.month()),
        at.day(),
        at.hour(),
        at.minute(),
        at.second(),
        at.nanosecond()
    );
    let mut deleted = format!("{PREFIX}{time}:{key}");
    while validate_key(&deleted).is_err() && deleted.pop().is_some() {}
    deleted
}

/// The time of a session's deletion, in RFC 3339, and its former key, or the beginning of it;
/// `None` if the key is not that of a deleted session.
fn parts(key: &str) -> Option<(String, &str)> {
    let rest = key.strip_prefix(PREFIX)?;
    let (time, key) = rest.split_at_checked(TIME.len())?;
    let is_time = time.bytes().zip(TIME).all(|(byte, form)| match form {
        b'0' => byte.is_ascii_digit(),
        form => byte == *form,
    });
    let key = key.strip_prefix(':').filter(|_| is_time)?;
    let field = |at: usize| time.get(at..at + 2).unwrap_or_default();
    let [month, day, hour, minute, second] = [4, 6, 9, 11, 13].map(field);
    let (year, rest) = (time.get(..4)?, time.get(15..)?);
    let text = format!("{year}-{month}-{day}T{hour}:{minute}:{second}{rest}");
    Some((stamp::rfc3339(stamp::parse(&text)?), key))
}

/// True if a key is that of a deleted session.
#[must_use]
pub fn is_deleted_key(key: &str) -> bool {
    parts(key).is_some()
}

/// The former key of a deleted session, as far as its present key tells; any other key unchanged.
#[must_use]
pub fn key_before(key: &str) -> &str {
    parts(key).map_or(key, |(_, before)| before)
}

/// The time of a session's deletion, in RFC 3339; `None` if the key is not that of a deleted
/// session.
#[must_use]
pub fn deleted_at(key: &str) -> Option<String> {
    parts(key).map(|(time, _)| time)
}

impl MetaText {
    /// The metadata of this session after its deletion under the key `key`: without aliases, which
    /// then mean what they would mean without this session. `is_key` tells which aliases are keys
    /// of other sessions.
    #[must_use]
    pub fn deleted(&self, key: &str, is_key: impl Fn(&str) -> bool) -> Self {
        let over = self.aliases.iter().filter(|alias| is_key(alias));
        let names = FormerNames {
            key: self.key.clone(),
            aliases: self.aliases.clone(),
            over: over.cloned().collect(),
        };
        let mut text = self.clone();
        key.clone_into(&mut text.key);
        text.aliases.clear();
        let names = serde_json::to_string(&names);
        text.tags.set_unknown(FIELD, names.ok().as_deref());
        text
    }

    /// The metadata before the deletion; unchanged if this is not a deleted session.
    #[must_use]
    pub fn undeleted(&self) -> Cow<'_, Self> {
        if !is_deleted_key(&self.key) {
            return Cow::Borrowed(self);
        }
        let names = self.names();
        let mut text = self.clone();
        (text.key, text.aliases) = (names.key, names.aliases);
        text.tags.set_unknown(FIELD, None);
        Cow::Owned(text)
    }

    /// The former aliases of a deleted session that were also keys of other sessions.
    #[must_use]
    pub fn aliases_over_keys(&self) -> Vec<String> {
        self.names().over
    }

    fn names(&self) -> FormerNames {
        let names = self.tags.unknown_field(FIELD);
        let names = names.and_then(|names| serde_json::from_str::<FormerNames>(names).ok());
        // Another program may have dropped or changed the field.
        let names = names.filter(|names| {
            validate_key(&names.key).is_ok()
                && !is_deleted_key(&names.key)
                && names.key.starts_with(key_before(&self.key))
        });
        names.unwrap_or_else(|| FormerNames {
            key: key_before(&self.key).to_owned(),
            ..FormerNames::default()
        })
    }
}

impl Meta {
    /// The key and the sidecar of the session `key` before its deletion; both unchanged if it is
    /// not a deleted session.
    #[must_use]
    pub fn undeleted<'a>(&'a self, key: &'a str) -> (Cow<'a, str>, Cow<'a, Self>) {
        match self.text.undeleted() {
            Cow::Owned(text) => {
                let (key, mut meta) = (text.key.clone(), self.clone());
                *meta.text_mut() = text;
                (Cow::Owned(key), Cow::Owned(meta))
            }
            // If the sidecar was lost, only the key is known.
            Cow::Borrowed(_) => (Cow::Borrowed(key_before(key)), Cow::Borrowed(self)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{deleted_at, deleted_key, is_deleted_key, key_before};
    use crate::session_file::{Meta, SessionMeta, validate_key};
    use crate::stamp;

    #[test]
    fn the_key_of_a_deleted_session_tells_when_it_was_deleted_and_its_key() {
        let at = stamp::parse("2026-11-28T19:23:03.123456789Z").unwrap();
        let key = deleted_key("telegram:7", at);
        assert_eq!(key, "deleted:20261128T192303.123456789Z:telegram:7");
        assert!(is_deleted_key(&key));
        assert_eq!(key_before(&key), "telegram:7");
        assert_eq!(deleted_at(&key).unwrap(), "2026-11-28T19:23:03.123456789Z");
        for other in [
            "telegram:7",
            "deleted:telegram:7",
            "deleted:20261128T192303.123456789Z",
            "deleted:20261128T192303x123456789Z:telegram:7",
            "deleted:20269928T192303.123456789Z:telegram:7",
            "deleted:2026112éT192303.123456789Z:a",
        ] {
            assert!(!is_deleted_key(other), "{other}");
            assert_eq!(key_before(other), other);
        }
    }

    #[test]
    fn a_long_key_is_cut_in_the_key_and_whole_in_the_sidecar() {
        let at = stamp::parse("2026-11-28T19:23:03.123Z").unwrap();
        let long = "é".repeat(512);
        let key = deleted_key(&long, at);
        assert!(validate_key(&key).is_ok());
        assert!(long.starts_with(key_before(&key)));
        let mut meta = SessionMeta::empty(&long);
        meta.aliases = vec!["a".into(), "b".into()];
        let meta = Meta::of(meta);
        let deleted = meta.text.deleted(&key, |alias| alias == "b");
        assert_eq!(deleted.aliases_over_keys(), ["b"]);
        assert_eq!((&*deleted.key, deleted.aliases.len()), (&*key, 0));
        let back = deleted.undeleted();
        assert!(back.says_what(&meta.text));
        assert_eq!(back.key, long);
    }
}
