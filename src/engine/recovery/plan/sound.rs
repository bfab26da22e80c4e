//! Tells the records that an engine may have written.

use sessionlog_wal::journal::record::Record;

use crate::disk::files::backup::BackupName;
use crate::disk::files::is_temp_name;

/// Returns the reason that no engine wrote this record, if there is one, whatever stands before it.
/// Carried out, such a record would reach outside the directory or past what a file can hold.
pub(crate) fn flaw(record: &Record<'_>) -> Option<&'static str> {
    let stem = match *record {
        Record::Append {
            stem,
            offset,
            bytes,
            ..
        } => {
            if !is_position(offset, bytes) {
                return Some("lies beyond every file");
            }
            stem
        }
        Record::Swap {
            stem,
            temp,
            base_len,
            tail,
            ..
        } => {
            if !is_temp_name(temp) || !is_name(temp) {
                return Some("names a file that is not ours");
            }
            if !is_position(base_len, tail) {
                return Some("lies beyond every file");
            }
            stem
        }
        Record::Rebase {
            stem,
            of,
            len,
            link,
            backup,
            ..
        } => {
            let kept = link.is_empty() && backup.is_empty()
                || is_temp_name(link) && is_name(link) && is_backup(backup);
            if !kept || !is_backup(of) {
                return Some("names a file that is not ours");
            }
            if !is_position(len, b"") {
                return Some("lies beyond every file");
            }
            stem
        }
        Record::Meta { stem, .. } | Record::Delete { stem, .. } => stem,
        Record::Checkpoint { .. } | Record::Commit(_) => return None,
    };
    (!is_name(stem)).then_some("names no file of this directory")
}

fn is_backup(name: &str) -> bool {
    is_name(name) && BackupName::parse(name).is_some()
}

/// True if this names a file of the directory, and none elsewhere.
fn is_name(name: &str) -> bool {
    !name.is_empty() && name != "." && name != ".." && !name.contains(['/', '\0'])
}

/// True if a file can have `bytes` at `offset`.
fn is_position(offset: u64, bytes: &[u8]) -> bool {
    let end = offset.checked_add(bytes.len() as u64);
    end.is_some_and(|end| i64::try_from(end).is_ok())
}
