//! The messages of a conversation as every writer gets them: with roles that all providers have,
//! and with ids and names that the provider accepts.

use std::collections::{HashSet, VecDeque};

use serde_json::{Map, Value, json};

use super::export::Export;
use super::format::Format;
use super::part;
use super::part::Part;
use crate::session_file::answered_call;
use crate::session_file::{Message, ToolCall};

/// One message.
pub(super) struct TurnMessage<'a> {
    /// Its place in the history, for reports.
    pub(super) at: usize,
    pub(super) role: Role,
    pub(super) message: &'a Message,
    pub(super) parts: Vec<Part<'a>>,
    pub(super) calls: Vec<TurnCall>,
    /// The id of the call that a result answers; `function` is its function.
    pub(super) id: String,
    pub(super) function: String,
    /// True if that call is a custom one.
    pub(super) is_custom: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    System,
    User,
    Model,
    Result,
}

/// A tool call with an id and a name that the provider accepts.
pub(super) struct TurnCall {
    pub(super) id: String,
    pub(super) name: String,
    /// The arguments as a JSON object; for a custom call its input, which is any text.
    pub(super) input: String,
    pub(super) is_custom: bool,
    /// Google's signature.
    pub(super) signature: String,
    pub(super) cache_control: Option<Value>,
}

/// The rules of a provider for ids and names.
struct NameRules {
    id: fn(char) -> bool,
    longest_id: usize,
    /// True if an id may occur only once in a conversation; false if only once in a message.
    once: bool,
    name: fn(char) -> bool,
    longest_name: usize,
    /// True if a name must begin with a letter or `_`.
    letter_first: bool,
}

fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '-')
}

impl NameRules {
    /// See the table of [`exchange`](super).
    fn of(format: Format) -> Self {
        let any = |c: char| !c.is_control();
        let (id, longest_id, once): (fn(char) -> bool, _, _) = match format {
            Format::Anthropic => (is_word, 64, true),
            Format::OpenAiResponses => (any, 64, true),
            Format::Gemini => (any, 256, false),
            _ => (any, 40, false),
        };
        let name: fn(char) -> bool = match format {
            Format::Gemini => |c| is_word(c) || matches!(c, '.' | ':'),
            _ => is_word,
        };
        Self {
            id,
            longest_id,
            once,
            name,
            longest_name: 64,
            letter_first: format == Format::Gemini,
        }
    }

    fn name(&self, name: &str) -> String {
        let mut valid = cleaned(name, self.name, self.longest_name);
        if valid.is_empty() {
            valid.push_str("unnamed");
        }
        if self.letter_first && !valid.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') {
            valid.insert(0, '_');
            valid.truncate(self.longest_name);
        }
        valid
    }
}

fn cleaned(text: &str, allowed: fn(char) -> bool, longest: usize) -> String {
    let cleaned = text.chars().take(longest);
    cleaned.map(|c| if allowed(c) { c } else { '_' }).collect()
}

/// A call that waits for its result.
struct PendingCall {
    stored: String,
    sent: String,
    function: String,
    is_custom: bool,
}

/// The ids given so far.
struct Ids {
    names: NameRules,
    used: HashSet<String>,
    waiting: VecDeque<PendingCall>,
}

impl Ids {
    /// Gives a call an id that no other call has.
    fn give(&mut self, stored: &str) -> String {
        let longest = self.names.longest_id;
        let clean = match cleaned(stored, self.names.id, longest) {
            empty if empty.trim().is_empty() => String::from("call"),
            clean => clean,
        };
        let mut id = clean.clone();
        let mut number = 2_usize;
        while !self.used.insert(id.clone()) {
            let end = format!("_{number}");
            id = clean.chars().take(longest - end.len()).collect();
            id.push_str(&end);
            number += 1;
        }
        id
    }
}

/// The messages of a conversation in a legal order, for a provider. Records changed ids in
/// `export`.
pub(super) fn turns<'a>(
    messages: &'a [(usize, Message)],
    format: Format,
    export: &mut Export,
) -> Vec<TurnMessage<'a>> {
    let mut ids = Ids {
        names: NameRules::of(format),
        used: HashSet::new(),
        waiting: VecDeque::new(),
    };
    let turns = messages.iter();
    turns
        .map(|(at, message)| turn(*at, message, &mut ids, export))
        .collect()
}

fn turn<'a>(
    at: usize,
    message: &'a Message,
    ids: &mut Ids,
    export: &mut Export,
) -> TurnMessage<'a> {
    let role = match message.role() {
        "system" | "developer" => Role::System,
        role if is_models(role) => Role::Model,
        _ if answered_call(message).is_some() => Role::Result,
        "user" | "human" => Role::User,
        other => {
            export.leave_out(at, format!("the role {other:?}: it is sent as the user's"));
            Role::User
        }
    };
    if role == Role::Model {
        ids.waiting.clear();
        if !ids.names.once {
            ids.used.clear();
        }
    }
    let calls: Vec<TurnCall> = if role == Role::Model {
        let calls = message.tool_calls().iter();
        calls.map(|call| read_call(at, call, ids, export)).collect()
    } else {
        Vec::new()
    };
    let stored = message.tool_call_id();
    let asked = ids.waiting.iter().position(|call| call.stored == stored);
    let asked = asked.filter(|_| role == Role::Result);
    let asked = asked.and_then(|at| ids.waiting.remove(at));
    // Only a result that is kept without its call has none.
    let asked = asked.unwrap_or_else(|| PendingCall {
        stored: String::new(),
        sent: cleaned(stored, ids.names.id, ids.names.longest_id),
        function: ids.names.name(&field_text(message, "name")),
        is_custom: false,
    });
    TurnMessage {
        at,
        role,
        message,
        parts: message.own_parts(),
        calls,
        id: asked.sent,
        function: asked.function,
        is_custom: asked.is_custom,
    }
}

