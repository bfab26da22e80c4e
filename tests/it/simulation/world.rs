//! One seed's worth of a gateway's life: clients, a store, a disk, and what
//! goes wrong.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::LazyLock;

use sessionlog::testing::disk_model::{Image, MemoryStorage};
use sessionlog::testing::sim::{DIR, Sim, Ticket};
use sessionlog::{Durability, Message, Result, StoreOptions};

use crate::crash::model::{Act, State};
use crate::simulation::draw::Draw;
use crate::simulation::session::Session;
use crate::simulation::tally::Tally;
use crate::simulation::trouble::Trouble;

/// What is wrong, in words.
pub(crate) type Verdict<T = ()> = std::result::Result<T, String>;

/// All sessions, as one look finds them.
pub(crate) type Seen = BTreeMap<&'static str, State>;

/// The keys that seeds choose from: enough to reach every shard.
static KEYS: LazyLock<Vec<&'static str>> = LazyLock::new(|| {
    let key = |n| &*Box::leak(format!("chat:{n}").into_boxed_str());
    (0..400).map(key).collect()
});

/// Everything there is in one run.
pub(crate) struct World {
    pub(crate) draw: Draw,
    pub(crate) storage: MemoryStorage,
    pub(crate) sim: Option<Sim>,
    pub(crate) trouble: Trouble,
    pub(crate) tally: Tally,
    options: StoreOptions,
    pub(crate) keys: Vec<&'static str>,
    pub(crate) sessions: BTreeMap<&'static str, Session>,
    pub(crate) clients: usize,
    pub(crate) flushes: Vec<(Ticket<()>, BTreeMap<&'static str, usize>)>,
    pub(crate) reads: Vec<Read>,
    pub(crate) texts: u64,
    told: Option<Vec<String>>,
}

/// A read under way.
pub(crate) struct Read {
    pub(crate) key: &'static str,
    pub(crate) ticket: Ticket<Vec<Message>>,
    /// Commands of the session that were answered when it was asked for.
    pub(crate) answered: usize,
}

impl World {
    /// A gateway with an empty disk, or one with another program's files on it.
    /// Keeps a diary if it is to be `told`.
    pub(crate) fn new(seed: u64, told: bool) -> Self {
        let mut draw = Draw::seeded(seed);
        let first = 4 << draw.below(3) << 10;
        let mut options = StoreOptions::new()
            .auto_compact(!draw.one_in(3))
            .journal_segments(first, first << draw.below(3));
        if draw.one_in(3) {
            options = options.max_open_files(1 + draw.below(3));
        }
        let count = 2 + draw.below(14);
        let mut keys: Vec<_> = (0..count).map(|_| draw.pick(&KEYS)).collect();
        keys.sort_unstable();
        keys.dedup();
        let mut world = Self {
            storage: MemoryStorage::new(),
            sim: None,
            trouble: Trouble::default(),
            tally: Tally::default(),
            options,
            sessions: keys.iter().map(|key| (*key, Session::default())).collect(),
            keys,
            clients: 2 + draw.below(7),
            flushes: Vec::new(),
            reads: Vec::new(),
            texts: 0,
            told: told.then(Vec::new),
            draw,
        };
        if world.draw.one_in(4) {
            world.place_foreign();
        }
        for key in &world.keys {
            world.tally.touch(key);
        }
        world
    }

    /// A history that another program left, its last line without an end.
    fn place_foreign(&mut self) {
        let key = self.keys[0];
        let stem = Path::new(DIR).join(key.replace(':', "_"));
        let write = |suffix, text: &str| {
            let path = stem.with_extension(suffix);
            let written = self.storage.write_foreign(path, text.as_bytes());
            written.expect("the disk is empty and works");
        };
        write(
            "jsonl",
            "{\"role\":\"user\",\"content\":\"zero\"}\n{\"role\":\"user\",\"content\":\"one\"}",
        );
        write(
            "meta.json",
            &format!("{{\"key\":\"{key}\",\"skip\":1,\"count\":2}}"),
        );
        let session = self.sessions.entry(key).or_default();
        session.start.listed = true;
        session.start.texts = vec!["one".to_owned()];
    }

    /// Opens the store with the order of its parts drawn anew.
    pub(crate) fn try_open(&mut self) -> Result<Sim> {
        let order = self.draw.next() | 1;
        Sim::open(self.storage.clone(), &self.options, order)
    }

    /// What was submitted since the store was opened goes on from `found`.
    pub(crate) fn restart(&mut self, sim: Sim, found: Seen) {
        self.flushes.clear();
        self.reads.clear();
        for (key, mut state) in found {
            // Of several states that look alike, which ids it took is not known.
            state.once.clear();
            self.sessions.entry(key).or_default().restart(state);
        }
        self.sim = Some(sim);
    }

    /// Everything submitted is answered, or the store never will.
    pub(crate) fn wait(&mut self) {
        self.tell(|_| "wait".to_owned());
        let Some(sim) = &mut self.sim else { return };
        for session in self.sessions.values_mut() {
            for command in &mut session.commands {
                command.settle(sim);
            }
        }
        for (ticket, _) in &self.flushes {
            let _ = sim.until_answered(ticket);
        }
        for read in &self.reads {
            let _ = sim.until_answered(&read.ticket);
        }
    }

