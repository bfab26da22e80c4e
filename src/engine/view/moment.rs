//! What a directory held at one look.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use crate::disk::copies::lost::{Copies, Restored};
use crate::disk::files::{self, log_path};
use crate::disk::journal::record::{MetaState, Record};
use crate::disk::journal::scan::Scan;
use crate::disk::journal::segment::StoreId;
use crate::disk::session_file;
use crate::engine::catalog::Catalog;
use crate::engine::home::{Home, Life};
use crate::engine::kept::{self, Kept};
use crate::engine::recovery::RecoveryReport;
use crate::engine::recovery::foreign::{Judged, judge_beside_a_writer};
use crate::engine::recovery::plan::{Plan, Plans};
use crate::engine::recovery::planned::Planned;
use crate::engine::recovery::survey::{Others, report_on, survey};
use crate::error::Result;
use crate::ground::storage::Storage;

/// How often a look at files that change underneath is repeated.
pub(super) const TRIES: usize = 20;

/// What the directory held at one look.
#[derive(Debug, Default, Clone)]
pub(super) struct Moment {
    /// Another one for every moment that differs.
    pub(super) number: u64,
    pub(super) catalog: Arc<Catalog>,
    /// Up to which batch the journal was read when sidecars were looked at.
    surveyed: u64,
    pub(super) plans: Plans,
    /// The sidecars that are lost, as their copies have them.
    pub(super) restored: Arc<BTreeMap<String, Restored>>,
    /// Whether the catalog is one that was kept, and no sidecar was looked at.
    pub(super) is_kept: bool,
    pub(super) report: RecoveryReport,
    /// Which writer's life it was. An empty journal may be another's.
    pub(super) life: Life,
    /// The journal's last batch then.
    sequence: u64,
    /// Up to which batch the journal says that everything is in the files.
    checkpoint: u64,
    /// The last batch that spoke of each session, and one that may have spoken of any.
    touched: BTreeMap<String, u64>,
    missed: u64,
}

/// Where a session stood at a moment.
#[derive(Debug, Clone)]
pub(super) struct Standing {
    stem: Option<Arc<str>>,
    life: Life,
    sequence: u64,
    checkpoint: u64,
    plan: Option<Arc<Plan>>,
}

impl Moment {
    /// The session that `key` means, and the name of its files, if it has any.
    pub(super) fn find(&self, key: &str, resolve: bool) -> (Arc<str>, Option<Arc<str>>) {
        let other = resolve.then(|| self.catalog.resolve_other(key)).flatten();
        let key: Arc<str> = other.unwrap_or_else(|| key.into());
        let entry = self.catalog.get(&key).map(|entry| entry.stem.clone());
        let stem = entry.or_else(|| self.catalog.orphan_of(&key));
        (key, stem)
    }

    /// Where the session of `key` stands.
    pub(super) fn standing(&self, key: &str, resolve: bool) -> Standing {
        let (_, stem) = self.find(key, resolve);
        let plan = stem
            .as_ref()
            .and_then(|stem| self.plans.sessions.get(&**stem));
        Standing {
            plan: plan.cloned(),
            stem,
            life: self.life.clone(),
            sequence: self.sequence,
            checkpoint: self.checkpoint,
        }
    }

    /// Whether the session of `key` still stands on what it stood on in the moment
    /// before: what was read of its files in between then belongs to that moment.
    /// Another session's commits do not count, nor do lines appended since; beside
    /// a busy writer the journal as a whole never stands still.
    pub(super) fn only_adds_to(&self, before: &Standing, key: &str, resolve: bool) -> bool {
        let now = self.standing(key, resolve);
        let Some(stem) = now.stem.as_ref().filter(|_| now.stem == before.stem) else {
            return now.life == before.life && now.stem == before.stem;
        };
        let went_back = now.sequence < before.sequence || now.checkpoint < before.checkpoint;
        if now.life != before.life || went_back {
            return false;
        }
        // What a checkpoint covers since is in files that were written since.
        !self.is_touched(stem, before.sequence)
            || now.checkpoint == before.checkpoint
                && match (&before.plan, &now.plan) {
                    (Some(before), Some(now)) => now.only_adds_to(before),
                    _ => false,
                }
    }

    /// Whether the journal spoke of a session after the batch `sequence`.
    fn is_touched(&self, stem: &str, sequence: u64) -> bool {
        let last = self.touched.get(stem).copied().unwrap_or(0);
        last.max(self.missed) > sequence
    }

