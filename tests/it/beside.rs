//! A reader that looks again and again beside a writer: it says what the writer says, and each
//! look costs what was added.

use std::sync::{Arc, Mutex};

use sessionlog::testing::disk_model::{Image, MemoryStorage};
use sessionlog::testing::sim::{Sim, read_now, read_only, read_only_on};
use sessionlog::{Message, Reply, SessionOrder, SessionQuery, StoreHandle, StoreOptions};

use crate::intercept::Intercepted;
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

/// A store that acts in the midst of its readers' calls, and what it said of every session
/// after each act.
struct Restless {
    sim: Sim,
    random: Random,
    states: Vec<Vec<Vec<String>>>,
}

impl Restless {
    fn act(&mut self) {
        act(&mut self.sim, &mut self.random);
        let chats = self.sim.handle();
        let state = told(&chats, |reply| run(&mut self.sim, reply));
        self.states.push(state);
    }
}

/// Of each session, the state that a page of `sessions` shows.
fn paged(reader: &StoreHandle) -> Vec<(String, u64, String)> {
    let query = SessionQuery::new().order(SessionOrder::Updated);
    let page = read_now(reader.sessions(query)).unwrap();
    assert_eq!(page.unreadable, Vec::<String>::new());
    let sessions = page.sessions.into_iter();
    let told = sessions.map(|one| (one.key, one.lines, one.last_text));
    told.collect()
}

#[test]
fn whatever_a_writer_does_between_two_calls_of_a_reader_each_session_is_read_at_one_moment() {
    let seeds = if is_long() { 2_000 } else { 150 };
    let mut acts = 0;
    for seed in 0..seeds {
        let disk = MemoryStorage::new();
        let sim = opened(&disk, seed, 16 << 10);
        let restless = Restless {
            sim,
            random: Random::of(seed),
            states: Vec::new(),
        };
        let restless = Arc::new(Mutex::new(restless));
        for _ in 0..10 {
            restless.lock().unwrap().act();
        }
        let storage = Intercepted::on(disk.clone()).shared();
        let reader = read_only_on(Arc::new(storage.clone())).unwrap();
        let (acting, mut calls) = (restless.clone(), Random::of(seed + 1));
        let every = 1 + calls.below(12);
        let calls = Mutex::new(calls);
        storage.at_every_call(move |_, _, _| {
            let mut acting = acting.lock().unwrap();
            // A few in a row may be more than a reader has patience for.
            if calls.lock().unwrap().below(every) == 0 && acting.states.len() < 300 {
                acting.act();
            }
            Ok(())
        });
        for round in 0..12 {
            let begin = restless.lock().unwrap().states.len() - 1;
            let key = round % KEYS.len();
            let history = said(&read_now(reader.exact_keys().history(KEYS[key])).unwrap());
            let states = restless.lock().unwrap().states[begin..].to_vec();
            let is_one = states.iter().any(|state| state[key] == history);
            assert!(
                is_one,
                "seed {seed}, {}: {history:?} of {states:?}",
                KEYS[key]
            );

            let begin = restless.lock().unwrap().states.len() - 1;
            for (key, lines, last) in paged(&reader) {
                let place = KEYS.iter().position(|one| *one == key).unwrap();
                let states = restless.lock().unwrap().states[begin..].to_vec();
                let is_one = states.iter().any(|state| {
                    let state = &state[place];
                    state.len() as u64 == lines && state.last().map_or("", |last| last) == last
                });
                assert!(is_one, "seed {seed}, {key}: {lines} {last} of {states:?}");
            }
        }
        acts += restless.lock().unwrap().states.len();
    }
    assert!(acts > 50 * seeds as usize, "{acts}");
}
