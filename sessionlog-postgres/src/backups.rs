//! Backups: the earlier states of sessions before a revert, a clear or a restore.

use std::sync::Arc;

use sessionlog::backend::kit;
use sessionlog::{Backup, BackupLimits, BackupReason, Reply};
use tokio_postgres::Row;

use crate::command::{Outcome, Verb};
use crate::connection::Connection;
use crate::context::{Asked, Shared};
use crate::read::Sought;
use crate::store::PostgresStore;
use crate::write::{done, map};

/// Backups. The verbs that revert or clear a conversation, restore a backup, or replace a session
/// by a [copy](crate::copy) of another keep the earlier state of the session, hidden lines
/// included. They do so in the same transaction that takes the state away. The transaction also
/// removes the backups that are over the store's [limits](crate::PostgresOptions::backups). Backups
/// are not sessions: only the verbs here find them. Deleting a session deletes its backups.
impl PostgresStore {
    /// Returns a session's backups, oldest first. A session that does not exist has none.
    ///
    /// # Errors
    /// Those all verbs share.
    pub fn list_backups(&self, key: &str) -> Reply<Vec<Backup>> {
        self.find(key, list)
    }

    /// Makes backup `number` the session's lines. The present lines become a backup, unless there
    /// are none. The restored backup stays. Summary, scope and aliases are left alone. Always
    /// durable. The database copies the lines, so the call takes as long as that copy, and the
    /// session's other writers wait meanwhile.
    ///
    /// ```no_run
    /// # fn main() -> sessionlog::Result<()> {
    /// # let options = sessionlog_postgres::PostgresOptions::new("");
    /// # let chats = sessionlog_postgres::PostgresStore::open(options)?;
    /// chats.context("telegram:123").clear().wait()?;
    /// if let Some(newest) = chats.list_backups("telegram:123").wait()?.last() {
    ///     chats.restore_backup("telegram:123", newest.number).wait()?;
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::BackupNotFound`](sessionlog::Error::BackupNotFound), and those all verbs share.
    pub fn restore_backup(&self, key: &str, number: u64) -> Reply<()> {
        done(self.write(key, move || Ok(Verb::RestoreBackup(number))))
    }

    /// Removes a session's backups that are over any of the limits, and returns the number of
    /// removed backups. Either all of them are removed or none. Their numbers are not given again.
    /// Always durable.
    ///
    /// ```no_run
    /// # fn main() -> sessionlog::Result<()> {
    /// # let options = sessionlog_postgres::PostgresOptions::new("");
    /// # let chats = sessionlog_postgres::PostgresStore::open(options)?;
    /// use sessionlog::BackupLimits;
    ///
    /// let limits = BackupLimits::new().count(10).bytes(64 << 20);
    /// chats.prune_backups("telegram:123", limits).wait()?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Those all verbs share.
    pub fn prune_backups(&self, key: &str, limits: BackupLimits) -> Reply<usize> {
        let pruned = self.write(key, move || Ok(Verb::PruneBackups(limits)));
        map(pruned, |outcome| {
            Ok(match outcome {
                Outcome::Number(many) => usize::try_from(many).unwrap_or(0),
                _ => 0,
            })
        })
    }

    /// Does the same as [`prune_backups`](Self::prune_backups) for all sessions, one after the
    /// other, and returns the number of removed backups. After an error, part of the work is done.
    /// A second call does the rest.
    ///
    /// ```no_run
    /// # fn main() -> sessionlog::Result<()> {
    /// # let options = sessionlog_postgres::PostgresOptions::new("");
    /// # let chats = sessionlog_postgres::PostgresStore::open(options)?;
    /// use std::time::Duration;
    /// use sessionlog::BackupLimits;
    ///
    /// let month = BackupLimits::new().age(Duration::from_secs(30 * 86_400));
    /// chats.prune_all_backups(month).wait()?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Those all verbs share.
    pub fn prune_all_backups(&self, limits: BackupLimits) -> Reply<usize> {
        let this = self.exact_keys();
        let shared = self.inner.shared.clone();
        self.work(async move {
            shared.check_open()?;
            let keys = shared.read_bulk(|shared, connection| with_backups(shared, connection));
            let mut pruned = 0;
            for key in keys.await? {
                pruned += this.prune_backups(&key, limits).await?;
            }
            Ok(pruned)
        })
    }
}

/// Returns the keys of the sessions that have backups.
fn with_backups(shared: Arc<Shared>, connection: &Connection) -> Asked<'_, Vec<String>> {
    Box::pin(async move {
        let sql = shared.sql.fill(
            "SELECT s.key FROM {schema}.sessions s WHERE EXISTS (SELECT 1
                 FROM {schema}.backups b WHERE b.session_id = s.session_id) ORDER BY s.key",
        );
        let rows = connection.query(&sql, &[]).await?;
        Ok(rows.iter().map(|row| row.get(0)).collect())
    })
}

fn list(
    shared: Arc<Shared>,
    connection: &Connection,
    sought: Arc<Sought>,
) -> Asked<'_, Vec<Backup>> {
    Box::pin(async move {
        let rows = connection
            .query(&shared.sql.backups, &sought.params())
            .await?;
        Ok(rows.iter().map(|row| backup(row).1).collect())
    })
}

/// Reads a row: the time when the backup was made, in milliseconds since 1970, and the description
/// of the backup.
pub(crate) fn backup(row: &Row) -> (i64, Backup) {
    let (number, reason, made, size): (i64, i16, i64, i64) =
        (row.get(0), row.get(1), row.get(2), row.get(3));
    let reason = usize::try_from(reason).ok();
    let reason = reason.and_then(|reason| REASONS.get(reason)).copied();
    let backup = kit::backup(
        number.cast_unsigned(),
        made,
        reason.unwrap_or(BackupReason::Conflict),
        size.cast_unsigned(),
    );
    (made, backup)
}

/// The reasons by the numbers that rows have. Never reorder them, because databases have the
/// numbers.
const REASONS: [BackupReason; 5] = [
    BackupReason::Revert,
    BackupReason::Clear,
    BackupReason::Restore,
    BackupReason::Import,
    BackupReason::Conflict,
];

pub(crate) fn reason_number(reason: BackupReason) -> i16 {
    let number = (0..).zip(REASONS).find(|(_, known)| *known == reason);
    number.map_or(4, |(number, _)| number)
}

pub(crate) fn now_millis() -> i64 {
    let (now, _) = kit::now();
    i64::try_from(now.unix_timestamp_nanos() / 1_000_000).unwrap_or(0)
}
