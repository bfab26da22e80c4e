//! A one-shot reply: one answer, awaited or waited for.

use super::wake::wake;
use super::{Condvar, Mutex, MutexGuard};
use std::mem;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

/// The side that owes the answer. If it is dropped unfulfilled, the promise is broken: the other
/// side gets `None` instead of waiting for ever.
#[derive(Debug)]
#[must_use = "dropping a promise breaks it"]
pub struct Promise<T>(Option<Arc<SlotState<T>>>);

/// The side that waits for the answer. Dropping it discards the answer.
#[derive(Debug)]
pub struct Slot<T>(Arc<SlotState<T>>);

#[derive(Debug)]
struct SlotState<T> {
    answer: Mutex<SlotAnswer<T>>,
    arrived: Condvar,
}

#[derive(Debug)]
enum SlotAnswer<T> {
    Owed(Option<Waker>),
    Given(T),
    /// The promise was dropped, or the answer was already collected.
    Gone,
}

/// A promise and the slot its answer arrives in.
pub fn slot<T>() -> (Promise<T>, Slot<T>) {
    let shared = Arc::new(SlotState {
        answer: Mutex::new(SlotAnswer::Owed(None)),
        arrived: Condvar::new(),
    });
    (Promise(Some(Arc::clone(&shared))), Slot(shared))
}

impl<T> Promise<T> {
    /// Stores the answer and wakes a blocked waiter.
    ///
    /// If a task waits, its waker is returned, for the caller to wake together with others; if it
    /// is not woken, the task sleeps for ever.
    #[must_use = "the returned waker must be woken"]
    pub fn fulfil(mut self, value: T) -> Option<Waker> {
        self.0.take()?.settle(SlotAnswer::Given(value))
    }
}

impl<T> Drop for Promise<T> {
    fn drop(&mut self) {
        let unfulfilled = self.0.take();
        if let Some(waker) = unfulfilled.and_then(|shared| shared.settle(SlotAnswer::Gone)) {
            wake(waker);
        }
    }
}

impl<T> Slot<T> {
    /// Blocks this thread until the answer arrives. `None` if the promise was
    /// broken.
    #[must_use]
    pub fn wait(self) -> Option<T> {
        let mut answer = self.0.answer.lock();
        loop {
            if let Poll::Ready(outcome) = collect(&mut answer) {
                return outcome;
            }
            self.0.arrived.wait(&mut answer);
        }
    }

    /// Returns the answer, or registers the task to be woken when it arrives; only the task that
    /// polled last is woken. `Ready(None)` if the promise was broken or the answer was already
    /// collected.
    pub fn poll(&self, cx: &mut Context<'_>) -> Poll<Option<T>> {
        let mut answer = self.0.answer.lock();
        let outcome = collect(&mut answer);
        // Registered under the lock that settling takes: an answer between a look and a
        // registration would wake no task.
        let replaced = match &mut *answer {
            SlotAnswer::Owed(Some(waker)) if waker.will_wake(cx.waker()) => None,
            SlotAnswer::Owed(waiter) => waiter.replace(cx.waker().clone()),
            SlotAnswer::Given(_) | SlotAnswer::Gone => None,
        };
        drop(answer);
        // The last reference to a task may run its destructors: not under the lock.
        drop(replaced);
        outcome
    }
}

impl<T> SlotState<T> {
    fn settle(&self, outcome: SlotAnswer<T>) -> Option<Waker> {
        let before = mem::replace(&mut *self.answer.lock(), outcome);
        self.arrived.notify_one();
        match before {
            SlotAnswer::Owed(waiter) => waiter,
            SlotAnswer::Given(_) | SlotAnswer::Gone => None,
        }
    }
}

fn collect<T>(answer: &mut MutexGuard<'_, SlotAnswer<T>>) -> Poll<Option<T>> {
    match mem::replace(&mut **answer, SlotAnswer::Gone) {
        SlotAnswer::Given(value) => Poll::Ready(Some(value)),
        SlotAnswer::Gone => Poll::Ready(None),
        owed @ SlotAnswer::Owed(_) => {
            **answer = owed;
            Poll::Pending
        }
    }
}

#[cfg(test)]
mod tests {
    use super::slot;
    use crate::sync::thread;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::{Context, Poll, Wake, Waker};

    #[derive(Default)]
    struct Wakes(AtomicUsize);

    impl Wake for Wakes {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn counted() -> (Arc<Wakes>, Waker) {
        let count = Arc::new(Wakes::default());
        (Arc::clone(&count), Waker::from(count))
    }

    #[test]
    fn an_answer_given_before_the_wait_is_collected() {
        let (promise, slot) = slot();
        assert!(promise.fulfil(7).is_none());
        assert_eq!(slot.wait(), Some(7));
    }

    #[test]
    fn a_blocked_thread_gets_the_answer() {
        let (promise, slot) = slot();
        let answering = thread::spawn("answering", move || {
            assert!(promise.fulfil(7).is_none());
        });
        assert_eq!(slot.wait(), Some(7));
        answering.unwrap().join().unwrap();
    }

    #[test]
    fn a_broken_promise_ends_a_wait_and_wakes_a_poller() {
        let (promise, waited) = slot::<u8>();
        drop(promise);
        assert_eq!(waited.wait(), None);

        let (promise, polled) = slot::<u8>();
        let (count, waker) = counted();
        let mut cx = Context::from_waker(&waker);
        assert_eq!(polled.poll(&mut cx), Poll::Pending);
        drop(promise);
        assert_eq!(count.0.load(Ordering::Relaxed), 1);
        assert_eq!(polled.poll(&mut cx), Poll::Ready(None));
    }

    #[test]
    fn the_task_that_polled_last_is_the_one_to_wake() {
        let (promise, slot) = slot();
        let (_, first) = counted();
        let (_, last) = counted();
        assert!(slot.poll(&mut Context::from_waker(&first)).is_pending());
        assert!(slot.poll(&mut Context::from_waker(&last)).is_pending());
        assert!(promise.fulfil(7).unwrap().will_wake(&last));
    }

    #[test]
    fn a_collected_answer_is_not_given_twice() {
        let (promise, slot) = slot();
        assert!(promise.fulfil(7).is_none());
        let mut cx = Context::from_waker(Waker::noop());
        assert_eq!(slot.poll(&mut cx), Poll::Ready(Some(7)));
        assert_eq!(slot.poll(&mut cx), Poll::Ready(None));
    }

    #[test]
    fn an_answer_for_a_dropped_slot_is_released() {
        let (promise, slot) = slot();
        drop(slot);
        let answer = Arc::new(7);
        assert!(promise.fulfil(Arc::clone(&answer)).is_none());
        assert_eq!(Arc::strong_count(&answer), 1);
    }
}
