//! Finds the parts of a text that are ours, and those of others.

use std::collections::HashSet;
use std::io;
use std::ops::Range;

use memchr::memchr;
use sessionlog_core::session_file::{self, Decoded, Kind};

use super::super::bytes::Bytes;

/// True if these are our bytes, or zeros: a power loss leaves zeros for blocks that did not reach
/// the disk.
pub(in crate::engine::recovery) fn arrived(found: &[u8], ours: &[u8]) -> bool {
    let same = |(&found, &ours): (&u8, &u8)| found == ours || found == 0;
    found.iter().zip(ours).all(same)
}

/// Returns the number of our lines that stand whole in their place, and the offset at which the
/// lines of others begin, if there are any. `more` says that the file is longer than ours.
pub(super) fn walk(found: &[u8], ours: &[u8], more: bool) -> (usize, Option<usize>) {
    let mut whole = 0;
    let mut at = 0;
    while at < ours.len() && at < found.len() {
        let end = memchr(b'\n', &ours[at..]).map_or(ours.len(), |lf| at + lf + 1);
        let line = &ours[at..end];
        let there = &found[at..end.min(found.len())];
        if there == line {
            whole += 1;
        } else if !arrived(there, line) && !is_damaged(there, line) {
            return (whole, Some(at + seam(&found[at..], line)));
        }
        at = end;
    }
    (whole, more.then_some(ours.len()))
}

/// Returns true if lines that were synced do not decode: a program that edits a file leaves none.
pub(super) fn is_damaged_before(log: &Bytes, base: u64) -> io::Result<bool> {
    let mut damaged = false;
    let synced = log.clone().cut(base);
    synced.for_each_line(|raw| {
        let line = without_zeros(raw.text);
        let first_lost = raw.begin == 0 && line.is_empty();
        damaged = damaged || first_lost || session_file::classify(line) == Kind::Corrupt;
    })?;
    Ok(damaged)
}

/// Returns a line without the zeros that a power loss left of the one before or after it.
fn without_zeros(mut line: &[u8]) -> &[u8] {
    while let [0, rest @ ..] | [rest @ .., 0] = line {
        line = rest;
    }
    line
}

/// True if this is our line with damage in it, and no other program's line.
fn is_damaged(there: &[u8], line: &[u8]) -> bool {
    let ends = |bytes: &[u8]| memchr(b'\n', bytes).is_some_and(|lf| lf + 1 == bytes.len());
    there.len() == line.len()
        && ends(there)
        && session_file::classify(&there[..there.len() - 1]) == Kind::Corrupt
}

/// Returns the offset in a line at which the text of others begins, if they wrote after the part of
/// ours that a crash had left.
fn seam(found: &[u8], ours: &[u8]) -> usize {
    let line = &found[..memchr(b'\n', found).unwrap_or(found.len())];
    let decodes = |at: usize| session_file::classify(&line[at..]) != Kind::Corrupt;
    let same = |(found, ours): (&u8, &u8)| found == ours || *found == 0;
    let common = line.iter().zip(ours).take_while(|pair| same(*pair)).count();
    let mut starts = (0..=common.min(line.len())).filter(|&at| line.get(at) == Some(&b'{'));
    starts.find(|&at| decodes(at)).unwrap_or(0)
}

/// Returns true if lines of others, from an offset on, are among ours, unchanged or edited: then
/// the file was written anew.
///
/// # Errors
/// As the operating system reports them.
pub(super) fn shares(log: &Bytes, from: u64, ours: &Bytes) -> io::Result<bool> {
    let mut fewer = Vec::new();
    // The shorter part is held in memory.
    if log.size() - from <= ours.size() {
        log.read(from, (log.size() - from) as usize, &mut fewer)?;
        let others = LineMarks::of(&fewer);
        return tells(ours, 0..ours.size(), |line| others.tell(line));
    }
    ours.read(0, ours.size() as usize, &mut fewer)?;
    let ours = LineMarks::of(&fewer);
    tells(log, from..log.size(), |line| ours.tell(line))
}

/// The marks by which a line is recognized.
pub(super) struct LineMarks<'a> {
    pub(super) lines: HashSet<&'a [u8]>,
    /// The times of messages: a program that edits a message leaves its time alone.
    times: HashSet<String>,
}

impl<'a> LineMarks<'a> {
    pub(super) fn of(bytes: &'a [u8]) -> Self {
        let lines = session_file::lines(bytes).map(|(_, line)| line);
        let lines: HashSet<_> = lines.filter(|line| !line.is_empty()).collect();
        Self {
            times: lines.iter().filter_map(|line| time_of(line)).collect(),
            lines,
        }
    }

    /// True if this is one of the lines, or was before an edit.
    pub(super) fn tell(&self, line: &[u8]) -> bool {
        let is_timed = || time_of(line).is_some_and(|time| self.times.contains(&time));
        !line.is_empty() && (self.lines.contains(line) || is_timed())
    }
}

fn time_of(line: &[u8]) -> Option<String> {
    match session_file::decode(line) {
        Decoded::Message(message) => message.created_at().map(str::to_owned),
        _ => None,
    }
}

/// Returns true if one of the lines that begin in `range` satisfies `is_it`.
pub(super) fn tells(
    log: &Bytes,
    range: Range<u64>,
    is_it: impl Fn(&[u8]) -> bool,
) -> io::Result<bool> {
    let mut found = false;
    log.for_each_line(|raw| {
        found = found || (range.contains(&raw.begin) && is_it(raw.text));
    })?;
    Ok(found)
}

#[cfg(test)]
mod tests;
