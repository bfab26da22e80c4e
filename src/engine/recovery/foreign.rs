//! What another program did to a session's files while no store had them open, and what
//! the session is then.
//!
//! The journal says what both files were before its first record, and every state that
//! they had since. A file in one of these, written as far as a crash may have left it, is
//! ours, and the journal is carried out as ever. Any other was changed, and replayed over,
//! it would lose what others wrote, double it, or bring back what they took away. So:
//!
//! * *Lines were added*: ours come where they belong, theirs after them.
//! * *Rewritten*: theirs is the history. If lines that we acknowledged are not in it, ours
//!   becomes a backup.
//! * *Removed*: the session is deleted, and what we acknowledged is a backup.
//! * *The sidecar*: field by field, theirs if they changed it, else ours. Lines that they
//!   hid stay hidden.
//!
//! What cannot be told from a crash is taken for one: a file cut within the lines that the
//! journal holds, and the missing file of a session that began in the journal. A file
//! that shows nothing of ours is taken for rewritten.

mod lineage;
mod merge;
pub(crate) mod sidecar;
pub(crate) mod standing;

use std::io;

use self::lineage::Found;
pub(super) use self::lineage::arrived;
use self::merge::{Both, lines_of, misses};
use self::sidecar::OnDisk;
use super::bytes::Bytes;
use super::plan::Plan;
use super::planned::Planned;
use crate::disk::files::{self, log_path};
use crate::disk::session_file::{self, SessionMeta};
use crate::error::{Error, Result};
use crate::ground::storage::OpenMode;

/// What a session is.
#[derive(Debug)]
pub(crate) enum Judged {
    /// What the journal makes of it.
    Ours {
        lines: Bytes,
        /// What was seen all the same: a sidecar that is gone.
        finding: Option<String>,
    },
    Changed(Box<Changed>),
}

/// A session whose files were changed.
#[derive(Debug)]
pub(crate) struct Changed {
    /// What was done to them, and what the session is then, in words.
    pub(crate) finding: String,
    /// The lines, if the file that is there does not have them.
    pub(crate) lines: Option<Bytes>,
    /// The file that is there.
    pub(crate) found: Option<Bytes>,
    /// The sidecar, if there is anything to be said in one.
    pub(crate) meta: Option<SessionMeta>,
    /// Whether the session is.
    pub(crate) gone: bool,
    /// Lines of ours that are not in the history.
    pub(crate) conflict: Option<Conflict>,
    /// Whether lines are gone that nothing holds any more.
    pub(crate) lost: bool,
}

impl Changed {
    /// The lines of the session.
    pub(crate) fn into_lines(self) -> Bytes {
        let there = self.found.filter(|_| !self.gone);
        self.lines.or(there).unwrap_or_else(Bytes::none)
    }
}

/// What becomes a backup.
#[derive(Debug)]
pub(crate) struct Conflict {
    pub(crate) lines: Bytes,
    /// The sidecar that goes with them.
    pub(crate) meta: SessionMeta,
    /// Whether its session's file name is another session's now.
    pub(crate) displaced: bool,
}

/// Looks at the files of `stem`.
///
/// # Errors
/// If they cannot be read.
pub(crate) fn judge(planned: Planned<'_>, stem: &str, plan: &Plan) -> Result<Judged> {
    let path = log_path(planned.dir, stem);
    let log = files::open_log(planned.storage, planned.dir, stem, OpenMode::Read);
    let log = match log {
        // A directory or a link, which is set aside: the file is gone.
        Err(Error::Io { source, .. }) if files::is_taken(&source) => None,
        other => other?,
    };
    let log = match log {
        Some(file) => Some(Bytes::whole(Some(file), &path)?),
        None => None,
    };
    let on_disk = OnDisk::read(planned.storage, planned.dir, stem)?;
    let sidecar = on_disk.found(plan);
    let (mut found, mut present) = lineage::find(planned, plan, (&path, log.as_ref()))?;
    if found == Found::Doubtful && sidecar == sidecar::Found::Changed {
        (found, present) = (Found::Rewritten, false);
    }
    if found == Found::AsLeft && plan.had_sidecar() && log.is_none() && on_disk.is_missing() {
        found = Found::Gone;
    }
    let ours = planned.session(plan, log.clone().filter(|_| present))?;
    let pieces = match &ours {
        Some(_) => Bytes::none(),
        // Lines of others would be taken for ours.
        None => match (found, &log) {
            (Found::Added { .. } | Found::Edited | Found::Doubtful, Some(log)) => {
                let lines = plan.journalled().unwrap_or_default().1;
                let wrap = |e| Error::io("read", &path, e);
                log.clone().followed(&lines).map_err(wrap)?
            }
            _ => planned.pieced(plan, log.clone().filter(|_| found == Found::AsLeft))?,
        },
    };
    let case = Case {
        stem,
        plan,
        path: path.display().to_string(),
        ours,
        pieces,
        log,
        sidecar,
        on_disk,
        found,
        present,
    };
    case.judge().map_err(|e| match e {
        Fault::Io(e) => Error::io("read", &path, e),
        Fault::Error(e) => e,
    })
}

