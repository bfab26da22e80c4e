//! A log's lines as PicoClaw reads and writes them.

use serde_json::Value;

use super::{Record, Refused, Sidecar};
use crate::foreign::json::Json;
use crate::foreign::schema::{self, REFERENCE_MESSAGE};

/// The longest line that PicoClaw reads.
const LONGEST: usize = 10_485_759;

/// What PicoClaw shows of a session with these two files.
///
/// # Errors
/// If the sidecar does not decode, or a line is too long.
pub(crate) fn shown(sidecar: Option<&[u8]>, log: Option<&[u8]>) -> Result<Vec<Record>, Refused> {
    let skip = match sidecar {
        Some(bytes) => Sidecar::decode(bytes).ok_or(Refused)?.skip,
        None => 0,
    };
    let lines = raw_lines(log.unwrap_or_default())?;
    let visible = visible(&lines, skip);
    Ok(visible.into_iter().map(|(_, record)| record).collect())
}

/// A log's lines without their ends and without empty ones.
pub(super) fn raw_lines(log: &[u8]) -> Result<Vec<&[u8]>, Refused> {
    let lines = log.split(|byte| *byte == b'\n');
    let lines = lines.map(|line| line.strip_suffix(b"\r").unwrap_or(line));
    let lines: Vec<_> = lines.filter(|line| !line.is_empty()).collect();
    if lines.iter().any(|line| line.len() > LONGEST) {
        return Err(Refused);
    }
    Ok(lines)
}

/// What decodes beyond the first `skip` lines and is not transient, each with the
/// number of its line, counted from 1.
pub(super) fn visible(lines: &[&[u8]], skip: i64) -> Vec<(i64, Record)> {
    let numbered = (1..).zip(lines).filter(|(number, _)| *number > skip);
    let records = numbered.filter_map(|(number, line)| {
        let record = schema::decode(&REFERENCE_MESSAGE, &Json::parse(line)?)?;
        Some((number, record))
    });
    records.filter(|(_, r)| !is_transient(r)).collect()
}

/// A message's line with its end.
pub(super) fn encode(record: &Record) -> Result<Vec<u8>, Refused> {
    let mut line = schema::encode(&REFERENCE_MESSAGE, record).ok_or(Refused)?;
    line.push('\n');
    Ok(line.into_bytes())
}

/// Whether it is reasoning without an answer, which is neither stored nor shown.
pub(super) fn is_transient(record: &Record) -> bool {
    let text = |name: &str| record.get(name).and_then(Value::as_str);
    let blank = |name: &str| text(name).unwrap_or_default().trim().is_empty();
    let parts = ["tool_calls", "media", "attachments"];
    text("role") == Some("assistant")
        && blank("content")
        && !blank("reasoning_content")
        && blank("tool_call_id")
        && !parts.iter().any(|name| record.contains_key(*name))
}
