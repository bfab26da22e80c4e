//! The commands that wait for the lanes, and the choice of the next ones.
//!
//! A transaction costs the server about as much as ten commands in it. So a lane begins a
//! transaction only if the commands would not soon go with others. While as many commands are under
//! way as there are lanes, later ones wait for company, unless that takes too long. When a
//! transaction has answered its callers, the first of them that come back also wait for the others.

mod company;
mod sleep;

use std::collections::{HashMap, HashSet, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use sessionlog::Error;
use tokio::time::Instant;

use self::company::Company;
use self::sleep::{Asleep, Sleepers};
use crate::command::Command;

/// The most bytes of commands in one transaction, unless one command alone has more.
const BATCH_BYTES: usize = 8 << 20;

/// Commands of other sessions do not wait for a transaction that takes longer than this. Another
/// process may have its sessions.
const LATE: Duration = Duration::from_millis(20);

/// The queue between callers and lanes.
///
/// Commands for a key are carried out in the order in which they were queued. Two lanes never carry
/// them out at the same time, because the second could lock the session first.
#[derive(Debug)]
pub(crate) struct Queue {
    state: Mutex<State>,
    lanes: usize,
    most: usize,
}

#[derive(Debug, Default)]
struct State {
    /// Waiting commands, each with its number, by session.
    waiting: HashMap<u64, VecDeque<(u64, Command)>>,
    numbered: u64,
    /// Sessions without commands under way, by the kind of their first command: commands that share
    /// a transaction, or a command that has its own.
    sharing: VecDeque<u64>,
    single: VecDeque<u64>,
    /// Sessions with commands under way.
    held: HashSet<u64>,
    /// Groups under way of commands that share a transaction.
    groups: Vec<Group>,
    company: Company,
    sleepers: Sleepers,
    /// Number of lanes.
    open: usize,
    closed: bool,
}

#[derive(Debug)]
struct Group {
    number: u64,
    since: Instant,
    commands: usize,
    sessions: usize,
}

/// Commands for one transaction. Other commands of their sessions wait until it is dropped.
#[derive(Debug)]
pub(crate) struct Batch {
    pub(crate) commands: Vec<Command>,
    held: Vec<u64>,
    number: u64,
    queue: Arc<Queue>,
}

/// The next task of a lane.
enum Next {
    Carry(Vec<Command>),
    /// Wait for a task, until this time if it is known.
    Wait(Option<Instant>),
    End,
}

/// A lane's place at the queue.
#[derive(Debug)]
pub(crate) struct Place(Arc<Queue>);

impl Queue {
    /// Makes a queue for `lanes` lanes, with `most` commands in a transaction at most.
    pub(crate) fn new(lanes: usize, most: usize) -> Arc<Self> {
        Arc::new(Self {
            state: Mutex::default(),
            lanes,
            most,
        })
    }

    /// Returns a lane's place.
    pub(crate) fn join(self: &Arc<Self>) -> Place {
        self.lock().open += 1;
        Place(self.clone())
    }

    /// Queues a command.
    ///
    /// # Errors
    /// `Closed`.
    pub(crate) fn push(&self, command: Command) -> Result<(), Error> {
        let mut state = self.lock();
        if state.closed {
            return Err(Error::Closed);
        }
        let session = command.session;
        state.numbered += 1;
        let numbered = (state.numbered, command);
        let of_session = state.waiting.entry(session).or_default();
        of_session.push_back(numbered);
        if of_session.len() == 1 && !state.held.contains(&session) {
            state.make_ready(session);
            self.tell(&mut state);
        }
        Ok(())
    }

    /// Refuses every later command. The queued commands are carried out.
    pub(crate) fn close(&self) {
        let mut state = self.lock();
        state.closed = true;
        state.sleepers.rouse_all();
    }

    /// Makes another lane look, if there is a task for it. If that lane finds more than one batch,
    /// it tells the next lane.
    fn tell(&self, state: &mut State) {
        let goes = !state.single.is_empty() || self.takes_more(state).is_ok();
        let is_left = !state.single.is_empty() || !state.sharing.is_empty();
        if is_left && (goes || !state.sleepers.has_alarm()) {
            state.sleepers.rouse_one();
        }
    }

    /// Returns `Ok` if commands that share a transaction may begin another; else the time when this
    /// may change.
    fn takes_more(&self, state: &State) -> Result<(), Instant> {
        let now = Instant::now();
        let on_time = || state.groups.iter().filter(|one| one.since + LATE > now);
        let under_way: usize = on_time().map(|one| one.commands).sum();
        let ready = state.sharing.len();
        if ready >= self.most || state.closed {
            return Ok(());
        }
        if under_way < self.lanes {
            return state.company.awaited(ready, now).map_or(Ok(()), Err);
        }
        let first = on_time().map(|one| one.since + LATE).min();
        first.map_or(Ok(()), Err)
    }

    fn next(&self, state: &mut State) -> Next {
        let gate = self.takes_more(state);
        let group = state.first(&state.sharing).filter(|_| gate.is_ok());
        let single = state.first(&state.single);
        match (group, single) {
            (Some(group), Some(single)) if single < group => Next::Carry(state.take_single()),
            (Some(_), _) => Next::Carry(state.take_group(self.most)),
            (None, Some(_)) => Next::Carry(state.take_single()),
            (None, None) if state.closed && state.waiting.is_empty() => Next::End,
            // This lane sets the alarm now, so the first command to come need not rouse a lane only
            // for that.
            // back.
            (None, None) if state.sharing.is_empty() => {
                Next::Wait(state.company.awaited(0, Instant::now()))
            }
            (None, None) => Next::Wait(gate.err()),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Under the lock no code of a caller runs. So no panic can leave the state half changed.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Returns the number of the first command in a list of sessions.
    fn first(&self, sessions: &VecDeque<u64>) -> Option<u64> {
        let waiting = self.waiting.get(sessions.front()?)?;
        waiting.front().map(|(number, _)| *number)
    }

    fn make_ready(&mut self, session: u64) {
        let Some((_, first)) = self.waiting.get(&session).and_then(VecDeque::front) else {
            return;
        };
        if first.order.verb.is_simple() {
            self.sharing.push_back(session);
        } else {
            self.single.push_back(session);
        }
    }

    fn take_single(&mut self) -> Vec<Command> {
        let session = self.single.pop_front();
        let command = session.and_then(|session| self.take_first(session, |_| true));
        command.into_iter().collect()
    }

    /// Takes the commands for one transaction: the first commands of each session, in their order.
    fn take_group(&mut self, most: usize) -> Vec<Command> {
        let (mut commands, mut bytes) = (Vec::new(), 0);
        while let Some(session) = self.sharing.pop_front() {
            let before = commands.len();
            while commands.len() < most {
                let fits = |command: &Command| {
                    let verb = &command.order.verb;
                    let fits = commands.is_empty() || bytes + verb.bytes() <= BATCH_BYTES;
                    verb.is_simple() && fits
                };
                let Some(command) = self.take_first(session, fits) else {
                    break;
                };
                bytes += command.order.verb.bytes();
                commands.push(command);
            }
            if commands.len() == before {
                self.sharing.push_front(session);
                break;
            }
        }
        commands
    }

    fn take_first(&mut self, session: u64, fits: impl Fn(&Command) -> bool) -> Option<Command> {
        let waiting = self.waiting.get_mut(&session)?;
        waiting.front().filter(|(_, first)| fits(first))?;
        let (_, command) = waiting.pop_front()?;
        if waiting.is_empty() {
            self.waiting.remove(&session);
        }
        Some(command)
    }
}

impl Place {
    /// Waits for the next batch to carry out. Returns `None` once the queue is closed and empty.
    pub(crate) async fn take(&self) -> Option<Batch> {
        loop {
            let asleep = {
                let mut state = self.0.lock();
                match self.0.next(&mut state) {
                    Next::End => {
                        state.sleepers.rouse_all();
                        return None;
                    }
                    Next::Carry(commands) => {
                        let mut batch = self.begin(commands, &mut state);
                        drop(state);
                        // Callers that wait for a place are woken on this thread, and may do
                        // anything. So this does not run under the lock.
                        for command in &mut batch.commands {
                            command.place = None;
                        }
                        return Some(batch);
                    }
                    Next::Wait(until) => Asleep::until(&self.0, until, &mut state.sleepers),
                }
            };
            asleep.await_news().await;
        }
    }

    fn begin(&self, commands: Vec<Command>, state: &mut State) -> Batch {
        state.numbered += 1;
        let mut held: Vec<u64> = commands.iter().map(|command| command.session).collect();
        held.dedup();
        state.held.extend(&held);
        if commands[0].order.verb.is_simple() {
            state.company.begins(held.len() + state.sharing.len());
            state.groups.push(Group {
                number: state.numbered,
                since: Instant::now(),
                commands: commands.len(),
                sessions: held.len(),
            });
        }
        self.0.tell(state);
        Batch {
            commands,
            held,
            number: state.numbered,
            queue: self.0.clone(),
        }
    }
}

impl Drop for Batch {
    fn drop(&mut self) {
        let mut state = self.queue.lock();
        for session in &self.held {
            state.held.remove(session);
            state.make_ready(*session);
        }
        // Its lane looks next, and tells of the rest.
        let group = state
            .groups
            .iter()
            .position(|one| one.number == self.number);
        if let Some(group) = group.map(|at| state.groups.swap_remove(at)) {
            let now = Instant::now();
            state
                .company
                .answered(group.sessions, now - group.since, now);
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.open -= 1;
        if state.open == 0 {
            // No lane is left to carry them out. The waiting callers are told that the store is
            // closed.
            state.closed = true;
            let left = std::mem::take(&mut state.waiting);
            drop(state);
            drop(left);
        } else if state.closed {
            // This lane may have taken the last commands, and the others waited for their end.
            state.sleepers.rouse_all();
        } else {
            // If this lane panicked, another lane takes the commands that waited for its sessions.
            self.0.tell(&mut state);
        }
    }
}

/// Returns the number that stands for the session of a key. If two keys have the same number, one
/// waits for the other.
pub(crate) fn session_of(key: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    key.trim().hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests;
