//! Staging a compaction: a copy in the background, and its swap.

use super::{answer_all, discard};
use crate::engine::shard::Shard;
use crate::engine::shard::command::Answer;
use crate::engine::shard::context::Turn;
use crate::engine::shard::job::Job;
use crate::engine::shard::rewrite::Source;
use crate::engine::shard::session::Compaction;
use crate::engine::shard::staging::SwapAnswer;
use crate::error::Error;

/// Lines appended while a compaction copied are journalled with the swap up to
/// this many bytes; beyond, another copy round comes first.
const MAX_TAIL: u64 = 4 << 20;

impl Shard {
    pub(super) fn stage_compact(
        &mut self,
        id: usize,
        answer: Option<Answer<()>>,
        turn: &mut Turn<'_>,
    ) {
        let session = self.session(id);
        if let Some(compaction) = &mut session.compaction {
            compaction.answers.extend(answer);
            return;
        }
        if session.settled.meta.skip == 0 || !session.exists {
            if let Some(answer) = answer {
                turn.out.answer(answer, Ok(()));
            }
            return;
        }
        self.start_compaction(id, answer.into_iter().collect(), true, turn);
    }

    fn start_compaction(
        &mut self,
        id: usize,
        answers: Vec<Answer<()>>,
        gentle: bool,
        turn: &mut Turn<'_>,
    ) {
        if let Err(error) = self.write_out(id, turn) {
            return answer_all(answers, &Err(error), turn.out);
        }
        let source = match self.file(id, turn) {
            Ok(Some(file)) => {
                let session = self.session(id);
                Source::Live {
                    file,
                    start: session.start,
                    end: session.settled.end,
                    gentle,
                }
            }
            Ok(None) => Source::Lines(Vec::new()),
            Err(error) => return answer_all(answers, &Err(error), turn.out),
        };
        let owner = self.owner(id, turn);
        let session = self.session(id);
        session.compaction = Some(Compaction {
            generation: session.generation,
            start: session.start,
            copied: session.settled.end,
            prepared: None,
            answers,
        });
        let temp = turn.context.next_temp();
        turn.out.start(Job::Rewrite {
            owner,
            temp,
            source,
        });
    }

    /// The owner's part of a compaction: catch up with what was appended
    /// meanwhile, and swap.
    pub(super) fn finish_compaction(&mut self, id: usize, turn: &mut Turn<'_>) {
        let session = self.session(id);
        let Some(mut compaction) = session.compaction.take() else {
            return;
        };
        let prepared = compaction.prepared.take();
        if let Err(error) = self.write_out(id, turn) {
            discard(prepared, turn);
            return answer_all(compaction.answers, &Err(error), turn.out);
        }
        let session = self.session(id);
        let stale = compaction.generation != session.generation
            || compaction.start != session.start
            || session.settled.end - compaction.copied > MAX_TAIL;
        let prepared = match prepared {
            Some(prepared) if !stale => prepared,
            worthless => {
                discard(worthless, turn);
                return self.compact_again(id, compaction, turn);
            }
        };
        let (from, to) = (compaction.copied, session.settled.end);
        // The tail goes into the prepared file before its record is staged: once
        // the record holds, a full disk could not be answered by a refusal.
        let read = self.read_lines(id, from, to, turn);
        let written = read.and_then(|(tail, lines)| {
            let path = turn.context.dir.join(&prepared.temp);
            let put = prepared.file.write_all_at(&tail, prepared.len);
            put.map(|()| (tail, lines))
                .map_err(|e| Error::io("rewrite", &path, e))
        });
        let (tail, tail_lines) = match written {
            Ok(tail) => tail,
            Err(error) => {
                discard(Some(prepared), turn);
                return answer_all(compaction.answers, &Err(error), turn.out);
            }
        };
        let session = self.session(id);
        let lines = prepared.lines + tail_lines;
        let meta = &mut session.staged.meta;
        meta.skip = 0;
        meta.count = i64::try_from(lines).unwrap_or(i64::MAX);
        meta.updated_at = turn.now.clone();
        let answer = SwapAnswer::Compaction(compaction.answers);
        self.push_swap(id, prepared, tail, tail_lines, answer, turn);
    }

    fn compact_again(&mut self, id: usize, compaction: Compaction, turn: &mut Turn<'_>) {
        let session = self.session(id);
        if session.exists && session.settled.meta.skip != 0 {
            self.start_compaction(id, compaction.answers, false, turn);
        } else {
            answer_all(compaction.answers, &Ok(()), turn.out);
        }
    }
}