    /// Whether the journal spoke of a session since the sidecars were looked at.
    pub(super) fn is_touched_since_survey(&self, stem: &str) -> bool {
        self.is_touched(stem, self.surveyed)
    }

    /// Takes in the next record. Whether a session may have another name since, or may have
    /// come or gone.
    fn take(&mut self, sequence: u64, record: &Record<'_>) -> bool {
        let Some((stem, image)) = spoken_of(record) else {
            return false;
        };
        match self.touched.get_mut(stem) {
            Some(last) => *last = sequence,
            None => drop(self.touched.insert(stem.to_owned(), sequence)),
        }
        match image {
            Said::Gone => true,
            Said::Same => !self.plans.sessions.contains_key(stem) && !self.catalog.has_stem(stem),
            Said::Sidecar(image) => !self.is_known(stem, image),
        }
    }

    /// Whether the catalog has a session with the key and the aliases that a sidecar names.
    fn is_known(&self, stem: &str, image: &[u8]) -> bool {
        let Ok(meta) = session_file::decode_sidecar(image) else {
            return false;
        };
        let Some(entry) = self.catalog.get(&meta.key) else {
            return false;
        };
        let Some(found) = self.catalog.found_aliases(&entry) else {
            return false;
        };
        let [found, said] = [found, meta.aliases].map(BTreeSet::from_iter);
        *entry.stem == *stem && found == said
    }
}

/// What a record says of whose a session's files are.
enum Said<'a> {
    Same,
    Sidecar(&'a [u8]),
    Gone,
}

/// The session that a record speaks of.
fn spoken_of<'a>(record: &Record<'a>) -> Option<(&'a str, Said<'a>)> {
    Some(match *record {
        Record::Append { stem, meta, .. } => match meta {
            MetaState::Patch { .. } => (stem, Said::Same),
            MetaState::First(image)
            | MetaState::Image { image, .. }
            | MetaState::Changed { image, .. } => (stem, Said::Sidecar(image)),
        },
        Record::Meta { stem, image, .. }
        | Record::Swap { stem, image, .. }
        | Record::Rebase { stem, image, .. } => (stem, Said::Sidecar(image)),
        Record::Delete { stem, .. } => (stem, Said::Gone),
        Record::Checkpoint { .. } | Record::Commit(_) => return None,
    })
}

/// Where a view looks.
#[derive(Clone, Copy)]
pub(super) struct Place<'a> {
    pub(super) storage: &'a dyn Storage,
    pub(super) dir: &'a Path,
    pub(super) home: &'a Home,
    pub(super) believe: Believe,
}

/// Where a look at a closed store has its sessions from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Believe {
    /// The kept catalog, if there is one.
    Kept,
    /// Every sidecar: what was kept says whose a file was, and not whose it is.
    Sidecars,
}

/// When sidecars are looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Survey {
    /// Now: another program may have made or removed sessions.
    Always,
    /// If the journal says that there are others.
    IfChanged,
}

/// The last look, and what was read of the journal for it.
#[derive(Debug, Default)]
pub(super) struct Followed {
    store: Option<StoreId>,
    scan: Scan,
    moment: Arc<Moment>,
    /// Whether the plans are those of the scan's checkpoint up to the moment's last batch.
    is_whole: bool,
    /// Whether the catalog is of the moment.
    is_surveyed: bool,
}

impl Followed {
    pub(super) fn moment(&self) -> Arc<Moment> {
        self.moment.clone()
    }

    /// Reads what is new of the journal, and sidecars. A writer beside us may take a segment
    /// away, or write on in one, between two of our reads: that looks like damage, and is
    /// none if another look does not find it.
    pub(super) fn look(&mut self, place: Place<'_>, survey: Survey) -> Result<Arc<Moment>> {
        let mut result = self.try_look(place, survey);
        for _ in 1..TRIES {
            if result.is_ok() {
                break;
            }
            result = self.try_look(place, survey);
        }
        result.map(|()| self.moment())
    }

