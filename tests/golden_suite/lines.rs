//! `lines.json`: one raw line each.

use std::path::Path;

use serde_json::{Value, json};
use sessionlog::Message;

use crate::case::{self, Check, Models, Options};
use crate::json::Json;
use crate::model::{Line, Model, Tree};
use crate::report::{Report, same};
use crate::schema::{self, OUR_MESSAGE};
use crate::subject::{Subject, list, messages};

/// A message after the line: what is before it shows in the counters.
const SENTINEL: &str = r#"{"role":"user","content":"sentinel"}"#;

pub(crate) fn run(path: &Path, options: &Options, report: &mut Report) -> Result<(), String> {
    let corpus = case::read_json(path)?;
    let lines: Vec<_> = list(&corpus["lines"])
        .iter()
        .map(Recorded::new)
        .collect::<Result<_, _>>()?;
    let names: Vec<_> = (0..)
        .zip(&lines)
        .map(|(i, line)| format!("lines.json/{i} {}", line.label()))
        .collect();
    if !names.iter().any(|name| options.selects(name)) {
        return Ok(());
    }
    let tree: Tree = lines
        .iter()
        .enumerate()
        .map(|(i, line)| (format!("{}.jsonl", key(i)), line.file()))
        .collect();
    let models = Models::new(&tree);
    let mut got: Vec<(Value, Option<Message>)> = Vec::new();
    let mut written = Tree::new();
    if !options.reference_only {
        let (source, copy) = (Subject::open(&tree)?, Subject::open(&Tree::new())?);
        let read = |i| read(&source, &copy, &key(i));
        got = (0..lines.len()).map(read).collect();
        written = copy.into_tree()?;
    }
    for (i, (line, name)) in lines.iter().zip(&names).enumerate() {
        case::run(name, options, report, |report| {
            let models = Models {
                ours: fresh(&models.ours),
                reference: fresh(&models.reference),
            };
            let (got, message) = got.get(i).cloned().unzip();
            let got = got.map(|got| with_canonical(got, &models.ours, &written, &key(i)));
            let check = Check {
                recorded: line.expected(),
                reference: expected(&models.reference, &key(i)),
                ours: expected(&models.ours, &key(i)),
                got,
            };
            let kept = || message.flatten().map_or(Ok(()), |m| line.unknown_kept(&m));
            let outcome = check.verdict(&models, report).and_then(|()| kept());
            report.check(name, outcome);
            Ok(())
        });
    }
    Ok(())
}

struct Recorded<'a> {
    case: &'a Value,
    raw: Vec<u8>,
}

impl<'a> Recorded<'a> {
    fn new(case: &'a Value) -> Result<Self, String> {
        let raw = match (case["raw"].as_str(), case["raw_base64"].as_str()) {
            (Some(raw), _) => raw.as_bytes().to_vec(),
            (None, Some(base64)) => decode_base64(base64).ok_or("bad base64")?,
            (None, None) => return Err("a line without raw".into()),
        };
        Ok(Self { case, raw })
    }

    fn file(&self) -> Vec<u8> {
        [&self.raw, &b"\n"[..], SENTINEL.as_bytes(), b"\n"].concat()
    }

    fn label(&self) -> String {
        String::from_utf8_lossy(&self.raw)
            .chars()
            .take(60)
            .collect()
    }

    /// What the recording says about the line, and what follows for a file that
    /// holds it and the sentinel.
    fn expected(&self) -> Value {
        let visible = self.case["result"] == "message";
        json!({
            "message": if visible { self.case["message"].clone() } else { Value::Null },
            "canonical": self.case.get("canonical").cloned().unwrap_or_default(),
            "after_keep_1": { "skip": i64::from(visible), "count": 1 + i64::from(self.case["counted"] == true) },
        })
    }

