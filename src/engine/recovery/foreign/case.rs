//! What becomes of one session.

use std::io;

use super::super::bytes::Bytes;
use super::super::plan::{Plan, count_lines};
use super::fields::{self, Fields};
use super::lineage::Found;
use super::merge::{self, Both, lines_of, misses};
use super::sidecar::{self, OnDisk};
use super::traces::shares;
use super::{Barred, Changed, Conflict, Judged};
use crate::disk::session_file::{self, SessionMeta};
use crate::ground::clock::ZERO_TIME;

/// Everything that is known of a session.
pub(super) struct Case<'a> {
    pub(super) stem: &'a str,
    pub(super) plan: &'a Plan,
    pub(super) path: String,
    /// The file that is there, and what it is.
    pub(super) log: Option<Bytes>,
    pub(super) found: Found,
    /// Whether it is the present one, not one that was replaced.
    pub(super) present: bool,
    pub(super) on_disk: OnDisk,
    pub(super) sidecar: sidecar::Found,
    /// What the journal makes of the session, if that can be put together.
    pub(super) ours: Option<Bytes>,
    /// If not: what it was before its file was replaced, and the lines since.
    pub(super) pieces: Bytes,
}

impl Case<'_> {
    pub(super) fn judge(mut self) -> io::Result<Judged> {
        if self.is_anothers() {
            return self.rewritten("is another session's now", true);
        }
        if self.is_cleared() {
            self.found = Found::Rewritten;
            return self.rewritten("was cleared", false);
        }
        if self.is_cut_by_them()? || self.is_of_theirs_alone()? {
            self.found = Found::Rewritten;
        }
        let from = match self.found {
            Found::Gone => return self.gone(),
            Found::Rewritten => return self.rewritten("was rewritten", false),
            Found::Added { from, .. } => Some(from),
            Found::AsLeft | Found::Edited | Found::Doubtful => None,
        };
        let Some(ours) = self.ours.clone() else {
            return self.incomplete();
        };
        if let (Some(from), Some(log)) = (from, &self.log)
            && shares(log, from, &ours)?
        {
            self.found = Found::Rewritten;
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

    /// The file is there and empty, and they wrote a sidecar that counts no line. A crash
    /// may leave the one or the other, but not both.
    fn is_cleared(&self) -> bool {
        let counts_none = |theirs: &SessionMeta| theirs.skip == 0 && theirs.count == 0;
        self.their_meta().is_some_and(counts_none)
            && self.log.as_ref().is_some_and(|log| log.size() == 0)
    }

    /// The file may be what a crash left of ours, but they wrote a sidecar beside it that
    /// shows just these lines, which none of ours did: they cut it.
    fn is_cut_by_them(&self) -> io::Result<bool> {
        let (Some(theirs), Some(log), Some(ours)) = (self.their_meta(), &self.log, &self.ours)
        else {
            return Ok(false);
        };
        let is_present = self.found == Found::AsLeft && self.present;
        if !is_present || theirs.skip != 0 || self.said(|said| said.count == theirs.count) {
            return Ok(false);
        }
        let lines = lines_of(log)?;
        Ok(theirs.count == lines && lines < lines_of(ours)?)
    }

    /// Nothing of ours is in the file of a session that began in the journal, and the
    /// sidecar that they wrote beside it was one of ours that counts lines. Those came to the
    /// file before that sidecar: they replaced them.
    fn is_of_theirs_alone(&self) -> io::Result<bool> {
        let (Some(meta), Some(log), Found::Added { from: 0, .. }) =
            (self.their_meta(), &self.log, self.found)
        else {
            return Ok(false);
        };
        let is_dated = |said: &SessionMeta| said.created_at == meta.created_at;
        let was_ours = meta.created_at != ZERO_TIME && self.said(is_dated);
        if !was_ours || self.said(|said| is_dated(said) && said.count == 0) {
            return Ok(false);
        }
        Ok(meta.skip == 0 && meta.count == lines_of(log)?)
    }

    /// Whether one of our sidecars is what is looked for.
    fn said(&self, is_it: impl Fn(&SessionMeta) -> bool) -> bool {
        let is_it = |said: Option<&SessionMeta>| said.is_some_and(&is_it);
        self.plan.past.any_sidecar(self.their_meta(), is_it)
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

    fn merged(&self) -> Fields {
        match (self.their_meta(), self.our_meta()) {
            (Some(theirs), Some(ours)) => fields::merge(self.plan, theirs, &ours),
            (Some(theirs), None) => Fields::of(theirs.clone()),
            (None, Some(ours)) => Fields::of(ours),
            (None, None) => Fields::of(match self.on_disk.meta() {
                Some(meta) => meta.clone(),
                None => SessionMeta::empty(""),
            }),
        }
    }

    fn joined(self, what: &str, ours: Bytes, from: Option<u64>) -> io::Result<Judged> {
        let mut fields = self.merged();
        let conflict = match fields.contested[..] {
            [] => None,
            _ => self.conflict(None, true)?,
        };
        let both = Both {
            plan: self.plan,
            ours,
            skip: self.our_meta().map_or(0, |meta| meta.skip),
            found: self.log.as_ref(),
            from,
            present: self.present,
            theirs: self.their_meta(),
        };
        let (lines, skip) = both.join()?;
        fields.meta.count = lines_of(&lines)?;
        fields.meta.skip = skip.clamp(0, fields.meta.count);
        Ok(self.changed(what, Some(lines), Some(fields), conflict))
    }

    /// Theirs is the history.
    fn rewritten(self, what: &str, displaced: bool) -> io::Result<Judged> {
        let mut fields = match self.on_disk.meta() {
            Some(meta) if displaced => Fields::of(meta.clone()),
            _ => self.merged(),
        };
        if let Some(theirs) = self.their_meta().filter(|_| self.is_cleared())
            && fields.meta.summary != theirs.summary
        {
            // The summary of what is gone goes with it.
            fields.meta.summary.clone_from(&theirs.summary);
            fields.contested.push("summary");
        }
        let contested = !fields.contested.is_empty();
        let conflict = match &self.log {
            Some(log) => {
                fields.meta.count = lines_of(log)?;
                fields.meta.skip = self.hidden(log, displaced)?.clamp(0, fields.meta.count);
                // What is hidden of ours is as gone as what is not there.
                let shown = (log, fields.meta.skip);
                self.conflict(Some(shown).filter(|_| !displaced), contested)?
            }
            None => self.conflict(None, contested)?,
        };
        let conflict = conflict.map(|conflict| Conflict {
            displaced,
            ..conflict
        });
        let says_something = self.on_disk.meta().is_some() || self.our_meta().is_some();
        Ok(self.changed(what, None, says_something.then_some(fields), conflict))
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
        let shown = ours.count.saturating_sub(ours.skip).max(0);
        // The lines that the journal holds may not have come to the file.
        let journalled = self.plan.journalled().unwrap_or_default().1;
        let truncated = count_lines(&journalled).saturating_sub(shown);
        let shown = shown.saturating_sub(merge::missing(log, &journalled, truncated)?);
        let others = lines_of(log)?.saturating_sub(shown.max(0));
        Ok(seen.max(ours.skip.min(others)))
    }

    /// Both files count as removed, if the one with the lines is.
    fn gone(self) -> io::Result<Judged> {
        let conflict = self.conflict(None, false)?;
        Ok(self.changed("was removed", None, None, conflict))
    }

    /// What is in the file's place cannot be read, and the journal does not hold all that
    /// was there: it stays, and what the journal holds becomes a backup. The sidecar says how
    /// much is hidden: of a file that is put back nothing shows that was truncated.
    pub(super) fn barred(self, (kind, why): (io::ErrorKind, String)) -> io::Result<Judged> {
        let key = self.our_meta().map(|meta| meta.key).unwrap_or_default();
        let path = &self.path;
        let mut fields = self.merged();
        let contested = !fields.contested.is_empty();
        fields.meta.count = self.on_disk.meta().map_or(0, |meta| meta.count);
        Ok(Judged::Barred(Box::new(Barred {
            finding: format!("session {key:?}: {path} cannot be opened: {why}; it stays there"),
            conflict: self.conflict(None, contested)?,
            meta: self.our_meta().map(|_| fields.meta),
            kind,
            why,
        })))
    }

    /// A backup or prepared file of ours is gone, that the session was made of: it is what
    /// it was before, and what was acknowledged since comes after it.
    fn incomplete(self) -> io::Result<Judged> {
        let what = "was to be made of a file that was removed";
        let lines = self.pieces.clone();
        let mut fields = self.merged();
        show_the_last(&mut fields.meta, &lines)?;
        let conflict = match fields.contested[..] {
            [] => None,
            _ => self.conflict(None, true)?,
        };
        let mut judged = self.changed(what, Some(lines), Some(fields), conflict);
        if let Judged::Changed(changed) = &mut judged {
            changed.lost = true;
        }
        Ok(judged)
    }

    fn changed(
        self,
        what: &str,
        lines: Option<Bytes>,
        fields: Option<Fields>,
        conflict: Option<Conflict>,
    ) -> Judged {
        let sidecar = match self.sidecar {
            sidecar::Found::Changed if self.found != Found::AsLeft => ", and so was its sidecar",
            sidecar::Found::Removed => ", and its sidecar is missing",
            _ => "",
        };
        let displaced = conflict.as_ref().is_some_and(|conflict| conflict.displaced);
        let then = match self.found {
            _ if displaced => "the session is deleted",
            Found::Gone => "the session is deleted",
            Found::Rewritten => "what is there is its history",
            _ => "its history has the lines of both",
        };
        let key = self.our_meta().or_else(|| self.on_disk.meta().cloned());
        let key = key.map(|meta| meta.key).unwrap_or_default();
        let path = &self.path;
        let (meta, contested) = match fields {
            Some(Fields { meta, contested }) => (Some(meta), contested),
            None => (None, Vec::new()),
        };
        let contested = match contested[..] {
            [] => String::new(),
            _ => format!(
                "; both changed its {}: theirs holds",
                contested.join(" and ")
            ),
        };
        Judged::Changed(Box::new(Changed {
            finding: format!(
                "session {key:?}: {path} {what} by another program{sidecar}; {then}{contested}"
            ),
            lines,
            gone: self.found == Found::Gone,
            found: self.log,
            meta,
            conflict,
            lost: false,
        }))
    }

    /// What we acknowledged, if not all of it holds: lines that are not in the file that is
    /// there, or hidden in it, or fields that both changed.
    fn conflict(
        &self,
        there: Option<(&Bytes, i64)>,
        contested: bool,
    ) -> io::Result<Option<Conflict>> {
        let Some(mut meta) = self.our_meta() else {
            return Ok(None);
        };
        let lines = if let Some(ours) = &self.ours {
            ours.clone()
        } else {
            show_the_last(&mut meta, &self.pieces)?;
            self.pieces.clone()
        };
        if !contested && !misses(there, &lines, meta.skip)? {
            return Ok(None);
        }
        meta.count = lines_of(&lines)?;
        Ok(Some(Conflict {
            lines,
            meta,
            displaced: false,
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
