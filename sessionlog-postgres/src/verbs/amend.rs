//! Changing one message.

use sessionlog::backend::kit;
use sessionlog::{ChangeKind, Error, Message, Position, Result};
use tokio_postgres::types::Type;

use crate::command::Outcome;
use crate::connection::Param;
use crate::fault::Tried;
use crate::row::{NewLine, random};
use crate::transaction::Transaction;

impl Transaction<'_> {
    /// See [`Verb::Amend`](crate::command::Verb::Amend).
    pub(super) async fn amend(
        &mut self,
        key: &str,
        position: Position,
        message: Option<&Message>,
    ) -> Tried<Result<Outcome>> {
        let astray = Error::PositionNotFound { key: key.into() };
        let (history, at) = (
            position.history().cast_signed(),
            position.at().cast_signed(),
        );
        let session = self.sessions.get(key);
        let session = session.filter(|one| one.history == history && one.start_at <= at);
        let Some(id) = session.map(|session| session.id) else {
            return Ok(Err(astray));
        };
        let sql = "SELECT line FROM {schema}.lines
             WHERE session_id = $1 AND line_at = $2 AND kind = 0";
        let place: [Param<'_>; 2] = [(&id, Type::INT8), (&at, Type::INT8)];
        let found = self.ask(sql, &place).await?;
        let old = found.first().map(|row| row.get::<_, &[u8]>(0));
        let old = old.and_then(|line| Some((line.len(), kit::message_of(line)?)));
        let Some((length, old)) = old else {
            return Ok(Err(astray));
        };
        let line = match message.map(|message| self.line_in_place(message, &old)) {
            Some(Ok(line)) => Some(line),
            Some(Err(error)) => return Ok(Err(error)),
            None => None,
        };
        self.put_in_place((id, at), line.as_ref()).await?;
        let by = line.as_ref().map_or(0, NewLine::len) - crate::read::number(length) - 1;
        self.shift((id, at), by).await?;
        let gone = i64::from(line.is_none());
        let session = self.session(key);
        session.end_at += by;
        session.lines -= gone;
        session.messages -= gone;
        // Positions after this message would lead to other places.
        session.history = random();
        Ok(Ok(self.changed(key, ChangeKind::Replaced)))
    }

    /// Makes the line of a message that takes the place of another.
    ///
    /// # Errors
    /// `InvalidMessage`, `MessageTooLarge`.
    fn line_in_place(&self, new: &Message, old: &Message) -> Result<NewLine> {
        let options = &self.shared.options;
        let message = kit::in_place_of(new.clone(), old)?;
        let (now, _) = kit::now();
        let lines = kit::encode(vec![message], now, options.max_line, options.max_batch)?;
        let line = lines.into_iter().next().unwrap_or_default();
        Ok(NewLine::read(line))
    }

    async fn put_in_place(&self, (id, at): (i64, i64), line: Option<&NewLine>) -> Tried<()> {
        let mut params: Vec<Param<'_>> = vec![(&id, Type::INT8), (&at, Type::INT8)];
        let sql = match line {
            Some(line) => {
                params.push((&line.line, Type::BYTEA));
                params.push((&line.said, Type::TEXT));
                "UPDATE {schema}.lines SET line = $3, said = $4
                 WHERE session_id = $1 AND line_at = $2"
            }
            None => "DELETE FROM {schema}.lines WHERE session_id = $1 AND line_at = $2",
        };
        let sql = self.shared.sql.fill(sql);
        self.connection.execute(&sql, &params).await?;
        Ok(())
    }

    /// Moves the lines behind a place, by way of places before all others: the server checks for
    /// each row that no other row has its place.
    pub(super) async fn shift(&self, (id, at): (i64, i64), by: i64) -> Tried<()> {
        if by == 0 {
            return Ok(());
        }
        let away = "UPDATE {schema}.lines SET line_at = -(line_at + $3)
             WHERE session_id = $1 AND line_at > $2";
        let back = "UPDATE {schema}.lines SET line_at = -line_at
             WHERE session_id = $1 AND line_at < 0";
        let moved: [Param<'_>; 3] = [(&id, Type::INT8), (&at, Type::INT8), (&by, Type::INT8)];
        let away = self.shared.sql.fill(away);
        self.connection.execute(&away, &moved).await?;
        let back = self.shared.sql.fill(back);
        self.connection.execute(&back, &moved[..1]).await?;
        Ok(())
    }
}
