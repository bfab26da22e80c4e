//! The files of `kimi/` that hold one vector per entry.

use std::path::Path;

use serde_json::{Value, json};
use sessionlog::kimi;

use crate::case;
use crate::conversation::{Conversation, message, plain};
use crate::lines::decode_base64;
use crate::model::Tree;
use crate::report::{Report, same};
use crate::rules::Rule;
use crate::subject::list;

/// The name of a context file.
const FILE: &str = "context.jsonl";

pub(crate) fn lines(path: &Path, report: &mut Report) -> Result<(), String> {
    for (i, line) in list(&case::read_json(path)?["lines"]).iter().enumerate() {
        let raw = match (line["raw"].as_str(), line["raw_base64"].as_str()) {
            (Some(raw), _) => raw.as_bytes().to_vec(),
            (None, Some(base64)) => decode_base64(base64).ok_or("bad base64")?,
            (None, None) => return Err("a line without raw".into()),
        };
        let got = restored(&raw)?;
        let mut outcome = same(&plain(&line["state"]), &got);
        if outcome.is_err()
            && let Some(tame) = without_what_it_trips_over(&raw, &line["error"])
        {
            report.by_rule[Rule::OneLine as usize] += 1;
            outcome = same(&restored(&tame)?, &got);
        }
        let label: String = String::from_utf8_lossy(&raw).chars().take(80).collect();
        report.check(&format!("kimi/lines.json/{i} {label}"), outcome);
    }
    Ok(())
}

/// What a context says of a file with one line.
fn restored(line: &[u8]) -> Result<Value, String> {
    let file = [line, b"\n"].concat();
    let conversation = Conversation::open(FILE, &Tree::from([(FILE.into(), file)]))?;
    conversation.restore()?;
    conversation.state()
}

/// The line as the reference reads it without its defect; `None` for one that
/// holds nothing it trips over.
fn without_what_it_trips_over(raw: &[u8], error: &Value) -> Option<Vec<u8>> {
    if let Some(bare) = raw.strip_prefix("\u{feff}".as_bytes()) {
        return Some(bare.to_vec());
    }
    let mut record: Value = serde_json::from_slice(raw).ok()?;
    let mut mended = false;
    for call in record["tool_calls"].as_array_mut().into_iter().flatten() {
        let function = call["function"].as_object_mut()?;
        if !function.contains_key("arguments") {
            function.insert("arguments".into(), Value::Null);
            mended = true;
        }
    }
    (mended || !error.is_null()).then(|| record.to_string().into_bytes())
}

pub(crate) fn serialize(path: &Path, report: &mut Report) -> Result<(), String> {
    let vectors = case::read_json(path)?;
    for (i, vector) in list(&vectors["messages"]).iter().enumerate() {
        let written = message(&vector["message"]).and_then(|message| {
            same(&vector["line"], &message.to_kimi_json().into())?;
            let mut conversation = Conversation::open(FILE, &Tree::new())?;
            conversation.apply("append", &json!({ "message": vector["message"] }))?;
            Ok(String::from_utf8_lossy(&conversation.bytes()).into_owned())
        });
        let line = format!("{}\n", vector["line"].as_str().unwrap_or(""));
        let outcome = written.and_then(|written| same(&line.into(), &written.into()));
        report.check(&format!("kimi/serialize.json/{i}"), outcome);
    }
    for (i, vector) in list(&vectors["system_prompts"]).iter().enumerate() {
        let mut conversation = Conversation::open(FILE, &Tree::new())?;
        conversation.apply("system_prompt", &json!({ "prompt": vector["prompt"] }))?;
        let line = format!("{}\n", vector["line"].as_str().unwrap_or(""));
        let written = String::from_utf8_lossy(&conversation.bytes()).into_owned();
        report.check(
            &format!("kimi/serialize.json/prompt {i}"),
            same(&line.into(), &written.into()),
        );
    }
    Ok(())
}

pub(crate) fn tokens(path: &Path, report: &mut Report) -> Result<(), String> {
    let vectors = case::read_json(path)?;
    for (i, vector) in list(&vectors["estimate"]).iter().enumerate() {
        let messages = list(&vector["messages"])
            .iter()
            .map(message)
            .collect::<Result<Vec<_>, _>>();
        let outcome = messages
            .and_then(|messages| same(&vector["tokens"], &kimi::estimate_tokens(&messages).into()));
        report.check(&format!("kimi/tokens.json/estimate {i}"), outcome);
    }
    for (i, vector) in list(&vectors["auto_compact"]).iter().enumerate() {
        let number = |name: &str| vector[name].as_i64().unwrap_or(0);
        let due = kimi::should_auto_compact(
            number("token_count"),
            number("max_context_size"),
            vector["trigger_ratio"].as_f64().unwrap_or(0.0),
            number("reserved_context_size"),
        );
        report.check(
            &format!("kimi/tokens.json/auto_compact {i}"),
            same(&vector["compact"], &due.into()),
        );
    }
    Ok(())
}

pub(crate) fn rotation(path: &Path, report: &mut Report) -> Result<(), String> {
    for (i, vector) in list(&case::read_json(path)?["vectors"]).iter().enumerate() {
        let existing = list(&vector["existing"]).iter().filter_map(Value::as_str);
        let next = kimi::next_backup_name(vector["file"].as_str().unwrap_or(""), existing);
        report.check(
            &format!("kimi/rotation.json/{i}"),
            same(&vector["next"], &next.into()),
        );
    }
    Ok(())
}

pub(crate) fn fork(path: &Path, report: &mut Report) -> Result<(), String> {
    for (i, vector) in list(&case::read_json(path)?["vectors"]).iter().enumerate() {
        let context = vector["context"].as_str().unwrap_or("").as_bytes();
        for result in list(&vector["results"]) {
            let turn = result["turn_index"].as_i64();
            let kept = kimi::lines_through_turn(context, turn);
            report.check(
                &format!("kimi/fork.json/{i} {turn:?}"),
                same(&result["lines"], &kept.into()),
            );
        }
    }
    Ok(())
}
