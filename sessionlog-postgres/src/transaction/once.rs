//! Ids of messages that are taken once: the ids that a session took, and those that it may forget.

use tokio_postgres::types::Type;

use super::Transaction;
use crate::command::{Carried, Order};
use crate::connection::Param;
use crate::fault::Tried;
use crate::read::number;
use crate::row::Session;

impl<'a> Transaction<'a> {
    /// Finds out which of the orders' ids were taken before.
    pub(super) async fn look_for_ids(&mut self, orders: &[&Order]) -> Tried<()> {
        // Each id goes with its own session: all ids with all sessions would be a million pairs.
        let (mut sessions, mut ids) = (Vec::new(), Vec::new());
        for order in orders {
            let brought = order.verb.message_ids();
            if brought.is_empty() {
                continue;
            }
            let key = self.resolve(order);
            // A session that does not exist yet took nothing.
            if let Some(session) = key.ok().and_then(|key| self.sessions.get(&key)) {
                sessions.extend(brought.iter().map(|_| session.id));
                ids.extend(brought.iter().map(|id| id.as_bytes()));
            }
        }
        if ids.is_empty() {
            return Ok(());
        }
        let params: [Param<'_>; 2] = [(&sessions, Type::INT8_ARRAY), (&ids, Type::BYTEA_ARRAY)];
        let rows = self.connection.query(&self.shared.sql.taken_ids, &params);
        self.taken = rows
            .await?
            .iter()
            .map(|row| (row.get(0), row.get(1)))
            .collect();
        Ok(())
    }

    pub(super) fn has_taken(&self, session: &Session, id: &str) -> bool {
        self.taken.contains(&(session.id, id.as_bytes().to_vec()))
    }

    /// Takes over the content that a session had elsewhere. Call it after the change: the session
    /// gets the time that it had there.
    pub(crate) fn carry(&mut self, key: &str, carried: &'a Carried) {
        for id in &carried.ids {
            let session = self.session(key);
            let taken = (session.id, id.as_bytes().to_vec());
            if !self.taken.contains(&taken) {
                self.remember(key, id);
            }
        }
        self.session(key).date(&carried.updated_at);
    }

    /// Notes an id as taken. A few ids are forgotten at a time, from those before the ids that are
    /// to be remembered. If all due ids of a thousand sessions were forgotten at once, that would
    /// delay all others. The same would happen if all sessions forgot ids at the same count. Each
    /// time, twice as many are forgotten as were taken since, so that ids that an older version
    /// left are forgotten, too.
    pub(super) fn remember(&mut self, key: &str, once: &'a str) {
        let bound = self.shared.options.once_ids;
        let step = bound / STEPS;
        let session = self.session(key);
        session.taken += 1;
        let (id, turn) = (session.id, session.taken);
        self.ids.push((id, turn, once));
        self.taken.insert((id, once.as_bytes().to_vec()));
        if (turn + id % step) % step == 0 && turn >= bound {
            // The statement that forgets also checks the presumed state. An id that it forgot first
            // would be taken again.
            let since = if self.is_presumed {
                self.ids.iter().filter(|(other, ..)| *other == id).count()
            } else {
                0
            };
            let forgotten = self.outworn.entry(id).or_default();
            forgotten.last_turn = turn - number(since) - bound;
            forgotten.most += 2 * step;
        }
    }
}

/// The number of steps in which as many ids are forgotten as are remembered.
const STEPS: i64 = 4;

/// The ids of a session that are forgotten: the last turn, and the most ids.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Forgotten {
    pub(super) last_turn: i64,
    pub(super) most: i64,
}
