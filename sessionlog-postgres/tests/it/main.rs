//! `PostgresStore` over real servers, which the tests start themselves: one for all claims
//! about verbs, and others for those that are killed. Where there is no PostgreSQL they say
//! `SKIPPED`; `SESSIONLOG_POSTGRES=required` makes that a failure.

#![allow(
    clippy::unwrap_used,
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "a test may fail, and looks at real files, processes and times"
)]

mod backends;
mod backups;
mod changes;
mod copying;
mod faults;
mod finding;
mod forks;
mod known;
mod model;
mod moving;
mod once;
mod operators;
mod plans;
mod replicas;
mod support;
mod tables;
mod waiting;
