//! The configuration file.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use serde::{Deserialize, Deserializer};
use sessionlog::scope::SessionPolicy;

use crate::Result;

/// The dimensions by which a policy can tell conversations apart.
const DIMENSIONS: [&str; 4] = ["space", "chat", "topic", "sender"];

/// What an operator chooses.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Config {
    /// Who answers.
    pub(crate) agent_id: String,
    /// What tells conversations apart, and who is one person.
    #[serde(deserialize_with = "strict")]
    pub(crate) session: SessionPolicy,
}

/// A [`SessionPolicy`] that says by what conversations are told apart: the
/// library takes a missing name for none, which would make all of a channel one.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename = "session")]
struct Session {
    dimensions: Vec<String>,
    #[serde(default)]
    identity_links: BTreeMap<String, Vec<String>>,
}

fn strict<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> std::result::Result<SessionPolicy, D::Error> {
    let Session {
        dimensions,
        identity_links,
    } = Session::deserialize(deserializer)?;
    Ok(SessionPolicy {
        dimensions,
        identity_links,
    })
}

impl Config {
    pub(crate) fn read(path: &Path) -> Result<Self> {
        let text = std::fs::read(path).map_err(|error| format!("{}: {error}", path.display()))?;
        Self::parse(&text).map_err(|error| format!("{}: {error}", path.display()).into())
    }

    /// Refuses a dimension that does not exist: the library passes over it, and
    /// chats that should be apart would not be.
    fn parse(text: &[u8]) -> Result<Self> {
        let config: Self = serde_json::from_slice(text)?;
        let dimensions = &config.session.dimensions;
        match dimensions
            .iter()
            .find(|name| !DIMENSIONS.contains(&name.as_str()))
        {
            Some(name) => Err(format!("no dimension {name:?}; there are {DIMENSIONS:?}").into()),
            None => Ok(config),
        }
    }

    /// Every id that several people claim: it means the one whose name comes
    /// first.
    pub(crate) fn claimed_twice(&self) -> Vec<String> {
        let mut owners: HashMap<String, &str> = HashMap::new();
        let mut doubts = Vec::new();
        for (name, ids) in &self.session.identity_links {
            for id in ids {
                let first = *owners.entry(id.trim().to_lowercase()).or_insert(name);
                if first != name {
                    doubts.push(format!("{id} of {name} counts as {first}'s"));
                }
            }
        }
        doubts
    }

    #[cfg(test)]
    pub(crate) fn checked_in() -> Self {
        Self::parse(include_bytes!("../gateway.json")).unwrap()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checked_in_file_links_two_ids_of_one_person() {
        let links = Config::checked_in().session.identity_links;
        assert!(links.values().any(|ids| ids.len() == 2));
    }

    #[test]
    fn a_misspelt_dimension_or_field_is_an_error() {
        for text in [
            r#"{"agent_id":"a","session":{"dimensions":["Chat"]}}"#,
            r#"{"agent_id":"a","session":{"dimensions":[]},"sesion":{}}"#,
            r#"{"agent_id":"a","session":{"dimension":["chat"]}}"#,
            r#"{"agent_id":"a","session":{"dimensions":["chat"],"links":{}}}"#,
            r#"{"agent_id":"a","session":{"dimensions":null}}"#,
            r#"{"agent_id":"a","session":{}}"#,
            r#"{"agent_id":"a","session":null}"#,
            r#"{"agent_id":"a","session":[]}"#,
            r#"{"session":{"dimensions":[]}}"#,
            "",
        ] {
            assert!(Config::parse(text.as_bytes()).is_err(), "{text}");
        }
    }

    #[test]
    fn an_id_of_two_people_is_named() {
        let config = r#"{"agent_id":"a","session":{"dimensions":[],
            "identity_links":{"ann":["irc:x","y"],"bob":[" IRC:X ","z"]}}}"#;
        let doubts = Config::parse(config.as_bytes()).unwrap().claimed_twice();
        assert_eq!(doubts, [" IRC:X  of bob counts as ann's"]);
    }
}
