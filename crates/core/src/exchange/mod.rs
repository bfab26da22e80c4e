//! Conversations in the shapes in which other programs keep or send them.
//!
//! # Limits of the providers
//!
//! [`sequence`] makes one order of calls and results that all providers accept. Then the writer of
//! a shape follows this table. A thing that a shape does not take is left out or becomes a note in
//! its place, and is listed in [`Export::left_out`](Export).
//!
//! | | OpenAI chat | OpenAI Responses | Anthropic | Gemini |
//! |---|---|---|---|---|
//! | first | anyone | anyone | the user | the user |
//! | one side twice in a row | stays | stays | becomes one | becomes one, but for results |
//! | system | where it stands | where it stands | `system`, in front | `systemInstruction`, in front |
//! | results | directly after their calls, one each | an item for each call | first in the next message, one each | as many as calls, in a content of their own |
//! | calls in a message | anywhere | items | last: text after them is refused | last |
//! | tool ids | 40 characters, not twice in a message | 64 characters, not twice | `[a-zA-Z0-9_-]`, not twice; 64 characters to be safe | optional |
//! | names of tools | `[a-zA-Z0-9_-]{1,64}` | the same | the same | begins with a letter or `_`; `[a-zA-Z0-9_.:-]{1,64}` |
//! | arguments | JSON text | JSON text | an object | an object |
//! | custom calls | `custom` | `custom_tool_call` | a call with `input` | a call with `input` |
//! | blank texts | taken; left out here | the same | refused | refused |
//! | white space at the end | taken | taken | refused in the assistant's last message | taken |
//! | pictures | PNG, JPEG, GIF, WebP; the user's | the same; tools', too | the same; tools', too | PNG, JPEG, WebP, HEIC, HEIF; the user's |
//! | sounds | WAV, MP3; the user's; its own by id | no | no | the user's |
//! | reasoning | no | with `encrypted_content`, before its item, each id once | signed or redacted, not last | no; calls have a signature |
//! | refusals | alone in a content, or as `refusal` | parts | texts | texts |
//! | `is_error` | no | no | yes | `error` for `output` |
//! | `cache_control` | no | no | four | no |
//!
//! Sources: the providers' references of these requests
//! (`platform.openai.com/docs/api-reference/chat/create` and `.../responses/create`,
//! `docs.claude.com/en/api/messages` and `.../agents-and-tools/tool-use/implement-tool-use`,
//! `ai.google.dev/api/caching#Content`, `ai.google.dev/gemini-api/docs/function-calling` and
//! `.../thought-signatures`), the types of their Python packages, and the wording of their
//! errors: `string too long. Expected a string with maximum length 40` (OpenAI, `tool_calls.id`),
//! `No tool output found for function call` and `was provided without its required following item`
//! (Responses), `tool_use ids were found without tool_result blocks immediately after`, also for
//! text after a call, `String should match pattern '^[a-zA-Z0-9_-]+$'`,
//! `text content blocks must be non-empty`,
//! `final assistant content cannot end with trailing whitespace` (Anthropic), `the number of
//! function response parts is equal to the number of function call parts`, `Function call is
//! missing a thought_signature` (Gemini).

mod anthropic;
mod export;
mod foreign;
mod format;
mod gemini;
mod lenient;
mod markdown;
mod openai;
mod opening;
mod part;
mod reading;
mod responses;
pub mod sequence;
#[cfg(test)]
mod tests;
mod turn;

pub use self::export::{Export, ExportOptions, LeftOut, Opening, Unpaired};
pub use self::foreign::transcript::Transcript;
pub use self::format::Format;
pub use self::part::{Part, PartKind};
use self::reading::{at_place, invalid, json};
use self::sequence::arrange;
use crate::error::{Error, Result};
use crate::session_file::Message;
use crate::session_file::{self, Control, Decoded};

/// Exports a conversation from all its lines, of which those before `start` are hidden, with the
/// session's summary (may be empty).
///
/// # Errors
/// [`Error::ToolCallUnpaired`], with an empty key, if the options ask for it.
pub fn export(
    lines: &[u8],
    start: usize,
    summary: &str,
    options: impl Into<ExportOptions>,
) -> Result<Export> {
    let options = options.into();
    options.check()?;
    let (hidden, live) = lines.split_at(start.min(lines.len()));
    let lines = session_file::without_hidden(hidden, live);
    if options.format == Format::Jsonl {
        let mut export = Export {
            text: String::from_utf8_lossy(&lines).into_owned(),
            ..Export::default()
        };
        if !summary.is_empty() {
            export.leave_out(None, "the summary: lines have no place for it");
        }
        return Ok(export);
    }
    let mut head = Head {
        summary,
        title: "",
        prompt: None,
    };
    let mut messages = Vec::new();
    for (_, line) in session_file::lines(&lines) {
        match session_file::decode(line) {
            Decoded::Message(message) => messages.push(message),
            Decoded::Control(Control::SystemPrompt { content }) => head.prompt = Some(content),
            _ => {}
        }
    }
    write(&head, messages, options)
}

