//! Runs a recovery from beginning to end: carries out the journal, and commits a checkpoint.

use std::path::Path;

use sessionlog_core::error::{Error, Result};
use sessionlog_wal::journal::committer::{Batch, Committer};
use sessionlog_wal::journal::pool::reserve;
use sessionlog_wal::journal::record::{self, Record};
use sessionlog_wal::journal::scan::Scan;
use sessionlog_wal::storage::{DirEntry, FileKind, Storage};

use super::plan::Plans;
use super::redo::{Adoption, clear, redo, redo_adopted};
use super::{RecoveryReport, restore};
use crate::disk::copies::copy_file::CopyFile;
use crate::disk::copies::lost::Copies;
use crate::disk::files::{self, TempNames};
use crate::engine::home::Home;

/// The result of recovery, and the work that is left.
pub(crate) struct RecoveryOutcome {
    pub(crate) report: RecoveryReport,
    pub(crate) adopted: Adoption,
    /// The content of the directory, if recovery read it and did not change it.
    pub(crate) entries: Option<Vec<DirEntry>>,
}

/// The files that the last writer left.
pub(crate) struct Remains<'a> {
    pub(crate) storage: &'a dyn Storage,
    pub(crate) dir: &'a Path,
    pub(crate) home: &'a Home,
    pub(crate) scan: &'a Scan,
    /// True if the directory is known not to have changed since a clean end.
    pub(crate) known: bool,
}

/// Brings the session files up to the journal, except those that another program changed: their
/// changes are [journalled first](Remains::supersede). On a full disk it takes the space that is
/// [kept](reserve) for that, and reports the findings of both tries: files that the first set aside
/// are not found by the second.
///
/// # Errors
/// As the operating system reports them; the journal is whole then.
pub(crate) fn recover(remains: &Remains<'_>, copy_file: &mut CopyFile) -> Result<RecoveryOutcome> {
    let mut report = RecoveryReport::default();
    match try_recover(remains, copy_file, &mut report) {
        Err(Error::StorageFull { .. })
            if reserve::release(remains.storage, &remains.home.journal)? =>
        {
            let mut recovered = try_recover(remains, copy_file, &mut RecoveryReport::default())?;
            recovered.report.follow(report);
            Ok(recovered)
        }
        recovered => recovered,
    }
}

fn try_recover(
    remains: &Remains<'_>,
    copy_file: &mut CopyFile,
    report: &mut RecoveryReport,
) -> Result<RecoveryOutcome> {
    let &Remains {
        storage,
        dir,
        home,
        scan,
        known,
    } = remains;
    let mut copies = Copies::new(storage, dir, &home.copies);
    let mut plans = Plans::default();
    scan.replay(storage, |record| plans.add(record))?;
    plans.require_sound(&home.journal)?;
    scan.persist(storage)?;
    report.clean = scan.clean || scan.is_empty();
    report.replayed_records = plans.records;
    report.torn_bytes = scan.torn_bytes;
    // First, because on a full disk the lines that follow need this space.
    remove_strays(storage, home, scan)?;
    let temps = TempNames::before_segment(scan.next_number);
    let places = home.places(dir);
    let (mut adopted, mut entries) = (Adoption::default(), None);
    if plans.sessions.is_empty() {
        entries = clear(storage, places, known, report)?;
    } else {
        adopted = redo(storage, places, &plans, temps, &mut copies, report)?;
    }
    restore::copy(storage, dir, &plans, copy_file)?;
    Ok(RecoveryOutcome {
        report: std::mem::take(report),
        adopted,
        entries,
    })
}

/// Removes half-made segments and spares of the last run, which hold no record.
fn remove_strays(storage: &dyn Storage, home: &Home, scan: &Scan) -> Result<()> {
    for stray in &scan.strays {
        let path = home.journal.join(stray);
        // A directory is not ours, and in no file's way.
        let is_file = files::kind_of(storage, &path) == Some(FileKind::File);
        if is_file && stray.strip_suffix(".tmp").is_some() {
            storage
                .remove_file(&path)
                .map_err(|e| Error::io("remove", &path, e))?;
        }
    }
    Ok(())
}

impl Remains<'_> {
    /// Records in a new segment that everything before it is in the session files or in its own
    /// records, and removes the old segments. In that order: with the old segments partly gone and
    /// no checkpoint to cover them, the rest would be replayed onto files that are ahead of it.
    /// Then it carries the records out. Returns the number of the last batch. Its batches are
    /// `producer`'s.
    ///
    /// # Errors
    /// As the operating system reports them; the next open goes on.
    pub(crate) fn supersede(
        &self,
        committer: &mut Committer,
        recovered: &mut RecoveryOutcome,
        copy_file: &mut CopyFile,
    ) -> Result<u64> {
        let (storage, dir, home, scan) = (self.storage, self.dir, self.home, self.scan);
        let RecoveryOutcome {
            report, adopted, ..
        } = recovered;
        let upto = scan.sequence;
        if scan.is_empty() {
            return Ok(upto);
        }
        commit_checkpoint(committer, upto, false, &adopted.records)?;
        for path in scan.paths() {
            storage
                .remove_file(path)
                .map_err(|e| Error::io("remove journal segment", path, e))?;
        }
        storage
            .sync_dir(&home.journal)
            .map_err(|e| Error::io("sync", &home.journal, e))?;
        let mut copies = Copies::new(storage, dir, &home.copies);
        let plans = &adopted.plans;
        redo_adopted(storage, home.places(dir), plans, &mut copies, report)?;
        if adopted.records.is_empty() {
            return Ok(upto + 1);
        }
        restore::copy(storage, dir, plans, copy_file)?;
        commit_checkpoint(committer, upto + 1, false, b"")?;
        Ok(upto + 2)
    }
}

/// Commits, alone, that everything up to batch `sequence` is in the session files, together with
/// `records`.
///
/// # Errors
/// As the committer reports them.
pub(crate) fn commit_checkpoint(
    committer: &mut Committer,
    sequence: u64,
    clean: bool,
    records: &[u8],
) -> Result<()> {
    let mut batch = Batch {
        own: true,
        ..Batch::default()
    };
    let checkpoint = Record::Checkpoint { sequence, clean };
    record::encode(&mut batch.bytes, &checkpoint);
    batch.bytes.extend_from_slice(records);
    committer.commit(&mut batch)
}
