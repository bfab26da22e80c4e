//! Floor 4: what users hold.

pub(crate) mod appending;
pub mod backend;
pub(crate) mod changes;
pub(crate) mod context;
pub(crate) mod erase;
pub(crate) mod handle;
pub(crate) mod published;
pub(crate) mod reply;
pub(crate) mod retention;
pub(crate) mod search;
pub(crate) mod session;
pub(crate) mod sessions;
pub(crate) mod snapshot;
pub(crate) mod store;
pub(crate) mod watch;
pub(crate) mod window;
