//! The end of a transaction: the changes are written and committed in one round trip.

use std::sync::Arc;
use std::time::Duration;

use tokio_postgres::error::SqlState;
use tokio_postgres::types::Type;

use super::rows::{Part, Rows};
use super::{Transaction, channel, follower_gate};
use crate::command::Order;
use crate::connection::{Connection, Param};
use crate::context::Shared;
use crate::fault::{Fault, Tried};
use crate::row::{Change, Notice};

/// The outcome of a commit.
pub(crate) enum Committed {
    Yes,
    /// Rolled back, all of it.
    No(Fault),
    /// The commit is to be looked for.
    Unknown(Arc<str>),
}

/// The beginning of a transaction.
#[derive(Debug)]
pub(crate) struct Opening {
    pub(super) begin: String,
    pub(super) gate: i64,
    pub(super) lane: i64,
    pub(super) token: i64,
    /// The longest time that a statement of it may take.
    longest: Duration,
    /// True if its callers want no wait for the commit.
    is_buffered: bool,
}

impl Opening {
    pub(super) fn of(shared: &Shared, (lane, token): (i64, i64), orders: &[&Order]) -> Self {
        let is_buffered = orders.iter().all(|order| {
            order.level == sessionlog::Durability::Buffered && !order.verb.is_always_durable()
        });
        let is_bulky = orders.iter().any(|order| order.verb.is_bulky());
        let longest = shared.options.longest(is_bulky);
        let begin = format!(
            "BEGIN ISOLATION LEVEL READ COMMITTED; SET LOCAL statement_timeout = {}{}",
            longest.as_millis(),
            if is_buffered {
                "; SET LOCAL synchronous_commit = off"
            } else {
                ""
            },
        );
        Self {
            begin,
            gate: follower_gate(&shared.sql.schema),
            lane,
            token,
            longest,
            is_buffered,
        }
    }

    /// Begins, and notes the token as the lane's before all else. A lane that looks for this
    /// transaction waits for the lane's lock, and so for its end. Returns the number of such
    /// questions so far. Also returns true if the commit waits for a replica, if the server told
    /// it.
    pub(super) async fn send(
        &self,
        connection: &Connection,
        shared: &Shared,
    ) -> Tried<(i64, Option<bool>)> {
        let lane: [Param<'_>; 3] = [
            (&self.lane, Type::INT8),
            (&self.token, Type::INT8),
            (&self.gate, Type::INT8),
        ];
        let (take_lane, lane) = if shared.notifies {
            (&shared.sql.take_lane_and_gate, &lane[..])
        } else {
            (&shared.sql.take_lane, &lane[..2])
        };
        // These are polled in this order, so they are sent in it.
        let (begun, noted) = tokio::join!(
            connection.run(&self.begin),
            connection.query(take_lane, lane),
        );
        begun?;
        match noted?.first() {
            Some(row) => Ok((row.get(0), shared.notifies.then(|| row.get(2)))),
            None => Err(Fault::lost("the lane is not registered")),
        }
    }
}

