//! Brings a session's sidecar up to the journal.

use std::path::PathBuf;

use sessionlog_core::error::{Error, Result};
use sessionlog_core::session_file::{self, SessionMeta};

use super::Redo;
use crate::disk::copies::lost::{Copies, RestoredSidecar};
use crate::disk::files::is_taken;
use crate::engine::recovery::foreign::sidecar::{OnDisk, is_torn};
use crate::engine::recovery::plan::Plan;

impl Redo<'_> {
    pub(super) fn sidecar(
        &mut self,
        stem: &str,
        plan: &Plan,
        before: usize,
        copies: &mut Copies<'_>,
    ) -> Result<()> {
        if plan.image.is_none() && plan.patch.is_none() {
            return Ok(());
        }
        let path = self.sidecar_path(stem);
        let on_disk = OnDisk::read(self.storage, self.dir, stem)?;
        let hidden = on_disk.meta().map(|meta| meta.skip);
        let restored = if on_disk.meta().is_none() && plan.image.is_none() {
            let Some(restored) = restored(stem, copies)? else {
                self.report.findings.push(format!(
                    "{} is missing or damaged, and the journal holds only part of it",
                    path.display()
                ));
                return Ok(());
            };
            self.report.findings.push(restored.finding.clone());
            Some(restored)
        } else {
            None
        };
        match &on_disk {
            OnDisk::Other(why) => self.set_aside(&path, why)?,
            OnDisk::Damaged(bytes) if restored.is_some() || !is_torn(plan, bytes) => {
                self.set_aside(&path, "it does not decode")?;
            }
            _ => {}
        }
        let meta = match &restored {
            Some(restored) => plan.meta_restored(restored),
            None => plan.meta(|| match on_disk.meta() {
                Some(meta) => meta.clone(),
                None => SessionMeta::empty(""),
            }),
        };
        let (temp, file) = self.scratch()?;
        file.write_all_at(&session_file::encode_sidecar(&meta), 0)
            .map_err(|e| Error::io("recover", &temp, e))?;
        // Of the two names of a session, the first to change is the one that hides no line that is
        // not truncated: other programs may read in between, and a crash may leave that state.
        let at = if hidden.is_some_and(|hidden| meta.skip < hidden) {
            before
        } else {
            self.renames.len()
        };
        self.renames.insert(at, (temp, path));
        Ok(())
    }

    pub(super) fn sidecar_path(&self, stem: &str) -> PathBuf {
        self.dir.join(session_file::sidecar_name(stem))
    }
}

/// Returns the copy of a lost sidecar, if it can be found out.
fn restored(stem: &str, copies: &mut Copies<'_>) -> Result<Option<RestoredSidecar>> {
    match copies.restore(stem) {
        // The session file is no file, and is set aside.
        Err(Error::Io { source, .. }) if is_taken(&source) => Ok(None),
        other => other,
    }
}
