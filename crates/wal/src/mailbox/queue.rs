//! The queue of a shard: callers' items, answered by number.
//!
//! Every item gets the next number. The consumer takes everything queued at once, and then answers
//! up to a number: nothing is allocated, and nothing shared is touched, per answer. The few items
//! with another answer are [excepted](Queue::except) first.

use super::waiting::{Waiters, WakerId, identity};
use crate::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use crate::sync::{Condvar, Mutex, MutexGuard};
use std::collections::{HashMap, HashSet};
use std::mem;
use std::task::{Context, Poll, Waker};

/// A first-in first-out queue with room for a number of items, and for a number of bytes that
/// belong to them.
pub struct Queue<T, X> {
    state: Mutex<QueueState<T, X>>,
    /// Every item up to this number is answered: with an exception, or as asked. Raised under the
    /// lock, after the exceptions up to it are entered.
    answered: AtomicU64,
    /// True if there are exceptions: raised before `answered` is.
    has_exceptions: AtomicBool,
    /// Notified when there may be room.
    room: Condvar,
    /// Notified when there are answers.
    arrived: Condvar,
    capacity: usize,
}

struct QueueState<T, X> {
    lot: Lot<T>,
    closed: bool,
    /// True once no answers will come.
    ended: bool,
    exceptions: HashMap<u64, X>,
    /// Numbers of callers that left before the answer.
    abandoned: HashSet<u64>,
    /// Wakers of callers that came to wait after their item was taken.
    late: Vec<Waker>,
    /// The number of times that the waiting callers were woken.
    rounds: u64,
    /// Threads that wait for an answer.
    threads: usize,
    /// The callers that wait for room.
    waiting: Waiters,
}

/// The most bytes that a queue holds, apart from those of one item.
const MOST_BYTES: usize = 16 << 20;

/// The room that a taken lot keeps for the next, in bytes and items.
const KEPT: (usize, usize) = (256 << 10, 1024);

/// Items that were queued together.
#[derive(Debug)]
pub struct Lot<T> {
    /// The items, oldest first, each with the end of its bytes.
    pub items: Vec<(T, usize)>,
    /// The bytes of all items, in their order.
    pub bytes: Vec<u8>,
    /// The tasks to wake when the items are answered.
    pub wakers: Vec<Waker>,
    /// The number of the newest item.
    pub last: u64,
}

/// The reason why an item was not queued; it stays where it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueueRefusal {
    /// There is no room at the moment.
    Full,
    /// The queue accepts no more items.
    Closed,
}

/// An item that was queued.
#[derive(Debug)]
pub struct QueueTicket {
    number: u64,
    /// The task to wake when it is answered, and the round in which that was noted.
    woken: (WakerId, u64),
    /// True if the consumer must be notified: nothing was queued before it.
    pub first: bool,
}

/// The outcome of an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueueAnswer<X> {
    /// Carried out as asked.
    Done,
    /// Another answer.
    Except(X),
    /// No answers will come any more.
    Gone,
}

impl<T, X> Queue<T, X> {
    /// An empty queue, with room for at least one item.
    #[must_use]
    pub fn new(capacity: usize) -> Self {
        Self {
            state: Mutex::new(QueueState {
                lot: Lot::default(),
                closed: false,
                ended: false,
                exceptions: HashMap::new(),
                abandoned: HashSet::new(),
                late: Vec::new(),
                rounds: 0,
                threads: 0,
                waiting: Waiters::default(),
            }),
            answered: AtomicU64::new(0),
            has_exceptions: AtomicBool::new(false),
            room: Condvar::new(),
            arrived: Condvar::new(),
            capacity: capacity.max(1),
        }
    }

