//! Looking up what a lost sidecar said.

use std::collections::HashMap;
use std::io;
use std::path::Path;

use super::{Said, line};
use crate::error::{Error, Result};
use crate::session_file::{self, SessionMeta};
use crate::shard::load;
use crate::storage::{OpenMode, Storage, StorageFile};

/// The copies of a directory, read when the first sidecar is missed.
#[derive(Debug)]
pub(crate) struct Copies<'a> {
    storage: &'a dyn Storage,
    dir: &'a Path,
    path: &'a Path,
    read: Option<HashMap<String, Said>>,
    /// The first error that kept a copy from being used.
    unread: Option<Error>,
}

/// A sidecar made again of its copy.
#[derive(Debug, Clone)]
pub(crate) struct Restored {
    pub(crate) meta: SessionMeta,
    /// Whether it tells which lines are hidden; else none is.
    pub(crate) hides: bool,
    /// In words, what came of it.
    pub(crate) finding: String,
}

impl<'a> Copies<'a> {
    /// The copies at `path`, of sidecars in `dir`.
    pub(crate) fn new(storage: &'a dyn Storage, dir: &'a Path, path: &'a Path) -> Self {
        Self {
            storage,
            dir,
            path,
            read: None,
            unread: None,
        }
    }

    /// Fails where a copy, or a session file it is of, could not be read: who
    /// makes a sidecar anew without it makes the loss last.
    ///
    /// # Errors
    /// The first such error.
    pub(crate) fn refuse_unread(&self) -> Result<()> {
        self.unread.clone().map_or(Ok(()), Err)
    }

    /// The sidecar of a session whose own is missing or does not decode. `None`
    /// without a copy, and without a session file: who removed that removed the
    /// session.
    pub(crate) fn restore(&mut self, stem: &str) -> Option<Restored> {
        let (storage, log) = (self.storage, self.dir.join(session_file::log_name(stem)));
        let said = self.of(stem)?;
        let restored = storage
            .open(&log, OpenMode::Read)
            .and_then(|log| restored(said, &*log));
        match restored {
            Ok(mut restored) => {
                let name = self.dir.join(session_file::sidecar_name(stem));
                restored.finding = format!("{} {}", name.display(), restored.finding);
                Some(restored)
            }
            Err(e) if e.kind() == io::ErrorKind::NotFound => None,
            Err(error) => {
                tracing::warn!(path = %log.display(), %error, "its sidecar stays lost");
                self.unread.get_or_insert(Error::io("read", &log, error));
                None
            }
        }
    }

    fn of(&mut self, stem: &str) -> Option<&Said> {
        if self.read.is_none() {
            let read = match load::read_whole(self.storage, self.path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    let path = self.path;
                    tracing::warn!(path = %path.display(), %error, "copies of sidecars not read");
                    self.unread.get_or_insert(Error::io("read", path, error));
                    HashMap::new()
                }
                bytes => decoded(&bytes.unwrap_or_default()),
            };
            self.read = Some(read);
        }
        self.read.as_ref()?.get(stem)
    }
}

fn decoded(bytes: &[u8]) -> HashMap<String, Said> {
    let mut said = HashMap::new();
    for line in bytes.split(|&byte| byte == b'\n').filter_map(line::decode) {
        match line.said {
            Some(copy) => said.insert(line.stem.into_owned(), copy),
            None => said.remove(&*line.stem),
        };
    }
    said
}

fn restored(said: &Said, log: &dyn StorageFile) -> io::Result<Restored> {
    let mut meta = said.meta.clone();
    let hides = said.is_of(log)?;
    let lines = |len| load::measure(Some(log), len, &[], 0);
    let lines = |len| lines(len).map(|extent| i64::try_from(extent.lines).unwrap_or(i64::MAX));
    let finding = match (hides, meta.skip > 0) {
        (false, true) => {
            "is missing or damaged; what it said is known, but its session file is another now, so \
             no line of it is hidden"
        }
        _ => "is missing or damaged; it was made again of its copy",
    };
    meta.skip = if hides {
        // One beyond the file would hide what was appended since.
        meta.skip.min(lines(said.len)?)
    } else {
        0
    };
    meta.count = lines(log.info()?.len)?;
    Ok(Restored {
        meta,
        hides,
        finding: finding.to_owned(),
    })
}
