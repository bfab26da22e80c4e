//! The viewer, from outside: its API, and its page in a real browser.

mod access;
mod asked;
mod browser;
mod following;
mod limits;
mod paging;
mod searching;
mod stores;
