//! The store under test, driven through its public face.

use std::fs;
use std::io::Write as _;
use std::path::Path;

use serde_json::{Map, Value, json};
use sessionlog::{Message, SessionMeta, Store, StoreHandle, StoreOptions};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use crate::json::Json;
use crate::model::{Failed, HASHED, Model, Tree, file_stem};
use crate::schema::{self, META, NOW, OUR_MESSAGE, ZERO_TIME};
use crate::tree::read_tree;

/// An open store in a temporary directory.
pub(crate) struct Subject {
    dir: tempfile::TempDir,
    store: Option<Store>,
}

impl Subject {
    /// Fills a new directory and opens it.
    pub(crate) fn open(tree: &Tree) -> Result<Self, String> {
        let dir = tempfile::tempdir().map_err(text)?;
        for (name, bytes) in tree {
            let path = dir.path().join(name);
            if name.ends_with('/') {
                fs::create_dir_all(&path).map_err(text)?;
            } else {
                fs::create_dir_all(path.parent().unwrap_or(dir.path())).map_err(text)?;
                fs::write(&path, bytes).map_err(text)?;
            }
        }
        let mut subject = Self { dir, store: None };
        subject.reopen()?;
        Ok(subject)
    }

    pub(crate) fn dir(&self) -> &Path {
        self.dir.path()
    }

    fn reopen(&mut self) -> Result<(), String> {
        // The supervisor must not compact behind the recording's back.
        let options = StoreOptions::new().auto_compact(false);
        self.store =
            Some(Store::open_with(self.dir.path(), options).map_err(|e| format!("open: {e}"))?);
        Ok(())
    }

    /// A handle that takes keys literally, as the reference's store does.
    pub(crate) fn handle(&self) -> StoreHandle {
        self.store
            .as_ref()
            .expect("the store is open")
            .handle()
            .exact_keys()
    }

    /// A handle to which an alias means its session, as to the reference's
    /// session layer.
    pub(crate) fn resolving_handle(&self) -> StoreHandle {
        self.store.as_ref().expect("the store is open").handle()
    }

    pub(crate) fn close(&mut self) -> Result<(), String> {
        self.store
            .take()
            .map_or(Ok(()), Store::close)
            .map_err(|e| format!("close: {e}"))
    }

    /// Closes the store and says what it left on disk, without its own files.
    pub(crate) fn into_tree(mut self) -> Result<Tree, String> {
        self.close()?;
        read_tree(self.dir.path())
    }

    /// What another program does: one process writes, so the store is closed.
    pub(crate) fn raw_append(&mut self, key: &str, bytes: &str) -> Result<(), String> {
        self.close()?;
        let path = self.dir.path().join(file_stem(key) + ".jsonl");
        let opened = fs::OpenOptions::new().append(true).create(true).open(path);
        opened
            .and_then(|mut file| file.write_all(bytes.as_bytes()))
            .map_err(text)?;
        self.reopen()
    }

    pub(crate) fn history(&self, key: &str) -> Result<Vec<Message>, String> {
        self.handle().history(key).wait().map_err(text)
    }

    /// History, summary, counters and what else is set, as recorded.
    pub(crate) fn state(&self, key: &str) -> Value {
        self.try_state(key)
            .unwrap_or_else(|_| json!({ "error": true }))
    }

    fn try_state(&self, key: &str) -> Result<Value, String> {
        let history = messages(&self.history(key)?);
        let summary = self.handle().summary(key).wait().map_err(text)?;
        let meta = self.meta(key)?;
        let mut state = json!({ "history": history, "summary": summary, "skip": meta["skip"], "count": meta["count"] });
        for name in ["aliases", "scope"] {
            if let Some(value) = meta.get(name) {
                state[name] = value.clone();
            }
        }
        Ok(state)
    }

    /// A session's sidecar, as far as PicoClaw knows its fields. An absent scope and a `null`
    /// one are the same.
    pub(crate) fn meta(&self, key: &str) -> Result<Map<String, Value>, String> {
        let meta: SessionMeta = self.handle().session_meta(key).wait().map_err(text)?;
        match serde_json::to_value(&meta).map_err(text)? {
            Value::Object(mut map) => {
                map.retain(|name, value| schema::knows(&META, name) && !value.is_null());
                Ok(map)
            }
            other => Err(format!("a sidecar serialises as {other}")),
        }
    }

    /// Runs one recorded operation.
    pub(crate) fn apply(&mut self, op: &str, key: &str, args: &Value) -> Result<Value, String> {
        let handle = self.handle();
        let given = |name: &str| args[name].as_str().unwrap_or("").to_owned();
        match op {
            "add" => handle
                .add_message(key, &given("role"), &given("content"))
                .wait()
                .map_err(text)?,
            "add_full" => handle
                .add_full_message(key, message(&args["message"])?)
                .wait()
                .map_err(text)?,
            "set_summary" => handle
                .set_summary(key, &given("summary"))
                .wait()
                .map_err(text)?,
            "truncate" => {
                let keep_last = args["keep_last"].as_u64().unwrap_or(0) as usize;
                handle
                    .truncate_history(key, keep_last)
                    .wait()
                    .map_err(text)?;
            }
            "set_history" => {
                let history = list(&args["history"])
                    .iter()
                    .map(message)
                    .collect::<Result<_, _>>()?;
                handle.set_history(key, history).wait().map_err(text)?;
            }
            "compact" => handle.compact(key).wait().map_err(text)?,
            "upsert_meta" => {
                handle
                    .upsert_session_meta(key, scope(args)?, strings(&args["aliases"]))
                    .wait()
                    .map_err(text)?;
            }
            "promote" => {
                let promoted =
                    handle.promote_alias_history(key, scope(args)?, strings(&args["aliases"]));
                return Ok(json!({ "promoted": promoted.wait().map_err(text)? }));
            }
            "resolve" => {
                let resolved = handle.resolve_session_key(key).wait().map_err(text)?;
                return Ok(resolution(resolved.as_deref()));
            }
            "list" => return Ok(handle.list_sessions().wait().map_err(text)?.into()),
            "raw_append" => self.raw_append(key, &given("text"))?,
            _ => return Err(format!("unknown operation {op}")),
        }
        Ok(Value::Null)
    }
}

