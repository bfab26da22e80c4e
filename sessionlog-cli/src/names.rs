//! Names of sessions: the key, or an alias if the key is a hash.

use std::collections::HashMap;
use std::sync::{Mutex, OnceLock, PoisonError};

use sessionlog::scope::is_opaque_session_key;
use sessionlog::{SessionCheck, SessionMeta, StoreHandle};

use crate::safe;

/// Returns true for an agent's main alias, which all its sessions share.
pub(crate) fn is_main(alias: &str) -> bool {
    alias.starts_with("agent:") && alias.ends_with(":main")
}

/// Returns a session's key, or in place of a hash the first alias of its own.
pub(crate) fn of<'a>(key: &'a str, aliases: &'a [String]) -> &'a str {
    if !is_opaque_session_key(key) {
        return key;
    }
    let mut own = aliases.iter().filter(|alias| !is_main(alias));
    own.next().map_or(key, String::as_str)
}

/// The store that a command has open, and the names that were looked up.
struct OpenStore {
    chats: StoreHandle,
    names: Mutex<Names>,
}

/// The first store that the command opened.
static OPEN: OnceLock<OpenStore> = OnceLock::new();

/// Takes the names of sessions from this store from now on.
pub(crate) fn learn_from(chats: &StoreHandle) {
    // A command that opens two stores has the same sessions in both.
    OPEN.get_or_init(|| OpenStore {
        chats: chats.exact_keys(),
        names: Mutex::default(),
    });
}

/// Returns the name of a session of the open store, safe for a terminal. A name that was looked up
/// stays known after the store was closed, or the session deleted.
pub(crate) fn name(key: &str) -> String {
    let Some(open) = OPEN.get() else {
        return safe::line(key).into_owned();
    };
    let mut names = open.names.lock().unwrap_or_else(PoisonError::into_inner);
    names.ask(&open.chats, key)
}

/// Returns a text with names of the open store in place of keys that are hashes.
pub(crate) fn text(text: &str) -> String {
    with_names(text, name)
}

/// The names of sessions that have hashes as keys.
#[derive(Debug, Default)]
pub(crate) struct Names {
    known: HashMap<String, String>,
}

impl Names {
    /// Collects the names of these sessions, each a key with its aliases.
    pub(crate) fn of<'a>(sessions: impl IntoIterator<Item = (&'a str, &'a [String])>) -> Self {
        let named = sessions.into_iter().filter_map(|(key, aliases)| {
            let name = of(key, aliases);
            (name != key).then(|| (key.to_owned(), name.to_owned()))
        });
        Self {
            known: named.collect(),
        }
    }

    /// Collects the names of the sessions that a check read.
    pub(crate) fn of_checks(checks: &[SessionCheck]) -> Self {
        let checks = checks.iter();
        Self::of(checks.map(|check| (check.key.as_str(), check.aliases.as_slice())))
    }

    /// Returns the name of a session, safe for a terminal. The store is asked once for each key
    /// that is a hash.
    fn ask(&mut self, chats: &StoreHandle, key: &str) -> String {
        if is_opaque_session_key(key) && !self.known.contains_key(key) {
            // A session that is gone by now keeps its key.
            let meta = chats.session_meta(key).wait();
            let name = meta.map_or_else(|_| key.to_owned(), |meta| titled(key, &meta));
            self.known.insert(key.to_owned(), name);
        }
        self.name(key)
    }

    /// Returns the name of a session, safe for a terminal.
    pub(crate) fn name(&self, key: &str) -> String {
        let name = self.known.get(key).map_or(key, String::as_str);
        safe::line(name).into_owned()
    }

    /// Returns a text on one line, with names in place of keys that are hashes.
    pub(crate) fn line(&self, line: &str) -> String {
        let line = with_names(line, |key| self.name(key));
        safe::line(&line).into_owned()
    }
}

/// Returns a session's name; if it has only a hash, its title follows that.
fn titled(key: &str, meta: &SessionMeta) -> String {
    let name = of(key, &meta.aliases);
    let title = &meta.tags.title;
    if name == key && !title.is_empty() {
        return format!("{key} ({title})");
    }
    name.to_owned()
}

/// The beginning of a key that is a hash.
const HASH: &str = "sk_v1_";

/// Returns a text with a name in place of each key that is a hash. A key that is part of another
/// word, such as a path or a key in the trash, stays: that word has its meaning only unchanged.
fn with_names(text: &str, name: impl Fn(&str) -> String) -> String {
    let is_of_key = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let joins = |c: char| "/:.-".contains(c);
    let (mut named, mut rest) = (String::with_capacity(text.len()), text);
    while let Some((before, _)) = rest.split_once(HASH) {
        let from = &rest[before.len()..];
        let end = from.find(|c| !is_of_key(c)).unwrap_or(from.len());
        let (key, after) = from.split_at(end);
        named.push_str(before);
        let mut next = after.chars();
        let is_part = named.ends_with(|c| is_of_key(c) || joins(c))
            || next.next().is_some_and(joins) && next.next().is_some_and(is_of_key);
        if is_part {
            named.push_str(key);
        } else {
            named.push_str(&name(key));
        }
        rest = after;
    }
    named.push_str(rest);
    named
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hash_gives_way_to_an_alias_of_its_own() {
        let hash = format!("sk_v1_{}", "a".repeat(64));
        let aliases = ["agent:main:main", "telegram:7"].map(String::from);
        assert_eq!(of(&hash, &aliases), "telegram:7");
        assert_eq!(of(&hash, &aliases[..1]), hash);
        assert_eq!(of("web:1", &aliases), "web:1");
        let names = Names::of([(hash.as_str(), aliases.as_slice())]);
        let line = format!("{hash}: 2 lines\x1b are gone");
        assert_eq!(names.line(&line), "telegram:7: 2 lines\\x1b are gone");
        assert_eq!(names.line("3 segments: gone"), "3 segments: gone");
    }

    #[test]
    fn a_hash_in_a_text_gives_way_to_its_name_and_one_within_another_word_stays() {
        let named = |text: &str| with_names(text, |key| key.replace(HASH, "chat "));
        assert_eq!(
            named("session \"sk_v1_a\": see sk_v1_b."),
            "session \"chat a\": see chat b."
        );
        assert_eq!(named("sk_v1_a is sk_v1_b"), "chat a is chat b");
        for word in [
            "/srv/sk_v1_a.jsonl",
            "sk_v1_a.meta.json",
            "deleted:20261128T192303Z:sk_v1_a",
            "sk_v1_a:agent:7",
            "disk_v1_a",
        ] {
            let text = format!("of {word}: gone");
            assert_eq!(named(&text), text);
        }
    }
}
