//! The verbs, one type and one file each: its change, its manner, its waits, and how it is staged.
//! The common parts stand beside the shard: how a change settles, is refused, and is answered.

pub(crate) mod append;
pub(crate) mod clear;
pub(crate) mod compact;
pub(crate) mod delete;
pub(crate) mod edit;
pub(crate) mod ensure;
pub(crate) mod forget;
pub(crate) mod fork;
pub(crate) mod identity;
pub(crate) mod keep;
pub(crate) mod leave;
pub(crate) mod load;
pub(crate) mod look;
pub(crate) mod note;
pub(crate) mod promote;
pub(crate) mod rename;
pub(crate) mod restore;
pub(crate) mod revert;
pub(crate) mod set_history;
pub(crate) mod subscribe;
pub(crate) mod summary;
pub(crate) mod update;
pub(crate) mod upsert;
pub(crate) mod whole;
