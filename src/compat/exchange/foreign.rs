//! Transcripts of other tools: which tool wrote one, and the messages in it.

mod agents;
mod claude_code;
mod codex;
mod detect;
mod gemini_cli;
mod langchain;

use serde_json::Value;

pub(super) use self::detect::detect;
use super::{Format, at_place, invalid, lenient, responses};
use crate::Message;
use crate::disk::session_file;
use crate::error::Result;
use crate::ground::clock;

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
    /// The shape that it was in.
    pub format: Format,
    /// Its messages, in order, with the times at which they were said, as far as it tells.
    pub messages: Vec<Message>,
    /// The tool's id of the conversation.
    pub id: Option<String>,
    /// The title that the tool gave it.
    pub title: Option<String>,
    /// Its summary; empty without one.
    pub summary: String,
    /// When it was begun and last changed, in RFC 3339: as the tool says, or its first and last
    /// message.
    pub created: Option<String>,
    /// See [`created`](Self::created).
    pub updated: Option<String>,
    /// Records that are no messages, each kind with how many there were.
    pub skipped: Vec<(String, usize)>,
    /// Conversations beside it in the same text: those of Claude Code's subagents.
    pub branches: Vec<Transcript>,
    /// Halves of surrogate pairs that were replaced by U+FFFD.
    pub replaced: usize,
}

impl Transcript {
    /// Reads a conversation in a shape, or finds out in which it is. A byte order mark and CR
    /// before LF are passed over.
    ///
    /// # Errors
    /// [`Error::InvalidMessage`](crate::Error::InvalidMessage), with the line or the number of
    /// what is not of that shape, or if no shape is known that it is of.
    pub fn read(text: &str, format: Option<Format>) -> Result<Self> {
        let (text, replaced) = lenient::tidy(text);
        let format = match format {
            Some(format) => format,
            None => detect(&text)?,
        };
        let mut transcript = Self::new(format);
        match format {
            Format::OpenAiResponses => {
                transcript.messages = responses::read(&whole_or_lines(&text)?)?;
            }
            Format::ClaudeCode => claude_code::read(&text, &mut transcript)?,
            Format::Codex => codex::read(&text, &mut transcript)?,
            Format::GeminiCli => gemini_cli::read(&text, &mut transcript)?,
            Format::LangChain => langchain::read(&whole_or_lines(&text)?, &mut transcript)?,
            Format::OpenClaw => agents::read(&text, &mut transcript)?,
            Format::Picoclaw => transcript.read_older(&text)?,
            other => transcript.messages = super::read(&text, other)?,
        }
        transcript.replaced = replaced;
        transcript.date();
        transcript.branches.iter_mut().for_each(Self::date);
        Ok(transcript)
    }

    fn read_older(&mut self, text: &str) -> Result<()> {
        let session = session_file::decode_legacy(text.as_bytes()).map_err(invalid)?;
        let set = |time: String| clock::parse(&time).is_some().then_some(time);
        self.id = Some(session.key).filter(|key| !key.is_empty());
        self.messages = session.messages;
        self.summary = session.summary;
        (self.created, self.updated) = (set(session.created), set(session.updated));
        Ok(())
    }

    /// Takes the times of first and last message where the tool gave none.
    fn date(&mut self) {
        let times = || {
            let times = self.messages.iter().filter_map(Message::created_at);
            times.filter_map(|text| Some((clock::parse_nanos(text)?, text)))
        };
        let of = |time: Option<(i64, &str)>| time.map(|(_, text)| text.to_owned());
        let (first, last) = (of(times().min()), of(times().max()));
        self.created = self.created.take().or(first);
        self.updated = self.updated.take().or(last);
    }

    fn new(format: Format) -> Self {
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

    fn skip(&mut self, what: impl Into<String>) {
        let what = what.into();
        match self.skipped.iter_mut().find(|(known, _)| *known == what) {
            Some((_, many)) => *many += 1,
            None => self.skipped.push((what, 1)),
        }
    }
}

/// The lines that are not blank, each with its number from 0 and its object.
fn records(text: &str) -> impl Iterator<Item = Result<(usize, Value)>> {
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

/// One value, or a list of those of each line.
fn whole_or_lines(text: &str) -> Result<Value> {
    if let Ok(value @ (Value::Array(_) | Value::Object(_))) = serde_json::from_str::<Value>(text)
        && (value.is_array() || value.get("type").is_none())
    {
        return Ok(value);
    }
    let records = records(text).map(|record| record.map(|(_, value)| value));
    Ok(Value::Array(records.collect::<Result<_>>()?))
}

/// The text of a field.
fn named<'a>(value: &'a Value, field: &str) -> &'a str {
    value[field].as_str().unwrap_or_default()
}

/// The time of a record, in RFC 3339.
fn time_of(record: &Value) -> Option<String> {
    let fields = ["timestamp", "created_at", "time"];
    fields
        .iter()
        .find_map(|field| lenient::rfc3339(&record[*field]))
}
