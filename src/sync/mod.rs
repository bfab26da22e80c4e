//! Locks.

/// A lock that does not poison.
#[derive(Debug, Default)]
#[expect(clippy::disallowed_types, reason = "this is the seam")]
pub(crate) struct Mutex<T>(parking_lot::Mutex<T>);

impl<T> Mutex<T> {
    /// Wraps a value.
    #[expect(clippy::disallowed_types, reason = "this is the seam")]
    pub(crate) fn new(value: T) -> Self {
        Self(parking_lot::Mutex::new(value))
    }

    /// Waits for the lock and holds it until the guard is dropped.
    pub(crate) fn lock(&self) -> parking_lot::MutexGuard<'_, T> {
        self.0.lock()
    }
}
