//! Lines as kimi-cli takes them: JSON as Python reads it, records as its model
//! classes validate them.
//!
//! What makes kimi-cli give up on a whole file (a part of an unknown type, a
//! message without content, a field called `self`) costs only its line here.

use std::borrow::Cow;

use super::content::Content;
use super::draft::Draft;
use super::message::{Given, Message, intern};
use super::parts::{FunctionCall, ToolCall};
use super::raw::{RawField, tidy};
use super::scan::Scanner;
use super::text::Text;

/// What a line of a context file is.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Record {
    /// White space.
    Blank,
    /// Nothing that kimi-cli keeps: no JSON object, or a record that it rejects.
    Rejected,
    /// A record that another version may know: kept, without effect.
    Foreign,
    /// How many tokens the conversation had.
    Usage(i64),
    /// A point to go back to.
    Checkpoint(i64),
    /// The system prompt.
    SystemPrompt(String),
    /// A message.
    Message(Box<Message>),
}

/// Decodes one line, given without its line end.
pub(crate) fn decode(line: &str) -> Record {
    if line.chars().all(is_python_space) {
        return Record::Blank;
    }
    let Some(record) = Members::of(line) else {
        return Record::Rejected;
    };
    if has_huge_integer(line) {
        return Record::Foreign;
    }
    let role = record.text("role");
    match role.as_deref() {
        Some("_usage") => {
            integer(record.get("token_count")).map_or(Record::Rejected, Record::Usage)
        }
        Some("_checkpoint") => {
            integer(record.get("id")).map_or(Record::Rejected, Record::Checkpoint)
        }
        Some("_system_prompt") => record
            .text("content")
            .map_or(Record::Rejected, |text| Record::SystemPrompt(text.into())),
        Some(role) if role.starts_with('_') => Record::Foreign,
        Some(role @ ("user" | "assistant" | "system" | "tool")) => message(line, role, &record),
        _ => Record::Rejected,
    }
}

/// A line that only Python takes for JSON, as JSON proper; `None` for one that
/// it does not take for a record either.
pub(crate) fn strict(line: &str) -> Option<String> {
    match decode(line) {
        Record::Blank | Record::Rejected => None,
        _ => Some(tidy(line)),
    }
}

/// Whether Python's `str.strip` takes it away.
pub(crate) fn is_python_space(character: char) -> bool {
    character.is_whitespace() || ('\u{1c}'..='\u{1f}').contains(&character)
}

/// Whether a line, which is an object, holds an integer of more digits than
/// Python converts.
fn has_huge_integer(line: &str) -> bool {
    const DIGITS: usize = 4_300;
    if line.len() <= DIGITS {
        return false;
    }
    let mut in_string = false;
    let mut escaped = false;
    // Of the number at hand, while it may be an integer.
    let mut digits = Some(0);
    for byte in line.bytes() {
        if in_string {
            in_string = escaped || byte != b'"';
            escaped = !escaped && byte == b'\\';
            continue;
        }
        match byte {
            b'0'..=b'9' => digits = digits.map(|count| count + 1),
            b'.' | b'e' | b'E' | b'+' => digits = None,
            b'-' => {}
            _ if digits.is_some_and(|count| count > DIGITS) => return true,
            _ => (digits, in_string) = (Some(0), byte == b'"'),
        }
    }
    false
}

/// The role of a line that is an object, and its content, as JSON text.
pub(crate) fn role_and_content(line: &str) -> Option<(Option<String>, Option<&str>)> {
    let record = Members::of(line)?;
    let role = record.text("role").map(Cow::into_owned);
    Some((role, record.get("content")))
}

/// The text of a JSON string, or of the only part of a list of parts.
pub(crate) fn only_text(content: &str) -> Option<String> {
    if let Some(text) = text(content) {
        return Some(text.into_owned());
    }
    match &*items(content)? {
        [part] => Members::of(part)?.text("text").map(Cow::into_owned),
        _ => None,
    }
}

fn message(line: &str, role: &str, record: &Members<'_>) -> Record {
    let Some(content) = record.get("content") else {
        return Record::Foreign;
    };
    if record.get("self").is_some() {
        return Record::Foreign;
    }
    match read_message(role, content, record) {
        Ok(known) => Record::Message(Box::new(known.with_rest_of(line))),
        Err(Reject::Unknown) => Record::Foreign,
        Err(Reject::Invalid) => Record::Rejected,
    }
}

/// Why a record is no message.
enum Reject {
    /// kimi-cli's validation says so.
    Invalid,
    /// kimi-cli does not know what it is.
    Unknown,
}

/// The fields of a message that kimi-cli knows.
struct Known<'a> {
    role: &'a str,
    name: Option<&'a str>,
    content: Content,
    tool_calls: Option<Vec<ToolCall>>,
    tool_call_id: Option<String>,
    partial: Option<bool>,
}

