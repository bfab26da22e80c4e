//! The newest part of a session that fits a budget, in whole turns.

use std::collections::BTreeSet;
use std::io;

use super::pages::each_line_back;
use super::reader::visible;
use super::snapshot::Snapshot;
use super::stats::Counters;
use crate::Message;
use crate::disk::session_file::{self, Kind, Turns, answered_call};

/// What a message takes of a budget: messages, bytes and tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Cost {
    pub(crate) messages: usize,
    pub(crate) bytes: usize,
    pub(crate) tokens: usize,
}

impl Cost {
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
pub(crate) struct Newest<P> {
    pub(crate) messages: Vec<Message>,
    /// Where the oldest of them stands; the end without one.
    pub(crate) start: P,
    /// How many come before them.
    pub(crate) older: usize,
    pub(crate) cost: Cost,
    /// Whether they begin within a turn.
    pub(crate) is_partial: bool,
}

/// The newest whole turns of `snapshot` that cost no more than `limit`. If the newest turn
/// alone costs more, the end of it that does not. `count` says what tokens a message has.
///
/// # Errors
/// As the operating system reports them.
pub(crate) fn newest(
    snapshot: &Snapshot,
    limit: Cost,
    count: &dyn Fn(&Message) -> usize,
    counters: &Counters,
) -> io::Result<Newest<u64>> {
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

/// The same of messages in memory, the newest first, each with where it stands and its bytes.
pub(crate) fn newest_of<P: Copy>(
    messages: impl Iterator<Item = (P, usize, Message)>,
    end: P,
    limit: Cost,
    count: &dyn Fn(&Message) -> usize,
) -> Newest<P> {
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
struct Whole<P> {
    messages: usize,
    cost: Cost,
    start: P,
}

struct Walk<'a, P> {
    limit: Cost,
    count: &'a dyn Fn(&Message) -> usize,
    turns: Turns<Whole<P>>,
    /// The messages that fit, newest first.
    met: Newest<P>,
    /// How many messages did not fit.
    older: usize,
    is_full: bool,
}

impl<'a, P: Copy> Walk<'a, P> {
    fn new(limit: Cost, count: &'a dyn Fn(&Message) -> usize, end: P) -> Self {
        Self {
            limit,
            count,
            turns: Turns::default(),
            met: Newest {
                messages: Vec::new(),
                start: end,
                older: 0,
                cost: Cost::default(),
                is_partial: false,
            },
            older: 0,
            is_full: false,
        }
    }

    fn take(&mut self, at: P, bytes: usize, message: Message) {
        let cost = self.met.cost.and(Cost {
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
        let whole = Whole {
            messages: self.met.messages.len() + 1,
            cost,
            start: at,
        };
        self.turns.take_back(&message, Some(whole));
        self.met.messages.push(message);
        self.met.cost = cost;
        self.met.start = at;
    }

    fn end(self) -> Newest<P> {
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

/// Of `messages`, the tool calls that no message after them answers in full, and the
/// results that no call before them asked for: which messages those are, and the first such
/// id.
pub(crate) fn unpaired(messages: &[Message]) -> (BTreeSet<usize>, Option<String>) {
    let mut unpaired = BTreeSet::new();
    let mut first = None;
    let mut note = |at: usize, id: &str, unpaired: &mut BTreeSet<usize>| {
        unpaired.insert(at);
        first.get_or_insert_with(|| id.to_owned());
    };
    // Where each call that waits for its result stands.
    let mut open: Vec<(usize, &str)> = Vec::new();
    let mut answers: Vec<(usize, usize)> = Vec::new();
    for (at, message) in messages.iter().enumerate() {
        if let Some(id) = answered_call(message) {
            match open.iter().rposition(|(_, call)| *call == id) {
                Some(call) => answers.push((open.remove(call).0, at)),
                None => note(at, id, &mut unpaired),
            }
        }
        open.extend(message.tool_calls().iter().map(|call| (at, &*call.id)));
    }
    for (call, id) in open {
        note(call, id, &mut unpaired);
    }
    // With a call go the results of its message that there are.
    for (call, answer) in answers {
        if unpaired.contains(&call) {
            unpaired.insert(answer);
        }
    }
    (unpaired, first)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(ids: &[&str]) -> Message {
        let message = Message::assistant("");
        ids.iter().fold(message, |message, id| {
            message.with_tool_call(*id, "f", "{}")
        })
    }

    #[test]
    fn what_lacks_its_other_half_is_found_and_takes_its_message_along() {
        let messages = [
            Message::tool("gone", "1"),
            call(&["a", "b"]),
            Message::tool("a", "2"),
            Message::user("hm"),
            call(&["c"]),
            Message::tool("c", "3"),
        ];
        let (found, first) = unpaired(&messages);
        assert_eq!(found.into_iter().collect::<Vec<_>>(), [0, 1, 2]);
        assert_eq!(first.as_deref(), Some("gone"));
        let again = [
            call(&["0"]),
            Message::tool("0", ""),
            call(&["0"]),
            Message::tool("0", ""),
        ];
        assert!(unpaired(&again).0.is_empty(), "ids may be used again");
    }
}
