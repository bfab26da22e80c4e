//! The changes that a worker handed to the journal and has not settled yet.

use std::collections::VecDeque;

use bytes::Bytes;

use super::change::Op;

/// Staged changes on their way through the journal, oldest first, in the batches in which they were
/// handed over. Each caller's command is a batch of its own, so one list for all of them reuses its
/// room.
#[derive(Debug, Default)]
pub(crate) struct Inflight {
    batches: VecDeque<BatchInFlight>,
    /// The changes of all batches, one batch after the other.
    ops: VecDeque<Op>,
    bytes: usize,
    /// The oldest batches that readers see already, and the number of changes in them. Every later
    /// write shows the written batches again until they are synced: if each search began at the
    /// oldest, a thousand buffered records would each cost as much as all of them.
    shown: Shown,
}

/// The oldest batches.
#[derive(Debug, Clone, Copy, Default)]
struct Shown {
    batches: usize,
    ops: usize,
}

/// Number of changes for which room is kept: more than a shard's inbox holds.
const KEPT: usize = 4096;

/// One batch that a worker handed to the journal.
#[derive(Debug)]
pub(crate) struct BatchInFlight {
    pub(crate) number: u64,
    /// The number of its changes.
    pub(crate) ops: usize,
    /// Length of its records, bytes.
    pub(crate) bytes: usize,
    /// The records, once they are [written](Inflight::wrote).
    pub(crate) records: Bytes,
}

impl Inflight {
    /// Adds a batch after all others, and takes its changes.
    pub(crate) fn push(&mut self, number: u64, ops: &mut VecDeque<Op>, bytes: usize) {
        self.bytes += bytes;
        self.batches.push_back(BatchInFlight {
            number,
            ops: ops.len(),
            bytes,
            records: Bytes::new(),
        });
        self.ops.append(ops);
    }

    /// Notes the records of a batch, as they were written: readers see lines of them.
    pub(crate) fn wrote(&mut self, number: u64, records: Bytes) {
        let at = self.batches.partition_point(|batch| batch.number < number);
        if let Some(batch) = self.batches.get_mut(at)
            && batch.number == number
        {
            batch.records = records;
        }
    }

    /// Bytes of records in flight.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.batches.is_empty()
    }

    /// Every change in flight, oldest first.
    pub(crate) fn ops(&self) -> impl Iterator<Item = &Op> {
        self.ops.iter()
    }

    /// Takes the oldest batch off, if it is not newer than `number`. Its changes are the next to
    /// [pop](Self::pop).
    pub(crate) fn next_up_to(&mut self, number: u64) -> Option<BatchInFlight> {
        let batch = self.batches.pop_front_if(|batch| batch.number <= number);
        if let Some(batch) = &batch {
            self.bytes -= batch.bytes;
            if self.shown.batches > 0 {
                self.shown.batches -= 1;
                self.shown.ops -= batch.ops;
            }
        }
        if batch.is_none() && self.ops.is_empty() {
            self.give_back();
        }
        batch
    }

    /// Gives back the room that a burst took.
    fn give_back(&mut self) {
        if self.ops.capacity() > KEPT {
            self.ops.shrink_to(KEPT);
            self.batches.shrink_to(KEPT);
        }
    }

    /// Takes the oldest change off.
    pub(crate) fn pop(&mut self) -> Option<Op> {
        self.ops.pop_front()
    }

    /// The batches not newer than `number`, each with its changes.
    pub(crate) fn up_to(&self, number: u64) -> impl Iterator<Item = (&BatchInFlight, Ops<'_>)> {
        self.after(Shown::default(), number)
    }

    /// The batches not newer than `number` that readers do not see yet.
    pub(crate) fn unseen_up_to(
        &self,
        number: u64,
    ) -> impl Iterator<Item = (&BatchInFlight, Ops<'_>)> {
        self.after(self.shown, number)
    }

    fn after(&self, start: Shown, number: u64) -> impl Iterator<Item = (&BatchInFlight, Ops<'_>)> {
        let told = self.batches.range(start.batches..);
        let mut at = start.ops;
        told.take_while(move |b| b.number <= number)
            .map(move |batch| {
                let first = at;
                at += batch.ops;
                (batch, self.ops.range(first..at))
            })
    }

    /// Calls `show` with every change that is not newer than `number` and that readers do not see
    /// yet, and with the records of its batch.
    pub(crate) fn show_up_to(&mut self, number: u64, mut show: impl FnMut(&mut Op, &Bytes)) {
        for batch in self.batches.range(self.shown.batches..) {
            if batch.number > number {
                break;
            }
            let end = self.shown.ops + batch.ops;
            let ops = self.ops.range_mut(self.shown.ops..end);
            ops.for_each(|op| show(op, &batch.records));
            self.shown.batches += 1;
            self.shown.ops = end;
        }
    }

    /// Takes off the changes of every batch from `number` on.
    pub(crate) fn split_off(&mut self, number: u64) -> VecDeque<Op> {
        let first = self.batches.partition_point(|b| b.number < number);
        let mut ops = 0;
        for batch in self.batches.drain(first..) {
            ops += batch.ops;
            self.bytes -= batch.bytes;
        }
        let kept = self.ops.len() - ops;
        self.shown.batches = self.shown.batches.min(self.batches.len());
        self.shown.ops = self.shown.ops.min(kept);
        self.ops.split_off(kept)
    }
}

