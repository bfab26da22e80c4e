//! What the journal says about each session, folded into one plan.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use crate::copies::lost::Restored;
use crate::error::{Error, Result};
use crate::journal::record::{MetaState, Record};
use crate::session_file::{self, SessionMeta};
use crate::shard::backup::Name;
use crate::shard::rewrite::is_temp_name;

/// What must be true of a session's files.
#[derive(Debug, Default, Clone)]
pub(crate) struct Plan {
    pub(crate) base: Base,
    /// Lines behind the base: where the first begins, and all of them.
    pub(crate) appended: Option<(u64, Vec<u8>)>,
    /// The sidecar, as far as the journal holds it whole.
    pub(crate) image: Option<SessionMeta>,
    /// What changed since, or since the sidecar on disk.
    pub(crate) patch: Option<Patch>,
}

/// The fields an append changes.
#[derive(Debug, Clone)]
pub(crate) struct Patch {
    pub(crate) skip: i64,
    pub(crate) count: i64,
    pub(crate) updated_at: String,
}

/// What a session's file is before the lines appended to it.
#[derive(Debug, Default, Clone, PartialEq)]
pub(crate) enum Base {
    /// The file that is there.
    #[default]
    OnDisk,
    /// Nothing: the session was deleted.
    Deleted,
    /// A prepared file.
    Swapped(Swap),
    /// The first bytes of a backup.
    Prefix(Prefix),
}

/// What a session was taken back to.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Prefix {
    /// The backup's file name.
    pub(crate) of: String,
    pub(crate) len: u64,
}

/// A session's file that became a backup.
#[derive(Debug, Clone)]
pub(crate) struct Kept {
    /// The backup's file name, and the one it may still have.
    pub(crate) name: String,
    pub(crate) link: String,
    /// What must be true of it: what had to be true of the session's file.
    pub(crate) plan: Plan,
}

/// A prepared file that takes a session file's name.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Swap {
    pub(crate) temp: String,
    pub(crate) len: u64,
    pub(crate) crc: u32,
    pub(crate) tail: Vec<u8>,
}

/// All sessions the journal speaks of, by file name.
#[derive(Debug, Default)]
pub(crate) struct Plans {
    pub(crate) sessions: BTreeMap<String, Plan>,
    /// Backups, in the order in which they were made: a later one may be made
    /// of an earlier one.
    pub(crate) backups: Vec<Kept>,
    /// Where each backup stands in `backups`, by its file name.
    places: BTreeMap<String, usize>,
    /// Sessions that were deleted: their backups from before are gone.
    pub(crate) deleted: BTreeSet<String>,
    pub(crate) records: u64,
    /// What the first record says that no engine wrote.
    unsound: Option<&'static str>,
}

impl Plans {
    /// Takes in the next record, if it is one that an engine may have written.
    pub(crate) fn add(&mut self, record: &Record<'_>) {
        self.records += 1;
        match self.flaw_of(record) {
            Some(flaw) => {
                self.unsound.get_or_insert(flaw);
            }
            None => self.apply(record),
        }
    }

    /// A checksum tells accidents, not what a record may say. Carried out, one
    /// that no engine wrote could write outside the directory or over lines.
    ///
    /// # Errors
    /// `Corrupt` if there was such a record in the journal at `path`.
    pub(crate) fn require_sound(&self, path: &Path) -> Result<()> {
        match self.unsound {
            None => Ok(()),
            Some(flaw) => Err(Error::Corrupt {
                path: path.into(),
                detail: format!("journal record {flaw}"),
            }),
        }
    }

