//! Decides what another program did to a session's files while no store had them open, and what the
//! session is then.
//!
//! The journal says what both files were before its first record, and every state that they had
//! since. A file in one of these states, written as far as a crash may have left it, is ours, and
//! the journal is carried out as usual. Any other file was changed. Replaying over it would lose
//! lines of the other program, double them, or bring back lines that it took away. Lines and fields
//! are decided separately: a part that only one side changed is that side's.
//!
//! | found | lines | told as |
//! |---|---|---|
//! | our lines, others after them | ours, then theirs | added |
//! | a file of theirs where the session had no line | ours, then theirs | added |
//! | the same, beside a sidecar of theirs that was one of ours which counts lines | theirs | rewritten |
//! | a file that shows nothing of ours, or ours in another order | theirs | rewritten |
//! | an empty file, and a sidecar of theirs that counts none | none | cleared |
//! | a part of ours, and a sidecar of theirs that shows just that, as none of ours did | theirs | rewritten |
//! | no file, where one must be | none: the session is deleted | removed |
//! | a link, a directory or a file that may not be opened, where one must be | what is there stays, and the session answers with that error; ours are a backup | barred |
//! | as a crash may leave ours | ours | nothing |
//!
//! Lines that either side hid are hidden. Where the lines are theirs alone, ours become a backup if
//! one of them is missing. [`fields`] has the table for the sidecar; the summary of a session that
//! they cleared is theirs.
//!
//! A change that cannot be told from a crash is taken for one: a file cut within the lines that the
//! journal holds, and the missing file of a session that began in the journal. Two more cases: a
//! history of their own, written where a session had begun and had no sidecar yet, comes after
//! ours; and an empty file that a crash left, beside a sidecar that they wrote, looks cleared, and
//! ours is the backup.

mod case;
mod fields;
mod lineage;
mod merge;
pub(crate) mod sidecar;
mod traces;

use std::io;
use std::path::Path;

use self::case::Case;
use self::lineage::FoundFile;
use self::sidecar::OnDisk;
pub(super) use self::traces::arrived;
use sessionlog_core::error::{Error, Result};
use sessionlog_core::session_file::SessionMeta;
use sessionlog_wal::storage::{OpenMode, Storage};

use super::bytes::Bytes;
use super::plan::Plan;
use super::planned::PlannedFiles;
use crate::disk::files::{self, log_path};

/// The verdict on a session.
#[derive(Debug)]
pub(crate) enum ForeignVerdict {
    /// The session as the journal makes it.
    Ours {
        lines: Bytes,
        /// A notable observation all the same: a sidecar that is gone.
        finding: Option<String>,
    },
    Changed(Box<ChangedSession>),
    Barred(Box<BarredSession>),
}

/// A session with a file that can neither be read nor made again.
#[derive(Debug)]
pub(crate) struct BarredSession {
    /// A description of the thing in its place, and of the fate of ours.
    pub(crate) finding: String,
    /// The lines that the journal holds of it.
    pub(crate) conflict: Option<Conflict>,
    /// The sidecar, if there is anything to be said in one.
    pub(crate) meta: Option<SessionMeta>,
    kind: io::ErrorKind,
    why: String,
}

impl BarredSession {
    /// Returns the error for callers that ask for the session.
    pub(crate) fn error(&self, dir: &Path, stem: &str) -> Error {
        let error = io::Error::new(self.kind, self.why.clone());
        Error::io("open", &log_path(dir, stem), error)
    }
}

/// A session with changed files.
#[derive(Debug)]
pub(crate) struct ChangedSession {
    /// A description of the change, and of the session then.
    pub(crate) finding: String,
    /// The lines, unless they are those of the file that is there.
    pub(crate) lines: Option<Bytes>,
    /// The file that is there.
    pub(crate) found: Option<Bytes>,
    /// The sidecar to write, if any.
    pub(crate) meta: Option<SessionMeta>,
    /// True if the session is deleted.
    pub(crate) gone: bool,
    /// Lines of ours that are not in the history.
    pub(crate) conflict: Option<Conflict>,
    /// True if lines are gone that nothing holds any more.
    pub(crate) lost: bool,
}

impl ChangedSession {
    /// Returns the lines of the session.
    pub(crate) fn into_lines(self) -> Bytes {
        let there = self.found.filter(|_| !self.gone);
        self.lines.or(there).unwrap_or_else(Bytes::none)
    }
}

/// The content of a new backup.
#[derive(Debug)]
pub(crate) struct Conflict {
    pub(crate) lines: Bytes,
    /// The sidecar that goes with them.
    pub(crate) meta: SessionMeta,
    /// True if its session's file name is another session's now.
    pub(crate) displaced: bool,
}

/// Number of tries for a file that is replaced while it is looked at.
const TRIES: usize = 20;

/// Does the same as [`judge`], beside a writer. The writer's worker gives prepared files their
/// names meanwhile: a session file opened before that, and a prepared file looked for after it,
/// would pass for one that another program removed. A change counts only if the file that was
/// looked at still has its name.
///
/// # Errors
/// If they cannot be read.
pub(crate) fn judge_beside_a_writer(
    planned: PlannedFiles<'_>,
    stem: &str,
    plan: &Plan,
) -> Result<ForeignVerdict> {
    for _ in 0..TRIES {
        let files = SessionFiles::of(planned.storage, planned.dir, stem)?;
        if let Some(judged) = judge_as_seen(planned, stem, plan, files)? {
            return Ok(judged);
        }
    }
    let error = io::Error::other("it was replaced each time it was looked at");
    Err(Error::io("read", &log_path(planned.dir, stem), error))
}

