//! Random conversations beside a plain model of one, on a modelled disk that
//! loses power now and then: what the store says is what the model says.

#![expect(
    clippy::cast_possible_wrap,
    clippy::cast_sign_loss,
    clippy::unwrap_used,
    reason = "the numbers are small, and the test fails loudly"
)]

mod model;

use crate::support::{Random, is_long};
use sessionlog::testing::disk_model::{Image, MemoryStorage};
use sessionlog::testing::sim::Sim;
use sessionlog::{Error, Fork, Message, Result, StoreHandle, StoreOptions};

use model::{Model, Session, State};

/// Random conversations, four times as many with `SESSIONLOG_LONG=1`.
const SEQUENCES: u64 = 500;
const STEPS: usize = 60;
const THREADS: u64 = 4;
const KEYS: [&str; 3] = ["telegram:1", "telegram_1", "cli"];

#[test]
fn a_store_says_what_a_plain_model_says() {
    let sequences = if is_long() { 4 * SEQUENCES } else { SEQUENCES };
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            scope.spawn(move || {
                for seed in (thread..sequences).step_by(THREADS as usize) {
                    Run::new(seed).play();
                }
            });
        }
    });
}

/// One sequence.
struct Run {
    seed: u64,
    random: Random,
    disk: MemoryStorage,
    sim: Option<Sim>,
    model: Model,
    log: Vec<String>,
}

impl Run {
    fn new(seed: u64) -> Self {
        let disk = MemoryStorage::new();
        Self {
            seed,
            random: Random::of(seed),
            sim: Some(open(&disk, seed)),
            disk,
            model: Model::default(),
            log: Vec::new(),
        }
    }

    fn play(mut self) {
        for _ in 0..STEPS {
            let key = KEYS[self.random.below(KEYS.len())];
            self.step(key);
            self.compare(key);
        }
        for key in KEYS {
            self.compare(key);
        }
    }

    fn step(&mut self, key: &'static str) {
        let number = self.random.below(1000);
        match self.random.below(26) {
            0..=5 => {
                let texts: Vec<_> = (0..=number % 3).map(|n| format!("{number} {n}")).collect();
                self.note(key, &format!("append {texts:?}"));
                let messages: Vec<_> = texts.iter().map(Message::user).collect();
                self.run(|chats| chats.context(key).append_message(messages))
                    .unwrap();
                self.model.session(key).append(&texts);
            }
            6..=8 => {
                self.note(key, &format!("usage {number}"));
                self.run(|chats| chats.context(key).update_token_count(number as i64))
                    .unwrap();
                self.model.session(key).usage(number as i64);
            }
            9..=12 => {
                let message = number.is_multiple_of(2);
                let id = self
                    .run(|chats| chats.context(key).checkpoint(message))
                    .unwrap();
                self.note(key, &format!("checkpoint {message} -> {id}"));
                assert_eq!(
                    id,
                    self.model.session(key).checkpoint(message),
                    "{}",
                    self.tell()
                );
            }
            13 => {
                let prompt = format!("prompt {number}");
                self.note(key, &prompt);
                self.run(|chats| chats.context(key).write_system_prompt(&prompt))
                    .unwrap();
                self.model.session(key).prompt(&prompt);
            }
            14..=16 => self.revert(key),
            17 => {
                self.note(key, "clear");
                self.run(|chats| chats.context(key).clear()).unwrap();
                self.model.clear(key);
            }
            18..=19 => {
                let keep = number % 5;
                self.note(key, &format!("truncate {keep}"));
                self.run(|chats| chats.truncate_history(key, keep)).unwrap();
                self.model.truncate(key, keep);
            }
            20 => {
                self.note(key, "compact");
                self.run(|chats| chats.compact(key)).unwrap();
                self.model.compact(key);
            }
            21 => self.fork(key, number),
            22 => self.restore(key, number),
            23 if number.is_multiple_of(3) => {
                self.note(key, "delete");
                self.run(|chats| chats.delete_session(key)).unwrap();
                self.model.delete(key);
            }
            23 => {
                self.note(key, &format!("set_history {number}"));
                let history = vec![Message::user(number.to_string())];
                self.run(|chats| chats.set_history(key, history)).unwrap();
                self.model.set_history(key, &number.to_string());
            }
            24 => self.reopen(),
            _ => {
                self.note(key, "flush");
                self.sim.as_mut().unwrap().flush().unwrap();
            }
        }
    }

    fn revert(&mut self, key: &'static str) {
        let next = self.model.state(key).next;
        let id = self.random.below(next as usize + 2) as i64 - i64::from(self.random.below(8) == 0);
        self.note(key, &format!("revert {id}"));
        let told = self.run(|chats| chats.context(key).revert_to(id));
        match (told, self.model.revert(key, id)) {
            (Ok(()), Ok(())) => {}
            (Err(Error::CheckpointNotFound { existing, lost, .. }), Err(expected)) => {
                let existing = existing.into_iter().map(i64::from).collect();
                assert_eq!((existing, lost), expected, "{}", self.tell());
            }
            (told, expected) => panic!("{told:?} {expected:?}\n{}", self.tell()),
        }
    }

