//! Conversations where others act at the same moment, and where the disk fails.

mod backups;
mod failing;
mod promotion;
mod reading;

use std::path::Path;
use std::sync::Arc;

use sessionlog::testing::{self, sim};
use sessionlog::{Store, StoreHandle};

use crate::intercept::Intercepted;
use crate::support::small_segments;

/// A store where a [`Sim`](sim::Sim) looks for one.
fn open() -> (Intercepted, Store, StoreHandle) {
    let storage = Intercepted::default();
    let dir = Path::new(sim::DIR);
    let store = testing::open_store(Arc::new(storage.clone()), dir, small_segments()).unwrap();
    let chats = store.handle();
    (storage, store, chats)
}
