//! What a session may show: every state that its one writer brought about, in order.

use std::sync::{Mutex, PoisonError};

/// What the messages of a session say, in order.
pub(crate) type Texts = Vec<String>;

/// The states of one session. Whoever looks sees one between the last that was there
/// for certain before, and the last that was begun until then.
///
/// A lock of std: it is no part of what is explored.
#[derive(Debug, Default)]
#[expect(clippy::disallowed_types, reason = "must not be scheduled")]
pub(crate) struct States(Mutex<Known>);

#[derive(Debug)]
struct Known {
    states: Vec<Texts>,
    /// Nobody who looks from now on sees an earlier one.
    seen: usize,
    /// No power loss from now on brings an earlier one back.
    kept: usize,
}

impl Default for Known {
    fn default() -> Self {
        Self {
            states: vec![Vec::new()],
            seen: 0,
            kept: 0,
        }
    }
}

impl States {
    fn known(&self) -> impl std::ops::DerefMut<Target = Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A state that may be seen from now on.
    pub(crate) fn begin(&self, state: Texts) {
        self.known().states.push(state);
    }

    /// The state that is there now, and survives a power loss if `kept`.
    pub(crate) fn reach(&self, state: Texts, kept: bool) {
        let mut known = self.known();
        known.states.push(state);
        known.seen = known.states.len() - 1;
        if kept {
            known.kept = known.seen;
        }
    }

    /// The first state that may be seen now; that may be there after a power loss.
    pub(crate) fn mark(&self) -> (usize, usize) {
        let known = self.known();
        (known.seen, known.kept)
    }

    /// The states up to the mark survive a power loss.
    pub(crate) fn keep(&self, seen: usize) {
        let mut known = self.known();
        known.kept = known.kept.max(seen);
    }

    /// Whether `seen` is a state from the mark `from` on.
    pub(crate) fn knows(&self, from: usize, seen: &Texts) -> bool {
        self.known().states[from..].contains(seen)
    }

    /// Asserts that `seen` is a state from the mark `from` on. Nobody who looks later sees
    /// an earlier one.
    pub(crate) fn check(&self, from: usize, seen: &Texts, by: &str) {
        let mut known = self.known();
        let found = known.states[from..].iter().position(|state| state == seen);
        let Some(found) = found else {
            let possible = &known.states[from..];
            panic!("{by} saw {seen:?}, and not one of {possible:?}");
        };
        known.seen = known.seen.max(from + found);
    }

    /// As [`check`](Self::check), after a power loss that nobody else has seen.
    pub(crate) fn check_lost(&self, from: usize, left: &Texts) {
        let known = self.known();
        let possible = &known.states[from..];
        assert!(
            possible.contains(left),
            "a power loss left {left:?}, and not one of {possible:?}"
        );
    }
}
