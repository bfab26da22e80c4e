//! A store in memory, in two dialects: what the reference does, and what we
//! promise. The recording proves the first; the rules are the difference.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use crate::json::Json;
use crate::rules::{Applied, Rule};
use crate::schema::{self, Field, META, NOW};

/// Whose behaviour the model has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dialect {
    Reference,
    Ours,
}

/// Files by name; the names of directories end in `/`.
pub(crate) type Tree = BTreeMap<String, Vec<u8>>;

/// An operation that failed. The wording does not matter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Failed;

/// What a line holds.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Line {
    /// Not a record.
    Corrupt,
    /// A reasoning-only assistant record: hidden, and gone at the next rewrite.
    Transient,
    /// A control record of the other format: no message.
    Control,
    Message(Map<String, Value>),
}

/// A raw line with its number, counted from 1, and what it holds.
pub(crate) type Numbered<'a> = (i64, &'a [u8], Line);

/// A directory of sessions.
#[derive(Clone, Debug)]
pub(crate) struct Model {
    pub(crate) dialect: Dialect,
    pub(crate) logs: BTreeMap<String, Vec<u8>>,
    /// By file stem; `None` does not decode.
    pub(crate) metas: BTreeMap<String, Option<Map<String, Value>>>,
    pub(crate) rest: Tree,
    /// The keys under which files that name none were written to, by file stem.
    pub(crate) claimed: BTreeMap<String, String>,
    /// The rules that made a difference so far.
    pub(crate) applied: Applied,
}

/// The longest line that the reference reads.
const REFERENCE_LINE: usize = 10_485_759;
/// The longest file name.
const FILE_NAME: usize = 255;
/// The longest stem that leaves room for what temporary names add.
const STEM: usize = 200;
/// The longest key that we accept.
const KEY: usize = 1_024;
/// Starts the model's stem for a key whose file has a name of our choosing.
pub(crate) const HASHED: &str = "\0hashed:";

impl Model {
    pub(crate) fn new(dialect: Dialect, tree: &Tree) -> Self {
        let mut model = Self {
            dialect,
            logs: BTreeMap::new(),
            metas: BTreeMap::new(),
            rest: Tree::new(),
            claimed: BTreeMap::new(),
            applied: Applied::default(),
        };
        for (name, bytes) in tree {
            if name.contains('/') {
                model.rest.insert(name.clone(), bytes.clone());
            } else if let Some(stem) = name.strip_suffix(".jsonl") {
                model.logs.insert(stem.into(), bytes.clone());
            } else if let Some(stem) = name.strip_suffix(".meta.json") {
                let meta = Json::parse(bytes).and_then(|json| schema::decode(&META, &json));
                model.metas.insert(stem.into(), meta);
            } else {
                model.rest.insert(name.clone(), bytes.clone());
            }
        }
        model
    }

