//! The production half: newtypes over `parking_lot` and std.

#![expect(clippy::disallowed_types, reason = "this is the seam")]

use std::ops::{Deref, DerefMut};
use std::time::Duration;

/// A mutual exclusion lock without poisoning. Never held across I/O if another thread waits for it.
#[derive(Debug, Default)]
pub struct Mutex<T>(parking_lot::Mutex<T>);

/// Access to the value of a [`Mutex`]; releases the lock when dropped.
#[derive(Debug)]
pub struct MutexGuard<'a, T>(parking_lot::MutexGuard<'a, T>);

impl<T> Mutex<T> {
    /// An unlocked mutex around `value`.
    pub const fn new(value: T) -> Self {
        Self(parking_lot::Mutex::new(value))
    }

    /// An unlocked mutex that some callers only [try](Self::try_lock) for: models also explore its
    /// release.
    pub const fn tried(value: T) -> Self {
        Self::new(value)
    }

    /// Blocks this thread until it holds the lock.
    pub fn lock(&self) -> MutexGuard<'_, T> {
        MutexGuard(self.0.lock())
    }

    /// Takes the lock, made by [`tried`](Self::tried), if no thread holds it. `None` means that a
    /// thread held it, and nothing about what that thread did since.
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        self.0.try_lock().map(MutexGuard)
    }
}

impl<T> Deref for MutexGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.0
    }
}

/// Lets threads sleep until another one reports a change under a [`Mutex`].
///
/// Every wait belongs in a loop over its predicate: a wake-up promises nothing.
#[derive(Debug, Default)]
pub struct Condvar(parking_lot::Condvar);

impl Condvar {
    /// A condition without waiting threads.
    #[must_use]
    pub const fn new() -> Self {
        Self(parking_lot::Condvar::new())
    }

    /// Releases the lock, sleeps until notified, and takes the lock again.
    pub fn wait<T>(&self, guard: &mut MutexGuard<'_, T>) {
        self.0.wait(&mut guard.0);
    }

    /// As [`wait`](Self::wait), for at most `timeout`. True if the time ran out.
    pub fn wait_timeout<T>(&self, guard: &mut MutexGuard<'_, T>, timeout: Duration) -> bool {
        self.0.wait_for(&mut guard.0, timeout).timed_out()
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

/// Many readers or one writer, without poisoning. Never held across I/O.
#[derive(Debug, Default)]
pub struct RwLock<T>(parking_lot::RwLock<T>);

/// Shared access to the value of a [`RwLock`].
#[derive(Debug)]
pub struct RwLockReadGuard<'a, T>(parking_lot::RwLockReadGuard<'a, T>);

/// Exclusive access to the value of a [`RwLock`].
#[derive(Debug)]
pub struct RwLockWriteGuard<'a, T>(parking_lot::RwLockWriteGuard<'a, T>);

impl<T> RwLock<T> {
    /// An unlocked lock around `value`.
    pub const fn new(value: T) -> Self {
        Self(parking_lot::RwLock::new(value))
    }

    /// Blocks until no writer holds the lock.
    ///
    /// Not recursive: a second read lock on the same thread deadlocks when a
    /// writer queued in between.
    pub fn read(&self) -> RwLockReadGuard<'_, T> {
        RwLockReadGuard(self.0.read())
    }

    /// Blocks until no thread holds the lock.
    pub fn write(&self) -> RwLockWriteGuard<'_, T> {
        RwLockWriteGuard(self.0.write())
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

/// A hash map shared by threads, with a lock for every part of it. A looked-up value stays locked
/// for as long as it is held.
pub mod map {
    pub use dashmap::DashMap as Map;
    pub use dashmap::mapref::one::RefMut;
}

/// Atomic numbers and flags.
pub mod atomic {
    pub use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
}

/// Operating-system threads.
pub mod thread {
    use std::any::Any;
    use std::cell::Cell;
    use std::io;
    use std::marker::PhantomData;

    thread_local! {
        static SERVING: Cell<usize> = const { Cell::new(0) };
    }

    /// While this lives, its thread works for a store.
    #[derive(Debug)]
    #[must_use = "the thread serves for as long as it lives"]
    pub struct Serving(PhantomData<*const ()>);

