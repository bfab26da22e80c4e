//! Descriptions of backups, and the choice of those over a limit.

use crate::disk::files::backup::{BackupFile, BackupName};
use crate::{Backup, BackupLimits, BackupReason};

/// The description of a backup; `made` is in milliseconds since 1970.
#[must_use]
pub fn backup(number: u64, made: i64, reason: BackupReason, size: u64) -> Backup {
    name(number, made, reason).describe(size)
}

/// The numbers of the backups that are over a limit at `now`, oldest first. `backups` is ordered
/// oldest first, each with the time it was made; times are in milliseconds since 1970.
#[must_use]
pub fn backups_over(limits: BackupLimits, backups: &[(i64, Backup)], now: i64) -> Vec<u64> {
    let stored = backups.iter().map(|(made, backup)| BackupFile {
        name: name(backup.number, *made, backup.reason),
        size: backup.size,
    });
    let over = limits.over(stored.collect(), now).into_iter();
    over.map(|stored| stored.name.number).collect()
}

fn name(number: u64, millis: i64, reason: BackupReason) -> BackupName {
    BackupName {
        stem: String::new(),
        number,
        reason,
        millis,
        skip: 0,
    }
}
