//! What waits for the lanes, and which of it goes next.
//!
//! A transaction costs the server about as much as ten commands in it. So a lane begins one
//! only if the commands would not soon go with others: while as many are under way as there
//! are lanes, later ones wait for company, unless that takes too long. So do those who are back
//! first of the callers that a transaction answered.

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

/// The most bytes of commands in one transaction, unless one alone has more.
const BATCH_BYTES: usize = 8 << 20;

/// A transaction that takes longer, perhaps because another process has its sessions, is not
/// waited for by commands of other sessions.
const LATE: Duration = Duration::from_millis(20);

/// The queue between callers and lanes.
///
/// Commands for a key are carried out in the order in which they were queued, and never by
/// two lanes at a time: the second could lock the session first.
#[derive(Debug)]
pub(crate) struct Queue {
    state: Mutex<State>,
    lanes: usize,
    most: usize,
}

#[derive(Debug, Default)]
struct State {
    /// Commands that wait, each with its number, by session.
    waiting: HashMap<u64, VecDeque<(u64, Command)>>,
    numbered: u64,
    /// Sessions of which nothing is under way, by what is first in them: commands that share a
    /// transaction, or one that has its own.
    sharing: VecDeque<u64>,
    single: VecDeque<u64>,
    /// Sessions of which commands are under way.
    held: HashSet<u64>,
    /// What is under way of commands that share a transaction.
    groups: Vec<Group>,
    company: Company,
    sleepers: Sleepers,
    /// Lanes that there are.
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

/// Commands for one transaction. Others of their sessions wait until it is dropped.
#[derive(Debug)]
pub(crate) struct Batch {
    pub(crate) commands: Vec<Command>,
    held: Vec<u64>,
    number: u64,
    queue: Arc<Queue>,
}

/// What a lane is to do.
enum Next {
    Carry(Vec<Command>),
    /// Nothing, for so long if that is known.
    Wait(Option<Instant>),
    End,
}

/// A lane's place at the queue.
#[derive(Debug)]
pub(crate) struct Place(Arc<Queue>);

impl Queue {
    /// A queue for so many lanes, with so many commands in a transaction at most.
    pub(crate) fn new(lanes: usize, most: usize) -> Arc<Self> {
        Arc::new(Self {
            state: Mutex::default(),
            lanes,
            most,
        })
    }

    /// A lane's place.
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

    /// Refuses every later command. What is queued is carried out.
    pub(crate) fn close(&self) {
        let mut state = self.lock();
        state.closed = true;
        state.sleepers.rouse_all();
    }

    /// Has another lane look, if there is something for it. Who is told and finds more than
    /// one batch tells the next.
    fn tell(&self, state: &mut State) {
        let goes = !state.single.is_empty() || self.takes_more(state).is_ok();
        let is_left = !state.single.is_empty() || !state.sharing.is_empty();
        if is_left && (goes || !state.sleepers.has_alarm()) {
            state.sleepers.rouse_one();
        }
    }

    /// Whether commands that share a transaction may begin another; else when that may be
    /// otherwise.
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
            // Whoever comes first then need not rouse anybody who only sets an alarm.
            (None, None) if state.sharing.is_empty() => {
                Next::Wait(state.company.awaited(0, Instant::now()))
            }
            (None, None) => Next::Wait(gate.err()),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Under the lock nothing of a caller's is run, and so nothing panics with the state
        // half changed.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// The number of the command that is first in a list of sessions.
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

    /// What goes in one transaction: of each session what it has first, in its order.
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
    /// What to carry out next, when there is something; `None` once the queue is closed and
    /// empty.
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
                        // Whoever waits for a place is woken, on this thread, and may do
                        // anything: not under the lock.
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
        // Its lane looks next, and tells of what it leaves.
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
            // Nobody would carry them out. Who waits hears that the store is closed.
            state.closed = true;
            let left = std::mem::take(&mut state.waiting);
            drop(state);
            drop(left);
        } else if state.closed {
            // It may have taken what the others waited for to end.
            state.sleepers.rouse_all();
        } else {
            // If this lane panicked, what waited for its sessions is another's.
            self.0.tell(&mut state);
        }
    }
}

/// What stands for the session of a key. If two keys have the same, one waits for the other.
pub(crate) fn session_of(key: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    key.trim().hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests;
