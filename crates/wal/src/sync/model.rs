//! The explored half: the same names over loom, or over shuttle if
//! the feature `shuttle` is on as well.
//!
//! Loom explores every schedule of a few threads. Its limits shape the rest of the
//! crate: a timed wait never expires, a condition never wakes spuriously, at most five
//! threads run (the model's own included), and a `SeqCst` access is no stronger than
//! `AcqRel`. Shuttle runs one schedule of many threads, at random; every access is
//! `SeqCst`, and [time](clock) passes while threads wait for it. The locks of both poison
//! when a thread panics; ours do not, in either half.

#[cfg(feature = "shuttle")]
pub mod clock;
pub mod map;
pub(super) mod watch;

#[cfg(not(feature = "shuttle"))]
pub(crate) use loom as explorer;
#[cfg(feature = "shuttle")]
pub(crate) use shuttle as explorer;

use std::ops::{Deref, DerefMut};
use std::sync::{PoisonError, TryLockError};
use std::time::Duration;

/// A mutual exclusion lock; see the production type.
#[derive(Debug)]
pub struct Mutex<T> {
    lock: explorer::sync::Mutex<T>,
    edges: Option<Edges>,
}

/// Access to the value of a [`Mutex`]. Empty only inside [`Condvar::wait`].
#[derive(Debug)]
pub struct MutexGuard<'a, T> {
    held: Option<explorer::sync::MutexGuard<'a, T>>,
    mutex: &'a Mutex<T>,
}

/// The points where a lock is about to be released, and where it is tried for. For loom, a release
/// is not an event: without these, no thread would ever try for a lock when its holder has done
/// everything except release it. Only locks that are tried for have them: to a thread that waits
/// for a lock, the two are one moment, and every additional one costs schedules. Swapped, not
/// loaded: loom lets a load see any older value, one schedule for each.
#[derive(Debug)]
struct Edges(explorer::sync::atomic::AtomicBool);

impl Edges {
    fn meet(&self) {
        if !std::thread::panicking() {
            self.0.swap(true, atomic::Ordering::Relaxed);
        }
    }
}

impl<T> Mutex<T> {
    /// An unlocked mutex around `value`.
    pub fn new(value: T) -> Self {
        Self {
            lock: explorer::sync::Mutex::new(value),
            edges: None,
        }
    }

    /// An unlocked mutex that some callers only [try](Self::try_lock) for; see the production
    /// function.
    pub fn tried(value: T) -> Self {
        let edges = Edges(explorer::sync::atomic::AtomicBool::new(false));
        Self {
            lock: explorer::sync::Mutex::new(value),
            // Shuttle sees both by itself.
            edges: (!cfg!(feature = "shuttle")).then_some(edges),
        }
    }

    /// Blocks this thread until it holds the lock.
    pub fn lock(&self) -> MutexGuard<'_, T> {
        self.guard(self.lock.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Takes the lock if no thread holds it; see the production type.
    ///
    /// # Panics
    /// If it was not made by [`tried`](Self::tried): a model would miss schedules.
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        assert!(
            self.edges.is_some() || cfg!(feature = "shuttle"),
            "made by `new`"
        );
        self.meet();
        match self.lock.try_lock() {
            Ok(held) => Some(self.guard(held)),
            Err(TryLockError::Poisoned(held)) => Some(self.guard(held.into_inner())),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    fn meet(&self) {
        if let Some(edges) = &self.edges {
            edges.meet();
        }
    }

    fn guard<'a>(&'a self, held: explorer::sync::MutexGuard<'a, T>) -> MutexGuard<'a, T> {
        MutexGuard {
            held: Some(held),
            mutex: self,
        }
    }
}

impl<T> Drop for MutexGuard<'_, T> {
    fn drop(&mut self) {
        self.mutex.meet();
    }
}

impl<T> Deref for MutexGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.held.as_ref().expect("held outside of a wait")
    }
}

impl<T> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        self.held.as_mut().expect("held outside of a wait")
    }
}

/// Lets threads sleep until a change is reported; see the production type.
#[derive(Debug, Default)]
pub struct Condvar {
    told: explorer::sync::Condvar,
    /// The number of notifications; threads that wait with a timeout look at it.
    #[cfg(feature = "shuttle")]
    times: std::sync::atomic::AtomicUsize,
}

impl Condvar {
    /// A condition without waiting threads.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Releases the lock, sleeps until notified, and takes the lock again.
    #[expect(clippy::missing_panics_doc, reason = "a guard is empty only in here")]
    pub fn wait<T>(&self, guard: &mut MutexGuard<'_, T>) {
        assert!(
            guard.mutex.edges.is_none(),
            "nobody sees where it is given up"
        );
        let held = guard.held.take().expect("held outside of a wait");
        let woken = self.told.wait(held);
        guard.held = Some(woken.unwrap_or_else(PoisonError::into_inner));
    }

    /// As [`wait`](Self::wait). Under loom time never runs out, so a model proves that progress
    /// does not depend on it.
    #[cfg(not(feature = "shuttle"))]
    pub fn wait_timeout<T>(&self, guard: &mut MutexGuard<'_, T>, _timeout: Duration) -> bool {
        self.wait(guard);
        false
    }

