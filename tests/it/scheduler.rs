//! All 64 shards at once, in orders that a seed decides: callers, workers, the
//! journal, background jobs and the supervisor each go on one step at a time.
//! Loom explores few threads to the end; this tries many at random.

use sessionlog::StoreOptions;
use sessionlog::testing::disk_model::{Image, MemoryStorage};
use sessionlog::testing::sim::{Sim, Ticket};

/// Orders to try; `SESSIONLOG_SCHEDULES` sets another number.
const SCHEDULES: u64 = 12;

/// Sessions: enough that nearly every shard has one.
const SESSIONS: usize = 192;

const ROUNDS: usize = 4;

#[test]
fn in_every_order_everyone_is_answered_and_everything_found() {
    let schedules = std::env::var("SESSIONLOG_SCHEDULES");
    let schedules = schedules.map_or(SCHEDULES, |text| text.parse().unwrap());
    for seed in 1..=schedules {
        println!("seed {seed}");
        play(seed);
    }
}

fn play(seed: u64) {
    let disk = MemoryStorage::new();
    let options = StoreOptions::new().journal_segments(8 << 10, 32 << 10);
    let mut sim = Sim::open(disk.clone(), &options, seed).unwrap();
    let mut tickets = Vec::new();
    for round in 0..ROUNDS {
        for number in 0..SESSIONS {
            tickets.push(command(&mut sim, round, number));
            for _ in 0..(seed as usize + number) % 3 {
                sim.step();
            }
        }
        tickets.push(sim.submit_flush());
    }
    for ticket in &tickets {
        let answer = sim.until_answered(ticket);
        answer.expect("seed: is answered").unwrap();
    }
    drop(sim);
    // Power loss: whatever was answered is there.
    let mut sim = Sim::open(disk.image(Image::AllLost), &options, seed).unwrap();
    for number in 0..SESSIONS {
        let history = sim.handle().history(&key(number));
        let history = sim.run(history).unwrap();
        let texts: Vec<_> = history.iter().map(|m| m.text().into_owned()).collect();
        assert_eq!(texts, wanted(number), "seed {seed}, session {number}");
    }
    sim.close().unwrap();
}

/// Appends, and in the last round for every third session a truncation, for
/// every fifth a compaction behind it.
fn command(sim: &mut Sim, round: usize, number: usize) -> Ticket<()> {
    let (handle, key) = (sim.handle(), key(number));
    let reply = match (round, number % 3, number % 5) {
        (3, 0, _) => handle.truncate_history(&key, 1),
        (3, _, 0) => handle.compact(&key),
        _ => handle.add_message(&key, "user", &round.to_string()),
    };
    sim.submit(reply)
}

fn wanted(number: usize) -> Vec<&'static str> {
    match (number % 3, number % 5) {
        (0, _) => vec!["2"],
        (_, 0) => vec!["0", "1", "2"],
        _ => vec!["0", "1", "2", "3"],
    }
}

fn key(number: usize) -> String {
    format!("chat-{number}")
}
