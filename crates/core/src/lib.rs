//! The pure part of `sessionlog`: formats of lines and sidecars, keys, scopes, models' message
//! shapes, errors, and the [`rules`] that all stores share. It opens no file and starts no thread.
//!
//! Use `sessionlog`, which re-exports the public parts. Everything else here may change at any time.

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
