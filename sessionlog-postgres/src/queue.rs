//! What waits for the lanes, and which of it goes next.
//!
//! A transaction costs the server about as much as ten commands in it. So a lane begins one
//! only if the commands would not soon go with others: while as many are under way as there
//! are lanes, later ones wait for company, unless that takes too long.

use std::collections::{HashSet, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use sessionlog::Error;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::command::Command;

/// The most bytes of commands in one transaction, unless one alone has more.
const BATCH_BYTES: usize = 8 << 20;

/// A transaction that takes longer, perhaps because another process has its sessions, is not
/// waited for by commands of other sessions.
const LATE: Duration = Duration::from_millis(20);

/// The queue between callers and lanes.
///
/// Commands of a session are carried out in the order in which they were queued, and never by
/// two lanes at a time: the second could lock the session first.
#[derive(Debug)]
pub(crate) struct Queue {
    state: Mutex<State>,
    news: Notify,
    lanes: usize,
    most: usize,
}

#[derive(Debug, Default)]
struct State {
    waiting: VecDeque<Command>,
    /// Sessions of which commands are under way.
    held: HashSet<u64>,
    /// What is under way of commands that share a transaction.
    groups: Vec<Group>,
    begun: u64,
    /// Lanes that sleep.
    idle: usize,
    /// One of them looks again by itself, or was told to.
    alarmed: bool,
    /// Lanes that there are.
    open: usize,
    closed: bool,
}

#[derive(Debug)]
struct Group {
    number: u64,
    since: Instant,
    commands: usize,
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
            news: Notify::new(),
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
        let free = !state.held.contains(&command.session);
        let goes = free && (!command.order.verb.is_simple() || self.takes_more(&state).is_ok());
        state.waiting.push_back(command);
        // Who has the session looks again when it is free.
        let tells = state.idle > 0 && (goes || free && !state.alarmed);
        state.alarmed |= tells;
        drop(state);
        if tells {
            self.news.notify_one();
        }
        Ok(())
    }

    /// Refuses every later command. What is queued is carried out.
    pub(crate) fn close(&self) {
        self.lock().closed = true;
        for _ in 0..self.lanes {
            self.news.notify_one();
        }
    }

    /// Whether another group may begin; else when that may be otherwise.
    fn takes_more(&self, state: &State) -> Result<(), Instant> {
        let now = Instant::now();
        let on_time = || state.groups.iter().filter(|one| one.since + LATE > now);
        let under_way: usize = on_time().map(|one| one.commands).sum();
        if under_way < self.lanes || state.waiting.len() >= self.most {
            return Ok(());
        }
        let first = on_time().map(|one| one.since + LATE).min();
        first.map_or(Ok(()), Err)
    }

    fn next(&self, state: &mut State) -> Next {
        let more = self.takes_more(state);
        let mut commands: Vec<Command> = Vec::new();
        let (mut bytes, mut passed, mut until) = (0, Vec::new(), None);
        while commands.len() < self.most
            && let Some(command) = state.waiting.pop_front()
        {
            if state.held.contains(&command.session) {
                passed.push(command);
                continue;
            }
            let is_simple = command.order.verb.is_simple();
            bytes += command.order.verb.bytes();
            let fits = if commands.is_empty() {
                until = more.err().filter(|_| is_simple);
                until.is_none()
            } else {
                is_simple && bytes <= BATCH_BYTES
            };
            if !fits {
                state.waiting.push_front(command);
                break;
            }
            commands.push(command);
            if !is_simple {
                break;
            }
        }
        for command in passed.into_iter().rev() {
            state.waiting.push_front(command);
        }
        match commands.len() {
            0 if state.closed && state.waiting.is_empty() => Next::End,
            0 => Next::Wait(until),
            _ => Next::Carry(commands),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing in here panics with the state half changed.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Place {
    /// What to carry out next, when there is something; `None` once the queue is closed and
    /// empty.
    pub(crate) async fn take(&self) -> Option<Batch> {
        loop {
            let until = {
                let mut state = self.0.lock();
                match self.0.next(&mut state) {
                    Next::End => {
                        self.0.news.notify_one();
                        return None;
                    }
                    Next::Carry(commands) => return Some(self.begin(commands, &mut state)),
                    Next::Wait(until) => {
                        state.idle += 1;
                        state.alarmed |= until.is_some();
                        until
                    }
                }
            };
            match until {
                None => self.0.news.notified().await,
                Some(until) => {
                    let _ = tokio::time::timeout_at(until, self.0.news.notified()).await;
                }
            }
            let mut state = self.0.lock();
            state.idle -= 1;
            state.alarmed = false;
        }
    }

    fn begin(&self, mut commands: Vec<Command>, state: &mut State) -> Batch {
        state.begun += 1;
        let held: Vec<u64> = commands.iter().map(|command| command.session).collect();
        state.held.extend(&held);
        if commands[0].order.verb.is_simple() {
            state.groups.push(Group {
                number: state.begun,
                since: Instant::now(),
                commands: commands.len(),
            });
        }
        for command in &mut commands {
            command.place = None;
        }
        // There may be something for another lane: it finds out.
        if state.idle > 0 && !state.waiting.is_empty() && !state.alarmed {
            state.alarmed = true;
            self.0.news.notify_one();
        }
        Batch {
            commands,
            held,
            number: state.begun,
            queue: self.0.clone(),
        }
    }
}

impl Drop for Batch {
    fn drop(&mut self) {
        let mut state = self.queue.lock();
        for session in &self.held {
            state.held.remove(session);
        }
        state.groups.retain(|one| one.number != self.number);
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
        } else {
            // If this lane panicked, what waited for its sessions is another's.
            self.0.news.notify_one();
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