    /// The message fields this dialect knows.
    pub(crate) fn message_fields(&self) -> &'static [Field] {
        match self.dialect {
            Dialect::Reference => &schema::REFERENCE_MESSAGE,
            Dialect::Ours => &schema::OUR_MESSAGE,
        }
    }

    /// What a raw line is, without its line end; `None` for an empty one.
    pub(crate) fn line(&self, raw: &[u8]) -> Option<Line> {
        let raw = raw.strip_suffix(b"\r").unwrap_or(raw);
        if raw.is_empty() {
            return None;
        }
        let marked = raw.strip_prefix("\u{feff}".as_bytes());
        let raw = match marked.filter(|_| self.dialect == Dialect::Ours) {
            Some(bare) => {
                self.applied.note(Rule::OneLine);
                bare
            }
            None => raw,
        };
        let Some(json) = Json::parse(raw) else {
            return Some(Line::Corrupt);
        };
        if self.dialect == Dialect::Ours && schema::is_control(&json) {
            self.applied.note(Rule::KimiRecords);
            return Some(Line::Control);
        }
        let Some(mut record) = schema::decode(self.message_fields(), &json) else {
            return Some(Line::Corrupt);
        };
        if self.dialect == Dialect::Reference {
            if !record
                .get("created_at")
                .and_then(Value::as_str)
                .is_none_or(schema::writable_time)
            {
                record.insert("$unwritable".into(), record["created_at"].clone());
                record.remove("created_at");
            }
        } else {
            if record["content"].is_array() {
                self.applied.note(Rule::KimiRecords);
            }
            if !record
                .get("created_at")
                .and_then(Value::as_str)
                .is_none_or(schema::writable_time)
            {
                self.applied.note(Rule::KeptLines);
            }
        }
        Some(if transient(&record) {
            Line::Transient
        } else {
            Line::Message(record)
        })
    }

    /// Where a key's files are.
    pub(crate) fn stem(&self, key: &str) -> String {
        let natural = file_stem(key);
        if self.dialect == Dialect::Reference || self.owner(&natural) == Some(key) {
            return natural;
        }
        let owned = self.metas.keys().find(|stem| self.owner(stem) == Some(key));
        if let Some(stem) = owned {
            if !stem.starts_with(HASHED) {
                self.applied.note(Rule::Ownership);
            }
            return stem.clone();
        }
        if self.owner(&natural).is_some() {
            self.applied.note(Rule::Ownership);
        } else if is_safe(&natural)
            || self.logs.contains_key(&natural)
            || self.metas.contains_key(&natural)
        {
            return natural;
        } else {
            self.applied.note(Rule::Keys);
        }
        format!("{HASHED}{key}")
    }

    /// The key that a sidecar gives a file to.
    pub(crate) fn owner(&self, stem: &str) -> Option<&str> {
        let key = self.metas.get(stem)?.as_ref()?.get("key")?.as_str()?;
        (!key.is_empty()).then_some(key)
    }

    pub(crate) fn check_key(&self, key: &str) -> Result<(), Failed> {
        let accepted = match self.dialect {
            Dialect::Reference => file_stem(key).len() + ".meta.json".len() <= FILE_NAME,
            Dialect::Ours => !key.is_empty() && key.len() <= KEY && !key.contains('\0'),
        };
        if accepted {
            return Ok(());
        }
        self.applied.note(Rule::Keys);
        Err(Failed)
    }

    /// Whether a key has a file.
    pub(crate) fn exists(&self, key: &str) -> bool {
        let stem = self.stem(key);
        self.logs.contains_key(&stem) || self.metas.contains_key(&stem)
    }

    /// A session's sidecar; what is missing has zero values.
    pub(crate) fn meta(&self, key: &str) -> Result<Map<String, Value>, Failed> {
        self.check_key(key)?;
        let mut meta = match self.metas.get(&self.stem(key)) {
            Some(Some(meta)) => meta.clone(),
            Some(None) if self.dialect == Dialect::Reference => return Err(Failed),
            found => {
                if found.is_some() {
                    self.applied.note(Rule::BrokenSidecar);
                }
                let mut meta = schema::decode(&META, &Json::Null).ok_or(Failed)?;
                let lines = self.lines(key).len();
                if self.dialect == Dialect::Ours && lines > 0 {
                    self.applied.note(Rule::BrokenSidecar);
                    meta.insert("count".into(), lines.into());
                }
                meta
            }
        };
        if meta["key"] == "" {
            meta.insert("key".into(), key.into());
        }
        Ok(meta)
    }

    pub(crate) fn skip(&self, key: &str) -> Result<i64, Failed> {
        Ok(self.meta(key)?["skip"].as_i64().unwrap_or(0))
    }

    /// A session's non-empty lines, without their LF.
    pub(crate) fn lines(&self, key: &str) -> Vec<&[u8]> {
        let log = self.logs.get(&self.stem(key)).map_or(&[][..], |log| log);
        log.split(|b| *b == b'\n')
            .filter(|raw| !raw.is_empty() && *raw != b"\r")
            .collect()
    }

    /// The live lines with their raw numbers, counted from 1.
    pub(crate) fn live(&self, key: &str) -> Result<Vec<Numbered<'_>>, Failed> {
        let skip = self.skip(key)?;
        let lines = self.lines(key);
        if lines.iter().any(|raw| raw.len() > REFERENCE_LINE) {
            if self.dialect == Dialect::Reference {
                return Err(Failed);
            }
            self.applied.note(Rule::LongLines);
        }
        let numbered = (1..).zip(lines).filter(|(number, _)| *number > skip);
        Ok(numbered
            .filter_map(|(number, raw)| Some((number, raw, self.line(raw)?)))
            .collect())
    }

    pub(crate) fn history(&self, key: &str) -> Result<Vec<Map<String, Value>>, Failed> {
        let live = self.live(key)?;
        Ok(live
            .into_iter()
            .filter_map(|(_, _, line)| match line {
                Line::Message(record) => Some(record),
                _ => None,
            })
            .collect())
    }

    /// History, summary, counters and what else is set, as recorded.
    pub(crate) fn state(&self, key: &str) -> Value {
        let (Ok(history), Ok(meta)) = (self.history(key), self.meta(key)) else {
            return json!({ "error": true });
        };
        let mut state = json!({
            "history": history.into_iter().map(visible).collect::<Value>(),
            "summary": meta["summary"],
            "skip": meta["skip"],
            "count": meta["count"],
        });
        for name in ["aliases", "scope"] {
            if let Some(value) = meta.get(name) {
                state[name] = value.clone();
            }
        }
        state
    }

    /// The keys of every sidecar that decodes and names one, by file name. We list the names of
    /// the other histories as well.
    pub(crate) fn list(&self) -> Vec<String> {
        let mut keys: Vec<_> = self
            .metas
            .keys()
            .filter_map(|stem| Some((format!("{stem}.meta.json"), self.owner(stem)?.to_owned())))
            .collect();
        if self.dialect == Dialect::Ours {
            let known: Vec<String> = keys.iter().map(|(_, key)| key.clone()).collect();
            let stems = self.logs.keys().filter(|stem| self.owner(stem).is_none());
            let named = stems.filter(|stem| file_stem(stem) == **stem && !known.contains(stem));
            let key = |stem: &String| self.claimed.get(stem).unwrap_or(stem).clone();
            let named = named.map(|stem| (format!("{stem}.meta.json"), key(stem)));
            let named: Vec<_> = named.collect();
            if !named.is_empty() {
                self.applied.note(Rule::BrokenSidecar);
            }
            keys.extend(named);
        }
        keys.sort();
        keys.into_iter().map(|(_, key)| key).collect()
    }

    /// The session that a key stands for.
    pub(crate) fn resolve(&self, key: &str) -> Option<String> {
        let key = key.trim();
        if key.is_empty() {
            return None;
        }
        let exists = self.exists(key);
        if exists && !key.contains([':', '/', '\\']) {
            return Some(key.into());
        }
        let mut metas: Vec<_> = self
            .metas
            .iter()
            .filter_map(|(stem, meta)| Some((stem, meta.as_ref()?)))
            .collect();
        metas.sort_by_key(|(stem, _)| format!("{stem}.meta.json"));
        let aliased = metas.iter().find_map(|(_, meta)| {
            let own = meta["key"].as_str()?;
            let listed = meta
                .get("aliases")?
                .as_array()?
                .iter()
                .any(|alias| alias == key);
            (listed && own != key).then(|| own.to_owned())
        });
        let named = || metas.iter().any(|(_, meta)| meta["key"] == key);
        aliased.or_else(|| (named() || exists).then(|| key.to_owned()))
    }

    /// Every file, by name.
    pub(crate) fn files(&self) -> Vec<String> {
        let logs = self.logs.keys().map(|stem| format!("{stem}.jsonl"));
        let metas = self.metas.keys().map(|stem| format!("{stem}.meta.json"));
        let mut names: Vec<_> = self.rest.keys().cloned().chain(logs).chain(metas).collect();
        names.sort();
        names
    }

    /// What a file holds: lines of a history, the object of a sidecar.
    pub(crate) fn file(&self, name: &str) -> Value {
        if let Some(log) = name
            .strip_suffix(".jsonl")
            .and_then(|stem| self.logs.get(stem))
        {
            return file_lines(log);
        }
        let meta = name
            .strip_suffix(".meta.json")
            .and_then(|stem| self.metas.get(stem));
        meta.map_or(Value::Null, |meta| {
            meta.clone().map_or(Value::Null, Value::Object)
        })
    }
}

