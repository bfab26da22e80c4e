//! Import of older stores.

mod legacy;

pub use legacy::{MigrationReport, migrate_from_json, migrate_from_json_report};
pub(crate) use legacy::{candidates, keys_to_import, migrate_together, read};
