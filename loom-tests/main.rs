//! Loom models of the concurrency that ships.
//!
//! Every model runs in a process of its own: a deadlock that loom finds can end
//! the process by a second panic while it unwinds. `README.md` says how to run
//! them and what each has been seen to catch.

#[cfg(not(sessionlog_loom))]
fn main() {
    eprintln!(
        "loom-tests explored nothing: the cfg `sessionlog_loom` is not set.\n\
         Run `cargo loom`. A RUSTFLAGS variable overrides the flags of that alias; unset it."
    );
    std::process::exit(2);
}

#[cfg(sessionlog_loom)]
mod catalog;
#[cfg(sessionlog_loom)]
mod engine;
#[cfg(sessionlog_loom)]
mod explore;
#[cfg(sessionlog_loom)]
mod journal;
#[cfg(sessionlog_loom)]
mod lead;
#[cfg(sessionlog_loom)]
mod limits;
#[cfg(sessionlog_loom)]
mod mailbox;
#[cfg(sessionlog_loom)]
mod readers;
#[cfg(sessionlog_loom)]
mod reply;
#[cfg(sessionlog_loom)]
mod stage;
#[cfg(sessionlog_loom)]
mod supervisor;

#[cfg(sessionlog_loom)]
fn main() -> std::process::ExitCode {
    let models = [
        mailbox::MODELS,
        reply::MODELS,
        catalog::MODELS,
        journal::MODELS,
        readers::MODELS,
        engine::MODELS,
        lead::MODELS,
        limits::MODELS,
        supervisor::MODELS,
    ];
    explore::main(&models.concat())
}
