//! The journal's records of each session, folded into one plan.

mod past;
mod session;
mod sound;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

pub(crate) use self::past::{Earlier, First, Past, SidecarEffect, count_lines};
use self::session::Patch;
pub(crate) use self::session::{
    AppendedLines, Base, Plan, PlannedBackup, PlannedSwap, Prefix, Run,
};
pub(crate) use self::sound::flaw;
use sessionlog_core::error::{Error, Result};
use sessionlog_wal::journal::record::{MetaState, Prior, Record};

use crate::disk::files::backup::BackupName;
use crate::disk::files::once::OnceContents;

/// All sessions that the journal names, by file name. Copies share the unchanged parts.
#[derive(Debug, Default, Clone)]
pub(crate) struct Plans<L = Run> {
    pub(crate) sessions: BTreeMap<String, Arc<Plan<L>>>,
    /// Backups, in the order in which they were made: a later one may be made
    /// of an earlier one.
    pub(crate) backups: Vec<Arc<PlannedBackup<L>>>,
    /// Backups that went with their session. A crash may have left files that were made of them.
    unmade: Vec<Arc<PlannedBackup<L>>>,
    /// The index of each backup in `backups`, by its file name.
    places: BTreeMap<String, usize>,
    /// Sessions that were deleted: their earlier backups are gone.
    pub(crate) deleted: BTreeSet<String>,
    /// The messages that each session took once.
    pub(crate) once: BTreeMap<String, Arc<PlannedOnce>>,
    pub(crate) records: u64,
    /// The flaw of the first record that no engine wrote.
    unsound: Option<&'static str>,
}

/// The journal's record of the messages that a session took once.
#[derive(Debug, Default, Clone)]
pub(crate) struct PlannedOnce {
    /// True if the session was deleted: the content of its file counts no more.
    pub(crate) anew: bool,
    /// The lines that name the messages.
    pub(crate) lines: Vec<String>,
}

impl PlannedOnce {
    /// Returns its lines that are not among those taken, each once, in their order.
    pub(crate) fn missing(&self, taken: &OnceContents) -> Vec<u8> {
        let missing = self.lines.iter().map(String::as_bytes);
        distinct(missing.filter(|line| !taken.lines.contains(*line)))
    }

    /// True if all its lines are among those taken.
    pub(crate) fn lacks_nothing(&self, taken: &OnceContents) -> bool {
        let mut lines = self.lines.iter().map(String::as_bytes);
        lines.all(|line| taken.lines.contains(line))
    }

    /// Returns the new content of the file that lines are added to, given its present `lines`: all
    /// lines, each once, the newest last. If older ones came after them, the messages that a
    /// platform may still deliver again would be forgotten first.
    pub(crate) fn after(&self, lines: &[u8]) -> Vec<u8> {
        let newer: BTreeSet<_> = self.lines.iter().map(String::as_bytes).collect();
        let older = lines.split_inclusive(|&byte| byte == b'\n');
        let older = older.filter(|line| line.ends_with(b"\n") && !newer.contains(line));
        distinct(older.chain(self.lines.iter().map(String::as_bytes)))
    }
}

fn distinct<'a>(lines: impl Iterator<Item = &'a [u8]>) -> Vec<u8> {
    let mut seen = BTreeSet::new();
    let distinct = lines.filter(|line| seen.insert(*line));
    distinct.flatten().copied().collect()
}

impl Plans {
    /// Takes in the next record, if an engine may have written it.
    pub(crate) fn add(&mut self, record: &Record<'_>) {
        self.records += 1;
        match self.flaw_of(record) {
            Some(flaw) => {
                self.unsound.get_or_insert(flaw);
            }
            None => self.apply(record),
        }
    }

    /// Fails if a record cannot be an engine's. A checksum reveals accidents, not the content of a
    /// record. Carried out, a record that no engine wrote could write outside the directory or over
    /// lines.
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
        let known = |stem: &str| self.sessions.get(stem).and_then(|plan| plan.end());
        match *record {
            Record::Append { stem, offset, .. } if known(stem).is_some_and(|end| end != offset) => {
                Some("does not follow the one before it")
            }
            _ => flaw(record),
        }
    }
}

