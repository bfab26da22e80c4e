//! What a session was, state by state.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Numbers of messages, oldest first.
pub(super) type Numbers = Vec<u64>;

/// One state of a session.
#[derive(Clone, Debug, Default)]
pub(super) struct State {
    /// What truncations have hidden since the history was last replaced. It is in the
    /// file until a compaction.
    pub(super) hidden: Numbers,
    pub(super) shown: Numbers,
    /// Some of several messages that one command adds: the session never is that, but
    /// a write of theirs may be seen while it is under way.
    pub(super) part: bool,
}

/// The states of one session, each entered before its command is submitted.
#[derive(Debug)]
pub(super) struct Past {
    pub(super) key: String,
    states: Mutex<States>,
    /// Other programs were promised to see this state or a later one.
    flushed: AtomicUsize,
}

#[derive(Debug)]
struct States {
    /// The number of the first state that is still held.
    first: usize,
    held: VecDeque<(&'static str, State)>,
}

/// How a look was explained.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Seen {
    pub(super) state: usize,
    /// There were hidden lines before those of the state.
    pub(super) more: bool,
    /// The state shows nothing.
    pub(super) bare: bool,
    /// The state is one that other programs see alone.
    pub(super) part: bool,
}

impl State {
    /// A history that replaces what was there.
    pub(super) fn new(shown: Numbers) -> Self {
        Self {
            shown,
            ..Self::default()
        }
    }

    pub(super) fn with(mut self, added: &[u64]) -> Self {
        self.shown.extend(added);
        self
    }

    pub(super) fn truncated(mut self, keep: usize) -> Self {
        let kept = self.shown.len().saturating_sub(keep);
        self.hidden.extend(self.shown.drain(..kept));
        self
    }

    /// As it was before message `mark` was added, but for what was hidden since.
    pub(super) fn reverted(mut self, mark: u64) -> Self {
        self.hidden.retain(|number| *number < mark);
        self.shown.retain(|number| *number < mark);
        self
    }

    /// Whether lines are those that it shows, and hidden ones right before them.
    fn is_end_of(&self, lines: &[u64]) -> bool {
        let Some(before) = lines.strip_suffix(&self.shown[..]) else {
            return false;
        };
        self.hidden.ends_with(before)
    }
}

impl Past {
    /// A session that does not exist yet.
    pub(super) fn new(key: String) -> Self {
        let held = VecDeque::from([("nothing", State::default())]);
        Self {
            key,
            states: Mutex::new(States { first: 0, held }),
            flushed: AtomicUsize::new(0),
        }
    }

    /// What the session is from now on, or soon, and by which command.
    pub(super) fn enter(&self, command: &'static str, state: State) {
        let mut states = self.states.lock().unwrap();
        states.held.push_back((command, state));
    }

    /// What the session is when all commands are carried out.
    pub(super) fn newest(&self) -> State {
        let states = self.states.lock().unwrap();
        states.held.back().unwrap().1.clone()
    }

    /// A flush has brought the newest state to the files.
    pub(super) fn note_flushed(&self) {
        let states = self.states.lock().unwrap();
        let newest = states.first + states.held.len() - 1;
        self.flushed.store(newest, Ordering::Release);
    }

    pub(super) fn flushed(&self) -> usize {
        self.flushed.load(Ordering::Acquire)
    }

    /// Finds what was seen among the states from `from` on, and forgets those before
    /// it.
    pub(super) fn explain(&self, lines: &[u64], from: usize) -> Result<Seen, String> {
        let mut states = self.states.lock().unwrap();
        let first = states.first;
        let mut numbered = (first..).zip(&states.held).skip(from - first);
        let mut after = numbered.clone();
        let exact = after.find(|(_, (_, state))| state.shown == lines);
        let found = exact.or_else(|| numbered.find(|(_, (_, state))| state.is_end_of(lines)));
        let Some((nth, (_, state))) = found else {
            return Err(states.unlike(&self.key, lines, from));
        };
        let seen = Seen {
            state: nth,
            more: state.shown != lines,
            bare: state.shown.is_empty(),
            part: state.part,
        };
        states.held.drain(..nth - first);
        states.first = nth;
        Ok(seen)
    }
}

impl States {
    fn unlike(&self, key: &str, lines: &[u64], from: usize) -> String {
        let possible: Vec<_> = self.held.iter().skip(from - self.first).collect();
        let first = &possible[..possible.len().min(6)];
        let count = possible.len();
        format!("{key} reads as {lines:?}, not as any of {count} states, the first {first:?}")
    }
}
