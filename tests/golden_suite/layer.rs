//! The session layer: keys mean sessions, errors are swallowed.

use serde_json::{Value, json};
use sessionlog::Error;
use sessionlog::backend::{JsonlBackend, SessionStore};
use sessionlog::scope::{SessionScope, resolve_agent_id};

use crate::model::{Failed, Model, visible};
use crate::subject::{Subject, apply_to_model, list, message, messages, strings, text};

/// Returns the value, or an empty one for an error, as a caller under PicoClaw's contract sees it.
fn or_empty<T: Default>(result: sessionlog::Result<T>) -> T {
    result.unwrap_or_default()
}

/// Runs one recorded operation through a session store as a caller under PicoClaw's contract does.
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
    let chats = JsonlBackend::over(subject.resolving_handle());
    match op {
        "add" => {
            let added = chats.add_message(key, &given("role"), &given("content"));
            or_empty(added.wait());
        }
        "add_full" => {
            let added = chats.add_full_message(key, message(&args["message"])?);
            or_empty(added.wait());
        }
        "set_summary" => or_empty(chats.set_summary(key, &given("summary")).wait()),
        "truncate" => {
            let keep_last = args["keep_last"].as_u64().unwrap_or(0) as usize;
            or_empty(chats.truncate_history(key, keep_last).wait());
        }
        "set_history" => {
            let history = list(&args["history"]).iter().map(message);
            let history = history.collect::<Result<_, _>>()?;
            or_empty(chats.set_history(key, history).wait());
        }
        "save" => chats.save(key).wait().map_err(text)?,
        "ensure" => {
            let scope = match &args["scope"] {
                Value::Null => None,
                scope => Some(SessionScope::from_json(&scope.to_string()).map_err(text)?),
            };
            let aliases = strings(&args["aliases"]);
            let ensured = chats.ensure_session_metadata(key, scope.as_ref(), aliases);
            match ensured.wait() {
                Err(error @ Error::ScopeConflict { .. }) => return Err(text(error)),
                ensured => drop(or_empty(ensured)),
            }
        }
        "get" => {
            let history = messages(&or_empty(chats.history(key).wait()));
            let summary = or_empty(chats.summary(key).wait());
            return Ok(json!({ "history": history, "summary": summary }));
        }
        "get_scope" => {
            let scope = or_empty(chats.session_scope(key).wait());
            return described(scope.as_ref(), key);
        }
        "resolve" => {
            let resolved = or_empty(chats.resolve_session_key(key).wait());
            let resolved = resolved.unwrap_or_else(|| key.to_owned());
            return Ok(json!({ "resolved": resolved }));
        }
        "list" => return Ok(or_empty(chats.list_sessions().wait()).into()),
        _ => return Err(format!("unknown operation {op}")),
    }
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
