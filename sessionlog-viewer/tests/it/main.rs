//! The viewer, from outside: its API, and its page in a real browser.

#![allow(
    clippy::unwrap_used,
    reason = "what fails here fails a test, also in what tests have in common"
)]

mod access;
mod asked;
mod browser;
mod damage;
mod following;
mod limits;
mod paging;
mod searching;
mod stores;
