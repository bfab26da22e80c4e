//! Writes settled lines to the session files, many at a time.
//!
//! The journal already holds them and readers already see them, so this waits a moment: all lines
//! that came to a session meanwhile go out as one write. Other programs that follow the file see a
//! line within that moment.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use sessionlog_core::error::{Error, Result};
use sessionlog_wal::storage::{OpenMode, StorageFile};

use super::errand::LinesToWrite;
use super::turn::Turn;
use super::{Resident, Shard, Unwritten};
use crate::disk::files;

impl Shard {
    /// Returns the number of bytes that wait to be written to session files.
    pub(super) fn unwritten_bytes(&self) -> usize {
        self.unwritten_bytes
    }

    /// Returns the number of sessions that wait to be written.
    pub(super) fn unwritten_sessions(&self) -> usize {
        self.unwritten.len()
    }

    /// Returns the time since which the longest-waiting session waits.
    pub(super) fn unwritten_since(&self) -> Option<Duration> {
        self.unwritten.front().map(|oldest| oldest.since)
    }

    /// Returns the session that waits longest, if it waits since `upto` or longer.
    pub(super) fn next_unwritten(&self, upto: Duration) -> Option<usize> {
        let oldest = self.unwritten.front();
        let due = oldest.filter(|oldest| oldest.since <= upto);
        due.map(|oldest| oldest.session)
    }

    /// Brings a session's file up to the lines that the journal holds synced.
    ///
    /// # Errors
    /// `StorageFull`, or no descriptor left: the lines stay in memory and in the journal, and the
    /// next call tries again. Anything else stops the store: the file may hold part of a line,
    /// which recovery mends.
    pub(super) fn write_out(&mut self, id: usize, turn: &mut Turn<'_>) -> Result<()> {
        let Some(lines) = self.begin_lines(id, turn)? else {
            return Ok(());
        };
        let written = lines.write();
        self.finish_lines(id, &lines, written, turn)
    }

    /// Returns the lines to write to a session's file; `None` if it is up to date.
    ///
    /// # Errors
    /// As [`write_out`](Self::write_out).
    pub(super) fn begin_lines(
        &mut self,
        id: usize,
        turn: &mut Turn<'_>,
    ) -> Result<Option<LinesToWrite>> {
        if self.session(id).unwritten() == 0 {
            self.forget_unwritten(id, turn);
            return Ok(None);
        }
        let file = self.file_to_write(id, turn);
        let file = file.inspect_err(|error| self.not_written(error, turn))?;
        let session = self.session(id);
        Ok(Some(LinesToWrite {
            file,
            at: session.written,
            bytes: session.tail.copy(0..session.unwritten()),
        }))
    }

    /// Notes the result of writing lines.
    ///
    /// # Errors
    /// As [`write_out`](Self::write_out).
    pub(super) fn finish_lines(
        &mut self,
        id: usize,
        lines: &LinesToWrite,
        written: io::Result<()>,
        turn: &mut Turn<'_>,
    ) -> Result<()> {
        if let Err(e) = written {
            let path = files::log_path(&turn.shared.dir, &self.session(id).entry.stem);
            let error = Error::io("append to", &path, e);
            // Part of a line must not stand at the end for others to see.
            if error.may_pass() && lines.file.set_len(lines.at).is_err() {
                turn.out.stop_store(&error);
            }
            self.not_written(&error, turn);
            return Err(error);
        }
        let len = lines.bytes.len();
        turn.shared.counters.session_bytes.add(len as u64);
        self.forget_written(id, len, turn);
        self.session(id).advance(len);
        self.set_full(false, turn);
        Ok(())
    }

    fn not_written(&mut self, error: &Error, turn: &mut Turn<'_>) {
        if error.may_pass() {
            self.keep_unwritten();
            self.set_full(true, turn);
            let what = "lines stay in the journal until they can be written";
            turn.shared.warn(error, what);
        } else {
            turn.out.stop_store(error);
        }
    }

    /// Refuses new lines while earlier lines find no space: those of this shard, or too many of its
    /// worker's other shards.
    pub(super) fn make_room(&mut self, turn: &mut Turn<'_>) -> Result<()> {
        if !self.full && turn.no_room.is_none() {
            return Ok(());
        }
        if let Some(oldest) = self.unwritten.front() {
            return self.write_out(oldest.session, turn);
        }
        self.set_full(false, turn);
        turn.no_room.cloned().map_or(Ok(()), Err)
    }

    /// Notes that lines that wait to be written may wait for long from here on.
    pub(super) fn keep_unwritten(&mut self) {
        for waiting in &self.unwritten {
            if let Resident::Ready(session) = &self.sessions[waiting.session] {
                session.tail.keep_lines();
            }
        }
    }

    fn set_full(&mut self, full: bool, turn: &Turn<'_>) {
        if self.full != full {
            self.full = full;
            turn.shared.full.set(self.id, full);
        }
    }

    pub(super) fn note_unwritten(&mut self, id: usize, bytes: usize, turn: &Turn<'_>) {
        self.unwritten_bytes += bytes;
        let session = self.session(id);
        if !session.listed_unwritten {
            session.listed_unwritten = true;
            self.unwritten.push_back(Unwritten {
                session: id,
                since: turn.shared.clock.monotonic(),
            });
        }
    }

    /// Notes that `len` bytes of the session wait no more; later lines wait their own time.
    fn forget_written(&mut self, id: usize, len: usize, turn: &Turn<'_>) {
        let left = self.session(id).unwritten() - len;
        self.forget_unwritten(id, turn);
        if left > 0 {
            self.note_unwritten(id, left, turn);
        }
    }

    /// Notes that nothing of the session waits to be written any more.
    pub(super) fn forget_unwritten(&mut self, id: usize, turn: &Turn<'_>) {
        let session = self.session(id);
        let bytes = session.unwritten();
        if !session.listed_unwritten {
            return;
        }
        session.listed_unwritten = false;
        self.unwritten_bytes -= bytes;
        if self.unwritten.front().is_some_and(|own| own.session == id) {
            self.unwritten.pop_front();
        } else {
            self.unwritten.retain(|other| other.session != id);
        }
        if self.unwritten.is_empty() {
            self.set_full(false, turn);
        }
    }

    fn file_to_write(&mut self, id: usize, turn: &mut Turn<'_>) -> Result<Arc<dyn StorageFile>> {
        if let Some(file) = self.file(id, turn)? {
            return Ok(file);
        }
        let path = files::log_path(&turn.shared.dir, &self.session(id).entry.stem);
        let file = self.with_descriptor(&turn.shared.keeper, || {
            turn.shared
                .storage
                .open(&path, OpenMode::CreateNew)
                .map_err(|e| match e.kind() {
                    // It appeared since the session was loaded; it is not ours to overwrite.
                    io::ErrorKind::AlreadyExists => Error::Corrupt {
                        path: path.clone(),
                        detail: String::from("another program created this file meanwhile"),
                    },
                    _ => Error::io("create", &path, e),
                })
        })?;
        self.session(id).file = Some(file.clone());
        self.used(id);
        Ok(file)
    }
}

impl super::session::Session {
    /// Notes that `len` bytes of the tail are in the file now; readers that hold the old tail keep
    /// it.
    fn advance(&mut self, len: usize) {
        self.written += len as u64;
        self.tail = self.tail.behind(len);
        self.publish();
    }
}
