//! Random schedules of the whole engine: its own threads, and callers of every kind.
//!
//! ```console
//! cargo schedules              # as many as CI runs
//! cargo schedules 100000       # so many
//! cargo schedules --seed 4711  # one again, the same in every step
//! ```
//!
//! `../README.md` says what they show.

#[cfg(not(sessionlog_shuttle))]
fn main() {
    eprintln!(
        "No schedule was run: the cfg `sessionlog_shuttle` is not set.\n\
         Run `cargo schedules`. A RUSTFLAGS variable overrides the flags of that alias; unset it."
    );
    std::process::exit(2);
}

#[cfg(sessionlog_shuttle)]
mod callers;
#[cfg(sessionlog_shuttle)]
mod dice;
#[cfg(sessionlog_shuttle)]
mod kimi;
#[cfg(sessionlog_shuttle)]
mod order;
#[cfg(sessionlog_shuttle)]
mod picoclaw;
#[cfg(sessionlog_shuttle)]
mod play;
#[cfg(sessionlog_shuttle)]
mod run;
#[cfg(sessionlog_shuttle)]
mod states;
#[cfg(sessionlog_shuttle)]
mod trouble;

#[cfg(sessionlog_shuttle)]
fn main() -> std::process::ExitCode {
    run::main()
}
