//! One session on disk: lines, control records, the sidecar, and file names.
//!
//! Everything here is pure: bytes in, values out.
//!
//! # Names
//!
//! A session has two files, `<stem>.jsonl` and `<stem>.meta.json`. The stem is the key
//! with `:`, `/` and `\` as `_`. Another stem is used if another key owns that one, or if
//! it is empty, hidden, over 200 bytes or has control characters: the first 80
//! bytes of it, `-`, and half the key's SHA-256 in hex (and `~` if even that is taken). A
//! sidecar with a key that differs from its file name owns the file.
//!
//! # Lines
//!
//! Lines end in LF; nothing else ends a line. An empty line, or one that is a lone CR, does not
//! count as a line. Every other line counts for `skip` and `count`: messages, control records (role
//! starts with `_`, no valid `created_at`), transient messages, and lines that do not decode. If
//! the last LF is missing, the next append supplies it.
//!
//! New lines are encoded byte for byte as Go's `encoding/json` does it for PicoClaw; unknown fields
//! follow at the end. Control records, and the message that goes with a checkpoint, are encoded as
//! kimi-cli writes them; that message carries no time.
//!
//! A checkpoint carried through a compaction has `"lost": true`: it numbers the next one, but
//! cannot be reverted to. kimi-cli does not know `lost`. An export to kimi-cli therefore puts such
//! a checkpoint at the end, where a revert to it removes nothing, and only if no other checkpoint
//! numbers the next one.
//!
//! # Sidecar
//!
//! PicoClaw's, indented by two blanks, without a final LF: `key`, `summary`, `skip` (lines hidden
//! from the start of the file), `count`, `created_at`, `updated_at`, and if present `scope` and
//! `aliases`. Blanks after `count` leave room to overwrite it in place. After PicoClaw's fields
//! come, if present, `title`, `labels` and `pinned`, and unknown fields unchanged. PicoClaw drops
//! all of these when it writes; the next open puts them back (`disk/copies/mod.rs`).

mod agreement;
mod amend;
mod buffered;
mod carried;
#[cfg(test)]
mod codec_tests;
mod content;
mod control;
mod conversation;
mod deleted;
mod draft;
mod encode;
mod flat;
mod fold;
#[cfg(test)]
mod golden_tests;
pub mod kimi;
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
mod tags;
mod text;
mod timestamp;
mod turns;

pub use agreement::Agreement;
pub use carried::{CarriedControls, without_hidden, without_place};
pub use control::{
    Control, encode_checkpoint, encode_checkpoint_message, encode_system_prompt, encode_usage,
    free_checkpoint,
};
pub use conversation::{Before, ControlContent, ControlMark, Conversation};
pub use deleted::{deleted_at, deleted_key, is_deleted_key, key_before};
pub use encode::encode_string;
pub use fold::{NameRule, fold, fold_name};
pub use legacy::{
    LegacySession, decode as decode_legacy, encode as encode_legacy, holds_own_session,
    holds_session,
};
pub use line::{
    Decoded, Kind, PICOCLAW_LINE, classify, decode, encode, encode_onto, encode_text_onto, lines,
};
pub use message::Message;
pub use message::check_role;
pub use meta::{Meta, MetaStep, MetaText};
pub use names::{
    LOG, PICOCLAW_STEM, SIDECAR, file_order, fnv1a32, hashed_stem, is_main_alias, is_safe_stem,
    log_name, normalize_aliases, plain_stem, sha256_hex, short_circuits, sidecar_name,
    validate_key,
};
pub use parts::{
    Attachment, CacheControl, ExtraContent, FunctionCall, GoogleExtra, SystemPart, ToolCall,
};
pub use scope::SessionScope;
pub use scope::check_scope;
pub use sidecar::SessionMeta;
pub use sidecar::{
    decode as decode_sidecar, encode as encode_sidecar, encode_flat as encode_flat_sidecar,
    encoded_len as encoded_sidecar_len, is_laid_out, is_on_the_way, is_own as is_own_sidecar,
    on_the_way,
};
pub use tags::{SessionTags, TagChange};
pub use text::{legible, without_mark};
pub use timestamp::canonical as canonical_time;
pub use turns::{Turns, answered_call};
