//! `cross/`: each reference reading the other's files.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::case::{self, Check, Models, Options};
use crate::conversation::{Conversation, plain};
use crate::model::{Failed, Model, Tree};
use crate::report::{Report, same};
use crate::subject::{Subject, apply_to_model, list, text};

const FILE: &str = "context.jsonl";
const KEY: &str = "context";

pub(crate) fn run(path: &Path, options: &Options, report: &mut Report) -> Result<(), String> {
    let root = path.parent().ok_or("a corpus without a root")?;
    for (file, read) in [
        ("store_reads_context.json", store_reads as Read),
        ("context_reads_store.json", context_reads as Read),
    ] {
        if !path.join(file).exists() {
            continue;
        }
        for recorded in list(&case::read_json(&path.join(file))?["reads"]) {
            let source = recorded["source"].as_str().ok_or("a read without source")?;
            let name = format!("cross/{file} {source}");
            case::run(&name, options, report, |report| {
                let bytes = fs::read(root.join(source)).map_err(text)?;
                let outcome = read(recorded, bytes, options, report);
                report.check(&name, outcome);
                Ok(())
            });
        }
    }
    Ok(())
}

type Read = fn(&Value, Vec<u8>, &Options, &mut Report) -> Result<(), String>;

/// The store reads a context file as a session without a sidecar.
fn store_reads(
    recorded: &Value,
    bytes: Vec<u8>,
    options: &Options,
    report: &mut Report,
) -> Result<(), String> {
    let tree = Tree::from([(FILE.into(), bytes)]);
    let models = Models::new(&tree);
    let mut got = None;
    if !options.reference_only {
        let mut subject = Subject::open(&tree)?;
        let history = subject.state(KEY)["history"].clone();
        subject.apply("truncate", KEY, &truncation())?;
        got = Some(json!({ "history": history, "after": subject.state(KEY) }));
    }
    let check = Check {
        recorded: json!({ "history": recorded["history"], "after": recorded["after_truncate_keep_2"] }),
        reference: both(&models.reference).map_err(|Failed| "the model fails")?,
        ours: both(&models.ours).map_err(|Failed| "the model fails")?,
        got,
    };
    check.verdict(&models, report)
}

fn truncation() -> Value {
    json!({ "keep_last": 2 })
}

fn both(model: &Model) -> Result<Value, Failed> {
    let history = model.state(KEY)["history"].clone();
    let mut model = model.clone();
    apply_to_model(&mut model, "truncate", KEY, &truncation())?;
    Ok(json!({ "history": history, "after": model.state(KEY) }))
}

/// A context reads a file of the store.
fn context_reads(
    recorded: &Value,
    bytes: Vec<u8>,
    options: &Options,
    _: &mut Report,
) -> Result<(), String> {
    if options.reference_only {
        return Ok(());
    }
    let conversation = Conversation::open(FILE, &Tree::from([(FILE.into(), bytes)]))?;
    let restored = conversation.restore()?;
    same(&recorded["restored"], &restored.into())?;
    same(&plain(&recorded["state"]), &conversation.state()?)
}
