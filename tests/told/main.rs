//! What a store tells of itself: numbers, events, and what it publishes for other processes.
//! Somebody who runs a gateway sees nothing else of it. A number that is wrong sends them the
//! wrong way, and an event that names a session puts a person into a log.

#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    clippy::unwrap_used,
    reason = "the tests are other programs, and look at files themselves"
)]

mod events;
#[path = "../it/intercept.rs"]
#[expect(dead_code, reason = "another test uses all of it")]
mod intercept;
mod numbers;
mod other;
mod published;
#[path = "../it/trap.rs"]
#[expect(dead_code, reason = "another test uses all of it")]
mod trap;

use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use sessionlog::testing::storage::Storage;
use sessionlog::testing::{self};
use sessionlog::{Store, StoreOptions};

/// How long something that happens by itself may take before a test gives up.
const PATIENCE: Duration = Duration::from_secs(30);

/// Where stores in memory live.
const DIR: &str = "/s";

/// Events and metrics are the process's: one test at a time.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// Options under which nothing is compacted unasked.
fn manual() -> StoreOptions {
    StoreOptions::new().auto_compact(false)
}

fn open_on(storage: &(impl Storage + Clone + 'static), options: StoreOptions) -> Store {
    testing::open_store(Arc::new(storage.clone()), Path::new(DIR), options).unwrap()
}

fn wait_until(what: &str, mut is: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is() {
        assert!(begun.elapsed() < PATIENCE, "no {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}
