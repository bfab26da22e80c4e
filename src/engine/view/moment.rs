//! The content of a directory at one look.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use sessionlog_core::error::Result;
use sessionlog_wal::journal::record::{MetaState, Record};
use sessionlog_wal::journal::scan::Scan;
use sessionlog_wal::journal::segment::StoreId;
use sessionlog_wal::storage::Storage;

use crate::disk::copies::lost::{Copies, RestoredSidecar};
use crate::disk::files::{self, log_path};
use crate::engine::catalog::Catalog;
use crate::engine::home::{Home, Life};
use crate::engine::kept::{self, KeptCatalog};
use crate::engine::recovery::RecoveryReport;
use crate::engine::recovery::foreign::{ForeignVerdict, is_sidecar_changed, judge_beside_a_writer};
use crate::engine::recovery::plan::Plans;
use crate::engine::recovery::planned::PlannedFiles;
use crate::engine::recovery::survey::{ForeignChanges, report_on, survey};

/// Number of times that a look at files that change underneath is repeated.
pub(super) const TRIES: usize = 20;

/// The content of the directory at one look.
#[derive(Debug, Default, Clone)]
pub(super) struct DirectoryMoment {
    /// The same for all moments with plans that begin at the same checkpoint and only grow. Files
    /// that were looked at in one of them are as the plans of a later one have them.
    pub(super) era: u64,
    pub(super) catalog: Arc<Catalog>,
    pub(super) plans: Plans,
    /// The sidecars that are lost, as their copies have them.
    pub(super) restored: Arc<BTreeMap<String, RestoredSidecar>>,
    /// True if the catalog was a kept one, and no sidecar was looked at.
    pub(super) is_kept: bool,
    pub(super) report: RecoveryReport,
    /// The writer's life at that look. An empty journal may be another life's.
    pub(super) life: Life,
    /// The journal's last batch then.
    sequence: u64,
    /// The batch up to which, by the journal, everything is in the files.
    checkpoint: u64,
}

impl DirectoryMoment {
    /// Returns the session that `key` means, and the name of its files, if it has any.
    pub(super) fn find(&self, key: &str, resolve: bool) -> (Arc<str>, Option<Arc<str>>) {
        let other = resolve.then(|| self.catalog.resolve_other(key)).flatten();
        let key: Arc<str> = other.unwrap_or_else(|| key.into());
        let entry = self.catalog.get(&key).map(|entry| entry.stem.clone());
        let stem = entry.or_else(|| self.catalog.orphan_of(&key));
        (key, stem)
    }

    /// Takes in the next record. Returns true if a session may have another name since, or may have
    /// come or gone.
    fn take(&mut self, record: &Record<'_>) -> bool {
        let said = spoken_of(record);
        let is_new = said.is_some_and(|(stem, _)| !self.plans.sessions.contains_key(stem));
        self.plans.add(record);
        let Some((stem, said)) = said else {
            return false;
        };
        match said {
            OwnerRecord::Gone => true,
            OwnerRecord::Same => is_new && !self.catalog.has_stem(stem),
            OwnerRecord::Sidecar => !self.is_known(stem),
        }
    }

    /// True if the catalog has a session with the key and the aliases that its plan names.
    fn is_known(&self, stem: &str) -> bool {
        let plan = self.plans.sessions.get(stem);
        let Some(meta) = plan.and_then(|plan| plan.image.as_deref()) else {
            return false;
        };
        let Some(entry) = self.catalog.get(&meta.key) else {
            return false;
        };
        let Some(found) = self.catalog.found_aliases(&entry) else {
            return false;
        };
        let [found, said] = [&found, &meta.aliases].map(BTreeSet::from_iter);
        *entry.stem == *stem && found == said
    }
}

/// The statement of a record about the owner of a session's files.
#[derive(Clone, Copy)]
enum OwnerRecord {
    Same,
    Sidecar,
    Gone,
}

