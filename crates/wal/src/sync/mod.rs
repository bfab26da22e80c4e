//! Locks, atomics and threads: the only door to them, and the only place that uses loom.
//!
//! Production uses `parking_lot` and std. Under `cfg(sessionlog_loom)` the same names are loom's,
//! so the models in `loom-tests/` explore the code that ships. They are newtypes because clippy's
//! `disallowed_types` sees through re-exports: only a newtype makes the ban on other locks
//! enforceable.
//!
//! `Arc` is std's everywhere: loom's cannot hold a `dyn` value. So loom does not explore reference
//! counts, only the value of an `Arc`.

#[cfg(not(sessionlog_loom))]
mod native;
#[cfg(not(sessionlog_loom))]
use native as imp;

#[cfg(sessionlog_loom)]
mod model;
#[cfg(sessionlog_loom)]
use model as imp;

mod published;
pub mod slot;
pub mod wake;
pub mod watch;

pub use imp::{Condvar, Mutex, MutexGuard, RwLock, atomic, map, thread};
#[cfg(all(sessionlog_loom, feature = "shuttle"))]
pub use model::clock;
pub use published::PublishedValue;