    /// Marks this thread as one that works for a store: it must not wait for an answer that it may
    /// have to give itself.
    pub fn serve() -> Serving {
        SERVING.with(|depth| depth.set(depth.get() + 1));
        Serving(PhantomData)
    }

    /// True if this thread works for a store.
    #[must_use]
    pub fn is_serving() -> bool {
        // A thread whose locals are gone is ending; it works for no store.
        SERVING.try_with(|depth| depth.get() > 0).unwrap_or(false)
    }

    impl Drop for Serving {
        fn drop(&mut self) {
            // Nothing to undo if the thread's locals are gone.
            let _ = SERVING.try_with(|depth| depth.set(depth.get() - 1));
        }
    }

    /// A running thread. Dropping the handle lets it run on unattended.
    #[derive(Debug)]
    pub struct JoinHandle(std::thread::JoinHandle<()>);

    /// Starts a thread called `name`.
    ///
    /// # Errors
    /// When the system refuses another thread.
    pub fn spawn(name: &str, body: impl FnOnce() + Send + 'static) -> io::Result<JoinHandle> {
        // The standard library's part is compiled once, not for each body.
        let body: Box<dyn FnOnce() + Send> = Box::new(body);
        std::thread::Builder::new()
            .name(name.to_owned())
            .spawn(body)
            .map(JoinHandle)
    }

    impl JoinHandle {
        /// Blocks until the thread ended.
        ///
        /// # Errors
        /// The text of the panic that ended it.
        pub fn join(self) -> Result<(), String> {
            self.0.join().map_err(|panic| panic_text(&*panic))
        }
    }

    /// Lets this thread sleep. Only for changes that no other thread can report.
    #[expect(clippy::disallowed_methods, reason = "no event tells of it")]
    pub fn pause(time: std::time::Duration) {
        std::thread::sleep(time);
    }

    /// Runs both, at the same time if the system has a thread for it.
    pub fn both<A: Send, B>(one: impl FnOnce() -> A + Send, other: impl FnOnce() -> B) -> (A, B) {
        let (one, done) = (super::Mutex::new(Some(one)), super::Mutex::new(None));
        let do_one = || {
            let one = one.lock().take();
            if let Some(one) = one {
                let answer = one();
                *done.lock() = Some(answer);
            }
        };
        let other = std::thread::scope(|scope| {
            let body: Box<dyn FnOnce() + Send + '_> = Box::new(do_one);
            let thread = std::thread::Builder::new().spawn_scoped(scope, body);
            let other = other();
            if let Ok(thread) = thread
                && let Err(panic) = thread.join()
            {
                std::panic::resume_unwind(panic);
            }
            other
        });
        // No thread took it.
        do_one();
        match done.lock().take() {
            Some(done) => (done, other),
            None => unreachable!("it is done once, here or on the thread"),
        }
    }

    /// The number of threads that could run at once here when it was first asked for; at least 1.
    /// The standard library reads the process's control groups each time, which takes a tenth of
    /// opening a small store.
    #[must_use]
    pub fn available_parallelism() -> usize {
        static PARALLELISM: std::sync::OnceLock<usize> = std::sync::OnceLock::new();
        *PARALLELISM
            .get_or_init(|| std::thread::available_parallelism().map_or(1, std::num::NonZero::get))
    }

    /// The text of a panic.
    #[must_use]
    pub fn panic_text(panic: &(dyn Any + Send)) -> String {
        if let Some(text) = panic.downcast_ref::<&str>() {
            (*text).to_owned()
        } else if let Some(text) = panic.downcast_ref::<String>() {
            text.clone()
        } else {
            String::from("panicked with a value that is not text")
        }
    }

    #[cfg(test)]
    mod tests {
        use super::spawn;

        #[test]
        fn join_returns_the_text_of_a_panic() {
            let formatted = spawn("formatted", || panic!("lost {}", 3)).unwrap();
            assert_eq!(formatted.join(), Err(String::from("lost 3")));
            let literal = spawn("literal", || panic!("lost")).unwrap();
            assert_eq!(literal.join(), Err(String::from("lost")));
        }

        #[test]
        fn a_thread_carries_its_name() {
            let named = spawn("shard-07", || {
                assert_eq!(std::thread::current().name(), Some("shard-07"));
            });
            assert_eq!(named.unwrap().join(), Ok(()));
        }
    }
}
