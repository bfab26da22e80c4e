use super::{append, opened, synced, told, until_idle};
use crate::Durability;
use crate::disk::journal::committer::Outcome;
use crate::engine::shard::worker::event::Event;
use crate::ground::sync::slot::slot;

/// Images that a flush stages of sessions in flight are nobody's commands.
#[test]
fn a_flush_beside_a_command_counts_as_none() {
    let store = opened();
    let (promise, _part) = slot();
    let seat = store.machine.workers[0].seat();
    let commands = || store.engine.shared.counters.read().commands;
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
        let created = append(&store, key, Durability::Durable);
        until_idle(&store);
        synced(&store, number);
        until_idle(&store);
        created.wait().unwrap().unwrap();
    }
    store.machine.alarm.workers[0].send(Event::Sidecars);
    let seat = store.machine.workers[0].seat();
    let stale = || seat.drive(|worker, _| worker.sidecars.len());
    let mut most = 0;
    for number in 3..20 {
        let _line = append(&store, "a", Durability::Durable);
        synced(&store, number);
        store.machine.workers[0].step(false);
        most = most.max(stale().unwrap());
    }
    assert_eq!((most > 0, stale()), (true, Some(0)));
}