/// Returns the session that a record names.
fn spoken_of<'a>(record: &Record<'a>) -> Option<(&'a str, OwnerRecord)> {
    Some(match *record {
        Record::Append { stem, meta, .. } => match meta {
            MetaState::Patch { .. } => (stem, OwnerRecord::Same),
            MetaState::First(_) | MetaState::Image { .. } | MetaState::Changed { .. } => {
                (stem, OwnerRecord::Sidecar)
            }
        },
        Record::Meta { stem, .. } | Record::Swap { stem, .. } | Record::Rebase { stem, .. } => {
            (stem, OwnerRecord::Sidecar)
        }
        Record::Delete { stem, .. } => (stem, OwnerRecord::Gone),
        Record::Checkpoint { .. } | Record::Commit(_) => return None,
    })
}

/// The place where a view looks.
#[derive(Clone, Copy)]
pub(super) struct ViewDir<'a> {
    pub(super) storage: &'a dyn Storage,
    pub(super) dir: &'a Path,
    pub(super) home: &'a Home,
    pub(super) believe: Believe,
}

/// The source of the sessions of a closed store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Believe {
    /// The kept catalog, if there is one.
    Kept,
    /// Every sidecar: the kept catalog has the former owner of a file, not the present one.
    Sidecars,
}

/// The times at which sidecars are looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Survey {
    /// Now: another program may have made or removed sessions.
    Always,
    /// If the journal says that there are other sessions.
    IfChanged,
}

/// The fate of plans that a checkpoint made needless.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CoveredPlans {
    /// They go.
    Go,
    /// They stay, so that the era does: files were looked at in it.
    Stay,
}

/// The last look, and the part of the journal that was read for it.
#[derive(Debug, Default)]
pub(super) struct FollowedLook {
    store: Option<StoreId>,
    scan: Scan,
    moment: Arc<DirectoryMoment>,
    /// True if the plans are those of the moment's checkpoint up to its last batch.
    is_whole: bool,
    /// True if the catalog is of the moment.
    is_surveyed: bool,
}

impl FollowedLook {
    pub(super) fn moment(&self) -> Arc<DirectoryMoment> {
        self.moment.clone()
    }

    /// Reads the new part of the journal, and sidecars. A writer beside us may take a segment away,
    /// or write on in one, between two of our reads. That looks like damage, and is none if another
    /// look does not find it.
    pub(super) fn look(
        &mut self,
        place: ViewDir<'_>,
        survey: Survey,
        covered: CoveredPlans,
    ) -> Result<Arc<DirectoryMoment>> {
        let mut result = self.try_look(place, survey, covered);
        for _ in 1..TRIES {
            if result.is_ok() {
                break;
            }
            result = self.try_look(place, survey, covered);
        }
        result.map(|()| self.moment())
    }

    fn try_look(
        &mut self,
        place: ViewDir<'_>,
        survey: Survey,
        covered: CoveredPlans,
    ) -> Result<()> {
        let ViewDir { storage, home, .. } = place;
        // Before all else: a life that begins while we look is another.
        let life = home.life(storage);
        let store = home.read_identity(storage)?;
        let is_first = self.moment.era == 0;
        let may_believe = place.believe == Believe::Kept || !self.moment.is_kept;
        if is_first || life != self.moment.life || store != self.store || !may_believe {
            *self = Self {
                store,
                moment: Arc::new(DirectoryMoment {
                    era: self.moment.era + 1,
                    life,
                    ..DirectoryMoment::default()
                }),
                ..Self::default()
            };
        }
        match store {
            Some(id) => {
                self.read_journal(place, &id, covered)?;
                // A journal that its writer emptied at its end belongs to the next life.
                if home.life(storage) != self.moment.life {
                    return Err(home.changed_life());
                }
            }
            // The journal's records would be missing from every answer.
            None if home.has_segments(storage)? => return Err(home.missing_identity()),
            None => Arc::make_mut(&mut self.moment).report.clean = true,
        }
        // Without a store, nothing reports the changes of other programs.
        if survey == Survey::Always || !self.is_surveyed || store.is_none() {
            // If this is cut short, the old catalog must not pass for a present one.
            self.is_surveyed = false;
            self.survey(place)?;
            self.is_surveyed = true;
        }
        Ok(())
    }

