//! What of a session was shown, and so what is new.

use std::collections::VecDeque;
use std::hash::{DefaultHasher, Hash, Hasher};

use jiff::Timestamp;
use sessionlog::{Message, Position, SessionSnapshot, Version};

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
}

/// What is new in a session.
#[derive(Debug, Default)]
pub(super) struct News {
    pub(super) messages: Vec<Message>,
    /// What happened to it, if more than that.
    pub(super) remark: Option<&'static str>,
}

impl News {
    /// Without what was said before then.
    pub(super) fn since(mut self, then: Timestamp) -> Self {
        let is_new = |message: &Message| time_of(message).is_none_or(|time| time >= then);
        let first = self.messages.iter().position(is_new);
        self.messages.drain(..first.unwrap_or(self.messages.len()));
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
        let (messages, positions, is_found) = self.after_last(snapshot)?;
        let mut news = News {
            messages,
            remark: None,
        };
        if !is_found {
            news = self.after_rewrite(news.messages, snapshot.version() == Version::ABSENT);
        }
        self.version = Some(snapshot.version());
        self.last = positions.last().copied().or(self.last.filter(|_| is_found));
        self.remember(&news.messages);
        Ok(news)
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

    /// What is new in a history that was compacted, cut, taken back or replaced: what stands
    /// after the newest message that is known.
    fn after_rewrite(&self, all: Vec<Message>, is_gone: bool) -> News {
        let known = all.iter().rposition(|one| self.recent.contains(&sign(one)));
        let remark = match known {
            Some(_) => None,
            None if is_gone => Some("the session was deleted"),
            None if all.is_empty() => Some("the session was emptied"),
            None => Some("the session's history was replaced"),
        };
        let from = known.map_or(0, |known| known + 1);
        News {
            messages: all.into_iter().skip(from).collect(),
            remark,
        }
    }

    fn remember(&mut self, messages: &[Message]) {
        self.recent.extend(messages.iter().map(sign));
        let many = self.recent.len().saturating_sub(REMEMBERED);
        self.recent.drain(..many);
    }
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
