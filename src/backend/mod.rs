//! Session stores behind one trait: the engine, memory, and PicoClaw's older
//! files. A gateway holds an `Arc<dyn SessionStore>` and does not know which it
//! has.

mod book;
mod desk;
mod ephemeral;
mod files;
mod fire_and_forget;
mod jsonl;
mod legacy_json;
mod open;
mod page;
mod store;
mod verbs;

pub use ephemeral::{EphemeralOptions, EphemeralStore};
pub use fire_and_forget::{FireAndForget, fire_and_forget};
pub use jsonl::JsonlBackend;
pub use legacy_json::LegacyJsonStore;
#[cfg(any(feature = "testing", sessionlog_loom))]
pub(crate) use open::open_on;
pub use open::{open_session_store, open_session_store_with};
pub use store::{SessionStore, StoreKind};
