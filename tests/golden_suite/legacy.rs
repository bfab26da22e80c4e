//! `legacy/`: the old manager's files, imported in place.

use std::path::Path;

use serde_json::{Value, json};
use sessionlog::backend::{LegacyJsonStore, SessionStore};
use sessionlog::migrate_from_json;

use crate::case::{self, Check, Models, Options};
use crate::model::{Model, Tree};
use crate::report::{Report, same};
use crate::subject::{Subject, failure, list, listed, messages, text};
use crate::tree::{read_tree, with_placeholders};

pub(crate) fn run(path: &Path, options: &Options, report: &mut Report) -> Result<(), String> {
    let manifest = case::read_json(&path.join("manifest.json"))?;
    for entry in list(&manifest["cases"]) {
        let dir = entry["case"].as_str().ok_or("a case without name")?;
        let name = format!("legacy/{dir}");
        case::run(&name, options, report, |report| {
            let input = path.join(dir).join("input");
            let tree = if input.is_dir() {
                read_tree(&input)?
            } else {
                Tree::new()
            };
            let expected = case::read_json(&path.join(dir).join("expected.json"))?;
            if dir.starts_with("manager") && !options.reference_only {
                older_store(&name, &tree, &expected, report)?;
            }
            import(&name, &tree, &expected, options, report)
        });
    }
    Ok(())
}

/// The manager's own files, in the store that keeps such files: it shows what
/// they hold, and writes them as the manager does.
fn older_store(
    name: &str,
    tree: &Tree,
    expected: &Value,
    report: &mut Report,
) -> Result<(), String> {
    let dir = tempfile::tempdir().map_err(text)?;
    for (file, bytes) in tree {
        std::fs::write(dir.path().join(file), bytes).map_err(text)?;
    }
    let store = LegacyJsonStore::open(dir.path()).map_err(text)?;
    for session in list(&expected["sessions"]) {
        let key = session["key"].as_str().unwrap_or("");
        let summary = store.summary(key).wait().map_err(text)?;
        let history = messages(&store.history(key).wait().map_err(text)?);
        let got = json!({ "history": history, "summary": summary });
        let recorded = json!({ "history": session["history"], "summary": session["summary"] });
        report.check(&format!("{name} {key:?} unimported"), same(&recorded, &got));
        // Writes the file again: what it says of its last change is all that changes.
        store.set_summary(key, &summary).wait().map_err(text)?;
    }
    store.close().wait().map_err(text)?;
    let written = read_tree(dir.path())?;
    for (file, bytes) in tree {
        let (before, after) = (String::from_utf8_lossy(bytes), written.get(file));
        let after = String::from_utf8_lossy(after.map_or(&[][..], Vec::as_slice));
        let updated = |text: &str| text.rfind("  \"updated\": ").unwrap_or(text.len());
        let same = before[..updated(&before)] == after[..updated(&after)];
        let outcome = if same {
            Ok(())
        } else {
            Err(format!("wrote {after}"))
        };
        report.check(&format!("{name} {file} written again"), outcome);
    }
    Ok(())
}

fn import(
    name: &str,
    tree: &Tree,
    expected: &Value,
    options: &Options,
    report: &mut Report,
) -> Result<(), String> {
    let mut models = Models::new(tree);
    let subject = if options.reference_only {
        None
    } else {
        Some(Subject::open(tree)?)
    };
    migrate(
        &format!("{name} first run"),
        expected,
        &mut models,
        subject.as_ref(),
        report,
    );
    let keys: Vec<_> = list(&expected["sessions"])
        .iter()
        .filter_map(|session| session["key"].as_str())
        .collect();
    for (session, key) in list(&expected["sessions"]).iter().zip(keys) {
        let check = Check {
            recorded: recorded_session(session),
            reference: model_session(&models.reference, key),
            ours: model_session(&models.ours, key),
            got: subject.as_ref().map(|subject| store_session(subject, key)),
        };
        let outcome = check.verdict(&models, report);
        report.check(&format!("{name} {key:?}"), outcome);
    }
    listing(name, expected, &models, subject.as_ref(), report);
    let before = models.clone();
    let settled = subject.as_ref().map(on_disk).transpose()?;
    migrate(
        &format!("{name} second run"),
        &expected["second_run"],
        &mut models,
        subject.as_ref(),
        report,
    );
    let check = Check {
        recorded: expected["second_run"]["files_changed"].clone(),
        reference: (before.reference.files() != models.reference.files()).into(),
        ours: (before.ours.files() != models.ours.files()).into(),
        got: match &subject {
            Some(subject) => Some((settled != Some(on_disk(subject)?)).into()),
            None => None,
        },
    };
    let outcome = check.verdict(&models, report);
    report.check(&format!("{name} second run's files"), outcome);
    files(name, tree, expected, &models, subject, report)
}

