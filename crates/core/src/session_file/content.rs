//! The content of a message: a text, or a list of parts.

use std::borrow::Cow;

use super::scan::{LineFault, ScanResult, Scanner};

/// The field `content`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Content {
    /// A string.
    Text(String),
    /// A list of parts, as JSON text.
    Parts(Box<str>),
}

impl Content {
    /// Its length in bytes, as text or as JSON text.
    pub(super) fn byte_len(&self) -> usize {
        match self {
            Self::Text(text) => text.len(),
            Self::Parts(parts) => parts.len(),
        }
    }

    /// The text, or the text parts joined.
    pub(super) fn text(&self) -> Cow<'_, str> {
        match self {
            Self::Text(text) => Cow::Borrowed(text),
            Self::Parts(parts) => Cow::Owned(text_of_parts(parts)),
        }
    }
}

/// Consumes a list of parts. A part is an object with a `type`. Parts of the types that kimi-cli
/// knows must have the form that it reads; others may be anything.
pub(super) fn read_parts(scanner: &mut Scanner<'_>) -> ScanResult<()> {
    scanner.array(|scanner| {
        let mut part = ContentPart::default();
        scanner.object(|scanner, name| part.read_field(scanner, &name))?;
        if part.is_valid() {
            Ok(())
        } else {
            Err(LineFault::Shape("a content part of the wrong shape"))
        }
    })
}

fn text_of_parts(parts: &str) -> String {
    let mut text = String::new();
    for_each_part(parts, |part| {
        if let (Some("text"), Value::Text(part_text)) = (part.kind.as_deref(), part.text) {
            text.push_str(&part_text);
        }
    });
    text
}

/// Calls `visit` with every part of a list that was checked when it came in.
pub(super) fn for_each_part<'a>(parts: &'a str, mut visit: impl FnMut(ContentPart<'a>)) {
    let mut scanner = Scanner::new(parts);
    // It was checked before, so that there is no error here.
    let _ = scanner.array(|scanner| {
        let mut part = ContentPart::default();
        scanner.object(|scanner, name| part.read_field(scanner, &name))?;
        visit(part);
        Ok(())
    });
}

/// The relevant fields of one part. Names are matched exactly, and the last of equal names counts,
/// as in Python.
#[derive(Default)]
pub(super) struct ContentPart<'a> {
    pub(super) kind: Option<Cow<'a, str>>,
    pub(super) text: Value<'a>,
    pub(super) think: Value<'a>,
    pub(super) encrypted: Value<'a>,
    pub(super) image_url: Value<'a>,
    pub(super) audio_url: Value<'a>,
    pub(super) video_url: Value<'a>,
    /// True if it has a field of another name that is not null.
    pub(super) has_more: bool,
}

#[derive(Default)]
pub(super) enum Value<'a> {
    #[default]
    Missing,
    Null,
    Text(Cow<'a, str>),
    /// An object with a string `url`, and no `id` or a string or null one.
    Link {
        url: Cow<'a, str>,
        /// True if it has another field that is not null.
        has_more: bool,
    },
    Other,
}

impl<'a> ContentPart<'a> {
    fn read_field(&mut self, scanner: &mut Scanner<'a>, name: &str) -> ScanResult<()> {
        let field = match name {
            "type" => {
                self.kind = match Value::read(scanner)? {
                    Value::Text(kind) => Some(kind),
                    _ => None,
                };
                return Ok(());
            }
            "text" => &mut self.text,
            "think" => &mut self.think,
            "encrypted" => &mut self.encrypted,
            "image_url" => &mut self.image_url,
            "audio_url" => &mut self.audio_url,
            "video_url" => &mut self.video_url,
            _ => {
                self.has_more |= scanner.value()? != "null";
                return Ok(());
            }
        };
        *field = Value::read(scanner)?;
        Ok(())
    }

    fn is_valid(&self) -> bool {
        match self.kind.as_deref() {
            Some("text") => matches!(self.text, Value::Text(_)),
            Some("think") => matches!(self.think, Value::Text(_)) && self.encrypted.is_optional(),
            Some("image_url") => matches!(self.image_url, Value::Link { .. }),
            Some("audio_url") => matches!(self.audio_url, Value::Link { .. }),
            Some("video_url") => matches!(self.video_url, Value::Link { .. }),
            Some(_) => true,
            None => false,
        }
    }
}

impl<'a> Value<'a> {
    fn read(scanner: &mut Scanner<'a>) -> ScanResult<Self> {
        Ok(match scanner.peek() {
            Some(b'"' | b'n') => scanner
                .text()?
                .map_or(Self::Null, |text| Self::Text(text.value())),
            Some(b'{') => Self::read_link(scanner)?,
            _ => {
                scanner.value()?;
                Self::Other
            }
        })
    }

    fn read_link(scanner: &mut Scanner<'a>) -> ScanResult<Self> {
        let (mut url, mut id, mut has_more) = (None, true, false);
        scanner.object(|scanner, name| {
            let first = scanner.peek();
            if name == "url" && first == Some(b'"') {
                url = scanner.text()?;
                return Ok(());
            }
            has_more |= scanner.value()? != "null";
            match &*name {
                "url" => url = None,
                "id" => id = matches!(first, Some(b'"' | b'n')),
                _ => {}
            }
            Ok(())
        })?;
        Ok(match url.filter(|_| id) {
            Some(url) => Self::Link {
                url: url.value(),
                has_more,
            },
            None => Self::Other,
        })
    }

    fn is_optional(&self) -> bool {
        matches!(self, Self::Missing | Self::Null | Self::Text(_))
    }
}
