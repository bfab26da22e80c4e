//! Recovery: bringing a directory to the state its last writer acknowledged.
//!
//! Open reads the journal ([`plan`]), brings the session files up to it and
//! makes that durable ([`redo`]), and only then serves anything. Everything is
//! an absolute redo, so a crash in here costs nothing: the next open does the
//! same again.

pub(crate) mod plan;
pub(crate) mod redo;
mod report;
pub(crate) mod restore;
pub(crate) mod survey;

pub use report::RecoveryReport;