impl Transaction<'_> {
    /// Writes the changes, and commits, in one round trip.
    pub(crate) async fn commit(self) -> Committed {
        let longest = self.opening.longest * 2;
        // The future is boxed because it holds all that is sent.
        let sent = Box::pin(async { Ok(self.send().await) });
        let answered = self.shared.answered(self.connection, longest, sent).await;
        let committed = answered.unwrap_or_else(|fault| Committed::Unknown(fault.reason()));
        if matches!(committed, Committed::Yes) {
            let changed = self.sessions.into_values();
            let changed = changed.filter(|session| session.change != Change::default());
            self.shared.known.keep(changed);
        }
        committed
    }

    async fn send(&self) -> Committed {
        if self.is_presumed {
            self.append_and_commit().await
        } else {
            self.write_and_commit().await
        }
    }

    async fn write_and_commit(&self) -> Committed {
        let connection = self.connection;
        let rows = Rows::of(self);
        let sql = &self.shared.sql;
        let notices: Vec<String> = self.notices.iter().map(Notice::payload).collect();
        let channel = channel(&sql.schema);
        let notified: [Param<'_>; 2] = [(&channel, Type::TEXT), (&notices, Type::TEXT_ARRAY)];
        let (inserted, numbers) = (rows.inserted(), rows.numbers());
        let parts = rows.added.parts();
        let (last, parts) = parts.split_last().unwrap_or((&NONE, &[]));
        // Many lines go in several statements. None of them takes long or is larger than the server
        // takes. They need no row of the session.
        for part in parts {
            if let Err(error) = connection.execute(&sql.insert_lines, &part.columns()).await {
                return Committed::No(as_race(error));
            }
        }
        let (text, lines) = (rows.text(), last.columns());
        let (summaries, tags) = (rows.summaries.columns(), rows.tags.columns());
        let (ids, outworn) = (rows.added.ids(), rows.outworn.columns());
        let run = |is_any: bool, sql, params| async move {
            if is_any {
                connection.execute(sql, params).await?;
            }
            Ok(())
        };
        let written = tokio::join!(
            run(!rows.new.id.is_empty(), &sql.insert_sessions, &inserted),
            run(!rows.old.id.is_empty(), &sql.bump_sessions, &numbers),
            run(!rows.texts.id.is_empty(), &sql.rewrite_sessions, &text),
            run(
                !rows.summaries.id.is_empty(),
                &sql.put_summaries,
                &summaries
            ),
            run(!rows.tags.id.is_empty(), &sql.put_tags, &tags),
            run(!rows.added.line_id.is_empty(), &sql.insert_lines, &lines),
            run(!rows.added.once_id.is_empty(), &sql.insert_ids, &ids),
            run(!rows.outworn.id.is_empty(), &sql.forget_ids, &outworn),
            run(!notices.is_empty(), &sql.notify, &notified),
            connection.run(COMMIT),
        );
        let rows = [
            written.0, written.1, written.2, written.3, written.4, written.5, written.6, written.7,
            written.8,
        ];
        for one in rows {
            match one.map_err(as_race) {
                Ok(()) => {}
                Err(Fault::Lost(reason)) => return Committed::Unknown(reason),
                // After a failure in a transaction the server refuses all later statements, the
                // commit too.
                Err(fault) => return Committed::No(fault),
            }
        }
        self.committed(written.9, self.waits)
    }

    /// Interprets the server's answer to the commit. `waits`: true if the commit waited for a
    /// replica.
    pub(super) fn committed(
        &self,
        answer: Result<(), tokio_postgres::Error>,
        waits: Option<bool>,
    ) -> Committed {
        match answer.map_err(Fault::from) {
            Ok(()) if self.connection.was_warned() => {
                Committed::Unknown("the server did not wait for its replicas".into())
            }
            Ok(()) => {
                if let (Some(waits), false) = (waits, self.opening.is_buffered) {
                    let fence = &self.shared.connector.fence;
                    fence.note(self.connection.pass, waits, true);
                }
                Committed::Yes
            }
            Err(Fault::Lost(reason)) => Committed::Unknown(reason),
            Err(fault) => Committed::No(fault),
        }
    }
}

/// No lines.
const NONE: Part<'static> = Part::none();

/// If the server broke off a commit, it would be a commit without replicas. In a transaction that
/// failed, the setting is refused, and so nothing is committed.
pub(super) const COMMIT: &str = "SET LOCAL statement_timeout = 0; COMMIT";

/// Turns an error into a fault. Two processes may have made the same session, or one may have
/// changed a session that another presumed to know. The later one has to look again.
pub(crate) fn as_race(error: tokio_postgres::Error) -> Fault {
    match error.code() {
        Some(&SqlState::UNIQUE_VIOLATION) => {
            Fault::Again("another writer made the session meanwhile".into())
        }
        Some(&SqlState::DIVISION_BY_ZERO) => {
            Fault::Again("another writer changed the session meanwhile".into())
        }
        _ => error.into(),
    }
}
