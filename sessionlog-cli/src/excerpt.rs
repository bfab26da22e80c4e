//! A part of a conversation, and the places of its damaged lines.

use std::ops::Range;

use sessionlog::{Mark, MarkKind, Message, OffsetDateTime, SessionSnapshot};

use crate::failure::Result;
use crate::output;

/// Messages one after the other.
#[derive(Debug, Default)]
pub(crate) struct Excerpt {
    pub(crate) messages: Vec<Message>,
    /// The index of the first of them in the conversation; 0 unless all of that was read.
    pub(crate) first: usize,
    /// The places of damaged lines, in ascending order: the index of the message after each, or the
    /// number of messages if it is after the last.
    damaged: Vec<usize>,
}

/// One item of an excerpt.
pub(crate) enum Shown<'a> {
    Message(&'a Message),
    /// Damaged lines, and their number.
    Damaged(usize),
}

impl Excerpt {
    /// Reads the whole conversation.
    ///
    /// # Errors
    /// If it cannot be read.
    pub(crate) fn whole(snapshot: &SessionSnapshot) -> Result<Self> {
        let messages = snapshot.history().wait()?;
        let outline = snapshot.outline(snapshot.start(), usize::MAX).wait()?;
        Ok(Self::of(messages, outline.marks))
    }

    /// Reads the newest messages. Damaged lines before the first of them do not count.
    ///
    /// # Errors
    /// If it cannot be read.
    pub(crate) fn newest(snapshot: &SessionSnapshot, many: usize) -> Result<Self> {
        let page = snapshot.before(snapshot.end(), many).wait()?;
        if page.is_first {
            return Self::whole(snapshot);
        }
        let outline = snapshot.outline(page.start, usize::MAX).wait()?;
        Ok(Self::of(page.messages, outline.marks))
    }

    fn of(messages: Vec<Message>, marks: Vec<Mark>) -> Self {
        let damaged = damaged_lines(marks);
        Self::new(messages, damaged.collect())
    }

    /// Makes an excerpt of these messages, with the places of damaged lines in ascending order.
    pub(crate) fn new(messages: Vec<Message>, mut damaged: Vec<usize>) -> Self {
        for place in &mut damaged {
            *place = messages.len().min(*place);
        }
        Self {
            messages,
            first: 0,
            damaged,
        }
    }

    /// Keeps only these messages, and the damaged lines between them.
    pub(crate) fn cut(&mut self, range: Range<usize>) {
        let end = range.end.min(self.messages.len());
        let start = range.start.min(end);
        let (is_first, is_last) = (
            // After the last message, no message separates those lines.
            start == 0 || start == self.messages.len(),
            end == self.messages.len(),
        );
        let is_between = |&place: &usize| {
            (place > start || place == start && is_first)
                && (place < end || place == end && is_last)
        };
        self.damaged.retain(is_between);
        for place in &mut self.damaged {
            *place -= start;
        }
        self.first += start;
        self.messages.truncate(end);
        self.messages.drain(..start);
    }

    /// Keeps only the messages from `since` on and before `until`: from the first such message to
    /// the last. A message without a time goes with the one before it.
    pub(crate) fn between(&mut self, since: Option<OffsetDateTime>, until: Option<OffsetDateTime>) {
        let (mut first, mut end) = (None, 0);
        let mut is_in = since.is_none();
        for (place, message) in self.messages.iter().enumerate() {
            if let Some(time) = time_of(message) {
                is_in = since.is_none_or(|since| time >= since)
                    && until.is_none_or(|until| time < until);
            }
            if is_in {
                first.get_or_insert(place);
                end = place + 1;
            }
        }
        self.cut(first.unwrap_or(end)..end);
    }

    /// Returns messages and damaged lines in their order.
    pub(crate) fn each(&self) -> impl Iterator<Item = Shown<'_>> {
        let damaged = |place| self.damaged.iter().filter(|at| **at == place).count();
        let lines = move |place| Some(damaged(place)).filter(|many| *many > 0);
        let messages = self.messages.iter().enumerate();
        let messages = messages.flat_map(move |(place, message)| {
            let lines = lines(place).map(Shown::Damaged);
            lines.into_iter().chain([Shown::Message(message)])
        });
        messages.chain(lines(self.messages.len()).map(Shown::Damaged))
    }

    /// Returns the number of damaged lines.
    pub(crate) fn damaged(&self) -> usize {
        self.damaged.len()
    }
}

/// Returns the places of the damaged lines among these marks: the number of messages before each.
pub(crate) fn damaged_lines(marks: Vec<Mark>) -> impl Iterator<Item = usize> {
    let marks = marks.into_iter();
    let damaged = marks.filter(|mark| mark.kind == MarkKind::Damaged);
    damaged.map(|mark| mark.after)
}

/// Warns that lines were left out, if any were.
pub(crate) fn note_damaged(lines: usize) {
    if lines > 0 {
        let lines = output::count(lines, "damaged line");
        output::warn(&format!(
            "{lines} left out; `sessionlog verify DIR` says more"
        ));
    }
}

fn time_of(message: &Message) -> Option<OffsetDateTime> {
    let time: jiff::Timestamp = message.created_at()?.parse().ok()?;
    OffsetDateTime::from_unix_timestamp_nanos(time.as_nanosecond()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn excerpt() -> Excerpt {
        Excerpt {
            messages: (0..4).map(|n| Message::user(n.to_string())).collect(),
            first: 0,
            damaged: vec![0, 2, 2, 4],
        }
    }

    fn shown(excerpt: &Excerpt) -> Vec<String> {
        let shown = excerpt.each().map(|shown| match shown {
            Shown::Message(message) => message.text().into_owned(),
            Shown::Damaged(lines) => format!("{lines} damaged"),
        });
        shown.collect()
    }

    #[test]
    fn damaged_lines_stand_where_they_are_and_only_those_within_a_part_count() {
        let whole = ["1 damaged", "0", "1", "2 damaged", "2", "3", "1 damaged"];
        assert_eq!(shown(&excerpt()), whole);
        for (range, left) in [
            (0..9, &whole[..]),
            (0..2, &whole[..3]),
            (1..3, &["1", "2 damaged", "2"]),
            (2..4, &["2", "3", "1 damaged"]),
            (4..4, &["1 damaged"]),
            (1..1, &[]),
        ] {
            let mut part = excerpt();
            part.cut(range.clone());
            assert_eq!(shown(&part), left, "{range:?}");
        }
    }
}
