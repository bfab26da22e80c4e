//! `sessions/`: store directories as the reference left them.

use std::path::Path;

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::case::{self, Check, Models, Options};
use crate::model::{Failed, HASHED, Model, Tree, file_stem, hex, visible};
use crate::report::{Report, same};
use crate::subject::{Subject, apply_to_model, failure, list, messages, resolution, text};
use crate::tree::{expand, file_content, read_tree, unchanged};

pub(crate) fn run(path: &Path, options: &Options, report: &mut Report) -> Result<(), String> {
    let manifest = case::read_json(&path.join("manifest.json"))?;
    for entry in list(&manifest["dirs"]) {
        let dir = entry["dir"].as_str().ok_or("a directory without name")?;
        let name = format!("sessions/{dir}");
        case::run(&name, options, report, |report| {
            let case = Case::load(&name, &path.join(dir), options)?;
            case.read(report)?;
            case.write_back(report)?;
            case.after(report)
        });
    }
    Ok(())
}

struct Case<'a> {
    name: &'a str,
    tree: Tree,
    expected: Value,
    models: Models,
    options: &'a Options,
}

impl<'a> Case<'a> {
    fn load(name: &'a str, path: &Path, options: &'a Options) -> Result<Self, String> {
        let store = path.join("store");
        let mut tree = if store.is_dir() {
            read_tree(&store)?
        } else {
            Tree::new()
        };
        if path.join("recipe.json").exists() {
            expand(&case::read_json(&path.join("recipe.json"))?, &mut tree)?;
        }
        let expected = case::read_json(&path.join("expected.json"))?;
        for file in list(&expected["files"]) {
            let known = tree.get(file["name"].as_str().unwrap_or(""));
            if let (Some(bytes), Some(hash)) = (known, file["sha256"].as_str())
                && hex(&Sha256::digest(bytes)) != hash
            {
                return Err(format!(
                    "{} is not the file that was recorded",
                    file["name"]
                ));
            }
        }
        let models = Models::new(&tree);
        Ok(Self {
            name,
            tree,
            expected,
            models,
            options,
        })
    }

    fn sessions(&self) -> &[Value] {
        list(&self.expected["sessions"])
    }

    fn open(&self) -> Result<Option<Subject>, String> {
        if self.options.reference_only {
            Ok(None)
        } else {
            Subject::open(&self.tree).map(Some)
        }
    }

    /// Everything that can be read, and that reading changes nothing on disk.
    fn read(&self, report: &mut Report) -> Result<(), String> {
        let subject = self.open()?;
        let models = self.models.clone();
        let check = Check {
            recorded: self.expected["list_sessions"].clone(),
            reference: models.reference.list().into(),
            ours: models.ours.list().into(),
            got: subject.as_ref().map(|s| {
                s.handle()
                    .list_sessions()
                    .wait()
                    .map_or_else(failure, Value::from)
            }),
        };
        let outcome = check.verdict(&models, report);
        report.check(&format!("{} list", self.name), outcome);
        for session in self.sessions() {
            self.read_session(session, subject.as_ref(), report);
        }
        for recorded in list(&self.expected["resolve"]) {
            self.resolve(recorded, subject.as_ref(), report);
        }
        if let Some(subject) = subject {
            let after = subject.into_tree()?;
            report.check(
                &format!("{} files after reading", self.name),
                unchanged(&self.tree, &after),
            );
        }
        Ok(())
    }

    fn read_session(&self, session: &Value, subject: Option<&Subject>, report: &mut Report) {
        let models = self.models.clone();
        let (key, owner) = keys(&models.ours, session);
        let name = format!("{} {key:?}", self.name);
        let check = Check {
            recorded: json!({
                "history": unless(&session["history_error"], &session["history"]),
                "summary": unless(&session["summary_error"], &session["summary"]),
                "meta": unless(&session["meta_error"], &without_null(&session["meta"])),
            }),
            reference: parts(&models.reference, key),
            ours: parts(&models.ours, &owner),
            got: subject.map(|subject| parts_of(subject, &owner)),
        };
        let mut outcome = check.verdict(&models, report);
        if let Some(required) = session.get("required_history") {
            outcome =
                outcome.and_then(|()| same(required, &parts(&models.ours, &owner)["history"]));
        }
        report.check(&name, outcome);
        if let Some(subject) = subject.filter(|_| owner != key) {
            let nothing = Model::new(models.ours.dialect, &Tree::new()).state(key);
            report.check(
                &format!("{name} owns nothing"),
                same(&nothing, &subject.state(key)),
            );
        }
    }