    /// Waits, and looks that nobody was forgotten.
    pub(crate) fn settle(&mut self) -> Verdict {
        self.wait();
        self.collect()?;
        for (key, session) in &self.sessions {
            if let Some(command) = session.commands.iter().find(|c| c.answer.is_none()) {
                return Err(format!("{key}: {:?} is never answered", command.act));
            }
        }
        if self
            .flushes
            .iter()
            .any(|(ticket, _)| ticket.answer().is_none())
        {
            return Err("a flush is never answered".to_owned());
        }
        if self.reads.iter().any(|read| read.ticket.answer().is_none()) {
            return Err("a read is never answered".to_owned());
        }
        Ok(())
    }

    /// Closes the store; what was answered can no longer be lost.
    pub(crate) fn close(&mut self) -> Option<Result<()>> {
        let closed = self.sim.take()?.close();
        if closed.is_ok() {
            self.keep_answered();
        }
        Some(closed)
    }

    /// Writes to a session until that works, at most `tries` times.
    pub(crate) fn heals(&mut self, tries: usize) -> bool {
        let key = self.keys[0];
        for _ in 0..tries {
            let text = self.text();
            self.submit(key, Act::Append(vec![text]), Durability::Durable);
            self.wait();
            self.pass_time();
            self.sessions.values_mut().for_each(Session::collect);
            let last = self.sessions[key].commands.last();
            if last.is_some_and(|command| matches!(command.answer, Some(Ok(())))) {
                return true;
            }
        }
        false
    }

    /// The last error a command of any session met.
    pub(crate) fn last_refusal(&self) -> Option<String> {
        let commands = self.sessions.values().flat_map(|s| &s.commands);
        let mut errors = commands.filter_map(|c| c.answer.as_ref()?.as_ref().err());
        errors.next_back().map(ToString::to_string)
    }

    /// Notes what happens, if anybody asked.
    pub(crate) fn tell(&mut self, what: impl FnOnce(&Self) -> String) {
        if self.told.is_some() {
            let line = format!("step {}: {}", self.storage.steps(), what(self));
            self.told.get_or_insert_default().push(line);
        }
    }

    /// The diary.
    pub(crate) fn diary(&self) -> &[String] {
        self.told.as_deref().unwrap_or_default()
    }

    /// Notes all answers, and looks whether they may be true.
    pub(crate) fn collect(&mut self) -> Verdict {
        // What a closing store had not taken in is refused.
        let disturbed = self.is_disturbed() || self.sim.is_none();
        for (key, session) in &mut self.sessions {
            for command in &mut session.commands {
                command.collect();
                if let Some(Err(error)) = &command.answer
                    && !disturbed
                {
                    return Err(format!("{key}: {:?} failed: {error}", command.act));
                }
            }
        }
        for (ticket, reached) in std::mem::take(&mut self.flushes) {
            match ticket.answer() {
                None => self.flushes.push((ticket, reached)),
                Some(Ok(())) => self.keep(&reached),
                Some(Err(_)) if disturbed => {}
                Some(Err(error)) => return Err(format!("a flush failed: {error}")),
            }
        }
        self.check_reads(disturbed)
    }

    /// How many commands of each session are answered.
    pub(crate) fn reached(&mut self) -> BTreeMap<&'static str, usize> {
        self.sessions.values_mut().for_each(Session::collect);
        let sessions = self.sessions.iter();
        sessions.map(|(key, s)| (*key, s.answered())).collect()
    }

    pub(crate) fn keep(&mut self, reached: &BTreeMap<&'static str, usize>) {
        for (key, nth) in reached {
            let session = self.sessions.entry(key).or_default();
            session.kept = session.kept.max(*nth);
        }
    }

    fn keep_answered(&mut self) {
        for session in self.sessions.values_mut() {
            session.collect();
            session.kept = session.answered();
        }
    }

    /// Whether a call failed that the engine cannot make up for by itself, or
    /// the power is off.
    pub(crate) fn is_disturbed(&mut self) -> bool {
        self.trouble.look(&self.storage);
        self.trouble.met()
    }

    /// Goes on with what a crash left.
    pub(crate) fn crash(&mut self, image: Image) {
        self.tell(|world| {
            let calls = world.storage.last_calls(60).join("\n  ");
            format!("crash, {image:?}, after\n  {calls}")
        });
        self.sim = None;
        self.storage = self.storage.image(image);
        self.trouble.forget_disk();
    }

    /// Answers that were good and bad.
    pub(crate) fn count_answers(&mut self) {
        let commands = self.sessions.values().flat_map(|s| &s.commands);
        for command in commands {
            match command.answer {
                Some(Ok(())) => self.tally.acknowledged += 1,
                Some(Err(_)) => self.tally.refused += 1,
                None => {}
            }
        }
    }
}

impl Session {
    fn collect(&mut self) {
        for command in &mut self.commands {
            command.collect();
        }
    }
}
