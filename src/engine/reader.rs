//! Reading a session: straight from its file, on the reader's own thread.

use std::io;
use std::sync::atomic::Ordering;

use crate::Message;
use crate::disk::files::lines::for_each_line;
use crate::disk::files::lines::for_each_line_back;
use crate::disk::session_file::{self, Carried, Decoded};
use crate::engine::snapshot::{Looked, Snapshot};
use crate::engine::stats::Counters;

/// Every visible message of a snapshot, oldest first.
///
/// # Errors
/// As the operating system reports them.
pub(crate) fn history(snapshot: &Snapshot, counters: &Counters) -> io::Result<Vec<Message>> {
    let mut messages = Vec::new();
    let mut take = |raw: &[u8]| {
        messages.extend(visible(raw, counters));
        Ok(())
    };
    each_line(snapshot, &mut take)?;
    Ok(messages)
}

/// The newest `n` visible messages, oldest first. Reads backwards: a long
/// session costs no more than a short one.
///
/// # Errors
/// As the operating system reports them.
pub(crate) fn tail(snapshot: &Snapshot, n: usize, counters: &Counters) -> io::Result<Vec<Message>> {
    let newest = newest(snapshot, n, counters);
    completed(snapshot, newest, n, counters)
}

/// Of the newest `n` visible messages those in memory, newest first.
pub(crate) fn newest(snapshot: &Snapshot, n: usize, counters: &Counters) -> Vec<Message> {
    let tail = snapshot.tail();
    let lines: Vec<_> = session_file::lines(&tail).collect();
    let lines = lines.into_iter().rev();
    let visible = lines.filter_map(|(_, raw)| visible(raw, counters));
    visible.take(n).collect()
}

/// The newest `n` visible messages, oldest first: `messages` are those in memory.
///
/// # Errors
/// As the operating system reports them.
pub(crate) fn completed(
    snapshot: &Snapshot,
    mut messages: Vec<Message>,
    n: usize,
    counters: &Counters,
) -> io::Result<Vec<Message>> {
    if messages.len() < n
        && let Some(file) = &snapshot.live.file
    {
        let (start, end) = (snapshot.live.start, snapshot.live.end);
        for_each_line_back(&**file, start, end, &mut |raw| {
            messages.extend(visible(raw.text, counters));
            messages.len() < n
        })?;
    }
    messages.reverse();
    Ok(messages)
}

/// The raw lines a copy of the session takes over, each ended by LF: everything
/// live but what every rewrite drops, after the control records among the
/// skipped lines that still count.
///
/// # Errors
/// As the operating system reports them.
pub(crate) fn live_lines(snapshot: &Snapshot) -> io::Result<LiveLines> {
    let mut live = LiveLines::default();
    if let Some(file) = &snapshot.live.file {
        let mut carried = Carried::default();
        let hidden = snapshot.live.start.min(snapshot.live.end);
        for_each_line(&**file, 0, hidden, &mut |raw| {
            carried.note(raw.text);
            Ok(())
        })?;
        carried.into_lines().for_each(|raw| live.take(&raw));
    }
    let mut take = |raw: &[u8]| {
        live.take(raw);
        Ok(())
    };
    each_whole_line(snapshot, &mut take)?;
    Ok(live)
}

/// Every live line as it is, each ended by LF.
///
/// # Errors
/// As the operating system reports them.
pub(crate) fn raw_lines(snapshot: &Snapshot) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    each_whole_line(snapshot, &mut |raw| {
        bytes.extend_from_slice(raw);
        bytes.push(b'\n');
        Ok(())
    })?;
    Ok(bytes)
}

/// Visits the messages at `start` and after, hidden ones included.
///
/// # Errors
/// As the operating system reports them.
pub(crate) fn messages_from(
    looked: &Looked,
    start: u64,
    counters: &Counters,
    visit: &mut dyn FnMut(Message),
) -> io::Result<()> {
    let live = &looked.snapshot.live;
    let mut take = |raw: &[u8]| {
        if let Some(message) = visible(raw, counters) {
            visit(message);
        }
        Ok(())
    };
    if let Some(file) = &live.file
        && start < live.end
    {
        for_each_line(&**file, start, live.end, &mut |raw| take(raw.text))?;
    }
    let tail = looked.snapshot.tail();
    let from = start.saturating_sub(live.end) as usize;
    for (_, raw) in session_file::lines(tail.get(from..).unwrap_or_default()) {
        take(raw)?;
    }
    Ok(())
}

/// Visits every live line, oldest first. Of one that is too long to be read, what stands
/// for it.
///
/// # Errors
/// As the operating system or `take` reports them.
pub(crate) fn each_line(
    snapshot: &Snapshot,
    take: &mut dyn FnMut(&[u8]) -> io::Result<()>,
) -> io::Result<()> {
    let live = &snapshot.live;
    if let Some(file) = &live.file {
        for_each_line(&**file, live.start, live.end, &mut |raw| take(raw.text))?;
    }
    each_tail_line(snapshot, take)
}

/// The same, and lines that are too long to be read are whole.
fn each_whole_line(
    snapshot: &Snapshot,
    take: &mut dyn FnMut(&[u8]) -> io::Result<()>,
) -> io::Result<()> {
    let live = &snapshot.live;
    if let Some(file) = &live.file {
        let mut room = Vec::new();
        for_each_line(&**file, live.start, live.end, &mut |raw| {
            take(raw.whole(&**file, &mut room)?)
        })?;
    }
    each_tail_line(snapshot, take)
}

fn each_tail_line(
    snapshot: &Snapshot,
    take: &mut dyn FnMut(&[u8]) -> io::Result<()>,
) -> io::Result<()> {
    let tail = snapshot.tail();
    for (_, raw) in session_file::lines(&tail) {
        take(raw)?;
    }
    Ok(())
}

/// See [`live_lines`].
#[derive(Debug, Default)]
pub(crate) struct LiveLines {
    pub(crate) bytes: Vec<u8>,
    pub(crate) messages: u32,
}

impl LiveLines {
    fn take(&mut self, raw: &[u8]) {
        use session_file::Kind;
        let kind = session_file::classify(raw);
        if matches!(kind, Kind::Blank | Kind::Transient) {
            return;
        }
        self.bytes.extend_from_slice(raw);
        self.bytes.push(b'\n');
        self.messages += u32::from(kind == Kind::Message);
    }
}

fn visible(raw: &[u8], counters: &Counters) -> Option<Message> {
    match session_file::decode(raw) {
        Decoded::Message(message) => Some(message),
        Decoded::Corrupt(reason) => {
            counters.corrupt_lines.fetch_add(1, Ordering::Relaxed);
            tracing::debug!(reason, bytes = raw.len(), "a line does not decode");
            None
        }
        Decoded::Blank | Decoded::Control(_) | Decoded::Transient(_) => None,
    }
}
