//! One operation on a context, against what the reference did.
//!
//! Where a rule makes a difference, the rule is checked, and then the files are
//! made what the reference left: the steps that follow are compared again with
//! what was recorded.

use serde_json::{Value, json};

use crate::conversation::{Conversation, hash, listing, plain};
use crate::model::Tree;
use crate::report::{Report, same};
use crate::rules::Rule;

/// A context between two recorded steps.
pub(crate) struct Steps {
    pub(crate) conversation: Conversation,
    /// How often the reference rounded down since its last token count.
    roundings: i64,
    /// Whether the file was changed behind the context's back.
    foreign: bool,
    rules: Vec<Rule>,
}

impl Steps {
    pub(crate) fn new(conversation: Conversation) -> Self {
        Self {
            conversation,
            roundings: 1,
            foreign: false,
            rules: Vec::new(),
        }
    }

    /// Runs a step and compares all that was recorded of it.
    pub(crate) fn step(&mut self, step: &Value, report: &mut Report) -> Result<(), String> {
        self.rules.clear();
        let op = step["op"].as_str().unwrap_or("");
        let before = self.conversation.tree()?;
        let state_before = self.conversation.state()?;
        let outcome = self.conversation.apply(op, &step["args"]);
        match op {
            "append" | "append_batch" | "checkpoint" => self.roundings += 1,
            "usage" | "clear" => self.roundings = 0,
            "reopen" => (self.roundings, self.foreign) = (1, false),
            "revert_to" if outcome.is_ok() => (self.roundings, self.foreign) = (1, false),
            "raw_append" | "touch" | "unlink" => self.foreign = true,
            _ => {}
        }
        if !self.foreign && !self.conversation.bytes().is_empty() {
            same(&self.conversation.state()?, &self.conversation.seen_anew()?)
                .map_err(|why| format!("a new context differs: {why}"))?;
        }
        if !self.deviates(op, step, &before, &state_before, &outcome)? {
            same_outcome(step, &outcome)?;
            self.same_files(&step["files"], op, &before)?;
        }
        let (mut expected, got) = (plain(&step["state"]), self.conversation.state()?);
        if op == "system_prompt" && !step["error"].is_null() {
            expected["system_prompt"] = step["args"]["prompt"].clone();
        }
        self.same_state(&expected, &got)?;
        self.note(report);
        Ok(())
    }

    /// Compares what a new context says with what was recorded.
    pub(crate) fn reopened(&self, expected: &Value) -> Result<(), String> {
        same(&plain(&expected["state"]), &self.conversation.seen_anew()?)
            .map_err(|why| format!("reopened: {why}"))
    }

    /// The state as recorded, but that the estimate is rounded down once.
    fn same_state(&mut self, expected: &Value, got: &Value) -> Result<(), String> {
        let pending = |state: &Value| state["token_count_with_pending"].as_i64().unwrap_or(0);
        let more = pending(got) - pending(expected);
        let mut expected = expected.clone();
        if more > 0 && more * 4 <= self.roundings * 3 {
            self.rules.push(Rule::Estimate);
            expected["token_count_with_pending"] = got["token_count_with_pending"].clone();
        }
        same(&expected, got).map_err(|why| format!("state: {why}"))
    }

    fn same_files(&mut self, recorded: &Value, op: &str, before: &Tree) -> Result<(), String> {
        let tree = self.conversation.tree()?;
        let got = listing(&tree);
        let Err(why) = same(&files(recorded), &got) else {
            return Ok(());
        };
        let name = self.conversation.file().to_owned();
        let (old, new) = (before.get(&name), tree.get(&name));
        let old = old.map_or(&[][..], Vec::as_slice);
        let expected = recorded[&name]["sha256"].as_str().unwrap_or("");
        let added = new
            .and_then(|new| new.strip_prefix(old))
            .ok_or(why.clone())?;
        let torn = !matches!(old.last(), None | Some(b'\n' | b'\r'));
        let line = if torn {
            added.strip_prefix(b"\n").ok_or(why.clone())?
        } else {
            added
        };
        // A line of its own where the reference glues it to a torn one, or the
        // prompt behind the others where it puts it in front.
        let glued = [old, line].concat();
        let in_front = [line, &with_line_feeds(old)].concat();
        let (rule, reference) = if torn && hash(&glued) == expected {
            (Rule::FreshLine, glued)
        } else if op == "system_prompt" && holds_prompt(old) && hash(&in_front) == expected {
            (Rule::LastPrompt, in_front)
        } else {
            return Err(why);
        };
        self.rules.push(rule);
        self.foreign = true;
        self.conversation.put(&name, &reference)?;
        same(&files(recorded), &listing(&self.conversation.tree()?))
    }