/// The changes of a batch.
pub(crate) type Ops<'a> = std::collections::vec_deque::Iter<'a, Op>;

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use super::super::answer::Ack;
    use super::super::change::SessionChange;
    use super::*;

    fn op(id: usize) -> Op {
        Op {
            shard: 0,
            session: id,
            imaged: 0,
            shown: false,
            ack: Ack::Nobody,
            change: SessionChange::Delete,
        }
    }

    struct Model {
        number: u64,
        ops: Vec<usize>,
        bytes: usize,
        shown: bool,
        /// Its number once it is written.
        records: Bytes,
    }

    fn records(number: u64) -> Bytes {
        Bytes::copy_from_slice(&number.to_le_bytes())
    }

    /// Beside a list of lists, over random pushes (empty ones too), writes, shows, partial
    /// and whole settlements, and refusals.
    #[test]
    fn batches_and_changes_stay_in_step() {
        let mut seed = 0x9e37_79b9_7f4a_7c15_u64;
        let mut below = move |bound: u64| {
            seed ^= seed << 13;
            seed ^= seed >> 7;
            seed ^= seed << 17;
            seed % bound
        };
        let (mut own, mut model) = (Inflight::default(), VecDeque::<Model>::new());
        let (mut next, mut id) = (1, 0);
        for _ in 0..200_000 {
            let at = next - 12_u64.min(next) + below(14);
            match below(9) {
                8 => {
                    own.wrote(at, records(at));
                    for batch in model.iter_mut().filter(|batch| batch.number == at) {
                        batch.records = records(at);
                    }
                }
                0..=3 => {
                    let count = below(4) as usize;
                    let mut ops: VecDeque<_> = (id..id + count).map(op).collect();
                    let bytes = below(100) as usize;
                    own.push(next, &mut ops, bytes);
                    assert!(ops.is_empty());
                    model.push_back(Model {
                        number: next,
                        ops: (id..id + count).collect(),
                        bytes,
                        shown: false,
                        records: Bytes::new(),
                    });
                    id += count;
                    next += 1;
                }
                4 => {
                    let mut shown = Vec::new();
                    own.show_up_to(at, |op, records| shown.push((op.session, records.clone())));
                    let told = model.iter_mut().filter(|b| b.number <= at && !b.shown);
                    let mut expected = Vec::new();
                    for batch in told {
                        batch.shown = true;
                        let records = || batch.records.clone();
                        expected.extend(batch.ops.iter().map(|&id| (id, records())));
                    }
                    assert_eq!(shown, expected);
                }
                5 => {
                    let failed: Vec<_> = own.split_off(at).iter().map(|op| op.session).collect();
                    let first = model.partition_point(|b| b.number < at);
                    let expected: Vec<_> = model
                        .split_off(first)
                        .into_iter()
                        .flat_map(|b| b.ops)
                        .collect();
                    assert_eq!(failed, expected);
                }
                _ => {
                    let looked: Vec<_> = own
                        .up_to(at)
                        .map(|(b, ops)| (b.number, ops.map(|op| op.session).collect::<Vec<_>>()))
                        .collect();
                    let expected: Vec<_> = model
                        .iter()
                        .take_while(|b| b.number <= at)
                        .map(|b| (b.number, b.ops.clone()))
                        .collect();
                    assert_eq!(looked, expected);
                    let unseen: Vec<_> = own.unseen_up_to(at).map(|(b, _)| b.number).collect();
                    let told = model.iter().filter(|b| b.number <= at && !b.shown);
                    let expected: Vec<_> = told.map(|b| b.number).collect();
                    assert_eq!(unseen, expected);
                    while let Some(batch) = own.next_up_to(at) {
                        let popped: Vec<_> =
                            (0..batch.ops).map(|_| own.pop().unwrap().session).collect();
                        let told = model.pop_front().unwrap();
                        assert_eq!((batch.number, popped), (told.number, told.ops));
                        assert_eq!(batch.records, told.records);
                    }
                    assert!(model.front().is_none_or(|b| b.number > at));
                }
            }
            assert_eq!(own.bytes(), model.iter().map(|b| b.bytes).sum::<usize>());
            assert_eq!(own.is_empty(), model.is_empty());
            let all: Vec<_> = own.ops().map(|op| op.session).collect();
            assert_eq!(
                all,
                model.iter().flat_map(|b| b.ops.clone()).collect::<Vec<_>>()
            );
        }
    }
}
