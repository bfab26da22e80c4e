//! The engine's inside, for its own tests and models. No stability promise.

/// Locks, atomics, threads and replies.
pub mod sync {
    pub use crate::sync::*;
}

/// Queues between threads.
pub mod mailbox {
    pub use crate::mailbox::*;
}

/// The journal.
pub mod journal {
    pub use crate::journal::*;
}

/// A store without threads.
#[cfg(not(sessionlog_loom))]
pub mod sim {
    pub use crate::sim::*;
}
