//! The rules of the house, checked where they can be: which way imports go, how
//! large files and functions are, and that texts which other suites look for still
//! stand in the source. Who breaks one is named, with file and line.
//!
//! The seams (who may use the file system, locks, time) are clippy's.

#![expect(
    clippy::disallowed_methods,
    reason = "the test reads the crate's sources"
)]

mod builds;
mod circles;
mod floors;
mod imports;
mod map;
mod mentions;
mod seeds;
mod size;
mod source;
mod tree;

use std::fmt::Display;

/// Fails with every offender on a line of its own.
#[track_caller]
fn nobody_breaks<T: Display>(rule: &str, offenders: &[T]) {
    let list: Vec<_> = offenders.iter().map(ToString::to_string).collect();
    assert!(
        offenders.is_empty(),
        "{rule}; {} break it:\n  {}",
        list.len(),
        list.join("\n  ")
    );
}
