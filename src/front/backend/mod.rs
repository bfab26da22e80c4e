//! Session stores behind one trait: the engine, memory, and PicoClaw's older files. A gateway holds
//! an `Arc<dyn SessionStore>` and does not know which one it has.

pub(crate) mod book;
pub(crate) mod desk;
mod ephemeral;
mod fire_and_forget;
mod jsonl;
pub mod kit;
mod open;
pub(crate) mod page;
pub(crate) mod store;
pub(crate) mod verbs;

pub use crate::compat::legacy_store::LegacyJsonStore;
pub use ephemeral::{EphemeralOptions, EphemeralStore};
pub use fire_and_forget::{FireAndForget, fire_and_forget};
pub use jsonl::JsonlBackend;
#[cfg(any(feature = "testing", sessionlog_loom))]
pub(crate) use open::open_on;
pub use open::{open_session_store, open_session_store_with};
pub use store::{SessionStore, StoreKind};
