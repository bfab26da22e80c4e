use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use crate::StoreOptions;
use crate::engine::open::{self, Site};
use crate::engine::shard::request::Command;
use crate::engine::shard::verbs::append::Append;
use crate::engine::shard::worker::limits::Limits;
use crate::ground::clock::{Clock, SystemClock};
use crate::ground::sync::slot::slot;
use crate::ground::sync::thread;
use crate::testing::disk_model::MemoryStorage;
use crate::{Durability, Result};

/// How long something may take before the test gives up.
const PATIENCE: Duration = Duration::from_secs(30);

/// The committer, who sleeps until it is told, has to learn of what a caller wrote in its
/// place: nothing else would sync it. No supervisor runs here that would.
#[test]
fn what_a_caller_wrote_is_synced_soon() {
    let clock = Arc::new(SystemClock::default());
    let store = open::open(&Site {
        storage: Arc::new(MemoryStorage::new()),
        clock: clock.clone(),
        dir: Path::new("/sessions"),
        options: &StoreOptions::new(),
        workers: 1,
        mailbox: 16,
        limits: Limits::USUAL,
        keep_from: 1,
    });
    let open::Opened {
        engine, machine, ..
    } = store.unwrap();
    let (seat, journal) = (machine.journal_seat.clone(), machine.journal);
    let committer = thread::spawn("committer", move || seat.run(journal)).unwrap();
    let counters = engine.shared.counters.journal.clone();
    let drivers = machine.workers;
    for round in 0..20 {
        // Each round waits for its own sync: this one's is the next.
        let before = counters.syncs.read();
        let (answer, slot) = slot::<Result<()>>();
        let append = Append {
            lines: b"{\"role\":\"user\",\"content\":\"x\"}\n".to_vec(),
            count: 1,
            once: None,
            level: Durability::Buffered,
        };
        engine
            .submit(Command::new("a".into(), append, answer))
            .unwrap();
        if round == 0 {
            // The session has to be loaded.
            while drivers[0].step(false) {}
        }
        slot.wait().unwrap().unwrap();
        let started = clock.monotonic();
        while counters.syncs.read() == before {
            let waited = clock.monotonic().saturating_sub(started);
            assert!(waited < PATIENCE, "nobody syncs it");
            std::thread::yield_now();
        }
    }
    machine.alarm.group.close();
    committer.join().unwrap();
}