    /// A message keeps the fields that the reference does not know. Asked of the
    /// message itself: serde's view leaves out what is nested too deep for it.
    fn unknown_kept(&self, message: &Message) -> Result<(), String> {
        let Some(json) = Json::parse(&self.raw) else {
            return Ok(());
        };
        let unknown = schema::unknown(&OUR_MESSAGE, &json);
        unknown.iter().try_for_each(|(name, value)| {
            let kept = message.unknown_field(name).unwrap_or_default();
            let kept = Json::parse(kept.as_bytes()).map_or(Value::Null, |json| json.to_value());
            same(value, &kept).map_err(|why| format!("unknown field {name}{why}"))
        })
    }
}

fn key(i: usize) -> String {
    format!("line-{i}")
}

/// The model without the rules it noted for other lines.
fn fresh(model: &Model) -> Model {
    let mut model = model.clone();
    model.applied = crate::rules::Applied::default();
    model
}

/// What a model says of the line in its session's file.
fn expected(model: &Model, key: &str) -> Value {
    let raw = model.lines(key);
    let first = raw
        .first()
        .filter(|raw| **raw != SENTINEL.as_bytes())
        .and_then(|raw| model.line(raw));
    let mut after = model.clone();
    let truncated = after
        .truncate(key, 1)
        .map(|()| after.state(key))
        .unwrap_or_default();
    let message = match first {
        Some(Line::Message(mut record)) => {
            record.remove("$unwritable");
            Value::Object(record)
        }
        _ => Value::Null,
    };
    let canonical = raw
        .first()
        .filter(|_| !message.is_null())
        .and_then(|raw| model.canonical_line(raw).ok());
    json!({
        "message": message,
        "canonical": canonical,
        "after_keep_1": { "skip": truncated["skip"], "count": truncated["count"] },
    })
}

/// What the store says of it, and the message itself; also writes the message
/// into a second store.
fn read(source: &Subject, copy: &Subject, key: &str) -> (Value, Option<Message>) {
    let read = || {
        let history = source.history(key)?;
        let before = match &history[..] {
            [message, sentinel] if sentinel.text() == "sentinel" => Some(message),
            [sentinel] if sentinel.text() == "sentinel" => None,
            _ => return Err(format!("history of {} messages", history.len())),
        };
        if let Some(message) = before {
            copy.handle()
                .set_history(key, vec![message.clone()])
                .wait()
                .map_err(|e| format!("write back: {e}"))?;
        }
        source
            .handle()
            .truncate_history(key, 1)
            .wait()
            .map_err(|e| format!("truncate: {e}"))?;
        let meta = source.meta(key)?;
        let got = json!({
            "message": before.map_or(Value::Null, |message| messages(std::slice::from_ref(message))[0].clone()),
            "after_keep_1": { "skip": meta["skip"], "count": meta["count"] },
        });
        Ok((got, before.cloned()))
    };
    read().unwrap_or_else(|why: String| (why.into(), None))
}

fn with_canonical(mut got: Value, model: &Model, written: &Tree, key: &str) -> Value {
    if got.is_object() {
        let had_time = got["message"].get("created_at").is_some();
        let line = written
            .get(&format!("{key}.jsonl"))
            .map(|log| model.written_back(log, |_| had_time));
        got["canonical"] = match line {
            Some(Ok(text)) => text.trim_end_matches('\n').into(),
            Some(Err(why)) => why.into(),
            None => Value::Null,
        };
    }
    got
}

pub(crate) fn decode_base64(text: &str) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    for chunk in text.trim_end_matches('=').as_bytes().chunks(4) {
        let mut bits = 0u32;
        for byte in chunk {
            let six = match byte {
                b'A'..=b'Z' => byte - b'A',
                b'a'..=b'z' => byte - b'a' + 26,
                b'0'..=b'9' => byte - b'0' + 52,
                b'+' => 62,
                b'/' => 63,
                _ => return None,
            };
            bits = bits << 6 | u32::from(six);
        }
        bits <<= 6 * (4 - chunk.len());
        out.extend_from_slice(&bits.to_be_bytes()[1..chunk.len()]);
    }
    Some(out)
}
