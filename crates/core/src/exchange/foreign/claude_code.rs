//! Claude Code: `projects/<directory>/<session>.jsonl`, a record a line.
//!
//! A message of the model is written block by block, each with the id of the message; the blocks
//! become one message again. Messages of a subagent (`isSidechain`) are a separate conversation.
//! The message that a compaction left stays in its place, with its field `isCompactSummary`.

use std::collections::{HashMap, HashSet};

use serde_json::{Value, json};

use super::super::anthropic;
use super::super::format::Format;
use super::super::reading::{at_place, invalid};
use super::transcript::{Transcript, named, records, time_of};
use crate::error::Result;

pub(super) fn read(text: &str, transcript: &mut Transcript) -> Result<()> {
    let mut main = Chain::default();
    let mut sides: Vec<Chain> = Vec::new();
    // The side conversation that each of its records belongs to.
    let mut side_of: HashMap<String, usize> = HashMap::new();
    let mut seen = HashSet::new();
    for record in records(text) {
        let (at, record) = record?;
        if transcript.id.is_none() && record["sessionId"].is_string() {
            transcript.id = Some(named(&record, "sessionId").into());
        }
        let uuid = named(&record, "uuid").to_owned();
        if !uuid.is_empty() && !seen.insert(uuid.clone()) {
            transcript.skip("a record that was there already");
            continue;
        }
        let chain = if record["isSidechain"] == true {
            let parent = side_of.get(named(&record, "parentUuid")).copied();
            let agent = named(&record, "agentId");
            let known = || {
                sides
                    .iter()
                    .position(|side| !agent.is_empty() && side.agent == agent)
            };
            let side = parent.or_else(known).unwrap_or_else(|| {
                sides.push(Chain {
                    agent: agent.into(),
                    ..Chain::default()
                });
                sides.len() - 1
            });
            side_of.insert(uuid, side);
            &mut sides[side]
        } else {
            &mut main
        };
        take(&record, chain, transcript).map_err(|error| at_place("line", at, &error))?;
    }
    main.close()?;
    for side in &mut sides {
        side.close()?;
    }
    // A side in a file of its own: the file has no other conversation, and the id of its session.
    if main.messages.is_empty() && sides.len() == 1 {
        let side = sides.remove(0);
        let session = transcript.id.take().filter(|_| !side.agent.is_empty());
        transcript.id = session.map(|session| format!("{session}:agent:{}", side.agent));
        transcript.messages = side.messages;
        return Ok(());
    }
    transcript.messages = main.messages;
    for (number, side) in sides.into_iter().enumerate() {
        let mut branch = Transcript::new(Format::ClaudeCode);
        branch.id = Some(if side.agent.is_empty() {
            format!("{}", number + 1)
        } else {
            side.agent
        });
        branch.messages = side.messages;
        transcript.branches.push(branch);
    }
    Ok(())
}

fn take(record: &Value, chain: &mut Chain, transcript: &mut Transcript) -> Result<()> {
    match named(record, "type") {
        "user" | "assistant" if record["isApiErrorMessage"] == true => {
            transcript.skip("an error of the API");
        }
        "user" | "assistant" => return chain.take(record),
        "summary" => transcript.title = Some(named(record, "summary").into()),
        "custom-title" => transcript.title = Some(named(record, "customTitle").into()),
        "" => return Err(invalid("there is no type")),
        other if record["message"]["role"].is_string() && other != "progress" => {
            return Err(invalid(format!("a message of the type {other:?}")));
        }
        other => transcript.skip(format!("a record {other:?}")),
    }
    Ok(())
}

/// One conversation of a file.
#[derive(Default)]
struct Chain {
    agent: String,
    messages: Vec<crate::session_file::Message>,
    /// The model's message that is not complete yet.
    open: Option<(Value, Value)>,
}

impl Chain {
    fn take(&mut self, record: &Value) -> Result<()> {
        let message = &record["message"];
        if !message["role"].is_string() {
            return Err(invalid("there is no role"));
        }
        if let Some((open, _)) = &mut self.open {
            let is_same = message["id"].is_string() && message["id"] == open["id"];
            if is_same
                && let (Some(blocks), Some(more)) = (
                    open["content"].as_array_mut(),
                    message["content"].as_array(),
                )
            {
                blocks.extend(more.iter().cloned());
                return Ok(());
            }
        }
        self.close()?;
        self.open = Some((message.clone(), record.clone()));
        // An error in it is reported with its own line.
        anthropic::read_turn(&json!({"role": message["role"], "content": message["content"]}))
            .map(|_| ())
    }

    fn close(&mut self) -> Result<()> {
        let Some((message, record)) = self.open.take() else {
            return Ok(());
        };
        let time = time_of(&record);
        let turn = json!({"role": message["role"], "content": message["content"]});
        for mut read in anthropic::read_turn(&turn)? {
            if let Some(model) = message["model"].as_str() {
                read = read.with_model_name(model);
            }
            if record["isCompactSummary"] == true {
                read = read.with_field("isCompactSummary", Some("true"));
            }
            self.messages.push(read.dated(time.as_deref()));
        }
        Ok(())
    }
}
