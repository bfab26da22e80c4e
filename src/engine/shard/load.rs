//! Loads a session from its two files.

use std::sync::Arc;

use sessionlog_core::error::{Error, Result, Version};
use sessionlog_core::session_file::Meta;

use super::job::Job;
use super::loaded::{LoadedSession, Lost};
use super::request::Waiting;
use super::session::{Session, SessionExtent};
use super::shared::SharedState;
use super::turn::Turn;
use super::{Failed, Loading, MEASURE_INLINE, Resident, Shard};
use crate::disk::files;
use crate::disk::files::extent::{self, Extent};
use crate::disk::files::sidecar::{self, Sidecar};
use crate::engine::catalog::Entry;
use crate::engine::numbering::Numbering;
use crate::engine::snapshot::Tail;

/// Number of versions a session has before it may get another's.
const VERSIONS: u64 = 1 << 32;

impl Shard {
    pub(super) fn admit(&mut self, key: &Arc<str>, turn: &mut Turn<'_>) -> usize {
        let entry = turn.shared.catalog.claim(key);
        let id = self.sessions.len();
        turn.shared.counters.sessions_resident.rise();
        self.sessions.push(Resident::loading(&entry));
        self.places.enter(key, id);
        self.load(id, &entry, turn);
        id
    }

    /// Loads a session, here if it is small, else in the background.
    pub(super) fn load(&mut self, id: usize, entry: &Arc<Entry>, turn: &mut Turn<'_>) {
        self.sessions[id] = Resident::loading(entry);
        match self.open_files(entry, turn) {
            Ok((loaded, true)) => {
                let owner = self.owner(id);
                turn.out.start(Job::Measure { owner, loaded });
            }
            Ok((loaded, false)) => self.install(id, loaded, turn),
            Err(error) => self.load_failed(id, &error, turn),
        }
    }

    /// Opens both files; returns `true` if the log is too big to measure here.
    fn open_files(
        &mut self,
        entry: &Arc<Entry>,
        turn: &mut Turn<'_>,
    ) -> Result<(LoadedSession, bool)> {
        let shared = turn.shared;
        let (meta, sidecar) = self.read_sidecar(entry, turn)?;
        let lost = check_found(shared, entry, &meta, sidecar)?;
        let is_lost = lost.is_some();
        let file = self.open_log(&entry.stem, turn)?;
        let mut loaded = LoadedSession {
            meta,
            sidecar,
            file,
            extent: Extent::default(),
            lost,
        };
        let Some(file) = &loaded.file else {
            return Ok((loaded, false));
        };
        if is_lost {
            return Ok((loaded, true));
        }
        let path = files::log_path(&shared.dir, &entry.stem);
        let wrap = |e| Error::io("read", &path, e);
        let len = file.info().map_err(wrap)?.len;
        if len > MEASURE_INLINE {
            loaded.extent.end = len;
            return Ok((loaded, true));
        }
        loaded.extent = extent::measure(Some(&**file), len, &[], loaded.meta.skip).map_err(wrap)?;
        Ok((loaded, false))
    }

    /// Reads a sidecar.
    fn read_sidecar(&mut self, entry: &Entry, turn: &Turn<'_>) -> Result<(Meta, Sidecar)> {
        let SharedState { storage, dir, .. } = turn.shared;
        self.with_descriptor(&turn.shared.keeper, || {
            sidecar::read_sidecar(&**storage, dir, &entry.stem, &entry.key)
        })
    }

    /// Returns the first of a range of versions that no session was at.
    pub(super) fn fresh_versions(&mut self) -> u64 {
        self.versions = self.versions.wrapping_add(VERSIONS);
        self.versions
    }

    pub(super) fn install(&mut self, id: usize, loaded: LoadedSession, turn: &mut Turn<'_>) {
        let first = self.fresh_versions();
        let Resident::Loading(loading) = &mut self.sessions[id] else {
            return;
        };
        let Loading { entry, waiting } = &mut **loading;
        if let Some(found) = turn.shared.catalog.found_aliases(entry) {
            let aliases = &loaded.meta.text.aliases;
            turn.shared.catalog.set_aliases(entry, &found, aliases);
        }
        let mut session = Session::vacant(entry.clone());
        session.waiting = std::mem::take(waiting);
        session.watch = self.early.remove(&entry.key);
        session.exists = loaded.file.is_some() || loaded.sidecar != Sidecar::Missing;
        session.sidecar = loaded.sidecar;
        let mut meta = loaded.meta;
        if !loaded.sidecar.is_read() {
            // The lines it had before count, too.
            meta.count = i64::try_from(loaded.extent.lines).unwrap_or(i64::MAX);
        }
        session.start = loaded.extent.start;
        session.settled = SessionExtent {
            end: loaded.extent.end,
            crc: loaded.extent.crc,
            lines: loaded.extent.lines,
            torn: loaded.extent.torn,
            meta,
        };
        session.versions = first;
        session.numbering = Numbering::new(first);
        if session.exists {
            session.settled.meta.version = Version::new(first);
        }
        session.staged = session.settled.clone();
        session.synced_meta.clone_from(&session.settled.meta);
        session.recorded.clone_from(&session.settled.meta);
        session.written = loaded.extent.end;
        session.synced = loaded.extent.end;
        session.file = loaded.file;
        session.tail = Tail::new(session.settled.meta.clone());
        session.publish();
        let open = session.file.is_some();
        self.sessions[id] = Resident::Ready(Box::new(session));
        if open {
            self.used(id);
        }
        self.compact_if_due(id, turn);
        self.pump(id, turn);
    }

    pub(super) fn load_failed(&mut self, id: usize, error: &Error, turn: &mut Turn<'_>) {
        let Resident::Loading(loading) = &mut self.sessions[id] else {
            return;
        };
        let Loading { entry, waiting } = &mut **loading;
        let entry = entry.clone();
        for request in waiting.drain_but(|_| false) {
            request.refuse(error, turn.out);
        }
        let error = error.clone();
        self.sessions[id] = Resident::Failed(Box::new(Failed { entry, error }));
    }
}

impl Resident {
    fn loading(entry: &Arc<Entry>) -> Self {
        Self::Loading(Box::new(Loading {
            entry: entry.clone(),
            waiting: Waiting::default(),
        }))
    }
}

/// Compares a sidecar that this or an earlier open found with the file that stands there now:
/// another program may have written it since. If it is lost, returns what is known of it.
///
/// # Errors
/// If it is another session's: two keys never share files.
fn check_found(
    shared: &SharedState,
    entry: &Arc<Entry>,
    meta: &Meta,
    sidecar: Sidecar,
) -> Result<Option<Lost>> {
    let Some(aliases) = shared.catalog.found_aliases(entry) else {
        return Ok(None);
    };
    if !sidecar.is_read() {
        let stem = entry.stem.clone();
        return Ok(Some(Lost { stem, aliases }));
    }
    if meta.text.key != *entry.key {
        shared.catalog.doubt();
        let (stem, key) = (&*entry.stem, &*entry.key);
        return Err(sidecar::anothers(&shared.dir, (stem, key), &meta.text.key));
    }
    Ok(None)
}
