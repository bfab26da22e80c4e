//! A store from outside: what every verb promises, what broke the systems this
//! one replaces, bad input, and reading beside a writer.

#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    clippy::unwrap_used,
    reason = "the tests play the other programs that read and write a store's files, and fail loudly"
)]

mod backends;
mod bad_input;
mod conversations;
mod defects;
mod intercept;
mod kept;
mod kimi_file;
mod leaving;
mod manners;
mod pacing;
mod read_only;
mod replaced;
mod scheduler;
mod stress;
mod support;
mod trap;
mod verbs;
