//! When a store flushes of its own accord.

use std::time::Duration;

use sessionlog::StoreOptions;
use sessionlog::testing::disk_model::MemoryStorage;
use sessionlog::testing::sim::Sim;

const EVERY: Duration = Duration::from_millis(500);

fn open() -> Sim {
    let options = StoreOptions::new().checkpoint_every(EVERY);
    Sim::open(MemoryStorage::new(), &options, 0).unwrap()
}

/// Appends about every 30 ms for this long.
fn write_for(sim: &mut Sim, time: Duration) {
    for _ in 0..time.as_millis() / 30 {
        let reply = sim.handle().add_message("a", "user", "x");
        sim.run(reply).unwrap();
        sim.pause(Duration::from_millis(20));
    }
}

fn flushes(sim: &Sim) -> u64 {
    sim.handle().stats().flushes
}

#[test]
fn a_store_that_is_never_idle_is_flushed_every_so_often() {
    let mut sim = open();
    write_for(&mut sim, 10 * EVERY);
    let flushes = flushes(&sim);
    assert!((5..=15).contains(&flushes), "{flushes} flushes in 10 times");
    sim.close().unwrap();
}

#[test]
fn a_store_that_nobody_writes_to_comes_to_rest() {
    for writing in (30..=1_200).step_by(30) {
        let mut sim = open();
        write_for(&mut sim, Duration::from_millis(writing));
        sim.pause(4 * EVERY);
        let at_rest = flushes(&sim);
        assert!(at_rest > 0);
        sim.pause(20 * EVERY);
        assert_eq!(flushes(&sim), at_rest, "after {writing} ms of writing");
        sim.close().unwrap();
    }
}