impl<L: AppendedLines> Plans<L> {
    /// Takes in the content of the next record.
    pub(crate) fn apply(&mut self, record: &Record<'_>) {
        match *record {
            Record::Append {
                stem,
                offset,
                crc,
                meta,
                once,
                bytes,
                ..
            } => {
                self.take_once(stem, once);
                let plan = self.plan(stem);
                plan.begin(|| First::of_append(offset, crc, meta, bytes));
                if let MetaState::Changed { before, .. } = meta {
                    plan.past.changes(before);
                }
                plan.appended.append(offset, bytes);
                match meta {
                    MetaState::Image { image, .. }
                    | MetaState::First(image)
                    | MetaState::Changed { image, .. } => plan.set_image(image),
                    MetaState::Patch {
                        skip,
                        count,
                        updated_at,
                    } => plan.set_patch(Patch {
                        skip,
                        count,
                        updated_at: updated_at.into(),
                    }),
                }
            }
            Record::Meta {
                stem,
                before,
                image,
                ..
            } => {
                let plan = self.plan(stem);
                plan.past.before(before);
                plan.revive();
                plan.set_image(image);
            }
            Record::Swap {
                stem,
                before,
                image,
                temp,
                base_len,
                base_crc,
                tail,
                ..
            } => {
                let plan = self.plan(stem);
                plan.past.before(before);
                let was = plan.replace(Base::Swapped(PlannedSwap {
                    temp: temp.into(),
                    len: base_len,
                    crc: base_crc,
                    tail: tail.to_vec(),
                }));
                plan.past.earlier.push(was.into_earlier());
                plan.set_image(image);
            }
            Record::Rebase {
                stem,
                before,
                image,
                of,
                len,
                crc,
                link,
                backup,
                ..
            } => {
                let plan = self.plan(stem);
                plan.past.before(before);
                let was = plan.replace(Base::Prefix(Prefix {
                    of: of.into(),
                    len,
                    crc,
                    kept: backup.into(),
                }));
                if backup.is_empty() {
                    plan.past.earlier.push(was.into_earlier());
                    plan.set_image(image);
                } else {
                    plan.past.earlier.push(Earlier::Kept(backup.into()));
                    plan.set_image(image);
                    self.keep(Arc::new(PlannedBackup {
                        name: backup.into(),
                        link: link.into(),
                        plan: was,
                    }));
                }
            }
            Record::Delete { stem, before, .. } => self.delete(stem, before),
            Record::Checkpoint { .. } | Record::Commit(_) => {}
        }
    }

    fn take_once(&mut self, stem: &str, lines: &str) {
        if !lines.is_empty() {
            let once = self.once.entry(stem.into()).or_default();
            let lines = lines.split_inclusive('\n').map(String::from);
            Arc::make_mut(once).lines.extend(lines);
        }
    }

    /// Notes that the session and its backups are gone.
    fn delete(&mut self, stem: &str, before: Prior<'_>) {
        let own = |kept: &Arc<PlannedBackup<L>>| {
            BackupName::parse(&kept.name).is_some_and(|n| n.stem == stem)
        };
        let all = std::mem::take(&mut self.backups);
        let (unmade, others): (Vec<_>, Vec<_>) = all.into_iter().partition(own);
        self.unmade.extend(unmade);
        self.places.clear();
        for kept in others {
            self.keep(kept);
        }
        self.deleted.insert(stem.into());
        let anew = PlannedOnce {
            anew: true,
            ..PlannedOnce::default()
        };
        self.once.insert(stem.into(), Arc::new(anew));
        let plan = self.plan(stem);
        plan.past.before(before);
        let was = plan.replace(Base::Deleted);
        plan.past.earlier.push(was.into_earlier());
        plan.past.deleted = true;
        plan.past.said.push(SidecarEffect::Nothing);
    }

    /// Returns the backup of this name, if the journal made it.
    pub(crate) fn backup(&self, name: &str) -> Option<&PlannedBackup<L>> {
        self.places.get(name).map(|&place| &*self.backups[place])
    }

    /// Does the same, also for a backup that went with its session since.
    pub(crate) fn ever_backup(&self, name: &str) -> Option<&PlannedBackup<L>> {
        let unmade = || self.unmade.iter().rev().find(|kept| kept.name == name);
        self.backup(name).or_else(|| unmade().map(Arc::as_ref))
    }

    fn keep(&mut self, kept: Arc<PlannedBackup<L>>) {
        let place = self.backups.len();
        self.places.entry(kept.name.clone()).or_insert(place);
        self.backups.push(kept);
    }

    /// True if a backup from before the journal's records is gone.
    pub(crate) fn unmakes(&self, backup: &BackupName) -> bool {
        self.deleted.contains(&backup.stem) && self.backup(&backup.to_text()).is_none()
    }

    fn plan(&mut self, stem: &str) -> &mut Plan<L> {
        if !self.sessions.contains_key(stem) {
            self.sessions.insert(stem.into(), Arc::default());
        }
        Arc::make_mut(self.sessions.entry(stem.into()).or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sessionlog_wal::journal::record::Time;

    fn append<'a>(stem: &'a str, offset: u64, bytes: &'a [u8]) -> Record<'a> {
        Record::Append {
            stem,
            generation: 1,
            offset,
            crc: 0,
            meta: MetaState::Patch {
                skip: 0,
                count: 1,
                updated_at: Time::Text(""),
            },
            once: "",
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
            before: Prior::default(),
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
            before: Prior::default(),
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

    #[test]
    fn ids_that_the_journal_has_come_after_those_the_file_has() {
        let plan = PlannedOnce {
            lines: ["1\n", "2\n", "1\n"].map(String::from).into(),
            ..PlannedOnce::default()
        };
        assert_eq!(plan.after(b"2\n3\n3\n4"), b"3\n1\n2\n");
    }
}
