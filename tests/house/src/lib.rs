//! Rules that no compiler checks: imports go down, few files import each other in circles,
//! `ARCHITECTURE.md` names files that exist, and the guide explains every number and every line
//! of the log. A failure names file and line.
//!
//! Clippy checks the seams (file system, locks, threads, time).

#![cfg(test)]

mod builds;
mod circles;
mod floors;
mod imports;
mod map;
mod mentions;
mod operating;
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
