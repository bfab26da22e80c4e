//! The answer to a verb: lazy, to be awaited or waited for.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use sessionlog_core::error::{Error, Result};
use sessionlog_wal::sync::slot::{Slot, slot};
use sessionlog_wal::sync::thread;

use crate::engine::Engine;
use crate::engine::shard::request::{Command, Verb};
use crate::front::appending::Appending;

/// A verb's answer.
///
/// Lazy: the command is submitted when the reply is first polled or waited for, as soon as its
/// shard's inbox has room. If the reply is dropped before that, the command is never submitted, and
/// the log says so at level `debug`. Once submitted it is carried out, even if no task waits for
/// the answer any more.
///
/// In async code `.await` it, under any runtime; on a plain thread call [`wait`](Self::wait). A
/// poll blocks only for locks held for microseconds and, if the store is idle and the command
/// buffered, for one write of at most 64 KiB to the page cache. It never syncs, unless the store is
/// told that it [may](crate::StoreOptions::sync_in_poll). A thread that waits may sync there.
///
/// Commands for one session take effect in the order in which they were submitted. A caller that
/// waits for each reply before asking for the next gets its own order. So does a caller that polls
/// several replies in turn, as long as the inbox has room for all that are queued: it holds 1,024
/// commands and 16 MiB of lines, or one larger command, including those of the shard's other
/// sessions. A reply that finds the inbox full keeps no place in line; one polled later may be
/// submitted first. To keep more than that in one order, use one
/// [`append_all`](crate::StoreHandle::append_all), or await each reply. A reply dropped after a
/// poll has been submitted, unless the inbox was full.
#[must_use = "nothing happens until the reply is awaited or waited for"]
pub struct Reply<T> {
    state: ReplyState<T>,
    unasked: UnaskedFlag,
}

/// True until the reply is asked for. If it is dropped before, the log says that nothing was done:
/// a forgotten `.await` loses the data to be written.
struct UnaskedFlag(bool);

impl UnaskedFlag {
    fn asked(&mut self) {
        self.0 = false;
    }
}

impl Drop for UnaskedFlag {
    fn drop(&mut self) {
        if self.0 {
            tracing::debug!("a reply was dropped that nobody asked for: nothing was done");
        }
    }
}

enum ReplyState<T> {
    Known(Option<Result<T>>),
    Command(Submission<T>),
    /// An append, and the value that it returns.
    Append(Appending, fn() -> T),
    Lookup(Option<Lookup<T>>),
    Running(Pin<Box<dyn Future<Output = Result<T>> + Send>>),
}

struct Submission<T> {
    command: Option<Command>,
    /// True if the command's key is still to be resolved.
    resolve: bool,
    slot: Slot<Result<T>>,
    engine: Arc<Engine>,
}

/// Work that starts when the reply is first asked for.
pub(crate) type Lookup<T> =
    Box<dyn FnOnce(LookupPlace) -> Pin<Box<dyn Future<Output = Result<T>> + Send>> + Send>;

/// The place where a look-up may block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LookupPlace {
    /// On the thread that asks: it waits anyway.
    Here,
    /// Not on the thread that asks: it runs other tasks.
    Elsewhere,
}

