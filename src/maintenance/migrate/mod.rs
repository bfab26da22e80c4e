//! Import of older stores and of kimi-cli's files, and export to kimi-cli and PicoClaw.
//!
//! # What a crash leaves
//!
//! The state if a step was not finished, then the state after it:
//!
//! * *Export to kimi-cli* (an empty file takes the name, a hidden file is written, synced and
//!   renamed over it). Unfinished: an empty file, or none. After: the whole file.
//! * *Export to PicoClaw* (all files written under hidden names, one sync; logs renamed, names
//!   synced; sidecars renamed, names synced). Unfinished: hidden files, or whole logs, some without
//!   their sidecars. After: all files.
//! * *Import of a context file*. As any rewrite: nothing before the swap record, then the
//!   session.
//! * *Import of one older file* (history and summary, then its name becomes `.migrated`).
//!   Unfinished: the next import replaces the session again. After: not imported again.
//! * *Opening a session store* (`front::backend`: all files imported, then all renamed to
//!   `.migrated`, one directory sync). Unfinished: imported again, in part or whole, before the
//!   store is used. After: not imported again.
//! * *Falling back to the older files* (old names back, imported sessions deleted). Unfinished: the
//!   next open imports them again and uses the store. After: the older files are used.

mod kimi;
mod legacy;
mod picoclaw;
mod report;

pub use kimi::{KimiExport, KimiImport, export_kimi, export_kimi_report, import_kimi};
pub(crate) use legacy::{LegacyContent, candidates, keys_to_import, migrate_together, read};
pub use legacy::{import_picoclaw, migrate_from_json, migrate_from_json_report};
pub use picoclaw::{export_picoclaw, export_picoclaw_sessions};
pub use report::{MigrationReport, PicoclawExport};
