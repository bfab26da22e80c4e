//! `kimi/`: what the reference's context did with its file.

use std::path::Path;

use serde_json::{Value, json};

use crate::case::{self, Options};
use crate::conversation::{Conversation, plain};
use crate::kimi_steps::Steps;
use crate::kimi_store;
use crate::kimi_vectors::{fork, lines, rotation, serialize, tokens};
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

type Vectors = fn(&Path, &mut Report) -> Result<(), String>;

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
