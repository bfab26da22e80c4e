//! Looking for lines, hiding and removing them.

use std::convert::Infallible;
use std::ops::Range;

use sessionlog::backend::kit::{self, Cut};
use sessionlog::{Error, Keep, Position, Result};
use tokio_postgres::types::Type;

use super::Count;
use crate::connection::Param;
use crate::fault::Tried;
use crate::row::Session;
use crate::transaction::Transaction;

/// Number of messages that are looked at first to find the beginnings of turns.
const FIRST: i64 = 64;

impl Transaction<'_> {
    /// Returns the place where the remaining lines begin; nothing if all lines stay.
    ///
    /// # Errors
    /// `PositionNotFound`.
    pub(super) async fn find_cut(&self, key: &str, keep: Keep) -> Tried<Result<Option<i64>>> {
        let Some(session) = self.sessions.get(key) else {
            return Ok(match keep {
                Keep::From(_) => Err(Error::PositionNotFound { key: key.into() }),
                _ => Ok(None),
            });
        };
        let all = Some(session.end_at);
        let Ok(cut) = keep.cut(Ok::<_, Infallible>);
        Ok(Ok(match cut {
            Cut::From(position) => return self.find_position(session, position).await,
            _ if session.messages == 0 => all,
            Cut::Last(0) | Cut::Turns(0) => all,
            Cut::Last(n) => match i64::try_from(n) {
                Ok(n) if n < session.messages => self.after_message(session, n).await?,
                _ => None,
            },
            Cut::Turns(n) => self.before_turn(session, n).await?,
        }))
    }

    /// Returns the place after the newest message that goes if the newest `n` stay.
    async fn after_message(&self, session: &Session, n: i64) -> Tried<Option<i64>> {
        let sql = "SELECT line_at + octet_length(line) + 1 FROM {schema}.lines
             WHERE session_id = $1 AND line_at >= $2 AND kind = 0
             ORDER BY line_at DESC OFFSET $3 LIMIT 1";
        let params: [Param<'_>; 3] = [
            (&session.id, Type::INT8),
            (&session.start_at, Type::INT8),
            (&n, Type::INT8),
        ];
        let row = self.ask(sql, &params).await?;
        Ok(row.first().map(|row| row.get(0)))
    }

    async fn before_turn(&self, session: &Session, n: usize) -> Tried<Option<i64>> {
        let mut most = FIRST.max(i64::try_from(n).unwrap_or(i64::MAX / 4).saturating_mul(2));
        loop {
            let params: [Param<'_>; 4] = [
                (&session.id, Type::INT8),
                (&session.start_at, Type::INT8),
                (&session.end_at, Type::INT8),
                (&most, Type::INT8),
            ];
            let rows = self.ask(&self.shared.sql.newest, &params).await?;
            let messages = rows.iter().filter_map(|row| {
                let at: i64 = row.get(0);
                Some((at.cast_unsigned(), kit::message_of(row.get(1))?))
            });
            let (begin, is_sure) = kit::turn_begins_at(messages, n);
            if is_sure || crate::read::number(rows.len()) < most {
                return Ok(begin.map(u64::cast_signed));
            }
            most = most.saturating_mul(4);
        }
    }

    async fn find_position(
        &self,
        session: &Session,
        position: Position,
    ) -> Tried<Result<Option<i64>>> {
        let astray = || Error::PositionNotFound {
            key: session.key.clone(),
        };
        let (history, at) = (
            position.history().cast_signed(),
            position.at().cast_signed(),
        );
        if history != session.history {
            return Ok(Err(astray()));
        }
        if at <= session.start_at {
            return Ok(Ok(None));
        }
        if at != session.end_at {
            let sql = "SELECT 1 FROM {schema}.lines WHERE session_id = $1 AND line_at = $2";
            let params: [Param<'_>; 2] = [(&session.id, Type::INT8), (&at, Type::INT8)];
            if self.ask(sql, &params).await?.is_empty() {
                return Ok(Err(astray()));
            }
        }
        Ok(Ok(Some(at)))
    }

    /// Hides the lines before `start`. Once most lines are hidden, removes them.
    pub(super) async fn hide_before(&mut self, key: &str, start: i64) -> Tried<()> {
        let Some(session) = self.sessions.get(key) else {
            return Ok(());
        };
        let (id, begin) = (session.id, session.start_at);
        if start <= begin {
            return Ok(());
        }
        let hidden = self.count(id, begin..start).await?;
        let session = self.session(key);
        session.start_at = start;
        session.hidden += hidden.lines;
        session.messages -= hidden.messages;
        session.change.numbers = true;
        if session.hidden > session.lines - session.hidden {
            self.compact(key)
                .await?
                .map_err(crate::fault::Fault::from)?;
        }
        Ok(())
    }

    pub(super) async fn count(&self, id: i64, range: Range<i64>) -> Tried<Count> {
        let sql = "SELECT kind, count(*) FROM {schema}.lines
             WHERE session_id = $1 AND line_at >= $2 AND line_at < $3 GROUP BY kind";
        let params: [Param<'_>; 3] = [
            (&id, Type::INT8),
            (&range.start, Type::INT8),
            (&range.end, Type::INT8),
        ];
        let mut count = Count::default();
        for row in self.ask(sql, &params).await? {
            let (kind, many): (i16, i64) = (row.get(0), row.get(1));
            let mut one = Count::default();
            one.add(kind);
            count.lines += many;
            count.messages += many * one.messages;
        }
        Ok(count)
    }

    /// Removes lines, also control records unless they are to stay, and returns the number of
    /// removed lines.
    pub(super) async fn remove_range(
        &self,
        id: i64,
        range: Range<i64>,
        controls_stay: bool,
    ) -> Tried<i64> {
        let sql = "DELETE FROM {schema}.lines WHERE session_id = $1 AND line_at >= $2
             AND line_at < $3 AND (kind IN (0, 4) OR NOT $4)";
        let params: [Param<'_>; 4] = [
            (&id, Type::INT8),
            (&range.start, Type::INT8),
            (&range.end, Type::INT8),
            (&controls_stay, Type::BOOL),
        ];
        let sql = self.shared.sql.fill(sql);
        let gone = self.connection.execute(&sql, &params).await?;
        Ok(gone.cast_signed())
    }

    /// Removes the rows of a session with a statement that takes the session's id.
    pub(super) async fn remove(&self, sql: &str, id: i64) -> Tried<()> {
        let sql = self.shared.sql.fill(sql);
        let params: [Param<'_>; 1] = [(&id, Type::INT8)];
        self.connection.execute(&sql, &params).await?;
        Ok(())
    }

    pub(super) async fn controls(&self, id: i64) -> Tried<Vec<(u64, Vec<u8>)>> {
        let params: [Param<'_>; 1] = [(&id, Type::INT8)];
        let rows = self
            .connection
            .query(&self.shared.sql.controls, &params)
            .await?;
        let controls = rows
            .iter()
            .map(|row| (row.get::<_, i64>(0).cast_unsigned(), row.get(1)));
        Ok(controls.collect())
    }

    pub(super) async fn ask(
        &self,
        sql: &str,
        params: &[Param<'_>],
    ) -> Tried<Vec<tokio_postgres::Row>> {
        let sql = self.shared.sql.fill(sql);
        Ok(self.connection.query(&sql, params).await?)
    }
}
