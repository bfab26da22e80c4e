//! A message as the page gets it: bounded, so that a page of messages of 1 MB each is no 200 MB.

use serde::Serialize;
use serde_json::Value;
use sessionlog::{Message, Position};

use crate::api::millis;

/// The bytes of a text that are shown at first; the page asks for the rest.
const TEXT: usize = 16 << 10;

/// The same for arguments and every smaller text.
const SMALL: usize = 4 << 10;

/// The same for everything in a message.
const ALL: usize = 64 << 10;

/// Number of attachments, calls and parts that are shown at first.
const MANY: usize = 50;

/// A message, and its place.
#[derive(Serialize)]
pub(crate) struct Shown {
    index: usize,
    position: Option<Position>,
    role: String,
    text: String,
    /// Bytes of the whole text.
    size: usize,
    /// True if any part of the message is left out.
    cut: bool,
    said: Option<i64>,
    model: String,
    reasoning: String,
    calls: Vec<Call>,
    /// The id of the call that this is the result of.
    answers: String,
    attachments: Vec<Attached>,
    system_parts: usize,
    /// The message as it stands in the file, if the whole message was requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    raw: Option<String>,
}

#[derive(Serialize)]
struct Call {
    id: String,
    name: String,
    arguments: String,
    explanation: String,
}

/// A file that came with the message, as text: it is never fetched.
#[derive(Serialize)]
struct Attached {
    kind: String,
    name: String,
    content_type: String,
    reference: String,
    url: String,
}

/// The part of a message that is shown.
pub(crate) enum Extent {
    Cut,
    Whole,
}

impl Shown {
    pub(crate) fn new(
        message: &Message,
        index: usize,
        position: Option<Position>,
        extent: &Extent,
    ) -> Self {
        let mut cutter = Cutter {
            is_whole: matches!(extent, Extent::Whole),
            left: ALL,
            cut: false,
        };
        let text = message.text();
        let mut shown = Self {
            index,
            position,
            role: cutter.small(message.role()),
            size: text.len(),
            text: cutter.text(&text),
            cut: false,
            said: message.created_at().and_then(millis),
            model: cutter.small(message.model_name()),
            reasoning: cutter.text(message.reasoning()),
            calls: cutter.calls(message),
            answers: cutter.small(message.tool_call_id()),
            attachments: cutter.attachments(message),
            system_parts: message.system_parts().len(),
            raw: None,
        };
        shown.cut = cutter.cut;
        if cutter.is_whole {
            shown.raw = serde_json::to_string(message).ok();
        }
        shown
    }
}

struct Cutter {
    is_whole: bool,
    /// The bytes that may still be shown of the message.
    left: usize,
    cut: bool,
}

impl Cutter {
    fn text(&mut self, text: &str) -> String {
        self.take(text, TEXT)
    }

    fn small(&mut self, text: &str) -> String {
        self.take(text, SMALL)
    }

    fn take(&mut self, text: &str, most: usize) -> String {
        let most = most.min(self.left);
        if self.is_whole || text.len() <= most {
            self.left = self.left.saturating_sub(text.len());
            return text.to_owned();
        }
        self.cut = true;
        let shown = &text[..text.floor_char_boundary(most)];
        self.left -= shown.len();
        shown.to_owned()
    }

    fn few<'a, T>(&mut self, items: &'a [T]) -> &'a [T] {
        if self.is_whole || items.len() <= MANY {
            return items;
        }
        self.cut = true;
        &items[..MANY]
    }

    fn calls(&mut self, message: &Message) -> Vec<Call> {
        let calls = self.few(message.tool_calls());
        calls
            .iter()
            .map(|call| {
                let function = call.function.as_ref();
                let extra = call.extra_content.as_ref();
                Call {
                    id: self.small(&call.id),
                    name: self.small(function.map_or(&call.kind, |f| &f.name)),
                    arguments: self.small(function.map_or("", |f| &f.arguments)),
                    explanation: self.small(extra.map_or("", |e| &e.tool_feedback_explanation)),
                }
            })
            .collect()
    }

    fn attachments(&mut self, message: &Message) -> Vec<Attached> {
        let files = self.few(message.attachments()).iter().map(|file| Attached {
            kind: self.small(&file.kind),
            name: self.small(&file.filename),
            content_type: self.small(&file.content_type),
            reference: self.small(&file.reference),
            url: self.small(&file.url),
        });
        let mut attached: Vec<_> = files.collect();
        attached.extend(self.few(message.media()).iter().map(|media| Attached {
            kind: String::from("media"),
            name: String::new(),
            content_type: String::new(),
            reference: self.small(media),
            url: String::new(),
        }));
        attached.extend(self.parts(message.content_parts()));
        attached
    }

    /// Returns the parts of the content that are no text: images, sounds, thoughts.
    fn parts(&mut self, parts: Option<&str>) -> Vec<Attached> {
        let parts = parts.and_then(|json| serde_json::from_str::<Vec<Value>>(json).ok());
        let parts = parts.unwrap_or_default();
        let is_text = |part: &Value| part["type"] == "text" || part.is_string();
        let others: Vec<_> = parts.iter().filter(|part| !is_text(part)).collect();
        self.few(&others)
            .iter()
            .map(|part| Attached {
                kind: self.small(part["type"].as_str().unwrap_or("part")),
                name: String::new(),
                content_type: String::new(),
                reference: self.small(&part.to_string()),
                url: String::new(),
            })
            .collect()
    }
}
