//! Kimi Code's sessions: what stands beside the records of an agent.

use std::fs;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use serde_json::Value;
use sessionlog::{Format, Transcript};

use super::LONGEST;
use crate::failure::{Failure, Result};

/// Before the address of a file in the directory of an agent.
const BLOB: &str = "\"url\":\"blobref:";

/// The files of records in a directory of a session, of its main agent first; `None`, if it has
/// none. Links are not followed.
pub(super) fn wires(dir: &Path) -> Option<Vec<PathBuf>> {
    let agents = dir.join("agents");
    if !is_file(&dir.join("state.json")) || !is_dir(&agents) {
        return None;
    }
    let entries = fs::read_dir(agents).ok()?.filter_map(std::io::Result::ok);
    let agents = entries
        .map(|entry| entry.path())
        .filter(|agent| is_dir(agent));
    let wires = agents.map(|agent| agent.join("wire.jsonl"));
    let mut wires: Vec<_> = wires.filter(|wire| is_file(wire)).collect();
    wires.sort_by_key(|wire| (agent(wire) != Some("main"), wire.clone()));
    (!wires.is_empty()).then_some(wires)
}

/// Returns true for a directory that is no link.
fn is_dir(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|entry| entry.is_dir())
}

/// Returns true for a regular file that is no link.
fn is_file(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|entry| entry.is_file())
}

/// Puts the pictures of the files beside it into the text of records. Returns `None` without any.
///
/// # Errors
/// It would be longer than a conversation may be.
pub(super) fn with_pictures(text: &str, path: &Path) -> Result<Option<String>> {
    let blobs = path.with_file_name("blobs");
    if !text.contains(BLOB) || !is_dir(&blobs) {
        return Ok(None);
    }
    let too_long = || Failure::new(format!("{}: over 1 GiB with its pictures", path.display()));
    let mut whole = String::with_capacity(text.len());
    let mut pieces = text.split(BLOB);
    whole.push_str(pieces.next().unwrap_or_default());
    for piece in pieces {
        // TYPE;HASH" and what follows.
        let address = piece.split_once('"').map_or(piece, |(address, _)| address);
        let blob = address.split_once(';').and_then(|(kind, hash)| {
            let is_name = !hash.is_empty() && hash.bytes().all(|b| b.is_ascii_alphanumeric());
            let blob = blobs.join(hash);
            (is_name && is_file(&blob)).then_some((kind, blob))
        });
        let room = LONGEST.saturating_sub(whole.len() + piece.len()) as u64;
        let found = match blob {
            None => None,
            Some((_, blob)) if fs::metadata(&blob).is_ok_and(|blob| blob.len() > room) => {
                return Err(too_long());
            }
            Some((kind, blob)) => fs::read(blob).ok().map(|bytes| (kind, base64(&bytes))),
        };
        if let Some((kind, data)) = found {
            for text in [
                "\"url\":\"data:",
                kind,
                ";base64,",
                &data,
                &piece[address.len()..],
            ] {
                whole.push_str(text);
            }
        } else {
            whole.push_str(BLOB);
            whole.push_str(piece);
        }
        if whole.len() > LONGEST {
            return Err(too_long());
        }
    }
    Ok(Some(whole))
}

/// The content of a picture's file in base64. The first version of Kimi Code writes that, the
/// second the bytes themselves.
fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let is_letter = |byte: &u8| LETTERS.contains(byte) || *byte == b'=';
    let text = bytes.trim_ascii();
    if text.iter().all(is_letter) {
        return String::from_utf8_lossy(text).into_owned();
    }
    let mut encoded = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for three in bytes.chunks(3) {
        let byte = |n: usize| usize::from(three.get(n).copied().unwrap_or_default());
        let bits = (byte(0) << 16) | (byte(1) << 8) | byte(2);
        for n in 0..4 {
            let letter = LETTERS[(bits >> (18 - 6 * n)) & 63];
            encoded.push(if n > three.len() { '=' } else { letter.into() });
        }
    }
    encoded
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
    if is_dir(&session.join("trees")) {
        let what = "all since Kimi Code moved this session to trees/, which is not read";
        transcript.skipped.push((what.into(), 1));
    }
    let state = session.join("state.json");
    let state = is_file(&state).then(|| fs::read(state).unwrap_or_default());
    let state = state.unwrap_or_default();
    let state: Value = serde_json::from_slice(&state).unwrap_or_default();
    let title = state["title"].as_str().filter(|title| !title.is_empty());
    transcript.title = title.map(String::from);
    transcript.created = time(&state["createdAt"]).or(transcript.created.take());
    transcript.updated = time(&state["updatedAt"]).or(transcript.updated.take());
}

/// Returns the name of the agent of a file of records.
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