/// A history file's lines with their ends. Empty lines are not lines.
pub(crate) fn file_lines(log: &[u8]) -> Value {
    let lines = log.split_inclusive(|b| *b == b'\n');
    lines
        .filter(|raw| !matches!(raw, [b'\n' | b'\r'] | [b'\r', b'\n']))
        .map(|raw| Value::from(String::from_utf8_lossy(raw)))
        .collect()
}

/// Whether we would give a new file that name.
fn is_safe(stem: &str) -> bool {
    let unsafe_char = |c: char| c.is_control();
    stem.len() <= STEM && !stem.starts_with('.') && !stem.contains(unsafe_char)
}

/// PicoClaw's file name for a key, without extension.
pub(crate) fn file_stem(key: &str) -> String {
    key.replace([':', '/', '\\'], "_")
}

/// A record without the times that were taken from the clock.
pub(crate) fn visible(mut record: Map<String, Value>) -> Value {
    record.remove("$unwritable");
    if record.get("created_at").is_some_and(|time| time == NOW) {
        record.remove("created_at");
    }
    Value::Object(record)
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    let digit = |nibble: u8| char::from_digit(nibble.into(), 16).unwrap_or('?');
    let digits = |byte: &u8| [digit(byte >> 4), digit(byte & 0xf)];
    bytes.iter().flat_map(digits).collect()
}

pub(crate) fn transient(record: &Map<String, Value>) -> bool {
    let is_blank = |name: &str| record.get(name).is_none_or(blank);
    record["role"] == "assistant"
        && is_blank("content")
        && !is_blank("reasoning_content")
        && is_blank("tool_call_id")
        && !["tool_calls", "media", "attachments"]
            .iter()
            .any(|name| record.contains_key(*name))
}

pub(crate) fn blank(value: &Value) -> bool {
    match value {
        Value::String(text) => text.trim().is_empty(),
        Value::Array(items) => items.is_empty(),
        _ => false,
    }
}
