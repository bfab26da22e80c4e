//! Plays a script on a store, and remembers what was answered.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use sessionlog::testing::disk_model::{Image, MemoryStorage};
use sessionlog::testing::sim::{DIR, Sim, Ticket};
use sessionlog::{CheckpointId, Durability, Error, Fork, Message, Reply, Result, StoreHandle};

use crate::crash::check::{Verdict, check_files};
use crate::crash::model::{Act, Fate, Loss, Outcome, State, edit, possible, take_once};
use crate::crash::script::{Op, Script, Step};

/// A script being played.
pub(crate) struct Play<'a> {
    script: &'a Script,
    pub(crate) storage: MemoryStorage,
    seed: u64,
    sim: Option<Sim>,
    sessions: BTreeMap<&'static str, Session>,
    flushes: Vec<(Ticket<()>, Vec<Reached>)>,
    /// How often the store was opened.
    life: usize,
    /// Whether it was opened since a call failed.
    pub(crate) reopened: bool,
    /// Whether another program looks at the session files after every step: it must
    /// see whole lines.
    pub(crate) watched: bool,
    /// What went wrong in the play itself.
    pub(crate) faults: Vec<String>,
}

/// Which command of a session had been answered at some moment.
type Reached = (&'static str, usize);

struct Session {
    start: State,
    commands: Vec<Command>,
    /// So many of its commands can no longer be lost.
    kept: usize,
}

struct Command {
    act: Act,
    level: Durability,
    life: usize,
    pending: Option<Pending>,
    answer: Option<Result<()>>,
}

enum Pending {
    Plain(Ticket<()>),
    Promotion(Ticket<bool>),
    Checkpoint(Ticket<CheckpointId>),
    /// The answer to this command of another session.
    Of(&'static str, usize),
}

impl<'a> Play<'a> {
    /// A play on a new disk that holds the script's foreign files.
    pub(crate) fn new(script: &'a Script, seed: u64) -> Self {
        let storage = MemoryStorage::new();
        for (name, text) in &script.foreign {
            let path = Path::new(DIR).join(name);
            storage
                .write_foreign(path, text.as_bytes())
                .expect("the disk is empty and works");
        }
        let mut play = Self {
            script,
            storage,
            seed,
            sim: None,
            sessions: BTreeMap::new(),
            flushes: Vec::new(),
            life: 0,
            reopened: false,
            watched: false,
            faults: Vec::new(),
        };
        for (key, state) in &script.start {
            play.session(key).start = state.clone();
        }
        play
    }

    /// Opens the store; the steps from here on are the script's own, unless it
    /// is about the opening itself.
    pub(crate) fn open(&mut self) -> bool {
        match Sim::open(self.storage.clone(), &self.script.options, self.seed) {
            Ok(sim) => {
                self.sim = Some(sim);
                self.life += 1;
                self.reopened = self.storage.faults_hit() > 0;
                // What recovery accepts is on disk before anything is served.
                self.keep_answered();
            }
            Err(error) if self.went_well() => self.faults.push(format!("open failed: {error}")),
            Err(_) => {}
        }
        self.sim.is_some()
    }

    /// Plays the script to its end, or to where the store stops.
    pub(crate) fn play(&mut self) {
        for step in &self.script.steps {
            let goes_on = !self.is_off() && self.step(step);
            if self.watched {
                self.watch();
            }
            if !goes_on {
                break;
            }
        }
        self.collect();
        if let Some(sim) = &mut self.sim {
            for session in self.sessions.values_mut() {
                for command in &mut session.commands {
                    command.settle(sim);
                }
            }
        }
        self.note_hangs();
    }

    /// Whether the store shows, after what failed, what it answered: nothing that was
    /// refused, and all that was acknowledged.
    pub(crate) fn check_shown(&mut self) -> Verdict<()> {
        // What was refused as poisoned may stand in the journal, and be recovered.
        if self.reopened {
            return Ok(());
        }
        let Some(sim) = &mut self.sim else {
            return Ok(());
        };
        for (key, session) in &self.sessions {
            let taken = |c: &Command| c.act.takes();
            if session.commands.iter().any(taken) {
                // Where calls fail there may have been nothing to take over.
                continue;
            }
            let reply = sim.handle().exact_keys().history(key);
            let shown = sim.run(reply).map_err(|e| format!("{key} reads as {e}"))?;
            let shown: Vec<_> = shown.iter().map(|m| m.text().into_owned()).collect();
            let expected = session.latest().texts;
            if shown != expected {
                return Err(format!("{key} shows {shown:?}, and holds {expected:?}"));
            }
        }
        Ok(())
    }

    fn watch(&mut self) {
        let files = self.storage.dump();
        let own = |path: &str| {
            let log = path.strip_prefix("sessions/");
            let log = log.and_then(|path| path.strip_suffix(".jsonl"));
            log.is_some_and(|stem| !stem.contains('/'))
        };
        for (path, bytes) in files {
            let ended = bytes.last().is_none_or(|last| *last == b'\n');
            if own(&path) && !ended {
                self.faults.push(format!("{path} ends in part of a line"));
            }
        }
    }

    /// Closes the store.
    pub(crate) fn close(&mut self) -> Option<Result<()>> {
        let closed = self.sim.take()?.close();
        if closed.is_ok() {
            self.keep_answered();
        }
        Some(closed)
    }

    /// Writes to a session of its own; the answer, if the store is open.
    pub(crate) fn probe(&mut self) -> Option<Result<()>> {
        self.submit(&[Op {
            key: "probe",
            act: Act::Append(vec!["still there?".to_owned()]),
            level: Durability::Durable,
        }]);
        if !self.wait() {
            return None;
        }
        self.session("probe").commands.last()?.answer.clone()
    }

    /// The store goes, without doing anything any more. Whoever comes next
    /// finds room.
    pub(crate) fn die(&mut self) {
        self.sim = None;
        self.storage.capacity(u64::MAX);
    }

    pub(crate) fn script(&self) -> &'a Script {
        self.script
    }

    /// Whether every call so far was made by a machine that was on.
    fn went_well(&self) -> bool {
        self.storage.faults_hit() == 0 && !self.is_off()
    }

    /// Whether the power was cut.
    pub(crate) fn is_off(&self) -> bool {
        let last = self.storage.last_calls(1);
        last.iter().any(|call| call.ends_with("power is off"))
    }

    /// Whether a machine that is in this state runs at all: a file system that
    /// fails to write names stops, and what the page cache says of them is
    /// nothing that a restarted process would meet.
    pub(crate) fn may_go_on(&self) -> bool {
        let names = ["sync_dir", "sync_all"];
        !self.is_off() && self.failed_sync(&names).is_none()
    }

    /// The sync that failed, if it is one of these.
    pub(crate) fn failed_sync(&self, what: &[&str]) -> Option<String> {
        let calls = self.storage.last_calls(512).into_iter();
        let mut syncs = calls.filter(|call| call.contains(": sync_") && call.contains(" failed: "));
        syncs.find(|call| what.iter().any(|what| call.contains(what)))
    }

    pub(crate) fn keys(&self) -> impl Iterator<Item = &'static str> {
        self.sessions.keys().copied()
    }

    /// What a session may look like now.
    pub(crate) fn possible(&self, key: &str, loss: Loss) -> Vec<State> {
        let session = &self.sessions[key];
        let kept = self.flushed(key).max(session.kept);
        let disturbed = self.storage.faults_hit() > 0;
        let fates = session.commands.iter().enumerate().map(|(nth, command)| {
            let outcome = Outcome::of(command.answer.as_ref(), command.level);
            let covered = outcome == Outcome::Buffered && nth < kept;
            // Where calls fail there may be nothing to take over.
            let optional = disturbed && command.act.takes();
            // Whether it was taken before could not be read: nothing was begun. Were each one
            // there or not, a script of many would have more states than there is memory for.
            let unread = matches!(command.act, Act::Once(..))
                && matches!(
                    &command.answer,
                    Some(Err(Error::Io {
                        operation: "read",
                        ..
                    }))
                );
            let outcome = match outcome {
                Outcome::Either if unread => Outcome::Refused,
                Outcome::Durable if optional => Outcome::Either,
                Outcome::Buffered if covered => Outcome::Durable,
                other => other,
            };
            Fate {
                act: &command.act,
                outcome,
                life: command.life,
            }
        });
        possible(&session.start, fates, loss)
    }

    /// What a session held one command after the other.
    pub(crate) fn states(&self, key: &str) -> Vec<Vec<String>> {
        let session = &self.sessions[key];
        let mut state = session.start.clone();
        let mut states = vec![state.texts.clone()];
        for command in &session.commands {
            if !matches!(command.answer, Some(Err(_))) {
                state = state.after(&command.act);
                states.push(state.texts.clone());
            }
        }
        states
    }

    /// Every answer to a command so far.
    pub(crate) fn answers(&self) -> impl Iterator<Item = (&'static str, &Act, &Result<()>)> {
        self.sessions.iter().flat_map(|(key, session)| {
            let answered = session.commands.iter();
            answered.filter_map(|c| Some((*key, &c.act, c.answer.as_ref()?)))
        })
    }

    /// Every id under which a session was to take something once.
    pub(crate) fn once_ids(&self) -> BTreeSet<(&'static str, String)> {
        let sessions = self.sessions.iter();
        let acts = sessions
            .flat_map(|(key, session)| session.commands.iter().map(|command| (*key, &command.act)));
        let ids = acts.filter_map(|(key, act)| match act {
            Act::Once(id, _) => Some((key, id.clone())),
            _ => None,
        });
        let moved = self.moves();
        let moved = moved.flat_map(|(new, _, source)| source.once.iter().map(move |id| (new, id)));
        ids.chain(moved.map(|(new, id)| (new, id.clone())))
            .collect()
    }

    /// The sessions that were to go on under another key: that, the old one, and what it was.
    pub(crate) fn moves(&self) -> impl Iterator<Item = (&'static str, &'static str, &State)> {
        self.sessions.iter().flat_map(|(key, session)| {
            let acts = session.commands.iter().map(|command| &command.act);
            acts.filter_map(|act| match act {
                Act::Become(old, source) => Some((*key, *old, source)),
                _ => None,
            })
        })
    }

    /// What was not answered as an undisturbed store answers.
    pub(crate) fn failures(&self) -> Vec<String> {
        let full = |answer: &Result<()>| matches!(answer, Err(Error::StorageFull { .. }));
        let commands = self.answers();
        let commands = commands.filter(|(_, _, answer)| answer.is_err());
        let commands = commands.filter(|(_, _, answer)| !(self.script.fills && full(answer)));
        let commands = commands.map(|(key, act, answer)| format!("{key} {act:?}: {answer:?}"));
        let flushes = self.flushes.iter().map(|(ticket, _)| ticket.answer());
        let flushes = flushes.filter(|answer| !matches!(answer, Some(Ok(()))));
        commands
            .chain(flushes.map(|answer| format!("flush: {answer:?}")))
            .collect()
    }

    fn flushed(&self, key: &str) -> usize {
        let done = self.flushes.iter();
        let done = done.filter(|(ticket, _)| matches!(ticket.answer(), Some(Ok(()))));
        let reached = done.flat_map(|(_, reached)| reached);
        let own = reached.filter(|(of, _)| *of == key).map(|(_, nth)| *nth);
        own.max().unwrap_or(0)
    }

    fn session(&mut self, key: &'static str) -> &mut Session {
        self.sessions.entry(key).or_insert_with(|| Session {
            start: State::default(),
            commands: Vec::new(),
            kept: 0,
        })
    }

    /// Makes one move; `false` if there is no store left to make it on.
    fn step(&mut self, step: &Step) -> bool {
        match step {
            Step::Do(ops) => {
                self.submit(ops);
                self.wait()
            }
            Step::Start(ops) => {
                self.submit(ops);
                true
            }
            Step::Flush => {
                self.wait();
                if let Some(sim) = &mut self.sim {
                    sim.until_quiet();
                }
                self.start(Sim::submit_flush);
                let goes_on = self.wait();
                self.check_flushed();
                goes_on
            }
            Step::StartPurge => {
                self.start(Sim::submit_purge);
                true
            }
            Step::StartFlush => {
                self.start(Sim::submit_flush);
                true
            }
            Step::Pause(time) => {
                let Some(sim) = &mut self.sim else {
                    return false;
                };
                sim.pause(*time);
                self.wait();
                if self.went_well() {
                    self.keep_answered();
                }
                true
            }
            Step::Reopen => {
                let closed = self.close();
                self.collect();
                self.note_hangs();
                if let Some(Err(error)) = closed
                    && self.went_well()
                {
                    self.faults.push(format!("close failed: {error}"));
                }
                self.may_go_on() && self.open()
            }
            Step::Fill(more) => {
                let used: usize = self.storage.dump().values().map(Vec::len).sum();
                self.storage.capacity(used as u64 + more);
                true
            }
            Step::Free => {
                self.storage.capacity(u64::MAX);
                true
            }
            Step::Restart => {
                self.wait();
                self.die();
                self.may_go_on() && self.open()
            }
        }
    }

    fn submit(&mut self, ops: &[Op]) {
        for op in ops {
            let (act, life) = (self.resolve(&op.act), self.life);
            let Some(sim) = &mut self.sim else { return };
            let handle = sim.handle().exact_keys().with_durability(op.level);
            let pending = submit(sim, &handle, op.key, &act);
            self.session(op.key).commands.push(Command {
                act,
                level: op.level,
                life,
                pending: Some(pending),
                answer: None,
            });
            if let Act::Move(old) = op.act {
                let answer = self.session(op.key).commands.len() - 1;
                self.session(old).commands.push(Command {
                    act: Act::Leave,
                    level: op.level,
                    life,
                    pending: Some(Pending::Of(op.key, answer)),
                    answer: None,
                });
            }
        }
    }

    fn resolve(&self, act: &Act) -> Act {
        match act {
            Act::Promote(alias) => Act::TakeOver(alias, self.sessions[alias].latest()),
            Act::Fork(from) => Act::Copy(from, self.sessions[from].latest()),
            Act::Move(old) => Act::Become(old, self.sessions[old].latest()),
            other => other.clone(),
        }
    }

    /// Starts what is a flush, or more.
    fn start(&mut self, flush: impl Fn(&mut Sim) -> Ticket<()>) {
        self.collect();
        let sessions = self.sessions.iter();
        let reached = sessions.map(|(key, session)| (*key, session.answered()));
        let reached = reached.collect();
        if let Some(sim) = &mut self.sim {
            let ticket = flush(sim);
            self.flushes.push((ticket, reached));
        }
    }

    /// Lets the store run until everything submitted is answered.
    fn wait(&mut self) -> bool {
        let Some(sim) = &mut self.sim else {
            return false;
        };
        for session in self.sessions.values_mut() {
            for command in &mut session.commands {
                command.settle(sim);
            }
        }
        for (ticket, _) in &self.flushes {
            let _ = sim.until_answered(ticket);
        }
        self.collect();
        self.note_hangs();
        true
    }

    /// After a flush that nothing ran beside, the session files alone hold
    /// everything.
    fn check_flushed(&mut self) {
        if !self.went_well() {
            return;
        }
        let sessions = self.sessions.iter();
        let states = sessions.map(|(key, session)| (*key, session.latest()));
        let counted = self.script.foreign.is_empty();
        if let Err(fault) = check_files(&self.storage, &states.collect(), counted) {
            self.faults.push(format!("after a flush {fault}"));
        }
    }

    fn keep_answered(&mut self) {
        self.collect();
        for session in self.sessions.values_mut() {
            session.kept = session.answered();
        }
    }

    fn collect(&mut self) {
        let mut shared = Vec::new();
        for (key, session) in &mut self.sessions {
            for (nth, command) in session.commands.iter_mut().enumerate() {
                command.collect();
                if let Some(Pending::Of(of, answer)) = command.pending {
                    shared.push((*key, nth, of, answer));
                }
            }
        }
        for (key, nth, of, answer) in shared {
            let answer = self.sessions[of].commands[answer].answer.clone();
            self.session(key).commands[nth].answer = answer;
        }
    }

    /// Whatever happens, everyone gets an answer.
    fn note_hangs(&mut self) {
        for (key, session) in &self.sessions {
            for command in session.commands.iter().filter(|c| c.answer.is_none()) {
                let act = &command.act;
                self.faults
                    .push(format!("{key}: {act:?} is never answered"));
            }
        }
    }
}

