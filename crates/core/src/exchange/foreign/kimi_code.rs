//! Kimi Code: `sessions/<directory>/<session>/agents/<agent>/wire.jsonl`, a record a line.
//!
//! Records are folded into messages as its replay folds them. A step of the model is one
//! message. What is said while tools run comes after their results; where these never come, before
//! the next step, compaction, undo or clear. What was undone or cleared is left out. The message
//! that a compaction left stands after what it sums up, with the field `isCompactSummary`.

use std::collections::HashSet;

use serde_json::{Map, Value, json};

use super::super::reading::{at_place, invalid};
use super::super::{anthropic, lenient};
use super::transcript::{Transcript, named, records, time_of};
use crate::error::Result;
use crate::session_file::Message;

/// The version of the records up to its first dot.
const MAJOR: &str = "1";

pub(super) fn read(text: &str, transcript: &mut Transcript) -> Result<()> {
    let (text, is_torn) = whole_lines(text);
    if is_torn {
        transcript.skip("a last line that was cut off");
    }
    let mut fold = Fold::default();
    for record in records(text) {
        let (at, record) = record?;
        fold.take(at, &record, transcript)
            .map_err(|error| at_place("line", at, &error))?;
    }
    fold.close();
    for said in fold.said {
        let at = said.at;
        let message = said
            .message()
            .map_err(|error| at_place("line", at, &error))?;
        transcript.messages.extend(message);
    }
    Ok(())
}

/// The text without a last line that a crash cut off, and whether there was one.
fn whole_lines(text: &str) -> (&str, bool) {
    let (before, last) = match text.rfind('\n') {
        Some(end) => text.split_at(end + 1),
        None => ("", text),
    };
    let is_torn = !last.trim().is_empty() && serde_json::from_str::<Value>(last).is_err();
    if is_torn && !before.is_empty() {
        (before, true)
    } else {
        (text, false)
    }
}

/// A conversation on its way from records to messages.
#[derive(Default)]
struct Fold {
    said: Vec<PendingMessage>,
    /// The step that is not complete: its id, and its place in `said`.
    open: Option<(String, usize)>,
    /// Calls without a result.
    pending: HashSet<String>,
    /// Messages that wait for these results.
    deferred: Vec<PendingMessage>,
    /// The model that was asked last.
    model: String,
    /// The places in `said` of the prompts that can be undone, as far as `searched`.
    prompts: Vec<usize>,
    /// The length of `said` up to which `prompts` is complete.
    searched: usize,
}

/// A message that is not complete, or that may be undone.
#[derive(Default)]
struct PendingMessage {
    /// Its line, from 0.
    at: usize,
    role: String,
    parts: Vec<Value>,
    thoughts: Vec<String>,
    calls: Vec<Value>,
    /// Other fields.
    fields: Map<String, Value>,
    /// Where Kimi Code has it from, and its id there.
    origin: Value,
    id: Value,
    time: Option<String>,
}

impl Fold {
    fn take(&mut self, at: usize, record: &Value, transcript: &mut Transcript) -> Result<()> {
        let new = |role: &str| PendingMessage {
            at,
            role: role.into(),
            time: time_of(record),
            ..PendingMessage::default()
        };
        match named(record, "type") {
            "metadata" => {
                let version = named(record, "protocol_version");
                if version.split('.').next() != Some(MAJOR) {
                    return Err(invalid(format!(
                        "records of the version {version:?}; {MAJOR} is known"
                    )));
                }
                transcript.created = transcript.created.take().or_else(|| time_of(record));
            }
            "context.append_message" => {
                let message = &record["message"];
                // Newer ones have what they are made of beside where they are from.
                let (message, more) = if message["message"].is_object() {
                    (&message["message"], &message["meta"])
                } else {
                    (message, message)
                };
                if !message["role"].is_string() {
                    return Err(invalid("there is no role"));
                }
                let mut said = new(named(message, "role"));
                said.origin = more["origin"].clone();
                said.id = [&more["promptId"], &message["id"]]
                    .into_iter()
                    .find(|id| id.is_string())
                    .cloned()
                    .unwrap_or_default();
                said.take_parts(&message["content"], transcript)?;
                for call in message["toolCalls"].as_array().into_iter().flatten() {
                    let function = if call["function"].is_object() {
                        &call["function"]
                    } else {
                        call
                    };
                    let arguments = function["arguments"].as_str().unwrap_or("{}");
                    said.call(named(call, "id"), named(function, "name"), arguments);
                }
                if said.role == "tool" {
                    said.answer(named(message, "toolCallId"), more);
                }
                if named(&said.origin, "kind") == "compaction_summary" {
                    said.fields.insert("isCompactSummary".into(), true.into());
                }
                if self.pending.is_empty() {
                    self.said.push(said);
                } else {
                    self.deferred.push(said);
                }
            }
            "context.append_loop_event" => {
                return self.take_event(new, &record["event"], transcript);
            }
            "context.apply_compaction" => {
                let texts = [&record["summary"], &record["contextSummary"]];
                let text = texts.into_iter().find_map(Value::as_str);
                let text = text.map_or_else(
                    || anthropic::texts(&record["summary"]["content"]),
                    String::from,
                );
                let mut said = new("user");
                said.parts.push(json!({"type": "text", "text": text}));
                said.origin = json!({"kind": "compaction_summary"});
                said.fields.insert("isCompactSummary".into(), true.into());
                self.close();
                self.said.push(said);
            }
            "context.undo" => {
                for _ in 0..self.undo(record["count"].as_u64().unwrap_or_default()) {
                    transcript.skip("a message that was undone");
                }
            }
            "context.clear" => {
                self.close();
                for _ in 0..self.cut(0) {
                    transcript.skip("a message that was cleared");
                }
            }
            // It takes its reminder back.
            "swarm_mode.exit" => {
                self.take_reminder_back();
                transcript.skip("a record \"swarm_mode.exit\"");
            }
            "" => return Err(invalid("there is no type")),
            other => {
                if other == "llm.request" && record["kind"] != "compaction" {
                    named(record, "model").clone_into(&mut self.model);
                }
                transcript.skip(format!("a record {other:?}"));
            }
        }
        Ok(())
    }

