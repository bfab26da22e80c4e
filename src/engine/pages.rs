//! Reads a session backwards, with the position of each message.

use std::io;

use memchr::memchr;
use sessionlog_core::position::Position;
use sessionlog_core::session_file;

use crate::Message;
use crate::disk::files::lines::for_each_line_back;
use crate::engine::glance::SessionLines;
use crate::engine::numbering::Place;
use crate::engine::reader::visible;
use crate::engine::snapshot::Snapshot;
use crate::engine::stats::Counters;

/// Some messages of a session that follow each other, oldest first.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Page {
    /// The messages.
    pub messages: Vec<Message>,
    /// The position of each of them.
    pub positions: Vec<Position>,
    /// The position of the first of them: pass it to get the page
    /// [before](crate::SessionSnapshot::before). Without messages, the position asked for.
    pub start: Position,
    /// True if no message comes before them.
    pub is_first: bool,
}

/// The beginning of a line of a session, unchanged; see
/// [`SessionSnapshot::line`](crate::SessionSnapshot::line).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RawLine {
    /// Its first bytes, without the line feed at its end.
    pub bytes: Vec<u8>,
    /// The length of the whole line, bytes.
    pub len: u64,
}

/// Returns the newest `n` visible messages before the line at `end`. A line of the snapshot must
/// begin at `end`, or its lines must end there.
///
/// # Errors
/// As the operating system reports them.
pub(crate) fn before(
    snapshot: &Snapshot,
    end: u64,
    n: usize,
    counters: &Counters,
) -> io::Result<Page> {
    let numbering = snapshot.live.numbering;
    let (mut messages, mut positions) = (Vec::new(), Vec::new());
    let mut is_first = true;
    each_line_back(snapshot, end, &mut |offset, raw| {
        match visible(raw, counters) {
            Some(_) if messages.len() == n => is_first = false,
            Some(message) => {
                messages.push(message);
                positions.push(numbering.position(offset));
            }
            None => {}
        }
        is_first
    })?;
    messages.reverse();
    positions.reverse();
    Ok(Page {
        start: positions
            .first()
            .copied()
            .unwrap_or(numbering.position(end)),
        messages,
        positions,
        is_first,
    })
}

/// Returns true if a line begins or ends at `offset`, which is within the live lines: a last line
/// without LF ends where the next one will begin, except for that LF.
///
/// # Errors
/// As the operating system reports them.
pub(crate) fn is_line(snapshot: &Snapshot, offset: u64) -> io::Result<bool> {
    let live = &snapshot.live;
    if offset == live.start {
        return Ok(true);
    }
    let end = live.end + snapshot.tail_len as u64;
    Ok(offset == end || is_lf(snapshot, offset - 1)? || is_lf(snapshot, offset)?)
}

fn is_lf(snapshot: &Snapshot, offset: u64) -> io::Result<bool> {
    let live = &snapshot.live;
    let mut byte = [0];
    match (offset.checked_sub(live.end), &live.file) {
        (Some(at), _) => byte[0] = live.tail.copy(at as usize..at as usize + 1)[0],
        (None, Some(file)) => file.read_exact_at(&mut byte, offset)?,
        (None, None) => {}
    }
    Ok(byte == *b"\n")
}

/// Returns the line that begins at a position, without its LF; `None` if no live line does.
///
/// # Errors
/// As the operating system reports them.
pub(crate) fn line_at(snapshot: &Snapshot, position: Position) -> io::Result<Option<Vec<u8>>> {
    let live = &snapshot.live;
    let Place::Here(at) = live.numbering.find(position) else {
        return Ok(None);
    };
    let is_live = at >= live.start && at < live.end + snapshot.tail_len as u64;
    if !is_live || at > live.start && !is_lf(snapshot, at - 1)? {
        return Ok(None);
    }
    let mut found = None;
    SessionLines::of_snapshot(snapshot).each(at, &mut |_, raw| {
        found = Some(raw.to_vec());
        false
    })?;
    Ok(found)
}

/// The bytes of a line that are read at a time.
const STEP: u64 = 64 << 10;

/// Returns the first `most` bytes of the line that begins at `at`; `None` if none does.
///
/// # Errors
/// As the operating system reports them.
pub(crate) fn raw_line(snapshot: &Snapshot, at: u64, most: usize) -> io::Result<Option<RawLine>> {
    let live = &snapshot.live;
    let lines = SessionLines::of_snapshot(snapshot);
    let is_first = at == live.start;
    if at >= lines.len() || !is_first && !is_lf(snapshot, at - 1)? {
        return Ok(None);
    }
    // The last line of the file ends with it, also without LF.
    let end = if at < live.end { live.end } else { lines.len() };
    let mut raw = RawLine {
        bytes: Vec::new(),
        len: 0,
    };
    let (mut block, mut from, mut lf) = (Vec::new(), at, None);
    while from < end && lf.is_none() {
        block.resize((end - from).min(STEP) as usize, 0);
        lines.read_exact_at(&mut block, from)?;
        lf = memchr(b'\n', &block);
        let part = &block[..lf.unwrap_or(block.len())];
        let room = most.saturating_sub(raw.bytes.len()).min(part.len());
        raw.bytes.extend_from_slice(&part[..room]);
        raw.len += part.len() as u64;
        from += block.len() as u64;
    }
    Ok(Some(raw))
}

/// Visits the live lines before `end`, newest first, each with its offset, until `visit` returns
/// false.
///
/// # Errors
/// As the operating system reports them.
pub(crate) fn each_line_back(
    snapshot: &Snapshot,
    end: u64,
    visit: &mut dyn FnMut(u64, &[u8]) -> bool,
) -> io::Result<()> {
    let live = &snapshot.live;
    let tail = snapshot.tail();
    let in_tail = end.saturating_sub(live.end).min(tail.len() as u64) as usize;
    let lines: Vec<_> = session_file::lines(&tail[..in_tail]).collect();
    for (at, raw) in lines.into_iter().rev() {
        if !visit(live.end + at as u64, raw) {
            return Ok(());
        }
    }
    match &live.file {
        Some(file) => for_each_line_back(&**file, live.start, end.min(live.end), &mut |raw| {
            visit(raw.begin, raw.text)
        }),
        None => Ok(()),
    }
}
