//! Ids of messages that are taken once: which a session took, and which it may forget.

use tokio_postgres::types::Type;

use super::Transaction;
use crate::command::{Carried, Order};
use crate::connection::Param;
use crate::fault::Tried;
use crate::read::number;
use crate::row::Session;

impl<'a> Transaction<'a> {
    /// Finds out which of the ids that the orders bring were taken before.
    pub(super) async fn look_for_ids(&mut self, orders: &[&Order]) -> Tried<()> {
        // Each with its own session: all ids with all sessions would be a million pairs.
        let (mut sessions, mut ids) = (Vec::new(), Vec::new());
        for order in orders {
            let brought = order.verb.message_ids();
            if brought.is_empty() {
                continue;
            }
            let key = self.resolve(order);
            // Of a session that is not there yet nothing was taken.
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

    /// Takes over what a session had elsewhere. After it was changed: it is dated as there.
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

    /// Notes an id as taken. A few are forgotten at a time, of those before the ones that are to
    /// be remembered: all that are due at once, of a thousand sessions, would hold up everybody
    /// else, and so would sessions that all have as many. Twice as many as were taken since, so that
    /// what an older version left goes, too.
    pub(super) fn remember(&mut self, key: &str, once: &'a str) {
        let bound = self.shared.options.once_ids;
        let step = bound / STEPS;
        let session = self.session(key);
        session.taken += 1;
        let (id, turn) = (session.id, session.taken);
        self.ids.push((id, turn, once));
        self.taken.insert((id, once.as_bytes().to_vec()));
        if (turn + id % step) % step == 0 && turn >= bound {
            // What was presumed is checked by the statement that forgets: an id that it forgot
            // first would be taken again.
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

/// In how many steps as many ids are forgotten as are remembered.
const STEPS: i64 = 4;

/// The ids of a session that are forgotten: up to which turn, and how many at most.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Forgotten {
    pub(super) last_turn: i64,
    pub(super) most: i64,
}
