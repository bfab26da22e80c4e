//! The state of a conversation from its session's control records.

use std::sync::Arc;

use super::carried::may_be_control;
use super::control::{Control, free_checkpoint};
use super::line::{Decoded, decode};
use crate::error::{Error, Result};

/// The control records of one session file that have an effect, in the order of their lines, each
/// with its offset and its contents. Skipped lines count: the effect of control records outlives
/// them.
///
/// A revert cuts this list at the checkpoint; the records before it then define the state.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Conversation {
    marks: Vec<ControlMark>,
}

/// One control record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ControlMark {
    /// The offset of its line.
    pub offset: u64,
    /// The number of lines before it.
    pub lines: u64,
    /// Its contents.
    pub what: ControlContent,
}

/// The contents of a control record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ControlContent {
    /// The tokens used so far.
    Usage(i64),
    /// A checkpoint.
    Checkpoint {
        /// Its number.
        id: i64,
        /// See [`Control::Checkpoint`].
        lost: bool,
    },
    /// The system prompt.
    SystemPrompt(Arc<str>),
}

impl Conversation {
    /// Takes note of the line at `offset`, the `lines`th of its file counted
    /// from 0.
    pub fn note(&mut self, raw: &[u8], offset: u64, lines: u64) {
        if !may_be_control(raw) {
            return;
        }
        let Decoded::Control(control) = decode(raw) else {
            return;
        };
        let what = match control {
            Control::Usage { token_count } => ControlContent::Usage(token_count),
            Control::Checkpoint { id, lost } => ControlContent::Checkpoint { id, lost },
            Control::SystemPrompt { content } => ControlContent::SystemPrompt(content.into()),
            Control::Foreign => return,
        };
        self.push(offset, lines, what);
    }

    /// Adds a record that was just written.
    pub fn push(&mut self, offset: u64, lines: u64, what: ControlContent) {
        self.marks.push(ControlMark {
            offset,
            lines,
            what,
        });
    }

    /// Forgets the records at and after `end`.
    pub fn cut(&mut self, end: u64) {
        let kept = self.marks.partition_point(|mark| mark.offset < end);
        self.marks.truncate(kept);
    }

    /// The conversation at the end of `..end`.
    #[must_use]
    pub fn before(&self, end: u64) -> Before<'_> {
        let kept = self.marks.partition_point(|mark| mark.offset < end);
        Before {
            marks: &self.marks[..kept],
        }
    }
}

/// A conversation as far as a position in its file.
#[derive(Clone, Copy, Debug)]
pub struct Before<'a> {
    marks: &'a [ControlMark],
}

