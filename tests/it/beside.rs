//! A reader that looks again and again beside a writer: it says what the writer says, and each
//! look costs what was added.

use sessionlog::testing::disk_model::{Image, MemoryStorage};
use sessionlog::testing::sim::{Sim, read_now, read_only};
use sessionlog::{Message, Reply, StoreHandle, StoreOptions};

use crate::support::{Random, is_long, said};

fn opened(disk: &MemoryStorage, seed: u64, segment: u64) -> Sim {
    let options = StoreOptions::new()
        .auto_compact(false)
        .journal_segments(segment, 16 * segment);
    Sim::open(disk.clone(), &options, seed).unwrap()
}

fn run<T: Clone + Send + 'static>(sim: &mut Sim, reply: Reply<T>) -> T {
    sim.run(reply).unwrap()
}

/// How many calls were made since a step, and how many bytes of the journal were read.
fn cost(disk: &MemoryStorage, since: u64) -> (u64, u64) {
    let steps = disk.steps() - since;
    let calls = disk.last_calls(usize::try_from(steps).unwrap());
    assert_eq!(calls.len() as u64, steps, "more calls than are remembered");
    let reads = calls.iter().filter_map(|call| {
        let (_, range) = call.rsplit_once(' ').filter(|_| call.contains("read_at"))?;
        let (start, end) = range
            .split_once("..")
            .filter(|_| call.contains("/segment-"))?;
        Some(end.parse::<u64>().ok()? - start.parse::<u64>().ok()?)
    });
    (steps, reads.sum())
}

#[test]
fn a_look_costs_what_was_added_however_long_the_journal_and_however_many_the_sessions() {
    let costs = [(3, 10), (60, 400)].map(|(sessions, messages)| {
        let disk = MemoryStorage::new();
        let mut sim = opened(&disk, 0, 1 << 20);
        let chats = sim.handle();
        for n in 0..sessions {
            run(
                &mut sim,
                chats.add_message(&format!("chat:{n}"), "user", "hi"),
            );
        }
        for n in 0..messages {
            let text = "x".repeat(200);
            run(
                &mut sim,
                chats.add_message(&format!("chat:{}", n % 2), "user", &text),
            );
        }
        let reader = read_only(disk.clone()).unwrap();
        read_now(reader.history("chat:2")).unwrap();
        [Some("chat:2"), Some("chat:1"), None].map(|key| {
            if let Some(key) = key {
                run(&mut sim, chats.add_message(key, "user", "more"));
            }
            let before = disk.steps();
            let found = read_now(reader.history("chat:2")).unwrap();
            assert_eq!(said(&found), ["hi", "more"]);
            let (steps, bytes) = cost(&disk, before);
            assert!(bytes <= 32 << 10, "{bytes} bytes of the journal");
            steps
        })
    });
    assert_eq!(costs[0], costs[1]);
}

/// Some keys have one file name.
const KEYS: [&str; 5] = ["telegram:1", "telegram_1", "chat:2", "chat:3", "cli"];

/// What a handle says of every session.
fn told(
    chats: &StoreHandle,
    mut ask: impl FnMut(Reply<Vec<Message>>) -> Vec<Message>,
) -> Vec<Vec<String>> {
    let exact = chats.exact_keys();
    let histories = KEYS.map(|key| said(&ask(exact.history(key))));
    let alias = said(&ask(chats.history("also")));
    histories.into_iter().chain([alias]).collect()
}

/// One of many things a gateway does.
fn act(sim: &mut Sim, random: &mut Random) {
    let chats = sim.handle().exact_keys();
    let key = KEYS[random.below(KEYS.len())];
    let number = random.next();
    match random.below(16) {
        0..=6 => run(sim, chats.add_message(key, "user", &number.to_string())),
        7 => run(sim, chats.truncate_history(key, random.below(4))),
        8 => run(sim, chats.compact(key)),
        9 => run(sim, chats.set_summary(key, &number.to_string())),
        10 => run(sim, chats.set_history(key, vec![Message::user("anew")])),
        11 => run(sim, chats.delete_session(key)),
        12 => {
            let aliases = vec![["also", "other"][random.below(2)].to_owned()];
            run(sim, chats.upsert_session_meta(key, None, aliases));
        }
        13 => run(sim, chats.context(key).clear()),
        _ => sim.flush().unwrap(),
    }
}

/// The next life of a store, after one or the other end of this.
fn reopen(sim: Sim, disk: &MemoryStorage, random: &mut Random, seed: u64) -> Sim {
    match random.below(2) {
        0 => sim.close().unwrap(),
        _ => drop(sim),
    }
    opened(disk, seed, 16 << 10)
}

#[test]
fn a_reader_for_many_lives_says_what_their_stores_say() {
    let seeds = if is_long() { 800 } else { 60 };
    for seed in 0..seeds {
        let mut random = Random::of(seed);
        let disk = MemoryStorage::new();
        let mut sim = opened(&disk, seed, 16 << 10);
        let readers = [0, 1].map(|_| read_only(disk.clone()).unwrap());
        for step in 0..80 {
            act(&mut sim, &mut random);
            if random.below(25) == 0 {
                sim = reopen(sim, &disk, &mut random, seed);
            }
            // One looks at every step, the other seldom.
            let many = 1 + usize::from(random.below(9) == 0);
            let chats = sim.handle();
            let by_writer = told(&chats, |reply| run(&mut sim, reply));
            let listed = run(&mut sim, chats.list_sessions());
            for reader in &readers[..many] {
                let by_reader = told(reader, |reply| read_now(reply).unwrap());
                assert_eq!(by_reader, by_writer, "seed {seed}, step {step}");
                let seen = read_now(reader.list_sessions()).unwrap();
                assert_eq!(seen, listed, "seed {seed}, step {step}");
            }
        }
        sim.close().unwrap();
        let image = disk.image(Image::AllLost);
        let anew = read_only(image).unwrap();
        let [first, last] =
            [&anew, &readers[1]].map(|reader| told(reader, |reply| read_now(reply).unwrap()));
        assert_eq!(first, last, "seed {seed}");
    }
}
