//! Decides the fate of one session.

use std::io;

use sessionlog_core::session_file::{self, SessionMeta};
use sessionlog_core::stamp::ZERO_TIME;

use super::super::bytes::Bytes;
use super::super::plan::{Plan, count_lines};
use super::fields::{self, MergedFields};
use super::lineage::FoundFile;
use super::merge::{lines_of, missing};
use super::sidecar::{self, OnDisk};
use super::traces::shares;
use super::{BarredSession, ChangedSession, Conflict, ForeignVerdict};

/// All known facts about a session.
pub(super) struct Case<'a> {
    pub(super) stem: &'a str,
    pub(super) plan: &'a Plan,
    pub(super) path: String,
    /// The file that is there, and its kind.
    pub(super) log: Option<Bytes>,
    pub(super) found: FoundFile,
    /// True if it is the present one, not one that was replaced.
    pub(super) present: bool,
    pub(super) on_disk: OnDisk,
    pub(super) sidecar: sidecar::SidecarFate,
    /// The session as the journal makes it.
    pub(super) ours: Bytes,
    /// True if that could be put together. If not, it is the session before its file was replaced,
    /// and the lines since.
    pub(super) is_whole: bool,
    /// True if the session's file name is another session's now.
    pub(super) displaced: bool,
}

impl Case<'_> {
    pub(super) fn judge(mut self) -> io::Result<ForeignVerdict> {
        self.displaced = self.is_anothers();
        if self.displaced {
            return self.rewritten("is another session's now");
        }
        if self.is_cleared() {
            return self.rewritten("was cleared");
        }
        let from = match self.found {
            FoundFile::Gone => return self.gone(),
            FoundFile::Added { from, .. } => Some(from),
            FoundFile::AsLeft | FoundFile::Edited | FoundFile::Doubtful | FoundFile::Rewritten => {
                None
            }
        };
        if self.found == FoundFile::Rewritten || self.is_of_theirs_alone()? {
            return self.rewritten("was rewritten");
        }
        if !self.is_whole {
            return self.incomplete();
        }
        if let (Some(from), Some(log)) = (from, &self.log)
            && shares(log, from, &self.ours)?
        {
            return self.rewritten("was rewritten");
        }
        let what = match (self.found, self.sidecar) {
            (FoundFile::AsLeft, sidecar::SidecarFate::Changed) => {
                "is as it was, but its sidecar was changed"
            }
            (FoundFile::AsLeft, _) => return Ok(self.ours()),
            (FoundFile::Added { .. }, _) => "has lines that were added",
            _ => "was changed in place",
        };
        self.joined(what, from)
    }

    fn ours(self) -> ForeignVerdict {
        let removed = self.sidecar == sidecar::SidecarFate::Removed && self.plan.exists();
        let finding = removed.then(|| {
            let path = &self.path;
            format!("the sidecar of {path} is missing; it is made again of the journal")
        });
        let lines = self.ours;
        ForeignVerdict::Ours { lines, finding }
    }

    /// True if the file is there and empty, and they wrote a sidecar that counts no line. A crash
    /// may leave the one or the other, but not both.
    fn is_cleared(&self) -> bool {
        let counts_none = |theirs: &SessionMeta| theirs.skip == 0 && theirs.count == 0;
        self.their_meta().is_some_and(counts_none)
            && self.log.as_ref().is_some_and(|log| log.size() == 0)
    }

    /// True if they wrote a sidecar that shows just the lines of the file, as none of ours did:
    /// they made the file of these lines.
    fn is_of_theirs_alone(&self) -> io::Result<bool> {
        let (Some(theirs), Some(log)) = (self.their_meta(), &self.log) else {
            return Ok(false);
        };
        let lines = lines_of(log)?;
        if (theirs.skip, theirs.count) != (0, lines) {
            return Ok(false);
        }
        let is_dated = |said: &SessionMeta| said.created_at == theirs.created_at;
        Ok(match self.found {
            // The file may be what a crash left of ours.
            FoundFile::AsLeft if self.present && self.is_whole => {
                lines < lines_of(&self.ours)? && !self.said(|said| said.count == lines)
            }
            // Nothing of ours is in it, and their sidecar began as one of ours that counts lines.
            // Those lines came to the file before that sidecar: they replaced them.
            FoundFile::Added { from: 0, .. } => {
                theirs.created_at != ZERO_TIME
                    && self.said(is_dated)
                    && !self.said(|said| is_dated(said) && said.count == 0)
            }
            _ => false,
        })
    }

    /// True if one of our sidecars satisfies `is_it`.
    fn said(&self, is_it: impl Fn(&SessionMeta) -> bool) -> bool {
        let is_it = |said: Option<&SessionMeta>| said.is_some_and(&is_it);
        self.plan.past.any_sidecar(self.their_meta(), is_it)
    }

    /// True if the sidecar's key is another session's that has this file name, too. A key that
    /// leads to other files is damage.
    fn is_anothers(&self) -> bool {
        let (Some(theirs), Some(ours)) = (self.their_meta(), self.our_meta()) else {
            return false;
        };
        let (theirs, ours) = (&*theirs.key, &*ours.key);
        let is_here = |stem: String| stem == self.stem;
        let leads_here =
            is_here(session_file::plain_stem(theirs)) || is_here(session_file::hashed_stem(theirs));
        !theirs.is_empty() && !ours.is_empty() && theirs != ours && leads_here
    }

    /// Returns the sidecar that is there; an empty one if there is none.
    fn found_meta(&self) -> SessionMeta {
        let found = self.on_disk.meta().cloned();
        found.unwrap_or_else(|| SessionMeta::empty(""))
    }

    /// Returns the sidecar as the journal makes it.
    pub(super) fn our_meta(&self) -> Option<SessionMeta> {
        let exists = self.plan.exists();
        exists.then(|| self.plan.meta(|| self.found_meta()))
    }

    /// Returns the sidecar if another program wrote it.
    pub(super) fn their_meta(&self) -> Option<&SessionMeta> {
        let changed = self.sidecar == sidecar::SidecarFate::Changed;
        self.on_disk.meta().filter(|_| changed)
    }

    fn merged(&self) -> MergedFields {
        match (self.their_meta(), self.our_meta()) {
            (Some(theirs), Some(ours)) if !self.displaced => {
                fields::merge(self.plan, theirs, &ours, self.is_cleared())
            }
            (None, Some(ours)) => MergedFields::of(ours),
            _ => MergedFields::of(self.found_meta()),
        }
    }

    fn joined(self, what: &str, from: Option<u64>) -> io::Result<ForeignVerdict> {
        let mut fields = self.merged();
        let conflict = self.conflict(&fields.contested, |_| Ok(false))?;
        let (lines, skip) = self.join(from)?;
        fields.meta.count = lines_of(&lines)?;
        fields.meta.skip = skip.clamp(0, fields.meta.count);
        Ok(self.changed(what, Some(lines), Some(fields), conflict))
    }

    /// Takes theirs as the history.
    fn rewritten(mut self, what: &str) -> io::Result<ForeignVerdict> {
        if !self.displaced {
            self.found = FoundFile::Rewritten;
        }
        let mut fields = self.merged();
        let mut shown = None;
        if let Some(log) = &self.log {
            fields.meta.count = lines_of(log)?;
            fields.meta.skip = self.hidden(log)?.clamp(0, fields.meta.count);
            // Hidden lines of ours are as gone as missing ones.
            shown = Some((log, fields.meta.skip)).filter(|_| !self.displaced);
        }
        let conflict = self.conflict(&fields.contested, |skip| self.is_missing(shown, skip))?;
        let says_something = self.on_disk.meta().is_some() || self.our_meta().is_some();
        Ok(self.changed(what, None, says_something.then_some(fields), conflict))
    }

    /// Returns the number of hidden lines of the file that was found: as many as they hid. If the
    /// sidecar is as we left it, or a crash tore it, all lines that we had truncated are hidden, so
    /// that as many are shown as we showed.
    fn hidden(&self, log: &Bytes) -> io::Result<i64> {
        let seen = self.found_meta().skip;
        let left_alone = self.sidecar == sidecar::SidecarFate::AsLeft;
        let Some(ours) = self.our_meta().filter(|_| left_alone) else {
            return Ok(seen);
        };
        let shown = ours.count.saturating_sub(ours.skip).max(0);
        // The lines that the journal holds may not have come to the file.
        let journalled = self.plan.journalled().unwrap_or_default().1;
        let truncated = count_lines(&journalled).saturating_sub(shown);
        let journalled = Bytes::of(journalled.into_owned());
        let missing = missing(Some((log, 0)), &journalled, truncated)?;
        let others = lines_of(log)?.saturating_sub((shown - missing.unedited).max(0));
        Ok(seen.max(ours.skip.min(others)))
    }

    /// Judges a removed session: both files count as removed, if the one with the lines is.
    fn gone(self) -> io::Result<ForeignVerdict> {
        let conflict = self.conflict(&[], |skip| self.is_missing(None, skip))?;
        Ok(self.changed("was removed", None, None, conflict))
    }

    /// Judges a session when the thing in the file's place cannot be read and the journal does not
    /// hold all that was there: it stays, and the journal's lines become a backup. The sidecar
    /// keeps the number of hidden lines, so that a file that is put back shows no truncated line.
    pub(super) fn barred(self, (kind, why): (io::ErrorKind, String)) -> io::Result<ForeignVerdict> {
        let key = self.our_meta().map(|meta| meta.key).unwrap_or_default();
        let path = &self.path;
        let mut fields = self.merged();
        fields.meta.count = self.found_meta().count;
        Ok(ForeignVerdict::Barred(Box::new(BarredSession {
            finding: format!("session {key:?}: {path} cannot be opened: {why}; it stays there"),
            conflict: self.conflict(&fields.contested, |skip| self.is_missing(None, skip))?,
            meta: self.our_meta().map(|_| fields.meta),
            kind,
            why,
        })))
    }

    /// Judges a session of which a backup or prepared file of ours is gone: it is what it was
    /// before, followed by the lines acknowledged since.
    fn incomplete(self) -> io::Result<ForeignVerdict> {
        let what = "was to be made of a file that was removed";
        let lines = self.ours.clone();
        let mut fields = self.merged();
        show_the_last(&mut fields.meta, &lines)?;
        let conflict = self.conflict(&fields.contested, |_| Ok(false))?;
        let mut judged = self.changed(what, Some(lines), Some(fields), conflict);
        if let ForeignVerdict::Changed(changed) = &mut judged {
            changed.lost = true;
        }
        Ok(judged)
    }

    fn changed(
        self,
        what: &str,
        lines: Option<Bytes>,
        fields: Option<MergedFields>,
        conflict: Option<Conflict>,
    ) -> ForeignVerdict {
        let sidecar = match self.sidecar {
            sidecar::SidecarFate::Changed if self.found != FoundFile::AsLeft => {
                ", and so was its sidecar"
            }
            sidecar::SidecarFate::Removed => ", and its sidecar is missing",
            _ => "",
        };
        let then = match self.found {
            _ if self.displaced => "the session is deleted",
            FoundFile::Gone => "the session is deleted",
            FoundFile::Rewritten => "what is there is its history",
            _ => "its history has the lines of both",
        };
        let key = self.our_meta().unwrap_or_else(|| self.found_meta()).key;
        let path = &self.path;
        let contested = match fields.as_ref().map(|fields| fields.contested.join(" and ")) {
            Some(names) if !names.is_empty() => format!("; both changed its {names}: theirs holds"),
            _ => String::new(),
        };
        ForeignVerdict::Changed(Box::new(ChangedSession {
            finding: format!(
                "session {key:?}: {path} {what} by another program{sidecar}; {then}{contested}"
            ),
            lines,
            gone: self.found == FoundFile::Gone,
            found: self.log,
            meta: fields.map(|fields| fields.meta),
            conflict,
            lost: false,
        }))
    }

    /// True if lines of ours, without the first `skip`, are not among those that a file shows.
    fn is_missing(&self, shown: Option<(&Bytes, i64)>, skip: i64) -> io::Result<bool> {
        Ok(missing(shown, &self.ours, skip)?.all > 0)
    }

    /// Returns the acknowledged state, if not all of it holds: fields that both changed, or lines
    /// that are missing, given the number of hidden lines of ours.
    fn conflict(
        &self,
        contested: &[&str],
        is_missing: impl FnOnce(i64) -> io::Result<bool>,
    ) -> io::Result<Option<Conflict>> {
        let Some(mut meta) = self.our_meta() else {
            return Ok(None);
        };
        if !self.is_whole {
            show_the_last(&mut meta, &self.ours)?;
        }
        if contested.is_empty() && !is_missing(meta.skip)? {
            return Ok(None);
        }
        meta.count = lines_of(&self.ours)?;
        Ok(Some(Conflict {
            lines: self.ours.clone(),
            meta,
            displaced: self.displaced,
        }))
    }
}

/// Shows the last of these lines: as many as the sidecar shows of the lines it was written for.
fn show_the_last(meta: &mut SessionMeta, lines: &Bytes) -> io::Result<()> {
    let shown = meta.count.saturating_sub(meta.skip).max(0);
    meta.count = lines_of(lines)?;
    meta.skip = meta.count.saturating_sub(shown).max(0);
    Ok(())
}