impl Session {
    /// The state after everything submitted that did not fail.
    fn latest(&self) -> State {
        let commands = self.commands.iter();
        let commands = commands.filter(|c| !matches!(c.answer, Some(Err(_))));
        let acts = commands.map(|command| &command.act);
        acts.fold(self.start.clone(), |state, act| state.after(act))
    }

    fn answered(&self) -> usize {
        let answered = self.commands.iter().take_while(|c| c.answer.is_some());
        answered.count()
    }
}

impl Command {
    fn settle(&mut self, sim: &mut Sim) {
        match &self.pending {
            Some(Pending::Plain(ticket)) => drop(sim.until_answered(ticket)),
            Some(Pending::Promotion(ticket)) => drop(sim.until_answered(ticket)),
            Some(Pending::Checkpoint(ticket)) => drop(sim.until_answered(ticket)),
            Some(Pending::Of(..)) | None => {}
        }
        self.collect();
    }

    fn collect(&mut self) {
        let answer = match &self.pending {
            Some(Pending::Plain(ticket)) => ticket.answer(),
            Some(Pending::Promotion(ticket)) => ticket.answer().map(|a| a.map(drop)),
            Some(Pending::Checkpoint(ticket)) => ticket.answer().map(|a| a.map(drop)),
            Some(Pending::Of(..)) | None => return,
        };
        if answer.is_some() {
            self.answer = answer;
            self.pending = None;
        }
    }
}

