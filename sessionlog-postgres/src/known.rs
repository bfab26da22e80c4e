//! The state of the sessions that this process changed last. With it, new lines for them need no
//! question first.
//!
//! The state may be out of date. A transaction that builds on it is committed only if the database
//! still has the same state (`append_known` in [`Sql`](crate::sql::Sql)). Otherwise it is tried
//! once more, with the state from the database. A session that another process writes, too, costs
//! such tries. So the state of a session is believed only after the session was found unchanged a
//! number of times. That number doubles each time that the session was found changed.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use sessionlog::SessionTags;
use sessionlog::backend::kit;

use crate::command::{Order, Update, Verb};
use crate::row::Session;

/// Number of sessions in a generation. Sessions that no transaction asks for while the next
/// generation fills up are forgotten.
const GENERATION: usize = 1 << 14;

/// The longest scope and names of a session that is kept, in bytes.
const IDENTITY_BYTES: usize = 4 << 10;

/// Longer runs of finding a session unchanged are not demanded.
const MOST: u16 = 1 << 10;

/// The sessions that a store changed last.
#[derive(Debug, Default)]
pub(crate) struct Known {
    state: Mutex<Generations>,
}

/// Entries by key. An entry that is looked up in the older generation moves to the younger one.
#[derive(Debug, Default)]
struct Generations {
    young: HashMap<String, Entry>,
    old: HashMap<String, Entry>,
}

#[derive(Debug)]
struct Entry {
    /// The version that this process left.
    version: i64,
    /// The state that it left, while no transaction has it.
    session: Option<Session>,
    /// The number of times in a row that it was found unchanged, and the number from which on it is
    /// believed.
    found: u16,
    needed: u16,
}

impl Known {
    /// Takes the sessions of orders out, if all of them are known and believed, and the orders only
    /// add lines. Otherwise returns none. If a session had to be locked first, it would be locked
    /// out of order, and two transactions could wait for each other.
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

    /// Compares sessions from the database with the states that were left.
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

    /// Keeps sessions in the state that was committed.
    pub(crate) fn keep(&self, sessions: impl Iterator<Item = Session>) {
        let mut state = self.lock();
        for mut session in sessions {
            session.settle();
            let names = session.aliases.iter().map(String::len).sum::<usize>();
            if names + session.scope.as_ref().map_or(0, String::len) > IDENTITY_BYTES {
                continue;
            }
            // Work that is done without a look does not need these.
            (session.summary, session.tags) = (String::new(), SessionTags::default());
            state.keep(session);
        }
    }

    /// Forgets all sessions. From now on another server may answer, which lacks the data of this
    /// one.
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

/// True if an order only needs the state that the last change of its session left, and changes the
/// session in any case. An answer that no commit confirms would be a guess.
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

/// True if the order's key means its own session whatever aliases exist.
pub(crate) fn is_its_own(order: &Order) -> bool {
    order.exact || kit::is_own_first(&order.key)
}
