//! How answers reach an event loop of Python: one socket per loop, which the loop watches.
//!
//! A thread of the store that answers must never wait for the interpreter's lock: others wait
//! for that thread. So a waker only notes which answer came, and rouses the loop by a byte if
//! nobody did since it last looked. The loop then takes all answers that came meanwhile: a
//! group commit of a thousand appends costs one wake-up, and no thread stands between.

use std::io::{ErrorKind, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

use pyo3::exceptions::PyRuntimeError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyWeakrefReference};
use pyo3::{PyTraverseError, PyVisit};
use slab::Slab;

use crate::call::{Answer, Made};
use crate::process::{Owned, readers};

/// The answers that one event loop waits for. Only the loop keeps it, as what it watches: a
/// loop that was closed lets go of it, and with it of all that is still under way.
#[pyclass(frozen, weakref)]
pub(crate) struct Bridge {
    shared: Owned<Arc<Shared>>,
    receiver: UnixStream,
    /// By token. `None` while one is polled.
    pending: Mutex<Slab<Option<Pending>>>,
}

struct Pending {
    is_stream: bool,
    answer: Owned<Box<dyn Answer>>,
    future: Py<PyAny>,
    waker: Waker,
}

/// What wakers have of a bridge.
struct Shared {
    sender: UnixStream,
    /// Tokens of answers that came, perhaps more than once.
    woken: Mutex<Vec<usize>>,
    /// Whether the loop is roused already.
    is_roused: AtomicBool,
}

struct Signal {
    shared: Arc<Shared>,
    token: usize,
}

impl Wake for Signal {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        lock(&self.shared.woken).push(self.token);
        if !self.shared.is_roused.swap(true, Ordering::SeqCst) {
            // A full socket rouses as well. A loop that was closed hears nothing.
            let _ = (&self.shared.sender).write(&[0]);
        }
    }
}

impl Bridge {
    fn new() -> PyResult<Self> {
        let (sender, receiver) = UnixStream::pair()?;
        sender.set_nonblocking(true)?;
        receiver.set_nonblocking(true)?;
        Ok(Self {
            shared: Owned::new(Arc::new(Shared {
                sender,
                woken: Mutex::default(),
                is_roused: AtomicBool::new(false),
            })),
            receiver,
            pending: Mutex::default(),
        })
    }

    /// Asks for an answer; it comes to a future of the running loop.
    pub(crate) fn submit(
        py: Python<'_>,
        answer: Box<dyn Answer>,
        may_sync: bool,
    ) -> PyResult<Bound<'_, PyAny>> {
        static RUNNING: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
        let event_loop = RUNNING
            .import(py, "asyncio", "get_running_loop")?
            .call0()
            .map_err(|_| {
                PyRuntimeError::new_err(
                    "no event loop of asyncio runs on this thread: call this inside one, or use \
                     the store for threads (`sync`)",
                )
            })?;
        let bound = Self::of(py, &event_loop)?;
        let bridge = bound.get();
        let future = answer_of(py, &event_loop)?;

