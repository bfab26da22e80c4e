//! A store from outside: what every verb promises, bad input, reading beside a writer, other
//! programs at work on its files, a power cut before every call, and random histories beside
//! plain models. `CONTRIBUTING.md` says how deep each suite goes and how to go deeper.

#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    clippy::unwrap_used,
    reason = "the tests play the other programs that read and write a store's files, and fail loudly"
)]

mod backends;
mod bad_input;
mod beside;
mod conversations;
mod crash;
mod defects;
mod foreign;
mod fuzz;
mod intercept;
mod kept;
mod kimi_file;
mod leaving;
mod leftovers;
mod manners;
mod models;
mod nothing_created;
mod pacing;
mod quarantine;
mod random_conversations;
mod read_only;
mod replaced;
mod scheduler;
mod scope;
mod simulation;
mod stale_records;
mod stress;
mod support;
mod trap;
mod verbs;