    fn fork(&mut self, key: &'static str, number: usize) {
        let to = KEYS[self.random.below(KEYS.len())];
        let state = self.model.state(key);
        let at = match number % 3 {
            0 => Fork::End,
            1 => Fork::Message(self.random.below(12) as u64),
            _ => Fork::Checkpoint((self.random.below(state.next as usize + 1) as i64).into()),
        };
        self.note(key, &format!("fork to {to} at {at:?}"));
        let told = self.run(|chats| chats.fork_session(key, to, at)).is_ok();
        assert_eq!(told, self.model.fork(key, to, at), "{}", self.tell());
        self.compare(to);
    }

    fn restore(&mut self, key: &'static str, number: usize) {
        let number = number as u64 % 4;
        self.note(key, &format!("restore {number}"));
        let told = self.run(|chats| chats.restore_backup(key, number)).is_ok();
        assert_eq!(told, self.model.restore(key, number), "{}", self.tell());
    }

    fn reopen(&mut self) {
        let how = self.random.below(4);
        self.note("-", &format!("reopen {how}"));
        let sim = self.sim.take().unwrap();
        match how {
            0 => sim.close().unwrap(),
            // The process dies.
            1 => drop(sim),
            how => {
                drop(sim);
                let image = match how {
                    2 => Image::NAMED[self.random.below(Image::NAMED.len())],
                    _ => Image::Random(self.random.next()),
                };
                self.log.push(format!("{image:?}"));
                self.disk = self.disk.image(image);
            }
        }
        self.sim = Some(open(&self.disk, self.seed));
        for key in KEYS {
            self.compare(key);
        }
    }

    fn compare(&mut self, key: &'static str) {
        let expected = self.model.state(key);
        let chat = self
            .sim
            .as_ref()
            .unwrap()
            .handle()
            .exact_keys()
            .context(key);
        let history = self.run(|_| chat.history()).unwrap();
        let backups = self.run(|chats| chats.list_backups(key)).unwrap();
        let found = State {
            history: history.iter().map(|m| m.text().into_owned()).collect(),
            tokens: self.run(|_| chat.token_count()).unwrap(),
            pending: self.run(|_| chat.token_count_with_pending()).unwrap(),
            next: self.run(|_| chat.n_checkpoints()).unwrap(),
            prompt: self.run(|_| chat.system_prompt()).unwrap(),
            usages: self.run(|_| chat.usage_history()).unwrap(),
            backups: backups.iter().map(|backup| backup.number).collect(),
        };
        assert_eq!(found, expected, "{}", self.tell());
        self.compare_positions(key, history.len());
    }

    /// The snapshot finds all messages from where it says that its lines begin and end.
    fn compare_positions(&mut self, key: &str, messages: usize) {
        let snapshot = self.run(|chats| chats.snapshot(key)).unwrap();
        let outline = self.run(|_| snapshot.outline(snapshot.start(), 1));
        let anchors = outline.map(|outline| outline.anchors.len());
        assert_eq!(anchors.ok(), Some(messages), "{}", self.tell());
        for (end, many) in [(snapshot.start(), 0), (snapshot.end(), messages)] {
            let page = self.run(|_| snapshot.before(end, usize::MAX));
            let found = page.map(|page| (page.messages.len(), page.is_first));
            assert_eq!(found.ok(), Some((many, true)), "{}", self.tell());
        }
    }

    fn run<T: Clone + Send + 'static>(
        &mut self,
        ask: impl FnOnce(&StoreHandle) -> sessionlog::Reply<T>,
    ) -> Result<T> {
        let sim = self.sim.as_mut().unwrap();
        let reply = ask(&sim.handle().exact_keys());
        sim.run(reply)
    }

    fn note(&mut self, key: &str, what: &str) {
        self.log.push(format!("{key}: {what}"));
    }

    fn tell(&self) -> String {
        format!("seed {}\n{}", self.seed, self.log.join("\n"))
    }
}

fn open(disk: &MemoryStorage, seed: u64) -> Sim {
    let options = StoreOptions::new()
        .auto_compact(false)
        .max_open_files(if seed.is_multiple_of(5) { 1 } else { 256 })
        .journal_segments(16 << 10, 64 << 10);
    Sim::open(disk.clone(), &options, seed).unwrap()
}

impl Session {
    fn texts(&self) -> impl Iterator<Item = &String> {
        self.lines[self.skip..]
            .iter()
            .filter_map(|line| match line {
                model::Line::Message(text) => Some(text),
                _ => None,
            })
    }
}
