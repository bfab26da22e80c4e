//! Ids of messages that are taken once: which a session took, and which it may forget.

use tokio_postgres::types::Type;

use super::Transaction;
use crate::command::{Order, Verb};
use crate::connection::Param;
use crate::fault::Tried;
use crate::row::Session;

impl<'a> Transaction<'a> {
    /// Finds out which of the ids that the orders bring were taken before.
    pub(super) async fn look_for_ids(&mut self, orders: &[&Order]) -> Tried<()> {
        let ids = orders.iter().filter_map(|order| match &order.verb {
            Verb::Update(update) => update.once.as_ref().map(String::as_bytes),
            _ => None,
        });
        let ids: Vec<&[u8]> = ids.collect();
        let sessions: Vec<i64> = self.sessions.values().map(|session| session.id).collect();
        if ids.is_empty() || sessions.is_empty() {
            return Ok(());
        }
        let params: [Param<'_>; 2] = [(&ids, Type::BYTEA_ARRAY), (&sessions, Type::INT8_ARRAY)];
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

    /// Notes an id as taken. Each time that as many were taken as are to be remembered, those
    /// before them are forgotten: so there are never twice as many, and most takings, which
    /// only insert, pay nothing for it.
    pub(super) fn remember(&mut self, key: &str, once: &'a str) {
        let bound = self.shared.options.once_ids;
        let session = self.session(key);
        session.taken += 1;
        let (id, turn) = (session.id, session.taken);
        self.ids.push((id, turn, once));
        self.taken.insert((id, once.as_bytes().to_vec()));
        if turn % bound == 0 {
            self.outworn.insert(id, turn - bound);
        }
    }
}
