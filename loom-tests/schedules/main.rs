//! Random schedules of the whole engine: its own threads, and callers of every kind.
//!
//! ```console
//! cargo schedules              # as many as CI runs
//! cargo schedules 100000       # so many
//! cargo schedules --seed 4711  # one again, the same in every step
//! ```
//!
//! `../README.md` says what they show.

#[cfg(not(all(sessionlog_loom, feature = "shuttle")))]
fn main() {
    eprintln!(
        "No schedule was run: the cfg `sessionlog_loom` and the feature `shuttle` are not both set.\n\
         Run `cargo schedules`. A RUSTFLAGS variable overrides the flags of that alias; unset it."
    );
    std::process::exit(2);
}

#[cfg(all(sessionlog_loom, feature = "shuttle"))]
mod callers;
#[cfg(all(sessionlog_loom, feature = "shuttle"))]
mod dice;
#[cfg(all(sessionlog_loom, feature = "shuttle"))]
mod kimi;
#[cfg(all(sessionlog_loom, feature = "shuttle"))]
mod order;
#[cfg(all(sessionlog_loom, feature = "shuttle"))]
mod picoclaw;
#[cfg(all(sessionlog_loom, feature = "shuttle"))]
mod play;
#[cfg(all(sessionlog_loom, feature = "shuttle"))]
mod run;
#[cfg(all(sessionlog_loom, feature = "shuttle"))]
mod states;
#[cfg(all(sessionlog_loom, feature = "shuttle"))]
mod trouble;

#[cfg(all(sessionlog_loom, feature = "shuttle"))]
fn main() -> std::process::ExitCode {
    run::main()
}
