//! Brings a session's two files up to date, for a flush or for other programs that read the
//! sidecars.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use sessionlog_core::error::{Error, Result};
use sessionlog_core::session_file;
use sessionlog_wal::storage::{FileKind, OpenMode, Storage, StorageFile};

use super::errand::NewSidecar;
use super::flushed::FlushedSession;
use super::session::{LastCopy, Session};
use super::shared::SharedState;
use super::turn::Turn;
use super::{Resident, Shard};
use crate::disk::copies::{Copy, SidecarCopy};
use crate::disk::files::sidecar::Sidecar;
use crate::disk::files::{self, is_taken, kind_of};

impl Shard {
    /// Takes the list of sessions to flush; a new list starts. Each session is marked as unlisted,
    /// so that one that the flush does not reach can be listed again.
    pub(super) fn take_dirty(&mut self) -> Vec<usize> {
        let dirty = std::mem::take(&mut self.dirty);
        for &id in &dirty {
            self.session(id).listed_dirty = false;
        }
        dirty
    }

    /// Returns the sessions with an outdated sidecar.
    pub(super) fn stale_sidecars(&self) -> Vec<usize> {
        let stale = |&&id: &&usize| match &self.sessions[id] {
            Resident::Ready(session) => session.sidecar_dirty,
            Resident::Loading(_) | Resident::Failed(_) => false,
        };
        self.dirty.iter().filter(stale).copied().collect()
    }

    /// Returns the syncs that a session with written files owes, for a flush. The copy may be newer
    /// than the files: the journal holds the newer changes.
    pub(super) fn flushed(
        &mut self,
        id: usize,
        turn: &mut Turn<'_>,
    ) -> (FlushedSession, Option<Copy>) {
        let copy = self.copy_sidecar(id, turn);
        (self.owed(id), copy)
    }

    /// Takes the syncs that a session owes to the disk. Later writes belong to the next flush; a
    /// flush that still lists the session may sync some of them twice.
    fn owed(&mut self, id: usize) -> FlushedSession {
        let session = self.session(id);
        let (sidecar, unheld) = session.owed.take();
        session.owed.dirty = session.listed_dirty;
        FlushedSession {
            stem: session.entry.stem.clone(),
            log: session.file.clone(),
            sidecar,
            unheld,
        }
    }

    /// Returns a copy of the sidecar, if it differs from the last copy. Appends do not change the
    /// copied fields and cost nothing.
    fn copy_sidecar(&mut self, id: usize, turn: &mut Turn<'_>) -> Option<Copy> {
        let shared = turn.shared;
        let order = || shared.copied.fetch_add(1, Ordering::Relaxed);
        let session = self.session(id);
        let stem = session.entry.stem.clone();
        if !session.exists {
            // It was deleted. If the name belongs to another session by now, that session's copy
            // stands.
            let gone = !shared.catalog.is_others(&stem, &session.entry.key);
            return gone.then(|| Copy::gone(stem, order()));
        }
        if session.is_copied() {
            return None;
        }
        let (len, meta) = (session.written, session.synced_meta.clone());
        let log = match (meta.skip > 0).then(|| self.file(id, turn)).transpose() {
            Ok(log) => log.flatten(),
            Err(error) => return self.copy_later(id, &error),
        };
        match SidecarCopy::beside(log.as_deref(), len, meta.to_sidecar()) {
            Ok(said) => {
                let session = self.session(id);
                session.copied = Some(LastCopy {
                    text: meta.text,
                    skip: meta.skip,
                    generation: session.generation,
                });
                Some(Copy::new(stem, order(), &said))
            }
            Err(error) => self.copy_later(id, &error),
        }
    }

    fn copy_later(&mut self, id: usize, error: &dyn std::fmt::Display) -> Option<Copy> {
        tracing::warn!(%error, "the copy of a sidecar waits for the next flush");
        self.mark_dirty(id);
        None
    }

    /// Writes a session's sidecar, if it is behind.
    ///
    /// The sidecar stays behind. The file on disk is the old one, or can be mended from the
    /// journal.
    /// right from the journal.
    pub(super) fn write_sidecar(&mut self, id: usize, turn: &mut Turn<'_>) -> Result<()> {
        let Some(sidecar) = self.begin_sidecar(id, turn) else {
            return Ok(());
        };
        let written = sidecar.write(turn.shared);
        self.finish_sidecar(id, &sidecar, written, turn)
    }

    /// Returns the sidecar to write, or `None` if it is up to date. Later changes make it stale
    /// again and are recorded as coming after it. A record that claimed that there was no sidecar
    /// before would make this one another program's after a crash.
    pub(super) fn begin_sidecar(&mut self, id: usize, turn: &Turn<'_>) -> Option<NewSidecar> {
        let session = self.session(id);
        if !session.sidecar_dirty || !session.exists {
            return None;
        }
        let stem = session.entry.stem.clone();
        let sidecar = NewSidecar {
            path: turn.shared.dir.join(session_file::sidecar_name(&stem)),
            bytes: session_file::encode_sidecar(&session.synced_meta.to_sidecar()),
            was: session.sidecar,
            in_journal: session.image_in_journal(turn.images_from),
        };
        session.sidecar_dirty = false;
        session.sidecar = Sidecar::Present;
        session.hides = session.synced_meta.skip;
        Some(sidecar)
    }

