//! A verb that Python called: lazy, like the `Reply` in it.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker, ready};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use pyo3::BoundObject;
use pyo3::exceptions::{PyRuntimeError, PyTimeoutError};
use pyo3::prelude::*;
use sessionlog::{Message, Reply};
use tokio::task::JoinHandle;

use crate::bridge::Bridge;
use crate::errors;
use crate::json::Messages;
use crate::process::{Owned, readers};

/// How long a thread that waits for what may never come looks away from signals.
const SIGNALS: Duration = Duration::from_millis(50);

/// More messages than this are encoded off the event loop.
const MANY: usize = 64;

/// What an answer comes to, once the interpreter is there to make it.
pub(crate) type Made = Box<dyn FnOnce(Python<'_>) -> PyResult<Py<PyAny>> + Send>;

/// An answer that is on its way.
pub(crate) trait Answer: Send {
    /// Blocks until it is there, for `timeout` at most if it is one of a stream.
    fn wait(self: Box<Self>, py: Python<'_>, timeout: Option<Duration>) -> PyResult<Made>;

    /// Asks for it; the first call submits the command.
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<PyResult<Made>>;

    /// Whether nothing is done by it: if its future is cancelled, nobody waits for it.
    fn is_stream(&self) -> bool {
        false
    }
}

/// A verb that was called, and is carried out once it is waited for or submitted.
#[pyclass(frozen)]
pub(crate) struct Call {
    answer: Mutex<Option<Owned<Box<dyn Answer>>>>,
    may_sync: bool,
}

impl Call {
    pub(crate) fn new(answer: impl Answer + 'static) -> Self {
        Self {
            answer: Mutex::new(Some(Owned::new(Box::new(answer)))),
            may_sync: false,
        }
    }

    /// The call of a verb, and what Python gets for its answer.
    pub(crate) fn of<T: Send + 'static>(
        reply: Reply<T>,
        then: impl FnOnce(Python<'_>, T) -> PyResult<Py<PyAny>> + Send + 'static,
    ) -> Self {
        Self::new(Mapped {
            reply: Some(reply),
            then: Some(then),
        })
    }

    /// The call of a verb that only tells that it is done.
    pub(crate) fn done(reply: Reply<()>) -> Self {
        Self::of(reply, |py, ()| Ok(py.None()))
    }

    /// The call of a verb whose answer Python knows.
    pub(crate) fn plain<T>(reply: Reply<T>) -> Self
    where
        T: for<'py> IntoPyObject<'py> + Send + 'static,
    {
        Self::of(reply, plain)
    }

    /// The call of a verb that reads messages.
    pub(crate) fn messages(reply: Reply<Vec<Message>>, is_raw: bool) -> Self {
        Self::new(Reading {
            state: ReadState::Asked(Some(reply)),
            is_raw,
        })
    }

    /// Work that blocks: it runs where it is waited for, or on the pool.
    pub(crate) fn work<T: Send + 'static>(
        work: impl FnOnce() -> sessionlog::Result<T> + Send + 'static,
        then: impl FnOnce(Python<'_>, T) -> PyResult<Py<PyAny>> + Send + 'static,
    ) -> Self {
        Self::new(Work {
            state: WorkState::New(Some(Box::new(work))),
            then: Some(then),
        })
    }

    /// The next of a stream, for which a thread may wait forever.
    pub(crate) fn next(next: impl Future<Output = PyResult<Made>> + Send + 'static) -> Self {
        Self::new(Next(Box::pin(next)))
    }

    /// The same call, which may sync in a poll: Python's other threads go on meanwhile.
    pub(crate) fn may_sync(mut self, may_sync: bool) -> Self {
        self.may_sync = may_sync;
        self
    }

    fn take(&self) -> PyResult<Box<dyn Answer>> {
        let answer = self
            .answer
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        let answer = answer.ok_or_else(|| PyRuntimeError::new_err("a call is made once"))?;
        answer.into_inner()
    }
}

#[pymethods]
impl Call {
    /// Carries it out and blocks until the answer is there.
    #[pyo3(signature = (timeout=None))]
    fn wait(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<Py<PyAny>> {
        let timeout = timeout.map(Duration::try_from_secs_f64).transpose();
        let timeout = timeout.map_err(|error| errors::invalid(&error.to_string()))?;
        self.take()?.wait(py, timeout)?(py)
    }

    /// Carries it out; the answer comes to a future of the running event loop.
    fn submit<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let answer = self.take()?;
        Bridge::submit(py, answer, self.may_sync)
    }
}

/// A value that Python knows.
pub(crate) fn plain<T: for<'py> IntoPyObject<'py>>(
    py: Python<'_>,
    value: T,
) -> PyResult<Py<PyAny>> {
    let value = value.into_pyobject(py).map_err(Into::into)?;
    Ok(value.into_bound().into_any().unbind())
}

struct Mapped<T, F> {
    reply: Option<Reply<T>>,
    then: Option<F>,
}

impl<T, F> Mapped<T, F>
where
    T: Send + 'static,
    F: FnOnce(Python<'_>, T) -> PyResult<Py<PyAny>> + Send + 'static,
{
    fn made(&mut self, answer: sessionlog::Result<T>) -> PyResult<Made> {
        let value = answer.map_err(|error| errors::raise(&error))?;
        let then = self.then.take().ok_or_else(over)?;
        Ok(Box::new(move |py| then(py, value)))
    }
}

impl<T, F> Answer for Mapped<T, F>
where
    T: Send + 'static,
    F: FnOnce(Python<'_>, T) -> PyResult<Py<PyAny>> + Send + 'static,
{
    fn wait(mut self: Box<Self>, py: Python<'_>, _: Option<Duration>) -> PyResult<Made> {
        let reply = self.reply.take().ok_or_else(over)?;
        let answer = py.detach(|| reply.wait());
        self.made(answer)
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<PyResult<Made>> {
        let Some(reply) = &mut self.reply else {
            return Poll::Ready(Err(over()));
        };
        let answer = ready!(Pin::new(reply).poll(context));
        Poll::Ready(self.made(answer))
    }
}

enum ReadState {
    Asked(Option<Reply<Vec<Message>>>),
    Encoding(JoinHandle<Messages>),
}

struct Reading {
    state: ReadState,
    is_raw: bool,
}

fn read(messages: Messages) -> Made {
    Box::new(move |py| messages.to_python(py))
}

impl Answer for Reading {
    fn wait(mut self: Box<Self>, py: Python<'_>, _: Option<Duration>) -> PyResult<Made> {
        let ReadState::Asked(reply) = &mut self.state else {
            return Err(over());
        };
        let reply = reply.take().ok_or_else(over)?;
        py.detach(|| {
            let messages = reply.wait().map_err(|error| errors::raise(&error))?;
            Ok(read(Messages::new(&messages, self.is_raw)))
        })
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<PyResult<Made>> {
        if let ReadState::Asked(reply) = &mut self.state {
            let Some(reply) = reply else {
                return Poll::Ready(Err(over()));
            };
            let messages = match ready!(Pin::new(reply).poll(context)) {
                Ok(messages) => messages,
                Err(error) => return Poll::Ready(Err(errors::raise(&error))),
            };
            let is_raw = self.is_raw;
            if messages.len() <= MANY {
                return Poll::Ready(Ok(read(Messages::new(&messages, is_raw))));
            }
            let pool = match readers() {
                Ok(pool) => pool,
                Err(error) => return Poll::Ready(Err(error)),
            };
            let encode = pool.spawn_blocking(move || Messages::new(&messages, is_raw));
            self.state = ReadState::Encoding(encode);
        }
        let ReadState::Encoding(encode) = &mut self.state else {
            return Poll::Ready(Err(over()));
        };
        let messages = ready!(Pin::new(encode).poll(context));
        let messages = messages.map_err(|error| PyRuntimeError::new_err(error.to_string()));
        Poll::Ready(messages.map(read))
    }
}

type Job<T> = Box<dyn FnOnce() -> sessionlog::Result<T> + Send>;

enum WorkState<T> {
    New(Option<Job<T>>),
    Under(JoinHandle<sessionlog::Result<T>>),
}

struct Work<T, F> {
    state: WorkState<T>,
    then: Option<F>,
}

impl<T, F> Work<T, F>
where
    T: Send + 'static,
    F: FnOnce(Python<'_>, T) -> PyResult<Py<PyAny>> + Send + 'static,
{
    fn made(&mut self, answer: sessionlog::Result<T>) -> PyResult<Made> {
        let value = answer.map_err(|error| errors::raise(&error))?;
        let then = self.then.take().ok_or_else(over)?;
        Ok(Box::new(move |py| then(py, value)))
    }
}

impl<T, F> Answer for Work<T, F>
where
    T: Send + 'static,
    F: FnOnce(Python<'_>, T) -> PyResult<Py<PyAny>> + Send + 'static,
{
    fn wait(mut self: Box<Self>, py: Python<'_>, _: Option<Duration>) -> PyResult<Made> {
        let WorkState::New(job) = &mut self.state else {
            return Err(over());
        };
        let job = job.take().ok_or_else(over)?;
        let answer = py.detach(job);
        self.made(answer)
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<PyResult<Made>> {
        if let WorkState::New(job) = &mut self.state {
            let Some(job) = job.take() else {
                return Poll::Ready(Err(over()));
            };
            match readers() {
                Ok(pool) => self.state = WorkState::Under(pool.spawn_blocking(job)),
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
        let WorkState::Under(job) = &mut self.state else {
            return Poll::Ready(Err(over()));
        };
        let answer = match ready!(Pin::new(job).poll(context)) {
            Ok(answer) => self.made(answer),
            Err(error) => Err(PyRuntimeError::new_err(error.to_string())),
        };
        Poll::Ready(answer)
    }
}

struct Next(Pin<Box<dyn Future<Output = PyResult<Made>> + Send>>);

impl Answer for Next {
    /// The interpreter looks at signals now and then, so that Ctrl-C ends it.
    fn wait(mut self: Box<Self>, py: Python<'_>, timeout: Option<Duration>) -> PyResult<Made> {
        let waker = Waker::from(Arc::new(Parked(thread::current())));
        // One so late that no clock shows it never comes.
        let end = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        loop {
            let next = &mut self.0;
            let is_over = end.is_some_and(|end| Instant::now() >= end);
            let polled = py.detach(|| {
                let polled = next.as_mut().poll(&mut Context::from_waker(&waker));
                if polled.is_pending() && !is_over {
                    let left = end.map(|end| end.saturating_duration_since(Instant::now()));
                    thread::park_timeout(left.unwrap_or(SIGNALS).min(SIGNALS));
                }
                polled
            });
            match polled {
                Poll::Ready(made) => return made,
                Poll::Pending if is_over => return Err(PyTimeoutError::new_err("nothing came")),
                Poll::Pending => py.check_signals()?,
            }
        }
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<PyResult<Made>> {
        self.0.as_mut().poll(context)
    }

    fn is_stream(&self) -> bool {
        true
    }
}

/// Wakes a thread that is parked.
struct Parked(Thread);

impl Wake for Parked {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

fn over() -> PyErr {
    PyRuntimeError::new_err("the answer was given already")
}
