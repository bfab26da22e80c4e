//! The parts of a message, in any shape.

use std::borrow::Cow;

use serde_json::{Value, json};

use super::anthropic;
use super::turn::is_models;
use crate::session_file::{Attachment, Message, ToolCall};

/// One thing in a message for a model: a text, a picture, a tool call.
///
/// [`Message::parts`] lists them, `Budget::part_counter` prices
/// them.
#[derive(Clone, Debug, PartialEq)]
pub struct Part<'a> {
    kind: PartKind,
    text: Cow<'a, str>,
    pub(super) raw: Value,
}

/// Kinds of [`Part`]s.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum PartKind {
    /// A text.
    Text,
    /// A picture.
    Image,
    /// A sound.
    Audio,
    /// A film.
    Video,
    /// Any other file.
    File,
    /// The model's reasoning.
    Reasoning,
    /// The reason why the model will not answer.
    Refusal,
    /// A tool call.
    Call,
    /// A part of a type that this crate does not know.
    Other,
}

/// Bytes of data, decoded from base64, per token of a medium.
const AUDIO_BYTES: usize = 100;
const VIDEO_BYTES: usize = 500;
const FILE_BYTES: usize = 20;

/// Tokens of a picture, and the least of any other medium.
const MEDIUM: usize = 1_600;

/// Tokens of a picture that is sent with `"detail": "low"`.
const LOW_DETAIL: usize = 85;

impl<'a> Part<'a> {
    fn new(kind: PartKind, text: impl Into<Cow<'a, str>>, raw: Value) -> Self {
        let mut text: Cow<'a, str> = text.into();
        if kind == PartKind::Image
            && let Some(rest) = text.strip_prefix("data:image/jpg;")
        {
            text = format!("data:image/jpeg;{rest}").into();
        }
        Self { kind, text, raw }
    }

    /// Its kind.
    #[must_use]
    pub fn kind(&self) -> PartKind {
        self.kind
    }

    /// Its text. For a medium: its address (`data:` for one in the message itself) or, without one,
    /// its name. For a call: its function and arguments. For a part of an unknown type: its JSON.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The estimated tokens. Texts, calls and reasoning: a quarter of the characters; reasoning
    /// counts its text or its encrypted form, whichever is longer. A picture: 1,600, the most that
    /// common models take, or 85 with `"detail": "low"`. A sound: one token per 100 bytes; a film:
    /// per 500; a file: per 20, or per four if it is text; at least 1,600 each, and exactly that if
    /// only an address is known.
    #[must_use]
    pub fn tokens(&self) -> usize {
        match self.kind {
            PartKind::Image if self.detail() == Some("low") => LOW_DETAIL,
            PartKind::Image => MEDIUM,
            PartKind::Audio => self.of_data(AUDIO_BYTES),
            PartKind::Video => self.of_data(VIDEO_BYTES),
            PartKind::File => {
                let is_text = media_type(&self.text).is_some_and(|kind| kind.starts_with("text/"));
                self.of_data(if is_text { 4 } else { FILE_BYTES })
            }
            PartKind::Reasoning => self.text.chars().count().max(self.encrypted().len()) / 4,
            PartKind::Call => self.text.chars().count().div_ceil(4),
            _ => self.text.chars().count() / 4,
        }
    }

    fn of_data(&self, bytes: usize) -> usize {
        let size = match data(&self.text) {
            Some((_, data)) => data.len() / 4 * 3,
            None if media_type(&self.text).is_some() => self.text.len(),
            None => 0,
        };
        (size / bytes).max(MEDIUM)
    }

    /// Reasoning in the form that only the provider can read.
    fn encrypted(&self) -> &str {
        let raw = &self.raw;
        let forms = [&raw["data"], &raw["encrypted_content"], &raw["encrypted"]];
        forms
            .into_iter()
            .find_map(Value::as_str)
            .unwrap_or_default()
    }

    /// True if it is a picture, a sound, a film or a file.
    pub(super) fn is_medium(&self) -> bool {
        use PartKind::{Audio, File, Image, Video};
        matches!(self.kind, Image | Audio | Video | File)
    }

