//! The structures inside a message, with PicoClaw's field names and order.

use super::encode::{EncodeFields, Visitor};
use super::raw::RawField;

/// A file that came with a message.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Attachment {
    /// Its type (`file`, `image`, …): the field `type`.
    pub kind: String,
    /// The place where the gateway keeps it: the field `ref`.
    pub reference: String,
    /// The address where it can be fetched.
    pub url: String,
    /// Its name for people.
    pub filename: String,
    /// Its MIME type.
    pub content_type: String,
    pub(super) unknown: Vec<RawField>,
}

/// A block of a system prompt.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SystemPart {
    /// The field `type`, usually `text`.
    pub kind: String,
    /// Its text.
    pub text: String,
    /// The provider's caching hint for everything up to here.
    pub cache_control: Option<CacheControl>,
    pub(super) unknown: Vec<RawField>,
}

/// A provider's caching hint.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CacheControl {
    /// The field `type`, usually `ephemeral`.
    pub kind: String,
    pub(super) unknown: Vec<RawField>,
}

/// A call of a tool that the assistant asks for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ToolCall {
    /// The id to which the answer refers in its `tool_call_id`.
    pub id: String,
    /// The field `type`, usually `function`.
    pub kind: String,
    /// The function to call.
    pub function: Option<FunctionCall>,
    /// Content that a provider expects to get back.
    pub extra_content: Option<ExtraContent>,
    pub(super) unknown: Vec<RawField>,
}

/// The function of a tool call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct FunctionCall {
    /// Its name.
    pub name: String,
    /// Its arguments, as the JSON text the model wrote (not always valid JSON).
    pub arguments: String,
    /// An opaque signature that some providers expect back.
    pub thought_signature: String,
    /// kimi-cli distinguishes missing arguments from empty ones.
    pub(super) no_arguments: bool,
    pub(super) unknown: Vec<RawField>,
}

/// Provider-specific content of a tool call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ExtraContent {
    /// Google's.
    pub google: Option<GoogleExtra>,
    /// The explanation of the call given to the user.
    pub tool_feedback_explanation: String,
    pub(super) unknown: Vec<RawField>,
}

/// Google's part of [`ExtraContent`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct GoogleExtra {
    /// An opaque signature that must come back with the call.
    pub thought_signature: String,
    pub(super) unknown: Vec<RawField>,
}

impl Attachment {
    /// An attachment of type `kind` kept at `reference`.
    #[must_use]
    pub fn new(kind: impl Into<String>, reference: impl Into<String>) -> Self {
        Self {
            kind: kind.into(),
            reference: reference.into(),
            ..Self::default()
        }
    }
}

impl SystemPart {
    /// A block of text.
    #[must_use]
    pub fn text(text: impl Into<String>) -> Self {
        Self {
            kind: String::from("text"),
            text: text.into(),
            ..Self::default()
        }
    }

    /// The same block with an `ephemeral` caching hint.
    #[must_use]
    pub fn ephemeral(mut self) -> Self {
        self.cache_control = Some(CacheControl {
            kind: String::from("ephemeral"),
            ..CacheControl::default()
        });
        self
    }
}

impl ToolCall {
    /// A call of the function `name` with `arguments` as JSON text.
    #[must_use]
    pub fn function(
        id: impl Into<String>,
        name: impl Into<String>,
        arguments: impl Into<String>,
    ) -> Self {
        Self {
            id: id.into(),
            kind: String::from("function"),
            function: Some(FunctionCall {
                name: name.into(),
                arguments: arguments.into(),
                ..FunctionCall::default()
            }),
            ..Self::default()
        }
    }
}

impl EncodeFields for Attachment {
    fn visit<V: Visitor>(&self, visitor: &mut V) -> Result<(), V::Error> {
        visitor.text_unless_empty("type", &self.kind)?;
        visitor.text_unless_empty("ref", &self.reference)?;
        visitor.text_unless_empty("url", &self.url)?;
        visitor.text_unless_empty("filename", &self.filename)?;
        visitor.text_unless_empty("content_type", &self.content_type)?;
        visitor.unknown(&self.unknown)
    }
}

impl EncodeFields for SystemPart {
    fn visit<V: Visitor>(&self, visitor: &mut V) -> Result<(), V::Error> {
        visitor.text("type", &self.kind)?;
        visitor.text("text", &self.text)?;
        visitor.object("cache_control", self.cache_control.as_ref())?;
        visitor.unknown(&self.unknown)
    }
}

impl EncodeFields for CacheControl {
    fn visit<V: Visitor>(&self, visitor: &mut V) -> Result<(), V::Error> {
        visitor.text("type", &self.kind)?;
        visitor.unknown(&self.unknown)
    }
}

impl EncodeFields for ToolCall {
    fn visit<V: Visitor>(&self, visitor: &mut V) -> Result<(), V::Error> {
        visitor.text("id", &self.id)?;
        visitor.text_unless_empty("type", &self.kind)?;
        visitor.object("function", self.function.as_ref())?;
        visitor.object("extra_content", self.extra_content.as_ref())?;
        visitor.unknown(&self.unknown)
    }
}

impl EncodeFields for FunctionCall {
    fn visit<V: Visitor>(&self, visitor: &mut V) -> Result<(), V::Error> {
        visitor.text("name", &self.name)?;
        visitor.text("arguments", &self.arguments)?;
        visitor.text_unless_empty("thought_signature", &self.thought_signature)?;
        visitor.unknown(&self.unknown)
    }
}

impl EncodeFields for ExtraContent {
    fn visit<V: Visitor>(&self, visitor: &mut V) -> Result<(), V::Error> {
        visitor.object("google", self.google.as_ref())?;
        visitor.text_unless_empty("tool_feedback_explanation", &self.tool_feedback_explanation)?;
        visitor.unknown(&self.unknown)
    }
}

impl EncodeFields for GoogleExtra {
    fn visit<V: Visitor>(&self, visitor: &mut V) -> Result<(), V::Error> {
        visitor.text_unless_empty("thought_signature", &self.thought_signature)?;
        visitor.unknown(&self.unknown)
    }
}
