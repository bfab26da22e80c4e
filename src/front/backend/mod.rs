//! Session stores behind one trait: the engine, memory, and PicoClaw's older files. A gateway holds
//! an `Arc<dyn SessionStore>` and does not know which one it has.
//!
//! Every verb returns its errors. PicoClaw's session layer logs most of its own and goes on: a
//! failed write counts as done, and a failed read shows an empty session. A caller that cannot
//! handle errors does the same in a line. Three verbs are exceptions. From `ensure_session_metadata`
//! [`Error::ScopeConflict`](crate::Error::ScopeConflict) must reach the caller: the session belongs to
//! another conversation. PicoClaw returns the errors of `save` and `close`, too.
//!
//! ```
//! use sessionlog::backend::{EphemeralStore, SessionStore};
//!
//! fn logged<T: Default>(what: &str, result: sessionlog::Result<T>) -> T {
//!     result.unwrap_or_else(|error| {
//!         eprintln!("{what} failed; going on: {error}");
//!         T::default()
//!     })
//! }
//!
//! let chats = EphemeralStore::new();
//! logged("add_message", chats.add_message("", "user", "for nobody").wait());
//! assert!(logged("history", chats.history("").wait()).is_empty());
//! ```

pub(crate) mod book;
pub(crate) mod desk;
mod ephemeral;
mod jsonl;
pub mod kit;
mod open;
pub(crate) mod page;
pub(crate) mod store;
pub(crate) mod verbs;

pub use crate::compat::legacy_store::LegacyJsonStore;
pub use ephemeral::{EphemeralOptions, EphemeralStore};
pub use jsonl::JsonlBackend;
#[cfg(any(feature = "testing", sessionlog_loom))]
pub(crate) use open::open_on;
pub use open::{open_session_store, open_session_store_with};
pub use store::{SessionStore, StoreKind};