    /// The requested detail of a picture.
    pub(super) fn detail(&self) -> Option<&str> {
        let detail = [&self.raw["image_url"]["detail"], &self.raw["detail"]];
        detail.into_iter().find_map(Value::as_str)
    }

    /// The name of a file.
    pub(super) fn filename(&self) -> Option<&str> {
        let raw = &self.raw;
        let names = [&raw["file"]["filename"], &raw["filename"], &raw["title"]];
        let name = names.into_iter().find_map(Value::as_str);
        name.filter(|name| !name.is_empty())
    }

    /// A text in its place, for a provider that does not take it.
    pub(super) fn note(&self) -> String {
        let what = match self.kind {
            PartKind::Image => "image",
            PartKind::Audio => match self.raw["transcript"].as_str() {
                Some(said) if !said.trim().is_empty() => return said.to_owned(),
                _ => "audio",
            },
            PartKind::Video => "video",
            PartKind::File => "file",
            _ => return self.text.clone().into_owned(),
        };
        let address = Some(&*self.text).filter(|text| !text.starts_with("data:"));
        match self.filename().or(address).filter(|name| !name.is_empty()) {
            Some(name) => format!("[{what}: {name}]"),
            None => format!("[{what}]"),
        }
    }
}

impl Message {
    /// Everything in the message for a model, each with its kind: the parts of its content in
    /// order, its refusal, reasoning, media, attachments and tool calls. A message without text has
    /// no part for it.
    ///
    /// ```
    /// use sessionlog::{Message, PartKind};
    ///
    /// let message = Message::user("look").with_media("data:image/png;base64,AAAA");
    /// let kinds: Vec<_> = message.parts().iter().map(|part| part.kind()).collect();
    /// assert_eq!(kinds, [PartKind::Text, PartKind::Image]);
    /// ```
    #[must_use]
    pub fn parts(&self) -> Vec<Part<'_>> {
        let mut parts = self.own_parts();
        let calls = self.tool_calls().iter().map(Part::of_call);
        parts.extend(calls);
        parts
    }

    /// The parts, without calls.
    pub(super) fn own_parts(&self) -> Vec<Part<'_>> {
        let mut parts = Vec::new();
        let field = |name| self.unknown_field(name).and_then(value_of);
        for provider in ["thinking_blocks", "reasoning_items"] {
            if let Some(Value::Array(blocks)) = field(provider) {
                parts.extend(blocks.into_iter().filter_map(Part::read));
            }
        }
        if parts.is_empty() && !self.reasoning().is_empty() {
            let thought = Part::new(PartKind::Reasoning, self.reasoning(), Value::Null);
            parts.push(thought);
        }
        match self.content_parts() {
            Some(content) => {
                let content = value_of(content).unwrap_or_default();
                let content = content.as_array().cloned().unwrap_or_default();
                parts.extend(content.into_iter().filter_map(Part::read));
            }
            None => match self.text() {
                text if text.is_empty() => {}
                text => parts.push(Part::new(PartKind::Text, text, Value::Null)),
            },
        }
        let refused = parts.iter().any(|part| part.kind == PartKind::Refusal);
        if let Some(Value::String(refusal)) = field("refusal").filter(|_| !refused)
            && !refusal.is_empty()
        {
            parts.push(Part::new(PartKind::Refusal, refusal, Value::Null));
        }
        let is_said = |part: &Part<'_>| part.kind == PartKind::Text && !part.text.trim().is_empty();
        if let Some(audio) = self.own_audio().filter(|_| !parts.iter().any(is_said)) {
            let id = audio["id"].as_str().unwrap_or_default().to_owned();
            parts.push(Part::new(PartKind::Audio, id, audio));
        }
        parts.extend(self.media().iter().map(|address| Part::of_address(address)));
        parts.extend(self.attachments().iter().map(Part::of_attachment));
        parts
    }

    /// True if the message has something for a model, apart from calls and reasoning.
    pub(super) fn says_something(&self) -> bool {
        self.own_parts().iter().any(|part| match part.kind {
            PartKind::Reasoning => false,
            PartKind::Text | PartKind::Refusal => !part.text.trim().is_empty(),
            _ => true,
        })
    }

    /// The model's spoken output, in OpenAI's form: an object with its id or its transcript.
    pub(super) fn own_audio(&self) -> Option<Value> {
        let audio = self.unknown_field("audio").and_then(value_of)?;
        let is_any = audio["id"].is_string() || audio["transcript"].is_string();
        (is_any && is_models(self.role())).then_some(audio)
    }

    /// True if the model's reasoning is kept with it, in any shape.
    pub(super) fn has_reasoning(&self) -> bool {
        let mut parts = self.own_parts().into_iter();
        parts.any(|part| part.kind == PartKind::Reasoning)
    }
}

