//! Building blocks for a custom [`SessionStore`](super::SessionStore), so that it writes the same
//! bytes, finds the same sessions and gives the same answers as this crate's stores. For stores
//! that keep sessions elsewhere, as `sessionlog-postgres` does.
//!
//! Everything here is pure: lines and sidecars in, answers out. The store decides where the lines
//! are, and in which order changes of a session happen.

mod backups;
mod feed;
mod joining;
mod lines;
mod matcher;
mod moment;
mod policy;
mod tags;
mod whole;

pub use crate::front::search::{MoreHits, Went};
pub use backups::{backup, backups_over};
pub use feed::{ChangeFeed, WatchFeed};
pub use joining::meta_after;
pub use lines::{
    LineKind, checkpoint_line, checkpoint_message_line, encode, json_text, lost_checkpoint_line,
    message_of, now, read_line, system_prompt_line, turn_begins_at, usage_line,
};
pub use matcher::{Matcher, search_over};
pub use moment::{Moment, MomentParts, session_info};
pub use policy::{
    admits_session, aliases_that_go_along, erased_id, ids_of_session, is_meant, retention_plan,
    retention_query, sought_id,
};
pub use sessionlog_core::exchange::{export, import};
#[doc(inline)]
pub use sessionlog_core::position::Cut;
#[doc(inline)]
pub use sessionlog_core::rules::dates::Dates;
#[doc(inline)]
pub use sessionlog_core::rules::identity::{Heir, admit, check as check_identity, gives_away};
#[doc(inline)]
pub use sessionlog_core::rules::lines::{check_summary, check_tags, hand_back, in_place_of};
#[doc(inline)]
pub use sessionlog_core::rules::moving::{Move, check_history};
#[doc(inline)]
pub use sessionlog_core::rules::names::{file_name, literal, resolve};
#[doc(inline)]
pub use sessionlog_core::rules::update::{
    UpdateDecision, UpdateOrder, check_id as check_message_id,
};
#[doc(inline)]
pub use sessionlog_core::session_file::{
    TagChange, normalize_aliases, short_circuits as is_own_first, validate_key as check_key,
};
#[doc(inline)]
pub use sessionlog_core::stamp::Stamp;
#[doc(hidden)]
pub use sessionlog_core::update::UpdateContent;
pub use tags::{decode_tags, encode_tags, tags_of_fork};
pub use whole::{
    KeptBackup, append_lines, backup_of, date_session, lines_of, message_ids_of, once_ids,
    put_backup, put_message_ids, put_session, put_tags, split_lines, without_hidden,
};
