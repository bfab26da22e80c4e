//! Keeping what a session was, going back to it, and letting it go.

use sessionlog::backend::kit;
use sessionlog::{BackupLimits, BackupReason, ChangeKind, Error, Result};
use tokio_postgres::types::Type;

use crate::backups::{backup, now_millis, reason_number};
use crate::command::Outcome;
use crate::connection::Param;
use crate::fault::Tried;
use crate::transaction::Transaction;

impl Transaction<'_> {
    /// Keeps what a session is, if it has any line. Before anything of it is changed: the
    /// backup is of the rows as they stand.
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
        // Polled in this order, they are sent in it: the others find the new number.
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
        // One that no row has, if it is too large for a row.
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
        Ok(Ok(Outcome::Done))
    }

    /// See [`Verb::PruneBackups`](crate::command::Verb::PruneBackups).
    pub(super) async fn prune_backups(
        &self,
        key: &str,
        limits: BackupLimits,
    ) -> Tried<Result<Outcome>> {
        let Some(id) = self.sessions.get(key).map(|session| session.id) else {
            return Ok(Ok(Outcome::Number(0)));
        };
        let params: [Param<'_>; 1] = [(&id, Type::INT8)];
        let rows = self.ask(&self.shared.sql.own_backups, &params).await?;
        let backups: Vec<_> = rows.iter().map(backup).collect();
        let over = kit::backups_over(limits, &backups, now_millis());
        let over: Vec<i64> = over.into_iter().map(u64::cast_signed).collect();
        if over.is_empty() {
            return Ok(Ok(Outcome::Number(0)));
        }
        let params: [Param<'_>; 2] = [(&id, Type::INT8), (&over, Type::INT8_ARRAY)];
        for table in ["backup_lines", "backups"] {
            let sql = format!(
                "DELETE FROM {{schema}}.{table} WHERE session_id = $1 AND number = ANY($2)"
            );
            let sql = self.shared.sql.fill(&sql);
            self.connection.execute(&sql, &params).await?;
        }
        Ok(Ok(Outcome::Number(crate::read::number(over.len()))))
    }
}