/// Judges files that were looked at before the journal was read to the end of the plan: all that
/// the writer put into them is in the plan. Returns `None` if the file has lost its name since: a
/// prepared file may have taken the name, and would pass for one that was removed.
///
/// # Errors
/// If they cannot be read.
pub(crate) fn judge_as_seen(
    planned: PlannedFiles<'_>,
    stem: &str,
    plan: &Plan,
    files: SessionFiles,
) -> Result<Option<ForeignVerdict>> {
    let judged = judge_files(planned, stem, plan, files)?;
    if let ForeignVerdict::Changed(changed) = &judged
        && !still_there(planned, stem, changed)?
    {
        return Ok(None);
    }
    Ok(Some(judged))
}

fn still_there(planned: PlannedFiles<'_>, stem: &str, changed: &ChangedSession) -> Result<bool> {
    let path = log_path(planned.dir, stem);
    let wrap = |e| Error::io("read", &path, e);
    let file = changed.found.as_ref().and_then(|found| found.file.as_ref());
    let found = file.map(|file| file.info()).transpose().map_err(wrap)?;
    let now = match planned.storage.info(&path) {
        Ok(info) => Some(info),
        Err(e) if e.kind() == io::ErrorKind::NotFound => None,
        Err(e) => return Err(wrap(e)),
    };
    Ok(found.map(|info| info.inode) == now.map(|info| info.inode))
}

/// The two files of a session, as they were at one time.
#[derive(Debug, Clone)]
pub(crate) struct SessionFiles {
    pub(crate) log: Option<Bytes>,
    /// The reason that the session file's name cannot be opened.
    barred: Option<(io::ErrorKind, String)>,
    on_disk: OnDisk,
}

impl SessionFiles {
    /// Looks at the files of `stem`.
    ///
    /// # Errors
    /// If they cannot be read.
    pub(crate) fn of(storage: &dyn Storage, dir: &Path, stem: &str) -> Result<Self> {
        let path = log_path(dir, stem);
        let (log, barred) = match files::open_log(storage, dir, stem, OpenMode::Read) {
            Err(Error::Io { source, .. }) if files::is_taken(&source) => {
                (None, Some((source.kind(), source.to_string())))
            }
            other => (other?, None),
        };
        let log = log.map(|file| Bytes::whole(Some(file), &path));
        Ok(Self {
            log: log.transpose()?,
            barred,
            on_disk: OnDisk::read(storage, dir, stem)?,
        })
    }
}

/// Looks at the files of `stem`.
///
/// # Errors
/// If they cannot be read.
pub(crate) fn judge(planned: PlannedFiles<'_>, stem: &str, plan: &Plan) -> Result<ForeignVerdict> {
    let files = SessionFiles::of(planned.storage, planned.dir, stem)?;
    judge_files(planned, stem, plan, files)
}

fn judge_files(
    planned: PlannedFiles<'_>,
    stem: &str,
    plan: &Plan,
    files: SessionFiles,
) -> Result<ForeignVerdict> {
    let SessionFiles {
        log,
        barred,
        on_disk,
    } = files;
    let path = &log_path(planned.dir, stem);
    let sidecar = on_disk.found(plan);
    let (mut found, mut present) = lineage::find(planned, plan, (path, log.as_ref()))?;
    if found == FoundFile::Doubtful && sidecar == sidecar::SidecarFate::Changed {
        (found, present) = (FoundFile::Rewritten, false);
    }
    let whole = planned.session(plan, log.clone().filter(|_| present))?;
    let is_whole = whole.is_some();
    let ours = match (whole, found, &log) {
        (Some(whole), ..) => whole,
        // Other programs' lines would be taken for ours.
        (None, FoundFile::Added { .. } | FoundFile::Edited | FoundFile::Doubtful, Some(log)) => {
            let lines = plan.journalled().unwrap_or_default().1;
            let wrap = |e| Error::io("read", path, e);
            log.clone().followed(&lines).map_err(wrap)?
        }
        _ => planned.pieced(plan, log.clone().filter(|_| found == FoundFile::AsLeft))?,
    };
    let case = Case {
        stem,
        plan,
        path: path.display().to_string(),
        log,
        found,
        present,
        on_disk,
        sidecar,
        ours,
        is_whole,
        displaced: false,
    };
    let judged = match barred.filter(|_| found == FoundFile::Gone) {
        Some(barred) => case.barred(barred),
        None => case.judge(),
    };
    judged.map_err(|e| Error::io("read", path, e))
}

/// Returns true if another program wrote the sidecar of a session that the journal has one for.
///
/// # Errors
/// If it cannot be read.
pub(crate) fn is_sidecar_changed(
    planned: PlannedFiles<'_>,
    stem: &str,
    plan: &Plan,
) -> Result<bool> {
    if plan.image.is_none() {
        return Ok(false);
    }
    let on_disk = OnDisk::read(planned.storage, planned.dir, stem)?;
    Ok(on_disk.found(plan) == sidecar::SidecarFate::Changed)
}

/// Returns true if the session can be made without the file that has its name.
///
/// # Errors
/// If that cannot be found out.
pub(crate) fn needs_no_file(planned: PlannedFiles<'_>, plan: &Plan) -> Result<bool> {
    Ok(plan.may_be_absent(lineage::waits_for_its_name(planned, plan)?))
}
