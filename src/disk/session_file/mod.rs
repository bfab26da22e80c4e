//! What one session is on disk: lines, controls, the sidecar, and file names.
//!
//! Everything here is pure: bytes in, values out. Reading and writing files is
//! the business of the floors above.

mod carried;
#[cfg(test)]
mod codec_tests;
mod content;
mod control;
mod conversation;
mod draft;
mod encode;
mod fold;
#[cfg(test)]
mod golden_tests;
pub(crate) mod kimi;
mod layout;
mod legacy;
mod line;
mod message;
mod meta;
mod names;
mod nested;
mod parts;
mod raw;
mod scan;
mod scope;
mod sidecar;
mod text;
mod timestamp;

pub(crate) use carried::{Carried, without_hidden, without_place};
pub(crate) use control::{
    encode_checkpoint, encode_checkpoint_message, encode_system_prompt, encode_usage,
};
pub(crate) use conversation::{Before, Conversation, Mark, What};
pub(crate) use fold::{fold, fold_name};
pub(crate) use legacy::{
    LegacySession, decode as decode_legacy, encode as encode_legacy, holds_own_session,
    holds_session,
};
pub(crate) use line::{Decoded, Kind, classify, decode, encode, encode_text, lines};
pub use message::Message;
pub(crate) use message::check_role;
pub(crate) use meta::{Meta, MetaText};
#[cfg(any(feature = "testing", sessionlog_loom))]
pub(crate) use names::fnv1a32;
pub(crate) use names::{
    LOG, SHARDS, SIDECAR, hashed_stem, is_main_alias, is_safe_stem, log_name, normalize_aliases,
    plain_stem, sha256_hex, shard_of, short_circuits, sidecar_name, validate_key,
};
pub use parts::{
    Attachment, CacheControl, ExtraContent, FunctionCall, GoogleExtra, SystemPart, ToolCall,
};
pub use scope::SessionScope;
pub(crate) use scope::check_scope;
pub use sidecar::SessionMeta;
pub(crate) use sidecar::{
    decode as decode_sidecar, encode as encode_sidecar, encode_flat as encode_flat_sidecar,
    encoded_len as encoded_sidecar_len,
};