impl<'a> Part<'a> {
    fn of_call(call: &'a ToolCall) -> Self {
        let text = match &call.function {
            Some(function) => format!("{}{}", function.name, function.arguments),
            None => call.unknown_field("custom").unwrap_or_default().to_owned(),
        };
        Self::new(PartKind::Call, text, Value::Null)
    }

    /// A medium of which only the address is known.
    fn of_address(address: &'a str) -> Self {
        let kind = match media_type(address) {
            Some(kind) => kind_of(kind),
            None if address.starts_with("media://") => PartKind::Image,
            None => kind_of(guessed_type(address)),
        };
        Self::new(kind, address, Value::Null)
    }

    fn of_attachment(attachment: &'a Attachment) -> Self {
        let known = Some(&*attachment.content_type).filter(|kind| !kind.is_empty());
        let named = [&attachment.url, &attachment.filename, &attachment.reference];
        let name = named.into_iter().find(|name| !name.is_empty());
        let name = name.map_or("", String::as_str);
        let kind = known.unwrap_or_else(|| guessed_type(name));
        let kind = match &*attachment.kind {
            "image" => PartKind::Image,
            "audio" | "voice" => PartKind::Audio,
            "video" => PartKind::Video,
            _ => kind_of(kind),
        };
        let raw = json!({"filename": attachment.filename});
        Self::new(kind, name, raw)
    }

    /// A part of a content, in the form of kimi-cli, OpenAI, Anthropic or Google.
    fn read(raw: Value) -> Option<Self> {
        use PartKind::{Audio, File, Image, Other, Reasoning, Refusal, Text, Video};
        let text = |value: &Value| value.as_str().map(String::from);
        let (kind, told) = match raw["type"].as_str()? {
            "text" | "input_text" | "output_text" | "summary_text" => (Text, text(&raw["text"])),
            "refusal" => (Refusal, text(&raw["refusal"])),
            "think" => (Reasoning, text(&raw["think"])),
            "thinking" => (Reasoning, text(&raw["thinking"])),
            "redacted_thinking" => (Reasoning, Some(String::new())),
            "reasoning_text" => (Reasoning, text(&raw["text"])),
            "reasoning" => (
                Reasoning,
                text(&raw["text"]).or_else(|| Some(thoughts(&raw))),
            ),
            "image_url" => (
                Image,
                text(&raw["image_url"]["url"]).or_else(|| text(&raw["image_url"])),
            ),
            "audio_url" => (Audio, text(&raw["audio_url"]["url"])),
            "video_url" => (Video, text(&raw["video_url"]["url"])),
            "input_image" => (
                Image,
                text(&raw["image_url"]).or_else(|| text(&raw["file_id"])),
            ),
            "input_audio" => {
                let (data, format) = (&raw["input_audio"]["data"], &raw["input_audio"]["format"]);
                let whole = data.as_str().zip(format.as_str());
                (
                    Audio,
                    whole.map(|(data, format)| format!("data:audio/{format};base64,{data}")),
                )
            }
            "file" | "input_file" => {
                let file = raw.get("file").unwrap_or(&raw);
                let places = [&file["file_data"], &file["file_url"], &file["file_id"]];
                (File, places.into_iter().find_map(text))
            }
            kind @ ("image" | "document") => (
                if kind == "image" { Image } else { File },
                source(&raw["source"]).or_else(|| inline(&raw)),
            ),
            _ => (Other, None),
        };
        Some(match told {
            Some(told) => Part::new(kind, told, raw),
            None => Part::new(Other, raw.to_string(), raw),
        })
    }
}

