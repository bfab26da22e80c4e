//! Callers that wait for room in a full mailbox.

use std::collections::{HashSet, VecDeque};
use std::mem;
use std::ptr;
use std::task::Waker;

/// Senders that found the mailbox full, threads and tasks.
///
/// A cancelled task cannot be distinguished from one that still waits: all are woken whenever there
/// is room.
#[derive(Default)]
pub(super) struct Waiters {
    pub(super) threads: usize,
    tasks: VecDeque<Waker>,
    /// The identities in `tasks`. A task that polls again while it waits must
    /// not queue twice, or a busy poll loop would grow the queue without end.
    known: HashSet<WakerId>,
}

impl Waiters {
    pub(super) fn register(&mut self, waker: &Waker) {
        if self.known.insert(identity(waker)) {
            self.tasks.push_back(waker.clone());
        }
    }

    pub(super) fn all_tasks(&mut self) -> Vec<Waker> {
        self.known.clear();
        mem::take(&mut self.tasks).into()
    }
}

/// Distinguishes wakers.
pub(super) type WakerId = (usize, usize);

/// Equal exactly for wakers that wake the same task, while one of them is held.
pub(super) fn identity(waker: &Waker) -> WakerId {
    (waker.data().addr(), ptr::from_ref(waker.vtable()).addr())
}

#[cfg(test)]
mod tests {
    use super::Waiters;
    use std::sync::Arc;
    use std::task::{Wake, Waker};

    struct Task;

    impl Wake for Task {
        fn wake(self: Arc<Self>) {}
    }

    #[test]
    fn a_task_queues_once_until_it_is_woken() {
        let task = Waker::from(Arc::new(Task));
        let mut waiting = Waiters::default();
        waiting.register(&task);
        waiting.register(&task);
        assert_eq!(waiting.all_tasks().len(), 1);
        waiting.register(&task);
        assert_eq!(waiting.all_tasks().len(), 1);
    }
}
