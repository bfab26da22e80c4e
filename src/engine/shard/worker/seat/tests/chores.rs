use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use time::OffsetDateTime;

use super::{append, create, opened, opened_on, opened_with, synced, told, truncate, until_idle};
use crate::Durability;
use crate::disk::files;
use crate::disk::journal::committer::{Outcome, Signal};
use crate::disk::session_file;
use crate::engine::open::Opened;
use crate::engine::shard::flushed::FlushPart;
use crate::engine::shard::worker::event::Event;
use crate::engine::shard::worker::limits::Limits;
use crate::engine::supervisor::background;
use crate::ground::clock::Clock;
use crate::ground::sync::slot::{Slot, slot};
use crate::testing::disk_model::MemoryStorage;

/// Images that a flush stages of sessions in flight are nobody's commands.
#[test]
fn a_flush_beside_a_command_counts_as_none() {
    let store = opened();
    let (promise, _part) = slot();
    let seat = store.machine.workers[0].seat();
    let commands = || store.engine.shared.counters.read(0).commands;
    let appended = append(&store, "a", Durability::Durable);
    until_idle(&store);
    assert!(
        seat.drive(|worker, _| worker.start_flush(promise))
            .is_some()
    );
    until_idle(&store);
    synced(&store, 1);
    // An image that nobody waits for is written before it is synced.
    assert!(told(&store, 2, Outcome::Written));
    synced(&store, 2);
    until_idle(&store);
    appended.wait().unwrap().unwrap();
    assert_eq!(commands(), 1);
}

/// Who reads a sidecar beside us would never learn of a session that is never quiet.
#[test]
fn sidecars_are_written_beside_lines_that_keep_coming() {
    let store = opened();
    for (number, key) in [(1, "a"), (2, "b")] {
        create(&store, number, key);
    }
    store.machine.alarm.workers[0].send(Event::Sidecars);
    let seat = store.machine.workers[0].seat();
    let stale = || seat.drive(|worker, _| worker.sidecars.len());
    let mut most = 0;
    for number in 3..20 {
        let _line = append(&store, "a", Durability::Durable);
        synced(&store, number);
        store.machine.workers[0].step(false);
        counts_what_is_there(&store);
        most = most.max(stale().unwrap());
    }
    assert_eq!((most > 0, stale()), (true, Some(0)));
}

/// What the sidecar of "a" says that is hidden.
fn hidden(store: &Opened) -> i64 {
    let shared = &store.engine.shared;
    let sidecar = files::read_whole(&*shared.storage, &shared.dir.join("a.meta.json"));
    session_file::decode_sidecar(&sidecar.unwrap())
        .unwrap()
        .skip
}

/// A store with session "a", whose sidecar was written and whose line is to be dropped.
fn truncated(clock: &Arc<Ticking>) -> Opened {
    let store = opened_with(clock.clone(), Limits::USUAL);
    create(&store, 1, "a");
    write_sidecars(&store, clock);
    let _truncated = truncate(&store, "a");
    settle(&store);
    store
}

/// The worker's part of all that the journal holds by now.
fn settle(store: &Opened) {
    until_idle(store);
    let seat = store.machine.workers[0].seat();
    let number = seat.drive(|worker, _| worker.next_number - 1);
    let signal = Signal {
        producer: 0,
        number: number.unwrap(),
        outcome: Outcome::Synced,
    };
    store.machine.alarm.workers[0].send(Event::Journal(signal));
    until_idle(store);
}

fn write_sidecars(store: &Opened, clock: &Ticking) {
    // Three seconds: what was written before may have them wait.
    clock.0.fetch_add(300_000, Ordering::Relaxed);
    store.machine.alarm.workers[0].send(Event::Sidecars);
    until_idle(store);
}

/// Else each truncation would cost two files more to make and to delete.
#[test]
fn a_sidecar_is_not_replaced_before_a_compaction_that_changes_it_again() {
    let clock = Arc::new(Ticking::default());
    let store = truncated(&clock);
    write_sidecars(&store, &clock);
    assert_eq!(hidden(&store), 0);
    let machine = &store.machine;
    while let Some(job) = machine.jobs.try_recv() {
        background::run_job(job, &machine.shared, &machine.alarm);
        settle(&store);
    }
    write_sidecars(&store, &clock);
    let shared = &store.engine.shared;
    assert_eq!(shared.counters.compactions.read(), 1);
    // One of them is the new session file.
    assert_eq!(shared.temp_counter.load(Ordering::Relaxed) - 1, 1);
}

/// Who reads it beside us would see what was truncated for as long as a long session takes.
#[test]
fn a_sidecar_does_not_wait_for_a_long_compaction() {
    let clock = Arc::new(Ticking::default());
    let store = truncated(&clock);
    write_sidecars(&store, &clock);
    assert_eq!(hidden(&store), 0);
    write_sidecars(&store, &clock);
    assert_eq!(hidden(&store), 1);
}

