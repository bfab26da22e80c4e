//! What this process knows of the sessions that it changed last, so that their next lines need
//! no question first.
//!
//! It may be out of date: a transaction that builds on it is committed only if the database
//! still has the same (`append_known` in [`Sql`](crate::sql::Sql)), and is tried once more
//! otherwise, with what the database has. A session that another process writes, too, costs
//! such tries. So what was left of a session is believed only after it was found again, and
//! each time that it was not, twice as often.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use sessionlog::SessionTags;
use sessionlog::backend::kit;

use crate::command::{Order, Update, Verb};
use crate::row::Session;

/// How many sessions a generation has. Those that no transaction asks for while the next one
/// fills up are forgotten.
const GENERATION: usize = 1 << 14;

/// The longest scope and names of a session that is kept, bytes.
const IDENTITY_BYTES: usize = 4 << 10;

/// Longer runs of finding a session unchanged are not asked for.
const MOST: u16 = 1 << 10;

/// The sessions that a store changed last.
#[derive(Debug, Default)]
pub(crate) struct Known {
    state: Mutex<Generations>,
}

/// By key. What is looked up in the older generation moves to the younger one.
#[derive(Debug, Default)]
struct Generations {
    young: HashMap<String, Entry>,
    old: HashMap<String, Entry>,
}

#[derive(Debug)]
struct Entry {
    /// The version that this process left.
    version: i64,
    /// As it left it, while no transaction has it.
    session: Option<Session>,
    /// How often in a row it was found as it was left, and from when on it is believed.
    found: u16,
    needed: u16,
}

impl Known {
    /// Takes the sessions of orders out, if all of them are known and believed and nothing but
    /// lines is added to them; else none. One that had to be locked first would be locked out
    /// of order, and two transactions could wait for each other.
    pub(crate) fn take(&self, orders: &[&Order]) -> Vec<Session> {
        if !orders.iter().all(|order| needs_no_look(order)) {
            return Vec::new();
        }
        let mut state = self.lock();
        if !orders.iter().all(|order| state.believes(&order.key)) {
            return Vec::new();
        }
        // A second order for a session finds it taken.
        let sessions = orders.iter().filter_map(|order| {
            let entry = state.entry(&order.key)?;
            entry.session.take()
        });
        sessions.collect()
    }

    /// Compares sessions, as the database has them, with how they were left.
    pub(crate) fn compare(&self, sessions: &[Session]) {
        let mut state = self.lock();
        for session in sessions {
            let Some(entry) = state.entry(&session.key) else {
                continue;
            };
            entry.session = None;
            if entry.version == session.version {
                entry.found = entry.found.saturating_add(1);
            } else {
                (entry.found, entry.needed) = (0, (entry.needed * 2).min(MOST));
            }
        }
    }

    /// Keeps sessions as they were committed.
    pub(crate) fn keep(&self, sessions: impl Iterator<Item = Session>) {
        let mut state = self.lock();
        for mut session in sessions {
            session.settle();
            let names = session.aliases.iter().map(String::len).sum::<usize>();
            if names + session.scope.as_ref().map_or(0, String::len) > IDENTITY_BYTES {
                continue;
            }
            // Nothing that is done without a look needs it.
            (session.summary, session.tags) = (String::new(), SessionTags::default());
            state.keep(session);
        }
    }

    /// Forgets all: another server may answer from now on, which does not have what this
    /// one had.
    pub(crate) fn forget(&self) {
        *self.lock() = Generations::default();
    }

    fn lock(&self) -> MutexGuard<'_, Generations> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Generations {
    fn believes(&mut self, key: &str) -> bool {
        let entry = self.entry(key);
        entry.is_some_and(|entry| entry.session.is_some() && entry.found >= entry.needed)
    }

    fn entry(&mut self, key: &str) -> Option<&mut Entry> {
        if let Some((key, entry)) = self.old.remove_entry(key) {
            self.add(key, entry);
        }
        self.young.get_mut(key)
    }

    fn add(&mut self, key: String, entry: Entry) {
        if self.young.len() >= GENERATION {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(key, entry);
    }

    fn keep(&mut self, session: Session) {
        if let Some(entry) = self.entry(&session.key) {
            entry.version = session.version;
            entry.session = Some(session);
            return;
        }
        let entry = Entry {
            version: session.version,
            session: Some(session.clone()),
            found: 0,
            needed: 1,
        };
        self.add(session.key, entry);
    }
}

/// Whether all that an order needs of its session is what its last change left, and whether it
/// changes it in any case: an answer that no commit confirms would be a guess.
fn needs_no_look(order: &Order) -> bool {
    let Verb::Update(update) = &order.verb else {
        return false;
    };
    let Update {
        lines,
        summary: None,
        keep: None,
        tags: None,
        expect: None,
        after: None,
        once,
        carried: None,
        dates: None,
    } = update
    else {
        return false;
    };
    (!lines.is_empty() || once.is_some()) && order.key.trim() == order.key
}

/// Whether the session of the order's key is meant by it whatever aliases there are.
pub(crate) fn is_its_own(order: &Order) -> bool {
    order.exact || kit::is_own_first(&order.key)
}
