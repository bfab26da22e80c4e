//! Looking up the contents of a lost sidecar.

use std::collections::HashMap;
use std::io;
use std::path::Path;

use sessionlog_core::error::{Error, Result};
use sessionlog_core::session_file::{self, SessionMeta};
use sessionlog_wal::storage::{FileKind, OpenMode, Storage, StorageFile};

use super::{SidecarCopy, line};
use crate::disk::files;
use crate::disk::files::extent;
use crate::disk::files::lines::for_each_line;
use crate::disk::files::sidecar::read_bytes;

/// The copies of a directory, read when the first sidecar is missed.
#[derive(Debug)]
pub(crate) struct Copies<'a> {
    storage: &'a dyn Storage,
    dir: &'a Path,
    path: &'a Path,
    read: Option<HashMap<String, SidecarCopy>>,
    /// The sidecars with fields that PicoClaw drops, if they were read.
    tagged: HashMap<String, SessionMeta>,
}

/// A sidecar rebuilt from its copy.
#[derive(Debug, Clone)]
pub(crate) struct RestoredSidecar {
    pub(crate) meta: SessionMeta,
    /// True if it tells which lines are hidden; otherwise none is hidden.
    pub(crate) hides: bool,
    /// The result in words.
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
            tagged: HashMap::new(),
        }
    }

    /// Reads the copies, unless they were read before.
    ///
    /// # Errors
    /// As the operating system reports them. If an unreadable file counted as empty, it would be
    /// replaced without its copies.
    pub(crate) fn read(&mut self) -> Result<&HashMap<String, SidecarCopy>> {
        let said = match self.read.take() {
            Some(said) => said,
            None => read(self.storage, self.path).map_err(|e| Error::io("read", self.path, e))?,
        };
        Ok(self.read.insert(said))
    }

    /// Reads the sidecar fields that PicoClaw does not know, for [`tag`](Self::tag). The lines of
    /// other sidecars are skipped.
    ///
    /// # Errors
    /// As the operating system reports them.
    pub(crate) fn read_tagged(&mut self) -> Result<()> {
        let tagged = tagged(self.storage, self.path);
        self.tagged = tagged.map_err(|e| Error::io("read", self.path, e))?;
        Ok(())
    }

    /// Gives a sidecar back the fields that another program dropped; returns true if it did.
    pub(crate) fn tag(&self, stem: &str, meta: &mut SessionMeta) -> bool {
        let Some(said) = self.tagged.get(stem).filter(|_| meta.tags.is_empty()) else {
            return false;
        };
        let is_same = said.key == meta.key && said.created_at == meta.created_at;
        let is_dropped = is_same && !self.is_own(stem, meta);
        if is_dropped {
            meta.tags.clone_from(&said.tags);
        }
        is_dropped
    }

    /// True if the store itself wrote a sidecar: fields that it lacks were removed on purpose,
    /// though no copy may say so. A copy is a cache: its last line may have found no space.
    fn is_own(&self, stem: &str, meta: &SessionMeta) -> bool {
        let path = self.dir.join(session_file::sidecar_name(stem));
        let read = read_bytes(self.storage, &path);
        read.is_ok_and(|bytes| session_file::is_own_sidecar(&bytes, meta))
    }

    /// Rebuilds the sidecar of a session whose own is missing or does not decode. `None` without a
    /// copy, and without a session file: removing that file removed the session.
    ///
    /// # Errors
    /// If the copies or the session file cannot be read.
    pub(crate) fn restore(&mut self, stem: &str) -> Result<Option<RestoredSidecar>> {
        let (storage, log) = (self.storage, self.dir.join(session_file::log_name(stem)));
        let name = self.dir.join(session_file::sidecar_name(stem));
        let Some(said) = self.read()?.get(stem) else {
            return Ok(None);
        };
        let restored = storage
            .open(&log, OpenMode::Read)
            .and_then(|log| restored(said, &*log));
        match restored {
            Ok(mut restored) => {
                restored.finding = format!("{} {}", name.display(), restored.finding);
                Ok(Some(restored))
            }
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(e) => Err(Error::io("read", &log, e)),
        }
    }
}

fn read(storage: &dyn Storage, path: &Path) -> io::Result<HashMap<String, SidecarCopy>> {
    let bytes = match files::read_whole(storage, path) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => Vec::new(),
        Err(_) if files::is_impostor(storage, path, FileKind::File) => Vec::new(),
        other => other?,
    };
    let mut said = HashMap::new();
    for line in bytes.split(|&byte| byte == b'\n').filter_map(line::decode) {
        match line.said {
            Some(copy) => said.insert(line.stem.into_owned(), copy),
            None => said.remove(&*line.stem),
        };
    }
    Ok(said)
}

fn tagged(storage: &dyn Storage, path: &Path) -> io::Result<HashMap<String, SessionMeta>> {
    let mut tagged = HashMap::new();
    let file = match storage.open(path, OpenMode::Read) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(tagged),
        Err(_) if files::is_impostor(storage, path, FileKind::File) => return Ok(tagged),
        other => other?,
    };
    for_each_line(&*file, 0, file.info()?.len, &mut |raw| {
        let is_tagged = line::is_tagged(raw.text);
        // A later line of a session that no longer has tags counts.
        if (is_tagged || !tagged.is_empty())
            && let Some(line) = line::decode(raw.text)
        {
            let stem = line.stem.into_owned();
            match line.said.filter(|_| is_tagged) {
                Some(said) => tagged.insert(stem, said.meta),
                None => tagged.remove(&stem),
            };
        }
        Ok(())
    })?;
    Ok(tagged)
}

fn restored(said: &SidecarCopy, log: &dyn StorageFile) -> io::Result<RestoredSidecar> {
    let mut meta = said.meta.clone();
    let hides = said.is_of(log)?;
    let lines = |len| extent::measure(Some(log), len, &[], 0);
    let lines = |len| lines(len).map(|extent| i64::try_from(extent.lines).unwrap_or(i64::MAX));
    let finding = match (hides, meta.skip > 0) {
        (false, true) => {
            "is missing or damaged; what it said is known, but its session file is another now, so \
             no line of it is hidden"
        }
        _ => "is missing or damaged; it was made again of its copy",
    };
    meta.skip = if hides {
        // A `skip` beyond the file would hide lines appended since.
        meta.skip.min(lines(said.len)?)
    } else {
        0
    };
    meta.count = lines(log.info()?.len)?;
    Ok(RestoredSidecar {
        meta,
        hides,
        finding: finding.to_owned(),
    })
}
