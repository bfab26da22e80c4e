//! Prepares a new session file beside the old one, off the shard's path.
//!
//! The new file is written under a hidden name and synced, name included, before its owner journals
//! the swap: a swap record that reached the disk before the bytes it names would replace a history
//! by a hole.

use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use sessionlog_core::error::{Error, Result};
use sessionlog_core::session_file::{self, CarriedControls, Kind};
use sessionlog_wal::storage::{OpenMode, StorageFile};

use super::rebase;
use super::shared::SharedState;
use super::source::{AmendedFile, FileLines, FileSource, MovedFile};
use super::steps::Steps;
use crate::disk::files::extent::{self, Extent};
use crate::disk::files::lines::{Raw, for_each_line};
use crate::engine::archive;

/// A file that is ready to take a session file's name.
#[derive(Debug)]
pub(crate) struct PreparedFile {
    pub(crate) temp: String,
    pub(crate) file: Arc<dyn StorageFile>,
    pub(crate) len: u64,
    pub(crate) crc: u32,
    pub(crate) lines: u64,
    /// Offset of the first line that is not hidden.
    pub(crate) start: u64,
    /// True if its last line lacks the LF.
    pub(crate) torn: bool,
    /// The whole file for the journal, if it is at most [`JOURNALLED`] and in no other record.
    pub(crate) small: Vec<u8>,
    /// The lines that a compaction's copy hides, or the file of a session that moves.
    pub(crate) hidden: HiddenLines,
    /// The backups that move with a session; `None` for one that was pruned meanwhile.
    pub(crate) backups: Vec<Option<Extent>>,
}

/// The longest new history that the journal holds whole, bytes: a program that replaces the file
/// after a crash then takes no acknowledged lines. Longer ones would hold up all other commits.
const JOURNALLED: u64 = 64 << 10;

/// The lines that a compaction's copy hides: those truncated while it was made.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct HiddenLines {
    /// Lines to skip.
    pub(crate) skip: u64,
    /// Offset of the first copied line that was not truncated, and the number of lines before it.
    /// Before all copied lines stand the control records kept from hidden ones.
    at: u64,
    lines: u64,
}

impl HiddenLines {
    /// Returns the offset of the first copied line that was not truncated.
    pub(super) fn shown_from(self) -> u64 {
        self.at
    }
}

/// The changes to a compaction's copy: lines to add, and lines to hide.
#[derive(Debug)]
pub(crate) struct More {
    pub(crate) file: Arc<dyn StorageFile>,
    /// The range of the old file that was appended since.
    pub(crate) appended: Range<u64>,
    /// The range of the old file that was truncated since.
    pub(crate) truncated: Range<u64>,
}

impl PreparedFile {
    /// Removes the file, which will not be swapped in.
    pub(super) fn discard(&self, shared: &SharedState) {
        let path = shared.dir.join(&self.temp);
        if let Err(error) = shared.storage.remove_file(&path) {
            tracing::warn!(path = %path.display(), %error, "left behind until the next open");
        }
    }
}

