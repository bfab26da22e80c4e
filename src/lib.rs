//! sessionlog (skeleton)
#[cfg(not(target_pointer_width = "64"))]
compile_error!("sessionlog stores 64-bit positions in usize");

pub mod clock;
mod error;
mod handle;
#[cfg(any(feature = "testing", sessionlog_loom))]
#[doc(hidden)]
pub mod internals;
mod journal;
mod mailbox;
mod options;
mod reply;
mod session_file;
mod stats;
pub mod storage;
mod store;
mod sync;
mod migrate;
mod recovery;

pub use error::{Error, Result};
pub use handle::StoreHandle;
pub use migrate::{MigrationReport, migrate_from_json, migrate_from_json_report};
pub use options::{Durability, StoreOptions};
pub use recovery::RecoveryReport;
pub use reply::Reply;
pub use session_file::{
    Attachment, CacheControl, ExtraContent, FunctionCall, GoogleExtra, Message, SessionMeta,
    SystemPart, ToolCall,
};
pub use stats::StoreStats;
pub use store::Store;