    fn flaw_of(&self, record: &Record<'_>) -> Option<&'static str> {
        let stem = match *record {
            Record::Append {
                stem,
                offset,
                bytes,
                ..
            } => {
                let known = self.sessions.get(stem).and_then(Plan::end);
                if known.is_some_and(|end| end != offset) {
                    return Some("does not follow the one before it");
                }
                if !is_position(offset, bytes) {
                    return Some("lies beyond every file");
                }
                stem
            }
            Record::Swap {
                stem,
                temp,
                base_len,
                tail,
                ..
            } => {
                if !is_temp_name(temp) || !is_name(temp) {
                    return Some("names a file that is not ours");
                }
                if !is_position(base_len, tail) {
                    return Some("lies beyond every file");
                }
                stem
            }
            Record::Rebase {
                stem,
                of,
                len,
                link,
                backup,
                ..
            } => {
                let named = [link, backup].iter().all(|n| n.is_empty() || is_name(n));
                if !named || !is_name(of) {
                    return Some("names a file that is not ours");
                }
                if !is_position(len, b"") {
                    return Some("lies beyond every file");
                }
                stem
            }
            Record::Meta { stem, .. } | Record::Delete { stem, .. } => stem,
            Record::Checkpoint { .. } | Record::Commit(_) => return None,
        };
        (!is_name(stem)).then_some("names no file of this directory")
    }

    fn apply(&mut self, record: &Record<'_>) {
        match *record {
            Record::Append {
                stem,
                offset,
                meta,
                bytes,
                ..
            } => {
                let plan = self.plan(stem);
                plan.append(offset, bytes);
                match meta {
                    MetaState::Image(image) => plan.set_image(image),
                    MetaState::Patch {
                        skip,
                        count,
                        updated_at,
                    } => {
                        plan.patch = Some(Patch {
                            skip,
                            count,
                            updated_at: updated_at.into(),
                        });
                    }
                }
            }
            Record::Meta { stem, image, .. } => {
                let plan = self.plan(stem);
                plan.revive();
                plan.set_image(image);
            }
            Record::Swap {
                stem,
                image,
                temp,
                base_len,
                base_crc,
                tail,
                ..
            } => {
                let plan = self.plan(stem);
                *plan = Plan {
                    base: Base::Swapped(Swap {
                        temp: temp.into(),
                        len: base_len,
                        crc: base_crc,
                        tail: tail.to_vec(),
                    }),
                    ..Plan::default()
                };
                plan.set_image(image);
            }
            Record::Rebase {
                stem,
                image,
                of,
                len,
                link,
                backup,
                ..
            } => {
                let plan = self.plan(stem);
                let base = Base::Prefix(Prefix { of: of.into(), len });
                let was = std::mem::take(plan);
                plan.base = base;
                plan.set_image(image);
                if !backup.is_empty() {
                    self.keep(Kept {
                        name: backup.into(),
                        link: link.into(),
                        plan: was,
                    });
                }
            }
            Record::Delete { stem, .. } => {
                let other = |kept: &Kept| Name::parse(&kept.name).is_none_or(|n| n.stem != stem);
                let kept = std::mem::take(&mut self.backups);
                self.places.clear();
                kept.into_iter()
                    .filter(other)
                    .for_each(|kept| self.keep(kept));
                self.deleted.insert(stem.into());
                *self.plan(stem) = Plan {
                    base: Base::Deleted,
                    ..Plan::default()
                };
            }
            Record::Checkpoint { .. } | Record::Commit(_) => {}
        }
    }

    /// The backup of this name, if the journal made it.
    pub(crate) fn backup(&self, name: &str) -> Option<&Kept> {
        self.places.get(name).map(|&place| &self.backups[place])
    }

    fn keep(&mut self, kept: Kept) {
        let place = self.backups.len();
        self.places.entry(kept.name.clone()).or_insert(place);
        self.backups.push(kept);
    }

    /// Whether a backup from before the journal's records is gone.
    pub(crate) fn unmakes(&self, backup: &Name) -> bool {
        self.deleted.contains(&backup.stem) && self.backup(&backup.to_text()).is_none()
    }

    fn plan(&mut self, stem: &str) -> &mut Plan {
        if !self.sessions.contains_key(stem) {
            self.sessions.insert(stem.into(), Plan::default());
        }
        self.sessions.entry(stem.into()).or_default()
    }
}

/// Whether this names a file of the directory, and none elsewhere.
fn is_name(name: &str) -> bool {
    !name.is_empty() && !name.contains(['/', '\0'])
}

/// Whether a file can have `bytes` at `offset`.
fn is_position(offset: u64, bytes: &[u8]) -> bool {
    let end = offset.checked_add(bytes.len() as u64);
    end.is_some_and(|end| i64::try_from(end).is_ok())
}

impl Plan {
    fn append(&mut self, offset: u64, bytes: &[u8]) {
        let (_, lines) = self.appended.get_or_insert_with(|| (offset, Vec::new()));
        lines.extend_from_slice(bytes);
    }

    /// Where the next lines begin, as far as the journal tells: records of one
    /// session follow each other without a gap.
    fn end(&self) -> Option<u64> {
        match (&self.appended, &self.base) {
            (Some((start, lines)), _) => Some(start + lines.len() as u64),
            (None, Base::Deleted) => Some(0),
            (None, Base::Swapped(swap)) => Some(swap.len + swap.tail.len() as u64),
            (None, Base::Prefix(prefix)) => Some(prefix.len),
            (None, Base::OnDisk) => None,
        }
    }

