//! What of a session was shown, and so what is new.

use std::collections::VecDeque;
use std::hash::{DefaultHasher, Hash, Hasher};

use jiff::Timestamp;
use sessionlog::{Message, Position, SessionSnapshot, Version};

use crate::excerpt::{self, Excerpt};
use crate::failure::Result;

/// How many messages are remembered of a session, to find the place again after its history
/// was rewritten.
const REMEMBERED: usize = 512;

/// How many messages are read at a time.
const PAGE: usize = 64;

/// Up to where a session was shown.
#[derive(Debug, Default)]
pub(super) struct Anchor {
    /// The state that was looked at last.
    version: Option<Version>,
    /// Where the last message that was shown stands.
    last: Option<Position>,
    /// The last messages that were shown, or stood before them.
    recent: VecDeque<u64>,
    /// The number of damaged lines after the last message, all of which were told.
    damaged: usize,
}

/// What is new in a session.
#[derive(Debug, Default)]
pub(super) struct News {
    pub(super) excerpt: Excerpt,
    /// What happened to it, if more than that.
    pub(super) remark: Option<&'static str>,
}

impl News {
    /// Without what was said before then.
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
    /// Everything that is there was shown, or is not asked for.
    pub(super) fn at_end_of(snapshot: &SessionSnapshot) -> Result<Self> {
        let mut anchor = Self::default();
        let page = snapshot.before(snapshot.end(), PAGE).wait()?;
        anchor.version = Some(snapshot.version());
        anchor.last = page.positions.last().copied();
        anchor.damaged = damaged_behind(snapshot, anchor.last)?.len();
        anchor.remember(&page.messages);
        Ok(anchor)
    }

    /// The same, of a state before: so many lines came since, and before them stood a message
    /// that began so.
    pub(super) fn before_lines(snapshot: &SessionSnapshot, lines: u64, text: &str) -> Result<Self> {
        let lines = usize::try_from(lines)
            .unwrap_or(usize::MAX)
            .saturating_add(1);
        let page = snapshot.before(snapshot.end(), lines).wait()?;
        let is_it = |message: &Message| message.text().starts_with(text);
        // Of the lines some may be no messages: then the one is later.
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

    /// What came since, which counts as shown from now on.
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
            // What is new in a history that was compacted, cut, taken back or replaced stands
            // behind the newest message that is known.
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

    /// The messages after the last that was shown, where each stands, and whether that one is
    /// still there; if it is not, all messages.
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

/// The damaged lines behind the message at a position, or all if there is none: how many messages
/// stand between it and each.
fn damaged_behind(snapshot: &SessionSnapshot, message: Option<Position>) -> Result<Vec<usize>> {
    let outline = snapshot.outline(message.unwrap_or(snapshot.start()), usize::MAX);
    let lines = excerpt::damaged_lines(outline.wait()?.marks);
    let own = usize::from(message.is_some());
    Ok(lines.filter_map(|after| after.checked_sub(own)).collect())
}

/// When a message was said, if it says so.
pub(super) fn time_of(message: &Message) -> Option<Timestamp> {
    message.created_at()?.parse().ok()
}

/// What a message is told by.
fn sign(message: &Message) -> u64 {
    let mut hasher = DefaultHasher::new();
    (message.role(), message.created_at(), message.text()).hash(&mut hasher);
    hasher.finish()
}
