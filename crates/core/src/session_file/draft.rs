//! Decodes a line into borrowed pieces, as Go decodes it into PicoClaw's structure.
//!
//! Go decodes *into* existing values: the last of equal names wins, a `null` leaves a string as it
//! was, an object merges into the one before, and a list reuses the elements of its predecessor.
//! Classifying a line must be cheaper than building its message, so strings stay borrowed here.

use std::borrow::Cow;

use super::content::{Content, read_parts};
use super::message::{Given, Message, intern, is_blank};
use super::nested::{Slots, attachment, string, system_part, tool_call};
use super::parts::{Attachment, SystemPart, ToolCall};
use super::raw::{RawField, tidy};
use super::scan::{LineFault, ScanResult, Scanner};
use super::text::{Text, known_field};
use super::timestamp;

const MESSAGE_FIELDS: [&str; 10] = [
    "role",
    "content",
    "created_at",
    "tool_call_id",
    "tool_calls",
    "model_name",
    "reasoning_content",
    "media",
    "attachments",
    "system_parts",
];

/// A decoded line.
#[derive(Default)]
pub(super) struct Draft<'a> {
    pub(super) role: Text<'a>,
    pub(super) content: DraftContent<'a>,
    pub(super) model_name: Text<'a>,
    /// Canonical.
    pub(super) created_at: Option<Cow<'a, str>>,
    pub(super) media: Slots<String>,
    pub(super) attachments: Slots<Attachment>,
    pub(super) reasoning_content: Text<'a>,
    pub(super) system_parts: Slots<SystemPart>,
    pub(super) tool_calls: Slots<ToolCall>,
    pub(super) tool_call_id: Text<'a>,
    pub(super) unknown: Vec<(Cow<'a, str>, &'a str)>,
    /// Levels of nesting; 0 for a bare `null`.
    pub(super) depth: usize,
}

/// The field `content` of a draft.
pub(super) enum DraftContent<'a> {
    Text(Text<'a>),
    Parts(&'a str),
}

impl Default for DraftContent<'_> {
    fn default() -> Self {
        Self::Text(Text::default())
    }
}

impl DraftContent<'_> {
    pub(super) fn into_content(self) -> Content {
        match self {
            Self::Text(text) => Content::Text(text.value().into_owned()),
            Self::Parts(parts) => Content::Parts(tidy(parts).into()),
        }
    }
}

impl<'a> Draft<'a> {
    /// Decodes one record; a bare `null` is an empty one.
    pub(super) fn parse(text: &'a str) -> ScanResult<Self> {
        let mut scanner = Scanner::new(text);
        let mut draft = Self::default();
        if !scanner.null()? {
            scanner.object(|scanner, name| draft.read_field(scanner, name))?;
        }
        scanner.finish()?;
        draft.depth = scanner.deepest();
        Ok(draft)
    }

    fn read_field(&mut self, scanner: &mut Scanner<'a>, name: Cow<'a, str>) -> ScanResult<()> {
        match known_field(&name, &MESSAGE_FIELDS) {
            "role" => borrow(&mut self.role, scanner),
            "content" => self.read_content(scanner),
            "model_name" => borrow(&mut self.model_name, scanner),
            "created_at" => self.read_created_at(scanner),
            "media" => self.media.read(scanner, string),
            "attachments" => self.attachments.read(scanner, attachment),
            "reasoning_content" => borrow(&mut self.reasoning_content, scanner),
            "system_parts" => self.system_parts.read(scanner, system_part),
            "tool_calls" => self.tool_calls.read(scanner, tool_call),
            "tool_call_id" => borrow(&mut self.tool_call_id, scanner),
            _ => {
                self.unknown.push((name, scanner.value()?));
                Ok(())
            }
        }
    }

    fn read_content(&mut self, scanner: &mut Scanner<'a>) -> ScanResult<()> {
        if scanner.peek() == Some(b'[') {
            self.content = DraftContent::Parts(scanner.span(read_parts)?);
        } else if let Some(text) = scanner.text()? {
            self.content = DraftContent::Text(text);
        }
        Ok(())
    }

    /// Go passes the bytes between the quotes to its time parser unchanged, so an escape makes a
    /// time invalid.
    fn read_created_at(&mut self, scanner: &mut Scanner<'a>) -> ScanResult<()> {
        let text = scanner.text()?;
        let invalid = LineFault::Shape("created_at is not a time");
        self.created_at = text
            .map(|text| timestamp::canonical(text.body()).ok_or(invalid))
            .transpose()?;
        Ok(())
    }
}

fn borrow<'a>(into: &mut Text<'a>, scanner: &mut Scanner<'a>) -> ScanResult<()> {
    if let Some(text) = scanner.text()? {
        *into = text;
    }
    Ok(())
}

impl From<Draft<'_>> for Message {
    fn from(draft: Draft<'_>) -> Self {
        let unknown = draft.unknown.iter();
        Self {
            role: intern(draft.role.value()),
            content: draft.content.into_content(),
            model_name: draft.model_name.value().into_owned(),
            created_at: draft.created_at.map(Into::into),
            media: draft.media.into_vec(),
            attachments: draft.attachments.into_vec(),
            reasoning_content: draft.reasoning_content.value().into_owned(),
            system_parts: draft.system_parts.into_vec(),
            tool_calls: draft.tool_calls.into_vec(),
            tool_call_id: draft.tool_call_id.value().into_owned(),
            given: Given::default(),
            unknown: unknown
                .map(|(name, raw)| RawField::new(name, raw))
                .collect(),
        }
    }
}

impl Draft<'_> {
    /// True for a control record: its role starts with `_` and it lacks the time that PicoClaw
    /// gives every message it adds, whatever its role.
    pub(super) fn is_control(&self) -> bool {
        self.created_at.is_none() && self.role.value().starts_with('_')
    }

    /// [`Message::is_transient`] without the message.
    pub(super) fn is_transient(&self) -> bool {
        let DraftContent::Text(content) = &self.content else {
            return false;
        };
        let bare =
            self.tool_calls.is_empty() && self.media.is_empty() && self.attachments.is_empty();
        bare && !self.reasoning_content.is_empty()
            && self.role.value() == "assistant"
            && is_blank(&content.value())
            && !is_blank(&self.reasoning_content.value())
            && is_blank(&self.tool_call_id.value())
    }
}
