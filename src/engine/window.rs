//! The newest part of a session that fits a budget, in whole turns.

use std::io;

use sessionlog_core::session_file::{self, Kind, Turns};

use super::pages::each_line_back;
use super::reader::visible;
use super::snapshot::Snapshot;
use super::stats::Counters;
use crate::Message;

/// The cost of a message in messages, bytes and tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct MessageCost {
    pub(crate) messages: usize,
    pub(crate) bytes: usize,
    pub(crate) tokens: usize,
}

/// Tokens by kind of content.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Tokens {
    /// Texts, refusals, and parts of unknown types.
    pub text: usize,
    /// Pictures.
    pub images: usize,
    /// Sounds.
    pub audio: usize,
    /// Films.
    pub video: usize,
    /// Other files.
    pub files: usize,
    /// Reasoning.
    pub reasoning: usize,
    /// Tool calls.
    pub calls: usize,
    /// Four for each message; with [`Budget::counter`](crate::Budget::counter) everything that it
    /// counted.
    pub messages: usize,
}

impl Tokens {
    /// The sum of all kinds.
    #[must_use]
    pub fn total(&self) -> usize {
        let media = [self.images, self.audio, self.video, self.files];
        let others = [self.text, self.reasoning, self.calls, self.messages];
        media
            .into_iter()
            .chain(others)
            .fold(0, usize::saturating_add)
    }

    pub(crate) fn add(&mut self, other: Self) {
        let sums = [
            (&mut self.text, other.text),
            (&mut self.images, other.images),
            (&mut self.audio, other.audio),
            (&mut self.video, other.video),
            (&mut self.files, other.files),
            (&mut self.reasoning, other.reasoning),
            (&mut self.calls, other.calls),
            (&mut self.messages, other.messages),
        ];
        for (sum, more) in sums {
            *sum = sum.saturating_add(more);
        }
    }
}

impl MessageCost {
    pub(crate) fn and(self, other: Self) -> Self {
        Self {
            messages: self.messages.saturating_add(other.messages),
            bytes: self.bytes.saturating_add(other.bytes),
            tokens: self.tokens.saturating_add(other.tokens),
        }
    }

    fn fits(self, limit: Self) -> bool {
        self.messages <= limit.messages && self.bytes <= limit.bytes && self.tokens <= limit.tokens
    }
}

/// The newest messages that fit, oldest first.
#[derive(Debug)]
pub(crate) struct NewestFit<P> {
    pub(crate) messages: Vec<Message>,
    /// The place of the oldest message; the end if there is none.
    pub(crate) start: P,
    /// The number of messages before them.
    pub(crate) older: usize,
    pub(crate) cost: MessageCost,
    /// True if they begin within a turn.
    pub(crate) is_partial: bool,
}

/// The newest whole turns of `snapshot` that cost no more than `limit`. If the newest turn alone
/// costs more, the end of it that fits. `count` returns the tokens of a message.
///
/// # Errors
/// As the operating system reports them.
pub(crate) fn newest(
    snapshot: &Snapshot,
    limit: MessageCost,
    count: &dyn Fn(&Message) -> usize,
    counters: &Counters,
) -> io::Result<NewestFit<u64>> {
    let end = snapshot.live.end + snapshot.tail_len as u64;
    let mut walk = Walk::new(limit, count, end);
    each_line_back(snapshot, end, &mut |offset, raw| {
        if walk.is_full {
            walk.older += usize::from(session_file::classify(raw) == Kind::Message);
            if walk.turns.is_open()
                && memchr::memmem::find(raw, b"tool_calls").is_some()
                && let Some(called) = visible(raw, counters)
            {
                walk.turns.take_calls(&called);
            }
        } else if let Some(message) = visible(raw, counters) {
            walk.take(offset, raw.len(), message);
        }
        true
    })?;
    Ok(walk.end())
}

/// The same for messages in memory, newest first, each with its place and its bytes.
pub(crate) fn newest_of<P: Copy>(
    messages: impl Iterator<Item = (P, usize, Message)>,
    end: P,
    limit: MessageCost,
    count: &dyn Fn(&Message) -> usize,
) -> NewestFit<P> {
    let mut walk = Walk::new(limit, count, end);
    for (at, bytes, message) in messages {
        if walk.is_full {
            walk.older += 1;
            walk.turns.take_calls(&message);
        } else {
            walk.take(at, bytes, message);
        }
    }
    walk.end()
}

/// Whole turns at the end of a session.
#[derive(Debug, Clone, Copy)]
struct WholeTurns<P> {
    messages: usize,
    cost: MessageCost,
    start: P,
}

struct Walk<'a, P> {
    limit: MessageCost,
    count: &'a dyn Fn(&Message) -> usize,
    turns: Turns<WholeTurns<P>>,
    /// The messages that fit, newest first.
    met: NewestFit<P>,
    /// The number of messages that did not fit.
    older: usize,
    is_full: bool,
}

impl<'a, P: Copy> Walk<'a, P> {
    fn new(limit: MessageCost, count: &'a dyn Fn(&Message) -> usize, end: P) -> Self {
        Self {
            limit,
            count,
            turns: Turns::default(),
            met: NewestFit {
                messages: Vec::new(),
                start: end,
                older: 0,
                cost: MessageCost::default(),
                is_partial: false,
            },
            older: 0,
            is_full: false,
        }
    }

    fn take(&mut self, at: P, bytes: usize, message: Message) {
        let cost = self.met.cost.and(MessageCost {
            messages: 1,
            bytes,
            tokens: (self.count)(&message),
        });
        if !cost.fits(self.limit) {
            self.is_full = true;
            self.older = 1;
            self.turns.take_calls(&message);
            return;
        }
        let whole = WholeTurns {
            messages: self.met.messages.len() + 1,
            cost,
            start: at,
        };
        self.turns.take_back(&message, Some(whole));
        self.met.messages.push(message);
        self.met.cost = cost;
        self.met.start = at;
    }

    fn end(self) -> NewestFit<P> {
        let mut met = self.met;
        met.older = self.older;
        if self.is_full {
            match self.turns.oldest() {
                Some(whole) => {
                    met.older += met.messages.len() - whole.messages;
                    met.messages.truncate(whole.messages);
                    (met.cost, met.start) = (whole.cost, whole.start);
                }
                None => met.is_partial = true,
            }
        }
        met.messages.reverse();
        met
    }
}
