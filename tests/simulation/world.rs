//! One seed's worth of a gateway's life: clients, a store, a disk, and what
//! goes wrong.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::LazyLock;
use std::time::Duration;

use sessionlog::internals::sim::{DIR, Sim, Ticket, read_now, read_only};
use sessionlog::storage::memory::{Image, MemoryStorage};
use sessionlog::{Durability, Message, Result, StoreHandle, StoreOptions};

use crate::draw::Draw;
use crate::model::{Act, Loss, State};
use crate::session::{Command, Pending, Session};
use crate::tally::Tally;
use crate::trouble::Trouble;

/// What is wrong, in words.
pub(crate) type Verdict<T = ()> = std::result::Result<T, String>;

/// All sessions, as one look finds them.
pub(crate) type Seen = BTreeMap<&'static str, State>;

/// The keys that seeds choose from: enough to reach every shard.
static KEYS: LazyLock<Vec<&'static str>> = LazyLock::new(|| {
    let key = |n| &*Box::leak(format!("chat:{n}").into_boxed_str());
    (0..400).map(key).collect()
});

/// Commands that one client submits before it waits for the first of them.
const DEPTH: usize = 3;

/// Commands of a session that may have taken effect or not, each for itself,
/// before clients leave it alone.
const MAX_DOUBTS: usize = 6;

/// Everything there is in one run.
pub(crate) struct World {
    pub(crate) draw: Draw,
    pub(crate) storage: MemoryStorage,
    pub(crate) sim: Option<Sim>,
    pub(crate) trouble: Trouble,
    pub(crate) tally: Tally,
    options: StoreOptions,
    keys: Vec<&'static str>,
    sessions: BTreeMap<&'static str, Session>,
    clients: usize,
    flushes: Vec<(Ticket<()>, BTreeMap<&'static str, usize>)>,
    reads: Vec<Read>,
    texts: u64,
    told: Option<Vec<String>>,
}

/// A read under way.
struct Read {
    key: &'static str,
    ticket: Ticket<Vec<Message>>,
    /// Commands of the session that were answered when it was asked for.
    answered: usize,
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
        for (key, state) in found {
            self.sessions.entry(key).or_default().restart(state);
        }
        self.sim = Some(sim);
    }

    /// What every session looks like through a handle.
    pub(crate) fn look(&self, sim: &mut Sim) -> Verdict<Seen> {
        let handle = sim.handle().exact_keys();
        let wrap = |e: sessionlog::Error| format!("reading failed: {e}");
        let listed = sim.run(handle.list_sessions()).map_err(wrap)?;
        let mut found = Seen::new();
        for key in &self.keys {
            let history = sim.run(handle.history(key)).map_err(wrap)?;
            let meta = sim.run(handle.session_meta(key)).map_err(wrap)?;
            let state = State {
                listed: listed.iter().any(|listed| listed == key),
                texts: texts_of(&history),
                summary: meta.summary,
                aliases: meta.aliases,
            };
            found.insert(*key, state);
        }
        Ok(found)
    }

    /// What a read-only look shows now and then, which must change nothing.
    pub(crate) fn look_beside(&mut self) -> Verdict<Option<Seen>> {
        let before = self.storage.dump();
        if !self.draw.one_in(3) || !before.keys().any(|path| path.starts_with("sessions/")) {
            return Ok(None);
        }
        let wrap = |e: sessionlog::Error| format!("read-only: {e}");
        let handle = read_only(self.storage.clone()).map_err(wrap)?;
        let handle = handle.exact_keys();
        let listed = read_now(handle.list_sessions()).map_err(wrap)?;
        let mut found = Seen::new();
        for key in &self.keys {
            let meta = read_now(handle.session_meta(key)).map_err(wrap)?;
            let state = State {
                listed: listed.iter().any(|listed| listed == key),
                texts: texts_of(&read_now(handle.history(key)).map_err(wrap)?),
                summary: meta.summary,
                aliases: meta.aliases,
            };
            found.insert(*key, state);
        }
        if self.storage.dump() == before {
            Ok(Some(found))
        } else {
            Err("a read-only look changed the files".to_owned())
        }
    }

