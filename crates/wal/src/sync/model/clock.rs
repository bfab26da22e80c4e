//! The time of a random schedule. It passes only while a thread waits for it; or it stands still,
//! and shows what would hang without it. Every thread of a run is a coroutine of one thread of the
//! system: it has one time.

use std::cell::Cell;
use std::time::Duration;

thread_local! {
    static NOW: Cell<Duration> = const { Cell::new(Duration::ZERO) };
    static PASSES: Cell<bool> = const { Cell::new(true) };
}

/// The number of looks that a waiting thread takes until its time is over, if no other thread's
/// passes.
const LOOKS: u32 = 8;

/// The time since [`reset`].
#[must_use]
pub fn now() -> Duration {
    NOW.get()
}

/// Records that a thread with this timeout looked once.
pub fn pass(timeout: Duration) {
    NOW.set(now() + (timeout / LOOKS).max(Duration::from_nanos(1)));
}

/// True if a wait can end because its time is over.
#[must_use]
pub fn passes() -> bool {
    PASSES.get()
}

/// Begins a run in which time passes or stands still.
pub fn reset(passes: bool) {
    NOW.set(Duration::ZERO);
    PASSES.set(passes);
}