    /// Takes in what happens in a step of the model.
    fn take_event(
        &mut self,
        new: impl Fn(&str) -> PendingMessage,
        event: &Value,
        transcript: &mut Transcript,
    ) -> Result<()> {
        let kind = named(event, "type");
        match kind {
            "step.begin" => {
                self.close();
                self.open = Some((named(event, "uuid").into(), self.said.len()));
                self.said.push(new("assistant"));
            }
            // What comes of it afterwards belongs to it.
            "step.end" if matches!(named(event, "finishReason"), "interrupted" | "error") => {}
            "step.end" => self.end_step(),
            "content.part" | "tool.call" => {
                let of = event["stepUuid"].as_str();
                let open = self.open.as_ref();
                let open = open.filter(|(step, _)| of.is_none_or(|of| of == step));
                let Some(&(_, place)) = open else {
                    transcript.skip(format!("a {kind:?} of no step"));
                    return Ok(());
                };
                let step = &mut self.said[place];
                if kind == "content.part" {
                    return step.take_part(&event["part"], transcript);
                }
                let id = named(event, "toolCallId");
                let arguments = event.get("args").map(Value::to_string);
                let arguments = arguments.as_deref().unwrap_or("{}");
                step.call(id, named(event, "name"), arguments);
                self.pending.insert(id.into());
            }
            "tool.result" => {
                let (id, result) = (named(event, "toolCallId"), &event["result"]);
                if !self.pending.remove(id) {
                    transcript.skip("a result without its call");
                    return Ok(());
                }
                let mut said = new("tool");
                said.take_parts(&result["output"], transcript)?;
                said.answer(id, result);
                self.said.push(said);
                if self.pending.is_empty() {
                    self.said.append(&mut self.deferred);
                }
            }
            "" => return Err(invalid("an event without a type")),
            other => transcript.skip(format!("an event {other:?}")),
        }
        Ok(())
    }

    /// Completes the step that is open.
    fn end_step(&mut self) {
        if let Some((_, place)) = self.open.take()
            && !self.model.is_empty()
        {
            let model = self.model.clone().into();
            self.said[place].fields.insert("model_name".into(), model);
        }
        if self.pending.is_empty() {
            self.said.append(&mut self.deferred);
        }
    }

    /// The same, where no results come any more.
    fn close(&mut self) {
        self.pending.clear();
        self.end_step();
    }

    /// Removes the last message if it is the reminder of the mode "swarm".
    fn take_reminder_back(&mut self) {
        let is_its = |said: &mut PendingMessage| said.origin["variant"] == "swarm_mode";
        if !self.deferred.is_empty() {
            self.deferred.pop_if(is_its);
        } else if self.said.last_mut().is_some_and(is_its) {
            self.cut(self.said.len() - 1);
        }
    }

    /// Removes the messages from a place on; how many that is.
    fn cut(&mut self, place: usize) -> usize {
        let many = self.said.drain(place..).count();
        while self.prompts.pop_if(|prompt| *prompt >= place).is_some() {}
        self.searched = self.searched.min(place);
        many
    }