    /// Whether every session may look as it was found after a crash.
    pub(crate) fn check(&self, found: &Seen, loss: Loss) -> Verdict {
        for (key, state) in found {
            let possible = self.sessions[key].possible(loss, self.trouble.met());
            if !possible.contains(state) {
                return Err(format!(
                    "session {key} is {state:?}, and could only be one of {possible:?}"
                ));
            }
        }
        Ok(())
    }

    /// One client does something, or time passes.
    pub(crate) fn go_on(&mut self) -> Verdict {
        match self.draw.below(24) {
            0..=11 => self.submit_something(),
            12..=14 => self.read_something(),
            15 => self.start_flush(),
            16 => self.wait(),
            17 => self.pass_time(),
            _ => self.step_some(),
        }
        self.collect()
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
        let errors = commands.filter_map(|c| c.answer.as_ref()?.as_ref().err());
        errors.last().map(ToString::to_string)
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

    fn submit_something(&mut self) {
        let key = self.draw.pick(&self.keys);
        let owed = self.sessions.values().flat_map(|s| &s.commands);
        let owed = owed.filter(|c| c.answer.is_none()).count();
        if owed >= self.clients * DEPTH || self.is_off_limits(key) {
            return;
        }
        if let Some(act) = self.draw_act(key) {
            let level = if self.draw.one_in(3) && !matches!(act, Act::Promote(_)) {
                Durability::Buffered
            } else {
                Durability::Durable
            };
            self.submit(key, act, level);
        }
    }

    /// A promotion looks at the other session before it takes its place in the
    /// queue of its own: what is submitted beside it has no order to check.
    fn is_off_limits(&self, key: &str) -> bool {
        let promoting = |session: &Session, about: &str| {
            session.commands.iter().any(|c| {
                c.answer.is_none() && matches!(c.act, Act::TakeOver(alias, _) if alias == about)
            })
        };
        let own = self.sessions[key].commands.last();
        let own = own.is_some_and(|c| c.answer.is_none() && matches!(c.act, Act::TakeOver(..)));
        own || self.sessions[key].doubts() >= MAX_DOUBTS
            || self.sessions.values().any(|s| promoting(s, key))
    }

    fn draw_act(&mut self, key: &'static str) -> Option<Act> {
        let act = match self.draw.below(20) {
            0..=8 => Act::Append(vec![self.text()]),
            9..=10 => {
                let count = 1 + self.draw.below(5);
                Act::Append((0..count).map(|_| self.text()).collect())
            }
            11..=12 => Act::Truncate(self.draw.below(4)),
            13 => Act::Compact,
            14 => {
                let count = self.draw.below(4);
                Act::SetHistory((0..count).map(|_| self.text()).collect())
            }
            15..=16 => Act::SetSummary(self.text()),
            17 if self.draw.one_in(2) => Act::SetAliases(Vec::new()),
            17 => Act::SetAliases(vec![alias_of(key)]),
            18 => Act::Delete,
            _ => {
                let alias = self.draw.pick(&self.keys);
                let sources = [&self.sessions[key], &self.sessions[alias]];
                if alias == key || self.trouble.met() || !sources.iter().all(|s| s.is_quiet()) {
                    return None;
                }
                Act::Promote(alias)
            }
        };
        Some(act)
    }

    fn submit(&mut self, key: &'static str, act: Act, level: Durability) {
        let act = match act {
            Act::Promote(alias) => Act::TakeOver(alias, self.sessions[alias].latest()),
            other => other,
        };
        self.tell(|_| format!("{key}: {act:?} {level:?}"));
        let by_alias = self.may_use_alias(key, &act);
        let Some(sim) = &mut self.sim else { return };
        let handle = sim.handle().with_durability(level);
        let pending = if by_alias {
            self.tally.by_alias += 1;
            submit(sim, &handle, &alias_of(key), &act)
        } else {
            submit(sim, &handle.exact_keys(), key, &act)
        };
        let session = self.sessions.entry(key).or_default();
        session.commands.push(Command {
            act,
            level,
            pending: Some(pending),
            answer: None,
        });
        self.tally.commands += 1;
    }

    /// Whether the session's alias is known to lead to it.
    fn may_use_alias(&mut self, key: &str, act: &Act) -> bool {
        let literal = matches!(act, Act::SetAliases(_) | Act::TakeOver(..));
        let session = &self.sessions[key];
        !literal
            && session.is_certain()
            && session.latest().aliases.contains(&alias_of(key))
            && self.draw.one_in(2)
    }

    fn read_something(&mut self) {
        let key = self.draw.pick(&self.keys);
        let answered = self.sessions[key].answered();
        let Some(sim) = &mut self.sim else { return };
        let ticket = sim.submit(sim.handle().exact_keys().history(key));
        self.reads.push(Read {
            key,
            ticket,
            answered,
        });
    }

    fn start_flush(&mut self) {
        self.tell(|_| "flush".to_owned());
        let reached = self.reached();
        if let Some(sim) = &mut self.sim {
            self.flushes.push((sim.submit_flush(), reached));
        }
    }

    fn pass_time(&mut self) {
        let time = Duration::from_millis(self.draw.pick(&[20, 100, 400, 1200]));
        self.tell(|_| format!("{time:?} pass"));
        let reached = self.reached();
        let Some(sim) = &mut self.sim else { return };
        sim.pause(time);
        if !self.is_disturbed() {
            // Buffered records do not linger for longer than that.
            self.keep(&reached);
        }
    }

    fn step_some(&mut self) {
        let steps = 1 + self.draw.below(30);
        let Some(sim) = &mut self.sim else { return };
        for _ in 0..steps {
            if !sim.step() {
                break;
            }
        }
    }

    /// Notes all answers, and looks whether they may be true.
    fn collect(&mut self) -> Verdict {
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

    fn check_reads(&mut self, disturbed: bool) -> Verdict {
        for read in std::mem::take(&mut self.reads) {
            let Some(answer) = read.ticket.answer() else {
                self.reads.push(read);
                continue;
            };
            if disturbed {
                continue;
            }
            let shown = answer.map_err(|e| format!("{}: a read failed: {e}", read.key))?;
            let shown = texts_of(&shown);
            let possible = self.sessions[read.key].between(read.answered);
            self.tally.reads += 1;
            if !possible.iter().any(|state| state.texts == shown) {
                return Err(format!(
                    "{}: a reader saw {shown:?}, and could only see one of {possible:?}",
                    read.key
                ));
            }
        }
        Ok(())
    }

    /// How many commands of each session are answered.
    fn reached(&mut self) -> BTreeMap<&'static str, usize> {
        self.sessions.values_mut().for_each(Session::collect);
        let sessions = self.sessions.iter();
        sessions.map(|(key, s)| (*key, s.answered())).collect()
    }

    fn keep(&mut self, reached: &BTreeMap<&'static str, usize>) {
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
        self.tell(|_| format!("crash, {image:?}"));
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

    /// A text nobody wrote before: one that is back shows.
    fn text(&mut self) -> String {
        self.texts += 1;
        let long = match self.draw.below(12) {
            0 => 600,
            1 => 3000,
            2 => 6000,
            _ => 0,
        };
        format!("text {}{}", self.texts, "·".repeat(long / 2))
    }
}

impl Session {
    fn collect(&mut self) {
        for command in &mut self.commands {
            command.collect();
        }
    }
}

fn submit(sim: &mut Sim, handle: &StoreHandle, key: &str, act: &Act) -> Pending {
    let messages = |texts: &[String]| texts.iter().map(Message::user).collect();
    let reply = match act {
        Act::Append(texts) => match &texts[..] {
            [text] => handle.add_message(key, "user", text),
            texts => handle.append_all(key, messages(texts)),
        },
        Act::Truncate(keep) => handle.truncate_history(key, *keep),
        Act::Compact => handle.compact(key),
        Act::SetHistory(texts) => handle.set_history(key, messages(texts)),
        Act::SetSummary(summary) => handle.set_summary(key, summary),
        Act::SetAliases(aliases) => handle.upsert_session_meta(key, None, aliases.clone()),
        Act::Delete => handle.delete_session(key),
        Act::Promote(alias) | Act::TakeOver(alias, _) => {
            let aliases = vec![(*alias).to_owned()];
            let reply = handle.promote_alias_history(key, None, aliases);
            return Pending::Promotion(sim.submit(reply));
        }
    };
    Pending::Plain(sim.submit(reply))
}

fn texts_of(messages: &[Message]) -> Vec<String> {
    messages.iter().map(|m| m.text().to_string()).collect()
}

fn alias_of(key: &str) -> String {
    format!("alias-of-{key}")
}
