//! Beginning a session with a copy of another.

use sessionlog::backend::kit;
use sessionlog::{ChangeKind, Error, Fork, Result};
use tokio_postgres::types::Type;

use crate::command::{Order, Outcome};
use crate::connection::Param;
use crate::fault::Tried;
use crate::row::Session;
use crate::transaction::Transaction;

impl Transaction<'_> {
    /// See [`Verb::Fork`](crate::command::Verb::Fork). The other session is locked, too, so that
    /// its lines and its row are of one moment.
    pub(super) async fn fork(
        &mut self,
        order: &Order,
        to: &str,
        (from, at): (&str, Fork),
    ) -> Tried<Result<Outcome>> {
        let source = match self.meant(from, order.exact) {
            Ok(source) => source,
            Err(error) => return Ok(Err(error)),
        };
        let Some(source) = self.sessions.get(&source).cloned() else {
            let key = from.to_owned();
            return Ok(Err(Error::SessionNotFound { key }));
        };
        let end = match self.find_end(&source, at).await? {
            Ok(end) => end,
            Err(error) => return Ok(Err(error)),
        };
        if self.sessions.contains_key(to) {
            let key = to.to_owned();
            return Ok(Err(Error::SessionExists { key }));
        }
        self.copy_lines(&source, to, end).await?;
        self.changed(to, ChangeKind::Replaced);
        Ok(Ok(Outcome::Done))
    }

    /// Returns the place where a fork of a session ends.
    ///
    /// # Errors
    /// `CheckpointNotFound`.
    async fn find_end(&self, source: &Session, at: Fork) -> Tried<Result<i64>> {
        Ok(Ok(match at {
            Fork::Checkpoint(id) => {
                let moment = self.moment(&source.key).await?;
                return Ok(moment.checkpoint(id.number()).map(u64::cast_signed));
            }
            Fork::Message(0) => self.first_message(source).await?,
            Fork::Message(n) => match i64::try_from(n) {
                Ok(n) if n <= source.messages => self.behind_message(source, n).await?,
                _ => source.end_at,
            },
            // This is the end, also for a place that this crate does not know yet.
            _ => source.end_at,
        }))
    }

    /// Returns the place where the first visible message begins. Control records before it stay,
    /// and so do hidden ones.
    async fn first_message(&self, source: &Session) -> Tried<i64> {
        let sql = "SELECT line_at FROM {schema}.lines
             WHERE session_id = $1 AND line_at >= $2 AND kind = 0 ORDER BY line_at LIMIT 1";
        let params: [Param<'_>; 2] = [(&source.id, Type::INT8), (&source.start_at, Type::INT8)];
        let rows = self.ask(sql, &params).await?;
        Ok(rows.first().map_or(source.end_at, |row| row.get(0)))
    }

    /// Returns the place where the `n`th visible message ends.
    async fn behind_message(&self, source: &Session, n: i64) -> Tried<i64> {
        let sql = "SELECT line_at + octet_length(line) + 1 FROM {schema}.lines
             WHERE session_id = $1 AND line_at >= $2 AND kind = 0
             ORDER BY line_at OFFSET $3 - 1 LIMIT 1";
        let params: [Param<'_>; 3] = [
            (&source.id, Type::INT8),
            (&source.start_at, Type::INT8),
            (&n, Type::INT8),
        ];
        let rows = self.ask(sql, &params).await?;
        Ok(rows.first().map_or(source.end_at, |row| row.get(0)))
    }

    /// Makes the session `to`, and gives it the lines before `end`, the summary, the title and the
    /// labels.
    async fn copy_lines(&mut self, source: &Session, to: &str, end: i64) -> Tried<()> {
        let left = self.count(source.id, end..i64::MAX).await?;
        let summary = self.summary_of(source).await?;
        let tags = self.tags_of(source).await?;
        let session = self.session(to);
        session.set_summary(&summary);
        session.set_tags(kit::tags_of_fork(&tags));
        (session.start_at, session.end_at, session.hidden) = (source.start_at, end, source.hidden);
        session.lines = source.lines - left.lines;
        session.messages = source.messages - left.messages;
        let id = session.id;
        let params: [Param<'_>; 3] = [
            (&source.id, Type::INT8),
            (&id, Type::INT8),
            (&end, Type::INT8),
        ];
        let connection = self.connection;
        connection
            .execute(&self.shared.sql.fork_lines, &params)
            .await?;
        Ok(())
    }
}