/// The parts of a conversation before its messages.
pub struct Head<'a> {
    /// The system prompt.
    pub prompt: Option<String>,
    /// The summary; may be empty.
    pub summary: &'a str,
    /// The session's title; empty if it has none.
    pub title: &'a str,
}

/// Writes the messages in a shape other than their own.
///
/// # Errors
/// `ToolCallUnpaired`, without a key.
pub fn write(head: &Head<'_>, messages: Vec<Message>, options: ExportOptions) -> Result<Export> {
    options.check()?;
    let first = first_messages(head);
    if options.format == Format::Markdown {
        return Ok(markdown::write(head.title, &first, &messages));
    }
    let mut export = Export::default().without_title(head.title);
    if messages
        .iter()
        .any(|message| message.created_at().is_some())
    {
        export.leave_out(None, "times: the shape has no place for them");
    }
    let mut messages = in_order(messages, options.unpaired, &mut export)?;
    messages.splice(0..0, first.into_iter().map(|message| (0, message)));
    if matches!(options.format, Format::Anthropic | Format::Gemini) {
        opening::prepare(&mut messages, options.opening, &mut export);
    }
    let turns = turn::turns(&messages, options.format, &mut export);
    let value = match options.format {
        Format::OpenAiResponses => responses::write(&turns, &mut export),
        Format::Anthropic => anthropic::write(&turns, &mut export),
        Format::Gemini => gemini::write(&turns, &mut export),
        _ => openai::write(&turns, &mut export),
    };
    export.text = value.to_string();
    export.left_out.sort_by_key(|left| left.message);
    Ok(export)
}

/// The prompt, and the summary with a heading that marks it as one.
fn first_messages(head: &Head<'_>) -> Vec<Message> {
    let prompt = head.prompt.clone().map(Message::system);
    let summary = Some(head.summary).filter(|summary| !summary.trim().is_empty());
    let summary = summary.map(|summary| {
        Message::system(format!(
            "<conversation_summary>\n{summary}\n</conversation_summary>"
        ))
    });
    prompt.into_iter().chain(summary).collect()
}

/// The messages with their places, in an order that models accept.
fn in_order(
    messages: Vec<Message>,
    unpaired: Unpaired,
    export: &mut Export,
) -> Result<Vec<(usize, Message)>> {
    if unpaired == Unpaired::Keep {
        return Ok(messages.into_iter().enumerate().collect());
    }
    let arranged = arrange(messages, unpaired);
    for fault in &arranged.faults {
        if unpaired == Unpaired::Error {
            return Err(Error::ToolCallUnpaired {
                key: String::new(),
                id: fault.id.clone(),
            });
        }
        if let Some(what) = fault.kind.loss() {
            export.leave_out(fault.at, what);
        }
    }
    Ok(arranged.messages)
}

/// Adds the session's key to the error.
#[must_use]
pub fn of_session(error: Error, session: &str) -> Error {
    match error {
        Error::ToolCallUnpaired { id, .. } => Error::ToolCallUnpaired {
            key: session.into(),
            id,
        },
        other => other,
    }
}

/// The messages of a text in the given shape.
///
/// # Errors
/// [`Error::InvalidMessage`], which names the place of the item that is not a message.
pub fn import(text: &str, format: Format) -> Result<Vec<Message>> {
    Ok(Transcript::read(text, Some(format))?.messages)
}

/// The messages of a tidied text in one of the shapes that hold nothing else.
fn read(text: &str, format: Format) -> Result<Vec<Message>> {
    match format {
        Format::OpenAi => openai::read(text),
        Format::Anthropic => anthropic::read(&json(text)?),
        Format::Gemini => gemini::read(&json(text)?),
        Format::Markdown => Err(invalid("Markdown cannot be imported")),
        _ => lines(text),
    }
}

/// The messages of the lines. Blank lines and control records are skipped.
fn lines(text: &str) -> Result<Vec<Message>> {
    let mut messages = Vec::new();
    for (at, line) in text.split('\n').enumerate() {
        let line = line.strip_suffix('\r').unwrap_or(line);
        let message = match session_file::decode(line.as_bytes()) {
            Decoded::Blank | Decoded::Control(_) => continue,
            Decoded::Message(message) | Decoded::Transient(message) => Ok(message),
            Decoded::Corrupt(reason) => {
                lenient::message(line).map_err(|_| invalid(reason.to_string()))
            }
        };
        let message = message.and_then(|message| match message.role() {
            "" => Err(invalid("there is no role")),
            _ => Ok(message),
        });
        messages.push(message.map_err(|error| at_place("line", at, &error))?);
    }
    Ok(messages)
}