    /// Whether we succeed where the reference fails, or the other way round, as
    /// a rule has it.
    fn deviates(
        &mut self,
        op: &str,
        step: &Value,
        before: &Tree,
        state_before: &Value,
        outcome: &Result<Value, String>,
    ) -> Result<bool, String> {
        let recorded_error = !step["error"].is_null();
        let name = self.conversation.file().to_owned();
        let old = before.get(&name).map_or(&[][..], Vec::as_slice);
        match (op, outcome) {
            ("revert_to", Err(_)) if !recorded_error => {
                let id = step["args"]["checkpoint_id"].as_i64().unwrap_or(0);
                if holds_checkpoint(old, id) {
                    return Ok(false);
                }
                self.unchanged(before, state_before)?;
                self.rules.push(Rule::RevertTarget);
                self.revert_as_recorded(old, &step["files"], before)?;
                Ok(true)
            }
            ("clear", Ok(_)) if recorded_error && !before.contains_key(&name) => {
                same(&listing(before), &listing(&self.conversation.tree()?))?;
                self.rules.push(Rule::NothingCreated);
                for new in new_names(&step["files"], before) {
                    self.conversation.put(&new, b"")?;
                }
                same(&files(&step["files"]), &listing(&self.conversation.tree()?))?;
                Ok(true)
            }
            ("system_prompt", Ok(_)) if recorded_error && std::str::from_utf8(old).is_err() => {
                let now = self.conversation.bytes();
                if !now.starts_with(old) && !now.ends_with(old) {
                    return Err(String::from("the prompt took lines along"));
                }
                self.rules.push(Rule::LastPrompt);
                self.foreign = true;
                for new in new_names(&step["files"], before) {
                    self.conversation.put(&new, b"")?;
                }
                self.conversation.put(&name, old)?;
                // The reference's new prompt is in its memory only, as ours.
                Ok(true)
            }
            _ => Ok(false),
        }
    }

    fn unchanged(&self, before: &Tree, state: &Value) -> Result<(), String> {
        same(&listing(before), &listing(&self.conversation.tree()?))?;
        same(state, &self.conversation.state()?)
    }

    /// Does what the reference did: sets the file aside, and keeps all of it
    /// that counts.
    fn revert_as_recorded(
        &mut self,
        old: &[u8],
        recorded: &Value,
        before: &Tree,
    ) -> Result<(), String> {
        for new in new_names(recorded, before) {
            self.conversation.put(&new, old)?;
        }
        let text = String::from_utf8_lossy(old);
        let kept: String = text
            .lines()
            .filter(|line| counts(line))
            .flat_map(|line| [line, "\n"])
            .collect();
        let name = self.conversation.file().to_owned();
        self.conversation.put(&name, kept.as_bytes())?;
        same(&files(recorded), &listing(&self.conversation.tree()?))?;
        self.conversation.apply("reopen", &Value::Null).map(drop)
    }

    fn note(&self, report: &mut Report) {
        for rule in &self.rules {
            report.by_rule[*rule as usize] += 1;
        }
        if !self.rules.is_empty() {
            report.deviation = Some(format!("by rules {:?}", self.rules));
        }
    }
}

/// Whether a step succeeds where it did, with the recorded result.
fn same_outcome(step: &Value, outcome: &Result<Value, String>) -> Result<(), String> {
    match outcome {
        Ok(result) => same(&json!([null, step["result"]]), &json!([null, result]))?,
        Err(_) if !step["error"].is_null() => return Ok(()),
        Err(error) => return Err(format!("failed: {error}")),
    }
    same(&step["error"], &Value::Null)
}

/// Recorded files: directories have neither size nor hash.
fn files(recorded: &Value) -> Value {
    let entries = recorded.as_object().into_iter().flatten();
    let entry = |(name, entry): (&String, &Value)| {
        let entry = if name.ends_with('/') {
            Value::Null
        } else {
            entry.clone()
        };
        (name.clone(), entry)
    };
    Value::Object(entries.map(entry).collect())
}

fn new_names(recorded: &Value, before: &Tree) -> Vec<String> {
    let names = recorded
        .as_object()
        .into_iter()
        .flatten()
        .map(|(name, _)| name);
    names
        .filter(|name| !before.contains_key(*name))
        .cloned()
        .collect()
}

fn with_line_feeds(bytes: &[u8]) -> Vec<u8> {
    let text = String::from_utf8_lossy(bytes);
    text.replace("\r\n", "\n").replace('\r', "\n").into_bytes()
}

fn records(file: &[u8]) -> Vec<Value> {
    let file = with_line_feeds(file);
    file.split(|byte| *byte == b'\n')
        .filter_map(|line| serde_json::from_slice(line).ok())
        .collect()
}

fn holds_prompt(file: &[u8]) -> bool {
    let file = file.strip_prefix("\u{feff}".as_bytes()).unwrap_or(file);
    records(file)
        .iter()
        .any(|record| record["role"] == "_system_prompt" && record["content"].is_string())
}

fn holds_checkpoint(file: &[u8], id: i64) -> bool {
    let id_of = |record: &Value| {
        record["id"]
            .as_i64()
            .or(record["id"].as_bool().map(i64::from))
    };
    records(file)
        .iter()
        .any(|record| record["role"] == "_checkpoint" && id_of(record) == Some(id))
}

/// Whether the reference keeps a line in a revert. What this gets wrong, the
/// recorded hash finds.
fn counts(line: &str) -> bool {
    let Ok(record) = serde_json::from_str::<Value>(line) else {
        return false;
    };
    match record["role"].as_str() {
        Some("_checkpoint") => record["id"].is_i64() || record["id"].is_boolean(),
        Some("_usage") => record["token_count"].is_i64() || record["token_count"].is_boolean(),
        Some("_system_prompt") => record["content"].is_string(),
        _ => sessionlog::Message::from_kimi_json(line.as_bytes()).is_ok(),
    }
}
