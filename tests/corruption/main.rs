//! Damages small stores in every way a medium can, and looks what opening,
//! verifying, repairing and reading make of it.
//!
//! * `SESSIONLOG_CORRUPTION="journal/flip 5 .sessionlog/journal/segment-…"` plays
//!   the variants alone whose names contain that.
//! * `SESSIONLOG_LONG=1` damages more stores, in more than seven times as many places.

mod damage;
mod image;
mod lines;
mod oracle;
mod removals;
mod repairs;
mod sweep;

use std::io::Write;

/// No damage may make the process take more memory than this, whatever a length
/// field says. All tests of this target run in one process.
const MEMORY: u64 = 1 << 30;

fn long() -> bool {
    std::env::var("SESSIONLOG_LONG").is_ok_and(|value| value != "0")
}

#[test]
fn no_damage_loses_synced_data_silently_panics_or_cannot_be_repaired() {
    let count = sweep::all(long());
    tell(&count);
    assert!(count.violations.is_empty(), "{count}");
    let least = if long() { 20_000 } else { 2_000 };
    let alone = std::env::var("SESSIONLOG_CORRUPTION").is_ok();
    assert!(alone || count.variants >= least, "{count}");
    let peak = peak_memory();
    assert!(
        peak.is_none_or(|peak| peak < MEMORY),
        "{peak:?} bytes of memory"
    );
}

/// The most memory this process ever had, bytes, where the system tells.
fn peak_memory() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    let kibibytes: u64 = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(kibibytes << 10)
}

/// Tells how much was tried, past the test harness, which shows the output of a
/// passing test to nobody.
fn tell(what: &impl std::fmt::Display) {
    let mut out = std::io::stdout().lock();
    writeln!(out, "\n{what}").expect("standard output is open");
}