/// The same operation on the model.
pub(crate) fn apply_to_model(
    model: &mut Model,
    op: &str,
    key: &str,
    args: &Value,
) -> Result<Value, Failed> {
    let given = |name: &str| args[name].as_str().unwrap_or("");
    if ["compact", "truncate"].contains(&op) {
        model.claimed.insert(model.stem(key), key.to_owned());
    }
    match op {
        "add" => model.add(
            key,
            &json!({ "role": args["role"], "content": args["content"] }),
        )?,
        "add_full" => model.add(key, &args["message"])?,
        "set_summary" => model.set_summary(key, given("summary"))?,
        "truncate" => model.truncate(key, args["keep_last"].as_i64().unwrap_or(0))?,
        "set_history" => model.set_history(key, list(&args["history"]))?,
        "compact" => model.compact(key)?,
        "upsert_meta" => model.upsert(key, &args["scope"], &strings(&args["aliases"]))?,
        "promote" => {
            let promoted = model.promote(key, &args["scope"], &strings(&args["aliases"]))?;
            return Ok(json!({ "promoted": promoted }));
        }
        "resolve" => return Ok(resolution(model.resolve(key).as_deref())),
        "list" => return Ok(model.list().into()),
        "raw_append" => model.raw_append(key, given("text")),
        _ => return Err(Failed),
    }
    Ok(Value::Null)
}

/// The answer to a resolution, as recorded.
pub(crate) fn resolution(key: Option<&str>) -> Value {
    json!({ "resolved": key.unwrap_or(""), "found": key.is_some() })
}

/// Messages as the reference would have read them.
pub(crate) fn messages(history: &[Message]) -> Value {
    history
        .iter()
        .map(|message| schema::project(&OUR_MESSAGE, &everything(message)))
        .collect()
}

/// A message with the fields that the reference does not know.
fn everything(message: &Message) -> Value {
    // Not `to_value`: nested deeper than it goes is still a message.
    let text = serde_json::to_string(message).unwrap_or_else(|error| error.to_string());
    Json::parse(text.as_bytes()).map_or(Value::Null, |json| json.to_value())
}

/// Keys in the order of their file names; sorted where a file has a name of our
/// choosing, whose place nobody knows.
pub(crate) fn listed(mut keys: Vec<String>, ours: &Model) -> Value {
    if ours.files().iter().any(|name| name.starts_with(HASHED)) {
        keys.sort();
    }
    keys.into()
}

/// Puts `$now` in place of times that the store took from the clock where
/// `expected` has it, and removes `created_at` where `expected` leaves it out.
pub(crate) fn settle(expected: &Value, got: &mut Value) {
    match (expected, got) {
        (Value::Array(expected), Value::Array(got)) => {
            expected
                .iter()
                .zip(got)
                .for_each(|(expected, got)| settle(expected, got));
        }
        (Value::Object(expected), Value::Object(got)) => {
            let assigned = expected.contains_key("role") && !expected.contains_key("created_at");
            if assigned
                && got
                    .get("created_at")
                    .and_then(Value::as_str)
                    .is_some_and(is_recent)
            {
                got.remove("created_at");
            }
            for (name, expected) in expected {
                if let Some(got) = got.get_mut(name) {
                    settle(expected, got);
                }
            }
        }
        (Value::String(expected), Value::String(got)) => {
            let Some((head, tail)) = expected.split_once(NOW) else {
                return;
            };
            let middle = got
                .strip_prefix(head)
                .and_then(|rest| rest.strip_suffix(tail));
            if middle.is_some_and(is_recent) {
                got.clone_from(expected);
            }
        }
        _ => {}
    }
}

/// Whether a time lies within the last hour: a run takes minutes.
pub(crate) fn is_recent(time: &str) -> bool {
    let age = OffsetDateTime::parse(time, &Rfc3339).map(|time| OffsetDateTime::now_utc() - time);
    time != ZERO_TIME && age.is_ok_and(|age| (-60..3_600).contains(&age.whole_seconds()))
}

/// A JSON array's items; nothing for anything else.
pub(crate) fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

pub(crate) fn text(error: impl std::fmt::Display) -> String {
    format!("{error}")
}

/// An error in the place of a value: it differs from every value.
pub(crate) fn failure(error: impl std::fmt::Display) -> Value {
    format!("error: {}", text(error)).into()
}

pub(crate) fn message(json: &Value) -> Result<Message, String> {
    Message::from_json(json.to_string().as_bytes()).map_err(text)
}

fn scope(args: &Value) -> Result<Option<Box<serde_json::value::RawValue>>, String> {
    match &args["scope"] {
        Value::Null => Ok(None),
        scope => serde_json::value::to_raw_value(scope)
            .map(Some)
            .map_err(text),
    }
}

pub(crate) fn strings(value: &Value) -> Vec<String> {
    list(value)
        .iter()
        .filter_map(|item| item.as_str().map(str::to_owned))
        .collect()
}
