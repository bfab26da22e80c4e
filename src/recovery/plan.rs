//! What the journal says about each session, folded into one plan.

use std::collections::{BTreeMap, BTreeSet};

use crate::journal::record::{MetaState, Record};
use crate::session_file::{self, SessionMeta};
use crate::shard::backup::Name;

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
#[derive(Debug, Default, Clone)]
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
#[derive(Debug, Clone)]
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
#[derive(Debug, Clone)]
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
}

impl Plans {
    /// Takes in the next record.
    pub(crate) fn add(&mut self, record: &Record<'_>) {
        self.records += 1;
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

impl Plan {
    fn append(&mut self, offset: u64, bytes: &[u8]) {
        let (start, lines) = self.appended.get_or_insert_with(|| (offset, Vec::new()));
        // Records of one session follow each other without a gap: what one
        // appends begins where the one before ended.
        debug_assert_eq!(*start + lines.len() as u64, offset);
        lines.extend_from_slice(bytes);
    }

    fn set_image(&mut self, image: &[u8]) {
        // Images are our own encoding behind a checksum; one that does not
        // decode leaves the sidecar that is there.
        self.image = session_file::decode_sidecar(image).ok();
        self.patch = None;
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
