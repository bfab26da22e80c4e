//! Making, restoring and removing a session's backups.

use sessionlog::backend::kit::{self, KeptBackup};
use sessionlog::{BackupLimits, BackupReason, ChangeKind, Error, Result};
use tokio_postgres::types::Type;

use crate::backups::{backup, now_millis, reason_number};
use crate::command::Outcome;
use crate::connection::Param;
use crate::fault::Tried;
use crate::read::number as count;
use crate::row::{MESSAGE, NewLine};
use crate::transaction::Transaction;

/// Number of lines of a backup that go in one statement.
const PART: usize = 2000;

impl Transaction<'_> {
    /// Keeps the present state of a session, if it has any line. Call it before any change: the
    /// backup copies the present rows.
    pub(super) async fn keep(&self, key: &str, reason: BackupReason) -> Tried<()> {
        let session = self.sessions.get(key);
        let Some(session) = session.filter(|one| one.lines > 0 && !one.change.is_new) else {
            return Ok(());
        };
        debug_assert_eq!(session.change, crate::row::Change::default(), "{key}");
        let (connection, sql) = (self.connection, &self.shared.sql);
        let (reason, made) = (reason_number(reason), now_millis());
        let id: [Param<'_>; 1] = [(&session.id, Type::INT8)];
        let told: [Param<'_>; 3] = [
            (&session.id, Type::INT8),
            (&reason, Type::INT2),
            (&made, Type::INT8),
        ];
        // These are polled in this order, so they are sent in it: the others find the new number.
        let (counted, noted, copied) = tokio::join!(
            connection.execute(&sql.count_backup, &id),
            connection.execute(&sql.insert_backup, &told),
            connection.execute(&sql.insert_backup_lines, &id),
        );
        counted?;
        noted?;
        copied?;
        Ok(())
    }

    /// Removes the backups of a session that are over the store's limits. Call it at the end of the
    /// verb that made a backup, so that a backup to restore is there until then.
    pub(super) async fn bound_backups(&self, key: &str) -> Tried<()> {
        let limits = self.shared.options.backups;
        if limits != BackupLimits::new() {
            self.prune(key, limits).await?;
        }
        Ok(())
    }

    /// See [`Verb::RestoreBackup`](crate::command::Verb::RestoreBackup).
    pub(super) async fn restore_backup(
        &mut self,
        key: &str,
        number: u64,
    ) -> Tried<Result<Outcome>> {
        let not_found = Error::BackupNotFound {
            key: key.to_owned(),
            number,
        };
        let Some(id) = self.sessions.get(key).map(|session| session.id) else {
            return Ok(Err(not_found));
        };
        // A number that is too large for a row becomes one that no row has.
        let number = i64::try_from(number).unwrap_or(-1);
        let params: [Param<'_>; 2] = [(&id, Type::INT8), (&number, Type::INT8)];
        let found = self.ask(&self.shared.sql.backup, &params).await?;
        let Some(row) = found.first() else {
            return Ok(Err(not_found));
        };
        self.keep(key, BackupReason::Restore).await?;
        self.empty(key).await?;
        let connection = self.connection;
        connection
            .execute(&self.shared.sql.restore_lines, &params)
            .await?;
        let session = self.session(key);
        (session.start_at, session.end_at) = (row.get(0), row.get(1));
        (session.lines, session.hidden, session.messages) = (row.get(2), row.get(3), row.get(4));
        self.changed(key, ChangeKind::Replaced);
        self.bound_backups(key).await?;
        Ok(Ok(Outcome::Done))
    }

    /// See [`Verb::TakeBackup`](crate::command::Verb::TakeBackup).
    pub(super) async fn take_backup(
        &self,
        key: &str,
        backup: &KeptBackup,
    ) -> Tried<Result<Outcome>> {
        let (number, reason) = (backup.number.cast_signed(), reason_number(backup.reason));
        let Some(id) = self.sessions.get(key).map(|session| session.id) else {
            return Ok(Err(Error::BackupNotFound {
                key: key.to_owned(),
                number: backup.number,
            }));
        };
        let (connection, sql) = (self.connection, &self.shared.sql);
        let lines: Vec<NewLine> = kit::split_lines(&backup.lines)
            .map(|line| NewLine::read(line.to_vec()))
            .collect();
        let hidden =
            usize::try_from(backup.hidden).map_or(lines.len(), |many| many.min(lines.len()));
        let size = |lines: &[NewLine]| lines.iter().map(NewLine::len).sum::<i64>();
        let (start, end) = (size(&lines[..hidden]), size(&lines));
        let messages = lines[hidden..].iter().filter(|line| line.kind == MESSAGE);
        let (all, messages) = (count(lines.len()), count(messages.count()));
        let hidden = count(hidden);
        let numbered: [Param<'_>; 2] = [(&id, Type::INT8), (&number, Type::INT8)];
        connection.execute(&sql.number_backup, &numbered).await?;
        let told: [Param<'_>; 8] = [
            (&id, Type::INT8),
            (&reason, Type::INT2),
            (&backup.made, Type::INT8),
            (&start, Type::INT8),
            (&end, Type::INT8),
            (&all, Type::INT8),
            (&hidden, Type::INT8),
            (&messages, Type::INT8),
        ];
        connection.execute(&sql.take_backup, &told).await?;
        let mut at = 0;
        for part in lines.chunks(PART) {
            let begins = part.iter().map(|line| {
                at += line.len();
                at - line.len()
            });
            let begins: Vec<i64> = begins.collect();
            let kinds: Vec<i16> = part.iter().map(|line| line.kind).collect();
            let bytes: Vec<&[u8]> = part.iter().map(|line| &*line.line).collect();
            let said: Vec<Option<&str>> = part.iter().map(|line| line.said.as_deref()).collect();
            let params: [Param<'_>; 5] = [
                (&id, Type::INT8),
                (&begins, Type::INT8_ARRAY),
                (&kinds, Type::INT2_ARRAY),
                (&bytes, Type::BYTEA_ARRAY),
                (&said, Type::TEXT_ARRAY),
            ];
            connection.execute(&sql.take_backup_lines, &params).await?;
        }
        Ok(Ok(Outcome::Done))
    }

    /// Removes a session's backups that are over a limit, and returns their number.
    pub(super) async fn prune(&self, key: &str, limits: BackupLimits) -> Tried<i64> {
        let Some(id) = self.sessions.get(key).map(|session| session.id) else {
            return Ok(0);
        };
        let params: [Param<'_>; 1] = [(&id, Type::INT8)];
        let rows = self.ask(&self.shared.sql.own_backups, &params).await?;
        let backups: Vec<_> = rows.iter().map(backup).collect();
        let over = kit::backups_over(limits, &backups, now_millis());
        let over: Vec<i64> = over.into_iter().map(u64::cast_signed).collect();
        if over.is_empty() {
            return Ok(0);
        }
        let params: [Param<'_>; 2] = [(&id, Type::INT8), (&over, Type::INT8_ARRAY)];
        for table in ["backup_lines", "backups"] {
            let sql = format!(
                "DELETE FROM {{schema}}.{table} WHERE session_id = $1 AND number = ANY($2)"
            );
            let sql = self.shared.sql.fill(&sql);
            self.connection.execute(&sql, &params).await?;
        }
        Ok(crate::read::number(over.len()))
    }
}
