//! The answer to a verb: lazy, awaited or waited for.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use crate::engine::Engine;
use crate::engine::shard::request::{Command, Verb};
use crate::error::{Error, Result};
use crate::front::appending::Appending;
use crate::ground::sync::slot::{Slot, slot};
use crate::ground::sync::thread;

/// A verb's answer.
///
/// Lazy: the command is submitted when the reply is first polled or waited for,
/// as soon as its shard's inbox has room, and never if the reply is dropped
/// before: that is told to the log, at level `debug`. Once submitted it is carried out, whether or not anyone still waits
/// for the answer.
///
/// In async code `.await` it, under any runtime; on a plain thread call
/// [`wait`](Self::wait). A poll blocks for nothing but locks held for microseconds and,
/// if the store is idle and the command buffered, one write of at most 64 KiB to the page
/// cache; it never syncs, unless the store is told that it
/// [may](crate::StoreOptions::sync_in_poll). Who waits on a thread may sync there. Commands for one session take effect in the order in
/// which they were submitted, so that who waits for one reply before asking for
/// the next gets their own order. So does who polls several in turn, as long as the
/// inbox has room for all that are queued: it holds 1,024 commands and 16 MiB of lines, those
/// of other sessions of the shard among them, or one that is larger. A reply that finds it full keeps no
/// place in line; one polled later may be submitted first. What belongs together
/// in one order beyond that goes into one
/// [`append_all`](crate::StoreHandle::append_all), or is awaited. Dropped after a
/// poll, a reply has been submitted unless the inbox was full.
#[must_use = "nothing happens until the reply is awaited or waited for"]
pub struct Reply<T> {
    state: State<T>,
    unasked: Unasked,
}

/// Whether nobody asked yet. Dropped so, it says to the log that nothing was done: a
/// forgotten `.await` loses what was to be written.
struct Unasked(bool);

impl Unasked {
    fn asked(&mut self) {
        self.0 = false;
    }
}

impl Drop for Unasked {
    fn drop(&mut self) {
        if self.0 {
            tracing::debug!("a reply was dropped that nobody asked for: nothing was done");
        }
    }
}

enum State<T> {
    Known(Option<Result<T>>),
    Command(Submission<T>),
    /// And what it comes to.
    Append(Appending, fn() -> T),
    Lookup(Option<Lookup<T>>),
    Running(Pin<Box<dyn Future<Output = Result<T>> + Send>>),
}

struct Submission<T> {
    command: Option<Command>,
    /// Whether the command's key is still to be resolved.
    resolve: bool,
    slot: Slot<Result<T>>,
    engine: Arc<Engine>,
}

/// Work that starts when the reply is first asked for.
pub(crate) type Lookup<T> =
    Box<dyn FnOnce(Place) -> Pin<Box<dyn Future<Output = Result<T>> + Send>> + Send>;

/// Where a look-up may block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// On the thread that asks: it waits anyway.
    Here,
    /// Not on the thread that asks: it runs other tasks.
    Elsewhere,
}

impl<T: Send + 'static> Reply<T> {
    /// Submits the command, if that has not happened yet, and blocks this
    /// thread until the answer arrives. There is no time limit; a store that is
    /// closed or poisoned answers everyone. Not for async code, whose thread it
    /// would block.
    ///
    /// # Errors
    /// As the verb documents; [`Error::WouldDeadlock`] on a thread that works for a
    /// store, as in a waker.
    pub fn wait(mut self) -> Result<T> {
        self.unasked.asked();
        match self.state {
            State::Known(result) => result.unwrap_or(Err(Error::Closed)),
            _ if thread::is_serving() => Err(Error::WouldDeadlock),
            State::Command(submission) => submission.wait(),
            State::Append(appending, then) => appending.wait().map(|()| then()),
            State::Lookup(Some(lookup)) => pollster::block_on(lookup(Place::Here)),
            State::Lookup(None) => Err(Error::Closed),
            State::Running(future) => pollster::block_on(future),
        }
    }

    /// An answer that is there already.
    pub fn ready(result: Result<T>) -> Self {
        Self::known(result)
    }

    /// The answer that `work` comes to, polled where the reply is. For stores of
    /// one's own behind a [`SessionStore`](crate::backend::SessionStore); a
    /// future that blocks, blocks who awaits it.
    pub fn from_future(work: impl Future<Output = Result<T>> + Send + 'static) -> Self {
        Self::of(State::Running(Box::pin(work)), true)
    }

    /// What `then` makes of the answer.
    pub(crate) fn and_then<U: Send + 'static>(
        mut self,
        then: impl FnOnce(T) -> Result<U> + Send + 'static,
    ) -> Reply<U> {
        // The other one tells.
        self.unasked.asked();
        Reply::lookup(move |place| Box::pin(async move { then(self.at(place).await?) }))
    }

    /// The answer, with what blocks done at `place`.
    pub(crate) async fn at(mut self, place: Place) -> Result<T> {
        self.unasked.asked();
        match self.state {
            State::Lookup(Some(lookup)) => lookup(place).await,
            state => Self::of(state, false).await,
        }
    }

    pub(crate) fn known(result: Result<T>) -> Self {
        Self::of(State::Known(Some(result)), false)
    }

    fn of(state: State<T>, is_unasked: bool) -> Self {
        Self {
            state,
            unasked: Unasked(is_unasked),
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
        Self::of(State::Command(submission), true)
    }

    /// The same for the session that the key means when it is submitted.
    pub(crate) fn resolving(mut self) -> Self {
        if let State::Command(submission) = &mut self.state {
            submission.resolve = true;
        }
        self
    }

    pub(crate) fn lookup(
        start: impl FnOnce(Place) -> Pin<Box<dyn Future<Output = Result<T>> + Send>> + Send + 'static,
    ) -> Self {
        Self::of(State::Lookup(Some(Box::new(start))), true)
    }
}

impl Reply<()> {
    /// Appends lines.
    pub(crate) fn append(appending: Appending) -> Self {
        Self::of(State::Append(appending, || ()), true)
    }
}

impl<T> Submission<T> {
    /// Once only: an alias of an alias leads nowhere.
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
                State::Known(result) => {
                    return Poll::Ready(result.take().unwrap_or(Err(Error::Closed)));
                }
                State::Command(submission) => return submission.poll(cx),
                State::Append(appending, then) => {
                    return appending.poll(cx).map_ok(|()| then());
                }
                State::Running(future) => return future.as_mut().poll(cx),
                State::Lookup(lookup) => {
                    let Some(lookup) = lookup.take() else {
                        return Poll::Ready(Err(Error::Closed));
                    };
                    self.state = State::Running(lookup(Place::Elsewhere));
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