    /// Queues the item in `item` with its bytes, blocking this thread while there is no room.
    ///
    /// # Errors
    /// `Closed`, before or while it waits.
    pub fn push(&self, item: &mut Option<T>, bytes: &[u8]) -> Result<QueueTicket, QueueRefusal> {
        let mut state = self.state.lock();
        loop {
            match self.enter(&mut state, item, bytes, None) {
                Err(QueueRefusal::Full) => {}
                other => return other,
            }
            state.waiting.threads += 1;
            self.room.wait(&mut state);
            state.waiting.threads -= 1;
        }
    }

    /// Queues the item in `item` with its bytes. The task is woken when there may be room for it
    /// and, if it `waits` for the answer, when that is there.
    ///
    /// # Errors
    /// `Full`, `Closed`.
    pub fn poll_push(
        &self,
        item: &mut Option<T>,
        bytes: &[u8],
        cx: &Context<'_>,
        waits: bool,
    ) -> Result<QueueTicket, QueueRefusal> {
        let mut state = self.state.lock();
        let waker = waits.then(|| cx.waker());
        let entered = self.enter(&mut state, item, bytes, waker);
        if matches!(entered, Err(QueueRefusal::Full)) {
            state.waiting.register(cx.waker());
        }
        entered
    }

    fn enter(
        &self,
        state: &mut QueueState<T, X>,
        item: &mut Option<T>,
        bytes: &[u8],
        waker: Option<&Waker>,
    ) -> Result<QueueTicket, QueueRefusal> {
        if state.closed {
            return Err(QueueRefusal::Closed);
        }
        let lot = &mut state.lot;
        let first = lot.items.is_empty();
        let fits = lot.items.len() < self.capacity && lot.bytes.len() + bytes.len() <= MOST_BYTES;
        if !fits && !first {
            return Err(QueueRefusal::Full);
        }
        let Some(item) = item.take() else {
            unreachable!("nobody queues an item that is queued")
        };
        lot.bytes.extend_from_slice(bytes);
        lot.items.push((item, lot.bytes.len()));
        lot.wakers.extend(waker.cloned());
        lot.last += 1;
        Ok(QueueTicket {
            number: lot.last,
            woken: (waker.map_or((0, 0), identity), state.rounds),
            first,
        })
    }

    /// Returns the answer to an item, or registers the task to be woken when it arrives.
    pub fn poll(&self, asked: &mut QueueTicket, cx: &Context<'_>) -> Poll<QueueAnswer<X>> {
        if self.is_done(asked.number) {
            return Poll::Ready(QueueAnswer::Done);
        }
        let mut state = self.state.lock();
        if let Some(answer) = self.collect(&mut state, asked.number) {
            return Poll::Ready(answer);
        }
        // A task that polls again and again is noted once.
        let woken = (identity(cx.waker()), state.rounds);
        if woken != asked.woken {
            asked.woken = woken;
            state.late.push(cx.waker().clone());
        }
        Poll::Pending
    }

    /// Blocks this thread until the item is answered.
    pub fn wait(&self, asked: &QueueTicket) -> QueueAnswer<X> {
        if self.is_done(asked.number) {
            return QueueAnswer::Done;
        }
        let mut state = self.state.lock();
        loop {
            if let Some(answer) = self.collect(&mut state, asked.number) {
                return answer;
            }
            state.threads += 1;
            self.arrived.wait(&mut state);
            state.threads -= 1;
        }
    }

    /// Discards the answer to an item that was not collected.
    pub fn abandon(&self, asked: &QueueTicket) {
        if self.is_done(asked.number) {
            return;
        }
        let mut state = self.state.lock();
        if self.collect(&mut state, asked.number).is_none() {
            state.abandoned.insert(asked.number);
        }
    }

    /// True if an item is certainly answered as asked.
    fn is_done(&self, number: u64) -> bool {
        self.answered.load(Ordering::Acquire) >= number
            && !self.has_exceptions.load(Ordering::Relaxed)
    }

