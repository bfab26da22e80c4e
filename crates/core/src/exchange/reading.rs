//! Functions shared by the readers of all shapes.

use serde_json::Value;

use crate::error::{Error, Result};

pub(super) fn json(text: &str) -> Result<Value> {
    serde_json::from_str(text).map_err(|error| invalid(error.to_string()))
}

/// The list of messages, alone or as the field `messages`.
pub(super) fn list(value: &Value) -> Result<&Vec<Value>> {
    let list = value
        .as_array()
        .or_else(|| value.get("messages")?.as_array());
    list.ok_or_else(|| invalid("there is no list of messages"))
}

/// The role of a message.
pub(super) fn role(message: &Value) -> Result<&str> {
    let role = message.get("role").and_then(Value::as_str);
    role.filter(|role| !role.is_empty())
        .ok_or_else(|| invalid("there is no role"))
}

pub(super) fn invalid(reason: impl Into<String>) -> Error {
    Error::InvalidMessage {
        reason: reason.into(),
    }
}

pub(super) fn at_place(what: &str, at: usize, error: &Error) -> Error {
    let reason = match error {
        Error::InvalidMessage { reason } => reason.clone(),
        other => other.to_string(),
    };
    invalid(format!("{what} {}: {reason}", at + 1))
}
