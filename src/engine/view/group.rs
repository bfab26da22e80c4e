//! Sessions of a directory at one moment: their files are looked at first, then the journal.
//!
//! A writer puts nothing into a file that its journal does not have. So all data in files that were
//! looked at first is in the plans, and a session is what its plan says. A session that the journal
//! does not name by then is what its files say. In the other order, the files of a busy writer
//! would always be ahead of the journal, and would look as if another program had added lines.

use std::collections::HashMap;
use std::sync::Arc;

use sessionlog_core::error::{Error, Result};
use sessionlog_core::session_file::{self, Meta};
use sessionlog_wal::storage::OpenMode;

use super::DirectoryView;
use super::moment::{DirectoryMoment, TRIES};
use super::pieces::{self, Pieces, load};
use crate::disk::files;
use crate::disk::files::once::{self, OnceContents};
use crate::disk::files::sidecar::{Sidecar, read_meta};
use crate::engine::glance::{self, GLANCES, SessionLines};
use crate::engine::recovery::bytes::Bytes;
use crate::engine::recovery::foreign::SessionFiles;
use crate::engine::snapshot::Snapshot;

/// Number of sessions that are looked at together: their files are open at once.
pub(crate) const TOGETHER: usize = 128;

/// The wanted parts of sessions. All parts are looked at only for sessions that the journal names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Depth {
    Sidecar,
    Lines,
    Both,
    /// Both, and the messages taken once.
    Copy,
}

/// Sessions that were looked at together.
pub(crate) struct Group<'a> {
    view: &'a DirectoryView,
    moment: Option<Arc<DirectoryMoment>>,
    seen: HashMap<String, Seen>,
}

/// A sidecar, lines, and the messages taken once.
type Original = (Meta, SessionLines, [Vec<u8>; 2]);

/// A session's files as they were before the journal was read further.
struct Seen {
    stem: Option<Arc<str>>,
    files: Result<GroupContent>,
    ids: Result<[Vec<u8>; 2]>,
}

/// The parts that were looked at.
enum GroupContent {
    /// The journal named the session.
    Planned(Box<(SessionFiles, Result<(Meta, Sidecar)>)>),
    /// It did not.
    Sidecar(Meta, Sidecar),
    Lines(Bytes),
    Both(Pieces),
}

impl<'a> Group<'a> {
    /// Looks at the sessions of these keys. A session that could not be seen at one moment with the
    /// others is read by itself when it is asked for.
    pub(crate) fn of(view: &'a DirectoryView, keys: &[&str], depth: Depth) -> Self {
        for _ in 0..TRIES {
            let Ok(begin) = view.begin() else { break };
            if let Ok(Some(group)) = Self::since(view, begin, (keys, false), depth) {
                return group;
            }
        }
        Self {
            view,
            moment: None,
            seen: HashMap::new(),
        }
    }

    /// Looks at the sessions, given an earlier moment. Returns `None` if the plans of that moment
    /// do not continue to now.
    pub(super) fn since(
        view: &'a DirectoryView,
        begin: Arc<DirectoryMoment>,
        (keys, resolve): (&[&str], bool),
        depth: Depth,
    ) -> Result<Option<Self>> {
        let look = |key: &&str| Seen::of(view, &begin, (key, resolve), depth);
        let seen = glance::each(keys, GLANCES, &look);
        let keys = keys.iter().map(|&key| key.to_owned());
        let seen = keys.zip(seen).collect();
        let era = begin.era;
        // Not held, so that it is not copied when more is read.
        drop(begin);
        let moment = view.go_on()?;
        Ok((moment.era == era).then_some(Self {
            view,
            moment: Some(moment),
            seen,
        }))
    }

