//! The shown part of a session, and so its new part.

use std::collections::VecDeque;
use std::hash::{DefaultHasher, Hash, Hasher};

use jiff::Timestamp;
use sessionlog::{Message, Position, SessionSnapshot, Version};

use crate::excerpt::{self, Excerpt};
use crate::failure::Result;

/// Number of messages that are remembered of a session, to find the place again after its history
/// was rewritten.
const REMEMBERED: usize = 512;

/// Number of messages that are read at a time.
const PAGE: usize = 64;

/// The place up to which a session was shown.
#[derive(Debug, Default)]
pub(super) struct Anchor {
    /// The state at the last look.
    version: Option<Version>,
    /// The position of the last message that was shown.
    last: Option<Position>,
    /// Signs of the last messages that were shown, or stood before them.
    recent: VecDeque<u64>,
    /// The number of damaged lines after the last message, all of which were reported.
    damaged: usize,
}

/// The new part of a session.
#[derive(Debug, Default)]
pub(super) struct News {
    pub(super) excerpt: Excerpt,
    /// A description of any other change.
    pub(super) remark: Option<&'static str>,
}

impl News {
    /// Returns the news without messages from before `then`.
    pub(super) fn since(mut self, then: Timestamp) -> Self {
        let is_new = |message: &Message| time_of(message).is_none_or(|time| time >= then);
        let all = self.excerpt.messages.len();
        let first = self.excerpt.messages.iter().position(is_new);
        match first {
            Some(first) => self.excerpt.cut(first..all),
            None if all > 0 => self.excerpt = Excerpt::default(),
            None => {}
        }
        self
    }
}

impl Anchor {
    /// Returns an anchor after all present messages, which were shown or are not wanted.
    pub(super) fn at_end_of(snapshot: &SessionSnapshot) -> Result<Self> {
        let mut anchor = Self::default();
        let page = snapshot.before(snapshot.end(), PAGE).wait()?;
        anchor.version = Some(snapshot.version());
        anchor.last = page.positions.last().copied();
        anchor.damaged = damaged_behind(snapshot, anchor.last)?.len();
        anchor.remember(&page.messages);
        Ok(anchor)
    }

    /// Returns an anchor of an earlier state: `lines` lines came since, and the message before them
    /// began with `text`.
    pub(super) fn before_lines(snapshot: &SessionSnapshot, lines: u64, text: &str) -> Result<Self> {
        let lines = usize::try_from(lines)
            .unwrap_or(usize::MAX)
            .saturating_add(1);
        let page = snapshot.before(snapshot.end(), lines).wait()?;
        let is_it = |message: &Message| message.text().starts_with(text);
        // Some of the lines may be no messages: then the message stands later.
        let Some(at) = page.messages.iter().position(is_it) else {
            return Ok(Self::default());
        };
        let mut anchor = Self {
            last: page.positions.get(at).copied(),
            ..Self::default()
        };
        anchor.remember(&page.messages[..=at]);
        Ok(anchor)
    }

    /// Returns the messages since then, which count as shown from now on.
    pub(super) fn advance(&mut self, snapshot: &SessionSnapshot) -> Result<News> {
        if self.version == Some(snapshot.version()) {
            return Ok(News::default());
        }
        let (mut messages, positions, is_found) = self.after_last(snapshot)?;
        let (mut last, mut is_last, mut remark) = (self.last, true, None);
        if !is_found {
            let known = messages
                .iter()
                .rposition(|one| self.recent.contains(&sign(one)));
            if known.is_none() {
                remark = Some(match snapshot.version() {
                    Version::ABSENT => "the session was deleted",
                    _ if messages.is_empty() => "the session was emptied",
                    _ => "the session's history was replaced",
                });
            }
            // In a history that was compacted, cut, taken back or replaced, the new messages follow
            // the newest known one.
            last = known.and_then(|known| positions.get(known).copied());
            is_last =
                known.is_some_and(|known| self.recent.back() == Some(&sign(&messages[known])));
            messages.drain(..known.map_or(0, |known| known + 1));
        }
        let mut damaged = damaged_behind(snapshot, last)?;
        let of_last = damaged.iter().filter(|place| **place == 0).count();
        let told = if is_last {
            self.damaged.min(of_last)
        } else {
            0
        };
        self.damaged = damaged
            .iter()
            .filter(|place| **place == messages.len())
            .count();
        damaged.drain(..told);
        self.version = Some(snapshot.version());
        self.last = positions.last().copied().or(last);
        self.remember(&messages);
        Ok(News {
            excerpt: Excerpt::new(messages, damaged),
            remark,
        })
    }

    /// Returns the messages after the last that was shown, the position of each, and true if that
    /// last one is still there; if it is not, all messages.
    fn after_last(
        &self,
        snapshot: &SessionSnapshot,
    ) -> Result<(Vec<Message>, Vec<Position>, bool)> {
        let (mut messages, mut positions) = (Vec::new(), Vec::new());
        let mut end = snapshot.end();
        let mut is_found = self.last.is_none() && self.recent.is_empty();
        loop {
            let page = snapshot.before(end, PAGE).wait()?;
            let last = page.positions.iter().rposition(|at| Some(*at) == self.last);
            let from = last.map_or(0, |last| last + 1);
            messages.extend(page.messages.into_iter().skip(from).rev());
            positions.extend(page.positions.into_iter().skip(from).rev());
            is_found |= last.is_some();
            if last.is_some() || page.is_first {
                break;
            }
            end = page.start;
        }
        messages.reverse();
        positions.reverse();
        Ok((messages, positions, is_found))
    }

    fn remember(&mut self, messages: &[Message]) {
        self.recent.extend(messages.iter().map(sign));
        let many = self.recent.len().saturating_sub(REMEMBERED);
        self.recent.drain(..many);
    }
}

/// Returns the damaged lines after the message at a position, or all if there is none: for each,
/// the number of messages between.
fn damaged_behind(snapshot: &SessionSnapshot, message: Option<Position>) -> Result<Vec<usize>> {
    let outline = snapshot.outline(message.unwrap_or(snapshot.start()), usize::MAX);
    let lines = excerpt::damaged_lines(outline.wait()?.marks);
    let own = usize::from(message.is_some());
    Ok(lines.filter_map(|after| after.checked_sub(own)).collect())
}

/// Returns the time of a message, if it has one.
pub(super) fn time_of(message: &Message) -> Option<Timestamp> {
    message.created_at()?.parse().ok()
}

/// Returns the sign by which a message is recognized.
fn sign(message: &Message) -> u64 {
    let mut hasher = DefaultHasher::new();
    (message.role(), message.created_at(), message.text()).hash(&mut hasher);
    hasher.finish()
}
