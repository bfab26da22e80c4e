//! What every verb promises, for callers on plain threads and in both kinds of
//! async runtime.

mod aliases;
mod appending;
mod archiving;
mod at_hand;
mod at_rest;
mod backups;
mod beside_files;
mod compacting;
mod concurrency;
mod conversation;
mod copying;
mod counting;
mod doctor;
mod editing;
mod ensuring;
mod erasing;
mod exchanging;
mod finding;
mod following;
mod health;
mod moving;
mod outlines;
mod retaining;
mod rewriting;
mod searching;
mod snapshots;
mod tags;
mod trash;
mod updates;
