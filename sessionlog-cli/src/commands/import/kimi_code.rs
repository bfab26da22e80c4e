//! Kimi Code's sessions: what stands beside the records of an agent.

use std::fs;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use serde_json::Value;
use sessionlog::{Format, Transcript};

/// Before the address of a file in the directory of an agent.
const BLOB: &str = "\"url\":\"blobref:";

/// The files of records in a directory of a session, of its main agent first; `None`, if it is
/// none.
pub(super) fn wires(dir: &Path) -> Option<Vec<PathBuf>> {
    let agents = dir.join("agents");
    if !dir.join("state.json").is_file() || !agents.is_dir() {
        return None;
    }
    let entries = fs::read_dir(agents).ok()?.filter_map(Result::ok);
    let wires = entries.map(|entry| entry.path().join("wire.jsonl"));
    let mut wires: Vec<_> = wires.filter(|wire| wire.is_file()).collect();
    wires.sort_by_key(|wire| (agent(wire) != Some("main"), wire.clone()));
    Some(wires)
}

/// The text of records with the pictures whose files are beside it.
pub(super) fn with_pictures(text: String, path: &Path) -> String {
    let blobs = path.with_file_name("blobs");
    if !text.contains(BLOB) || !blobs.is_dir() {
        return text;
    }
    let mut whole = String::with_capacity(text.len());
    let mut pieces = text.split(BLOB);
    whole.push_str(pieces.next().unwrap_or_default());
    for piece in pieces {
        // TYPE;HASH" and what follows.
        let address = piece.split_once('"').map_or(piece, |(address, _)| address);
        let found = address.split_once(';').and_then(|(kind, hash)| {
            let is_name = !hash.is_empty() && hash.bytes().all(|b| b.is_ascii_alphanumeric());
            let data = is_name.then(|| fs::read_to_string(blobs.join(hash)).ok())??;
            let is_base64 = |b: u8| b.is_ascii_alphanumeric() || b"+/=".contains(&b);
            let data = data.trim();
            data.bytes()
                .all(is_base64)
                .then(|| format!("data:{kind};base64,{data}"))
        });
        if let Some(data) = found {
            whole.push_str("\"url\":\"");
            whole.push_str(&data);
            whole.push_str(&piece[address.len()..]);
        } else {
            whole.push_str(BLOB);
            whole.push_str(piece);
        }
    }
    whole
}

/// Adds what the place of a file says of its conversation: the id, and of that of the main
/// agent the title and the times.
pub(super) fn complete(transcript: &mut Transcript, path: &Path) {
    if transcript.format != Format::KimiCode {
        return;
    }
    let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let Some((session, agent)) = session(&path).zip(agent(&path)) else {
        return;
    };
    let Some(id) = session.file_name().and_then(|name| name.to_str()) else {
        return;
    };
    if agent != "main" {
        transcript.id = Some(format!("{id}:agent:{agent}"));
        return;
    }
    transcript.id = Some(id.to_owned());
    let state = fs::read(session.join("state.json")).unwrap_or_default();
    let state: Value = serde_json::from_slice(&state).unwrap_or_default();
    let title = state["title"].as_str().filter(|title| !title.is_empty());
    transcript.title = title.map(String::from);
    transcript.created = time(&state["createdAt"]).or(transcript.created.take());
    transcript.updated = time(&state["updatedAt"]).or(transcript.updated.take());
}

/// The name of the agent whose records a file holds.
fn agent(path: &Path) -> Option<&str> {
    path.parent()?.file_name()?.to_str()
}

/// The directory of its session.
fn session(path: &Path) -> Option<&Path> {
    let agents = path.parent()?.parent()?;
    agents.ends_with("agents").then(|| agents.parent())?
}

/// A time of its first or its second version.
fn time(value: &Value) -> Option<String> {
    let time = match value {
        Value::Number(number) => Timestamp::from_millisecond(number.as_i64()?).ok()?,
        Value::String(text) => text.parse().ok()?,
        _ => return None,
    };
    Some(time.to_string())
}