fn read_message<'a>(
    role: &'a str,
    content: &str,
    record: &Members<'a>,
) -> Result<Known<'a>, Reject> {
    let name = record.get("name").filter(|raw| *raw != "null");
    if name.is_some_and(|raw| text(raw).is_none()) {
        return Err(Reject::Invalid);
    }
    Ok(Known {
        role,
        name,
        content: read_content(content)?,
        tool_calls: optional(record.get("tool_calls"), |raw| {
            items(raw)?.into_iter().map(tool_call).collect()
        })?,
        tool_call_id: optional(record.get("tool_call_id"), |raw| {
            text(raw).map(Cow::into_owned)
        })?,
        partial: optional(record.get("partial"), lax_bool)?,
    })
}

impl Known<'_> {
    /// The message, with what else stands in its line as far as it is of the
    /// shape this crate knows.
    fn with_rest_of(self, line: &str) -> Message {
        let line = tidy(line);
        let mut message = match Draft::parse(&line) {
            Ok(draft) => Message::from(draft),
            Err(_) => Message::new("", ""),
        };
        let given_calls = self.tool_calls.is_some();
        let calls = self.tool_calls.unwrap_or_default();
        let same_calls = message.tool_calls.len() == calls.len()
            && message
                .tool_calls
                .iter()
                .zip(&calls)
                .all(|(all, known)| same_call(all, known));
        if same_calls {
            for (all, known) in message.tool_calls.iter_mut().zip(calls) {
                complete(all, known);
            }
        } else {
            message.tool_calls = calls;
        }
        message.role = intern(Cow::Borrowed(self.role));
        message.content = self.content;
        message.given = Given {
            tool_calls: given_calls && message.tool_calls.is_empty(),
            tool_call_id: self.tool_call_id.as_deref() == Some(""),
        };
        message.tool_call_id = self.tool_call_id.unwrap_or_default();
        message
            .unknown
            .retain(|field| !matches!(&*field.name, "name" | "partial"));
        let name = self.name.map(|name| RawField::new("name", name));
        let partial = self
            .partial
            .map(|on| RawField::new("partial", if on { "true" } else { "false" }));
        message
            .unknown
            .splice(0..0, name.into_iter().chain(partial));
        message
    }
}

fn read_content(raw: &str) -> Result<Content, Reject> {
    if raw == "null" {
        return Ok(Content::Parts("[]".into()));
    }
    if let Some(text) = text(raw) {
        return Ok(Content::Text(text.into_owned()));
    }
    let parts = items(raw).ok_or(Reject::Invalid)?;
    let mut read = parts
        .into_iter()
        .map(Part::read)
        .collect::<Result<Vec<_>, _>>()?;
    if let [Part::Text(text)] = &mut *read {
        return Ok(Content::Text(std::mem::take(text)));
    }
    let texts: Vec<_> = read.iter().map(Part::to_json).collect();
    Ok(Content::Parts(format!("[{}]", texts.join(",")).into()))
}

/// A list of parts as kimi-cli writes it; unchanged where it would not read it.
pub(super) fn reencode_parts(parts: &str) -> Cow<'_, str> {
    match read_content(parts) {
        Ok(Content::Text(text)) => Cow::Owned(json_string(&text)),
        Ok(Content::Parts(parts)) => Cow::Owned(parts.into()),
        Err(_) => Cow::Borrowed(parts),
    }
}

/// One part of a content.
enum Part {
    Text(String),
    Think {
        think: String,
        encrypted: Option<String>,
    },
    Link {
        kind: &'static str,
        url: String,
        id: Option<String>,
    },
}

impl Part {
    fn read(raw: &str) -> Result<Self, Reject> {
        let part = Members::of(raw).ok_or(Reject::Invalid)?;
        let kind = part.text("type").ok_or(Reject::Invalid)?;
        let required = |name| part.text(name).map(Cow::into_owned).ok_or(Reject::Invalid);
        match &*kind {
            "text" => required("text").map(Self::Text),
            "think" => Ok(Self::Think {
                think: required("think")?,
                encrypted: optional_text(&part, "encrypted")?,
            }),
            "image_url" => Self::link(&part, "image_url"),
            "audio_url" => Self::link(&part, "audio_url"),
            "video_url" => Self::link(&part, "video_url"),
            _ => Err(Reject::Unknown),
        }
    }

    fn link(part: &Members<'_>, kind: &'static str) -> Result<Self, Reject> {
        let link = part
            .get(kind)
            .and_then(Members::of)
            .ok_or(Reject::Invalid)?;
        let url = link.text("url").ok_or(Reject::Invalid)?.into_owned();
        let id = optional_text(&link, "id")?;
        Ok(Self::Link { kind, url, id })
    }

