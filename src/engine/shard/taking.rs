//! Taking messages once: what a session's file says of them is read when it is first asked
//! for, and brought up to date by flushes.

use std::path::Path;

use super::Shard;
use super::session::Session;
use super::shared::Shared;
use super::turn::Turn;
use crate::disk::files::once;
use crate::engine::home;
use crate::error::{Error, Result};
use crate::ground::storage::OpenMode;

impl Session {
    /// Whether the message of that line is in flight.
    pub(super) fn is_taking(&self, line: &str) -> bool {
        self.once.as_ref().is_some_and(|once| once.is_staged(line))
    }

    /// The message of that line is in flight now.
    pub(super) fn takes(&mut self, line: &str) {
        self.once.get_or_insert_default().stage(line);
    }

    /// What was in flight holds, or does not.
    pub(super) fn took(&mut self, line: &str, holds: bool) {
        self.once.get_or_insert_default().settle(line, holds);
    }

    /// Forgets what can be read again.
    pub(super) fn forget_once(&mut self) {
        if let Some(once) = &mut self.once {
            once.known = None;
        }
        self.once.take_if(|once| once.is_written());
    }
}

impl Shard {
    /// Whether the session took the message of that line before. One in flight does not
    /// count.
    ///
    /// # Errors
    /// If the file that says so cannot be read.
    pub(super) fn has_taken(&mut self, id: usize, line: &str, turn: &Turn<'_>) -> Result<bool> {
        let session = self.session(id);
        let once = session.once.get_or_insert_default();
        if once.known.is_none() {
            let path = once::path(&turn.shared.once, &session.entry.stem);
            let mut known = self.with_descriptor(&turn.shared.keeper, || {
                let read = once::read(&*turn.shared.storage, &path);
                read.map_err(|e| Error::io("read", &path, e))
            })?;
            let once = self.session(id).once.get_or_insert_default();
            once::add_all(&mut known, &once.unwritten);
            once.known = Some(known);
        }
        let known = self
            .session(id)
            .once
            .as_ref()
            .and_then(|once| once.known.as_deref());
        Ok(known.is_some_and(|known| once::contains(known, line.as_bytes())))
    }

    /// Brings the file that says which messages a session took up to what holds.
    ///
    /// # Errors
    /// What it lacks is kept for the next flush then.
    pub(super) fn write_once(&mut self, id: usize, turn: &Turn<'_>) -> Result<()> {
        let Some(once) = self.session(id).once.as_ref() else {
            return Ok(());
        };
        if once.unwritten.is_empty() {
            return Ok(());
        }
        let lines = once.unwritten.clone();
        let shared = turn.shared;
        let path = once::path(&shared.once, &self.session(id).entry.stem);
        // The flush that asks for this syncs everything then, names included.
        shared.names_changed();
        self.with_descriptor(&shared.keeper, || put(shared, &path, &lines))?;
        shared.names_changed();
        let session = self.session(id);
        if let Some(once) = &mut session.once {
            once.unwritten.clear();
            let most = 2 * shared.once_ids;
            if once
                .known
                .as_ref()
                .is_some_and(|known| once::count(known) > most)
            {
                once.known = None;
            }
        }
        Ok(())
    }
}

/// Adds lines to a file. One that got long loses its oldest.
fn put(shared: &Shared, path: &Path, lines: &[u8]) -> Result<()> {
    let storage = &*shared.storage;
    let wrap = |e| Error::io("write", path, e);
    home::create_all(storage, &shared.once)?;
    let old = once::read(storage, path).map_err(wrap)?;
    let mut new = old.clone();
    once::add_all(&mut new, lines);
    if once::count(&new) > 2 * shared.once_ids {
        let newest = once::newest(&new, shared.once_ids);
        return once::replace(storage, path, newest).map_err(wrap);
    }
    let added = &new[old.len()..];
    let file = match storage.open(path, OpenMode::ReadWrite) {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
            storage.open(path, OpenMode::CreateNew)
        }
        other => other,
    };
    let file = file.map_err(wrap)?;
    file.write_all_at(added, old.len() as u64).map_err(wrap)
}
