//! The program as it is, on real directories: what it says, what it exits with, what it
//! leaves, and how it works beside a running and a killed writer.
#![allow(clippy::unwrap_used, reason = "the tests fail loudly")]

mod beside;
#[cfg(feature = "postgres")]
mod copying;
#[cfg(feature = "sqlite")]
mod databases;
mod manners;
mod reading;
#[cfg(feature = "serve")]
mod serving;
mod support;
mod writing;
