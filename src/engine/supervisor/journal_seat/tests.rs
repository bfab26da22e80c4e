use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Waker};
use std::time::Duration;

use time::OffsetDateTime;

use crate::StoreOptions;
use crate::disk::journal::committer::Ticket;
use crate::disk::journal::group::{GroupCommit, Taken};
use crate::disk::journal::record::{self, Record};
use crate::engine::Engine;
use crate::engine::open::{self, Opened, Site};
use crate::engine::shard::request::Command;
use crate::engine::shard::verbs::append::Append;
use crate::engine::shard::worker::limits::Limits;
use crate::ground::clock::{Clock, SystemClock};
use crate::ground::sync::slot::{Slot, slot};
use crate::ground::sync::thread;
use crate::testing::disk_model::MemoryStorage;
use crate::{Durability, Result};

/// How long something may take before the test gives up.
const PATIENCE: Duration = Duration::from_secs(30);

/// A store whose threads do not run.
fn opened(clock: Arc<dyn Clock>) -> Opened {
    let opened = open::open(&Site {
        storage: Arc::new(MemoryStorage::new()),
        clock,
        dir: Path::new("/sessions"),
        options: &StoreOptions::new(),
        workers: 1,
        mailbox: 16,
        limits: Limits::USUAL,
        keep_from: 1,
    });
    opened.unwrap()
}

/// Looks at a busy store's clock until nothing more comes.
const LOOKS: usize = 100;

/// A clock on which a millisecond has passed at each look, and another buffered record came.
#[derive(Debug, Default)]
struct Busy {
    group: OnceLock<Arc<GroupCommit<Ticket>>>,
    looks: AtomicUsize,
}

impl Clock for Busy {
    fn now(&self) -> OffsetDateTime {
        OffsetDateTime::UNIX_EPOCH
    }

    fn monotonic(&self) -> Duration {
        let look = self.looks.fetch_add(1, Ordering::Relaxed);
        if let Some(group) = self.group.get() {
            if look < LOOKS {
                submit(group, look as u64);
            } else {
                group.close();
            }
        }
        Duration::from_millis(look as u64)
    }
}

/// Queues a record that says nothing, and that nobody waits to have synced.
fn submit(group: &GroupCommit<Ticket>, number: u64) {
    let mut records = Vec::new();
    let nothing = Record::Checkpoint {
        sequence: 0,
        clean: false,
    };
    record::encode(&mut records, &nothing);
    let ticket = Ticket {
        producer: 0,
        number,
        refusals: 0,
        len: records.len(),
        records: 1,
        frees: false,
    };
    group.submit(&records, ticket, false).unwrap();
}

/// Appends a line of so many bytes to a session.
fn append(engine: &Engine, len: usize, level: Durability) -> Slot<Result<()>> {
    let (answer, slot) = slot();
    let append = Append {
        lines: [&vec![b'x'; len][..], b"\n"].concat(),
        count: 1,
        once: None,
        level,
    };
    let command = Command::new("a".into(), append, answer);
    engine.submit(command).unwrap();
    slot
}

/// Whether the committer settles a batch with a line of so many bytes, with more queued or
/// with nothing.
fn settles(len: usize, more: bool) -> bool {
    let Opened {
        engine, machine, ..
    } = opened(Arc::new(SystemClock::default()));
    let mut journal = machine.journal;
    let group = &machine.alarm.group;
    let mut commit = |more| {
        assert_eq!(group.take(&mut journal.batch), Taken::Batch);
        if more {
            submit(group, 0);
        }
        let _ = journal.turn(Duration::ZERO);
    };
    let created = append(&engine, 1, Durability::Durable);
    while machine.workers[0].step(false) {}
    commit(false);
    while machine.workers[0].step(false) {}
    created.wait().unwrap().unwrap();
    let said = append(&engine, len, Durability::Durable);
    commit(more);
    said.poll(&mut Context::from_waker(Waker::noop()))
        .is_ready()
}

/// Who queued more waits while it settles. Nobody does if nothing is queued: then whoever
/// is answered late comes late to the next batch.
#[test]
fn the_committer_settles_more_if_nobody_waits_for_it() {
    assert_eq!(
        [1, 8 << 10, 40 << 10].map(|len| settles(len, true)),
        [true, false, false]
    );
    assert_eq!(
        [1, 8 << 10, 40 << 10].map(|len| settles(len, false)),
        [true, true, false]
    );
}

/// A committer who finds something queued whenever it looks never finds the time at which
/// nothing is.
#[test]
fn what_is_buffered_is_synced_though_more_keeps_coming() {
    let clock = Arc::new(Busy::default());
    let opened = opened(clock.clone());
    let machine = opened.machine;
    clock.looks.store(0, Ordering::Relaxed);
    clock.group.set(machine.alarm.group.clone()).unwrap();
    machine.journal_seat.run(machine.journal);
    let counters = &opened.engine.shared.counters.journal;
    assert!(counters.syncs.read() > 0, "nothing was synced");
}

/// The committer, who sleeps until it is told, has to learn of what a caller wrote in its
/// place: nothing else would sync it. No supervisor runs here that would.
#[test]
fn what_a_caller_wrote_is_synced_soon() {
    let clock = Arc::new(SystemClock::default());
    let Opened {
        engine, machine, ..
    } = opened(clock.clone());
    let (seat, journal) = (machine.journal_seat.clone(), machine.journal);
    let committer = thread::spawn("committer", move || seat.run(journal)).unwrap();
    let counters = engine.shared.counters.journal.clone();
    let drivers = machine.workers;
    for round in 0..20 {
        // Each round waits for its own sync: this one's is the next.
        let before = counters.syncs.read();
        let slot = append(&engine, 1, Durability::Buffered);
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
