//! `kimi/`: what the reference's context did with its file.

use std::path::Path;

use serde_json::{Value, json};
use sessionlog::kimi;

use crate::case::{self, Options};
use crate::conversation::{Conversation, message, plain};
use crate::kimi_steps::Steps;
use crate::kimi_store;
use crate::lines::decode_base64;
use crate::model::Tree;
use crate::report::{Report, same};
use crate::rules::Rule;
use crate::subject::{list, text};
use crate::tree::read_tree;

/// The name of a file that is recorded without one.
const FILE: &str = "context.jsonl";

pub(crate) fn run(path: &Path, options: &Options, report: &mut Report) -> Result<(), String> {
    let mut traces: Vec<_> = names(&path.join("traces"))?;
    traces.sort();
    for file in traces {
        let name = format!("kimi/traces/{file}");
        case::run(&name, options, report, |report| {
            trace(&name, &path.join("traces").join(&file), report)
        });
    }
    for group in ["files", "damaged"] {
        let mut cases = names(&path.join(group))?;
        cases.sort();
        for dir in cases {
            let name = format!("kimi/{group}/{dir}");
            case::run(&name, options, report, |report| {
                directory(&name, &path.join(group).join(&dir), report)
            });
        }
    }
    type Vectors = fn(&Path, &mut Report) -> Result<(), String>;
    let vectors: [(&str, Vectors); 5] = [
        ("lines.json", lines),
        ("serialize.json", serialize),
        ("tokens.json", tokens),
        ("rotation.json", rotation),
        ("fork.json", fork),
    ];
    for (file, check) in vectors {
        let path = path.join(file);
        if path.exists() {
            case::run(&format!("kimi/{file}"), options, report, |report| {
                check(&path, report)
            });
        }
    }
    Ok(())
}

fn names(dir: &Path) -> Result<Vec<String>, String> {
    if !dir.exists() {
        return Ok(Vec::new());
    }
    let entries = std::fs::read_dir(dir).map_err(text)?;
    Ok(entries
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .collect())
}

fn trace(name: &str, path: &Path, report: &mut Report) -> Result<(), String> {
    let trace = case::read_json(path)?;
    kimi_store::replay(name, &trace, report)?;
    let file = trace["context_file"].as_str().unwrap_or(FILE);
    let mut steps = Steps::new(Conversation::open(file, &Tree::new())?);
    for (i, step) in list(&trace["steps"]).iter().enumerate() {
        let outcome = steps.step(step, report);
        let failed = outcome.is_err();
        report.check(&format!("{name} step {i} {}", step["op"]), outcome);
        if failed {
            return Ok(());
        }
    }
    report.check(
        &format!("{name} final files"),
        final_files(&trace["final_files"], &steps),
    );
    Ok(())
}

fn final_files(recorded: &Value, steps: &Steps) -> Result<(), String> {
    let tree = steps.conversation.tree()?;
    for (name, content) in recorded.as_object().into_iter().flatten() {
        let got = tree.get(name).ok_or_else(|| format!("{name} is missing"))?;
        if let Some(expected) = content["text"].as_str() {
            same(&expected.into(), &String::from_utf8_lossy(got).into())?;
        }
    }
    Ok(())
}

/// A directory as the reference left it, or damaged.
fn directory(name: &str, path: &Path, report: &mut Report) -> Result<(), String> {
    let expected = case::read_json(&path.join("expected.json"))?;
    let dir = path.join("dir");
    let tree = if dir.is_dir() {
        read_tree(&dir)?
    } else {
        Tree::new()
    };
    let file = expected["context_file"].as_str().unwrap_or(FILE);
    let conversation = Conversation::open(file, &tree)?;
    let restored = conversation.restore();
    let outcome = restored_state(&expected, restored, &conversation.state()?, report);
    report.check(name, outcome);
    for (i, step) in list(&expected["after"]).iter().enumerate() {
        let mut conversation = Conversation::open(file, &tree)?;
        conversation.restore()?;
        let name = format!("{name} after {i} {}", step["op"]);
        let outcome = if lost_by_reference(&expected) {
            nothing_lost(&mut conversation, step, report)
        } else {
            after(conversation, &expected, step, report)
        };
        report.check(&name, outcome);
    }
    Ok(())
}