    fn set_image(&mut self, image: &[u8]) {
        // Images are our own encoding behind a checksum; one that does not
        // decode leaves the sidecar that is there.
        self.image = session_file::decode_sidecar(image).ok();
        self.patch = None;
    }

    /// Whether it says what `before` said, and perhaps of more lines behind: the
    /// same file, and as many lines hidden.
    pub(crate) fn only_adds_to(&self, before: &Self) -> bool {
        let follows = match (&before.appended, &self.appended) {
            (None, _) => true,
            (Some((start, lines)), Some((now, all))) => start == now && all.starts_with(lines),
            (Some(_), None) => false,
        };
        follows && self.base == before.base && self.skip() == before.skip()
    }

    /// How many lines are hidden, if the journal says it.
    fn skip(&self) -> Option<i64> {
        let patched = self.patch.as_ref().map(|patch| patch.skip);
        patched.or(self.image.as_ref().map(|image| image.skip))
    }

    /// A sidecar written after a deletion makes the session exist again.
    fn revive(&mut self) {
        if matches!(self.base, Base::Deleted) && self.appended.is_none() {
            self.appended = Some((0, Vec::new()));
        }
    }

    /// The lines behind the base.
    pub(crate) fn appended(&self) -> &[u8] {
        self.appended.as_ref().map_or(&[], |(_, lines)| lines)
    }

    /// Whether the session has files when the plan is carried out.
    pub(crate) fn exists(&self) -> bool {
        !matches!(self.base, Base::Deleted) || self.appended.is_some()
    }

    /// The sidecar that holds, given one made again of its copy. Beside a file
    /// that the copy was not made of, lines that the journal counts as hidden
    /// may be others.
    pub(crate) fn meta_restored(&self, restored: &Restored) -> SessionMeta {
        let mut meta = self.meta(|| restored.meta.clone());
        if self.image.is_none() && !restored.hides {
            meta.skip = 0;
        }
        meta
    }

    /// The sidecar that holds, given the one on disk.
    pub(crate) fn meta(&self, on_disk: impl FnOnce() -> SessionMeta) -> SessionMeta {
        let mut meta = self.image.clone().unwrap_or_else(on_disk);
        if let Some(patch) = &self.patch {
            meta.skip = patch.skip;
            meta.count = patch.count;
            meta.updated_at.clone_from(&patch.updated_at);
        }
        meta
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn append<'a>(stem: &'a str, offset: u64, bytes: &'a [u8]) -> Record<'a> {
        Record::Append {
            stem,
            generation: 1,
            offset,
            meta: MetaState::Patch {
                skip: 0,
                count: 1,
                updated_at: "",
            },
            bytes,
        }
    }

    fn is_sound(records: &[Record<'_>]) -> bool {
        let mut plans = Plans::default();
        for record in records {
            plans.add(record);
        }
        plans.require_sound(Path::new("journal")).is_ok()
    }

    #[test]
    fn records_that_no_engine_wrote_are_refused_and_not_carried_out() {
        assert!(is_sound(&[
            append("a", 5, b"{}\n"),
            append("a", 8, b"{}\n")
        ]));
        assert!(!is_sound(&[
            append("a", 5, b"{}\n"),
            append("a", 9, b"{}\n")
        ]));
        assert!(!is_sound(&[append("a", u64::MAX, b"{}\n")]));
        assert!(!is_sound(&[append("../a", 0, b"{}\n")]));
        assert!(!is_sound(&[append("", 0, b"{}\n")]));
        let delete = Record::Delete {
            stem: "a",
            generation: 1,
        };
        assert!(is_sound(&[
            append("a", 5, b"{}\n"),
            delete,
            append("a", 0, b"{}\n")
        ]));
        assert!(!is_sound(&[delete, append("a", 5, b"{}\n")]));
        let swap = |temp, base_len| Record::Swap {
            stem: "a",
            generation: 2,
            image: b"{}",
            temp,
            base_len,
            base_crc: 0,
            tail: b"",
        };
        assert!(is_sound(&[
            swap(".sessionlog-1.tmp", 7),
            append("a", 7, b"{}\n")
        ]));
        assert!(!is_sound(&[
            swap(".sessionlog-1.tmp", 7),
            append("a", 8, b"{}\n")
        ]));
        assert!(!is_sound(&[swap(".sessionlog-1.tmp", u64::MAX)]));
        assert!(!is_sound(&[swap("b.jsonl", 7)]));
        assert!(!is_sound(&[swap(".sessionlog-/../../b.tmp", 7)]));
    }
}