        let token = lock(&bridge.pending).insert(None);
        let shared = bridge.shared.get()?.clone();
        let is_stream = answer.is_stream();
        let mut pending = Pending {
            is_stream,
            answer: Owned::new(answer),
            future: future.clone().unbind(),
            waker: Waker::from(Arc::new(Signal { shared, token })),
        };
        let polled = {
            let pool = readers()?;
            if may_sync {
                py.detach(|| {
                    let _entered = pool.enter();
                    pending.poll()
                })
            } else {
                let _entered = pool.enter();
                pending.poll()
            }
        };
        let waits = polled.is_pending() && is_stream;
        bridge.settle(py, token, pending, polled)?;
        if waits {
            static PARTIAL: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
            let forget = bound.getattr(intern!(py, "forget"))?;
            let forget = PARTIAL
                .import(py, "functools", "partial")?
                .call1((forget, token))?;
            future.call_method1(intern!(py, "add_done_callback"), (forget,))?;
        }
        Ok(future)
    }

    /// The bridge of a loop, made at its first answer.
    fn of<'py>(py: Python<'py>, event_loop: &Bound<'py, PyAny>) -> PyResult<Bound<'py, Self>> {
        static BRIDGES: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
        let bridges = BRIDGES.get_or_try_init(py, || {
            let class = py.import("weakref")?.getattr("WeakKeyDictionary")?;
            Ok::<_, PyErr>(class.call0()?.unbind())
        })?;
        let bridges = bridges.bind(py);
        let found = bridges.call_method1(intern!(py, "get"), (event_loop,))?;
        if let Ok(found) = found.cast_into::<PyWeakrefReference>()
            && let Some(bridge) = found.upgrade_as::<Self>()?
        {
            bridge.get().shared.get()?;
            return Ok(bridge);
        }
        let bridge = Bound::new(py, Self::new()?)?;
        let descriptor = bridge.get().receiver.as_raw_fd();
        let drain = bridge.getattr(intern!(py, "drain"))?;
        event_loop.call_method1(intern!(py, "add_reader"), (descriptor, drain))?;
        bridges.set_item(event_loop, PyWeakrefReference::new(&bridge)?)?;
        Ok(bridge)
    }

    /// Gives the future its answer, or keeps it waiting.
    fn settle(
        &self,
        py: Python<'_>,
        token: usize,
        pending: Pending,
        polled: Poll<PyResult<Made>>,
    ) -> PyResult<()> {
        let Poll::Ready(made) = polled else {
            if let Some(slot) = lock(&self.pending).get_mut(token) {
                *slot = Some(pending);
            }
            return Ok(());
        };
        lock(&self.pending).try_remove(token);
        let future = pending.future.bind(py);
        // It was cancelled: what it waited for was done all the same.
        if future.call_method0(intern!(py, "done"))?.is_truthy()? {
            return Ok(());
        }
        match made.and_then(|made| made(py)) {
            Ok(value) => future.call_method1(intern!(py, "set_result"), (value,))?,
            Err(error) => {
                future.call_method1(intern!(py, "set_exception"), (error,))?;
                if pending.is_stream {
                    // Whoever stopped asking for more need not hear why there is no more.
                    future.call_method0(intern!(py, "exception"))?;
                }
                return Ok(());
            }
        };
        Ok(())
    }
}

/// A future of the loop that is also taken for a coroutine.
fn answer_of<'py>(py: Python<'py>, event_loop: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    static ANSWER: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let class = ANSWER.import(py, "sessionlog._answer", "Answer")?;
    let named = PyDict::new(py);
    named.set_item(intern!(py, "loop"), event_loop)?;
    class.call((), Some(&named))
}

impl Pending {
    fn poll(&mut self) -> Poll<PyResult<Made>> {
        match self.answer.get_mut() {
            Ok(answer) => answer.poll(&mut Context::from_waker(&self.waker)),
            Err(error) => Poll::Ready(Err(error)),
        }
    }
}

#[pymethods]
impl Bridge {
    /// Takes all answers that came since the last time. The loop calls it when roused.
    fn drain(&self, py: Python<'_>) -> PyResult<()> {
        let shared = self.shared.get()?;
        let mut bytes = [0; 64];
        loop {
            match (&self.receiver).read(&mut bytes) {
                Ok(read) if read == bytes.len() => {}
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                _ => break,
            }
        }
        // Before the tokens are taken: who comes after them rouses again.
        shared.is_roused.store(false, Ordering::SeqCst);
        let woken = std::mem::take(&mut *lock(&shared.woken));
        let pool = readers()?;
        // One that the loop does not take keeps no other from its answer.
        let mut outcome = Ok(());
        for token in woken {
            let taken = lock(&self.pending).get_mut(token).and_then(Option::take);
            let Some(mut pending) = taken else {
                continue;
            };
            let polled = {
                let _entered = pool.enter();
                pending.poll()
            };
            outcome = outcome.and(self.settle(py, token, pending, polled));
        }
        outcome
    }

    /// Lets go of what a cancelled future waited for.
    fn forget(&self, token: usize, future: &Bound<'_, PyAny>) -> PyResult<()> {
        if !future.call_method0("cancelled")?.is_truthy()? {
            return Ok(());
        }
        let mut pending = lock(&self.pending);
        // The token may be another's by now.
        let is_own = pending.get(token).is_some_and(|found| {
            let found = found.as_ref();
            found.is_some_and(|found| found.future.is(future))
        });
        let gone = is_own.then(|| pending.try_remove(token));
        // What it waited for may take locks of its own as it goes.
        drop(pending);
        drop(gone);
        Ok(())
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        if let Ok(pending) = self.pending.try_lock() {
            for (_, pending) in pending.iter() {
                if let Some(pending) = pending {
                    visit.call(&pending.future)?;
                }
            }
        }
        Ok(())
    }

    fn __clear__(&self) {
        let pending = self
            .pending
            .try_lock()
            .map(|mut pending| std::mem::take(&mut *pending));
        drop(pending);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
