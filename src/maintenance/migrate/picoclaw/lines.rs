//! Lines as PicoClaw reads them, and lines that it cannot read.

use std::borrow::Cow;

use sessionlog_core::session_file::{self, Decoded, PICOCLAW_LINE};

use crate::Message;

/// The number of things left out of a session.
#[derive(Debug, Default)]
pub(super) struct Losses {
    unread: usize,
    controls: usize,
    too_long: usize,
    thoughts: usize,
    parts: usize,
}

impl Losses {
    /// The line as PicoClaw gets it, if it gets it. A line that no history shows does not count as
    /// a loss.
    pub(super) fn exportable<'a>(&mut self, raw: &'a [u8]) -> Option<Cow<'a, [u8]>> {
        let line = match session_file::decode(raw) {
            Decoded::Blank | Decoded::Transient(_) => return None,
            Decoded::Corrupt(_) => {
                self.unread += 1;
                return None;
            }
            Decoded::Control(_) => {
                self.controls += 1;
                return None;
            }
            Decoded::Message(message) if message.content_parts().is_none() => {
                Cow::Borrowed(session_file::without_mark(raw))
            }
            Decoded::Message(message) => Cow::Owned(self.flattened(message)?),
        };
        if line.len() > PICOCLAW_LINE {
            self.too_long += 1;
            return None;
        }
        Some(line)
    }

    /// The line of a message that had a list of parts, unless PicoClaw would hide it.
    fn flattened(&mut self, message: Message) -> Option<Vec<u8>> {
        let (message, homeless) = message.flattened();
        if message.is_transient() {
            self.thoughts += 1;
            return None;
        }
        self.parts += homeless;
        Some(session_file::encode(&message, None))
    }

    /// The kinds of things left out, each with its number.
    pub(super) fn texts(&self) -> impl Iterator<Item = String> {
        let counts = [
            (self.unread, "lines that do not decode"),
            (self.too_long, "lines of more than 10,485,759 bytes"),
            (
                self.controls,
                "control records (checkpoints, token counts, system prompts)",
            ),
            (self.thoughts, "messages that are thoughts and nothing else"),
            (
                self.parts,
                "parts of messages, or fields of them, that PicoClaw has no place for",
            ),
        ];
        let some = counts.into_iter().filter(|(count, _)| *count > 0);
        some.map(|(count, what)| format!("{what}: {count}"))
    }
}
