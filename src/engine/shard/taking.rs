//! Takes messages once: the session's files about them are read when first asked for, and flushes
//! bring them up to date.

use std::io;
use std::path::{Path, PathBuf};

use sessionlog_core::error::{Error, Result};
use sessionlog_wal::storage::FileKind;

use super::Shard;
use super::flush::set_aside;
use super::session::Session;
use super::shared::SharedState;
use super::turn::Turn;
use crate::disk::files::once::{self, OnceContents};
use crate::disk::files::{is_impostor, is_taken};

impl Session {
    /// True if the message of that line is in flight.
    pub(super) fn is_taking(&self, line: &str) -> bool {
        self.once.as_ref().is_some_and(|once| once.is_staged(line))
    }

    /// Notes that the message of that line is in flight now.
    pub(super) fn takes(&mut self, line: &str) {
        self.once.get_or_insert_default().stage(line);
    }

    /// Notes that a message in flight holds, or does not.
    pub(super) fn took(&mut self, line: &str, holds: bool) {
        self.once.get_or_insert_default().settle(line, holds);
    }

    /// Forgets data that can be read again.
    pub(super) fn forget_once(&mut self) {
        if let Some(once) = &mut self.once {
            once.known = None;
        }
        self.once.take_if(|once| once.is_written());
    }
}

impl Shard {
    /// Returns true if the session took the message of that line before. One in flight does not
    /// count.
    ///
    /// # Errors
    /// If the files of taken messages cannot be read.
    pub(super) fn has_taken(&mut self, id: usize, line: &str, turn: &Turn<'_>) -> Result<bool> {
        let known = self.session(id).once.as_ref().map(|once| &once.known);
        if !matches!(known, Some(Some(_))) {
            let taken = self.read_taken(id, turn)?;
            self.session(id).once.get_or_insert_default().read(taken);
        }
        let session = self.session(id);
        let has = session
            .once
            .as_ref()
            .is_some_and(|once| once.has_taken(line));
        // The known ids are dropped when the file is closed; without a file they would stay for
        // ever.
        if session.file.is_none() {
            session.forget_once();
        }
        Ok(has)
    }

    fn read_taken(&mut self, id: usize, turn: &Turn<'_>) -> Result<OnceContents> {
        let shared = turn.shared;
        let paths = once::paths(&shared.once, &self.session(id).entry.stem);
        self.with_descriptor(&shared.keeper, || {
            let [newest, old] = paths.each_ref().map(|path| read(shared, path));
            Ok(OnceContents::of([&newest?, &old?]))
        })
    }

    /// Brings the files of messages that a session took up to date.
    ///
    /// # Errors
    /// The missing lines are kept for the next flush.
    pub(super) fn write_once(&mut self, id: usize, turn: &Turn<'_>) -> Result<()> {
        let once = self.session(id).once.as_ref();
        let Some(once) = once.filter(|once| !once.unwritten.is_empty()) else {
            return Ok(());
        };
        let lines = once.unwritten.concat().into_bytes();
        if once.known.is_none() {
            let taken = self.read_taken(id, turn)?;
            self.session(id).once.get_or_insert_default().read(taken);
        }
        let shared = turn.shared;
        let paths = once::paths(&shared.once, &self.session(id).entry.stem);
        // The flush that asks for this then syncs everything, names included.
        shared.names_changed();
        self.with_descriptor(&shared.keeper, || put(shared, &paths, &lines))?;
        let session = self.session(id);
        let once = session.once.get_or_insert_default();
        once.written();
        if once
            .known
            .as_ref()
            .is_some_and(|known| known.newest >= shared.once_ids)
        {
            once.known = None;
            let [newest, old] = &paths;
            let rename = || shared.storage.rename(newest, old);
            let renamed = match rename() {
                Err(e) if is_taken(&e) => set_aside(old, shared).and_then(|()| rename()),
                renamed => renamed,
            };
            renamed.map_err(|e| Error::io("rename", newest, e))?;
        }
        if session.file.is_none() {
            session.forget_once();
        }
        shared.names_changed();
        Ok(())
    }
}

fn read(shared: &SharedState, path: &Path) -> Result<Vec<u8>> {
    let read = match once::read_file(&*shared.storage, path) {
        // Were that an error, no flush would succeed while it is there.
        Err(e) if is_taken(&e) => set_aside(path, shared).map(|()| Vec::new()),
        read => read,
    };
    read.map_err(|e| Error::io("read", path, e))
}

fn put(shared: &SharedState, [newest, _]: &[PathBuf; 2], lines: &[u8]) -> Result<()> {
    let storage = &*shared.storage;
    let wrap = |e| Error::io("write", newest, e);
    let create = || match storage.create_dir(&shared.once) {
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        made => made,
    };
    create().map_err(wrap)?;
    // Were that an error, no flush would succeed while it is there. Files behind a link are another
    // program's.
    if is_impostor(storage, &shared.once, FileKind::Directory) {
        let made = set_aside(&shared.once, shared).and_then(|()| create());
        made.map_err(wrap)?;
    }
    let added = match once::add(storage, newest, lines) {
        Err(e) if is_taken(&e) => {
            set_aside(newest, shared).and_then(|()| once::add(storage, newest, lines))
        }
        added => added,
    };
    added.map_err(wrap)
}
