//! Transcripts of other tools: which tool wrote one, and the messages in it.

mod agents;
mod claude_code;
mod codex;
mod detect;
mod gemini_cli;
mod kimi_code;
mod langchain;
pub(super) mod transcript;

use serde_json::Value;

pub(super) use self::detect::detect;
use self::transcript::{Transcript, records};
use super::format::Format;
use super::reading::invalid;
use super::{lenient, responses};
use crate::error::Result;
use crate::session_file;
use crate::stamp;

impl Transcript {
    /// Reads a conversation in the given shape, or detects its shape. A byte order mark and CR
    /// before LF are ignored.
    ///
    /// # Errors
    /// [`Error::InvalidMessage`](crate::error::Error::InvalidMessage), with the line or the number of the
    /// item that does not have that shape, or if the shape is not recognised.
    pub fn read(text: &str, format: Option<Format>) -> Result<Self> {
        let (text, replaced) = lenient::tidy(text);
        let format = match format {
            Some(format) => format,
            None => detect(&text)?,
        };
        let mut transcript = Self::new(format);
        match format {
            Format::OpenAiResponses => {
                transcript.take_items(responses::read(&whole_or_lines(&text)?)?);
            }
            Format::ClaudeCode => claude_code::read(&text, &mut transcript)?,
            Format::Codex => codex::read(&text, &mut transcript)?,
            Format::GeminiCli => gemini_cli::read(&text, &mut transcript)?,
            Format::KimiCode => kimi_code::read(&text, &mut transcript)?,
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
        let set = |time: String| stamp::parse(&time).is_some().then_some(time);
        self.id = Some(session.key).filter(|key| !key.is_empty());
        self.title = Some(session.tags.title).filter(|title| !title.is_empty());
        self.messages = session.messages;
        self.summary = session.summary;
        (self.created, self.updated) = (set(session.created), set(session.updated));
        Ok(())
    }
}

/// One JSON value, or a list of the values of all lines.
fn whole_or_lines(text: &str) -> Result<Value> {
    if let Ok(value @ (Value::Array(_) | Value::Object(_))) = serde_json::from_str::<Value>(text)
        && (value.is_array() || value.get("type").is_none())
    {
        return Ok(value);
    }
    let records = records(text).map(|record| record.map(|(_, value)| value));
    Ok(Value::Array(records.collect::<Result<_>>()?))
}