impl<'a> Before<'a> {
    /// The contents of the last record.
    #[must_use]
    pub fn last(self) -> Option<&'a ControlContent> {
        self.marks.last().map(|mark| &mark.what)
    }

    /// The last token count, 0 before the first, and the offset of its record.
    #[must_use]
    pub fn usage(self) -> (i64, Option<u64>) {
        let last = self.marks.iter().rev().find_map(|mark| match mark.what {
            ControlContent::Usage(token_count) => Some((token_count, Some(mark.offset))),
            _ => None,
        });
        last.unwrap_or((0, None))
    }

    /// Every token count, oldest first.
    pub fn usages(self) -> impl Iterator<Item = i64> + 'a {
        self.marks.iter().filter_map(|mark| match mark.what {
            ControlContent::Usage(token_count) => Some(token_count),
            _ => None,
        })
    }

    /// The number of checkpoints as kimi-cli counts them: one more than the last id.
    #[must_use]
    pub fn n_checkpoints(self) -> i64 {
        self.ids().last().map_or(0, |id| id.saturating_add(1))
    }

    /// The id of the next checkpoint.
    #[must_use]
    pub fn next_checkpoint(self) -> i64 {
        free_checkpoint(&self.ids())
    }

    fn ids(self) -> impl Iterator<Item = i64> + Clone + 'a {
        self.marks.iter().filter_map(|mark| match mark.what {
            ControlContent::Checkpoint { id, .. } => Some(id),
            _ => None,
        })
    }

    /// The last system prompt.
    #[must_use]
    pub fn system_prompt(self) -> Option<&'a Arc<str>> {
        self.marks.iter().rev().find_map(|mark| match &mark.what {
            ControlContent::SystemPrompt(content) => Some(content),
            _ => None,
        })
    }

    /// The first checkpoint with this id among the live lines, which begin at `start`.
    #[must_use]
    pub fn checkpoint(self, id: i64, start: u64) -> Option<&'a ControlMark> {
        let sought = ControlContent::Checkpoint { id, lost: false };
        self.live(start).find(|mark| mark.what == sought)
    }

    /// As [`checkpoint`](Self::checkpoint).
    ///
    /// # Errors
    /// `CheckpointNotFound`.
    pub fn existing(self, id: i64, start: u64) -> Result<&'a ControlMark> {
        self.checkpoint(id, start)
            .ok_or_else(|| Error::CheckpointNotFound {
                id: id.into(),
                existing: self.checkpoints(start).map(Into::into).collect(),
                lost: self.lost(id),
            })
    }

    /// True if a checkpoint with this id was lost with lines that were hidden. Only for an id that
    /// is not live. A compaction keeps only the last one's number: all lower numbers are assumed to
    /// have existed.
    fn lost(self, id: i64) -> bool {
        self.marks.iter().any(|mark| match mark.what {
            ControlContent::Checkpoint { id: last, lost } => {
                id == last || lost && (0..last).contains(&id)
            }
            _ => false,
        })
    }

    /// The checkpoints that can be reverted to.
    pub fn checkpoints(self, start: u64) -> impl Iterator<Item = i64> + 'a {
        self.live(start).filter_map(|mark| match mark.what {
            ControlContent::Checkpoint { id, lost: false } => Some(id),
            _ => None,
        })
    }

    fn live(self, start: u64) -> impl Iterator<Item = &'a ControlMark> {
        self.marks.iter().filter(move |mark| mark.offset >= start)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn conversation(lines: &[&str]) -> (Conversation, Vec<u64>) {
        let (mut conversation, mut offsets) = (Conversation::default(), Vec::new());
        let mut at = 0;
        for (nth, line) in lines.iter().enumerate() {
            conversation.note(line.as_bytes(), at, nth as u64);
            offsets.push(at);
            at += line.len() as u64 + 1;
        }
        offsets.push(at);
        (conversation, offsets)
    }

    #[test]
    fn what_holds_at_a_position_is_what_the_records_before_it_say() {
        let (conversation, at) = conversation(&[
            r#"{"role": "_system_prompt", "content": "be kind"}"#,
            r#"{"role": "_checkpoint", "id": 0}"#,
            r#"{"role":"user","content":"\"_usage\""}"#,
            r#"{"role": "_usage", "token_count": 5}"#,
            r#"{"role": "_checkpoint", "id": 1}"#,
            r#"{"role": "_usage", "token_count": 9}"#,
            r#"{"role": "_checkpoint", "id": "two"}"#,
        ]);
        let all = conversation.before(at[7]);
        assert_eq!(all.usage(), (9, Some(at[5])));
        assert_eq!(all.usages().collect::<Vec<_>>(), [5, 9]);
        assert_eq!(all.next_checkpoint(), 2);
        assert_eq!(all.checkpoints(0).collect::<Vec<_>>(), [0, 1]);
        assert_eq!(all.checkpoints(at[2]).collect::<Vec<_>>(), [1]);
        let mark = all.checkpoint(1, 0).unwrap();
        assert_eq!((mark.offset, mark.lines), (at[4], 4));
        let before = conversation.before(mark.offset);
        assert_eq!(before.usage().0, 5);
        assert_eq!(before.next_checkpoint(), 1);
        assert_eq!(before.system_prompt().map(|p| &**p), Some("be kind"));
        assert_eq!(conversation.before(0).system_prompt(), None);
    }

    #[test]
    fn only_what_went_with_hidden_lines_is_lost() {
        let lost = |lines: &[&str], id, start: usize| {
            let (conversation, at) = conversation(lines);
            match conversation.before(1000).existing(id, at[start]) {
                Err(Error::CheckpointNotFound { lost, .. }) => lost,
                other => panic!("{id}: {other:?}"),
            }
        };
        let gaps = [
            r#"{"role": "_checkpoint", "id": 1}"#,
            r#"{"role": "_checkpoint", "id": 5}"#,
        ];
        for id in [-1, 0, 2, 4, 6] {
            assert!(!lost(&gaps, id, 0), "{id}");
        }
        assert!(lost(&gaps, 1, 1));
        assert!(!lost(&gaps, 2, 1));
        let carried = [
            r#"{"role": "_checkpoint", "id": 3, "lost": true}"#,
            r#"{"role": "_checkpoint", "id": 6}"#,
        ];
        for (id, expected) in [(-1, false), (0, true), (3, true), (4, false), (7, false)] {
            assert_eq!(lost(&carried, id, 0), expected, "{id}");
        }
    }

    #[test]
    fn a_lost_checkpoint_numbers_the_next_one_and_cannot_be_gone_back_to() {
        let (conversation, _) =
            conversation(&[r#"{"role": "_checkpoint", "id": 6, "lost": true}"#]);
        let all = conversation.before(100);
        assert_eq!(all.next_checkpoint(), 7);
        assert_eq!(all.checkpoint(6, 0), None);
        assert_eq!(all.checkpoints(0).count(), 0);
    }
}
