//! The session layer: keys mean sessions, errors are swallowed.

use std::sync::Arc;

use serde_json::{Value, json};
use sessionlog::backend::{JsonlBackend, SessionStore, fire_and_forget};
use sessionlog::scope::{SessionScope, resolve_agent_id};

use crate::model::{Failed, Model, visible};
use crate::subject::{Subject, apply_to_model, list, message, messages, strings, text};

/// Runs one recorded operation through a session store that keeps errors to
/// itself.
pub(crate) fn apply(
    subject: &mut Subject,
    op: &str,
    key: &str,
    args: &Value,
) -> Result<Value, String> {
    if op == "raw_append" {
        subject.raw_append(key, args["text"].as_str().unwrap_or(""))?;
        return Ok(Value::Null);
    }
    let given = |name: &str| args[name].as_str().unwrap_or("").to_owned();
    let chats = fire_and_forget(Arc::new(JsonlBackend::over(subject.resolving_handle())));
    match op {
        "add" => chats
            .add_message(key, &given("role"), &given("content"))
            .wait(),
        "add_full" => chats
            .add_full_message(key, message(&args["message"])?)
            .wait(),
        "set_summary" => chats.set_summary(key, &given("summary")).wait(),
        "truncate" => {
            let keep_last = args["keep_last"].as_u64().unwrap_or(0) as usize;
            chats.truncate_history(key, keep_last).wait()
        }
        "set_history" => {
            let history = list(&args["history"]).iter().map(message);
            chats
                .set_history(key, history.collect::<Result<_, _>>()?)
                .wait()
        }
        "save" => chats.save(key).wait(),
        "ensure" => {
            let scope = match &args["scope"] {
                Value::Null => None,
                scope => Some(SessionScope::from_json(&scope.to_string()).map_err(text)?),
            };
            let aliases = strings(&args["aliases"]);
            let ensured = chats.ensure_session_metadata(key, scope.as_ref(), aliases);
            ensured.wait().map(drop)
        }
        "get" => {
            let history = messages(&chats.history(key).wait().map_err(text)?);
            let summary = chats.summary(key).wait().map_err(text)?;
            return Ok(json!({ "history": history, "summary": summary }));
        }
        "get_scope" => {
            let scope = chats.session_scope(key).wait().map_err(text)?;
            return described(scope.as_ref(), key);
        }
        "resolve" => {
            let resolved = chats.resolve_session_key(key).wait().map_err(text)?;
            return Ok(json!({ "resolved": resolved }));
        }
        "list" => return Ok(chats.list_sessions().wait().map_err(text)?.into()),
        _ => return Err(format!("unknown operation {op}")),
    }
    .map_err(text)?;
    Ok(Value::Null)
}

/// The same operation on the model.
pub(crate) fn apply_to(
    model: &mut Model,
    op: &str,
    key: &str,
    args: &Value,
) -> Result<Value, Failed> {
    let resolved = model.resolve(key).unwrap_or_else(|| key.to_owned());
    match op {
        "ensure" => {
            let key = key.trim();
            let aliases = strings(&args["aliases"]);
            if model.upsert(key, &args["scope"], &aliases).is_ok() {
                let _ = model.promote(key, &args["scope"], &aliases);
            }
        }
        "save" => drop(model.compact(&resolved)),
        "get" => {
            let history = model.history(&resolved).unwrap_or_default();
            let history: Value = history.into_iter().map(visible).collect();
            let summary = model.meta(&resolved).map(|meta| meta["summary"].clone());
            return Ok(json!({ "history": history, "summary": summary.unwrap_or("".into()) }));
        }
        "get_scope" => {
            let meta = model.meta(&resolved).unwrap_or_default();
            let scope = meta.get("scope").map(Value::to_string);
            let scope = scope.and_then(|scope| SessionScope::from_json(&scope).ok());
            return described(scope.as_ref(), key).map_err(|_| Failed);
        }
        "resolve" => return Ok(json!({ "resolved": resolved })),
        "list" => return Ok(model.list().into()),
        "raw_append" => return apply_to_model(model, op, key, args),
        _ => drop(apply_to_model(model, op, &resolved, args)),
    }
    Ok(Value::Null)
}

fn described(scope: Option<&SessionScope>, key: &str) -> Result<Value, String> {
    let agent_id = resolve_agent_id(scope, key).unwrap_or_default();
    let scope: Value = match scope {
        Some(scope) => serde_json::from_str(scope.to_raw().get()).map_err(text)?,
        None => "none".into(),
    };
    Ok(json!({ "scope": scope, "agent_id": agent_id }))
}
