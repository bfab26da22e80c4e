//! One message of a conversation.

use std::borrow::Cow;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use time::OffsetDateTime;

use super::buffered;
use super::content::Content;
use super::draft::Draft;
use super::encode::{self, EncodeFields, Visitor};
use super::parts::{Attachment, SystemPart, ToolCall};
use super::raw::RawField;
use super::text::to_text;
use super::timestamp;
use crate::error::{Error, Result};
use crate::stamp;

/// The most levels of nesting of a message to be written.
const MAX_DEPTH: usize = 128;

/// One message of a conversation: its role, its content, and everything that comes with it.
///
/// Unknown fields are kept, with their numbers unchanged, and written back after the known ones.
///
/// It serialises with its fields in the order in which the store writes them. With serde, an
/// unknown field that `serde_json` could not read back (nested deeper than 127 levels, or with a
/// number beyond an `f64`) is left out; the store keeps it. It deserialises under the rules of
/// [`from_json`](Self::from_json), also inside a tagged enum or a flattened field; there serde
/// rounds numbers in unknown fields to `f64`.
#[derive(Clone, PartialEq)]
pub struct Message {
    pub(super) role: Cow<'static, str>,
    pub(super) content: Content,
    pub(super) model_name: String,
    /// Canonical.
    pub(super) created_at: Option<Box<str>>,
    pub(super) media: Vec<String>,
    pub(super) attachments: Vec<Attachment>,
    pub(super) reasoning_content: String,
    pub(super) system_parts: Vec<SystemPart>,
    pub(super) tool_calls: Vec<ToolCall>,
    pub(super) tool_call_id: String,
    pub(super) given: Given,
    pub(super) unknown: Vec<RawField>,
}

/// The fields that are present though empty. PicoClaw leaves out empty fields, kimi-cli missing
/// ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Given {
    pub(super) tool_calls: bool,
    pub(super) tool_call_id: bool,
}

impl Message {
    /// A message of `role` with the text `text`. A role that starts with `_` is reserved for
    /// control records; a store refuses such a message.
    #[must_use]
    pub fn new(role: impl AsRef<str>, text: impl Into<String>) -> Self {
        Self {
            role: intern(Cow::Borrowed(role.as_ref())),
            content: Content::Text(text.into()),
            model_name: String::new(),
            created_at: None,
            media: Vec::new(),
            attachments: Vec::new(),
            reasoning_content: String::new(),
            system_parts: Vec::new(),
            tool_calls: Vec::new(),
            tool_call_id: String::new(),
            given: Given::default(),
            unknown: Vec::new(),
        }
    }

    /// A message of the user.
    #[must_use]
    pub fn user(text: impl Into<String>) -> Self {
        Self::new("user", text)
    }

    /// A message of the model.
    #[must_use]
    pub fn assistant(text: impl Into<String>) -> Self {
        Self::new("assistant", text)
    }

    /// An instruction to the model.
    #[must_use]
    pub fn system(text: impl Into<String>) -> Self {
        Self::new("system", text)
    }

    /// A tool's result for the call `call_id`.
    #[must_use]
    pub fn tool(call_id: impl Into<String>, text: impl Into<String>) -> Self {
        let mut message = Self::new("tool", text);
        message.tool_call_id = call_id.into();
        message
    }

    /// Decodes a message to be written, as leniently as PicoClaw reads one: names in any case, the
    /// last of equal names, `null` for a missing value, U+FFFD for invalid UTF-8. `content` may be
    /// a list of parts.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidMessage`] if it is not a JSON object, a field has the wrong type, it is
    /// nested deeper than 128 levels, or its role starts with `_`, which is for control records
    /// (with a `created_at` it is a message that PicoClaw added, and accepted).
    pub fn from_json(json: &[u8]) -> Result<Self> {
        let text = to_text(json);
        let draft = Draft::parse(&text).map_err(|fault| invalid(fault.reason()))?;
        match draft.depth {
            0 => return Err(invalid("not a JSON object")),
            1..=MAX_DEPTH => {}
            _ => return Err(invalid("nested deeper than 128 levels")),
        }
        let message = Self::from(draft);
        message.check_writable()?;
        Ok(message)
    }

