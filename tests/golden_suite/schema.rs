//! The records of the reference, as tables: how they decode and encode.

use serde_json::{Map, Value};

use super::json::{Json, quote};

/// What a field holds.
#[derive(Clone, Copy)]
pub(crate) enum Kind {
    Text,
    /// A string, or a list of parts (rule 5).
    Content,
    Int,
    Time,
    Any,
    List(&'static Kind),
    Struct(&'static [Field]),
}

/// One field; an optional one is left out where it is empty.
#[derive(Clone, Copy)]
pub(crate) struct Field {
    name: &'static str,
    kind: Kind,
    optional: bool,
}

/// Whether PicoClaw knows a field of this name.
pub(crate) fn knows(fields: &[Field], name: &str) -> bool {
    fields.iter().any(|field| field.name == name)
}

const fn must(name: &'static str, kind: Kind) -> Field {
    Field {
        name,
        kind,
        optional: false,
    }
}

const fn may(name: &'static str, kind: Kind) -> Field {
    Field {
        name,
        kind,
        optional: true,
    }
}

static ATTACHMENT: [Field; 5] = [
    may("type", Kind::Text),
    may("ref", Kind::Text),
    may("url", Kind::Text),
    may("filename", Kind::Text),
    may("content_type", Kind::Text),
];
static CACHE_CONTROL: [Field; 1] = [must("type", Kind::Text)];
static SYSTEM_PART: [Field; 3] = [
    must("type", Kind::Text),
    must("text", Kind::Text),
    may("cache_control", Kind::Struct(&CACHE_CONTROL)),
];
static FUNCTION: [Field; 3] = [
    must("name", Kind::Text),
    must("arguments", Kind::Text),
    may("thought_signature", Kind::Text),
];
static GOOGLE: [Field; 1] = [may("thought_signature", Kind::Text)];
static EXTRA_CONTENT: [Field; 2] = [
    may("google", Kind::Struct(&GOOGLE)),
    may("tool_feedback_explanation", Kind::Text),
];
static TOOL_CALL: [Field; 4] = [
    must("id", Kind::Text),
    may("type", Kind::Text),
    may("function", Kind::Struct(&FUNCTION)),
    may("extra_content", Kind::Struct(&EXTRA_CONTENT)),
];

static ATTACHMENT_KIND: Kind = Kind::Struct(&ATTACHMENT);
static SYSTEM_PART_KIND: Kind = Kind::Struct(&SYSTEM_PART);
static TOOL_CALL_KIND: Kind = Kind::Struct(&TOOL_CALL);

const fn message(content: Kind) -> [Field; 10] {
    [
        must("role", Kind::Text),
        must("content", content),
        may("model_name", Kind::Text),
        may("created_at", Kind::Time),
        may("media", Kind::List(&Kind::Text)),
        may("attachments", Kind::List(&ATTACHMENT_KIND)),
        may("reasoning_content", Kind::Text),
        may("system_parts", Kind::List(&SYSTEM_PART_KIND)),
        may("tool_calls", Kind::List(&TOOL_CALL_KIND)),
        may("tool_call_id", Kind::Text),
    ]
}

const fn legacy(message: &'static Kind) -> [Field; 5] {
    [
        must("key", Kind::Text),
        may("messages", Kind::List(message)),
        must("summary", Kind::Text),
        must("created", Kind::Time),
        must("updated", Kind::Time),
    ]
}

/// A message as the reference knows it.
pub(crate) static REFERENCE_MESSAGE: [Field; 10] = message(Kind::Text);
/// A message as we know it.
pub(crate) static OUR_MESSAGE: [Field; 10] = message(Kind::Content);
/// A session file of the old manager, as the reference knows it.
pub(crate) static REFERENCE_LEGACY: [Field; 5] = legacy(&Kind::Struct(&REFERENCE_MESSAGE));
/// A session file of the old manager, as we know it.
pub(crate) static OUR_LEGACY: [Field; 5] = legacy(&Kind::Struct(&OUR_MESSAGE));
/// A sidecar.
pub(crate) static META: [Field; 8] = [
    must("key", Kind::Text),
    must("summary", Kind::Text),
    must("skip", Kind::Int),
    must("count", Kind::Int),
    must("created_at", Kind::Time),
    must("updated_at", Kind::Time),
    may("scope", Kind::Any),
    may("aliases", Kind::List(&Kind::Text)),
];

static ROLE: [Field; 1] = [must("role", Kind::Text)];
static CREATED_AT: [Field; 1] = [may("created_at", Kind::Time)];

/// Go's zero time.
pub(crate) const ZERO_TIME: &str = "0001-01-01T00:00:00Z";
/// Stands for a time taken from the clock.
pub(crate) const NOW: &str = "$now";

/// Decodes a record: `null` is an empty one, anything but an object is not one.
pub(crate) fn decode(fields: &'static [Field], json: &Json) -> Option<Map<String, Value>> {
    match decode_kind(Kind::Struct(fields), json)? {
        Value::Object(map) => Some(map),
        _ => None,
    }
}

/// Whether a line is a control record: its role begins with `_`, and it lacks the
/// time with which PicoClaw stamps every message it adds, whatever its role.
pub(crate) fn is_control(json: &Json) -> bool {
    let reserved = |record: Map<String, Value>| {
        record["role"]
            .as_str()
            .is_some_and(|role| role.starts_with('_'))
    };
    let stamped =
        || decode(&CREATED_AT, json).is_some_and(|record| record.contains_key("created_at"));
    decode(&ROLE, json).is_some_and(reserved) && !stamped()
}

/// The line the reference writes; `None` for a time it cannot write.
pub(crate) fn encode(fields: &[Field], record: &Map<String, Value>) -> Option<String> {
    let mut out = String::from("{");
    for field in fields {
        if let Some(value) = record.get(field.name) {
            if out.len() > 1 {
                out.push(',');
            }
            out.push_str(&quote(field.name));
            out.push(':');
            out.push_str(&encode_kind(field.kind, value)?);
        }
    }
    out.push('}');
    Some(out)
}

/// `value` without the fields that the reference does not know.
pub(crate) fn project(fields: &'static [Field], value: &Value) -> Value {
    project_kind(Kind::Struct(fields), value)
}

/// Top-level names that the reference does not know, with their values.
pub(crate) fn unknown(fields: &[Field], json: &Json) -> Map<String, Value> {
    let Json::Object(pairs) = json else {
        return Map::new();
    };
    pairs
        .iter()
        .filter(|(name, _)| find(fields, name).is_none())
        .map(|(name, value)| (name.clone(), value.to_value()))
        .collect()
}

/// Whether the reference can write the time: offsets of 24 hours it only reads.
pub(crate) fn writable_time(text: &str) -> bool {
    text == NOW
        || text.ends_with('Z')
        || text
            .get(text.len() - 5..text.len() - 3)
            .is_some_and(|hours| hours < "24")
}

fn find<'a>(fields: &'a [Field], name: &str) -> Option<&'a Field> {
    let folded: String = name.chars().map(fold).collect();
    fields.iter().find(|field| field.name == folded)
}

