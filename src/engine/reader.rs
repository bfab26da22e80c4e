//! Reads a session: straight from its file, on the reader's own thread.

use std::io;

use memchr::{memchr, memrchr};
use sessionlog_core::session_file::{self, CarriedControls, Decoded};

use crate::Message;
use crate::disk::files::lines::for_each_line;
use crate::disk::files::lines::for_each_line_back;
use crate::engine::snapshot::{ConversationMoment, LITTLE, Snapshot};
use crate::engine::stats::Counters;

/// Returns every visible message of a snapshot, oldest first.
///
/// # Errors
/// As the operating system reports them.
pub(crate) fn history(snapshot: &Snapshot, counters: &Counters) -> io::Result<Vec<Message>> {
    let live = &snapshot.live;
    let bytes = live.end.saturating_sub(live.start) as usize + snapshot.tail_len;
    let lines = snapshot.meta.count.saturating_sub(snapshot.meta.skip);
    let lines = usize::try_from(lines).unwrap_or(0);
    let mut messages = Vec::with_capacity(lines.min(most_in(bytes)));
    let mut take = |raw: &[u8]| {
        messages.extend(visible(raw, counters));
        Ok(())
    };
    each_line(snapshot, &mut take)?;
    Ok(messages)
}

/// Returns the number of messages for which room is made before `bytes` bytes are read: a list
/// without room for the next message moves all it has, some hundred bytes each. No more than a
/// megabyte, because a sidecar's count may be any number, and a lack of memory would end the
/// process.
fn most_in(bytes: usize) -> usize {
    const SHORTEST: usize = br#"{"role":"","content":""}"#.len();
    (bytes / SHORTEST + 1).min(4096)
}

/// Returns the number of visible messages of a snapshot.
///
/// # Errors
/// As the operating system reports them.
pub(crate) fn count(snapshot: &Snapshot, counters: &Counters) -> io::Result<usize> {
    let mut count = 0;
    each_line(snapshot, &mut |raw| {
        count += usize::from(visible(raw, counters).is_some());
        Ok(())
    })?;
    Ok(count)
}

/// Returns the newest `n` visible messages, oldest first. Reads backwards: a long session costs no
/// more than a short one.
///
/// # Errors
/// As the operating system reports them.
pub(crate) fn tail(snapshot: &Snapshot, n: usize, counters: &Counters) -> io::Result<Vec<Message>> {
    NewestMessages::in_memory(snapshot, n, counters).completed(snapshot, n, counters)
}

/// The newest messages of a snapshot, as far as they were looked for.
pub(crate) struct NewestMessages {
    /// Newest first.
    messages: Vec<Message>,
    /// Offset of the end of the file's lines that were not looked at.
    end: u64,
}

impl NewestMessages {
    /// Returns those of the newest `n` that are among the lines that only the journal holds.
    fn in_memory(snapshot: &Snapshot, n: usize, counters: &Counters) -> Self {
        let mut newest = Self {
            messages: Vec::new(),
            end: snapshot.live.end,
        };
        newest.take(&snapshot.tail(), n, counters);
        newest
    }

    /// Does the same; if they are not enough, adds those in the last [`LITTLE`] bytes of the file
    /// that the operating system has in memory.
    pub(crate) fn at_hand(snapshot: &Snapshot, n: usize, counters: &Counters) -> Self {
        let mut newest = Self::in_memory(snapshot, n, counters);
        let (start, end) = (snapshot.live.start, snapshot.live.end);
        let Some(file) = snapshot
            .live
            .file
            .as_ref()
            .filter(|_| !newest.is_all(snapshot, n))
        else {
            return newest;
        };
        let from = start.max(end.saturating_sub(LITTLE as u64));
        let mut bytes = vec![0; (end - from) as usize];
        if file.read_cached_at(&mut bytes, from) {
            // Its first line may have begun before.
            let whole = match memchr(b'\n', &bytes).filter(|_| from > start) {
                Some(lf) => lf + 1,
                None if from > start => bytes.len(),
                None => 0,
            };
            newest.take(&bytes[whole..], n, counters);
            newest.end = from + whole as u64;
        }
        newest
    }

    fn take(&mut self, bytes: &[u8], n: usize, counters: &Counters) {
        let mut rest = bytes.strip_suffix(b"\n").unwrap_or(bytes);
        if bytes.is_empty() || self.messages.len() == n {
            return;
        }
        let most = (n - self.messages.len()).min(most_in(bytes.len()));
        self.messages.reserve(most);
        loop {
            let line = memrchr(b'\n', rest).map_or(0, |lf| lf + 1);
            self.messages.extend(visible(&rest[line..], counters));
            if line == 0 || self.messages.len() == n {
                return;
            }
            rest = &rest[..line - 1];
        }
    }

    /// True if the file has no more of them.
    pub(crate) fn is_all(&self, snapshot: &Snapshot, n: usize) -> bool {
        self.messages.len() == n || self.end <= snapshot.live.start
    }

    /// Adds those in the file; returns all, oldest first.
    ///
    /// # Errors
    /// As the operating system reports them.
    pub(crate) fn completed(
        self,
        snapshot: &Snapshot,
        n: usize,
        counters: &Counters,
    ) -> io::Result<Vec<Message>> {
        let Self { mut messages, end } = self;
        if messages.len() < n
            && let Some(file) = &snapshot.live.file
        {
            for_each_line_back(&**file, snapshot.live.start, end, &mut |raw| {
                messages.extend(visible(raw.text, counters));
                messages.len() < n
            })?;
        }
        messages.reverse();
        Ok(messages)
    }
}

/// Returns the raw lines that a copy of the session takes over, each ended by LF: the control
/// records among the skipped lines that still count, then all live lines except those that every
/// rewrite drops.
///
/// # Errors
/// As the operating system reports them.
pub(crate) fn live_lines(snapshot: &Snapshot) -> io::Result<LiveLines> {
    let mut live = LiveLines::default();
    if let Some(file) = &snapshot.live.file {
        let mut carried = CarriedControls::default();
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

/// Returns every live line unchanged, each ended by LF.
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
    looked: &ConversationMoment,
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

/// Visits every live line, oldest first. For one that is too long to be read, the visit gets its
/// stand-in.
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

/// Does the same, with lines that are too long to be read whole.
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

/// Returns the message in a line.
pub(crate) fn visible(raw: &[u8], counters: &Counters) -> Option<Message> {
    match session_file::decode(raw) {
        Decoded::Message(message) => Some(message),
        Decoded::Corrupt(reason) => {
            counters.corrupt_lines.add(1);
            tracing::debug!(reason, bytes = raw.len(), "a line does not decode");
            None
        }
        Decoded::Blank | Decoded::Control(_) | Decoded::Transient(_) => None,
    }
}