    /// Returns a session as it stands; `None` if its files changed names meanwhile, or if less of
    /// it was looked at.
    ///
    /// # Errors
    /// If its files cannot be read, or name another key.
    pub(super) fn pieces(&self, key: &str, resolve: bool) -> Result<Option<Pieces>> {
        let (Some(moment), Some(seen)) = (&self.moment, self.seen.get(key)) else {
            return Ok(None);
        };
        let (key, stem) = moment.find(key, resolve);
        session_file::validate_key(&key)?;
        if stem != seen.stem {
            return Ok(None);
        }
        let Some(stem) = stem else {
            return Ok(Some(Pieces::empty(&key)));
        };
        let names = (&*stem, &*key);
        let pieces = match (moment.plans.sessions.get(&*stem), &seen.files) {
            (_, Err(error)) => return Err(error.clone()),
            (Some(plan), Ok(GroupContent::Planned(files))) => {
                let restored = moment.restored.get(&*stem);
                let planned = self.view.planned(moment);
                let files = (**files).clone();
                let pieces = pieces::planned(planned, restored, names, plan, files)?;
                let Some(pieces) = pieces else {
                    return Ok(None);
                };
                pieces
            }
            (None, Ok(GroupContent::Both(pieces))) => {
                let mut pieces = pieces.clone();
                if !pieces.sidecar.is_read()
                    && let Some(restored) = self.view.restored(moment, &stem)?
                {
                    pieces.meta = Meta::of(restored.meta);
                }
                pieces
            }
            // The journal named it for the first time since.
            _ => return Ok(None),
        };
        // Another session has got the file name since.
        if pieces.exists && *pieces.meta.text.key != *key {
            return Err(self.view.anothers(moment, names, &pieces.meta.text.key));
        }
        Ok(Some(pieces))
    }

    /// Returns the result of `read` for a session; `None` if it is gone.
    fn read<T>(&self, key: &str, read: impl Fn(Pieces) -> T) -> Result<Option<T>> {
        let pieces = match self.pieces(key, false) {
            Ok(Some(pieces)) => pieces,
            // Gone since, or in the middle of a change.
            _ => self.view.session(key, false, Ok)?,
        };
        Ok(pieces.exists.then(|| read(pieces)))
    }

    /// Returns the content of a session's sidecar.
    ///
    /// # Errors
    /// If its files cannot be read.
    pub(crate) fn meta(&self, key: &str) -> Result<Meta> {
        if let Some(moment) = &self.moment
            && let Some(seen) = self.seen.get(key)
            && let Ok(GroupContent::Sidecar(meta, sidecar)) = &seen.files
            && let Some(stem) = seen.stem.as_deref()
            && !moment.plans.sessions.contains_key(stem)
            && (sidecar.is_read() && *meta.text.key == *key)
        {
            return Ok(meta.clone());
        }
        let found = self.read(key, |pieces| pieces.meta)?;
        Ok(found.unwrap_or_else(|| Meta::empty(key)))
    }

    /// Returns the content of a session's sidecar, and its lines; `None` if it is gone.
    ///
    /// # Errors
    /// If its files cannot be read.
    pub(crate) fn glance(&self, key: &str) -> Result<Option<(Meta, SessionLines)>> {
        self.read(key, |pieces| {
            (pieces.meta, SessionLines::of_bytes(pieces.bytes))
        })
    }

    /// Returns at least the lines of a session. Its sidecar is not looked at if the journal does
    /// not name the session: then the lines that the sidecar skips are among them. `None` if it is
    /// gone.
    ///
    /// # Errors
    /// If its files cannot be read.
    pub(crate) fn lines(&self, key: &str) -> Result<Option<SessionLines>> {
        if let Some(moment) = &self.moment
            && let Some(seen) = self.seen.get(key)
            && let Ok(GroupContent::Lines(bytes)) = &seen.files
            && let Some(stem) = seen.stem.as_deref()
            && !moment.plans.sessions.contains_key(stem)
        {
            return Ok(Some(SessionLines::of_bytes(bytes.clone())));
        }
        self.read(key, |pieces| SessionLines::of_bytes(pieces.bytes))
    }

    /// Returns all lines of a session, none if it is gone, and the offset of the first that is not
    /// hidden.
    ///
    /// # Errors
    /// If its files cannot be read.
    pub(crate) fn whole(&self, key: &str) -> Result<(Arc<Snapshot>, u64)> {
        let whole = match self.pieces(key, false) {
            Ok(Some(pieces)) => {
                let whole = pieces.whole();
                whole.map_err(|e| Error::io("read", std::path::Path::new(key), e))?
            }
            _ => self.view.session(key, false, Pieces::whole)?,
        };
        Ok((Arc::new(whole.0), whole.1))
    }

