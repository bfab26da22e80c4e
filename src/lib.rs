//! An embedded session store for bot gateways.
//!
//! `sessionlog` keeps the conversation of every chat as an append-only JSONL
//! file that people and agents can `tail`, `grep` and read, and takes durable
//! writes from thousands of concurrent chats at the speed of a database log.
//!
//! ```
//! use sessionlog::{Message, Store, StoreHandle};
//!
//! # fn main() -> sessionlog::Result<()> {
//! # let scratch = tempfile::tempdir().unwrap();
//! # let dir = scratch.path().join("sessions");
//! let store = Store::open(&dir)?;
//! let chats: StoreHandle = store.handle();
//! chats.add_message("telegram:123", "user", "hi").wait()?;
//! let history: Vec<Message> = chats.history("telegram:123").wait()?;
//! assert_eq!(history[0].text(), "hi");
//! store.close()?;
//! # Ok(())
//! # }
//! ```
//!
//! Every verb of [`StoreHandle`] returns a lazy [`Reply`]: `.await` it in async code, or `.wait()`
//! on a plain thread. A reply to a write arrives when the write has the [`Durability`] asked for;
//! from then on every reader of the store sees it. The session's file gets it moments later,
//! together with other changes of the session.
//!
//! The [`guide`] explains the verbs, the promises, the files on disk and how to move over.
//!
//! # Overview
//!
//! * [`Store`] opens and closes a directory, [`StoreHandle`] holds the verbs.
//! * [`Context`] is a session's conversation: checkpoints to revert to, token usage, a system
//!   prompt. Its earlier states stay as [`Backup`]s.
//! * [`Message`] is one line, [`SessionMeta`] one sidecar.
//! * [`RecoveryReport`] lists what opening found, [`StoreStats`] counts what happened since.
//! * [`backend`] puts the engine, memory and older files behind one trait.
//! * [`scope`] finds the session of an inbound message.
//! * [`Context::open`] keeps the conversation of one file as kimi-cli does; [`kimi`] has its rules;
//!   [`import_kimi`] and [`export_kimi`] convert between such a file and a session.
//! * [`migrate_from_json`] imports older one-file-per-session JSON, [`export_picoclaw`] writes
//!   files for PicoClaw.
//!
//! # Watching a store
//!
//! * [`StoreHandle::stats`] has counters and histograms of commits, syncs, flushes and compactions;
//!   [`StoreHandle::status`] says whether the store takes writes.
//! * [`published_stats`] gives both to another process.
//! * With the feature `metrics` they go to the recorder of the crate `metrics` that the process
//!   installed before it opened the store, as `sessionlog_commit_seconds` and so on, with the
//!   directory as the label `dir`. The repository has a gateway that serves them to Prometheus, and
//!   a dashboard for Grafana.
//! * Events and spans of the crate `tracing`, none of them for a single message. `ERROR`: the store
//!   stops writing. `WARN`: failures between commands, [slow](StoreOptions::slow_commit) commits,
//!   refusals; repeated warnings appear every 10 s. `INFO`: open, recovery, close, with counts and
//!   times. `DEBUG`: flushes, and compactions with the keys of their sessions. A key may be a
//!   person's. From `INFO` on no event names a session by its key, but the errors and paths in a
//!   `WARN` or `ERROR` may name a session's file, which is named after its key.
//!
//! The repository's `ARCHITECTURE.md` maps the inside: the parts, the ways data flows, and the
//! rules. The modules that own the disk format document it, and what survives a crash between any
//! two steps.

#[cfg(not(target_pointer_width = "64"))]
compile_error!("sessionlog keeps file positions in usize; it needs a 64-bit target");

/// The examples of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

mod compat;
mod disk;
mod engine;
mod front;
pub mod guide;
mod maintenance;
#[cfg(any(test, feature = "testing"))]
#[doc(hidden)]
pub mod testing;

pub use compat::kimi;
pub use disk::files::backup::{Backup, BackupReason};
pub use engine::catalog::AliasConflict;
pub use engine::feed::ChangeKind;
pub use engine::options::{Clamped, Durability, StoreOptions};
pub use engine::outline::{Mark, MarkKind, Outline};
pub use engine::pages::{Page, RawLine};
pub use engine::published::PublishedStats;
pub use engine::recovery::RecoveryReport;
pub use engine::search::FoundIn;
pub use engine::stats::StoreStats;
pub use engine::status::{Health, StoreStatus};
pub use engine::window::Tokens;
pub use front::backend;
pub use front::changes::{Change, ChangeFilter, Changes};
pub use front::context::{Context, Fork};
pub use front::erase::{Erase, EraseReceipt, Traces, Whose};
pub use front::handle::copying::BackupReport;
pub use front::handle::moving::Merged;
pub use front::handle::retaining::Retention;
pub use front::handle::{BackupLimits, StoreHandle};
pub use front::published::published_stats;
pub use front::reply::Reply;
pub use front::retention::{
    Expired, RetentionPlan, RetentionPolicy, RetentionReason, RetentionReport,
};
pub use front::search::{Search, SearchHit, SearchQuery};
pub use front::session::Session;
pub use front::sessions::{Cursor, Deletion, SessionInfo, SessionOrder, SessionPage, SessionQuery};
pub use front::snapshot::SessionSnapshot;
pub use front::store::Store;
pub use front::watch::{SessionState, Watch};
pub use front::window::{Besides, Budget, Window};
pub use maintenance::doctor::{
    Claim, DamagedLine, Fault, JournalCheck, Mismatch, Remedy, RepairOptions, RepairReport,
    SegmentCheck, SegmentEnd, SessionCheck, SidecarCheck, VerifyReport,
};
pub use maintenance::migrate::{
    KimiExport, KimiImport, MigrationReport, PicoclawExport, export_kimi, export_kimi_report,
    export_picoclaw, export_picoclaw_sessions, import_kimi, import_picoclaw, migrate_from_json,
    migrate_from_json_report,
};
/// JSON text as it stands; a scope is given as this.
pub use serde_json::value::RawValue;
#[doc(inline)]
pub use sessionlog_core::error::{CheckpointId, Error, ErrorKind, Oversized, Result, Version};
#[doc(inline)]
pub use sessionlog_core::exchange::{
    Export, ExportOptions, Format, LeftOut, Opening, Part, PartKind, Transcript, Unpaired,
};
#[doc(inline)]
pub use sessionlog_core::messages::Messages;
#[doc(inline)]
pub use sessionlog_core::position::{Keep, Position};
#[doc(inline)]
pub use sessionlog_core::scope;
#[doc(inline)]
pub use sessionlog_core::session_file::{
    Attachment, CacheControl, ExtraContent, FunctionCall, GoogleExtra, Message, SessionMeta,
    SessionTags, SystemPart, ToolCall,
};
#[doc(inline)]
pub use sessionlog_core::update::{Appended, Update, UpdateParts};
#[doc(inline)]
pub use sessionlog_wal::histogram::Histogram;
/// A time, of the crate `time`.
pub use time::OffsetDateTime;
