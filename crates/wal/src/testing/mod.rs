//! A model of a disk, and what every storage and queue must do. Only tests and models use these.

pub mod disk_model;
pub mod mailbox_conformance;
#[cfg(test)]
mod storage_conformance;