fn fold(c: char) -> char {
    match c {
        '\u{17f}' => 's',
        '\u{212a}' => 'k',
        _ => c.to_ascii_lowercase(),
    }
}

fn decode_kind(kind: Kind, json: &Json) -> Option<Value> {
    Some(match (kind, json) {
        (Kind::Struct(fields), Json::Null) => fill(fields, Map::new()),
        (Kind::Struct(fields), Json::Object(pairs)) => {
            let mut map = Map::new();
            for (name, value) in pairs {
                let Some(field) = find(fields, name) else {
                    continue;
                };
                match (value, field.kind) {
                    (Json::Null, Kind::Text | Kind::Content | Kind::Int) => {}
                    (Json::Null, _) => drop(map.remove(field.name)),
                    _ => drop(map.insert(field.name.into(), decode_kind(field.kind, value)?)),
                }
            }
            fill(fields, map)
        }
        (Kind::List(item), Json::List(items)) => items
            .iter()
            .map(|value| decode_kind(*item, value))
            .collect::<Option<_>>()?,
        (Kind::Text | Kind::Content, Json::Null) => "".into(),
        (Kind::Text | Kind::Content, Json::Text(text)) => text.clone().into(),
        (Kind::Content, Json::List(parts)) if parts.iter().all(is_part) => json.to_value(),
        (Kind::Int, Json::Number(text)) => text.parse::<i64>().ok()?.into(),
        (Kind::Time, Json::Text(text)) => normal_time(text)?.into(),
        (Kind::Any, _) => json.to_value(),
        _ => return None,
    })
}

