//! A session as PicoClaw's older manager kept it: one JSON object per file.

use std::borrow::Cow;

use serde_json::value::RawValue;

use super::draft::Draft;
use super::encode::{write_html_safe, write_string};
use super::layout::lay_out;
use super::line;
use super::message::Message;
use super::names::plain_stem;
use super::nested::string;
use super::raw::tidy;
use super::scan::{LineFault, ScanResult, Scanner};
use super::sidecar::write_list;
use super::tags::SessionTags;
use super::text::{known_field, to_text};
use super::timestamp;
use crate::stamp::ZERO_TIME;

const FIELDS: [&str; 7] = [
    "key", "messages", "summary", "created", "updated", "scope", "aliases",
];

/// The contents of a file of the older manager.
#[derive(Debug)]
pub struct LegacySession {
    /// `""` if the file names none.
    pub key: String,
    /// The messages, oldest first.
    pub messages: Vec<Message>,
    /// The summary; may be empty.
    pub summary: String,
    /// The time when it was first written to.
    pub created: String,
    /// The time when it was last written to.
    pub updated: String,
    /// Ours: the older manager ignores it, and writes the file without it.
    pub scope: Option<Box<RawValue>>,
    /// Likewise.
    pub aliases: Vec<String>,
    /// Likewise, without unknown fields.
    pub tags: Box<SessionTags>,
}

impl Default for LegacySession {
    fn default() -> Self {
        Self {
            key: String::new(),
            messages: Vec::new(),
            summary: String::new(),
            created: ZERO_TIME.into(),
            updated: ZERO_TIME.into(),
            scope: None,
            aliases: Vec::new(),
            tags: Box::default(),
        }
    }
}

/// The file of a session, exactly as the older manager writes it, with the unknown fields of
/// messages after the known ones, and scope, aliases and tags at the end, if any.
#[must_use]
pub fn encode(session: &LegacySession) -> Vec<u8> {
    let mut flat = Vec::new();
    let mut field = |name: &str, write: &dyn Fn(&mut Vec<u8>)| {
        flat.push(if flat.is_empty() { b'{' } else { b',' });
        write_string(name, &mut flat);
        flat.push(b':');
        write(&mut flat);
    };
    field("key", &|out| write_string(&session.key, out));
    field("messages", &|out| {
        out.push(b'[');
        for (index, message) in session.messages.iter().enumerate() {
            if index > 0 {
                out.push(b',');
            }
            out.extend(line::encode(message, None));
        }
        out.push(b']');
    });
    if !session.summary.is_empty() {
        field("summary", &|out| write_string(&session.summary, out));
    }
    field("created", &|out| write_string(&session.created, out));
    field("updated", &|out| write_string(&session.updated, out));
    if let Some(scope) = &session.scope {
        field("scope", &|out| write_html_safe(scope.get().as_bytes(), out));
    }
    if !session.aliases.is_empty() {
        field("aliases", &|out| write_list(&session.aliases, out));
    }
    session.tags.each(&mut field);
    flat.push(b'}');
    lay_out(&flat)
}

/// Reads a file of the older manager as Go's `json.Unmarshal` does: names in any case, the last of
/// equal names, `null` for a missing value, unknown fields ignored. Messages are read as
/// [`decode`](super::decode) reads lines, except that none is a control record: the older manager
/// had no such records.
///
/// # Errors
///
/// The problem, if Go refuses the file.
pub fn decode(bytes: &[u8]) -> Result<LegacySession, String> {
    let text = to_text(bytes);
    read(&text).map_err(|fault| fault.reason().to_owned())
}

/// True if a file with the name of a sidecar is not one, but holds a session of the older manager.
#[must_use]
pub fn holds_session(bytes: &[u8]) -> bool {
    key_of(bytes).is_some()
}

/// True if such a session is in the file in which the older manager kept it: it gave the session
/// `x.meta` the name `x.meta.json`.
#[must_use]
pub fn holds_own_session(file_name: &str, bytes: &[u8]) -> bool {
    let stem = file_name.strip_suffix(".json");
    key_of(bytes).is_some_and(|key| Some(&*plain_stem(&key)) == stem)
}

/// The key of a session of the older manager. It is distinguished from a sidecar by fields that
/// only one of them has: a list of messages, and `skip`.
fn key_of(bytes: &[u8]) -> Option<String> {
    let text = to_text(bytes);
    let mut scanner = Scanner::new(&text);
    let (mut key, mut messages, mut skip) = (String::new(), false, false);
    let read = scanner.object(|scanner, name| {
        match known_field(&name, &["key", "messages", "skip"]) {
            "key" => return string(scanner, &mut key),
            "messages" => messages = scanner.peek() == Some(b'['),
            "skip" => skip = true,
            _ => {}
        }
        scanner.value().map(|_| ())
    });
    let whole = read.and_then(|()| scanner.finish()).is_ok();
    (whole && messages && !skip).then_some(key)
}

fn read(text: &str) -> ScanResult<LegacySession> {
    let mut scanner = Scanner::new(text);
    let mut session = LegacySession::default();
    if !scanner.null()? {
        scanner.object(|scanner, name| session.read_field(scanner, &name))?;
    }
    scanner.finish()?;
    *session.tags = session.tags.without_unknown();
    Ok(session)
}

