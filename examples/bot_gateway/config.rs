//! The configuration file.

use std::path::Path;

use serde::Deserialize;
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
    pub(crate) session: SessionPolicy,
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

    #[cfg(test)]
    pub(crate) fn checked_in() -> Self {
        Self::parse(include_bytes!("gateway.json")).unwrap()
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
            r#"{"agent_id":"a","session":{},"sesion":{}}"#,
            r#"{"session":{}}"#,
            "",
        ] {
            assert!(Config::parse(text.as_bytes()).is_err(), "{text}");
        }
    }
}
