//! (skeleton)
mod message;
mod sidecar;
pub use message::Message;
pub use sidecar::SessionMeta;