/// The texts of an OpenAI reasoning item.
pub(super) fn thoughts(item: &Value) -> String {
    let lists = ["summary", "content"].map(|list| anthropic::texts(&item[list]));
    let texts = lists.into_iter().filter(|text| !text.is_empty());
    texts.collect::<Vec<_>>().join("\n")
}

/// The address of an Anthropic source.
pub(super) fn source(source: &Value) -> Option<String> {
    match source["type"].as_str()? {
        "url" => source["url"].as_str().map(String::from),
        "file" => source["file_id"].as_str().map(String::from),
        kind @ ("base64" | "text") => {
            let media = source["media_type"].as_str()?;
            let data = source["data"].as_str()?;
            let encoding = if kind == "text" { "" } else { ";base64" };
            Some(format!("data:{media}{encoding},{data}"))
        }
        _ => None,
    }
}

/// The address of a picture with its data in its part (`data`, `mimeType`).
fn inline(raw: &Value) -> Option<String> {
    let (data, media) = (raw["data"].as_str()?, raw["mimeType"].as_str()?);
    Some(format!("data:{media};base64,{data}"))
}

fn value_of(json: &str) -> Option<Value> {
    serde_json::from_str(json).ok()
}

/// The media type and the data in base64 of an address that has both.
pub(super) fn data(address: &str) -> Option<(&str, &str)> {
    let (head, data) = address.strip_prefix("data:")?.split_once(',')?;
    let (kind, _) = head
        .strip_suffix(";base64")?
        .split_once(';')
        .unwrap_or((head.strip_suffix(";base64")?, ""));
    let is_base64 = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'=');
    (!data.is_empty() && data.bytes().all(is_base64)).then_some((kind, data))
}

/// The media type of an address, if it has one.
pub(super) fn media_type(address: &str) -> Option<&str> {
    let (head, _) = address.strip_prefix("data:")?.split_once(',')?;
    Some(head.split(';').next().unwrap_or(head)).filter(|kind| !kind.is_empty())
}

/// The media type for a name's extension.
pub(super) fn guessed_type(name: &str) -> &'static str {
    let name = name.split(['?', '#']).next().unwrap_or(name);
    let end = name.rsplit_once('.').map_or("", |(_, end)| end);
    match &*end.to_ascii_lowercase() {
        "png" => "image/png",
        "jpg" | "jpeg" => "image/jpeg",
        "gif" => "image/gif",
        "webp" => "image/webp",
        "mp3" => "audio/mpeg",
        "wav" => "audio/wav",
        "ogg" | "oga" | "opus" => "audio/ogg",
        "m4a" => "audio/mp4",
        "mp4" => "video/mp4",
        "mov" => "video/quicktime",
        "webm" => "video/webm",
        "pdf" => "application/pdf",
        "txt" | "md" => "text/plain",
        _ => "application/octet-stream",
    }
}

fn kind_of(media_type: &str) -> PartKind {
    match media_type.split('/').next() {
        Some("image") => PartKind::Image,
        Some("audio") => PartKind::Audio,
        Some("video") => PartKind::Video,
        _ => PartKind::File,
    }
}

/// The words for a part that becomes a note.
pub(super) fn homeless(part: &Part<'_>) -> String {
    let what = match part.kind() {
        PartKind::Image => "an image",
        PartKind::Audio => "a sound",
        PartKind::Video => "a film",
        PartKind::File => "a file",
        PartKind::Refusal => "a refusal",
        _ => "a part of an unknown type",
    };
    format!("{what} that the provider does not take there: a note stands for it")
}

/// True for picture types that all providers take.
pub(super) fn is_picture(media_type: &str) -> bool {
    matches!(
        media_type,
        "image/png" | "image/jpeg" | "image/gif" | "image/webp"
    )
}