enum Fault {
    Io(io::Error),
    Error(Error),
}

impl From<io::Error> for Fault {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl From<Error> for Fault {
    fn from(error: Error) -> Self {
        Self::Error(error)
    }
}

/// Everything that is known of a session.
struct Case<'a> {
    stem: &'a str,
    plan: &'a Plan,
    path: String,
    /// The file that is there, and what it is.
    log: Option<Bytes>,
    found: Found,
    /// Whether it is the present one, not one that was replaced.
    present: bool,
    on_disk: OnDisk,
    sidecar: sidecar::Found,
    /// What the journal makes of the session, if that can be put together.
    ours: Option<Bytes>,
    /// If not: what it was before its file was replaced, and the lines since.
    pieces: Bytes,
}

impl Case<'_> {
    fn judge(mut self) -> std::result::Result<Judged, Fault> {
        if self.is_anothers() {
            return self.rewritten("is another session's now", true);
        }
        if self.is_cut_by_them()? {
            self.found = Found::Rewritten;
        }
        let from = match self.found {
            Found::Gone => return self.gone(),
            Found::Rewritten => return self.rewritten("was rewritten", false),
            Found::Added { from, .. } => Some(from),
            Found::AsLeft | Found::Edited | Found::Doubtful => None,
        };
        let Some(ours) = self.ours.take() else {
            return self.incomplete();
        };
        if let (Some(from), Some(log)) = (from, &self.log)
            && lineage::shares(log, from, &ours)?
        {
            self.ours = Some(ours);
            return self.rewritten("was rewritten", false);
        }
        let what = match (self.found, self.sidecar) {
            (Found::AsLeft, sidecar::Found::Changed) => "is as it was, but its sidecar was changed",
            (Found::AsLeft, _) => return Ok(self.ours(ours)),
            (Found::Added { .. }, _) => "has lines that were added",
            _ => "was changed in place",
        };
        self.joined(what, ours, from)
    }

    fn ours(self, lines: Bytes) -> Judged {
        let removed = self.sidecar == sidecar::Found::Removed && self.plan.exists();
        let finding = removed.then(|| {
            let path = &self.path;
            format!("the sidecar of {path} is missing; it is made again of the journal")
        });
        Judged::Ours { lines, finding }
    }

    /// The file may be what a crash left of ours, but they wrote a sidecar beside it that
    /// shows just these lines, and nothing else that is new: they cut it.
    fn is_cut_by_them(&self) -> io::Result<bool> {
        let (Some(theirs), Some(log), Some(ours)) = (self.their_meta(), &self.log, &self.ours)
        else {
            return Ok(false);
        };
        let is_present = self.found == Found::AsLeft && self.present;
        if !is_present || theirs.skip != 0 || merge::is_new(self.plan, theirs) {
            return Ok(false);
        }
        let lines = lines_of(log)?;
        Ok(theirs.count == lines && lines < lines_of(ours)?)
    }

    /// The key in the sidecar is another's that has this file name, too. One that leads to
    /// other files is damage.
    fn is_anothers(&self) -> bool {
        let theirs = self.on_disk.meta().map_or("", |meta| &meta.key);
        let ours = self.our_meta().map(|meta| meta.key).unwrap_or_default();
        let changed = self.sidecar == sidecar::Found::Changed;
        let stems = [
            session_file::plain_stem(theirs),
            session_file::hashed_stem(theirs),
        ];
        let leads_here = stems.iter().any(|stem| *stem == self.stem);
        changed && !theirs.is_empty() && !ours.is_empty() && theirs != ours && leads_here
    }

    /// The sidecar as the journal would have it.
    fn our_meta(&self) -> Option<SessionMeta> {
        let before = || match self.on_disk.meta() {
            Some(meta) => meta.clone(),
            None => SessionMeta::empty(""),
        };
        self.plan.exists().then(|| self.plan.meta(before))
    }

    /// The sidecar if another program wrote it.
    fn their_meta(&self) -> Option<&SessionMeta> {
        let changed = self.sidecar == sidecar::Found::Changed;
        self.on_disk.meta().filter(|_| changed)
    }

    fn merged_meta(&self) -> Option<SessionMeta> {
        let ours = self.our_meta();
        match self.their_meta() {
            Some(theirs) => Some(merge::sidecar(self.plan, theirs, ours.as_ref())),
            None => ours.or_else(|| self.on_disk.meta().cloned()),
        }
    }

    fn joined(
        self,
        what: &str,
        ours: Bytes,
        from: Option<u64>,
    ) -> std::result::Result<Judged, Fault> {
        let meta = self.merged_meta();
        let both = Both {
            plan: self.plan,
            ours,
            skip: self.our_meta().map_or(0, |meta| meta.skip),
            found: self.log.as_ref(),
            from,
            theirs: self.their_meta(),
        };
        let (lines, skip) = both.join()?;
        let count = lines_of(&lines)?;
        let mut meta = meta.unwrap_or_else(|| SessionMeta::empty(""));
        meta.skip = skip.clamp(0, count);
        meta.count = count;
        Ok(self.changed(what, Some(lines), Some(meta), None))
    }

    /// Theirs is the history.
    fn rewritten(self, what: &str, displaced: bool) -> std::result::Result<Judged, Fault> {
        let conflict = self.conflict(displaced)?;
        let mut meta = if displaced {
            self.on_disk.meta().cloned()
        } else {
            self.merged_meta()
        };
        if let (Some(meta), Some(log)) = (&mut meta, &self.log) {
            meta.count = lines_of(log)?;
            meta.skip = self.hidden(log, displaced)?.clamp(0, meta.count);
        }
        Ok(self.changed(what, None, meta, conflict))
    }

    /// How many lines of the file that was found are hidden: as many as they hid. If the
    /// sidecar is as we left it, or a crash tore it, all that we had truncated, so that as
    /// many are shown as we showed.
    fn hidden(&self, log: &Bytes, displaced: bool) -> io::Result<i64> {
        let seen = self.on_disk.meta().map_or(0, |meta| meta.skip);
        let left_alone = self.sidecar == sidecar::Found::AsLeft && !displaced;
        let Some(ours) = self.our_meta().filter(|_| left_alone) else {
            return Ok(seen);
        };
        // The lines that the journal holds may not have come to the file.
        let journalled = self.plan.journalled().unwrap_or_default().1;
        let shown = ours.count.saturating_sub(ours.skip);
        let shown = shown.saturating_sub(merge::missing(log, &journalled)?);
        let others = lines_of(log)?.saturating_sub(shown.max(0));
        Ok(seen.max(ours.skip.min(others)))
    }

    /// Both files count as removed, if the one with the lines is.
    fn gone(self) -> std::result::Result<Judged, Fault> {
        let conflict = self.conflict(false)?;
        Ok(self.changed("was removed", None, None, conflict))
    }

    /// A backup or prepared file of ours is gone, that the session was made of: it is what
    /// it was before, and what was acknowledged since comes after it.
    fn incomplete(self) -> std::result::Result<Judged, Fault> {
        let what = "was to be made of a file that was removed";
        let lines = self.pieces.clone();
        let mut meta = self.merged_meta();
        if let Some(meta) = &mut meta {
            show_the_last(meta, &lines)?;
        }
        let mut judged = self.changed(what, Some(lines), meta, None);
        if let Judged::Changed(changed) = &mut judged {
            changed.lost = true;
        }
        Ok(judged)
    }

    fn changed(
        self,
        what: &str,
        lines: Option<Bytes>,
        meta: Option<SessionMeta>,
        conflict: Option<Conflict>,
    ) -> Judged {
        let sidecar = match self.sidecar {
            sidecar::Found::Changed if self.found != Found::AsLeft => ", and so was its sidecar",
            sidecar::Found::Removed => ", and its sidecar is missing",
            _ => "",
        };
        let then = match self.found {
            Found::Gone => "the session is deleted",
            Found::Rewritten => "what is there is its history",
            _ => "its history has the lines of both",
        };
        let key = self.our_meta().or_else(|| self.on_disk.meta().cloned());
        let key = key.map(|meta| meta.key).unwrap_or_default();
        let path = &self.path;
        Judged::Changed(Box::new(Changed {
            finding: format!("session {key:?}: {path} {what} by another program{sidecar}; {then}"),
            lines,
            gone: self.found == Found::Gone,
            found: self.log,
            meta,
            conflict,
            lost: false,
        }))
    }

    /// What we acknowledged, if not all of it is in the file that is there.
    fn conflict(&self, displaced: bool) -> std::result::Result<Option<Conflict>, Fault> {
        let Some(mut meta) = self.our_meta() else {
            return Ok(None);
        };
        let lines = if let Some(ours) = &self.ours {
            ours.clone()
        } else {
            show_the_last(&mut meta, &self.pieces)?;
            self.pieces.clone()
        };
        let there = self.log.as_ref().filter(|_| !displaced);
        let hidden = self.on_disk.meta().map_or(0, |meta| meta.skip);
        if !misses((there, hidden), &lines, meta.skip)? {
            return Ok(None);
        }
        meta.count = lines_of(&lines)?;
        Ok(Some(Conflict {
            lines,
            meta,
            displaced,
        }))
    }
}

/// Shows as many of these lines as the sidecar shows of those it was written for, the last.
fn show_the_last(meta: &mut SessionMeta, lines: &Bytes) -> io::Result<()> {
    let shown = meta.count.saturating_sub(meta.skip).max(0);
    meta.count = lines_of(lines)?;
    meta.skip = meta.count.saturating_sub(shown).max(0);
    Ok(())
}
