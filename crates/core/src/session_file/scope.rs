//! The scope in a sidecar.

use std::collections::BTreeMap;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;

use super::encode::write_string;
use super::nested::{Slots, string};
use super::scan::{LineFault, ScanResult, Scanner};
use super::text::known_field;
use crate::error::{Error, Result};

const FIELDS: [&str; 6] = [
    "version",
    "agent_id",
    "channel",
    "account",
    "dimensions",
    "values",
];

/// The most levels of nesting of a scope given to a verb, the same as for a message.
const MAX_DEPTH: usize = 128;

/// Refuses a scope that is nested deeper than 128: readers of JSON would not accept its sidecar
/// again.
///
/// # Errors
/// `InvalidScope`.
pub fn check_scope(scope: &str) -> Result<()> {
    let mut scanner = Scanner::new(scope);
    let reason = match scanner.value() {
        Ok(_) if scanner.deepest() <= MAX_DEPTH => return Ok(()),
        Err(fault) if scanner.deepest() <= MAX_DEPTH => fault.reason(),
        _ => "nested deeper than 128 levels",
    };
    let reason = reason.to_owned();
    Err(Error::InvalidScope { reason })
}

/// The conversation of a session: the agent, the channel, and the dimensions that separate it from
/// other conversations.
///
/// With `serde_json` it serialises to exactly the bytes that PicoClaw stores, and reads what
/// PicoClaw reads: names in any case, unknown ones ignored, `null` for a missing value. Empty
/// `dimensions` and `values` are written as `null`. Other formats of serde are not supported.
///
/// ```
/// use sessionlog::scope::SessionScope;
///
/// # fn main() -> sessionlog::Result<()> {
/// let stored = r#"{"version":1,"agent_id":"main","channel":"cli","account":"default","dimensions":null,"values":null}"#;
/// let scope = SessionScope::from_json(stored)?;
/// assert_eq!(scope.channel, "cli");
/// assert_eq!(scope.to_raw().get(), stored);
/// assert!(SessionScope::from_json(r#"{"version":"one"}"#).is_err());
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SessionScope {
    /// The layout of the scope; 1 for all that this crate allocates.
    pub version: i64,
    /// The agent that answers.
    pub agent_id: String,
    /// The platform, such as `telegram`.
    pub channel: String,
    /// The bot's account on the platform.
    pub account: String,
    /// The dimensions that separate the conversation, in the policy's order.
    pub dimensions: Vec<String>,
    /// One value per dimension.
    pub values: BTreeMap<String, String>,
}

impl SessionScope {
    /// Reads a scope, as it stands in a sidecar.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidScope`] if it is not JSON, or a field is of another type.
    pub fn from_json(json: &str) -> Result<Self> {
        read(json).map_err(|fault| Error::InvalidScope {
            reason: fault.reason().to_owned(),
        })
    }

    /// The scope as JSON, as the verbs that store one take it.
    #[must_use]
    pub fn to_raw(&self) -> Box<RawValue> {
        let text = String::from_utf8_lossy(&self.encode()).into_owned();
        // The encoded text is JSON, so this never falls back.
        RawValue::from_string(text).unwrap_or_else(|_| RawValue::NULL.to_owned())
    }

    fn encode(&self) -> Vec<u8> {
        let mut out = format!("{{\"version\":{}", self.version).into_bytes();
        let texts = [&self.agent_id, &self.channel, &self.account];
        for (name, text) in FIELDS[1..4].iter().zip(texts) {
            write_name(name, &mut out);
            write_string(text, &mut out);
        }
        write_name("dimensions", &mut out);
        let dimensions = self.dimensions.iter().map(|dimension| (dimension, None));
        write_container(dimensions, *b"[]", &mut out);
        write_name("values", &mut out);
        let values = self.values.iter().map(|(name, value)| (name, Some(value)));
        write_container(values, *b"{}", &mut out);
        out.push(b'}');
        out
    }
}

impl Serialize for SessionScope {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        self.to_raw().serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for SessionScope {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        let raw = Box::<RawValue>::deserialize(deserializer)?;
        Self::from_json(raw.get()).map_err(D::Error::custom)
    }
}

