//! Writing settled lines to the session files, many at a time.
//!
//! The journal already holds them and readers already see them, so this waits
//! a moment: all that came to a session meanwhile goes out as one write. Other
//! programs that follow the file see a line within that moment.

use crate::disk::files;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::buffers::Buffers;
use super::turn::Turn;
use super::{Shard, Unwritten};
use crate::engine::snapshot::Tail;
use crate::error::{Error, Result};
use crate::ground::storage::{OpenMode, StorageFile};

impl Shard {
    /// Bytes that wait to be written to session files.
    pub(super) fn unwritten_bytes(&self) -> usize {
        self.unwritten_bytes
    }

    /// How many sessions wait to be written.
    pub(super) fn unwritten_sessions(&self) -> usize {
        self.unwritten.len()
    }

    /// Since when the session waits that waits longest.
    pub(super) fn unwritten_since(&self) -> Option<Duration> {
        self.unwritten.front().map(|oldest| oldest.since)
    }

    /// Writes out up to `most` sessions that wait since `upto` or longer, those that
    /// wait longest first; how many.
    ///
    /// # Errors
    /// As [`write_out`](Self::write_out), if not even one was written.
    pub(super) fn write_some(
        &mut self,
        most: usize,
        upto: Duration,
        turn: &mut Turn<'_>,
    ) -> Result<usize> {
        let mut done = 0;
        while done < most {
            let oldest = self.unwritten.front();
            let Some(oldest) = oldest.filter(|oldest| oldest.since <= upto) else {
                break;
            };
            match self.write_out(oldest.session, turn) {
                Err(error) if done == 0 => return Err(error),
                Err(_) => break,
                Ok(()) => done += 1,
            }
        }
        Ok(done)
    }

    /// Brings a session's file up to what the journal holds synced.
    ///
    /// # Errors
    /// `StorageFull`, or no descriptor left: the lines stay in memory and in
    /// the journal, and the next call tries again. Anything else stops the
    /// store: the file may hold part of a line, which recovery mends.
    pub(super) fn write_out(&mut self, id: usize, turn: &mut Turn<'_>) -> Result<()> {
        if self.session(id).unwritten() == 0 {
            self.forget_unwritten(id);
            return Ok(());
        }
        let result = self.try_write(id, turn);
        match &result {
            Ok(()) => self.full = false,
            Err(error) if error.may_pass() => {
                self.full = true;
                let what = "lines stay in the journal until they can be written";
                turn.shared.warn(error, what);
            }
            Err(error) => {
                turn.out.stop_store(error);
            }
        }
        result
    }

    /// Refuses new lines while those before them find no space.
    pub(super) fn make_room(&mut self, turn: &mut Turn<'_>) -> Result<()> {
        if !self.full {
            return Ok(());
        }
        let Some(oldest) = self.unwritten.front() else {
            self.full = false;
            return Ok(());
        };
        self.write_out(oldest.session, turn)
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

    /// Nothing of the session waits to be written any more.
    pub(super) fn forget_unwritten(&mut self, id: usize) {
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
    }

    fn try_write(&mut self, id: usize, turn: &mut Turn<'_>) -> Result<()> {
        let file = self.file_to_write(id, turn)?;
        let session = self.session(id);
        let (at, len) = (session.written, session.unwritten());
        let bytes = session.tail.copy(0..len);
        if let Err(e) = file.write_all_at(&bytes, at) {
            let path = files::log_path(&turn.shared.dir, &session.entry.stem);
            let error = Error::io("append to", &path, e);
            // Part of a line must not stand at the end for others to see.
            if error.may_pass() && file.set_len(at).is_err() {
                turn.out.stop_store(&error);
            }
            return Err(error);
        }
        let counters = &turn.shared.counters;
        counters
            .session_bytes
            .fetch_add(len as u64, Ordering::Relaxed);
        self.forget_unwritten(id);
        let session = self.session(id);
        session.advance(len, turn.buffers);
        Ok(())
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
                    // It appeared since the session was loaded; it is not ours
                    // to overwrite.
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
    /// `len` bytes of the tail are in the file now; readers that hold the old
    /// tail keep it.
    fn advance(&mut self, len: usize, buffers: &mut Buffers) {
        self.written += len as u64;
        let rest = self.tail.behind(len, || buffers.take());
        let old = std::mem::replace(&mut self.tail, rest);
        self.publish();
        if let Some(room) = Tail::into_room(old) {
            buffers.put(room);
        }
    }
}
