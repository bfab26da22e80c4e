//! One file for each command.

#[cfg(not(all(feature = "postgres", feature = "serve")))]
pub(crate) mod absent;
pub(crate) mod archive;
pub(crate) mod backup;
pub(crate) mod bench;
pub(crate) mod compact;
pub(crate) mod completions;
#[cfg(feature = "postgres")]
pub(crate) mod copy;
pub(crate) mod delete;
pub(crate) mod edit;
pub(crate) mod erase;
pub(crate) mod export;
pub(crate) mod handover;
pub(crate) mod import;
pub(crate) mod ls;
pub(crate) mod migrate;
pub(crate) mod rename;
pub(crate) mod repair;
pub(crate) mod restore;
pub(crate) mod retention;
pub(crate) mod search;
#[cfg(feature = "serve")]
pub(crate) mod serve;
pub(crate) mod show;
pub(crate) mod stat;
pub(crate) mod tag;
pub(crate) mod tail;
pub(crate) mod top;
pub(crate) mod verify;
