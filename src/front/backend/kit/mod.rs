//! Building blocks for a custom [`SessionStore`](super::SessionStore), so that it writes the same
//! bytes, finds the same sessions and gives the same answers as this crate's stores. For stores
//! that keep sessions elsewhere, as `sessionlog-postgres` does.
//!
//! Everything here is pure: lines and sidecars in, answers out. The store decides where the lines
//! are, and in which order changes of a session happen.

mod backups;
mod feed;
mod joining;
mod keys;
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
pub use keys::{
    check_identity, check_key, check_message_id, check_summary, check_tags, file_name,
    inherits_from, is_own_first, may_have_scope, normalize_aliases,
};
pub use lines::{
    LineKind, checkpoint_line, checkpoint_message_line, encode, in_place_of, json_text,
    lost_checkpoint_line, message_of, now, read_line, system_prompt_line, turn_begins_at,
    usage_line,
};
pub use matcher::{Matcher, search_over};
pub use moment::{Moment, MomentParts, session_info};
pub use policy::{
    admits_session, aliases_that_go_along, erased_id, ids_of_session, is_meant, retention_plan,
    retention_query, sought_id,
};
pub use sessionlog_core::exchange::{export, import};
pub use sessionlog_core::session_file::TagChange;
pub use tags::{decode_tags, encode_tags, tags_of_fork};
pub use whole::{
    KeptBackup, append_lines, backup_of, date_session, lines_of, message_ids_of, once_ids,
    put_backup, put_message_ids, put_session, put_tags, split_lines, without_hidden,
};
