//! Other programs at work on a store's files: what they see, and what they do to them.
//!
//! * [`picoclaw`] does to a directory what PicoClaw and people with editors do.
//! * [`reported`] plays what once went wrong.
//! * [`watcher`] reads beside a busy writer, for three seconds;
//!   `SESSIONLOG_WATCH_SECONDS=60` for a minute. `--nocapture` shows what it saw.

mod matrix;
mod picoclaw;
mod reported;
mod watcher;

#[expect(dead_code, reason = "it reads and writes more for the golden test")]
#[path = "../golden_suite/json.rs"]
mod json;
#[expect(dead_code, reason = "it describes more for the golden test")]
#[path = "../golden_suite/schema.rs"]
mod schema;
