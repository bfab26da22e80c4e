//! Cuts the power before every storage call of a set of scripts, recovers what
//! each of several disks may hold then, and compares with a plain model.
//!
//! `SESSIONLOG_CRASH="append/0/17/Random(3)"` plays one of them alone and
//! prints the calls before the crash.

mod check;
mod enumerate;
mod errors;
mod model;
mod play;
mod script;

use std::io::Write;

use enumerate::{Case, Count};

#[test]
fn no_crash_loses_revives_or_splits_anything() {
    if let Some(case) = Case::asked_for() {
        return case.replay();
    }
    let count = enumerate::crashes(8);
    tell(&count);
    assert!(count.violations.is_empty(), "{count}");
    assert!(count.images >= 20_000, "{count}");
}

#[test]
fn no_order_of_the_engines_parts_changes_what_a_store_holds() {
    let count = enumerate::schedules(100);
    tell(&count);
    assert!(count.violations.is_empty(), "{count}");
}

#[test]
fn no_failing_call_loses_what_was_acknowledged_or_leaves_a_caller_waiting() {
    if errors::replay() {
        return;
    }
    let count = errors::errors();
    tell(&count);
    assert!(count.violations.is_empty(), "{count}");
}

/// Tells how much was tried, past the test harness: it shows the output of a
/// passing test to nobody, and a pass that tried little means little.
fn tell(count: &Count) {
    let mut out = std::io::stdout().lock();
    writeln!(out, "\n{count}").expect("standard output is open");
}