    /// Brings the plans up to the journal's end.
    fn read_journal(
        &mut self,
        place: ViewDir<'_>,
        id: &StoreId,
        covered: CoveredPlans,
    ) -> Result<()> {
        let ViewDir { storage, home, .. } = place;
        let scan = &mut self.scan;
        scan.read_on(storage, &home.journal, id)?;
        let read = self.moment.sequence;
        let goes_on = std::mem::take(&mut self.is_whole) && scan.has_all_after(read);
        let is_covered = covered == CoveredPlans::Go && self.moment.checkpoint != scan.checkpoint;
        if goes_on && !is_covered && read == scan.sequence {
            self.is_whole = true;
            return Ok(());
        }
        let mut is_surveyed = std::mem::take(&mut self.is_surveyed) && goes_on;
        let moment = Arc::make_mut(&mut self.moment);
        if goes_on {
            scan.replay_after(storage, read, |record| is_surveyed &= !moment.take(record))?;
        }
        if !goes_on || is_covered {
            moment.era += 1;
            moment.plans = Plans::default();
            scan.replay(storage, |record| moment.plans.add(record))?;
            moment.checkpoint = scan.checkpoint;
        }
        moment.plans.require_sound(&home.journal)?;
        moment.report.clean = scan.is_empty() || scan.clean;
        moment.report.torn_bytes = scan.torn_bytes;
        moment.report.replayed_records = moment.plans.records;
        moment.sequence = scan.sequence;
        (self.is_whole, self.is_surveyed) = (true, is_surveyed);
        Ok(())
    }

    fn survey(&mut self, place: ViewDir<'_>) -> Result<()> {
        let ViewDir {
            storage, dir, home, ..
        } = place;
        let moment = Arc::make_mut(&mut self.moment);
        moment.report.findings.clear();
        moment.is_kept = false;
        // While there is a journal, the kept catalog is older.
        let id = self.store.filter(|_| self.scan.is_empty());
        if let Some(id) = id.filter(|_| place.believe == Believe::Kept)
            && let Some(catalog) = KeptCatalog::of(storage, home, id, kept::FROM).look(storage, dir)
        {
            report_on(&catalog, &mut moment.report);
            moment.catalog = Arc::new(catalog);
            moment.restored = Arc::default();
            moment.is_kept = true;
            return Ok(());
        }
        let DirectoryMoment { plans, report, .. } = &mut *moment;
        let mut copies = Copies::new(storage, dir, &home.copies);
        let others = others(PlannedFiles {
            storage,
            dir,
            backups: &home.backups,
            plans,
        })?;
        let found = survey((storage, dir), None, (plans, others), &mut copies, report)?;
        report_on(&found.catalog, report);
        (moment.catalog, moment.restored) = (Arc::new(found.catalog), Arc::new(found.restored));
        Ok(())
    }
}

/// Returns the sessions that have no file and should, or have one and should not, and those with a
/// sidecar that another program wrote.
fn others(planned: PlannedFiles<'_>) -> Result<ForeignChanges> {
    let mut others = ForeignChanges::default();
    for (stem, plan) in &planned.plans.sessions {
        let has_file = files::is_there(planned.storage, &log_path(planned.dir, stem))?;
        let is_as_planned = plan.exists() == has_file;
        if is_as_planned && !(has_file && is_sidecar_changed(planned, stem, plan)?) {
            continue;
        }
        match judge_beside_a_writer(planned, stem, plan) {
            Ok(ForeignVerdict::Changed(changed)) if changed.gone => {
                others.gone.insert(stem.clone());
            }
            Ok(ForeignVerdict::Changed(changed)) if !plan.exists() => {
                others.revived.push((stem.clone(), changed.meta));
            }
            Ok(ForeignVerdict::Changed(changed)) => {
                let meta = changed.meta.map(|meta| (stem.clone(), meta));
                others.changed.extend(meta);
            }
            Ok(ForeignVerdict::Ours { .. } | ForeignVerdict::Barred(_)) => {}
            // Its reader gets the error, if it lasts.
            Err(_) if is_as_planned => {}
            Err(error) => return Err(error),
        }
    }
    Ok(others)
}
