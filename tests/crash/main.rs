//! Cuts the power before every storage call of a set of scripts, recovers what
//! each of several disks may hold then, and compares with a plain model.
//!
//! * `SESSIONLOG_CRASH="append/0/17/Random(3)"` plays one crash alone and prints
//!   the calls before it: the script, the order of the engine's parts, the call,
//!   and what the crash leaves.
//! * `SESSIONLOG_FAULT="append/17/3"` plays one failing call alone.
//! * `SESSIONLOG_CRASH_SEEDS=100` tries so many random disks for each crash.

mod check;
mod enumerate;
mod errors;
mod model;
mod play;
mod recovery;
mod script;
mod sidecars;

use std::io::Write;

use enumerate::{Case, Count};

/// How much is tried where nobody asks for more. A build with debug assertions
/// takes six times as long.
struct Depth {
    /// Random disks for each crash.
    images: u64,
    /// Orders of the engine's parts in which every crash is tried.
    schedules: u64,
    /// Of so many crashes, the recovery of one is crashed too.
    sample: usize,
}

fn depth() -> Depth {
    let asked = std::env::var("SESSIONLOG_CRASH_SEEDS").ok();
    let asked = asked.map(|seeds| seeds.parse().expect("a number of seeds"));
    if cfg!(debug_assertions) {
        Depth {
            images: asked.unwrap_or(2),
            schedules: 2,
            sample: 41,
        }
    } else {
        Depth {
            images: asked.unwrap_or(8),
            schedules: u64::MAX,
            sample: 7,
        }
    }
}

#[test]
fn no_crash_loses_revives_or_splits_anything() {
    if let Some(case) = Case::asked_for() {
        return case.replay();
    }
    let depth = depth();
    let count = enumerate::crashes(depth.images, depth.schedules);
    tell(&count);
    assert!(count.violations.is_empty(), "{count}");
    assert!(count.images >= 20_000, "{count}");
}

#[test]
fn no_crash_of_a_recovery_changes_what_the_next_one_finds() {
    let count = recovery::crashes(depth().sample);
    tell(&count);
    assert!(count.violations.is_empty(), "{count}");
    assert!(count.images >= 3_000, "{count}");
}

#[test]
fn no_crash_that_takes_the_sidecars_along_loses_what_they_said() {
    let count = sidecars::crashes(depth().sample.div_ceil(6));
    tell(&count);
    assert!(count.violations.is_empty(), "{count}");
    assert!(count.images >= 900, "{count}");
}

#[test]
fn no_order_of_the_engines_parts_changes_what_a_store_holds() {
    let count = enumerate::schedules(100);
    tell(&count);
    assert!(count.violations.is_empty(), "{count}");
    assert!(count.images >= 8_000, "{count}");
}

#[test]
fn no_failing_call_loses_what_was_acknowledged_or_leaves_a_caller_waiting() {
    if errors::replay() {
        return;
    }
    let count = errors::errors();
    tell(&count);
    assert!(count.violations.is_empty(), "{count}");
    assert!(count.images >= 5_000, "{count}");
}

/// Tells how much was tried, past the test harness: it shows the output of a
/// passing test to nobody, and a pass that tried little means little.
fn tell(count: &Count) {
    let mut out = std::io::stdout().lock();
    writeln!(out, "\n{count}").expect("standard output is open");
}