    /// A key that only shares a file name may be answered with the owner.
    fn resolve(&self, recorded: &Value, subject: Option<&Subject>, report: &mut Report) {
        let models = self.models.clone();
        let key = recorded["in"].as_str().unwrap_or("");
        let ours = models.ours.resolve(key);
        let mut got = subject.map(|subject| {
            subject
                .handle()
                .resolve_session_key(key)
                .wait()
                .map_or_else(failure, |key| resolution(key.as_deref()))
        });
        let owner = recorded["file_belongs_to"].as_str();
        if got.is_some() && got == owner.map(|owner| resolution(Some(owner))) {
            got = Some(resolution(ours.as_deref()));
        }
        let check = Check {
            recorded: json!({ "resolved": recorded["resolved"], "found": recorded["found"] }),
            reference: resolution(models.reference.resolve(key).as_deref()),
            ours: resolution(ours.as_deref()),
            got,
        };
        let outcome = check.verdict(&models, report);
        report.check(&format!("{} resolve {key:?}", self.name), outcome);
    }

    /// Histories, written into new sessions, are the reference's text.
    fn write_back(&self, report: &mut Report) -> Result<(), String> {
        let mut failures = Vec::new();
        let mut written = None;
        if let Some(subject) = self.open()? {
            let copy = Subject::open(&Tree::new())?;
            for (i, session) in self.sessions().iter().enumerate() {
                let history = subject.history(&keys(&self.models.ours, session).1);
                let copied = history.and_then(|history| {
                    let reply = copy.handle().set_history(&format!("copy-{i}"), history);
                    reply.wait().map_err(text)
                });
                failures.push(copied.err());
            }
            written = Some(copy.into_tree()?);
        }
        for (i, session) in self.sessions().iter().enumerate() {
            let models = self.models.clone();
            let (key, owner) = keys(&models.ours, session);
            let history = models.ours.history(&owner).unwrap_or_default();
            let had_time = |i: usize| {
                history
                    .get(i)
                    .is_some_and(|record| record.contains_key("created_at"))
            };
            let got = written.as_ref().map(|tree| {
                if let Some(Some(why)) = failures.get(i) {
                    return failure(why);
                }
                let log = tree
                    .get(&format!("copy-{i}.jsonl"))
                    .map_or(&[][..], Vec::as_slice);
                models
                    .ours
                    .written_back(log, had_time)
                    .map_or_else(failure, |text| digest(Ok(text)))
            });
            let check = Check {
                recorded: session.get("canonical_jsonl").cloned().unwrap_or_default(),
                reference: digest(models.reference.canonical(key)),
                ours: digest(models.ours.canonical(&owner)),
                got,
            };
            let outcome = check.verdict(&models, report);
            report.check(&format!("{} {key:?} written back", self.name), outcome);
        }
        Ok(())
    }

    /// Each recorded operation on a fresh copy. Sessions do not touch each
    /// other, so one copy serves the same step of all of them.
    fn after(&self, report: &mut Report) -> Result<(), String> {
        let steps = |session: &Value| list(&session["after"]).len();
        for step in 0..self.sessions().iter().map(steps).max().unwrap_or(0) {
            let mut subject = self.open()?;
            let mut checks = Vec::new();
            for session in self.sessions() {
                if let Some(recorded) = list(&session["after"]).get(step) {
                    checks.push(self.after_step(session, recorded, subject.as_mut()));
                }
            }
            let tree = subject.map(Subject::into_tree).transpose()?;
            for (name, models, mut check, owner, required) in checks {
                // The recording has no files here: they follow from the model.
                for (value, model, key) in [
                    (&mut check.reference, &models.reference, &owner.0),
                    (&mut check.ours, &models.ours, &owner.1),
                ] {
                    value["file"] = model.file(&(model.stem(key) + ".jsonl"));
                }
                check.recorded["file"] = check.reference["file"].clone();
                if let (Some(got), Some(tree)) = (&mut check.got, &tree) {
                    let name = models.ours.stem(&owner.1) + ".jsonl";
                    got["file"] = tree
                        .get(&name)
                        .map_or(Value::Null, |bytes| file_content(&name, bytes));
                }
                let ours = check.ours["state"]["history"].clone();
                let mut outcome = check.verdict(&models, report);
                if let Some(required) = required {
                    outcome = outcome.and_then(|()| {
                        same(&required, &ours).map_err(|why| format!("required{why}"))
                    });
                }
                report.check(&name, outcome);
            }
        }
        Ok(())
    }

