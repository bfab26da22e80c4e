//! Drops hidden lines: a copy in the background, and its swap.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use sessionlog_core::error::{Error, Result};

use crate::disk::files;
use crate::disk::files::lines;
use crate::engine::archive::ArchiveSubject;
use crate::engine::shard::Shard;
use crate::engine::shard::answer::{Ack, Answer};
use crate::engine::shard::change::{Origin, Swap};
use crate::engine::shard::job::Job;
use crate::engine::shard::request::{Absent, Manner, Verb};
use crate::engine::shard::rewrite::{More, PreparedFile, is_copied};
use crate::engine::shard::session::{Compaction, Pending, Session};
use crate::engine::shard::source::FileSource;
use crate::engine::shard::turn::Turn;

/// Drop the hidden lines, if there are any.
#[derive(Debug)]
pub(crate) struct Compact;

/// The most appended bytes that go with a swap. Lines appended while a compaction copied are copied
/// on the worker's thread and journalled with the swap; if there are more, another round of copying
/// comes first.
const MAX_TAIL: u64 = 256 << 10;

/// Number of rounds after which later commands of the session wait for the next one. Each round
/// copies the lines that came during the one before; if they came as fast as they can be copied,
/// the rounds would never end.
const ROUNDS: u32 = 8;

/// The time that a stale sidecar waits for a compaction.
const WAITS: Duration = Duration::from_secs(4);

impl Verb for Compact {
    type Output = ();
    const MANNER: Manner = Manner::Writes;
    const READS_CONTROLS: bool = false;
    const TOUCHES_FILES: bool = true;
    const LETS_GO: bool = false;

    fn bytes(&self) -> usize {
        0
    }

    fn if_absent(&self, _: &Arc<str>, _: &mut Shard) -> Absent<()> {
        Absent::Answer(Ok(()))
    }

    fn waits(&self, session: &Session) -> bool {
        !session.is_still()
    }

    fn stage(self, answer: Answer<()>, shard: &mut Shard, id: usize, turn: &mut Turn<'_>) {
        let session = shard.session(id);
        if let Some(compaction) = &mut session.compaction {
            compaction.answers.push(answer);
        } else if session.hides_lines() {
            shard.start_compaction(id, vec![answer], turn);
        } else {
            turn.out.answer(answer, Ok(()));
        }
    }
}

impl Session {
    fn hides_lines(&self) -> bool {
        self.exists && self.settled.meta.skip != 0
    }
}

impl Shard {
    /// True if a session's sidecar will soon change again: replaced both before and after a
    /// compaction, it would cost two files to make and to delete.
    pub(in crate::engine::shard) fn awaits_compaction(&mut self, id: usize, now: Duration) -> bool {
        let compaction = self.session(id).compaction.as_ref();
        compaction.is_some_and(|compaction| now < compaction.began + WAITS)
    }

    fn start_compaction(&mut self, id: usize, answers: Vec<Answer<()>>, turn: &mut Turn<'_>) {
        let began = turn.shared.clock.monotonic();
        turn.shared.counters.compactions_begun.add(1);
        if let Err(error) = self.write_out(id, turn) {
            return Self::fail_compaction(answers, error, turn);
        }
        let deleted = Arc::new(AtomicBool::new(false));
        let source = match self.file(id, turn) {
            Ok(Some(file)) => {
                let session = self.session(id);
                let dropped = ArchiveSubject {
                    key: session.entry.key.clone(),
                    stem: session.entry.stem.clone(),
                    deleted: deleted.clone(),
                };
                FileSource::Live {
                    file,
                    start: session.start,
                    end: session.settled.end,
                    dropped,
                }
            }
            Ok(None) => FileSource::Lines(Vec::new()),
            Err(error) => return Self::fail_compaction(answers, error, turn),
        };
        let owner = self.owner(id);
        let session = self.session(id);
        session.compaction = Some(Box::new(Compaction {
            generation: session.generation,
            start: session.start,
            copied: session.settled.end,
            began,
            rounds: 0,
            prepared: None,
            deleted,
            answers,
        }));
        let temp = turn.shared.next_temp();
        turn.out.start(Job::Rewrite {
            owner,
            temp,
            source,
        });
    }

    /// Does the owner's part of a compaction: catches up with the lines appended meanwhile, and
    /// swaps.
    pub(in crate::engine::shard) fn finish_compaction(&mut self, id: usize, turn: &mut Turn<'_>) {
        let Some(mut compaction) = self.session(id).compaction.take() else {
            return;
        };
        let Some(prepared) = compaction.prepared.take() else {
            return;
        };
        if let Err(error) = self.write_out(id, turn) {
            prepared.discard(turn.shared);
            return Self::fail_compaction(compaction.answers, error, turn);
        }
        let session = self.session(id);
        if compaction.generation != session.generation {
            prepared.discard(turn.shared);
            return self.compact_again(id, compaction.answers, turn);
        }
        if session.outran(&compaction) {
            return self.extend_copy(id, compaction, prepared, turn);
        }
        let (from, to) = (compaction.copied, self.session(id).settled.end);
        let caught_up = self.catch_up(id, &prepared, (from, to), turn);
        let answers = compaction.answers;
        match caught_up {
            Ok((tail, tail_lines)) => {
                let swap = (prepared, compaction.began);
                self.push_compaction(id, swap, (&tail, tail_lines), Ack::all(answers), turn);
            }
            Err(error) => {
                prepared.discard(turn.shared);
                Self::fail_compaction(answers, error, turn);
            }
        }
    }

