//! The traces of `kimi/` on a session of a store: the same conversation, in a
//! file of another format.

use serde_json::{Value, json};
use sessionlog::Store;

use crate::conversation::{message, plain, state};
use crate::report::{Report, same};
use crate::rules::Rule;
use crate::subject::{list, text};

const KEY: &str = "telegram:1";

/// Replays a trace that changes the file only through the context.
pub(crate) fn replay(name: &str, trace: &Value, report: &mut Report) -> Result<(), String> {
    let steps = list(&trace["steps"]);
    let foreign = |step: &Value| matches!(step["op"].as_str(), Some("raw_append" | "unlink"));
    if steps.iter().any(foreign) {
        return Ok(());
    }
    let dir = tempfile::tempdir().map_err(text)?;
    let mut session = Session {
        store: Some(Store::open(dir.path()).map_err(text)?),
        roundings: 0,
        late_prompt: false,
        lines: false,
    };
    for (i, step) in steps.iter().enumerate() {
        let outcome = session.step(dir.path(), step, report);
        report.check(
            &format!("{name} in a store, step {i} {}", step["op"]),
            outcome,
        );
    }
    Ok(())
}

/// A session between two steps.
struct Session {
    store: Option<Store>,
    /// How often the reference rounded its estimate down.
    roundings: i64,
    /// Whether a prompt was written behind other lines; the reference puts it in
    /// front, where a revert spares it and an older one overrules it.
    late_prompt: bool,
    /// Whether the session has any.
    lines: bool,
}

impl Session {
    fn step(
        &mut self,
        dir: &std::path::Path,
        step: &Value,
        report: &mut Report,
    ) -> Result<(), String> {
        let op = step["op"].as_str().unwrap_or("");
        if op == "reopen" {
            self.store
                .take()
                .map_or(Ok(()), Store::close)
                .map_err(text)?;
            self.store = Some(Store::open(dir).map_err(text)?);
        }
        let outcome = self.apply(op, &step["args"]);
        match &outcome {
            Ok(result) if op == "reopen" => same(&step["result"], result)?,
            // A session's context holds nothing that a restore could double.
            _ if op == "restore_again" => {}
            Ok(_) if !step["error"].is_null() && op != "clear" => {
                return Err(String::from("succeeded"));
            }
            Err(_) if !step["error"].is_null() => {}
            Err(_) if op == "revert_to" => note(Rule::RevertTarget, report),
            Err(error) => return Err(format!("failed: {error}")),
            Ok(_) => {}
        }
        self.follow(op, outcome.is_ok());
        let context = self.store.as_ref().ok_or("closed")?.handle().context(KEY);
        let mut expected = comparable(plain(&step["state"]));
        let got = comparable(state(&context)?);
        let pending = |state: &Value| state["token_count_with_pending"].as_i64().unwrap_or(0);
        let more = pending(&got) - pending(&expected);
        if more > 0 && more * 4 <= self.roundings * 3 {
            note(Rule::Estimate, report);
            expected["token_count_with_pending"] = got["token_count_with_pending"].clone();
        }
        if self.late_prompt && expected["system_prompt"] != got["system_prompt"] {
            note(Rule::LastPrompt, report);
            expected["system_prompt"] = got["system_prompt"].clone();
        }
        same(&expected, &got)
    }

    fn apply(&self, op: &str, args: &Value) -> Result<Value, String> {
        let context = self.store.as_ref().ok_or("closed")?.handle().context(KEY);
        match op {
            "append" => {
                let message = message(&args["message"])?;
                context.append_message(message).wait().map_err(text)?;
            }
            "append_batch" => {
                let messages = list(&args["messages"]).iter().map(message);
                let messages = messages.collect::<Result<Vec<_>, _>>()?;
                context.append_message(messages).wait().map_err(text)?;
            }
            "checkpoint" => {
                let told = args["add_user_message"] == true;
                context.checkpoint(told).wait().map_err(text)?;
            }
            "usage" => {
                let count = args["token_count"].as_i64().unwrap_or(0);
                context.update_token_count(count).wait().map_err(text)?;
            }
            "system_prompt" => {
                let prompt = args["prompt"].as_str().unwrap_or("");
                context.write_system_prompt(prompt).wait().map_err(text)?;
            }
            "revert_to" => {
                let id = args["checkpoint_id"].as_i64().unwrap_or(0);
                context.revert_to(id).wait().map_err(text)?;
            }
            "clear" => context.clear().wait().map_err(text)?,
            "reopen" => return context.restore().wait().map(Value::from).map_err(text),
            _ => {}
        }
        Ok(Value::Null)
    }

    fn follow(&mut self, op: &str, done: bool) {
        match op {
            "append" | "append_batch" | "checkpoint" => {
                self.roundings += 1;
                self.lines = true;
            }
            "usage" => (self.roundings, self.lines) = (0, true),
            "system_prompt" => {
                self.late_prompt |= self.lines;
                self.lines = true;
            }
            "clear" => (self.roundings, self.late_prompt, self.lines) = (0, false, false),
            "revert_to" if done => self.roundings = 1,
            _ => {}
        }
    }
}

/// What PicoClaw's format does not tell apart: no arguments and empty ones, no
/// calls and an empty list of them, no call id and an empty one.
fn comparable(mut state: Value) -> Value {
    for message in state["history"].as_array_mut().into_iter().flatten() {
        for call in message["tool_calls"].as_array_mut().into_iter().flatten() {
            if call["function"]["arguments"] == "" {
                call["function"]
                    .as_object_mut()
                    .map(|function| function.remove("arguments"));
            }
        }
        let empty = |value: &Value| {
            matches!(value, Value::Null) || *value == json!([]) || *value == json!("")
        };
        if let Some(message) = message.as_object_mut() {
            message.retain(|name, value| !(name.starts_with("tool_call") && empty(value)));
        }
    }
    state
}

fn note(rule: Rule, report: &mut Report) {
    report.by_rule[rule as usize] += 1;
    report.deviation = Some(format!("by rule {}", rule as usize));
}