    /// The message as JSON text, as the store writes it in a line: with every field, including
    /// those that [serde](Self) leaves out.
    ///
    /// ```
    /// # use sessionlog::Message;
    /// let text = br#"{"role":"user","content":"hi","weight":1e400}"#;
    /// assert_eq!(Message::from_json(text).unwrap().to_json(), text);
    /// ```
    #[must_use]
    pub fn to_json(&self) -> Vec<u8> {
        super::line::encode(self, None)
    }

    /// The same message with a call of the function `name`; `arguments` is
    /// JSON text.
    #[must_use]
    pub fn with_tool_call(
        mut self,
        id: impl Into<String>,
        name: impl Into<String>,
        arguments: impl Into<String>,
    ) -> Self {
        let call = ToolCall::function(id, name, arguments);
        self.tool_calls.push(call);
        self
    }

    /// The same message with one more reference to a medium.
    #[must_use]
    pub fn with_media(mut self, reference: impl Into<String>) -> Self {
        self.media.push(reference.into());
        self
    }

    /// The same message with one more attachment.
    #[must_use]
    pub fn with_attachment(mut self, attachment: Attachment) -> Self {
        self.attachments.push(attachment);
        self
    }

    /// The same message with one more block of its system prompt.
    #[must_use]
    pub fn with_system_part(mut self, part: SystemPart) -> Self {
        self.system_parts.push(part);
        self
    }

    /// The same message with the reasoning that led to it.
    #[must_use]
    pub fn with_reasoning(mut self, reasoning: impl Into<String>) -> Self {
        self.reasoning_content = reasoning.into();
        self
    }

    /// The same message with the name of the model that wrote it.
    #[must_use]
    pub fn with_model_name(mut self, model_name: impl Into<String>) -> Self {
        self.model_name = model_name.into();
        self
    }

    /// The same message, said at `time` (RFC 3339). Without a time the store sets the time when the
    /// message was added.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidMessage`] if `time` is not one.
    pub fn with_created_at(mut self, time: &str) -> Result<Self> {
        let time = timestamp::canonical(time).ok_or_else(|| invalid("not an RFC 3339 time"))?;
        self.created_at = Some(time.into());
        Ok(self)
    }

    /// The role: `user`, `assistant`, `system`, `tool`, or anything else.
    #[must_use]
    pub fn role(&self) -> &str {
        &self.role
    }

    /// The text; for a list of parts, the text parts joined.
    #[must_use]
    pub fn text(&self) -> Cow<'_, str> {
        self.content.text()
    }

    /// The list of parts as JSON text, if the content is one. PicoClaw treats such a line as
    /// corrupt.
    #[must_use]
    pub fn content_parts(&self) -> Option<&str> {
        match &self.content {
            Content::Text(_) => None,
            Content::Parts(parts) => Some(parts),
        }
    }

    /// The time when it was said (RFC 3339).
    #[must_use]
    pub fn created_at(&self) -> Option<&str> {
        self.created_at.as_deref()
    }

    /// The time when it was said; `None` if it is unknown or cannot be parsed.
    #[must_use]
    pub fn created(&self) -> Option<OffsetDateTime> {
        self.created_at().and_then(stamp::parse)
    }

    /// The model that wrote it, or `""`.
    #[must_use]
    pub fn model_name(&self) -> &str {
        &self.model_name
    }

    /// References to media that came with it.
    #[must_use]
    pub fn media(&self) -> &[String] {
        &self.media
    }

    /// Files that came with it.
    #[must_use]
    pub fn attachments(&self) -> &[Attachment] {
        &self.attachments
    }

    /// The reasoning that led to it, or `""`.
    #[must_use]
    pub fn reasoning(&self) -> &str {
        &self.reasoning_content
    }

    /// The blocks of a system prompt.
    #[must_use]
    pub fn system_parts(&self) -> &[SystemPart] {
        &self.system_parts
    }

    /// The tool calls that it asks for.
    #[must_use]
    pub fn tool_calls(&self) -> &[ToolCall] {
        &self.tool_calls
    }

    /// The call that it answers, or `""`.
    #[must_use]
    pub fn tool_call_id(&self) -> &str {
        &self.tool_call_id
    }

    /// The value, as JSON text, of an unknown top-level field; the last of equal names.
    #[must_use]
    pub fn unknown_field(&self, name: &str) -> Option<&str> {
        let mut fields = self.unknown.iter().rev();
        let field = fields.find(|field| &*field.name == name)?;
        Some(&field.value)
    }

    /// True if it is reasoning without an answer, which PicoClaw never stores and never shows. A
    /// list of parts is not.
    #[doc(hidden)]
    #[must_use]
    pub fn is_transient(&self) -> bool {
        let Content::Text(content) = &self.content else {
            return false;
        };
        let bare =
            self.tool_calls.is_empty() && self.media.is_empty() && self.attachments.is_empty();
        bare && self.role == "assistant"
            && is_blank(content)
            && !is_blank(&self.reasoning_content)
            && is_blank(&self.tool_call_id)
    }

    /// Refuses a message that would not read back as one: a line whose role starts with `_` is a
    /// control record, unless it has the time that PicoClaw gives.
    ///
    /// # Errors
    /// [`Error::InvalidMessage`].
    #[doc(hidden)]
    pub fn check_writable(&self) -> Result<()> {
        if self.created_at.is_none() {
            check_role(&self.role)?;
        }
        Ok(())
    }
}