    fn to_json(&self) -> String {
        let nullable = |text: &Option<String>| {
            text.as_deref()
                .map_or_else(|| String::from("null"), json_string)
        };
        match self {
            Self::Text(text) => format!(r#"{{"type":"text","text":{}}}"#, json_string(text)),
            Self::Think { think, encrypted } => format!(
                r#"{{"type":"think","think":{},"encrypted":{}}}"#,
                json_string(think),
                nullable(encrypted)
            ),
            Self::Link { kind, url, id } => format!(
                r#"{{"type":"{kind}","{kind}":{{"url":{},"id":{}}}}}"#,
                json_string(url),
                nullable(id)
            ),
        }
    }
}

/// `text` as a JSON string, escaped no more than JSON asks for.
pub(super) fn json_string(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

fn tool_call(raw: &str) -> Option<ToolCall> {
    let call = Members::of(raw)?;
    let function = call.get("function").and_then(Members::of)?;
    let kind_fits = call
        .get("type")
        .is_none_or(|raw| text(raw).as_deref() == Some("function"));
    let extras = call.get("extras").filter(|raw| *raw != "null");
    if !kind_fits || extras.is_some_and(|raw| !raw.starts_with('{')) {
        return None;
    }
    let arguments = match function.get("arguments") {
        None | Some("null") => None,
        Some(raw) => Some(text(raw)?.into_owned()),
    };
    let mut read = ToolCall::function(call.text("id")?, function.text("name")?, "");
    read.function = Some(FunctionCall {
        name: function.text("name")?.into_owned(),
        no_arguments: arguments.is_none(),
        arguments: arguments.unwrap_or_default(),
        ..FunctionCall::default()
    });
    read.unknown = extras
        .map(|raw| RawField::new("extras", raw))
        .into_iter()
        .collect();
    Some(read)
}

/// Whether a call read as PicoClaw reads it is the one that kimi-cli reads.
fn same_call(all: &ToolCall, known: &ToolCall) -> bool {
    let parts = |call: &ToolCall| {
        let function = call.function.as_ref();
        function.map(|f| (call.id.clone(), f.name.clone(), f.arguments.clone()))
    };
    parts(all) == parts(known)
}

/// Takes over what only kimi-cli's reading knows.
fn complete(all: &mut ToolCall, known: ToolCall) {
    all.kind = known.kind;
    all.unknown.retain(|field| &*field.name != "extras");
    all.unknown.splice(0..0, known.unknown);
    if let (Some(all), Some(known)) = (&mut all.function, known.function) {
        all.no_arguments = known.no_arguments;
    }
}

/// The members of an object, with their values as JSON text.
struct Members<'a>(Vec<(Cow<'a, str>, &'a str)>);

impl<'a> Members<'a> {
    /// `None` where `raw` is no object.
    fn of(raw: &'a str) -> Option<Self> {
        let mut scanner = Scanner::lax(raw);
        let mut members = Vec::new();
        let read = scanner.object(|scanner, name| {
            members.push((name, scanner.value()?));
            Ok(())
        });
        read.and_then(|()| scanner.finish()).ok()?;
        Some(Self(members))
    }

    /// Of equal names the last counts.
    fn get(&self, name: &str) -> Option<&'a str> {
        let mut members = self.0.iter().rev();
        members
            .find(|(found, _)| found == name)
            .map(|(_, raw)| *raw)
    }

    fn text(&self, name: &str) -> Option<Cow<'a, str>> {
        self.get(name).and_then(text)
    }
}

fn items(raw: &str) -> Option<Vec<&str>> {
    let mut scanner = Scanner::lax(raw);
    let mut items = Vec::new();
    let read = scanner.array(|scanner| {
        items.push(scanner.value()?);
        Ok(())
    });
    read.and_then(|()| scanner.finish()).ok()?;
    Some(items)
}

fn text(raw: &str) -> Option<Cow<'_, str>> {
    Scanner::lax(raw).text().ok()?.map(Text::value)
}

fn optional_text(members: &Members<'_>, name: &str) -> Result<Option<String>, Reject> {
    optional(members.get(name), |raw| text(raw).map(Cow::into_owned))
}

/// A field that may be missing or `null`, but nothing else than `read` takes.
fn optional<'a, T>(
    raw: Option<&'a str>,
    read: impl FnOnce(&'a str) -> Option<T>,
) -> Result<Option<T>, Reject> {
    match raw {
        None | Some("null") => Ok(None),
        Some(raw) => read(raw).map(Some).ok_or(Reject::Invalid),
    }
}

/// An integer of Python's: booleans are, `7.0` is not. What is beyond an `i64`
/// is as good as its end.
fn integer(raw: Option<&str>) -> Option<i64> {
    let raw = raw?;
    match raw {
        "true" => return Some(1),
        "false" => return Some(0),
        _ => {}
    }
    let digits = raw.strip_prefix('-').unwrap_or(raw);
    if !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let end = if raw.starts_with('-') {
        i64::MIN
    } else {
        i64::MAX
    };
    Some(raw.parse().unwrap_or(end))
}

/// What pydantic takes for a boolean.
fn lax_bool(raw: &str) -> Option<bool> {
    const ON: [&str; 6] = ["1", "on", "t", "true", "y", "yes"];
    const OFF: [&str; 6] = ["0", "off", "f", "false", "n", "no"];
    if let Some(text) = text(raw) {
        let among = |words: [&str; 6]| words.iter().any(|word| text.eq_ignore_ascii_case(word));
        return match (among(ON), among(OFF)) {
            (true, _) => Some(true),
            (_, true) => Some(false),
            _ => None,
        };
    }
    match raw {
        "true" => Some(true),
        "false" => Some(false),
        number => match number.parse::<f64>().ok()? {
            0.0 => Some(false),
            1.0 => Some(true),
            _ => None,
        },
    }
}