/// Writes and syncs the file `temp`. On failure, nothing of it is left.
///
/// # Errors
/// `StorageFull` and other refusals of the operating system. `Poisoned` if
/// the directory could not be synced: other names may be gone with this one.
pub(crate) fn prepare(
    shared: &SharedState,
    temp: &str,
    source: &FileSource,
) -> Result<PreparedFile> {
    let (storage, dir) = (&*shared.storage, &*shared.dir);
    if let FileSource::Rebase(rebase) = source {
        return rebase::prepare(storage, dir, temp, rebase);
    }
    if let FileSource::Live {
        file,
        start,
        dropped,
        ..
    } = source
    {
        let is_gone = || dropped.deleted.load(Ordering::Acquire);
        if shared.archive.keeps && !is_gone() {
            archive::keep(shared, dropped, &**file, *start)?;
        }
        if is_gone() {
            // Nothing more is written of a session that may have to be forgotten; its owner throws
            // the file away.
            return prepare(shared, temp, &FileSource::Lines(Vec::new()));
        }
    }
    let backups = match source {
        FileSource::Moved(moved) => moved.moving.prepare(shared, temp)?,
        _ => Vec::new(),
    };
    let path = dir.join(temp);
    let attempt = || -> io::Result<PreparedFile> {
        let file = storage.open(&path, OpenMode::CreateNew)?;
        let mut out = Output::to(file, shared);
        match source {
            FileSource::Lines(lines) => out.put_lines(lines)?,
            FileSource::Live {
                file, start, end, ..
            } => {
                out.put_controls(&**file, *start)?;
                out.hidden.at = out.len + out.buffer.len() as u64;
                out.hidden.lines = out.lines;
                out.put_live(&**file, *start, *end)?;
            }
            FileSource::Promoted {
                file,
                start,
                end,
                lines,
            } => {
                if let Some(file) = file {
                    out.put_controls(&**file, *start)?;
                    out.put_own(&**file, *start, *end)?;
                }
                out.put_lines(lines)?;
            }
            FileSource::Bytes {
                file,
                len,
                rest,
                skip,
            } => {
                out.put_bytes(file.as_deref(), *len, rest, *skip)?;
            }
            FileSource::Amended(amended) => out.put_amended(amended)?,
            FileSource::Moved(moved) => out.put_moved(moved)?,
            // Prepared above.
            FileSource::Rebase(_) => {}
        }
        let mut prepared = out.finish(temp.to_owned())?;
        if !matches!(source, FileSource::Live { .. }) && prepared.len <= JOURNALLED {
            prepared.small.resize(prepared.len as usize, 0);
            prepared.file.read_exact_at(&mut prepared.small, 0)?;
        }
        Ok(prepared)
    };
    let prepared = attempt().map_err(|e| {
        let _ = storage.remove_file(&path);
        if let FileSource::Moved(moved) = source {
            moved.moving.discard(shared, temp);
        }
        Error::io("rewrite", &path, e)
    })?;
    // The name is synced as well: a swap record that outlived it would refer to a file that is not
    // there, and recovery could only leave the old one.
    storage.sync_dir(dir).map_err(|e| Error::sync(dir, e))?;
    Ok(PreparedFile {
        backups,
        ..prepared
    })
}

/// Brings a compaction's copy up to date: adds new lines and hides truncated ones. On failure,
/// nothing of the copy is left.
///
/// # Errors
/// As [`prepare`].
pub(crate) fn extend(
    shared: &SharedState,
    prepared: PreparedFile,
    more: &More,
) -> Result<PreparedFile> {
    let temp = prepared.temp.clone();
    let path = shared.dir.join(&temp);
    let attempt = || -> io::Result<PreparedFile> {
        let mut out = Output::on(prepared, shared);
        let Range { start, end } = more.appended;
        out.put_live(&*more.file, start, end)?;
        out.hide(&*more.file, &more.truncated)?;
        out.finish(temp)
    };
    attempt().map_err(|e| {
        let _ = shared.storage.remove_file(&path);
        Error::io("rewrite", &path, e)
    })
}

impl More {
    /// Returns the number of bytes that are read, roughly.
    pub(super) fn bytes(&self) -> u64 {
        let len = |range: &Range<u64>| range.end - range.start;
        len(&self.appended) + len(&self.truncated)
    }
}

struct Output<'a> {
    shared: &'a SharedState,
    file: Arc<dyn StorageFile>,
    buffer: Vec<u8>,
    len: u64,
    crc: crc32fast::Hasher,
    lines: u64,
    start: u64,
    torn: bool,
    hidden: HiddenLines,
    steps: Steps,
}

impl<'a> Output<'a> {
    fn to(file: Arc<dyn StorageFile>, shared: &'a SharedState) -> Self {
        Self {
            shared,
            file,
            buffer: Vec::new(),
            len: 0,
            crc: crc32fast::Hasher::new(),
            lines: 0,
            start: 0,
            torn: false,
            hidden: HiddenLines::default(),
            steps: Steps::after(&shared.last_rewrite),
        }
    }