    /// Takes back the last `prompts` of the user and all after the first of them, unless a
    /// compaction is between; how many messages that is.
    fn undo(&mut self, prompts: u64) -> usize {
        self.close();
        for (place, said) in self.said.iter().enumerate().skip(self.searched) {
            if named(&said.origin, "kind") == "compaction_summary" {
                self.prompts.clear();
            } else if said.is_prompt() {
                self.prompts.push(place);
            }
        }
        self.searched = self.said.len();
        let first = usize::try_from(prompts)
            .ok()
            .and_then(|prompts| self.prompts.len().checked_sub(prompts));
        let Some(&prompt) = first.and_then(|first| self.prompts.get(first)) else {
            return 0;
        };
        let id = self.said[prompt].id.clone();
        let is_its = |said: &PendingMessage| id.is_string() && said.origin["ownerPromptId"] == id;
        let before = self.said[..prompt].iter().rev();
        let cut = prompt - before.take_while(|said| is_its(said)).count();
        self.cut(cut)
    }
}

impl PendingMessage {
    /// Returns true if the user wrote it, and it began a turn.
    fn is_prompt(&self) -> bool {
        self.role == "user"
            && match named(&self.origin, "kind") {
                "" | "user" => self.origin["inTurn"] != true,
                "skill_activation" | "plugin_command" => self.origin["trigger"] == "user-slash",
                _ => false,
            }
    }

    fn take_parts(&mut self, content: &Value, transcript: &mut Transcript) -> Result<()> {
        match content {
            Value::String(text) => self.parts.push(json!({"type": "text", "text": text})),
            Value::Array(parts) => {
                for part in parts {
                    self.take_part(part, transcript)?;
                }
            }
            Value::Null => {}
            _ => return Err(invalid("a content that is neither text nor parts")),
        }
        Ok(())
    }

    fn take_part(&mut self, part: &Value, transcript: &mut Transcript) -> Result<()> {
        let kind = named(part, "type");
        match kind {
            "text" => self
                .parts
                .push(json!({"type": "text", "text": part["text"]})),
            "think" if part["encrypted"].is_string() => self.parts.push(json!({
                "type": "think", "think": part["think"], "encrypted": part["encrypted"],
            })),
            "think" => self.thoughts.push(named(part, "think").into()),
            "image_url" | "audio_url" | "video_url" => {
                let places = ["imageUrl", "audioUrl", "videoUrl", kind];
                let place = places.iter().map(|place| &part[*place]);
                let mut media = place.filter(|media| media["url"].is_string());
                let Some(media) = media.next() else {
                    return Err(invalid(format!("a part of the type {kind:?} without url")));
                };
                if named(media, "url").starts_with("blobref:") {
                    transcript.skip("a picture, sound or film whose file is not there");
                    self.parts
                        .push(json!({"type": "text", "text": "[media missing]"}));
                } else {
                    self.parts
                        .push(json!({"type": kind, kind: {"url": media["url"]}}));
                }
            }
            other => return Err(invalid(format!("a part of the type {other:?}"))),
        }
        Ok(())
    }

    fn call(&mut self, id: &str, name: &str, arguments: &str) {
        self.calls.push(json!({
            "id": id,
            "type": "function",
            "function": {"name": name, "arguments": arguments},
        }));
    }

    /// Makes it the result of a call; `more` says how it went.
    fn answer(&mut self, id: &str, more: &Value) {
        self.fields.insert("tool_call_id".into(), id.into());
        if more["isError"] == true {
            self.fields.insert("is_error".into(), true.into());
        }
        // What only the model is told.
        let note = named(more, "note");
        if note.is_empty() {
            return;
        }
        match &mut *self.parts {
            [part] if part["type"] == "text" => {
                part["text"] = format!("{}\n{note}", named(part, "text")).into();
            }
            _ => self.parts.push(json!({"type": "text", "text": note})),
        }
    }

    /// The message, unless it is of the model or the system and says nothing.
    fn message(mut self) -> Result<Option<Message>> {
        let is_blank =
            |part: &Value| part["type"] == "text" && named(part, "text").trim().is_empty();
        let thinks = self
            .thoughts
            .iter()
            .any(|thought| !thought.trim().is_empty());
        if matches!(&*self.role, "assistant" | "system")
            && self.calls.is_empty()
            && !thinks
            && self.parts.iter().all(is_blank)
        {
            return Ok(None);
        }
        let mut message = std::mem::take(&mut self.fields);
        message.insert("role".into(), self.role.into());
        message.insert("content".into(), anthropic::joined(self.parts.into()));
        if !self.calls.is_empty() {
            message.insert("tool_calls".into(), self.calls.into());
        }
        if thinks {
            message.insert("reasoning_content".into(), self.thoughts.join("\n").into());
        }
        let message = lenient::value(&message.into())?;
        Ok(Some(message.dated(self.time.as_deref())))
    }
}
