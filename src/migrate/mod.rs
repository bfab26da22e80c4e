//! Import of older stores.

mod legacy;

pub(crate) use legacy::{Found, candidates, keys_to_import, migrate_together, read};
pub use legacy::{MigrationReport, migrate_from_json, migrate_from_json_report};