    /// Returns the parts of a session that a copy has: the content of its sidecar, its lines, and
    /// the ids of messages taken once as its files will have them. `None` if it is gone.
    ///
    /// # Errors
    /// If its files cannot be read.
    pub(crate) fn original(&self, key: &str) -> Result<Option<Original>> {
        let own = self.pieces(key, false);
        if let (Some(moment), Some(seen), Ok(Some(pieces))) =
            (&self.moment, self.seen.get(key), own)
        {
            return seen.original(moment, pieces);
        }
        let (group, pieces) = self.view.chase(key, false, Depth::Copy)?;
        match (&group.moment, group.seen.get(key)) {
            (Some(moment), Some(seen)) => seen.original(moment, pieces),
            _ => Ok(None),
        }
    }
}

impl Seen {
    fn of(
        view: &DirectoryView,
        begin: &DirectoryMoment,
        (key, resolve): (&str, bool),
        depth: Depth,
    ) -> Self {
        let (key, stem) = begin.find(key, resolve);
        let (files, ids) = match stem.as_deref() {
            None => (
                Ok(GroupContent::Both(Pieces::empty(&key))),
                Ok(<[_; 2]>::default()),
            ),
            Some(stem) => {
                // Before the rest: the ids of later messages would be too many.
                let ids = match depth {
                    Depth::Copy => view.ids(stem),
                    _ => Ok(<[_; 2]>::default()),
                };
                let is_planned = begin.plans.sessions.contains_key(stem);
                (GroupContent::of(view, is_planned, (stem, &key), depth), ids)
            }
        };
        Self { stem, files, ids }
    }

    fn original(&self, moment: &DirectoryMoment, pieces: Pieces) -> Result<Option<Original>> {
        if !pieces.exists {
            return Ok(None);
        }
        let [newest, old] = self.ids.clone()?;
        let stem = self.stem.as_deref().unwrap_or_default();
        let ids = match moment.plans.once.get(stem) {
            None => [newest, old],
            Some(planned) => {
                let [newest, old] = if planned.anew {
                    <[_; 2]>::default()
                } else {
                    [newest, old]
                };
                if planned.lacks_nothing(&OnceContents::of([&newest, &old])) {
                    [newest, old]
                } else {
                    [planned.after(&newest), old]
                }
            }
        };
        Ok(Some((
            pieces.meta,
            SessionLines::of_bytes(pieces.bytes),
            ids,
        )))
    }
}

impl GroupContent {
    fn of(
        view: &DirectoryView,
        is_planned: bool,
        (stem, key): (&str, &str),
        depth: Depth,
    ) -> Result<Self> {
        let (storage, dir) = (&*view.storage, &*view.dir);
        if is_planned {
            let files = SessionFiles::of(storage, dir, stem)?;
            let sidecar = read_meta(storage, dir, stem, key);
            return Ok(Self::Planned(Box::new((files, sidecar))));
        }
        Ok(match depth {
            Depth::Sidecar => {
                let (meta, sidecar) = read_meta(storage, dir, stem, key)?;
                Self::Sidecar(meta, sidecar)
            }
            Depth::Lines => {
                let file = files::open_log(storage, dir, stem, OpenMode::Read)?;
                Self::Lines(Bytes::whole(file, dir)?)
            }
            Depth::Both | Depth::Copy => Self::Both(load(storage, dir, stem, key)?),
        })
    }
}

impl DirectoryView {
    /// Returns the ids of messages that a session took once, from its files.
    fn ids(&self, stem: &str) -> Result<[Vec<u8>; 2]> {
        let [newest, old] = once::paths(&self.home.once, stem).map(|path| {
            let read = once::read_file(&*self.storage, &path);
            read.map_err(|e| Error::io("read", &path, e))
        });
        Ok([newest?, old?])
    }
}
