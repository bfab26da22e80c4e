//! Computes the cost of a damaged journal, for `verify` and `repair`.

use std::path::Path;

use sessionlog_core::error::Result;
use sessionlog_wal::journal::inspect::{Inspection, SegmentInspection};
use sessionlog_wal::journal::segment::{self, StoreId};
use sessionlog_wal::storage::Storage;

use super::salvage::{Salvage, Sources};
use crate::engine::home::Home;

/// The cost of continuing with the readable part of a journal.
#[derive(Debug, Default)]
pub(super) struct DamageCost {
    /// The losses, one line each.
    pub(super) losses: Vec<String>,
    /// Segments that read although their headers do not, one line each.
    pub(super) spared: Vec<String>,
}

/// Returns the parts of `dir`'s journal that a repair would give up, one line each.
///
/// # Errors
/// If files cannot be read: their content is not to be given up.
pub(super) fn of_journal(storage: &dyn Storage, dir: &Path, home: &Home) -> Result<Vec<String>> {
    let read = home.read_identity(storage);
    let whole = Inspection::read(storage, &home.journal, None)?.refuse_unread()?;
    if let Some(loss) = of_identity(&read, &whole) {
        return Ok(vec![loss]);
    }
    let id = read.ok().flatten().or_else(|| whole.store());
    let inspection = Inspection::read(storage, &home.journal, id.as_ref())?;
    let mut inspection = inspection.refuse_unread()?;
    let covered: Vec<_> = inspection
        .segments
        .iter()
        .filter(|segment| is_needless(&inspection, segment))
        .map(|segment| segment.number)
        .collect();
    inspection
        .segments
        .retain(|segment| !covered.contains(&segment.number));
    let sources = Sources {
        storage,
        dir,
        backups: &home.backups,
    };
    let salvage = Salvage::of(&inspection, storage)?;
    Ok(of_parts(&inspection, &salvage, sources)?.losses)
}

/// Returns the cost of continuing without an identity, or with one that is not the journal's.
/// `whole` is the journal, whichever store it belongs to.
pub(super) fn of_identity(read: &Result<Option<StoreId>>, whole: &Inspection) -> Option<String> {
    let journals = whole.store();
    let fault = match read {
        Ok(Some(id)) => {
            let is_foreign = journals.is_some_and(|journals| journals != *id);
            let what = "the whole journal is another store's than the identity says; it is taken \
                        for this one's";
            return is_foreign.then(|| what.to_owned());
        }
        Ok(None) => "missing",
        Err(_) => "damaged",
    };
    let is_nobodys = journals.is_none() && !whole.segments.is_empty();
    is_nobodys.then(|| format!("the store's identity is {fault}, and no segment tells it"))
}

/// True if all records of a damaged segment are in the session files.
pub(super) fn is_needless(inspection: &Inspection, segment: &SegmentInspection) -> bool {
    segment.fault.is_some() && inspection.is_covered(segment)
}

/// Returns the cost of continuing with the readable part of a journal.
///
/// # Errors
/// If files cannot be read.
pub(super) fn of_parts(
    inspection: &Inspection,
    salvage: &Salvage,
    sources: Sources<'_>,
) -> Result<DamageCost> {
    let mut cost = DamageCost::default();
    for segment in &inspection.segments {
        let Some(fault) = &segment.fault else {
            continue;
        };
        let name = segment::name(segment.number);
        if segment.batches() == 0 {
            cost.losses
                .push(format!("{name}: everything in it ({fault})"));
        } else if segment.last() == Some(inspection.newest()) {
            cost.losses.push(format!(
                "{name}: what came last in it, if anything did ({fault})"
            ));
        } else {
            cost.spared
                .push(format!("{name}: read in spite of its header"));
        }
    }
    let missing = inspection.missing();
    match missing[..] {
        [] => {}
        [batch] => cost.losses.push(format!("journal batch {batch}")),
        [first, .., last] => {
            let count = missing.len();
            cost.losses.push(format!(
                "{count} journal batches between {first} and {last}"
            ));
        }
    }
    cost.losses.extend(salvage.losses(sources)?);
    Ok(cost)
}