impl<T: Send + 'static> Reply<T> {
    /// Submits the command, if that has not happened yet, and blocks this thread until the answer
    /// arrives. There is no time limit; a store that is closed or poisoned answers everyone. Not
    /// for async code: it would block the executor's thread.
    ///
    /// # Errors
    /// As the verb documents; [`Error::WouldDeadlock`] on a thread that works for a
    /// store, as in a waker.
    pub fn wait(mut self) -> Result<T> {
        self.unasked.asked();
        match self.state {
            ReplyState::Known(result) => result.unwrap_or(Err(Error::Closed)),
            _ if thread::is_serving() => Err(Error::WouldDeadlock),
            ReplyState::Command(submission) => submission.wait(),
            ReplyState::Append(appending, then) => appending.wait().map(|()| then()),
            ReplyState::Lookup(Some(lookup)) => pollster::block_on(lookup(LookupPlace::Here)),
            ReplyState::Lookup(None) => Err(Error::Closed),
            ReplyState::Running(future) => pollster::block_on(future),
        }
    }

    /// A reply with an answer that is there already.
    pub fn ready(result: Result<T>) -> Self {
        Self::known(result)
    }

    /// A reply with the result of `work`, which is polled where the reply is. For custom stores
    /// behind a [`SessionStore`](crate::backend::SessionStore). If the future blocks, it blocks the
    /// task that awaits it.
    pub fn from_future(work: impl Future<Output = Result<T>> + Send + 'static) -> Self {
        Self::of(ReplyState::Running(Box::pin(work)), true)
    }

    /// A reply with the result of `then` on the answer.
    pub(crate) fn and_then<U: Send + 'static>(
        mut self,
        then: impl FnOnce(T) -> Result<U> + Send + 'static,
    ) -> Reply<U> {
        // The new reply does the logging.
        self.unasked.asked();
        Reply::lookup(move |place| Box::pin(async move { then(self.at(place).await?) }))
    }

    /// The answer; blocking work is done at `place`.
    pub(crate) async fn at(mut self, place: LookupPlace) -> Result<T> {
        self.unasked.asked();
        match self.state {
            ReplyState::Lookup(Some(lookup)) => lookup(place).await,
            state => Self::of(state, false).await,
        }
    }

    pub(crate) fn known(result: Result<T>) -> Self {
        Self::of(ReplyState::Known(Some(result)), false)
    }

    fn of(state: ReplyState<T>, is_unasked: bool) -> Self {
        Self {
            state,
            unasked: UnaskedFlag(is_unasked),
        }
    }

    /// Asks the owner of the session `key`.
    pub(crate) fn command<V: Verb<Output = T>>(
        engine: Arc<Engine>,
        key: Arc<str>,
        verb: V,
    ) -> Self {
        let (promise, slot) = slot();
        let submission = Submission {
            command: Some(Command::new(key, verb, promise)),
            resolve: false,
            slot,
            engine,
        };
        Self::of(ReplyState::Command(submission), true)
    }

    /// Makes the command resolve its key when it is submitted.
    pub(crate) fn resolving(mut self) -> Self {
        if let ReplyState::Command(submission) = &mut self.state {
            submission.resolve = true;
        }
        self
    }

    pub(crate) fn lookup(
        start: impl FnOnce(LookupPlace) -> Pin<Box<dyn Future<Output = Result<T>> + Send>>
        + Send
        + 'static,
    ) -> Self {
        Self::of(ReplyState::Lookup(Some(Box::new(start))), true)
    }
}

impl Reply<()> {
    /// Appends lines.
    pub(crate) fn append(appending: Appending) -> Self {
        Self::of(ReplyState::Append(appending, || ()), true)
    }
}

impl<T> Submission<T> {
    /// Resolves the key once only: an alias of an alias leads nowhere.
    fn address(&mut self) {
        if std::mem::take(&mut self.resolve)
            && let Some(command) = &mut self.command
            && let Some(key) = self.engine.shared.catalog.resolve_other(&command.key)
        {
            command.key = key;
        }
    }

    fn wait(mut self) -> Result<T> {
        self.address();
        if let Some(command) = self.command.take() {
            self.engine.submit(command)?;
        }
        self.slot
            .wait()
            .unwrap_or_else(|| Err(self.engine.failure()))
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<T>> {
        self.address();
        if ready!(self.engine.poll_submit(cx, &mut self.command)).is_err() {
            return Poll::Ready(Err(self.engine.failure()));
        }
        self.slot
            .poll(cx)
            .map(|answer| answer.unwrap_or_else(|| Err(self.engine.failure())))
    }
}

// Nothing in a reply is pinned in place: the only future in it is boxed.
impl<T> Unpin for Reply<T> {}

impl<T> Future for Reply<T> {
    type Output = Result<T>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<T>> {
        self.unasked.asked();
        loop {
            match &mut self.state {
                ReplyState::Known(result) => {
                    return Poll::Ready(result.take().unwrap_or(Err(Error::Closed)));
                }
                ReplyState::Command(submission) => return submission.poll(cx),
                ReplyState::Append(appending, then) => {
                    return appending.poll(cx).map_ok(|()| then());
                }
                ReplyState::Running(future) => return future.as_mut().poll(cx),
                ReplyState::Lookup(lookup) => {
                    let Some(lookup) = lookup.take() else {
                        return Poll::Ready(Err(Error::Closed));
                    };
                    self.state = ReplyState::Running(lookup(LookupPlace::Elsewhere));
                }
            }
        }
    }
}

impl<T> std::fmt::Debug for Reply<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reply").finish_non_exhaustive()
    }
}
