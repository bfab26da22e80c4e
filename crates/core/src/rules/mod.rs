//! The rule book: the decisions that all stores share.
//!
//! Everything here is pure: from the state of a session and a verb to an error or a decision. The
//! engine stages what is decided, the stores in memory apply it, and `sessionlog-postgres` turns it
//! into statements. Limits of a whole sidecar, and the order of changes, stay with each store.
//!
//! * [`names`] resolves keys.
//! * [`lines`] encodes messages and limits them.
//! * [`update`] decides whether an update applies.
//! * [`dates`] dates imported sessions.
//! * [`identity`] checks scopes and aliases, and decides on inheritance.
//! * [`moving`] decides whether a session may be renamed or merged.

pub mod dates;
pub mod identity;
pub mod lines;
pub mod moving;
pub mod names;
pub mod update;