    /// Adds the lines appended since the copy to it. This comes before the swap is staged: once the
    /// swap's record holds, a full disk could not be answered by a refusal.
    fn catch_up(
        &mut self,
        id: usize,
        prepared: &PreparedFile,
        (from, to): (u64, u64),
        turn: &mut Turn<'_>,
    ) -> Result<(Vec<u8>, u64)> {
        let (tail, lines) = self.read_lines(id, from, to, turn)?;
        let path = turn.shared.dir.join(&prepared.temp);
        let put = prepared.file.write_all_at(&tail, prepared.len);
        put.map_err(|e| Error::io("rewrite", &path, e))?;
        Ok((tail, lines))
    }

    fn push_compaction(
        &mut self,
        id: usize,
        (prepared, began): (PreparedFile, Duration),
        (tail, tail_lines): (&[u8], u64),
        ack: Ack,
        turn: &mut Turn<'_>,
    ) {
        let meta = &mut self.session(id).staged.meta;
        meta.skip = i64::try_from(prepared.hidden.skip).unwrap_or(i64::MAX);
        meta.count = i64::try_from(prepared.lines + tail_lines).unwrap_or(i64::MAX);
        meta.updated_at = turn.now.clone();
        let mut crc = crc32fast::Hasher::new_with_initial(prepared.crc);
        crc.update(tail);
        let swap = Swap {
            prepared,
            tail: tail.len() as u64,
            tail_lines,
            crc: crc.finalize(),
            origin: Origin::Compaction { began },
        };
        self.push_swap(id, swap, tail, ack, turn);
    }

    /// Brings the copy up to the session's present state.
    fn extend_copy(
        &mut self,
        id: usize,
        mut compaction: Box<Compaction>,
        prepared: PreparedFile,
        turn: &mut Turn<'_>,
    ) {
        let file = match self.file(id, turn) {
            Ok(Some(file)) => file,
            Ok(None) => {
                prepared.discard(turn.shared);
                return self.compact_again(id, compaction.answers, turn);
            }
            Err(error) => {
                prepared.discard(turn.shared);
                return Self::fail_compaction(compaction.answers, error, turn);
            }
        };
        let owner = self.owner(id);
        let session = self.session(id);
        let more = More {
            file,
            appended: compaction.copied..session.settled.end,
            truncated: compaction.start..session.start,
        };
        compaction.copied = more.appended.end;
        compaction.start = more.truncated.end;
        compaction.rounds += 1;
        let awaited = compaction.rounds > ROUNDS;
        if awaited {
            session.busy = true;
            session.pending = Some(Pending::CatchUp);
        }
        session.compaction = Some(compaction);
        turn.out.start(Job::Extend {
            owner,
            prepared,
            more,
            awaited,
        });
    }

    /// Gives the compaction up: the session stays as it is.
    pub(in crate::engine::shard) fn fail_compaction(
        answers: Vec<Answer<()>>,
        error: Error,
        turn: &mut Turn<'_>,
    ) {
        turn.shared.compaction_failed(&error);
        turn.out.settle(Ack::all(answers), &Err(error));
    }

    fn compact_again(&mut self, id: usize, answers: Vec<Answer<()>>, turn: &mut Turn<'_>) {
        if self.session(id).hides_lines() {
            self.start_compaction(id, answers, turn);
        } else {
            turn.out.settle(Ack::all(answers), &Ok(()));
        }
    }

    /// Reads whole lines of the session file, without those that every rewrite drops; returns them
    /// and their number.
    fn read_lines(
        &mut self,
        id: usize,
        from: u64,
        to: u64,
        turn: &mut Turn<'_>,
    ) -> Result<(Vec<u8>, u64)> {
        let mut kept = Vec::new();
        if from == to {
            return Ok((kept, 0));
        }
        let path = files::log_path(&turn.shared.dir, &self.session(id).entry.stem);
        let file = self
            .file(id, turn)?
            .ok_or_else(|| Error::io("open", &path, std::io::ErrorKind::NotFound.into()))?;
        let mut count = 0;
        lines::for_each_line(&*file, from, to, &mut |raw| {
            // The first byte may be the LF that ends a torn line.
            if is_copied(raw) {
                kept.extend_from_slice(raw.text);
                kept.push(b'\n');
                count += 1;
            }
            Ok(())
        })
        .map_err(|e| Error::io("read", &path, e))?;
        Ok((kept, count))
    }
}

impl Session {
    /// True if the copy is behind: lines that it shows were truncated since, or more was appended
    /// than goes with the swap.
    fn outran(&self, compaction: &Compaction) -> bool {
        compaction.start != self.start || self.settled.end - compaction.copied > MAX_TAIL
    }
}
