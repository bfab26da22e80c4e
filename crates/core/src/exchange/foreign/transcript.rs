//! A conversation read from another tool's file.

use serde_json::Value;

use super::super::format::Format;
use super::super::lenient;
use super::super::reading::{at_place, invalid};
use crate::error::Result;
use crate::session_file::Message;
use crate::stamp;

/// The kinds of skipped records that are told apart.
const MOST_KINDS: usize = 100;

/// A conversation that another tool kept.
///
/// ```
/// use sessionlog::{Format, Transcript};
///
/// let text = r#"{"type":"user","sessionId":"7","uuid":"1","timestamp":"2026-06-01T10:00:00Z","message":{"role":"user","content":"fix it"}}"#;
/// let transcript = Transcript::read(text, None)?;
/// assert_eq!(transcript.format, Format::ClaudeCode);
/// assert_eq!(transcript.messages[0].text(), "fix it");
/// # Ok::<(), sessionlog::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Transcript {
    /// Its shape in the file.
    pub format: Format,
    /// Its messages, in order, with the times at which they were said, where the file has them.
    pub messages: Vec<Message>,
    /// The tool's id of the conversation.
    pub id: Option<String>,
    /// The title that the tool gave it.
    pub title: Option<String>,
    /// Its summary; empty without one.
    pub summary: String,
    /// The time it was begun, in RFC 3339, as the tool says; else the time of its first message.
    /// `updated` is the time of its last change, else of its last message.
    pub created: Option<String>,
    /// See [`created`](Self::created).
    pub updated: Option<String>,
    /// Records that are not messages: each kind with its number. After the hundredth kind all
    /// others are one, "other records".
    pub skipped: Vec<(String, usize)>,
    /// Further conversations in the same text: those of Claude Code's subagents.
    pub branches: Vec<Transcript>,
    /// The number of halves of surrogate pairs that were replaced by U+FFFD.
    pub replaced: usize,
}

impl Transcript {
    /// Takes the times of the first and last message where the tool gave none.
    pub(super) fn date(&mut self) {
        let times = || {
            let times = self.messages.iter().filter_map(Message::created_at);
            times.filter_map(|text| Some((stamp::parse_nanos(text)?, text)))
        };
        let of = |time: Option<(i64, &str)>| time.map(|(_, text)| text.to_owned());
        let (first, last) = (of(times().min()), of(times().max()));
        self.created = self.created.take().or(first);
        self.updated = self.updated.take().or(last);
    }

    pub(super) fn new(format: Format) -> Self {
        Self {
            format,
            messages: Vec::new(),
            id: None,
            title: None,
            summary: String::new(),
            created: None,
            updated: None,
            skipped: Vec::new(),
            branches: Vec::new(),
            replaced: 0,
        }
    }

    /// Takes the messages of items, and the types of the items that are not messages.
    pub(super) fn take_items(&mut self, (messages, others): (Vec<Message>, Vec<String>)) {
        self.messages = messages;
        for kind in others {
            self.skip(format!("an item {kind:?}"));
        }
    }

    pub(super) fn skip(&mut self, what: impl Into<String>) {
        let mut what = what.into();
        let is_known = self.skipped.iter().any(|(known, _)| *known == what);
        if !is_known && self.skipped.len() >= MOST_KINDS {
            what = "other records".into();
        }
        match self.skipped.iter_mut().find(|(known, _)| *known == what) {
            Some((_, many)) => *many += 1,
            None => self.skipped.push((what, 1)),
        }
    }
}

/// The lines that are not blank, each with its index from 0 and its object.
pub(super) fn records(text: &str) -> impl Iterator<Item = Result<(usize, Value)>> {
    let lines = text.lines().enumerate();
    let lines = lines.filter(|(_, line)| !line.trim().is_empty());
    lines.map(|(at, line)| {
        let value = serde_json::from_str::<Value>(line).map_err(|e| invalid(e.to_string()));
        let value = value.and_then(|value| {
            if value.is_object() {
                Ok(value)
            } else {
                Err(invalid("an object was expected"))
            }
        });
        let value = value.map_err(|error| at_place("line", at, &error))?;
        Ok((at, value))
    })
}

/// The text of a field.
pub(super) fn named<'a>(value: &'a Value, field: &str) -> &'a str {
    value[field].as_str().unwrap_or_default()
}

/// The time of a record, in RFC 3339.
pub(in super::super) fn time_of(record: &Value) -> Option<String> {
    let fields = ["timestamp", "created_at", "time"];
    fields
        .iter()
        .find_map(|field| lenient::rfc3339(&record[*field]))
}
