//! A standalone context under test, driven through its public face.

use std::fs;
use std::path::PathBuf;

use serde_json::{Map, Value, json};
use sessionlog::{Context, Message};
use sha2::{Digest as _, Sha256};

use crate::json::Json;
use crate::model::{Tree, hex};
use crate::subject::{list, text};
use crate::tree::read_tree;

/// A context file in a directory of its own.
pub(crate) struct Conversation {
    dir: tempfile::TempDir,
    file: String,
    context: Option<Context>,
}

impl Conversation {
    /// Fills a new directory and opens the file there.
    pub(crate) fn open(file: &str, tree: &Tree) -> Result<Self, String> {
        let dir = tempfile::tempdir().map_err(text)?;
        for (name, bytes) in tree {
            fs::write(dir.path().join(name), bytes).map_err(text)?;
        }
        let mut conversation = Self {
            dir,
            file: file.into(),
            context: None,
        };
        conversation.reopen()?;
        Ok(conversation)
    }

    /// Opens a new context, not restored yet.
    pub(crate) fn reopen(&mut self) -> Result<(), String> {
        self.context = None;
        self.context = Some(Context::open(self.path(&self.file)).map_err(text)?);
        Ok(())
    }

    fn context(&self) -> &Context {
        self.context.as_ref().expect("the context is open")
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub(crate) fn restore(&self) -> Result<bool, String> {
        self.context().restore().wait().map_err(text)
    }

    /// What a new context on the same file says.
    pub(crate) fn seen_anew(&self) -> Result<Value, String> {
        let context = Context::open(self.path(&self.file)).map_err(text)?;
        context.restore().wait().map_err(text)?;
        state(&context)
    }

    pub(crate) fn state(&self) -> Result<Value, String> {
        state(self.context())
    }

    /// The bytes of the context file; nothing where there is none.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        fs::read(self.path(&self.file)).unwrap_or_default()
    }

    /// Replaces the context file behind the context's back.
    pub(crate) fn put(&self, name: &str, bytes: &[u8]) -> Result<(), String> {
        fs::write(self.path(name), bytes).map_err(text)
    }

    pub(crate) fn file(&self) -> &str {
        &self.file
    }

    pub(crate) fn tree(&self) -> Result<Tree, String> {
        read_tree(self.dir.path())
    }

    /// Runs one recorded operation.
    pub(crate) fn apply(&mut self, op: &str, args: &Value) -> Result<Value, String> {
        let given = |name: &str| args[name].as_str().unwrap_or("").to_owned();
        let number = |name: &str| args[name].as_i64().unwrap_or(0);
        match op {
            "reopen" => {
                self.reopen()?;
                return self.restore().map(Value::from);
            }
            "restore_again" => return self.restore().map(Value::from),
            "append" => self.append(std::slice::from_ref(&args["message"]))?,
            "append_batch" => self.append(list(&args["messages"]))?,
            "checkpoint" => {
                let told = args["add_user_message"] == true;
                self.context().checkpoint(told).wait().map_err(text)?;
            }
            "usage" => {
                let reply = self.context().update_token_count(number("token_count"));
                reply.wait().map_err(text)?;
            }
            "system_prompt" => {
                let reply = self.context().write_system_prompt(&given("prompt"));
                reply.wait().map_err(text)?;
            }
            "revert_to" => {
                let reply = self.context().revert_to(number("checkpoint_id"));
                reply.wait().map_err(text)?;
            }
            "clear" => self.context().clear().wait().map_err(text)?,
            "raw_append" => {
                let bytes = [self.bytes(), given("text").into_bytes()].concat();
                self.put(&self.file, &bytes)?;
            }
            "touch" => self.put(&given("file"), given("text").as_bytes())?,
            "mkdir" => fs::create_dir(self.path(&given("dir"))).map_err(text)?,
            "unlink" => fs::remove_file(self.path(&given("file"))).map_err(text)?,
            _ => return Err(format!("unknown operation {op}")),
        }
        Ok(Value::Null)
    }

    fn append(&self, messages: &[Value]) -> Result<(), String> {
        let messages = messages
            .iter()
            .map(message)
            .collect::<Result<Vec<_>, _>>()?;
        self.context().append_message(messages).wait().map_err(text)
    }
}

/// A recorded message.
pub(crate) fn message(recorded: &Value) -> Result<Message, String> {
    Message::from_kimi_json(plain(recorded).to_string().as_bytes()).map_err(text)
}

/// Everything a context says of itself, as recorded.
pub(crate) fn state(context: &Context) -> Result<Value, String> {
    let history = context.history().wait().map_err(text)?;
    Ok(json!({
        "history": history.iter().map(shown).collect::<Vec<_>>(),
        "token_count": context.token_count().wait().map_err(text)?,
        "token_count_with_pending": context.token_count_with_pending().wait().map_err(text)?,
        "n_checkpoints": context.n_checkpoints().wait().map_err(text)?,
        "system_prompt": context.system_prompt().wait().map_err(text)?,
    }))
}

/// A message with the fields that the reference knows.
fn shown(message: &Message) -> Value {
    const MESSAGE: [&str; 6] = [
        "role",
        "name",
        "content",
        "tool_calls",
        "tool_call_id",
        "partial",
    ];
    let json = Json::parse(message.to_kimi_json().as_bytes());
    let mut shown = only(json.map_or(Value::Null, |json| json.to_value()), &MESSAGE);
    for call in shown["tool_calls"].as_array_mut().into_iter().flatten() {
        *call = only(call.take(), &["type", "id", "function", "extras"]);
        call["function"] = only(call["function"].take(), &["name", "arguments"]);
    }
    if shown["tool_calls"].is_null() {
        shown
            .as_object_mut()
            .map(|shown| shown.remove("tool_calls"));
    }
    shown
}

fn only(value: Value, names: &[&str]) -> Value {
    let Value::Object(mut map) = value else {
        return value;
    };
    map.retain(|name, _| names.contains(&name.as_str()));
    Value::Object(map)
}

/// A recorded value with U+FFFD for lone surrogates.
pub(crate) fn plain(recorded: &Value) -> Value {
    match recorded {
        Value::Object(map) => match map.get("$escaped").and_then(Value::as_str) {
            Some(escaped) => {
                Json::parse(escaped.as_bytes()).map_or(Value::Null, |json| json.to_value())
            }
            None => map
                .iter()
                .map(|(k, v)| (k.clone(), plain(v)))
                .collect::<Map<_, _>>()
                .into(),
        },
        Value::Array(items) => items.iter().map(plain).collect(),
        _ => recorded.clone(),
    }
}

/// Size and hash of every file, as recorded.
pub(crate) fn listing(tree: &Tree) -> Value {
    let entries = tree.iter().map(|(name, bytes)| {
        let entry = if name.ends_with('/') {
            Value::Null
        } else {
            json!({ "bytes": bytes.len(), "sha256": hash(bytes) })
        };
        (name.clone(), entry)
    });
    entries.collect::<Map<_, _>>().into()
}

pub(crate) fn hash(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}