    /// Continues where a file ended.
    fn on(prepared: PreparedFile, shared: &'a SharedState) -> Self {
        Self {
            len: prepared.len,
            crc: crc32fast::Hasher::new_with_initial_len(prepared.crc, prepared.len),
            lines: prepared.lines,
            start: prepared.start,
            hidden: prepared.hidden,
            ..Self::to(prepared.file, shared)
        }
    }

    /// Hides the copies of the lines in `truncated` of the old file, and all lines before them.
    fn hide(&mut self, old: &dyn StorageFile, truncated: &Range<u64>) -> io::Result<()> {
        if truncated.is_empty() {
            return Ok(());
        }
        let hidden = &mut self.hidden;
        for_each_line(old, truncated.start, truncated.end, &mut |raw| {
            if is_copied(raw) {
                hidden.at += raw.len + 1;
                hidden.lines += 1;
            }
            Ok(())
        })?;
        hidden.skip = hidden.lines;
        self.start = hidden.at;
        Ok(())
    }

    fn put_lines(&mut self, lines: &[u8]) -> io::Result<()> {
        for (_, raw) in session_file::lines(lines) {
            self.put_line(raw)?;
        }
        Ok(())
    }

    /// Writes the last control records among the lines that are dropped: token usage, checkpoint
    /// numbering and the system prompt outlive truncation.
    fn put_controls(&mut self, file: &dyn StorageFile, start: u64) -> io::Result<()> {
        let mut last = CarriedControls::default();
        for_each_line(file, 0, start, &mut |raw| {
            last.note(raw.text);
            Ok(())
        })?;
        for raw in last.into_lines() {
            self.put_line(&raw)?;
        }
        Ok(())
    }

    fn put_live(&mut self, file: &dyn StorageFile, start: u64, end: u64) -> io::Result<()> {
        for_each_line(file, start, end, &mut |raw| {
            if is_copied(raw) {
                self.put_raw(file, raw)?;
            }
            Ok(())
        })
    }

    /// Writes live lines that get others added after them. Their checkpoints can no longer be gone
    /// back to, because the added lines may use the same ids.
    fn put_own(&mut self, file: &dyn StorageFile, start: u64, end: u64) -> io::Result<()> {
        for_each_line(
            file,
            start,
            end,
            &mut |raw| match session_file::classify(raw.text) {
                Kind::Blank | Kind::Transient => Ok(()),
                Kind::Control => self.put_line(&session_file::without_place(raw.text)),
                Kind::Message | Kind::Corrupt => self.put_raw(file, raw),
            },
        )
    }

    /// Writes a line as it stands in `file`, also one that is too long to be read.
    fn put_raw(&mut self, file: &dyn StorageFile, raw: Raw<'_>) -> io::Result<()> {
        if !raw.is_huge() {
            return self.put_line(raw.text);
        }
        self.copy_range(file, raw.begin..raw.begin + raw.len)?;
        self.buffer.push(b'\n');
        self.lines += 1;
        Ok(())
    }

    fn copy_range(&mut self, file: &dyn StorageFile, range: Range<u64>) -> io::Result<()> {
        self.write_out()?;
        let mut at = range.start;
        while at < range.end {
            let want = (range.end - at).min(self.steps.size() as u64) as usize;
            self.buffer.resize(want, 0);
            file.read_exact_at(&mut self.buffer, at)?;
            at += want as u64;
            self.step()?;
        }
        Ok(())
    }

    fn put_bytes(
        &mut self,
        file: Option<&dyn StorageFile>,
        len: u64,
        rest: &[u8],
        skip: u64,
    ) -> io::Result<()> {
        let skip = i64::try_from(skip).unwrap_or(i64::MAX);
        let extent = extent::measure(file, len, rest, skip)?;
        (self.lines, self.start, self.torn) = (extent.lines, extent.start, extent.torn);
        if let Some(file) = file {
            self.copy_range(file, 0..len)?;
        }
        self.buffer.extend_from_slice(rest);
        Ok(())
    }

