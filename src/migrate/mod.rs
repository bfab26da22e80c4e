//! Import of older stores.

mod legacy;

pub use legacy::{MigrationReport, migrate_from_json, migrate_from_json_report};