/// Refuses a role that a new message must not have.
///
/// # Errors
/// [`Error::InvalidMessage`].
pub fn check_role(role: &str) -> Result<()> {
    if role.starts_with('_') {
        return Err(invalid("roles that start with _ are for control records"));
    }
    Ok(())
}

/// The canonical order of fields; `created_at` may come from elsewhere.
pub(super) struct TimedMessage<'a> {
    pub(super) message: &'a Message,
    pub(super) created_at: Option<&'a str>,
}

impl EncodeFields for TimedMessage<'_> {
    fn visit<V: Visitor>(&self, visitor: &mut V) -> std::result::Result<(), V::Error> {
        let message = self.message;
        visitor.text("role", &message.role)?;
        match &message.content {
            Content::Text(text) => visitor.text("content", text)?,
            Content::Parts(parts) => visitor.raw("content", parts)?,
        }
        visitor.text_unless_empty("model_name", &message.model_name)?;
        visitor.text_unless_empty("created_at", self.created_at.unwrap_or(""))?;
        visitor.texts("media", &message.media)?;
        visitor.objects("attachments", &message.attachments)?;
        visitor.text_unless_empty("reasoning_content", &message.reasoning_content)?;
        visitor.objects("system_parts", &message.system_parts)?;
        visitor.objects("tool_calls", &message.tool_calls)?;
        visitor.text_unless_empty("tool_call_id", &message.tool_call_id)?;
        visitor.unknown(&message.unknown)
    }
}

impl Serialize for Message {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        let stamped = TimedMessage {
            message: self,
            created_at: self.created_at(),
        };
        encode::serialize(&stamped, serializer)
    }
}

impl<'de> Deserialize<'de> for Message {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        let raw = buffered::text(deserializer)?;
        Self::from_json(raw.get().as_bytes()).map_err(D::Error::custom)
    }
}

fn invalid(reason: &str) -> Error {
    Error::InvalidMessage {
        reason: reason.to_owned(),
    }
}

pub(super) fn is_blank(text: &str) -> bool {
    text.trim().is_empty()
}

/// Interns a role: every message has one, and the usual ones need no memory.
pub(super) fn intern(role: Cow<'_, str>) -> Cow<'static, str> {
    match &*role {
        "user" => Cow::Borrowed("user"),
        "assistant" => Cow::Borrowed("assistant"),
        "system" => Cow::Borrowed("system"),
        "tool" => Cow::Borrowed("tool"),
        _ => Cow::Owned(role.into_owned()),
    }
}

/// Shows the role and the beginning of the text, not all of it: errors that hand messages back end
/// up in logs.
impl std::fmt::Debug for Message {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        const SHOWN: usize = 48;
        let text = self.text();
        let mut shown: String = text.chars().take(SHOWN).collect();
        if shown.len() < text.len() {
            shown.push('…');
        }
        f.debug_struct("Message")
            .field("role", &self.role)
            .field("text", &shown)
            .field("bytes", &text.len())
            .finish_non_exhaustive()
    }
}