impl LegacySession {
    fn read_field(&mut self, scanner: &mut Scanner<'_>, name: &str) -> ScanResult<()> {
        match known_field(name, &FIELDS) {
            "key" => string(scanner, &mut self.key),
            "messages" => self.read_messages(scanner),
            "summary" => string(scanner, &mut self.summary),
            "created" => time(scanner, &mut self.created),
            "updated" => time(scanner, &mut self.updated),
            "scope" => self.read_scope(scanner),
            "aliases" => self.read_aliases(scanner),
            _ => self.tags.read(name, scanner),
        }
    }

    /// Reads any JSON as the scope: no reader of these files refuses one for it.
    fn read_scope(&mut self, scanner: &mut Scanner<'_>) -> ScanResult<()> {
        let raw = RawValue::from_string(tidy(scanner.value()?)).ok();
        self.scope = raw.filter(|raw| raw.get() != "null");
        Ok(())
    }

    fn read_aliases(&mut self, scanner: &mut Scanner<'_>) -> ScanResult<()> {
        self.aliases = serde_json::from_str(scanner.value()?).unwrap_or_default();
        Ok(())
    }

    fn read_messages(&mut self, scanner: &mut Scanner<'_>) -> ScanResult<()> {
        self.messages.clear();
        if scanner.null()? {
            return Ok(());
        }
        scanner.array(|scanner| {
            let draft = Draft::parse(scanner.value()?)?;
            self.messages.push(draft.into());
            Ok(())
        })
    }
}

fn time(scanner: &mut Scanner<'_>, into: &mut String) -> ScanResult<()> {
    if let Some(text) = scanner.text()? {
        let time = timestamp::canonical(text.body());
        *into = time
            .map(Cow::into_owned)
            .ok_or(LineFault::Shape("created or updated is not a time"))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{Message, decode, encode, key_of};

    #[test]
    fn a_file_of_the_older_manager_is_read_as_go_reads_it() {
        let session = decode(
            br#" {"KEY":"a","key":null,"Messages":[{"role":"user","content":"old"}],
                "messages":[{"ROLE":"user","content":"hi"},null,{"role":"_x"}],
                "summary":"s","created":"2024-01-02T3:04:05Z","updated":null,"new":[{}]} "#,
        )
        .unwrap();
        let roles: Vec<_> = session.messages.iter().map(Message::role).collect();
        assert_eq!(
            (&*session.key, &*session.summary, roles),
            ("a", "s", vec!["user", "", "_x"])
        );
        assert_eq!(session.messages[0].text(), "hi");
        let session = decode(b"null").unwrap();
        assert_eq!((&*session.key, session.messages.len()), ("", 0));
    }

    #[test]
    fn a_scope_and_aliases_are_ours_and_spoil_nothing() {
        let file = |scope: &str, aliases: &str| {
            let text =
                format!(r#"{{"key":"a","messages":[],"scope":{scope},"aliases":{aliases}}}"#);
            decode(text.as_bytes()).unwrap()
        };
        let session = file(r#"{"version": 1, "values": {"a": "<"}}"#, r#"["b:1", "c"]"#);
        let again = decode(&encode(&session)).unwrap();
        for session in [session, again] {
            let scope = serde_json::from_str::<serde_json::Value>(session.scope.unwrap().get());
            assert_eq!(scope.unwrap()["values"]["a"], "<");
            assert_eq!(session.aliases, ["b:1", "c"]);
        }
        for (scope, aliases) in [("null", "null"), ("null", "{}"), ("null", "[1]")] {
            let session = file(scope, aliases);
            assert!(session.scope.is_none() && session.aliases.is_empty());
        }
        assert_eq!(file("5", "[]").scope.unwrap().get(), "5");
    }

    #[test]
    fn what_go_refuses_is_refused_whole() {
        for text in [
            "",
            "hello",
            "[]",
            "{} {}",
            "\u{feff}\u{feff}{}",
            r#"{"key":1}"#,
            r#"{"messages":{}}"#,
            r#"{"messages":[{"role":"user"},5]}"#,
            r#"{"messages":[{"content":[1]}]}"#,
            r#"{"messages":[{"role":"user","created_at":"noon"}]}"#,
            r#"{"created":"last week"}"#,
            r#"{"updated":0}"#,
            r#"{"messages":[{"role":"user""#,
        ] {
            assert!(decode(text.as_bytes()).is_err(), "{text}");
        }
    }

    #[test]
    fn sidecars_and_sessions_are_told_apart() {
        let key = |text: &str| key_of(text.as_bytes());
        assert_eq!(
            key(r#"{"key":"x.meta","messages":[]}"#).as_deref(),
            Some("x.meta")
        );
        assert_eq!(key(r#"{"messages":[{"role":5}]}"#).as_deref(), Some(""));
        for text in [
            r#"{"key":"x","summary":"","skip":0,"count":0}"#,
            r#"{"key":"x","messages":[],"skip":0}"#,
            r#"{"key":"x","messages":null}"#,
            r#"{"key":"x"}"#,
            r#"{"key":"x","messages":[]"#,
            "null",
            "",
        ] {
            assert_eq!(key(text), None, "{text}");
        }
    }
}
