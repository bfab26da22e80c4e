//! Searching what compactions dropped.

use std::collections::VecDeque;

use super::{Quarry, Rest, Work};
use crate::disk::archive::{Part, in_order};
use crate::engine::glance::Lines;
use crate::engine::position::Numbering;
use crate::engine::search::Room;
use crate::error::Result;
use crate::front::handle::archiving;
use crate::front::handle::finding::{Listed, Source};

impl Quarry {
    /// Looks what there is in the archive, if that is searched.
    pub(super) fn list_archive(&mut self) -> Result<()> {
        let dir = archiving::dir_of(&self.chats);
        if let Some(archived) = &mut self.archived {
            for part in archiving::parts(&*self.chats.storage(), &dir)? {
                archived.entry(part.stem.clone()).or_default().push(part);
            }
        }
        Ok(())
    }

    /// What is found in the archive of a session, as far as there is room.
    pub(super) fn unpacked(
        &self,
        session: &Listed,
        room: &Room,
        source: &impl Source,
    ) -> Vec<Work> {
        let (stem, key) = session;
        let parts = self.archived.as_ref().and_then(|all| all.get(stem));
        let mut found = Vec::new();
        // Whose sidecar cannot be read is told of when its lines are.
        let Some(parts) = parts.filter(|_| self.admits(source, session).is_ok_and(|is| is)) else {
            return found;
        };
        for part in in_order(parts.clone()) {
            if room.is_full() {
                found.push(Work::Unpack(key.clone(), part));
            } else {
                found.extend(self.unpack(key, &part, room));
            }
        }
        found
    }

    /// What is found in a part of a session's archive, or in those that took its place.
    pub(super) fn unpack(&self, key: &str, part: &Part, room: &Room) -> Vec<Work> {
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
        let rest = Rest {
            key: key.to_owned(),
            lines: Lines::of_parts(None, 0, lines),
            numbering: Numbering::default(),
            start: 0,
            archived: Some(part.month.clone()),
        };
        let mut work = VecDeque::new();
        self.go_on(rest, room, &mut work);
        work.into()
    }
}