fn write_name(name: &str, out: &mut Vec<u8>) {
    out.push(b',');
    write_string(name, out);
    out.push(b':');
}

/// An array of names, or an object of names and values; `null` if it is empty.
fn write_container<'a>(
    items: impl ExactSizeIterator<Item = (&'a String, Option<&'a String>)>,
    [open, close]: [u8; 2],
    out: &mut Vec<u8>,
) {
    if items.len() == 0 {
        out.extend_from_slice(b"null");
        return;
    }
    for (index, (name, value)) in items.enumerate() {
        out.push(if index == 0 { open } else { b',' });
        write_string(name, out);
        if let Some(value) = value {
            out.push(b':');
            write_string(value, out);
        }
    }
    out.push(close);
}

fn read(json: &str) -> ScanResult<SessionScope> {
    let mut scanner = Scanner::new(json);
    let mut scope = SessionScope::default();
    let mut dimensions = Slots::default();
    if !scanner.null()? {
        scanner.object(|scanner, name| match known_field(&name, &FIELDS) {
            "version" => version(scanner, &mut scope.version),
            "agent_id" => string(scanner, &mut scope.agent_id),
            "channel" => string(scanner, &mut scope.channel),
            "account" => string(scanner, &mut scope.account),
            "dimensions" => dimensions.read(scanner, string),
            "values" => values(scanner, &mut scope.values),
            _ => scanner.value().map(|_| ()),
        })?;
    }
    scanner.finish()?;
    scope.dimensions = dimensions.into_vec();
    Ok(scope)
}

fn version(scanner: &mut Scanner<'_>, into: &mut i64) -> ScanResult<()> {
    if !scanner.null()? {
        let number = scanner.value()?.parse();
        *into = number.map_err(|_| LineFault::Shape("the version is not an integer"))?;
    }
    Ok(())
}

/// A second object under the same name adds to the first; `null` clears it.
fn values(scanner: &mut Scanner<'_>, into: &mut BTreeMap<String, String>) -> ScanResult<()> {
    if scanner.null()? {
        into.clear();
        return Ok(());
    }
    scanner.object(|scanner, name| {
        let mut value = String::new();
        string(scanner, &mut value)?;
        into.insert(name.into_owned(), value);
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::SessionScope;

    #[test]
    fn a_scope_is_read_as_go_reads_it() {
        let scope = SessionScope::from_json(
            r#" {"VERSION":2,"agent_ID":"a","agent_id":null,"extra":[1],"dimensions":["x","y"],
                "dimensions":[null],"values":{"x":"1"},"values":{"y":null}} "#,
        )
        .unwrap();
        assert_eq!((scope.version, &*scope.agent_id), (2, "a"));
        assert_eq!(scope.dimensions, ["x"]);
        assert_eq!(scope.values["x"], "1");
        assert_eq!(scope.values["y"], "");
        assert_eq!(
            SessionScope::from_json("null").unwrap(),
            SessionScope::default()
        );
    }

    #[test]
    fn an_invalid_scope_is_an_error() {
        for json in [
            "",
            "[]",
            "1",
            "\"x\"",
            "{",
            "{}x",
            r#"{"version":1.0}"#,
            r#"{"version":"1"}"#,
            r#"{"version":9223372036854775808}"#,
            r#"{"agent_id":1}"#,
            r#"{"dimensions":"chat"}"#,
            r#"{"dimensions":[1]}"#,
            r#"{"values":[]}"#,
            r#"{"values":{"a":1}}"#,
        ] {
            assert!(SessionScope::from_json(json).is_err(), "{json}");
        }
    }

    #[test]
    fn serde_json_writes_and_reads_the_same_text() {
        let text = r#"{"version":1,"agent_id":"\u003ca\u003e","channel":"","account":"","dimensions":["b","a"],"values":{"a":"1","b":"\u2028"}}"#;
        let scope: SessionScope = serde_json::from_str(text).unwrap();
        assert_eq!(serde_json::to_string(&scope).unwrap(), text);
        let value = serde_json::to_value(&scope).unwrap();
        assert_eq!(
            serde_json::from_value::<SessionScope>(value).unwrap(),
            scope
        );
    }
}