    fn after_step(
        &self,
        session: &Value,
        recorded: &Value,
        subject: Option<&mut Subject>,
    ) -> (String, Models, Check, (String, String), Option<Value>) {
        let mut models = self.models.clone();
        let (key, owner) = keys(&models.ours, session);
        let (op, args) = (recorded["op"].as_str().unwrap_or(""), &recorded["args"]);
        let reference = apply_to_model(&mut models.reference, op, key, args);
        let ours = apply_to_model(&mut models.ours, op, &owner, args);
        let check = Check {
            recorded: outcome(recorded["error"].is_null(), &state(&recorded["state"])),
            reference: outcome(reference.is_ok(), &state(&models.reference.state(key))),
            ours: outcome(ours.is_ok(), &state(&models.ours.state(&owner))),
            got: subject.map(|subject| {
                let result = subject.apply(op, &owner, args);
                let mut got = outcome(result.is_ok(), &state(&subject.state(&owner)));
                if let Err(why) = result {
                    got["why"] = why.into();
                }
                got
            }),
        };
        let name = format!("{} {key:?} after {op} {args}", self.name);
        (
            name,
            models,
            check,
            (key.to_owned(), owner),
            recorded.get("required_history").cloned(),
        )
    }
}

/// A recorded session's key, and the key that its file belongs to.
fn keys<'a>(ours: &Model, session: &'a Value) -> (&'a str, String) {
    let key = session["key"].as_str().unwrap_or("");
    let owner = ours.owner(&file_stem(key)).unwrap_or(key);
    debug_assert!(!owner.starts_with(HASHED));
    (key, owner.to_owned())
}

fn parts(model: &Model, key: &str) -> Value {
    let meta = model.meta(key);
    json!({
        "history": model.history(key).ok().map(|history| history.into_iter().map(visible).collect::<Value>()),
        "summary": meta.as_ref().ok().map(|meta| meta["summary"].clone()),
        "meta": meta.ok(),
    })
}

fn parts_of(subject: &Subject, key: &str) -> Value {
    json!({
        "history": subject.history(key).map_or_else(Value::from, |history| messages(&history)),
        "summary": subject.handle().summary(key).wait().map_or_else(failure, Value::from),
        "meta": subject.meta(key).map_or_else(Value::from, Value::Object),
    })
}

fn outcome(succeeded: bool, state: &Value) -> Value {
    json!({ "succeeded": succeeded, "state": state })
}

/// The part of a state that this corpus records.
fn state(state: &Value) -> Value {
    if state.get("error").is_some() || state.get("history_error").is_some() {
        return json!({ "error": true });
    }
    let names = ["history", "summary", "skip", "count"];
    names
        .iter()
        .map(|name| ((*name).to_owned(), state[*name].clone()))
        .collect()
}

fn unless(error: &Value, value: &Value) -> Value {
    if error.is_null() {
        value.clone()
    } else {
        Value::Null
    }
}

fn without_null(value: &Value) -> Value {
    let Value::Object(map) = value else {
        return value.clone();
    };
    map.iter()
        .filter(|(_, value)| !value.is_null())
        .map(|(k, v)| (k.clone(), v.clone()))
        .collect()
}

fn digest(canonical: Result<String, Failed>) -> Value {
    canonical.map_or(
        Value::Null,
        |text| json!({ "sha256": hex(&Sha256::digest(&text)), "bytes": text.len() }),
    )
}