    fn collect(&self, state: &mut QueueState<T, X>, number: u64) -> Option<QueueAnswer<X>> {
        if self.answered.load(Ordering::Relaxed) >= number {
            let exception = state.exceptions.remove(&number);
            if exception.is_some() && state.exceptions.is_empty() {
                self.has_exceptions.store(false, Ordering::Relaxed);
            }
            return Some(exception.map_or(QueueAnswer::Done, QueueAnswer::Except));
        }
        state.ended.then_some(QueueAnswer::Gone)
    }

    /// The number of queued items.
    #[must_use]
    pub fn queued(&self) -> usize {
        self.state.lock().lot.items.len()
    }

    /// Swaps `lot`, emptied, with everything queued, and admits callers that wait for room. Waiting
    /// tasks are added to `wakers`, to be woken before the taken items are answered.
    pub fn take(&self, lot: &mut Lot<T>, wakers: &mut Vec<Waker>) {
        lot.empty();
        let mut state = self.state.lock();
        lot.last = state.lot.last;
        mem::swap(lot, &mut state.lot);
        self.admit(state, wakers);
    }

    fn admit(&self, mut state: MutexGuard<'_, QueueState<T, X>>, wakers: &mut Vec<Waker>) {
        let threads = state.waiting.threads;
        wakers.append(&mut state.waiting.all_tasks());
        drop(state);
        if threads > 0 {
            self.room.notify_all();
        }
    }

    /// Gives one item another answer than the one asked for. Must come before
    /// [`answer`](Self::answer) is called for its number.
    pub fn except(&self, number: u64, answer: X) {
        let mut state = self.state.lock();
        if state.abandoned.remove(&number) {
            drop(state);
            return drop(answer);
        }
        state.exceptions.insert(number, answer);
        self.has_exceptions.store(true, Ordering::Relaxed);
    }

    /// Answers every item up to a number. Wakers of callers that came to wait since their item was
    /// taken are added to `wakers`.
    pub fn answer(&self, upto: u64, wakers: &mut Vec<Waker>) {
        let mut state = self.state.lock();
        state.rounds += 1;
        wakers.append(&mut state.late);
        if !state.abandoned.is_empty() {
            state.abandoned.retain(|number| *number > upto);
        }
        self.answered.store(upto, Ordering::Release);
        let threads = state.threads;
        drop(state);
        if threads > 0 {
            self.arrived.notify_all();
        }
    }

    /// Refuses every later item. Queued items may still be taken. Wakers of tasks that wait for
    /// room are added to `wakers`.
    pub fn close(&self, wakers: &mut Vec<Waker>) {
        let mut state = self.state.lock();
        state.closed = true;
        self.admit(state, wakers);
    }

    /// Refuses every later item, and answers every unanswered item with [`Gone`](QueueAnswer::Gone).
    /// Wakers of all waiting tasks are added to `wakers`; the queued items are returned.
    pub fn end(&self, wakers: &mut Vec<Waker>) -> Lot<T> {
        let mut state = self.state.lock();
        (state.closed, state.ended) = (true, true);
        state.rounds += 1;
        wakers.append(&mut state.late);
        let mut left = mem::take(&mut state.lot);
        state.lot.last = left.last;
        wakers.append(&mut left.wakers);
        self.admit(state, wakers);
        self.arrived.notify_all();
        left
    }
}

impl<T> Default for Lot<T> {
    fn default() -> Self {
        Self {
            items: Vec::new(),
            bytes: Vec::new(),
            wakers: Vec::new(),
            last: 0,
        }
    }
}

impl<T> Lot<T> {
    /// Removes its contents, and keeps some of the room.
    pub fn empty(&mut self) {
        self.items.clear();
        self.bytes.clear();
        self.wakers.clear();
        self.items.shrink_to(KEPT.1);
        self.bytes.shrink_to(KEPT.0);
        self.wakers.shrink_to(KEPT.1);
    }
}

impl<T, X> std::fmt::Debug for Queue<T, X> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Queue").finish_non_exhaustive()
    }
}
