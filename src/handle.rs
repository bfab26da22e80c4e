//! StoreHandle (skeleton).
use serde_json::value::RawValue;
use crate::{Durability, Message, Reply, SessionMeta, StoreStats};

/// A cloneable handle.
#[derive(Clone, Debug)]
pub struct StoreHandle {}

#[allow(unused_variables, missing_docs)]
impl StoreHandle {
    /// The same store, with another level of durability for its writes.
    pub fn with_durability(&self, level: Durability) -> StoreHandle { unimplemented!() }
    /// The same store, taking keys literally: no alias resolution.
    pub fn exact_keys(&self) -> StoreHandle { unimplemented!() }
    pub fn add_message(&self, key: &str, role: &str, content: &str) -> Reply<()> { unimplemented!() }
    pub fn add_full_message(&self, key: &str, message: Message) -> Reply<()> { unimplemented!() }
    pub fn append_all(&self, key: &str, messages: Vec<Message>) -> Reply<()> { unimplemented!() }
    pub fn set_history(&self, key: &str, messages: Vec<Message>) -> Reply<()> { unimplemented!() }
    pub fn set_summary(&self, key: &str, summary: &str) -> Reply<()> { unimplemented!() }
    pub fn truncate_history(&self, key: &str, keep_last: usize) -> Reply<()> { unimplemented!() }
    pub fn compact(&self, key: &str) -> Reply<()> { unimplemented!() }
    pub fn delete_session(&self, key: &str) -> Reply<()> { unimplemented!() }
    pub fn upsert_session_meta(&self, key: &str, scope: Option<Box<RawValue>>, aliases: Vec<String>) -> Reply<()> { unimplemented!() }
    pub fn promote_alias_history(&self, key: &str, scope: Option<Box<RawValue>>, aliases: Vec<String>) -> Reply<bool> { unimplemented!() }
    pub fn history(&self, key: &str) -> Reply<Vec<Message>> { unimplemented!() }
    /// The newest `n` messages, oldest first.
    pub fn tail(&self, key: &str, n: usize) -> Reply<Vec<Message>> { unimplemented!() }
    pub fn summary(&self, key: &str) -> Reply<String> { unimplemented!() }
    /// A session nobody wrote has PicoClaw's zero meta: skip 0, count 0, times `0001-01-01T00:00:00Z`.
    pub fn session_meta(&self, key: &str) -> Reply<SessionMeta> { unimplemented!() }
    pub fn list_sessions(&self) -> Reply<Vec<String>> { unimplemented!() }
    pub fn resolve_session_key(&self, key: &str) -> Reply<Option<String>> { unimplemented!() }
    /// Waits until everything accepted before is in the session files and sidecars, and on disk.
    pub fn flush(&self) -> Reply<()> { unimplemented!() }
    pub fn stats(&self) -> StoreStats { unimplemented!() }
}
