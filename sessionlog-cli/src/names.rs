//! Names of sessions: the key, or an alias if the key is a hash.

use std::collections::HashMap;

use sessionlog::StoreHandle;

use crate::safe;

/// Returns true for an agent's main alias, which all its sessions share.
pub(crate) fn is_main(alias: &str) -> bool {
    alias.starts_with("agent:") && alias.ends_with(":main")
}

/// A session's key, or in place of a hash the first alias that is its own.
pub(crate) fn of<'a>(key: &'a str, aliases: &'a [String]) -> &'a str {
    if !sessionlog::scope::is_opaque_session_key(key) {
        return key;
    }
    let mut own = aliases.iter().filter(|alias| !is_main(alias));
    own.next().map_or(key, String::as_str)
}

/// The names of sessions that have hashes as keys.
#[derive(Debug, Default)]
pub(crate) struct Names {
    known: HashMap<String, String>,
}

impl Names {
    /// The names of those sessions, each a key with its aliases.
    pub(crate) fn of<'a>(sessions: impl IntoIterator<Item = (&'a str, &'a [String])>) -> Self {
        let named = sessions.into_iter().filter_map(|(key, aliases)| {
            let name = of(key, aliases);
            (name != key).then(|| (key.to_owned(), name.to_owned()))
        });
        Self {
            known: named.collect(),
        }
    }

    /// The name of a session, safe for a terminal. The store is asked once for each key that is
    /// a hash.
    pub(crate) fn ask(&mut self, chats: &StoreHandle, key: &str) -> String {
        if sessionlog::scope::is_opaque_session_key(key) && !self.known.contains_key(key) {
            let meta = chats.session_meta(key).wait();
            // A session that is gone by now keeps its key.
            let aliases = meta.map(|meta| meta.aliases).unwrap_or_default();
            let name = of(key, &aliases).to_owned();
            self.known.insert(key.to_owned(), name);
        }
        self.name(key)
    }

    /// The name of a session, safe for a terminal.
    pub(crate) fn name(&self, key: &str) -> String {
        let name = self.known.get(key).map_or(key, String::as_str);
        safe::line(name).into_owned()
    }

    /// A line that begins with a key and a colon, with the session's name in place of the key.
    pub(crate) fn line(&self, line: &str) -> String {
        if let Some((key, rest)) = line.split_once(": ")
            && let Some(name) = self.known.get(key)
        {
            return safe::line(&format!("{name}: {rest}")).into_owned();
        }
        safe::line(line).into_owned()
    }
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
}
