//! Who talks to whom: properties of allocated keys over hostile ids, and what
//! bad input comes to.

mod bad_input;
mod defects;
mod inputs;
mod isolation;
mod properties;
mod stores;