/// Whether the reference gives up on the file, or loses lines of it.
fn lost_by_reference(expected: &Value) -> bool {
    expected.get("required").is_some()
}

fn restored_state(
    expected: &Value,
    restored: Result<bool, String>,
    got: &Value,
    report: &mut Report,
) -> Result<(), String> {
    let required = expected.get("required").or(expected.get("also_acceptable"));
    let restored = restored?;
    if let Some(required) = required {
        report.by_rule[Rule::OneLine as usize] += 1;
        return same(&plain(&required["state"]), got);
    }
    same(&expected["restored"], &restored.into())?;
    same(&plain(&expected["state"]), got)
}

fn after(
    conversation: Conversation,
    expected: &Value,
    step: &Value,
    report: &mut Report,
) -> Result<(), String> {
    let mut step = step.clone();
    step["result"] = Value::Null;
    let mut steps = Steps::new(conversation);
    if expected.get("also_acceptable").is_some() {
        return marked(steps, expected, &step, report);
    }
    if let Some(required) = step.get("required_reopened_history") {
        let mut copy = Conversation::open(steps.conversation.file(), &steps.conversation.tree()?)?;
        copy.restore()?;
        copy.apply("append", &step["args"])?;
        same(&plain(required), &copy.seen_anew()?["history"])?;
    }
    steps.step(&step, report)?;
    steps.reopened(&step["reopened"])
}

/// A file that begins with a byte order mark: we read the first record too.
fn marked(
    mut steps: Steps,
    expected: &Value,
    step: &Value,
    report: &mut Report,
) -> Result<(), String> {
    let name = steps.conversation.file().to_owned();
    let mut bare = steps.conversation.bytes();
    bare.drain(.."\u{feff}".len());
    let mut other = Conversation::open(&name, &Tree::from([(name.clone(), bare)]))?;
    other.restore()?;
    let outcome = other.apply(step["op"].as_str().unwrap_or(""), &step["args"]);
    let ours = steps
        .conversation
        .apply(step["op"].as_str().unwrap_or(""), &step["args"]);
    same(&expected["error"], &Value::Null)?;
    same(&step["error"].is_null().into(), &ours.is_ok().into())?;
    same(&outcome.is_ok().into(), &ours.is_ok().into())?;
    report.by_rule[Rule::OneLine as usize] += 1;
    same(&other.state()?, &steps.conversation.state()?)?;
    same(&other.seen_anew()?, &steps.conversation.seen_anew()?)
}

/// The reference could not do it, or had lost lines before. What we do keeps
/// every message there was, or says why it cannot.
fn nothing_lost(
    conversation: &mut Conversation,
    step: &Value,
    report: &mut Report,
) -> Result<(), String> {
    let before = conversation.state()?;
    let op = step["op"].as_str().unwrap_or("");
    let outcome = conversation.apply(op, &step["args"]);
    let after = conversation.state()?;
    report.by_rule[Rule::OneLine as usize] += 1;
    let (old, new) = (list(&before["history"]), list(&after["history"]));
    match (op, outcome) {
        (_, Err(_)) => same(&before, &after)?,
        ("clear", Ok(_)) => same(&json!([]), &after["history"])?,
        ("revert_to", Ok(_)) if old.starts_with(new) => {}
        (_, Ok(_)) if new.starts_with(old) => {}
        _ => return Err(format!("{op} changed the history")),
    }
    same(&after, &conversation.seen_anew()?)
}

fn lines(path: &Path, report: &mut Report) -> Result<(), String> {
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

fn serialize(path: &Path, report: &mut Report) -> Result<(), String> {
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

fn tokens(path: &Path, report: &mut Report) -> Result<(), String> {
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

fn rotation(path: &Path, report: &mut Report) -> Result<(), String> {
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

fn fork(path: &Path, report: &mut Report) -> Result<(), String> {
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
