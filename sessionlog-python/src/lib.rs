//! The Rust half of the Python package `sessionlog`: the module `sessionlog._sessionlog`.
//!
//! It has no types for users. Messages go in as JSON text and come out as what Python's own
//! `json` makes of it; `python/sessionlog` has the classes that people see, their types and
//! their documentation.
//!
//! * `call.rs`: a verb that was called and not yet carried out, which Python waits for or
//!   submits to its event loop.
//! * `bridge.rs`: how answers reach an event loop.
//! * `store.rs`, `context.rs`, `snapshot.rs`, `stream.rs`: the verbs.
//! * `arguments.rs`: what Python gives; `errors.rs`, `json.rs`: what it gets.
//! * `process.rs`: a store in a forked process.

// Python's arguments come by value.
#![allow(clippy::needless_pass_by_value)]

mod arguments;
mod bridge;
mod call;
mod context;
mod errors;
mod json;
mod process;
mod snapshot;
mod store;
mod stream;

use pyo3::prelude::*;

#[pymodule]
mod _sessionlog {
    #[pymodule_export]
    use super::bridge::Bridge;
    #[pymodule_export]
    use super::call::Call;
    #[pymodule_export]
    use super::context::Context;
    #[pymodule_export]
    use super::snapshot::Snapshot;
    #[pymodule_export]
    use super::store::Store;
    #[pymodule_export]
    use super::stream::{Changes, Search};
}
