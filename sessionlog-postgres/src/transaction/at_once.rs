//! A transaction in one round trip. New lines for sessions that this process knows are sent
//! together with the beginning and the commit.
//!
//! Nothing of it was answered when the commit is sent, so it must hold or fail by itself. Each part
//! must do so, too, if the rest does not come or the beginning failed. So all writes are one
//! statement, which checks the presumed state and that the lane has this transaction's token.

use tokio_postgres::types::Type;

use super::commit::{COMMIT, Committed, as_race};
use super::rows::{Added, Outworn, Part};
use super::{Opening, Transaction};
use crate::command::Order;
use crate::connection::{Connection, Param};
use crate::context::Shared;
use crate::fault::Fault;
use crate::known::is_its_own;
use crate::read::number;
use crate::row::{Change, Session};

impl<'a> Transaction<'a> {
    /// Makes a transaction for sessions that are presumed to be in the state that this process
    /// left. Nothing is sent before the commit. `settled`: the number of times that the lane asked
    /// for a commit so far.
    pub(crate) fn presuming(
        connection: &'a Connection,
        shared: &'a Shared,
        mark: (i64, i64),
        settled: i64,
        orders: &[&'a Order],
        sessions: Vec<Session>,
    ) -> Self {
        let mut transaction = Self::of(connection, shared, Opening::of(shared, mark, orders));
        transaction.is_presumed = true;
        transaction.settled = settled;
        let sessions = sessions.into_iter().map(|one| (one.key.clone(), one));
        transaction.sessions = sessions.collect();
        let claimable = orders.iter().filter(|order| !is_its_own(order));
        transaction.unclaimed = claimable.map(|order| order.key.as_str()).collect();
        transaction
    }

    pub(super) async fn append_and_commit(&self) -> Committed {
        let Opening {
            begin,
            gate,
            lane,
            token,
            ..
        } = &self.opening;
        let begin = format!("{begin}; SET LOCAL sessionlog.token = '{token}'");
        let taken: [Param<'_>; 4] = [
            (lane, Type::INT8),
            (token, Type::INT8),
            (gate, Type::INT8),
            (&self.settled, Type::INT8),
        ];
        let rows = Appended::of(self);
        let found = number(rows.id.len());
        let part = rows.added.whole();
        let mut params = rows.columns(&part);
        params.extend([
            (&found as _, Type::INT8),
            (lane as _, Type::INT8),
            (token as _, Type::INT8),
            (&self.unclaimed as _, Type::TEXT_ARRAY),
            (&rows.key as _, Type::TEXT_ARRAY),
        ]);
        let (connection, sql) = (self.connection, &self.shared.sql);
        let outworn = Outworn::of(self);
        let append = if self.outworn.is_empty() {
            &sql.append_known
        } else {
            params.extend(outworn.columns());
            &sql.append_known_and_forget
        };
        // These are polled in this order, so they are sent in it, and all at once. The lane comes
        // first: a lane that looks for this transaction waits for its lock, and so for its end.
        let (opened, noted, appended, committed) = tokio::join!(
            connection.run(&begin),
            connection.query(&sql.take_lane_at_once, &taken),
            connection.query(append, &params),
            connection.run(COMMIT),
        );
        if appended.is_ok() {
            // Then no earlier statement failed.
            let lane = noted.ok();
            let waits = lane.and_then(|rows| Some(rows.first()?.get(2)));
            return self.committed(committed, waits);
        }
        // The first error decides what to do. Later errors only show that there was one.
        let first = opened.err().or(noted.err()).or(appended.err());
        match first.map(as_race) {
            Some(Fault::Lost(reason)) => Committed::Unknown(reason),
            Some(fault) => Committed::No(fault),
            None => self.committed(committed, None),
        }
    }
}

/// The appended rows, by column.
#[derive(Default)]
struct Appended<'t> {
    id: Vec<i64>,
    key: Vec<&'t str>,
    version: Vec<i64>,
    end_at: Vec<i64>,
    lines: Vec<i64>,
    messages: Vec<i64>,
    updated_at: Vec<&'t str>,
    updated_ns: Vec<i64>,
    taken: Vec<i64>,
    found_version: Vec<i64>,
    found_ns: Vec<i64>,
    found_lines: Vec<i64>,
    found_end: Vec<i64>,
    added: Added<'t>,
}

impl<'t> Appended<'t> {
    fn of(transaction: &'t Transaction<'_>) -> Self {
        let mut rows = Self::default();
        let mut changed: Vec<_> = transaction.sessions.values().collect();
        changed.retain(|session| session.change != Change::default());
        // This is the order in which others lock them.
        changed.sort_unstable_by_key(|session| session.id);
        for session in changed {
            rows.push(session);
        }
        rows.added = Added::of(transaction);
        rows
    }

    fn push(&mut self, session: &'t Session) {
        self.id.push(session.id);
        self.key.push(&session.key);
        self.version.push(session.version);
        self.end_at.push(session.end_at);
        self.lines.push(session.lines);
        self.messages.push(session.messages);
        self.updated_at.push(&session.updated_at);
        self.updated_ns.push(session.updated_ns);
        self.taken.push(session.taken);
        self.found_version.push(session.found.version);
        self.found_ns.push(session.found.updated_ns);
        self.found_lines.push(session.found.lines);
        self.found_end.push(session.found.end_at);
    }

    /// Returns the columns in the order of the statement.
    fn columns<'p>(&'p self, part: &'p Part<'_>) -> Vec<Param<'p>> {
        let sessions: [Param<'_>; 12] = [
            (&self.id, Type::INT8_ARRAY),
            (&self.version, Type::INT8_ARRAY),
            (&self.end_at, Type::INT8_ARRAY),
            (&self.lines, Type::INT8_ARRAY),
            (&self.messages, Type::INT8_ARRAY),
            (&self.updated_at, Type::TEXT_ARRAY),
            (&self.updated_ns, Type::INT8_ARRAY),
            (&self.taken, Type::INT8_ARRAY),
            (&self.found_version, Type::INT8_ARRAY),
            (&self.found_ns, Type::INT8_ARRAY),
            (&self.found_lines, Type::INT8_ARRAY),
            (&self.found_end, Type::INT8_ARRAY),
        ];
        let (lines, ids) = (part.columns(), self.added.ids());
        sessions.into_iter().chain(lines).chain(ids).collect()
    }
}
