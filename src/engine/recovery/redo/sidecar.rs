//! Bringing a session's sidecar up to the journal.

use crate::disk::files;
use std::io;
use std::path::{Path, PathBuf};

use super::Redo;
use crate::disk::copies::lost::Copies;
use crate::disk::session_file::{self, SessionMeta};
use crate::engine::recovery::plan::Plan;
use crate::error::{Error, Result};

impl Redo<'_> {
    pub(super) fn sidecar(
        &mut self,
        stem: &str,
        plan: &Plan,
        copies: &mut Copies<'_>,
    ) -> Result<()> {
        if plan.image.is_none() && plan.patch.is_none() {
            return Ok(());
        }
        let path = self.sidecar_path(stem);
        let mut damaged = false;
        let on_disk = match files::read_whole(self.storage, &path) {
            Ok(bytes) if session_file::holds_session(&bytes) => {
                self.set_aside(stem, &path);
                None
            }
            Ok(bytes) => {
                let decoded = session_file::decode_sidecar(&bytes).ok();
                damaged = decoded.is_none();
                decoded
            }
            Err(e) if e.kind() == io::ErrorKind::NotFound => None,
            Err(e) => return Err(Error::io("read", &path, e)),
        };
        let meta = if on_disk.is_none() && plan.image.is_none() {
            let Some(restored) = copies.restore(stem)? else {
                self.report.findings.push(format!(
                    "{} is missing or damaged, and the journal holds only part of it",
                    path.display()
                ));
                return Ok(());
            };
            if damaged {
                self.set_aside(stem, &path);
            }
            self.report.findings.push(restored.finding.clone());
            plan.meta_restored(&restored)
        } else {
            plan.meta(|| on_disk.unwrap_or_else(|| SessionMeta::empty("")))
        };
        let (temp, file) = self.scratch()?;
        file.write_all_at(&session_file::encode_sidecar(&meta), 0)
            .map_err(|e| Error::io("recover", &temp, e))?;
        self.renames.push((temp, path));
        Ok(())
    }

    fn set_aside(&mut self, stem: &str, path: &Path) {
        let name = session_file::sidecar_name(stem);
        let aside = files::free_path(self.storage, self.quarantine, &name);
        self.renames.push((path.to_owned(), aside));
    }

    pub(super) fn sidecar_path(&self, stem: &str) -> PathBuf {
        self.dir.join(session_file::sidecar_name(stem))
    }
}
