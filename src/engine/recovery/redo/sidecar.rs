//! Bringing a session's sidecar up to the journal.

use crate::disk::files::sidecar;
use std::io;
use std::path::PathBuf;

use super::Redo;
use super::log::Left;
use crate::disk::copies::lost::{Copies, Restored};
use crate::disk::files::is_taken;
use crate::disk::session_file::{self, SessionMeta};
use crate::engine::recovery::plan::{Plan, count_left};
use crate::error::{Error, Result};

impl Redo<'_> {
    pub(super) fn sidecar(
        &mut self,
        stem: &str,
        plan: &Plan,
        (left, before): (Left, usize),
        copies: &mut Copies<'_>,
    ) -> Result<()> {
        if plan.image.is_none() && plan.patch.is_none() {
            return Ok(());
        }
        let path = self.sidecar_path(stem);
        let mut damaged = false;
        let mut hidden = None;
        let on_disk = match sidecar::read_bytes(self.storage, &path) {
            Ok(bytes) if session_file::holds_session(&bytes) => {
                self.set_aside(&path, "it is no sidecar")?;
                None
            }
            Ok(bytes) => {
                let decoded = session_file::decode_sidecar(&bytes).ok();
                damaged = decoded.is_none();
                hidden = decoded.as_ref().map(|meta| meta.skip);
                decoded
            }
            Err(e) if e.kind() == io::ErrorKind::NotFound => None,
            // No store writes one that is too large to be read.
            Err(e) if is_taken(&e) || e.kind() == io::ErrorKind::InvalidData => {
                self.set_aside(&path, &e.to_string())?;
                None
            }
            Err(e) => return Err(Error::io("read", &path, e)),
        };
        let mut meta = if on_disk.is_none() && plan.image.is_none() {
            let Some(restored) = restored(stem, copies)? else {
                self.report.findings.push(format!(
                    "{} is missing or damaged, and the journal holds only part of it",
                    path.display()
                ));
                return Ok(());
            };
            if damaged {
                self.set_aside(&path, "it does not decode")?;
            }
            self.report.findings.push(restored.finding.clone());
            plan.meta_restored(&restored)
        } else {
            plan.meta(|| on_disk.unwrap_or_else(|| SessionMeta::empty("")))
        };
        if let (Left::Journalled, Some((_, lines))) = (left, plan.journalled())
            && !lines.is_empty()
        {
            count_left(&mut meta, &lines);
        }
        if left == Left::Changed {
            meta.skip = hidden.unwrap_or(0);
        }
        let (temp, file) = self.scratch()?;
        file.write_all_at(&session_file::encode_sidecar(&meta), 0)
            .map_err(|e| Error::io("recover", &temp, e))?;
        // Of the names of one session, the one first that hides no line which is not
        // truncated: other programs may read in between, and a crash leave it at that.
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

/// What the copy of a lost sidecar says, if it can be told.
fn restored(stem: &str, copies: &mut Copies<'_>) -> Result<Option<Restored>> {
    match copies.restore(stem) {
        // The session file is none, and is set aside.
        Err(Error::Io { source, .. }) if is_taken(&source) => Ok(None),
        other => other,
    }
}
