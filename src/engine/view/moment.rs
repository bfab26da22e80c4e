//! What a directory held at one look.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use crate::disk::copies::lost::{Copies, Restored};
use crate::disk::files::{self, log_path};
use crate::disk::journal::scan::{End, Scan, Tip};
use crate::engine::catalog::Catalog;
use crate::engine::home::{Home, Life};
use crate::engine::kept::{self, Kept};
use crate::engine::recovery::RecoveryReport;
use crate::engine::recovery::foreign::{Judged, judge_beside_a_writer};
use crate::engine::recovery::plan::Plans;
use crate::engine::recovery::planned::Planned;
use crate::engine::recovery::survey::{Others, report_on, survey};
use crate::error::{Error, Result};
use crate::ground::storage::Storage;

/// How often a look at files that change underneath is repeated.
pub(super) const TRIES: usize = 20;

/// What the directory held at one look.
#[derive(Debug, Default)]
pub(super) struct Moment {
    pub(super) catalog: Catalog,
    pub(super) plans: Plans,
    /// The sidecars that are lost, as their copies have them.
    pub(super) restored: BTreeMap<String, Restored>,
    /// Whether the catalog is one that was kept, and no sidecar was looked at.
    pub(super) is_kept: bool,
    pub(super) report: RecoveryReport,
    /// Which writer's life it was. An empty journal may be another's.
    pub(super) life: Life,
    /// The journal's end then. While nothing stands there that did not stand
    /// there before, the journal is the same.
    pub(super) journal: Option<End>,
    pub(super) tips: Vec<Tip>,
    /// Up to which batch the journal says that everything is in the files.
    checkpoint: u64,
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

    /// Whether the session of `key` still stands on what it stood on in the moment
    /// before: what was read of its files in between then belongs to that moment.
    /// Another session's commits do not count, nor do lines appended since; beside
    /// a busy writer the journal as a whole never stands still.
    pub(super) fn only_adds_to(&self, before: &Self, key: &str, resolve: bool) -> bool {
        let (_, stem) = before.find(key, resolve);
        let same = stem == self.find(key, resolve).1
            && self.life == before.life
            && self.checkpoint == before.checkpoint;
        let plans = stem.map(|stem| [before, self].map(|m| m.plans.sessions.get(&*stem)));
        same && match plans {
            None | Some([None, None]) => true,
            Some([Some(before), Some(now)]) => now.only_adds_to(before),
            Some(_) => false,
        }
    }
}

/// Reads journal and sidecars. A writer beside us may take a segment away, or
/// write on in one, between two of our reads: that looks like damage, and is
/// none if another look does not find it.
pub(super) fn look(
    storage: &dyn Storage,
    dir: &Path,
    home: &Home,
    believe: Believe,
) -> Result<Moment> {
    let mut result = try_look(storage, dir, home, believe);
    for _ in 1..TRIES {
        if result.is_ok() {
            break;
        }
        result = try_look(storage, dir, home, believe);
    }
    result
}

/// Where a look at a closed store has its sessions from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Believe {
    /// The kept catalog, if there is one.
    Kept,
    /// Every sidecar: what was kept says whose a file was, and not whose it is.
    Sidecars,
}

fn try_look(storage: &dyn Storage, dir: &Path, home: &Home, believe: Believe) -> Result<Moment> {
    let mut moment = Moment {
        // Before all else: a life that begins while we look is another.
        life: home.life(storage),
        ..Moment::default()
    };
    if let Some(id) = home.read_identity(storage)? {
        let end =
            Scan::end(storage, &home.journal).map_err(|e| Error::io("read", &home.journal, e))?;
        let scan = Scan::read(storage, &home.journal, &id)?;
        scan.replay(storage, |record| moment.plans.add(record))?;
        moment.plans.require_sound(&home.journal)?;
        moment.journal = end;
        moment.report.clean = scan.is_empty() || scan.clean;
        moment.report.torn_bytes = scan.torn_bytes;
        moment.report.replayed_records = moment.plans.records;
        moment.checkpoint = scan.checkpoint;
        let is_closed = scan.is_empty();
        moment.tips = scan.tips;
        // While there is a journal, what was kept is of before.
        let kept = || Kept::of(storage, home, id, kept::FROM).look(storage, dir);
        let may_be_kept = is_closed && believe == Believe::Kept;
        if let Some(catalog) = may_be_kept.then(kept).flatten() {
            report_on(&catalog, &mut moment.report);
            moment.catalog = catalog;
            moment.is_kept = true;
            return Ok(moment);
        }
    } else if home.has_segments(storage)? {
        // What the journal holds would be missing from every answer.
        return Err(home.missing_identity());
    } else {
        moment.report.clean = true;
    }
    let Moment { plans, report, .. } = &mut moment;
    let mut copies = Copies::new(storage, dir, &home.copies);
    let others = others(Planned {
        storage,
        dir,
        backups: &home.backups,
        plans,
    })?;
    let found = survey((storage, dir), None, (plans, others), &mut copies, report)?;
    report_on(&found.0, report);
    (moment.catalog, moment.restored) = found;
    Ok(moment)
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
