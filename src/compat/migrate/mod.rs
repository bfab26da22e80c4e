//! Import of older stores and of kimi-cli's files, and export to the latter.

mod kimi;
mod legacy;
mod report;

pub use kimi::{KimiImport, export_kimi, import_kimi};
pub(crate) use legacy::{Found, candidates, keys_to_import, migrate_together, read};
pub use legacy::{migrate_from_json, migrate_from_json_report};
pub use report::MigrationReport;
