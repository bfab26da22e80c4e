//! Searching the messages that compactions dropped.

use std::collections::{BTreeMap, VecDeque};
use std::io;

use sessionlog_core::error::{Error, Result};
use sessionlog_wal::clock::{Clock, SystemClock};

use super::{Quarry, SearchRest, Work};
use crate::disk::archive::{ArchivePart, UnderWay, in_order};
use crate::engine::glance::SessionLines;
use crate::engine::numbering::Numbering;
use crate::engine::search::Room;
use crate::front::handle::archiving;
use crate::front::handle::finding::{ListedSession, Sight};

/// The parts of all sessions in the archive, as last looked at.
#[derive(Debug, Default)]
pub(super) struct ArchiveParts {
    /// The archive directory's time of change when it was looked at.
    changed: Option<i128>,
    of: BTreeMap<String, Vec<ArchivePart>>,
}

/// The number of times that a session is looked at again because its lines went to the archive
/// meanwhile.
const TRIES: usize = 20;

/// The time within which two changes of a directory may have the same time stamp, in nanoseconds:
/// file systems take stamps from a clock that ticks every 1 to 10 ms.
const TICK: i128 = 50_000_000;

/// True if a directory that changed at this time may change once more without a new time stamp.
fn may_change_unseen(changed: i128) -> bool {
    SystemClock::default().now().unix_timestamp_nanos() - changed < TICK
}

impl Quarry {
    /// The parts of a session in the archive; none if the archive is not searched.
    fn parts_of(&self, stem: &str) -> Result<Vec<ArchivePart>> {
        let Some(parts) = &self.archived else {
            return Ok(Vec::new());
        };
        let (storage, dir) = (self.chats.storage(), archiving::dir_of(&self.chats));
        let changed = match storage.info(&dir) {
            Ok(info) => Some(info.changed),
            Err(e) if e.kind() == io::ErrorKind::NotFound => None,
            Err(e) => return Err(Error::io("list", &dir, e)),
        };
        let mut parts = parts.lock();
        if parts.changed != changed || changed.is_some_and(may_change_unseen) {
            parts.of.clear();
            for part in archiving::parts(&*storage, &dir)? {
                parts.of.entry(part.stem.clone()).or_default().push(part);
            }
            parts.changed = changed;
        }
        Ok(parts.of.get(stem).cloned().unwrap_or_default())
    }

    /// A moment of a session, and its archive at that moment. Otherwise lines that a compaction
    /// moves to the archive meanwhile would be in neither, or in both.
    pub(super) fn beside_archive<T>(
        &self,
        stem: &str,
        moment: impl Fn() -> T,
    ) -> Result<(Vec<ArchivePart>, T)> {
        let mut parts = self.parts_of(stem)?;
        for _ in 1..TRIES {
            let seen = moment();
            let now = self.parts_of(stem)?;
            if now == parts {
                return Ok((parts, seen));
            }
            parts = now;
        }
        Ok((parts, moment()))
    }

    /// The hits in a session's archive, as far as there is room, and whether all its parts stayed
    /// meanwhile. A part that takes another's place has more lines, and the session's file has
    /// those, too.
    pub(super) fn unpacked(
        &self,
        session: &ListedSession,
        parts: &[ArchivePart],
        room: &Room,
        sight: &dyn Sight,
    ) -> (Vec<Work>, bool) {
        let key = &session.1;
        let mut found = Vec::new();
        // If a sidecar cannot be read, the error is reported with the session's lines.
        if parts.is_empty() || !self.admits(sight, session).is_ok_and(|is| is) {
            return (found, true);
        }
        let (storage, dir) = (self.chats.storage(), archiving::dir_of(&self.chats));
        let mut stayed = true;
        for part in in_order(parts.to_vec()) {
            if room.is_full() {
                found.push(Work::Unpack(key.clone(), part));
            } else {
                found.extend(self.unpack(key, &part, room));
                stayed &= storage.info(&dir.join(part.to_text())).is_ok();
            }
        }
        (found, stayed)
    }

    /// The hits in a part of a session's archive, or in the part that took its place.
    pub(super) fn unpack(&self, key: &str, part: &ArchivePart, room: &Room) -> Vec<Work> {
        let (storage, dir) = (self.chats.storage(), archiving::dir_of(&self.chats));
        let lines = match archiving::read(&*storage, &dir, key, part) {
            Ok(Some(lines)) => lines,
            Ok(None) => return Vec::new(),
            Err(error) => {
                let now = archiving::parts(&*storage, &dir).unwrap_or_default();
                let now = now.into_iter().filter(|now| now.stem == part.stem);
                let replaced = now
                    .filter(|now| now.replaces(part))
                    .max_by_key(|now| now.last);
                return match replaced {
                    Some(now) => self.unpack(key, &now, room),
                    None => vec![Work::Tell(vec![Err(error)])],
                };
            }
        };
        let rest = SearchRest {
            key: key.to_owned(),
            lines: SessionLines::of_parts(None, 0, lines),
            numbering: Numbering::default(),
            start: 0,
            shown: 0,
            archived: Some(part.month.clone()),
        };
        let mut work = VecDeque::new();
        self.go_on(rest, room, &mut work);
        work.into()
    }
}

impl SearchRest {
    /// The offset of the first hidden line that no part of the archive has: a compaction that is
    /// under way, or was cut short, may have archived some hidden lines.
    pub(super) fn begin_of_hidden(&self, parts: &[ArchivePart]) -> u64 {
        let begun = in_order(parts.to_vec()).pop();
        let begun = begun.and_then(|part| part.under_way);
        let begun = begun.filter(|begun| begun.upto <= self.shown);
        let is_its = |begun: &UnderWay| {
            self.lines
                .checksum(begun.upto)
                .is_ok_and(|check| check == begun.check)
        };
        begun.filter(is_its).map_or(0, |begun| begun.upto)
    }
}