    /// Writes all lines as they are, except one, which becomes the last of the hidden ones.
    fn put_amended(&mut self, amended: &AmendedFile) -> io::Result<()> {
        let AmendedFile {
            file,
            start,
            end,
            old,
            line,
            lines,
            torn,
        } = amended;
        // A last line without LF would weld with the line after it.
        let (old_torn, last_torn) = (*torn && old.end == *end, *torn && old.end < *end);
        self.copy_range(&**file, 0..*start)?;
        self.copy_range(&**file, old.clone())?;
        self.buffer.extend(old_torn.then_some(b'\n'));
        self.start = self.len + self.buffer.len() as u64;
        self.copy_range(&**file, *start..old.start)?;
        self.buffer.extend_from_slice(line);
        self.copy_range(&**file, old.end..*end)?;
        self.buffer.extend(last_torn.then_some(b'\n'));
        self.lines = lines + u64::from(!line.is_empty());
        Ok(())
    }

    /// Writes a session that has lost its key to another, and that one's lines after it. The hidden
    /// lines of both come first: the hidden lines of a file are always its first.
    fn put_moved(&mut self, moved: &MovedFile) -> io::Result<()> {
        let MovedFile { older, own, .. } = moved;
        let Some(own) = own else {
            if let Some(file) = &older.file {
                self.copy_range(&**file, 0..older.end)?;
            }
            self.hidden.skip = older.skip.min(older.lines);
            (self.lines, self.start, self.torn) = (older.lines, older.start, older.torn);
            return Ok(());
        };
        self.put_all(older, 0..older.start, true)?;
        self.put_all(own, 0..own.start, false)?;
        self.hidden.skip = self.lines;
        self.start = self.len + self.buffer.len() as u64;
        self.put_all(older, older.start..older.end, true)?;
        if let Some(file) = &own.file {
            // Its control records hold, not those of the older session.
            self.put_controls(&**file, own.start)?;
        }
        self.put_all(own, own.start..own.end, false)
    }

    /// Writes lines as they are. The checkpoints of the `older` session can no longer be gone back
    /// to: the other's lines use the same ids.
    fn put_all(&mut self, from: &FileLines, range: Range<u64>, older: bool) -> io::Result<()> {
        let Some(file) = from.file.as_deref() else {
            return Ok(());
        };
        for_each_line(file, range.start, range.end, &mut |raw| {
            if older && session_file::classify(raw.text) == Kind::Control {
                return self.put_line(&session_file::without_place(raw.text));
            }
            self.put_raw(file, raw)
        })
    }

    fn put_line(&mut self, raw: &[u8]) -> io::Result<()> {
        self.buffer.extend_from_slice(raw);
        self.buffer.push(b'\n');
        // Empty lines are never counted, here or elsewhere.
        self.lines += u64::from(!matches!(raw, b"" | b"\r"));
        if self.buffer.len() >= self.steps.size() {
            self.step()?;
        }
        Ok(())
    }

    fn step(&mut self) -> io::Result<()> {
        let is_more = !self.buffer.is_empty();
        self.write_out()?;
        let clock = &self.shared.clock;
        let started = clock.monotonic();
        self.file.sync_data()?;
        if is_more {
            let took = clock.monotonic().saturating_sub(started);
            self.steps.took(took);
        }
        Ok(())
    }

    fn write_out(&mut self) -> io::Result<()> {
        self.file.write_all_at(&self.buffer, self.len)?;
        self.len += self.buffer.len() as u64;
        self.crc.update(&self.buffer);
        self.buffer.clear();
        Ok(())
    }

    fn finish(mut self, temp: String) -> io::Result<PreparedFile> {
        self.step()?;
        self.steps.end(&self.shared.last_rewrite);
        Ok(PreparedFile {
            temp,
            file: self.file,
            len: self.len,
            crc: self.crc.finalize(),
            lines: self.lines,
            start: self.start,
            torn: self.torn,
            small: Vec::new(),
            hidden: self.hidden,
            backups: Vec::new(),
        })
    }
}

/// True if a compaction keeps the line.
pub(super) fn is_copied(raw: Raw<'_>) -> bool {
    let kind = session_file::classify(raw.text);
    !matches!(kind, Kind::Blank | Kind::Transient)
}