    /// As [`wait`](Self::wait), for at most `timeout` if time passes. True if it ran out.
    #[cfg(feature = "shuttle")]
    pub fn wait_timeout<T>(&self, guard: &mut MutexGuard<'_, T>, timeout: Duration) -> bool {
        use atomic::Ordering::Relaxed;
        if !clock::passes() {
            self.wait(guard);
            return false;
        }
        let until = clock::now() + timeout;
        guard.held = None;
        // In the same step as the lock is released: a thread notified earlier is not waiting.
        let times = self.times.load(Relaxed);
        let timed_out = loop {
            shuttle::thread::yield_now();
            if self.times.load(Relaxed) != times {
                break false;
            }
            if clock::now() >= until {
                break true;
            }
            clock::pass(timeout);
        };
        let held = guard.mutex.lock.lock();
        guard.held = Some(held.unwrap_or_else(PoisonError::into_inner));
        timed_out
    }

    /// Wakes one waiting thread, if there is one.
    pub fn notify_one(&self) {
        self.told.notify_one();
        self.count();
    }

    /// Wakes every waiting thread.
    pub fn notify_all(&self) {
        self.told.notify_all();
        self.count();
    }

    fn count(&self) {
        #[cfg(feature = "shuttle")]
        self.times.fetch_add(1, atomic::Ordering::Relaxed);
    }
}

/// Many readers or one writer; see the production type.
#[derive(Debug)]
pub struct RwLock<T>(explorer::sync::RwLock<T>);

/// Shared access to the value of a [`RwLock`].
#[derive(Debug)]
pub struct RwLockReadGuard<'a, T>(explorer::sync::RwLockReadGuard<'a, T>);

/// Exclusive access to the value of a [`RwLock`].
#[derive(Debug)]
pub struct RwLockWriteGuard<'a, T>(explorer::sync::RwLockWriteGuard<'a, T>);

impl<T> RwLock<T> {
    /// An unlocked lock around `value`.
    pub fn new(value: T) -> Self {
        Self(explorer::sync::RwLock::new(value))
    }

    /// Blocks until no writer holds the lock.
    pub fn read(&self) -> RwLockReadGuard<'_, T> {
        RwLockReadGuard(self.0.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Blocks until no thread holds the lock.
    pub fn write(&self) -> RwLockWriteGuard<'_, T> {
        RwLockWriteGuard(self.0.write().unwrap_or_else(PoisonError::into_inner))
    }
}

impl<T: Default> Default for Mutex<T> {
    fn default() -> Self {
        Self::new(T::default())
    }
}

impl<T: Default> Default for RwLock<T> {
    fn default() -> Self {
        Self::new(T::default())
    }
}

impl<T> Deref for RwLockReadGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T> Deref for RwLockWriteGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T> DerefMut for RwLockWriteGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.0
    }
}

/// Atomic numbers and flags, with the weak memory orders explored.
pub mod atomic {
    use super::explorer;

    pub use explorer::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
}

/// Threads that the explorer schedules.
pub mod thread {
    use std::io;

    use super::explorer;

    /// See the production type. Does nothing: loom's threads share the locals of one thread, and
    /// models wait wherever they want.
    #[derive(Debug)]
    #[must_use = "the thread serves for as long as it lives"]
    pub struct Serving;

    /// See the production function.
    pub fn serve() -> Serving {
        Serving
    }

    /// Always false.
    #[must_use]
    pub fn is_serving() -> bool {
        false
    }

    /// See the production function.
    #[must_use]
    pub fn panic_text(_panic: &(dyn std::any::Any + Send)) -> String {
        String::from("panicked")
    }

    /// loom passes this on to a crate that counts in words. Its own default, 32 KiB, may be too
    /// small for a worker that panics.
    const STACK_WORDS: usize = (1 << 18) / size_of::<usize>();

    /// A running thread.
    #[derive(Debug)]
    pub struct JoinHandle(explorer::thread::JoinHandle<()>);

    /// Starts a thread called `name`.
    ///
    /// # Errors
    /// Never; a fifth thread fails the model instead.
    pub fn spawn(name: &str, body: impl FnOnce() + Send + 'static) -> io::Result<JoinHandle> {
        explorer::thread::Builder::new()
            .name(name.to_owned())
            .stack_size(STACK_WORDS)
            .spawn(body)
            .map(JoinHandle)
    }

    impl JoinHandle {
        /// Blocks until the thread ended.
        ///
        /// # Errors
        /// Never; a panic fails the whole model.
        pub fn join(self) -> Result<(), String> {
            self.0.join().map_err(|_| String::from("panicked"))
        }
    }

    /// Time does not pass.
    pub fn pause(_time: std::time::Duration) {}

    /// Does one, then the other.
    pub fn both<A: Send, B>(one: impl FnOnce() -> A + Send, other: impl FnOnce() -> B) -> (A, B) {
        (one(), other())
    }

    /// Always 1: a model must not depend on the machine that runs it.
    #[must_use]
    pub fn available_parallelism() -> usize {
        1
    }
}
