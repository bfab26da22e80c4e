//! The time of a random schedule: it passes while a thread waits for it, and only then;
//! or it stands still, and shows what would hang but for the time.
//! Every thread of a run is a coroutine of one thread of the system: it has one time.

use std::cell::Cell;
use std::time::Duration;

thread_local! {
    static NOW: Cell<Duration> = const { Cell::new(Duration::ZERO) };
    static PASSES: Cell<bool> = const { Cell::new(true) };
}

/// Looks that somebody who waits takes until their time is over, if nobody else's passes.
const LOOKS: u32 = 8;

/// The time since [`reset`].
#[must_use]
pub fn now() -> Duration {
    NOW.get()
}

/// Somebody who waits so long has looked once.
pub fn pass(timeout: Duration) {
    NOW.set(now() + (timeout / LOOKS).max(Duration::from_nanos(1)));
}

/// Whether a wait ever ends because its time is over.
#[must_use]
pub fn passes() -> bool {
    PASSES.get()
}

/// A run begins, in which time passes or does not.
pub fn reset(passes: bool) {
    NOW.set(Duration::ZERO);
    PASSES.set(passes);
}