    fn try_look(&mut self, place: Place<'_>, survey: Survey) -> Result<()> {
        let Place { storage, home, .. } = place;
        // Before all else: a life that begins while we look is another.
        let life = home.life(storage);
        let store = home.read_identity(storage)?;
        let is_first = self.moment.number == 0;
        let may_believe = place.believe == Believe::Kept || !self.moment.is_kept;
        if is_first || life != self.moment.life || store != self.store || !may_believe {
            *self = Self {
                store,
                moment: Arc::new(Moment {
                    number: self.moment.number + 1,
                    life,
                    ..Moment::default()
                }),
                ..Self::default()
            };
        }
        match store {
            Some(id) => {
                self.read_journal(place, &id)?;
                // A journal that its writer emptied at its end is the next life's.
                if home.life(storage) != self.moment.life {
                    return Err(home.changed_life());
                }
            }
            // What the journal holds would be missing from every answer.
            None if home.has_segments(storage)? => return Err(home.missing_identity()),
            None => Arc::make_mut(&mut self.moment).report.clean = true,
        }
        // Without a store nothing tells of what other programs do.
        if survey == Survey::Always || !self.is_surveyed || store.is_none() {
            // Cut short, the old catalog would pass for one of now.
            self.is_surveyed = false;
            self.survey(place)?;
            self.is_surveyed = true;
        }
        Ok(())
    }

    /// Brings the plans up to the journal's end: those that a checkpoint made needless go.
    fn read_journal(&mut self, place: Place<'_>, id: &StoreId) -> Result<()> {
        let Place { storage, home, .. } = place;
        let scan = &mut self.scan;
        scan.read_on(storage, &home.journal, id)?;
        let before = (self.moment.sequence, self.moment.checkpoint);
        if self.is_whole && before == (scan.sequence, scan.checkpoint) {
            return Ok(());
        }
        let (read, checkpoint) = before;
        let moment = Arc::make_mut(&mut self.moment);
        moment.number += 1;
        let is_whole = std::mem::take(&mut self.is_whole);
        let mut is_surveyed = std::mem::take(&mut self.is_surveyed);
        if is_surveyed && scan.has_all_after(read) {
            scan.replay_after(storage, read, |sequence, record| {
                is_surveyed &= !moment.take(sequence, record);
            })?;
        } else {
            (moment.missed, is_surveyed) = (scan.sequence, false);
        }
        let from = if is_whole && checkpoint == scan.checkpoint {
            read
        } else {
            moment.plans = Plans::default();
            scan.checkpoint
        };
        scan.replay_after(storage, from, |_, record| moment.plans.add(record))?;
        moment.plans.require_sound(&home.journal)?;
        moment.report.clean = scan.is_empty() || scan.clean;
        moment.report.torn_bytes = scan.torn_bytes;
        moment.report.replayed_records = moment.plans.records;
        (moment.sequence, moment.checkpoint) = (scan.sequence, scan.checkpoint);
        (self.is_whole, self.is_surveyed) = (true, is_surveyed);
        Ok(())
    }

    fn survey(&mut self, place: Place<'_>) -> Result<()> {
        let Place {
            storage, dir, home, ..
        } = place;
        let moment = Arc::make_mut(&mut self.moment);
        moment.number += 1;
        moment.surveyed = moment.sequence;
        moment.report.findings.clear();
        moment.is_kept = false;
        // While there is a journal, what was kept is of before.
        let id = self.store.filter(|_| self.scan.is_empty());
        if let Some(id) = id.filter(|_| place.believe == Believe::Kept)
            && let Some(catalog) = Kept::of(storage, home, id, kept::FROM).look(storage, dir)
        {
            report_on(&catalog, &mut moment.report);
            moment.catalog = Arc::new(catalog);
            moment.restored = Arc::default();
            moment.is_kept = true;
            return Ok(());
        }
        let Moment { plans, report, .. } = &mut *moment;
        let mut copies = Copies::new(storage, dir, &home.copies);
        let others = others(Planned {
            storage,
            dir,
            backups: &home.backups,
            plans,
        })?;
        let (catalog, restored) =
            survey((storage, dir), None, (plans, others), &mut copies, report)?;
        report_on(&catalog, report);
        (moment.catalog, moment.restored) = (Arc::new(catalog), Arc::new(restored));
        Ok(())
    }
}

/// Sessions that have no file and should, or have one and should not.
fn others(planned: Planned<'_>) -> Result<Others> {
    let mut others = Others::default();
    for (stem, plan) in &planned.plans.sessions {
        if plan.exists() == files::is_there(planned.storage, &log_path(planned.dir, stem))? {
            continue;
        }
        match judge_beside_a_writer(planned, stem, plan)? {
            Judged::Changed(changed) if changed.gone => {
                others.gone.insert(stem.clone());
            }
            Judged::Changed(changed) if !plan.exists() => {
                others.revived.push((stem.clone(), changed.meta));
            }
            _ => {}
        }
    }
    Ok(others)
}