fn read_call(at: usize, call: &ToolCall, ids: &mut Ids, export: &mut Export) -> TurnCall {
    let custom = call.custom();
    let is_custom = custom.is_some();
    let function = call.function.clone().unwrap_or_default();
    let (name, input) =
        custom.unwrap_or_else(|| (function.name.clone(), object(&function.arguments)));
    let google = call
        .extra_content
        .as_ref()
        .and_then(|extra| extra.google.as_ref());
    let signature = google.map_or("", |google| &google.thought_signature);
    let signature = match signature {
        "" => function.thought_signature,
        signature => signature.to_owned(),
    };
    let id = ids.give(&call.id);
    if id != call.id {
        export.tool_ids.push((id.clone(), call.id.clone()));
    }
    let sent = ids.names.name(&name);
    if sent != name {
        export.leave_out(
            at,
            format!("the tool's name {name:?}: it is sent as {sent:?}"),
        );
    }
    let name = sent;
    ids.waiting.push_back(PendingCall {
        stored: call.id.clone(),
        sent: id.clone(),
        function: name.clone(),
        is_custom,
    });
    TurnCall {
        id,
        name,
        input,
        is_custom,
        signature,
        cache_control: call.unknown_field("cache_control").and_then(value),
    }
}

impl ToolCall {
    /// The name and the input of a custom call.
    pub(super) fn custom(&self) -> Option<(String, String)> {
        let custom = self.unknown_field("custom").and_then(value)?;
        let text = |field: &str| custom[field].as_str().unwrap_or_default().to_owned();
        let is_function = self.function.is_some();
        (!is_function).then(|| (text("name"), text("input")))
    }
}

/// The arguments as the text of a JSON object. A model may have written anything: text that is not
/// an object becomes the value of `arguments`.
fn object(arguments: &str) -> String {
    match serde_json::from_str(arguments) {
        Ok(Value::Object(_)) => arguments.to_owned(),
        _ if arguments.trim().is_empty() => String::from("{}"),
        _ => json!({"arguments": arguments}).to_string(),
    }
}

impl TurnCall {
    /// The arguments as a JSON object.
    pub(super) fn arguments(&self) -> Value {
        if self.is_custom {
            return json!({"input": self.input});
        }
        value(&self.input).unwrap_or_else(|| json!({}))
    }
}

impl TurnMessage<'_> {
    /// Returns true if the message is sent: a message with nothing for a model is left out.
    pub(super) fn goes(&self, export: &mut Export) -> bool {
        let is_blank =
            self.calls.is_empty() && self.role != Role::Result && !self.message.says_something();
        if is_blank {
            export.leave_out(
                self.at,
                if self.message.has_reasoning() {
                    "a message of reasoning alone"
                } else {
                    "a message that says nothing"
                },
            );
        }
        !is_blank
    }

    /// Reports a name, and the model's spoken audio, for a shape that has neither.
    pub(super) fn leave_fields(&self, export: &mut Export) {
        if self.field("name").is_some() && self.role != Role::Result {
            export.leave_out(self.at, "a name: the shape has no place for it");
        }
        let is_said = || {
            let mut parts = self.parts.iter();
            !parts.any(|part| part.kind() == part::PartKind::Audio)
        };
        if self.role == Role::Model && self.message.own_audio().is_some() && is_said() {
            export.leave_out(self.at, "a sound: its message has the text");
        }
    }

    /// The value of a field that is unknown to `Message`.
    pub(super) fn field(&self, name: &str) -> Option<Value> {
        self.message.unknown_field(name).and_then(value)
    }

    pub(super) fn is_error(&self) -> bool {
        self.field("is_error") == Some(Value::Bool(true))
    }

    /// All texts, with notes in place of other parts.
    pub(super) fn plain_text(&self) -> String {
        let said = self
            .parts
            .iter()
            .filter(|part| part.kind() != part::PartKind::Reasoning);
        said.map(Part::note).collect()
    }
}

pub(super) fn field_text(message: &Message, name: &str) -> String {
    let text = message.unknown_field(name).and_then(value);
    text.and_then(|text| text.as_str().map(String::from))
        .unwrap_or_default()
}

pub(super) fn value(json: &str) -> Option<Value> {
    serde_json::from_str(json).ok()
}

/// Puts a value into an object, if there is one.
pub(super) fn put(object: &mut Map<String, Value>, name: &str, value: Option<Value>) {
    object.extend(value.map(|value| (name.to_owned(), value)));
}

/// True for the model's roles.
pub(super) fn is_models(role: &str) -> bool {
    matches!(role, "assistant" | "model" | "ai")
}
