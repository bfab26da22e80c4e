//! The part of `sessionlog` that does nothing but compute: the formats of lines and sidecars, names
//! and keys, times as texts, scopes, models' message shapes, and errors. It opens no file and starts
//! no thread.
//!
//! Users take all of this from `sessionlog`, which shows what is meant for them. The rest of what
//! is public here is for `sessionlog`'s own crates, without a promise of stability.

#[cfg(not(target_pointer_width = "64"))]
compile_error!("sessionlog keeps file positions in usize; it needs a 64-bit target");

pub mod error;
pub mod exchange;
pub mod messages;
pub mod position;
pub mod rules;
pub mod scope;
pub mod session_file;
pub mod stamp;
pub mod update;