    /// Notes the result of writing a sidecar.
    ///
    /// # Errors
    /// As [`write_sidecar`](Self::write_sidecar).
    pub(super) fn finish_sidecar(
        &mut self,
        id: usize,
        sidecar: &NewSidecar,
        written: io::Result<Arc<dyn StorageFile>>,
        turn: &mut Turn<'_>,
    ) -> Result<()> {
        let wrap = |e| Error::io("write", &sidecar.path, e);
        let mut written = Some(written.map_err(wrap));
        let file = self.with_descriptor(&turn.shared.keeper, || {
            let again = || sidecar.write(turn.shared).map_err(wrap);
            written.take().unwrap_or_else(again)
        });
        let file = file.inspect_err(|_| self.leave_sidecar(id, sidecar))?;
        self.session(id).owed.sidecar(file, &turn.shared.keeper);
        Ok(())
    }

    /// Notes that a sidecar that was begun is not written.
    pub(super) fn leave_sidecar(&mut self, id: usize, sidecar: &NewSidecar) {
        let session = self.session(id);
        session.sidecar_dirty = true;
        session.sidecar = sidecar.was;
        session.hides = i64::MAX;
    }
}

impl Session {
    fn is_copied(&self) -> bool {
        let meta = &self.synced_meta;
        self.copied.as_ref().is_some_and(|copied| {
            Arc::ptr_eq(&copied.text, &meta.text)
                && copied.skip == meta.skip
                && copied.generation == self.generation
        })
    }
}

impl NewSidecar {
    /// Writes it over the file of that name.
    ///
    /// # Errors
    /// As the operating system reports them.
    pub(super) fn write(&self, shared: &SharedState) -> io::Result<Arc<dyn StorageFile>> {
        let Self { path, bytes, .. } = self;
        let storage = &*shared.storage;
        let put = match self.was {
            Sidecar::Present if self.in_journal => overwrite(path, bytes, shared),
            Sidecar::Present | Sidecar::Unlike => replace(path, bytes, shared),
            Sidecar::Missing => create(storage, path, bytes),
            Sidecar::Corrupt => create_in_place_of(path, bytes, shared),
        };
        let put = match put {
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => replace(path, bytes, shared),
            other => other,
        };
        match put {
            // Another program put it there since. Were that an error, no flush would succeed while
            // it is there, and the journal would grow without bound.
            Err(e) if is_taken(&e) => create_in_place_of(path, bytes, shared),
            other => other,
        }
    }
}

/// Sets aside the file that has the sidecar's name, and writes the sidecar.
fn create_in_place_of(
    path: &Path,
    bytes: &[u8],
    shared: &SharedState,
) -> io::Result<Arc<dyn StorageFile>> {
    set_aside(path, shared)?;
    create(&*shared.storage, path, bytes)
}

/// Moves a file that has a name of ours to the quarantine.
pub(super) fn set_aside(path: &Path, shared: &SharedState) -> io::Result<()> {
    match files::set_aside(&*shared.storage, path, &shared.quarantine) {
        // An earlier attempt set it aside and then found no space.
        Err(e) if e.kind() == io::ErrorKind::NotFound => {}
        renamed => {
            let aside = renamed?;
            let (path, aside) = (path.display(), aside.display());
            tracing::warn!(%path, %aside, "what has the name of a file of the store is set aside");
            shared.names_changed();
        }
    }
    Ok(())
}

fn create(storage: &dyn Storage, path: &Path, bytes: &[u8]) -> io::Result<Arc<dyn StorageFile>> {
    let file = storage.open(path, OpenMode::CreateNew)?;
    file.write_all_at(bytes, 0).inspect_err(|_| {
        // Half a sidecar would look like damage.
        let _ = storage.remove_file(path);
    })?;
    Ok(file)
}

/// Writes over a sidecar in place, if nothing but its last times and counts changes:
/// replacing it costs an inode and thirty times as long.
fn overwrite(path: &Path, bytes: &[u8], shared: &SharedState) -> io::Result<Arc<dyn StorageFile>> {
    let storage = &*shared.storage;
    let file = match storage.open(path, OpenMode::ReadWrite) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => {
            return create(storage, path, bytes);
        }
        other => other?,
    };
    let mut old = vec![0; bytes.len()];
    if file.info()?.len == old.len() as u64 {
        file.read_exact_at(&mut old, 0)?;
    }
    let Some(on_the_way) = session_file::on_the_way(&old, bytes) else {
        // The journal mends whatever a power loss leaves of it.
        return exchange(path, bytes, false, shared);
    };
    for longer in on_the_way {
        file.write_all_at(&longer, 0)?;
    }
    file.write_all_at(bytes, 0)?;
    Ok(file)
}

fn replace(path: &Path, bytes: &[u8], shared: &SharedState) -> io::Result<Arc<dyn StorageFile>> {
    let storage = &*shared.storage;
    if matches!(
        kind_of(storage, path),
        Some(FileKind::Symlink | FileKind::Other)
    ) {
        // Another program's link or pipe is set aside, not replaced.
        return Err(io::ErrorKind::InvalidInput.into());
    }
    exchange(path, bytes, true, shared)
}

/// Puts a new file in a sidecar's place.
fn exchange(
    path: &Path,
    bytes: &[u8],
    synced: bool,
    shared: &SharedState,
) -> io::Result<Arc<dyn StorageFile>> {
    let storage = &*shared.storage;
    let temp = shared.dir.join(shared.next_temp());
    let written = storage.open(&temp, OpenMode::CreateNew).and_then(|file| {
        file.write_all_at(bytes, 0)?;
        if synced {
            file.sync_data()?;
        }
        storage.rename(&temp, path)?;
        Ok(file)
    });
    written.inspect_err(|_| {
        let _ = storage.remove_file(&temp);
    })
}
