//! Who talks to whom: properties of allocated keys over hostile ids, and what
//! bad input comes to.

#![expect(clippy::unwrap_used, reason = "the tests fail loudly")]

mod bad_input;
mod defects;
mod inputs;
mod isolation;
mod properties;
mod stores;
