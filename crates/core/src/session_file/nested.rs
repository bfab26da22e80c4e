//! Decodes the structures inside a message, merging as Go does.

use super::parts::{
    Attachment, CacheControl, ExtraContent, FunctionCall, GoogleExtra, SystemPart, ToolCall,
};
use super::raw::RawField;
use super::scan::{ScanResult, Scanner};
use super::text::known_field;

/// A list as Go decodes it: a later one under the same name overwrites the elements of the earlier,
/// and reuses old elements beyond its predecessor's end.
pub(super) struct Slots<T> {
    items: Vec<T>,
    len: usize,
}

impl<T> Default for Slots<T> {
    fn default() -> Self {
        Self {
            items: Vec::new(),
            len: 0,
        }
    }
}

impl<T: Default> Slots<T> {
    pub(super) fn read(
        &mut self,
        scanner: &mut Scanner<'_>,
        read: fn(&mut Scanner<'_>, &mut T) -> ScanResult<()>,
    ) -> ScanResult<()> {
        self.len = 0;
        if !scanner.null()? {
            scanner.array(|scanner| {
                if self.len == self.items.len() {
                    self.items.push(T::default());
                }
                self.len += 1;
                read(scanner, &mut self.items[self.len - 1])
            })?;
        }
        if self.len == 0 {
            self.items.clear();
        }
        Ok(())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub(super) fn into_vec(mut self) -> Vec<T> {
        self.items.truncate(self.len);
        self.items
    }
}

pub(super) fn string(scanner: &mut Scanner<'_>, into: &mut String) -> ScanResult<()> {
    if let Some(text) = scanner.text()? {
        *into = text.value().into_owned();
    }
    Ok(())
}

fn optional<T: Default>(
    scanner: &mut Scanner<'_>,
    into: &mut Option<T>,
    read: fn(&mut Scanner<'_>, &mut T) -> ScanResult<()>,
) -> ScanResult<()> {
    if scanner.null()? {
        *into = None;
        return Ok(());
    }
    read(scanner, into.get_or_insert_default())
}

fn unknown(scanner: &mut Scanner<'_>, name: &str, into: &mut Vec<RawField>) -> ScanResult<()> {
    into.push(RawField::new(name, scanner.value()?));
    Ok(())
}

pub(super) fn attachment(scanner: &mut Scanner<'_>, into: &mut Attachment) -> ScanResult<()> {
    const FIELDS: [&str; 5] = ["type", "ref", "url", "filename", "content_type"];
    if scanner.null()? {
        return Ok(());
    }
    scanner.object(|scanner, name| match known_field(&name, &FIELDS) {
        "type" => string(scanner, &mut into.kind),
        "ref" => string(scanner, &mut into.reference),
        "url" => string(scanner, &mut into.url),
        "filename" => string(scanner, &mut into.filename),
        "content_type" => string(scanner, &mut into.content_type),
        _ => unknown(scanner, &name, &mut into.unknown),
    })
}

pub(super) fn system_part(scanner: &mut Scanner<'_>, into: &mut SystemPart) -> ScanResult<()> {
    const FIELDS: [&str; 3] = ["type", "text", "cache_control"];
    if scanner.null()? {
        return Ok(());
    }
    scanner.object(|scanner, name| match known_field(&name, &FIELDS) {
        "type" => string(scanner, &mut into.kind),
        "text" => string(scanner, &mut into.text),
        "cache_control" => optional(scanner, &mut into.cache_control, cache_control),
        _ => unknown(scanner, &name, &mut into.unknown),
    })
}

fn cache_control(scanner: &mut Scanner<'_>, into: &mut CacheControl) -> ScanResult<()> {
    scanner.object(|scanner, name| match known_field(&name, &["type"]) {
        "type" => string(scanner, &mut into.kind),
        _ => unknown(scanner, &name, &mut into.unknown),
    })
}

pub(super) fn tool_call(scanner: &mut Scanner<'_>, into: &mut ToolCall) -> ScanResult<()> {
    const FIELDS: [&str; 4] = ["id", "type", "function", "extra_content"];
    if scanner.null()? {
        return Ok(());
    }
    scanner.object(|scanner, name| match known_field(&name, &FIELDS) {
        "id" => string(scanner, &mut into.id),
        "type" => string(scanner, &mut into.kind),
        "function" => optional(scanner, &mut into.function, function_call),
        "extra_content" => optional(scanner, &mut into.extra_content, extra_content),
        _ => unknown(scanner, &name, &mut into.unknown),
    })
}

fn function_call(scanner: &mut Scanner<'_>, into: &mut FunctionCall) -> ScanResult<()> {
    const FIELDS: [&str; 3] = ["name", "arguments", "thought_signature"];
    scanner.object(|scanner, name| match known_field(&name, &FIELDS) {
        "name" => string(scanner, &mut into.name),
        "arguments" => string(scanner, &mut into.arguments),
        "thought_signature" => string(scanner, &mut into.thought_signature),
        _ => unknown(scanner, &name, &mut into.unknown),
    })
}

fn extra_content(scanner: &mut Scanner<'_>, into: &mut ExtraContent) -> ScanResult<()> {
    const FIELDS: [&str; 2] = ["google", "tool_feedback_explanation"];
    scanner.object(|scanner, name| match known_field(&name, &FIELDS) {
        "google" => optional(scanner, &mut into.google, google_extra),
        "tool_feedback_explanation" => string(scanner, &mut into.tool_feedback_explanation),
        _ => unknown(scanner, &name, &mut into.unknown),
    })
}

fn google_extra(scanner: &mut Scanner<'_>, into: &mut GoogleExtra) -> ScanResult<()> {
    const FIELDS: [&str; 1] = ["thought_signature"];
    scanner.object(|scanner, name| match known_field(&name, &FIELDS) {
        "thought_signature" => string(scanner, &mut into.thought_signature),
        _ => unknown(scanner, &name, &mut into.unknown),
    })
}
