//! The explored half: the same names over loom.
//!
//! Loom's limits shape the rest of the crate: a timed wait never expires, a
//! condition never wakes spuriously, at most five threads run (the model's own
//! included), and a `SeqCst` access is no stronger than `AcqRel`. Its locks poison
//! when a thread panics; ours do not, in either half.

pub mod map;
pub(super) mod watch;

use std::ops::{Deref, DerefMut};
use std::sync::{PoisonError, TryLockError};
use std::time::Duration;

/// A mutual exclusion lock; see the production type.
#[derive(Debug)]
pub struct Mutex<T>(loom::sync::Mutex<T>);

/// Access to what a [`Mutex`] guards. Empty only inside [`Condvar::wait`].
#[derive(Debug)]
pub struct MutexGuard<'a, T>(Option<loom::sync::MutexGuard<'a, T>>);

impl<T> Mutex<T> {
    /// An unlocked mutex around `value`.
    pub fn new(value: T) -> Self {
        Self(loom::sync::Mutex::new(value))
    }

    /// Blocks this thread until it holds the lock.
    pub fn lock(&self) -> MutexGuard<'_, T> {
        MutexGuard(Some(self.0.lock().unwrap_or_else(PoisonError::into_inner)))
    }

    /// What it guards; see the production type.
    pub fn into_inner(self) -> T {
        self.0.into_inner().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the lock if nobody holds it; see the production type.
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        match self.0.try_lock() {
            Ok(held) => Some(MutexGuard(Some(held))),
            Err(TryLockError::Poisoned(held)) => Some(MutexGuard(Some(held.into_inner()))),
            Err(TryLockError::WouldBlock) => None,
        }
    }
}

impl<T> Deref for MutexGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.0.as_ref().expect("held outside of a wait")
    }
}

impl<T> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        self.0.as_mut().expect("held outside of a wait")
    }
}

/// Lets threads sleep until a change is reported; see the production type.
#[derive(Debug, Default)]
pub struct Condvar(loom::sync::Condvar);

impl Condvar {
    /// A condition nobody waits for yet.
    #[must_use]
    pub fn new() -> Self {
        Self(loom::sync::Condvar::new())
    }

    /// Releases the lock, sleeps until notified, and takes the lock again.
    #[expect(clippy::missing_panics_doc, reason = "a guard is empty only in here")]
    pub fn wait<T>(&self, guard: &mut MutexGuard<'_, T>) {
        let held = guard.0.take().expect("held outside of a wait");
        guard.0 = Some(self.0.wait(held).unwrap_or_else(PoisonError::into_inner));
    }

    /// As [`wait`](Self::wait): under loom time never runs out, so a model
    /// proves that progress does not depend on it.
    pub fn wait_timeout<T>(&self, guard: &mut MutexGuard<'_, T>, _timeout: Duration) -> bool {
        self.wait(guard);
        false
    }

    /// Wakes one waiting thread, if there is one.
    pub fn notify_one(&self) {
        self.0.notify_one();
    }

    /// Wakes every waiting thread.
    pub fn notify_all(&self) {
        self.0.notify_all();
    }
}

/// Many readers or one writer; see the production type.
#[derive(Debug)]
pub struct RwLock<T>(loom::sync::RwLock<T>);

/// Shared access to what a [`RwLock`] guards.
#[derive(Debug)]
pub struct RwLockReadGuard<'a, T>(loom::sync::RwLockReadGuard<'a, T>);

/// Exclusive access to what a [`RwLock`] guards.
#[derive(Debug)]
pub struct RwLockWriteGuard<'a, T>(loom::sync::RwLockWriteGuard<'a, T>);

impl<T> RwLock<T> {
    /// An unlocked lock around `value`.
    pub fn new(value: T) -> Self {
        Self(loom::sync::RwLock::new(value))
    }

    /// Blocks until no writer holds the lock.
    pub fn read(&self) -> RwLockReadGuard<'_, T> {
        RwLockReadGuard(self.0.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Blocks until nobody holds the lock.
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
    pub use loom::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
}

/// Threads that loom schedules.
pub mod thread {
    use std::io;

    /// See the production type. Nothing here: loom's threads share the locals of
    /// one, and models wait wherever they want to.
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

    /// A running thread.
    #[derive(Debug)]
    pub struct JoinHandle(loom::thread::JoinHandle<()>);

    /// Starts a thread called `name`.
    ///
    /// # Errors
    /// Never; a fifth thread fails the model instead.
    pub fn spawn(name: &str, body: impl FnOnce() + Send + 'static) -> io::Result<JoinHandle> {
        loom::thread::Builder::new()
            .name(name.to_owned())
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

    /// Always 1: a model must not depend on the machine that runs it.
    #[must_use]
    pub fn available_parallelism() -> usize {
        1
    }
}
