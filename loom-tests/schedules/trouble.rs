//! What goes wrong in a run, and what callers may be told because of it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use sessionlog::Error;
use sessionlog::testing::disk_model::MemoryStorage;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    None,
    /// The disk fills up: who is refused has changed nothing.
    Full,
    /// A call fails. Who is told so does not know what it came to.
    Failing,
}

#[derive(Clone)]
pub(crate) struct Trouble {
    pub(crate) kind: Kind,
    pub(crate) storage: MemoryStorage,
    /// Whether the store is being closed.
    pub(crate) closing: Arc<AtomicBool>,
}

impl Trouble {
    /// Asserts that there is a reason for an error. A caller whom nobody answers any more is
    /// told that the store is closed: that may not be before it is.
    pub(crate) fn excuses(&self, error: &Error, whom: &str) {
        let excused = match error {
            Error::Closed => self.closing.load(Ordering::Relaxed),
            Error::StorageFull { .. } => self.kind == Kind::Full,
            other => {
                let failed = self.kind == Kind::Failing && self.storage.faults_hit() > 0;
                failed && !other.to_string().contains("panicked")
            }
        };
        assert!(excused, "{whom}: {error}");
    }
}

/// Whether what was asked for has not happened, and will not.
pub(crate) fn is_refusal(error: &Error) -> bool {
    matches!(error, Error::StorageFull { .. } | Error::Closed)
}