fn migrate(
    name: &str,
    recorded: &Value,
    models: &mut Models,
    subject: Option<&Subject>,
    report: &mut Report,
) {
    let outcome = |migrated: usize, failed: bool| json!({ "migrated": migrated, "error": failed });
    let (migrated, failed) = models.reference.migrate();
    let reference = outcome(migrated, failed);
    let (migrated, failed) = models.ours.migrate();
    let check = Check {
        recorded: json!({ "migrated": recorded["migrated"], "error": recorded["error"] }),
        reference,
        ours: outcome(migrated, failed),
        got: subject.map(
            |subject| match migrate_from_json(subject.dir(), &subject.handle()) {
                Ok(migrated) => outcome(migrated, false),
                Err(why) => failure(why),
            },
        ),
    };
    let outcome = check.verdict(models, report);
    report.check(name, outcome);
}

fn listing(
    name: &str,
    expected: &Value,
    models: &Models,
    subject: Option<&Subject>,
    report: &mut Report,
) {
    let check = Check {
        recorded: expected["list_sessions"].clone(),
        reference: models.reference.list().into(),
        ours: listed(models.ours.list(), &models.ours),
        got: subject.map(|s| {
            s.handle()
                .list_sessions()
                .wait()
                .map_or_else(failure, |keys| listed(keys, &models.ours))
        }),
    };
    let outcome = check.verdict(models, report);
    report.check(&format!("{name} list"), outcome);
}

/// File names afterwards, and that files which are not sessions kept their
/// bytes under one name or another.
fn files(
    name: &str,
    before: &Tree,
    expected: &Value,
    models: &Models,
    subject: Option<Subject>,
    report: &mut Report,
) -> Result<(), String> {
    let ours = models.ours.files();
    let after = subject.map(Subject::into_tree).transpose()?;
    let after = after.map(|tree| with_placeholders(tree, &ours));
    let check = Check {
        recorded: expected["files_after"].clone(),
        reference: models.reference.files().into(),
        ours: ours.clone().into(),
        got: after
            .as_ref()
            .map(|tree| tree.keys().cloned().collect::<Vec<_>>().into()),
    };
    let outcome = check.verdict(models, report);
    report.check(&format!("{name} files"), outcome);
    let Some(after) = after else { return Ok(()) };
    let lost = models
        .ours
        .rest
        .iter()
        .find(|(name, bytes)| after.get(*name) != Some(bytes));
    let outcome = lost.map_or(Ok(()), |(file, bytes)| {
        Err(format!("{file} does not hold its {} bytes", bytes.len()))
    });
    report.check(
        &format!("{name} other files, {} before", before.len()),
        outcome,
    );
    for session in list(&expected["sessions"]) {
        let stem = session["file_stem"].as_str().unwrap_or("");
        let key = session["key"].as_str().unwrap_or("");
        let exists = |tree: &Tree| tree.contains_key(&format!("{stem}.jsonl"));
        let promised = models.ours.logs.contains_key(stem);
        let outcome = if exists(&after) == promised {
            Ok(())
        } else {
            Err(format!("expected {promised}"))
        };
        report.check(&format!("{name} {key:?} has a history file"), outcome);
    }
    Ok(())
}

fn on_disk(subject: &Subject) -> Result<Tree, String> {
    subject.handle().flush().wait().map_err(text)?;
    read_tree(subject.dir())
}

fn recorded_session(session: &Value) -> Value {
    if session.get("history_error").is_some() {
        return json!({ "error": true });
    }
    let mut session = session.clone();
    if let Some(map) = session.as_object_mut() {
        for name in ["file_stem", "jsonl_exists", "key"] {
            map.remove(name);
        }
    }
    session
}

fn model_session(model: &Model, key: &str) -> Value {
    let mut state = model.state(key);
    if let Some(created) = model
        .meta(key)
        .ok()
        .and_then(|meta| meta.get("created_at").cloned())
    {
        state["created_at"] = created;
    }
    state
}

fn store_session(subject: &Subject, key: &str) -> Value {
    let mut state = subject.state(key);
    if let Some(created) = subject
        .meta(key)
        .ok()
        .and_then(|meta| meta.get("created_at").cloned())
    {
        state["created_at"] = created;
    }
    state
}