fn submit(sim: &mut Sim, handle: &StoreHandle, key: &str, act: &Act) -> Pending {
    let reply = match act {
        Act::Append(texts) => handle.append_all(key, messages(texts)),
        Act::Truncate(keep) => handle.truncate_history(key, *keep),
        Act::Update(update) => update.submit(handle, key),
        Act::Once(id, text) => take_once(handle, key, id, text),
        Act::Compact => handle.compact(key),
        Act::SetHistory(texts) => handle.set_history(key, messages(texts)),
        Act::SetSummary(summary) => handle.set_summary(key, summary),
        Act::Edit(newer, text) => edit(handle, key, *newer, text.as_ref()),
        Act::SetTitle(title) => handle.set_title(key, title),
        Act::SetAliases(aliases) => handle.upsert_session_meta(key, None, aliases.clone()),
        Act::Delete => handle.delete_session(key),
        Act::Promote(alias) | Act::TakeOver(alias, _) => {
            let aliases = vec![(*alias).to_owned()];
            let reply = handle.promote_alias_history(key, None, aliases);
            return Pending::Promotion(sim.submit(reply));
        }
        Act::Checkpoint => {
            let reply = handle.context(key).checkpoint(false);
            return Pending::Checkpoint(sim.submit(reply));
        }
        Act::Usage(tokens) => handle.context(key).update_token_count(*tokens),
        Act::Revert(id) => {
            let id = i64::try_from(*id).expect("scripts are short");
            handle.context(key).revert_to(id)
        }
        Act::Clear => handle.context(key).clear(),
        Act::Restore(number) => handle.restore_backup(key, *number),
        Act::Fork(from) | Act::Copy(from, _) => handle.fork_session(from, key, Fork::End),
        Act::Move(old) | Act::Become(old, _) => {
            let reply = handle.merge_session(old, key);
            Reply::from_future(async { reply.await.map(drop) })
        }
        Act::Leave => unreachable!("is submitted to the other key"),
    };
    Pending::Plain(sim.submit(reply))
}

fn messages(texts: &[String]) -> Vec<Message> {
    texts.iter().map(Message::user).collect()
}

/// A copy of a disk, with what is still owed to it.
pub(crate) fn copy(storage: &MemoryStorage) -> MemoryStorage {
    storage.image(Image::ProcessDeath)
}
