//! Codex: `sessions/<year>/<month>/<day>/rollout-*.jsonl`, a record a line, whose payload is an
//! item of OpenAI's responses; in older files the items stand alone.
//!
//! Events repeat the texts of items; only an event with a text in no item becomes a message. The
//! text that a compaction left is a user message with the field `isCompactSummary`.

use std::collections::HashSet;

use serde_json::Value;

use super::super::anthropic;
use super::super::reading::{at_place, invalid};
use super::super::responses::ResponsesReader;
use super::transcript::{Transcript, named, records, time_of};
use crate::error::Result;
use crate::session_file::Message;

pub(super) fn read(text: &str, transcript: &mut Transcript) -> Result<()> {
    let records = records(text).collect::<Result<Vec<_>>>()?;
    let said: HashSet<String> = records
        .iter()
        .filter(|(_, record)| record["payload"]["type"] == "message")
        .map(|(_, record)| said(&record["payload"]["content"]))
        .collect();
    let mut reader = ResponsesReader::default();
    for (at, record) in &records {
        take(record, &said, &mut reader, transcript)
            .map_err(|error| at_place("line", *at, &error))?;
    }
    transcript.take_items(reader.end()?);
    Ok(())
}

fn said(content: &Value) -> String {
    anthropic::texts(content).trim().to_owned()
}

fn take(
    record: &Value,
    said: &HashSet<String>,
    reader: &mut ResponsesReader,
    transcript: &mut Transcript,
) -> Result<()> {
    let payload = &record["payload"];
    let time = time_of(record);
    let time = time.as_deref();
    match named(record, "type") {
        "session_meta" => {
            transcript.id = payload["id"].as_str().map(String::from);
        }
        "response_item" => return reader.take(payload, time),
        "compacted" => {
            let summary = Message::user(named(payload, "message"));
            let summary = summary.with_field("isCompactSummary", Some("true"));
            if !summary.text().is_empty() {
                return reader.push(summary.dated(time));
            }
        }
        "event_msg" => {
            let text = named(payload, "message");
            let message = match named(payload, "type") {
                "agent_message" => Message::assistant(text),
                "user_message" => Message::user(text),
                other => {
                    transcript.skip(format!("an event {other:?}"));
                    return Ok(());
                }
            };
            if text.is_empty() || said.contains(text.trim()) {
                transcript.skip("an event that an item repeats");
            } else {
                return reader.push(message.dated(time));
            }
        }
        "" if record["id"].is_string() && record["timestamp"].is_string() => {
            transcript.id = record["id"].as_str().map(String::from);
        }
        "" if record["record_type"].is_string() => transcript.skip("a record of the state"),
        "" => return Err(invalid("there is no type")),
        other if payload.is_object() => transcript.skip(format!("a record {other:?}")),
        _ => return reader.take(record, time),
    }
    Ok(())
}