/// Others would look for lines that the file does not have.
fn counts_what_is_there(store: &Opened) {
    let shared = &store.engine.shared;
    let read = |name: &str| files::read_whole(&*shared.storage, &shared.dir.join(name));
    let Ok(sidecar) = read("a.meta.json") else {
        return;
    };
    let counted = session_file::decode_sidecar(&sidecar).unwrap().count;
    let lines = read("a.jsonl").unwrap();
    let there = session_file::lines(&lines).count();
    assert!(
        counted <= i64::try_from(there).unwrap(),
        "{counted} of {there} lines"
    );
}

/// Else they would wait for a disk that the thread waits for.
#[test]
fn who_rang_while_the_thread_was_at_it_is_taken_in_before_it_writes_files() {
    let store = opened();
    create(&store, 1, "a");
    let seat = store.machine.workers[0].seat();
    let held = seat.worker.lock();
    let _rings = append(&store, "a", Durability::Durable);
    drop(held);
    let taken = seat.beside(|| seat.drive(|worker, _| worker.inflight.ops().count()));
    assert_eq!(taken, Some(Some(1)));
}

/// Each look at it takes ten microseconds.
#[derive(Debug, Default)]
struct Ticking(AtomicU64);

impl Clock for Ticking {
    fn now(&self) -> OffsetDateTime {
        OffsetDateTime::UNIX_EPOCH
    }

    fn monotonic(&self) -> Duration {
        Duration::from_micros(10 * self.0.fetch_add(1, Ordering::Relaxed))
    }
}

/// A store with so many sessions, each with a line whose time has come to be written.
fn lines_due(storage: &MemoryStorage, sessions: u64) -> Opened {
    let clock = Arc::new(Ticking::default());
    let store = opened_on(storage, clock.clone(), Limits::USUAL);
    let keys: Vec<String> = (1..=sessions).map(|number| format!("s{number}")).collect();
    for (number, key) in (1..).zip(&keys) {
        create(&store, number, key);
    }
    for (number, key) in (sessions + 1..).zip(&keys) {
        let _line = append(&store, key, Durability::Durable);
        synced(&store, number);
    }
    clock.0.fetch_add(6_000_000, Ordering::Relaxed);
    store
}

/// Of how many sessions the line is left after a turn that took so long.
fn left_of(sessions: u64, took: Duration) -> usize {
    left_in(&lines_due(&MemoryStorage::new(), sessions), took)
}

fn left_in(store: &Opened, took: Duration) -> usize {
    let driver = &store.machine.workers[0];
    assert_eq!(driver.write_for(took, false, true), Some(()));
    let sessions = driver.seat().drive(|worker, _| {
        let sessions = worker.shards.iter().map(|o| o.shard.unwritten_sessions());
        sessions.sum()
    });
    sessions.unwrap()
}

fn flush(store: &Opened) -> Slot<FlushPart> {
    let (promise, part) = slot();
    let seat = store.machine.workers[0].seat();
    seat.drive(|worker, _| worker.start_flush(promise)).unwrap();
    part
}

/// Else callers would wait as long again as their turn took for as long as the flush lasts; but
/// the journal must not grow for ever.
#[test]
fn a_flush_of_many_takes_a_part_of_each_turn_and_more_if_the_journal_needs_what_it_gives_up() {
    let took = Duration::from_millis(2);
    let left = |pressing: bool| {
        let storage = MemoryStorage::new();
        let store = lines_due(&storage, 600);
        storage.capacity(8 << 20);
        let seat = store.machine.workers[0].seat();
        let pool = seat.drive(|worker, _| worker.pool.clone()).unwrap();
        while pressing && !pool.is_pressing() {
            pool.filled(pool.next(0, false).unwrap(), 1);
        }
        let _part = flush(&store);
        left_in(&store, took)
    };
    let (leisurely, hurried) = (600 - left(false), 600 - left(true));
    assert!(
        leisurely > 1 && hurried > leisurely * 2,
        "{leisurely} {hurried}"
    );
}

/// Else lines would pile up for as long as a load lasts that brings many in a turn; and a
/// thread that was not let run for a while would write on while callers wait.
#[test]
fn what_is_written_after_a_turn_grows_with_it_up_to_a_bound() {
    let left = [0, 1, 10_000].map(|ms| left_of(400, Duration::from_millis(ms)));
    let [none, short, long] = left;
    assert_eq!(none, 399);
    assert!(none - 1 > short && short > long && long > 0, "{left:?}");
}

/// On a disk that was full the journal needs of the space that comes, too.
#[test]
fn of_few_sessions_one_is_written_after_a_turn() {
    assert_eq!(left_of(200, Duration::from_secs(10)), 199);
}