/// A part that kimi-cli reads, or one of a type that it does not know.
fn is_part(json: &Json) -> bool {
    let part = json.to_value();
    let optional = |value: &Value| value.is_null() || value.is_string();
    let link = |name: &str| part[name]["url"].is_string() && optional(&part[name]["id"]);
    match part["type"].as_str() {
        Some("text") => part["text"].is_string(),
        Some("think") => part["think"].is_string() && optional(&part["encrypted"]),
        Some(kind @ ("image_url" | "audio_url" | "video_url")) => link(kind),
        kind => kind.is_some(),
    }
}

fn fill(fields: &[Field], mut map: Map<String, Value>) -> Value {
    for field in fields {
        let empty = match map.get(field.name) {
            None => true,
            Some(Value::String(text)) => text.is_empty(),
            Some(Value::Array(items)) => items.is_empty() && !matches!(field.kind, Kind::Content),
            Some(_) => false,
        };
        if empty && field.optional {
            map.remove(field.name);
        } else if empty {
            let zero = match field.kind {
                Kind::Int => 0.into(),
                Kind::Time => ZERO_TIME.into(),
                _ => "".into(),
            };
            map.insert(field.name.into(), zero);
        }
    }
    Value::Object(map)
}

fn encode_kind(kind: Kind, value: &Value) -> Option<String> {
    match (kind, value) {
        (Kind::Struct(fields), Value::Object(map)) => encode(fields, map),
        (Kind::List(item), Value::Array(items)) => {
            let items: Option<Vec<_>> = items
                .iter()
                .map(|value| encode_kind(*item, value))
                .collect();
            Some(format!("[{}]", items?.join(",")))
        }
        (Kind::Time, Value::String(text)) if !writable_time(text) => None,
        (_, Value::String(text)) => Some(quote(text)),
        _ => Some(value.to_string()),
    }
}

fn project_kind(kind: Kind, value: &Value) -> Value {
    match (kind, value) {
        (Kind::Struct(fields), Value::Object(map)) => fields
            .iter()
            .filter_map(|field| {
                let value = map.get(field.name)?;
                Some((field.name.to_owned(), project_kind(field.kind, value)))
            })
            .collect(),
        (Kind::List(item), Value::Array(items)) => items
            .iter()
            .map(|value| project_kind(*item, value))
            .collect(),
        _ => value.clone(),
    }
}

/// A time as Go rewrites it: RFC 3339, with Go's leniencies on reading.
fn normal_time(text: &str) -> Option<String> {
    if text == NOW {
        return Some(text.to_owned());
    }
    let (date, rest) = (text.get(..10)?, text.get(10..)?.strip_prefix('T')?);
    let mut parts = date.split('-');
    let year = fixed(parts.next()?, 4, 9999)?;
    let month = fixed(parts.next()?, 2, 12)?;
    let day = fixed(parts.next()?, 2, 31)?;
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let days = match month {
        2 => 28 + u32::from(leap),
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    };
    if month == 0 || day == 0 || day > days {
        return None;
    }
    let (hour, rest) = rest.split_once(':')?;
    let hour = fixed(hour, hour.len().clamp(1, 2), 23)?;
    let minute = fixed(rest.get(..2)?, 2, 59)?;
    let rest = rest.get(2..)?.strip_prefix(':')?;
    let second = fixed(rest.get(..2)?, 2, 59)?;
    let rest = rest.get(2..)?;
    let (fraction, zone) = match rest.strip_prefix(['.', ',']) {
        Some(rest) => rest.split_at(rest.find(|c: char| !c.is_ascii_digit())?),
        None => ("0", rest),
    };
    if fraction.is_empty() {
        return None;
    }
    let fraction = fraction[..fraction.len().min(9)].trim_end_matches('0');
    let point = if fraction.is_empty() { "" } else { "." };
    Some(format!(
        "{date}T{hour:02}:{minute:02}:{second:02}{point}{fraction}{}",
        normal_zone(zone)?
    ))
}

fn normal_zone(zone: &str) -> Option<String> {
    if zone == "Z" {
        return Some(zone.to_owned());
    }
    let (hours, minutes) = zone.strip_prefix(['+', '-'])?.split_once(':')?;
    let offset = fixed(hours, 2, 24)? * 60 + fixed(minutes, 2, 60)?;
    Some(match offset {
        0 => "Z".to_owned(),
        _ => format!("{}{:02}:{:02}", &zone[..1], offset / 60, offset % 60),
    })
}

fn fixed(digits: &str, width: usize, max: u32) -> Option<u32> {
    let plain = digits.len() == width && digits.bytes().all(|b| b.is_ascii_digit());
    let value = if plain {
        digits.parse().ok()?
    } else {
        return None;
    };
    (value <= max).then_some(value)
}
