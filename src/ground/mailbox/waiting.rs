//! Who waits for room in a full mailbox.

use std::collections::{HashSet, VecDeque};
use std::mem;
use std::ptr;
use std::task::Waker;

/// Senders that found the mailbox full, threads and tasks.
///
/// A task that was cancelled cannot be told from one that still waits, so a
/// wake-up can be wasted. That strands nobody as long as somebody is woken
/// again later: see [`admit`](Self::admit).
#[derive(Default)]
pub(super) struct Waiting {
    pub(super) threads: usize,
    tasks: VecDeque<Waker>,
    /// The identities in `tasks`. A task that polls again while it waits must
    /// not queue twice, or a busy poll loop would grow the queue without end.
    known: HashSet<(usize, usize)>,
}

/// Whom to wake once the lock is released.
pub(super) struct Admitted {
    pub(super) threads: usize,
    pub(super) tasks: Vec<Waker>,
}

impl Waiting {
    pub(super) fn register(&mut self, waker: &Waker) {
        if self.known.insert(identity(waker)) {
            self.tasks.push_back(waker.clone());
        }
    }

    /// Picks whom to wake after `freed` places became free.
    ///
    /// While items are left another drain follows, so as many as have room are
    /// enough. An emptied mailbox is drained again only if somebody sends: then
    /// every task is woken, or the rest would wait for a cancelled one.
    pub(super) fn admit(&mut self, freed: usize, items_left: bool) -> Admitted {
        let threads = self.threads.min(freed);
        if !items_left || freed >= self.tasks.len() {
            return Admitted {
                threads,
                tasks: self.all_tasks(),
            };
        }
        let tasks: Vec<_> = self.tasks.drain(..freed).collect();
        for waker in &tasks {
            self.known.remove(&identity(waker));
        }
        Admitted { threads, tasks }
    }

    pub(super) fn all_tasks(&mut self) -> Vec<Waker> {
        self.known.clear();
        mem::take(&mut self.tasks).into()
    }
}

/// Equal exactly for wakers that wake the same task, while one of them is held.
fn identity(waker: &Waker) -> (usize, usize) {
    (waker.data().addr(), ptr::from_ref(waker.vtable()).addr())
}

#[cfg(test)]
mod tests {
    use super::Waiting;
    use std::sync::Arc;
    use std::task::{Wake, Waker};

    struct Task;

    impl Wake for Task {
        fn wake(self: Arc<Self>) {}
    }

    fn tasks<const N: usize>() -> [Waker; N] {
        std::array::from_fn(|_| Waker::from(Arc::new(Task)))
    }

    #[test]
    fn a_task_queues_once_until_it_is_woken() {
        let [task] = tasks();
        let mut waiting = Waiting::default();
        waiting.register(&task);
        waiting.register(&task);
        assert_eq!(waiting.admit(9, true).tasks.len(), 1);
        waiting.register(&task);
        assert_eq!(waiting.admit(9, true).tasks.len(), 1);
    }

    #[test]
    fn as_many_as_have_room_are_woken_in_order_while_items_are_left() {
        let [first, second, third] = tasks();
        let mut waiting = Waiting::default();
        for task in [&first, &second, &third] {
            waiting.register(task);
        }
        let woken = waiting.admit(2, true).tasks;
        assert!(woken[0].will_wake(&first) && woken[1].will_wake(&second));
        assert!(waiting.admit(2, true).tasks[0].will_wake(&third));
    }

    #[test]
    fn an_emptied_mailbox_wakes_every_task() {
        let [first, second, third] = tasks();
        let mut waiting = Waiting::default();
        for task in [&first, &second, &third] {
            waiting.register(task);
        }
        assert_eq!(waiting.admit(1, false).tasks.len(), 3);
    }
}
