//! Cuts the power before every storage call of a set of scripts, recovers what
//! each of several disks may hold then, and compares with a plain model.
//!
//! * `SESSIONLOG_CRASH="append/0/17/Random(3)"` plays one crash alone and prints
//!   the calls before it: the script, the order of the engine's parts, the call,
//!   and what the crash leaves.
//! * `SESSIONLOG_FAULT="append/0/17/3"` plays one failing call alone.
//! * `SESSIONLOG_CRASH_SEEDS=100` tries so many random disks for each crash.
//! * `SESSIONLOG_LONG=1` tries some six times as much of everything.

mod check;
mod enumerate;
mod errors;
mod eyes;
mod imports;
pub(crate) mod model;
mod overwrites;
mod play;
mod recovery;
mod script;
mod sidecars;

use std::io::Write;

use crate::support::is_long;
use enumerate::{Case, Count};

/// How much is tried.
struct Depth {
    /// Random disks for each crash, beside one of each kind. Without any the kinds take turns.
    images: u64,
    /// Orders of the engine's parts in which every crash is tried.
    schedules: u64,
    /// Of so many crashes, the recovery of one is crashed too.
    sample: usize,
    /// At so many of its calls, one.
    recovery: usize,
    /// Orders in which every script is played to its end.
    orders: u64,
    /// Of so many calls, one is where failing for ever begins.
    sparse: u64,
    /// Of so many pairs of a call and an error, one is tried.
    pairs: u64,
    /// Of so many crashes in the second order, one is tried.
    every: u64,
    /// Of so many deaths of the process, the recovery from one is looked at.
    looks: u64,
}

fn depth() -> Depth {
    let asked = std::env::var("SESSIONLOG_CRASH_SEEDS").ok();
    let asked = asked.map(|seeds| seeds.parse().expect("a number of seeds"));
    if is_long() {
        Depth {
            images: asked.unwrap_or(2),
            schedules: 2,
            sample: 100,
            recovery: 1,
            orders: 80,
            sparse: 9,
            pairs: 2,
            every: 2,
            looks: 5,
        }
    } else {
        Depth {
            images: asked.unwrap_or(0),
            schedules: 2,
            sample: 700,
            recovery: 7,
            orders: 12,
            sparse: 45,
            pairs: 31,
            every: 9,
            looks: 240,
        }
    }
}

/// The least that must be tried: usually, and with `SESSIONLOG_LONG=1`.
fn least(usual: u64, long: u64) -> u64 {
    if is_long() { long } else { usual }
}

#[test]
fn there_are_scripts_for_every_way_in_which_files_change() {
    assert!(script::all().len() >= 24);
}

#[test]
fn no_crash_loses_revives_or_splits_anything() {
    if let Some(case) = Case::asked_for() {
        return case.replay();
    }
    let depth = depth();
    let count = enumerate::crashes(depth.images, depth.schedules, depth.every);
    tell(&count);
    assert!(count.violations.is_empty(), "{count}");
    assert!(count.images >= least(10_000, 50_000), "{count}");
}

#[test]
fn no_crash_of_a_recovery_changes_what_the_next_one_finds() {
    let depth = depth();
    let count = recovery::crashes(depth.sample, depth.recovery);
    tell(&count);
    assert!(count.violations.is_empty(), "{count}");
    assert!(count.images >= least(2_000, 15_000), "{count}");
}

#[test]
fn no_crash_that_takes_the_sidecars_along_loses_what_they_said() {
    let count = sidecars::crashes(depth().sample.div_ceil(6));
    tell(&count);
    assert!(count.violations.is_empty(), "{count}");
    assert!(count.images >= least(150, 900), "{count}");
}

#[test]
fn no_order_of_the_engines_parts_changes_what_a_store_holds() {
    let depth = depth();
    let count = enumerate::schedules(depth.orders);
    tell(&count);
    assert!(count.violations.is_empty(), "{count}");
    assert!(count.images >= least(1_500, 8_000), "{count}");
}

#[test]
fn no_durable_change_beside_a_flush_has_a_sidecar_replaced() {
    let count = overwrites::orders(depth().orders);
    tell(&count);
    assert!(count.violations.is_empty(), "{count}");
    assert!(count.images >= 4 * depth().orders, "{count}");
}

#[test]
fn no_failing_call_loses_what_was_acknowledged_or_leaves_a_caller_waiting() {
    if errors::replay() {
        return;
    }
    let depth = depth();
    let count = errors::errors(depth.sparse, depth.pairs);
    tell(&count);
    assert!(count.violations.is_empty(), "{count}");
    assert!(count.images >= least(1_000, 10_000), "{count}");
}

#[test]
fn other_programs_see_a_state_the_session_had_at_every_moment() {
    let count = eyes::looks(depth().looks);
    tell(&count);
    assert!(count.violations.is_empty(), "{count}");
    assert!(count.images >= least(15_000, 20_000), "{count}");
}

#[test]
fn an_import_cut_short_anywhere_is_finished_by_the_next_one() {
    let (images, wrong) = imports::crashes(60);
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(images >= 180);
}

/// Tells how much was tried, past the test harness: it shows the output of a
/// passing test to nobody, and a pass that tried little means little.
fn tell(count: &Count) {
    let mut out = std::io::stdout().lock();
    writeln!(out, "\n{count}").expect("standard output is open");
}
