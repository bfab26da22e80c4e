//! Waking a whole batch of async callers at the cost of a few.
//!
//! A wake-up from a thread outside the runtime goes through the runtime's shared queue, whose lock
//! the workers also use, and may have to rouse a sleeping worker. On a busy machine that takes a
//! microsecond each. A group commit answers hundreds of callers at once, so their wakers are handed
//! to one task, which wakes them from inside.
//!
//! No caller may hang because of that task. So it gets only the wakers of tokio tasks, and only
//! while all callers came from one runtime with threads of its own: such a task cannot run unless
//! its runtime has a free worker, and a free worker runs the hand-over too. A current-thread
//! runtime runs spawned tasks only while some thread blocks on it, but tasks of a `LocalSet` do not
//! need that. And anything else, such as a thread parked inside an async worker by a foreign
//! `block_on`, could be exactly what that worker waits for. Both are woken directly, which is only
//! slower.
//!
//! Wakers are foreign code, run on the store's threads: [`wake`] is the only place that calls them.
//! A panic in one ends there.

use super::{RwLock, thread};
use std::future::poll_fn;
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::ptr;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, RawWakerVTable, Wake, Waker};
use tokio::runtime::{Handle, RuntimeFlavor};

/// Fewer wakers than this are cheaper to wake one by one.
const HAND_OVER_MIN: usize = 4;

/// Remembers the tokio runtime of a store's async callers, and wakes them through it. Clones share
/// what they remember.
#[derive(Clone, Debug, Default)]
pub struct Runtime(Arc<Memory>);

#[derive(Debug, Default)]
struct Memory {
    home: RwLock<RuntimeHome>,
    /// The waker of a tokio task, for recognising others; learnt from the first hand-over, which
    /// sees its own.
    tokio_task: OnceLock<&'static RawWakerVTable>,
}

#[derive(Debug, Default)]
enum RuntimeHome {
    #[default]
    Unknown,
    One(Handle),
    /// Callers came from several runtimes: one of them may stand still while the others wait, so
    /// none wakes for the others. Or they came from one that has no threads of its own.
    Several,
}

impl Runtime {
    /// Remembers the runtime this is called in, if any.
    ///
    /// Call it from `poll` *before* the waker is registered anywhere: a second runtime must be
    /// known before one of its tasks can be woken.
    pub fn remember_current(&self) {
        let Ok(current) = Handle::try_current() else {
            return;
        };
        let known = match &*self.0.home.read() {
            RuntimeHome::Unknown => false,
            RuntimeHome::One(known) => known.id() == current.id(),
            RuntimeHome::Several => true,
        };
        if !known {
            self.0.settle_in(current);
        }
    }

    /// Wakes all of `wakers`, through the remembered runtime if that is both cheaper and safe.
    pub fn wake_all(&self, wakers: Vec<Waker>) {
        if wakers.len() < HAND_OVER_MIN {
            return wake_each(wakers);
        }
        let Some(home) = self.0.home() else {
            return wake_each(wakers);
        };
        let Some(&tokio_task) = self.0.tokio_task.get() else {
            home.spawn(WakeBatch::new(Vec::new(), &self.0, &home));
            return wake_each(wakers);
        };
        let (tasks, others): (Vec<_>, Vec<_>) = wakers
            .into_iter()
            .partition(|waker| ptr::eq(waker.vtable(), tokio_task));
        wake_each(others);
        if tasks.len() < HAND_OVER_MIN {
            wake_each(tasks);
        } else {
            home.spawn(WakeBatch::new(tasks, &self.0, &home));
        }
    }
}

impl Memory {
    fn home(&self) -> Option<Handle> {
        match &*self.home.read() {
            RuntimeHome::One(home) => Some(home.clone()),
            RuntimeHome::Unknown | RuntimeHome::Several => None,
        }
    }

    fn settle_in(&self, current: Handle) {
        let mut home = self.home.write();
        let next = match &*home {
            RuntimeHome::Unknown if has_threads(&current) => RuntimeHome::One(current),
            RuntimeHome::One(known) if known.id() == current.id() => return,
            RuntimeHome::Unknown | RuntimeHome::One(_) | RuntimeHome::Several => {
                RuntimeHome::Several
            }
        };
        let previous = mem::replace(&mut *home, next);
        // Dropping the last handle may drop the rest of its runtime: not under the lock, which a
        // hand-over dropped with it needs.
        drop(home);
        drop(previous);
    }

    /// Forgets a runtime that is gone, so that the next one can be remembered.
    fn move_out(&self, gone: &Handle) {
        let mut home = self.home.write();
        if !matches!(&*home, RuntimeHome::One(known) if known.id() == gone.id()) {
            return;
        }
        let previous = mem::take(&mut *home);
        drop(home);
        drop(previous);
    }
}

/// The task that wakes a batch from inside its runtime.
struct WakeBatch {
    wakers: Vec<Waker>,
    /// Present until the task has run.
    pending: Option<(Arc<Memory>, Handle)>,
}

impl WakeBatch {
    fn new(wakers: Vec<Waker>, memory: &Arc<Memory>, home: &Handle) -> Self {
        Self {
            wakers,
            pending: Some((Arc::clone(memory), home.clone())),
        }
    }
}

impl Future for WakeBatch {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if let Some((memory, _)) = self.pending.take() {
            memory.tokio_task.get_or_init(|| cx.waker().vtable());
        }
        wake_each(mem::take(&mut self.wakers));
        Poll::Ready(())
    }
}

/// A runtime that shuts down drops its tasks unrun. Callers elsewhere still wait for these
/// wake-ups.
impl Drop for WakeBatch {
    fn drop(&mut self) {
        if let Some((memory, home)) = self.pending.take() {
            memory.move_out(&home);
        }
        wake_each(mem::take(&mut self.wakers));
    }
}

fn has_threads(runtime: &Handle) -> bool {
    runtime.runtime_flavor() != RuntimeFlavor::CurrentThread
}

fn wake_each(wakers: Vec<Waker>) {
    wakers.into_iter().for_each(wake);
}

/// Wakes a task. Code run by a waker may not wait for a store, because it may run on the store's
/// thread. A panic in it is contained.
pub fn wake(waker: Waker) {
    contain(|| waker.wake());
}

fn contain(waking: impl FnOnce()) {
    let _serving = thread::serve();
    if let Err(panic) = catch_unwind(AssertUnwindSafe(waking)) {
        let panic = thread::panic_text(&*panic);
        tracing::error!(
            panic,
            "a waker panicked; the task that it would wake may hang"
        );
    }
}

/// Polls `future` so that its wakers are called as [`wake`] does.
pub(super) async fn contained<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    poll_fn(|cx| {
        let waker = Waker::from(Arc::new(ContainedWaker(cx.waker().clone())));
        future.as_mut().poll(&mut Context::from_waker(&waker))
    })
    .await
}

struct ContainedWaker(Waker);

impl Wake for ContainedWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        contain(|| self.0.wake_by_ref());
    }
}

#[cfg(test)]
mod tests;
