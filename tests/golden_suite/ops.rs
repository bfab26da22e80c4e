//! `ops/`: scripted operations.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::case::{self, Check, Models, Options};
use crate::layer;
use crate::model::{Failed, Model, Tree};
use crate::report::Report;
use crate::subject::{Subject, apply_to_model, failure, list, listed, text};
use crate::tree::{file_content, with_placeholders};

pub(crate) fn run(path: &Path, options: &Options, report: &mut Report) -> Result<(), String> {
    let mut names: Vec<_> = fs::read_dir(path)
        .map_err(text)?
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .collect();
    names.sort();
    for file in names {
        let name = format!("ops/{}", file.trim_end_matches(".json"));
        case::run(&name, options, report, |report| {
            let trace = case::read_json(&path.join(&file))?;
            match trace["layer"].as_str() {
                Some("store") => replay(&name, &trace, &STORE, options, report),
                Some("session") => replay(&name, &trace, &SESSION, options, report),
                layer => Err(format!("unknown layer {layer:?}")),
            }
        });
    }
    Ok(())
}

/// Where a trace was recorded: how one of its operations is carried out.
struct Layer {
    model: fn(&mut Model, &str, &str, &Value) -> Result<Value, Failed>,
    subject: fn(&mut Subject, &str, &str, &Value) -> Result<Value, String>,
}

const STORE: Layer = Layer {
    model: apply_to_model,
    subject: Subject::apply,
};

const SESSION: Layer = Layer {
    model: layer::apply_to,
    subject: layer::apply,
};

fn replay(
    name: &str,
    trace: &Value,
    layer: &Layer,
    options: &Options,
    report: &mut Report,
) -> Result<(), String> {
    let mut models = Models::new(&Tree::new());
    let mut subject = if options.reference_only {
        None
    } else {
        Some(Subject::open(&Tree::new())?)
    };
    for (i, step) in list(&trace["steps"]).iter().enumerate() {
        let (op, args) = (step["op"].as_str().unwrap_or(""), &step["args"]);
        let key = args["key"].as_str().unwrap_or("");
        let reference = (layer.model)(&mut models.reference, op, key, args);
        let ours = (layer.model)(&mut models.ours, op, key, args);
        let got = subject
            .as_mut()
            .map(|subject| (layer.subject)(subject, op, key, args));
        let recorded = if step["error"] == json!(false) {
            Ok(step.get("result").cloned().unwrap_or_default())
        } else {
            Err(())
        };
        let check = Check {
            recorded: outcome(&recorded, step, |key| step["state"][key].clone()),
            reference: outcome(&reference, step, |key| models.reference.state(key)),
            ours: outcome(&ordered(ours, &models.ours), step, |key| {
                models.ours.state(key)
            }),
            got: got.clone().zip(subject.as_ref()).map(|(got, subject)| {
                outcome(&ordered(got, &models.ours), step, |key| subject.state(key))
            }),
        };
        let mut verdict = check.verdict(&models, report);
        if let (Err(why), Some(Err(error))) = (&mut verdict, got) {
            *why = format!("{why} ({error})");
        }
        report.check(&format!("{name} step {i} {op} {key:?}"), verdict);
    }
    finish(name, &trace["final"], &models, subject, report)
}

/// A list of keys in the order in which it can be compared.
fn ordered<E>(result: Result<Value, E>, ours: &Model) -> Result<Value, E> {
    result.map(|value| match value {
        Value::Array(keys) => listed(
            keys.iter()
                .filter_map(|key| key.as_str().map(str::to_owned))
                .collect(),
            ours,
        ),
        other => other,
    })
}

/// A step's outcome, and the state of every session that it names.
fn outcome<E>(result: &Result<Value, E>, step: &Value, state: impl Fn(&str) -> Value) -> Value {
    let result = result
        .as_ref()
        .map_or_else(|_| "failed".into(), Clone::clone);
    let keys = step["state"]
        .as_object()
        .into_iter()
        .flat_map(|states| states.keys());
    json!({ "result": result, "state": keys.map(|key| (key.clone(), state(key))).collect::<Value>() })
}

fn finish(
    name: &str,
    recorded: &Value,
    models: &Models,
    subject: Option<Subject>,
    report: &mut Report,
) -> Result<(), String> {
    let states = |state: &dyn Fn(&str) -> Value| -> Value {
        let keys = recorded["state"]
            .as_object()
            .into_iter()
            .flat_map(|states| states.keys());
        keys.map(|key| (key.clone(), state(key))).collect()
    };
    let check = Check {
        recorded: json!({ "state": recorded["state"], "list": recorded["list"] }),
        reference: json!({ "state": states(&|key| models.reference.state(key)), "list": models.reference.list() }),
        ours: json!({ "state": states(&|key| models.ours.state(key)), "list": listed(models.ours.list(), &models.ours) }),
        got: subject.as_ref().map(|subject| {
            let list = subject
                .handle()
                .list_sessions()
                .wait()
                .map_or_else(failure, |keys| listed(keys, &models.ours));
            json!({ "state": states(&|key| subject.state(key)), "list": list })
        }),
    };
    let outcome = check.verdict(models, report);
    report.check(&format!("{name} final"), outcome);
    let got = subject.map(Subject::into_tree).transpose()?;
    let check = Check {
        recorded: recorded_files(&recorded["files"]),
        reference: files(&models.reference),
        ours: files(&models.ours),
        got: got.map(|tree| {
            with_placeholders(tree, &models.ours.files())
                .iter()
                .map(|(name, bytes)| (name.clone(), file_content(name, bytes)))
                .collect()
        }),
    };
    let outcome = check.verdict(models, report);
    report.check(&format!("{name} files"), outcome);
    Ok(())
}

fn files(model: &Model) -> Value {
    model
        .files()
        .into_iter()
        .map(|name| (name.clone(), model.file(&name)))
        .collect()
}

/// The recorded files; their empty lines are not lines.
fn recorded_files(files: &Value) -> Value {
    let files = files.as_object().into_iter().flatten();
    let content = |value: &Value| match value {
        Value::Array(lines) => lines
            .iter()
            .filter(|line| !matches!(line.as_str(), Some("\n" | "\r\n")))
            .cloned()
            .collect(),
        _ => value.clone(),
    };
    files
        .map(|(name, value)| (name.clone(), content(value)))
        .collect()
}
