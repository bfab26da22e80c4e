//! A session put together from the disk, for a reader without an owner.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::path::Path;
use std::sync::Arc;

use sessionlog_core::error::{Error, Result, Version};
use sessionlog_core::session_file::Meta;
use sessionlog_wal::storage::{OpenMode, Storage};

use crate::disk::copies::lost::RestoredSidecar;
use crate::disk::files;
use crate::disk::files::conversation;
use crate::disk::files::extent;
use crate::disk::files::sidecar;
use crate::disk::files::sidecar::Sidecar;
use crate::engine::numbering::Numbering;
use crate::engine::recovery::bytes::Bytes;
use crate::engine::recovery::foreign::{ForeignVerdict, SessionFiles, judge_as_seen};
use crate::engine::recovery::plan::Plan;
use crate::engine::recovery::planned::PlannedFiles;
use crate::engine::snapshot::{ConversationMoment, Snapshot, Tail};

/// Loads a session from its two files alone.
///
/// # Errors
/// If they cannot be read.
pub(crate) fn load(storage: &dyn Storage, dir: &Path, stem: &str, key: &str) -> Result<Pieces> {
    let (mut meta, sidecar) = sidecar::read_sidecar(storage, dir, stem, key)?;
    let file = files::open_log(storage, dir, stem, OpenMode::Read)?;
    let exists = file.is_some() || sidecar != Sidecar::Missing;
    let bytes = Bytes::whole(file, dir)?;
    if !sidecar.is_read() {
        let lines = extent::measure(bytes.file.as_deref(), bytes.len, &bytes.behind, 0);
        let lines = lines.map_err(|e| Error::io("read", dir, e))?.lines;
        meta.count = i64::try_from(lines).unwrap_or(i64::MAX);
    }
    Ok(Pieces {
        exists,
        bytes,
        meta,
        sidecar,
    })
}

/// Returns a session as the journal makes it, or as another program left it, given its files and
/// its sidecar as they were before the journal was read. `None` if they changed names since.
///
/// # Errors
/// If its files cannot be read.
pub(super) fn planned(
    planned: PlannedFiles<'_>,
    restored: Option<&RestoredSidecar>,
    (stem, key): (&str, &str),
    plan: &Plan,
    (files, found): (SessionFiles, Result<(Meta, Sidecar)>),
) -> Result<Option<Pieces>> {
    let lines = match judge_as_seen(planned, stem, plan, files)? {
        None => return Ok(None),
        Some(ForeignVerdict::Ours { lines, .. }) => lines,
        Some(ForeignVerdict::Barred(barred)) => return Err(barred.error(planned.dir, stem)),
        Some(ForeignVerdict::Changed(changed)) => {
            let meta = changed.meta.clone();
            return Ok(Some(Pieces {
                exists: true,
                meta: meta.map_or_else(|| Meta::empty(key), |meta| Meta::named(meta, key)),
                bytes: changed.into_lines(),
                sidecar: Sidecar::Present,
            }));
        }
    };
    if !plan.exists() {
        return Ok(Some(Pieces::empty(key)));
    }
    let (on_disk, sidecar) = found?;
    let meta = match restored {
        Some(restored) if !sidecar.is_read() => plan.meta_restored(restored),
        _ => plan.meta(|| on_disk.to_sidecar()),
    };
    Ok(Some(Pieces {
        exists: true,
        bytes: lines,
        meta: Meta::named(meta, key),
        sidecar,
    }))
}

/// The parts of a session that no process owns.
#[derive(Debug, Clone)]
pub(crate) struct Pieces {
    /// True if there is such a session.
    pub(super) exists: bool,
    pub(super) bytes: Bytes,
    pub(super) meta: Meta,
    /// The origin of `meta`.
    pub(super) sidecar: Sidecar,
}

impl Pieces {
    pub(super) fn empty(key: &str) -> Self {
        Self {
            exists: false,
            bytes: Bytes::none(),
            meta: Meta::empty(key),
            sidecar: Sidecar::Missing,
        }
    }

    /// Returns the live lines.
    ///
    /// # Errors
    /// As the operating system reports them.
    pub(crate) fn snapshot(self) -> io::Result<Snapshot> {
        let start = self.extent()?.start;
        Ok(self.from(start))
    }

    /// Returns all lines, and the offset of the first live one.
    ///
    /// # Errors
    /// As the operating system reports them.
    pub(crate) fn whole(self) -> io::Result<(Snapshot, u64)> {
        let start = self.extent()?.start;
        Ok((self.from(0), start))
    }

    /// Returns all lines, and the conversation that they describe.
    ///
    /// # Errors
    /// As the operating system reports them.
    pub(crate) fn looked(self) -> io::Result<ConversationMoment> {
        let extent = self.extent()?;
        let Bytes {
            file, len, behind, ..
        } = &self.bytes;
        let conversation = conversation::read(file.as_deref(), *len, behind)?;
        Ok(ConversationMoment {
            conversation: Arc::new(conversation),
            start: extent.start,
            end: extent.end,
            lines: extent.lines,
            snapshot: self.from(0),
        })
    }

    fn extent(&self) -> io::Result<extent::Extent> {
        let Bytes {
            file, len, behind, ..
        } = &self.bytes;
        extent::measure(file.as_deref(), *len, behind, self.meta.skip)
    }

    fn from(mut self, start: u64) -> Snapshot {
        let numbering = self.numbering();
        self.meta.version = self.version(numbering);
        let Bytes {
            file, len, behind, ..
        } = self.bytes;
        let live = start.saturating_sub(len) as usize;
        let mut snapshot = Snapshot::without_lines(self.meta.clone());
        snapshot.live.tail = Tail::with_lines(self.meta, behind[live..].to_vec());
        snapshot.tail_len = behind.len() - live;
        snapshot.live.file = file;
        snapshot.live.start = start.min(len);
        snapshot.live.end = len;
        // The hidden ones of the lines after the file are left out.
        snapshot.live.numbering = match live {
            0 => numbering,
            hidden => numbering.moved(len + hidden as u64, len),
        };
        snapshot
    }

    /// Returns the numbering: positions hold for as long as the file is the same.
    fn numbering(&self) -> Numbering {
        let file = self.bytes.file.as_ref();
        let inode = file.and_then(|file| Some(file.info().ok()?.inode));
        Numbering::new(inode.unwrap_or(0))
    }

    /// Returns a version that differs for every state that can be told apart: changes are not
    /// counted here.
    fn version(&self, numbering: Numbering) -> Version {
        if !self.exists {
            return Version::ABSENT;
        }
        let Bytes { len, behind, .. } = &self.bytes;
        let Meta {
            text, skip, count, ..
        } = &self.meta;
        let mut state = DefaultHasher::new();
        (numbering.position(len + behind.len() as u64), skip, count).hash(&mut state);
        (&text.summary, self.meta.updated_at.text().as_str()).hash(&mut state);
        Version::new(state.finish() | 1)
    }
}
