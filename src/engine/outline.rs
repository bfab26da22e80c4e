//! The positions in a session, without its messages' content. It costs one pass over the lines, of
//! which one is in memory at a time.

use std::io;

use sessionlog_core::position::Position;
use sessionlog_core::session_file::{self, Control, Decoded};

use crate::disk::files::lines::for_each_line;
use crate::engine::numbering::Numbering;
use crate::engine::snapshot::Snapshot;

/// The positions in a conversation; see
/// [`SessionSnapshot::outline`](crate::SessionSnapshot::outline).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Outline {
    /// Number of messages.
    pub messages: usize,
    /// The position of the first message, and of every `stride`th after it.
    pub anchors: Vec<Position>,
    /// The lines between the messages, in order.
    pub marks: Vec<Mark>,
}

/// A line between the messages of a conversation.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Mark {
    /// Number of the outline's messages before it.
    pub after: usize,
    /// The time of the message before it, if the message has one.
    pub said_at: Option<String>,
    /// Its position: [`SessionSnapshot::line`](crate::SessionSnapshot::line) reads it. Lines that a
    /// compaction carried along are at the first position of the session.
    pub position: Position,
    /// Its kind.
    pub kind: MarkKind,
}

/// The kind of a line between messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum MarkKind {
    /// A checkpoint, by its id.
    Checkpoint(i64),
    /// A count of tokens, as [`update_token_count`](crate::Context::update_token_count)
    /// records it.
    Tokens(i64),
    /// A system prompt; the last one counts.
    SystemPrompt,
    /// A line that does not decode.
    Damaged,
}

/// Returns the outline of the live lines from `start` on, which is the offset of one of them. Lines
/// that a compaction carried along come with the first.
///
/// # Errors
/// As the operating system reports them.
pub(crate) fn outline(snapshot: &Snapshot, start: u64, stride: usize) -> io::Result<Outline> {
    let live = &snapshot.live;
    let start = if live.numbering.begins_at(start) {
        live.start.min(start)
    } else {
        start
    };
    let mut drawn = Drawn::new(live.numbering, stride);
    if let Some(file) = &live.file {
        for_each_line(&**file, start.min(live.end), live.end, &mut |raw| {
            drawn.take(raw.begin, raw.text);
            Ok(())
        })?;
    }
    let tail = snapshot.tail();
    let before = start.saturating_sub(live.end) as usize;
    let behind = tail.get(before..).unwrap_or_default();
    for (at, raw) in session_file::lines(behind) {
        drawn.take(live.end + (before + at) as u64, raw);
    }
    Ok(drawn.outline)
}

struct Drawn {
    numbering: Numbering,
    stride: usize,
    said_at: Option<String>,
    outline: Outline,
}

impl Drawn {
    fn new(numbering: Numbering, stride: usize) -> Self {
        Self {
            numbering,
            stride: stride.max(1),
            said_at: None,
            outline: Outline {
                messages: 0,
                anchors: Vec::new(),
                marks: Vec::new(),
            },
        }
    }

    fn take(&mut self, offset: u64, raw: &[u8]) {
        match session_file::decode(raw) {
            Decoded::Message(message) => {
                let outline = &mut self.outline;
                if outline.messages.is_multiple_of(self.stride) {
                    outline.anchors.push(self.numbering.position(offset));
                }
                outline.messages += 1;
                self.said_at = message.created_at().map(ToOwned::to_owned);
            }
            Decoded::Corrupt(_) => self.mark(offset, MarkKind::Damaged),
            Decoded::Control(control) => match control {
                Control::Checkpoint { lost: true, .. } | Control::Foreign => {}
                Control::Checkpoint { id, .. } => self.mark(offset, MarkKind::Checkpoint(id)),
                Control::Usage { token_count } => self.mark(offset, MarkKind::Tokens(token_count)),
                Control::SystemPrompt { .. } => self.mark(offset, MarkKind::SystemPrompt),
            },
            Decoded::Blank | Decoded::Transient(_) => {}
        }
    }

    fn mark(&mut self, offset: u64, kind: MarkKind) {
        self.outline.marks.push(Mark {
            after: self.outline.messages,
            said_at: self.said_at.clone(),
            position: self.numbering.position(offset),
            kind,
        });
    }
}
