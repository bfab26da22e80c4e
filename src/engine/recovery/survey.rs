//! Takes stock of a directory: its sessions and their owners.

mod sidecars;

use std::collections::{BTreeMap, HashSet};
use std::path::Path;
use std::sync::Arc;

use sessionlog_core::error::{Error, Result};
use sessionlog_core::session_file::{self, LOG, NameRule, SIDECAR, SessionMeta};
use sessionlog_wal::storage::{DirEntry, FileKind, Storage};

use self::sidecars::{Sidecars, read_sidecars};
use super::plan::{Plan, Plans};
use super::report::RecoveryReport;
use crate::disk::catalog_file::Rows;
use crate::disk::copies::lost::{Copies, RestoredSidecar};
use crate::disk::files;
use crate::engine::catalog::Catalog;
use crate::engine::home;

/// The changes of other programs to sessions that the journal names.
#[derive(Debug, Default)]
pub(crate) struct ForeignChanges {
    /// Sessions that are deleted and were made again.
    pub(crate) revived: Vec<(String, Option<SessionMeta>)>,
    /// Sessions with files that were removed.
    pub(crate) gone: HashSet<String>,
    /// Sidecars of sessions that other programs wrote.
    pub(crate) changed: BTreeMap<String, SessionMeta>,
}

/// The sessions of a directory.
pub(crate) struct SurveyResult {
    pub(crate) catalog: Catalog,
    /// Lost sidecars, by file name.
    pub(crate) restored: BTreeMap<String, RestoredSidecar>,
    /// Sidecars with the fields that another program dropped, by file name.
    pub(crate) tagged: Vec<(String, SessionMeta)>,
}

/// Finds every session of `dir`: those with files, and those that `plans` makes or deletes without
/// having been carried out yet, except for the changes of others. Sidecars that are missing or do
/// not decode are restored from `copies`. If the copies [were read](Copies::read_tagged) for that,
/// sidecars get back the fields that another program dropped. `entries`: the content of the
/// directory, if it was just read.
///
/// # Errors
/// If the directory cannot be read.
pub(crate) fn survey(
    (storage, dir): (&dyn Storage, &Path),
    entries: Option<Vec<DirEntry>>,
    (plans, mut others): (&Plans, ForeignChanges),
    copies: &mut Copies<'_>,
    report: &mut RecoveryReport,
) -> Result<SurveyResult> {
    let ListedFiles {
        mut sidecars,
        mut logs,
        blocked,
        linked,
    } = match entries {
        Some(entries) => sorted(entries, report),
        None => sorted(list(storage, dir)?, report),
    };
    // Names of sidecars that are not lost, whatever their content.
    let mut taken: HashSet<String> = linked.into_iter().collect();
    let planned = |stem: &str| plans.sessions.get(stem);
    let exists = |stem: &str, plan: &Plan| plan.exists() && !others.gone.contains(stem);
    sidecars
        .retain(|stem| planned(stem).is_none_or(|plan| exists(stem, plan) && plan.image.is_none()));
    let mut changed = std::mem::take(&mut others.changed);
    let images = plans.sessions.iter();
    let images: Vec<_> = images
        .filter(|(stem, plan)| exists(stem, plan))
        .filter_map(|(stem, plan)| {
            let image = plan.image.as_ref()?;
            let ours = || plan.meta(|| (**image).clone());
            Some((stem.clone(), changed.remove(stem).unwrap_or_else(ours)))
        })
        .collect();
    logs.retain(|stem| planned(stem).is_none_or(|plan| plan.exists()));
    sidecars.sort_unstable_by(|a, b| session_file::file_order(a, b));
    let Sidecars {
        mut metas,
        unimported,
        unread,
        damaged,
        findings,
    } = read_sidecars(storage, dir, &sidecars);
    report.findings.extend(findings);
    sidecars.retain(|stem| !unimported.contains(stem));
    let mut tagged = Vec::new();
    for (stem, meta) in &mut metas {
        if copies.tag(stem, meta) {
            let name = session_file::sidecar_name(stem);
            let finding = format!(
                "{name}: title, labels and other fields, which another program dropped, are put back"
            );
            report.findings.push(finding);
            tagged.push((stem.clone(), meta.clone()));
        }
    }
    metas.extend(images);
    for (stem, meta) in others.revived {
        // One that names no key belongs to the key that its file name spells.
        if meta.as_ref().is_none_or(|meta| meta.key.is_empty()) {
            logs.push(stem.clone());
        }
        metas.extend(meta.map(|meta| (stem, meta)));
    }
    taken.extend(metas.iter().map(|(stem, _)| stem.clone()));
    taken.extend(unread.into_iter().chain(unimported.iter().cloned()));
    let mut restored = BTreeMap::new();
    for stem in logs.iter().filter(|stem| !taken.contains(*stem)) {
        copies.read()?;
        match copies.restore(stem) {
            Ok(found) => restored.extend(found.map(|found| (stem.clone(), found))),
            // It affects no other session, and its owner will meet it again.
            Err(error) => {
                let name = session_file::sidecar_name(stem);
                let finding = format!("{name} is lost, and cannot be made again: {error}");
                report.findings.push(finding);
            }
        }
    }
    let catalog = entered(metas, home::name_rule(storage, dir), report);
    enter_restored(&catalog, &mut restored, report);
    for (stem, finding) in damaged {
        if !restored.contains_key(&stem) {
            report.findings.push(finding);
        }
    }
    let have_logs: HashSet<&String> = logs.iter().collect();
    for stem in sidecars.iter().chain(&logs) {
        if !catalog.found(stem) && !is_twins(storage, dir, &catalog, stem) {
            catalog.enter_orphan(stem, have_logs.contains(stem));
        }
    }
    // With a log beside it the name is in use; the file is set aside, as a damaged sidecar is, when
    // a new one is written.
    for stem in unimported.iter().filter(|stem| !logs.contains(stem)) {
        catalog.reserve(stem);
    }
    for stem in blocked.iter().filter(|stem| planned(stem).is_none()) {
        catalog.reserve(stem);
    }
    Ok(SurveyResult {
        catalog,
        restored,
        tagged,
    })
}

/// Names of files that may be sessions'.
#[derive(Default)]
struct ListedFiles {
    sidecars: Vec<String>,
    logs: Vec<String>,
    /// Names that other things have: no session can have them.
    blocked: Vec<String>,
    /// Names of sidecars that are links.
    linked: Vec<String>,
}

fn list(storage: &dyn Storage, dir: &Path) -> Result<Vec<DirEntry>> {
    let entries = storage.read_dir(dir);
    entries.map_err(|e| Error::io("list", dir, e))
}

/// Tells names of sessions from others. A directory, link or pipe in the place of a session file
/// belongs to that session, which answers with an error: were it ignored, the next message would
/// begin a second session beside it. A directory or pipe in the place of a sidecar counts as a
/// damaged sidecar, for the history is there, and it is moved out of the way when a sidecar is
/// written. A link there counts as one that cannot be read: the sidecar behind it may say how much
/// of the session is hidden.
fn sorted(entries: Vec<DirEntry>, report: &mut RecoveryReport) -> ListedFiles {
    let mut listed = ListedFiles::default();
    let mut no_sidecars = Vec::new();
    for DirEntry { name, kind } in entries {
        let log = name.strip_suffix(LOG);
        let Some(stem) = log.or_else(|| name.strip_suffix(SIDECAR)) else {
            continue;
        };
        match (kind, log) {
            (_, Some(_)) => listed.logs.push(stem.into()),
            (FileKind::File, None) => listed.sidecars.push(stem.into()),
            (kind, None) => {
                no_sidecars.push(stem.to_owned());
                if kind == FileKind::Symlink {
                    listed.linked.push(stem.into());
                }
            }
        }
        if kind != FileKind::File {
            let what = match kind {
                FileKind::Symlink => "a symbolic link; it is not followed",
                FileKind::Directory => "a directory",
                FileKind::File | FileKind::Other => "no regular file",
            };
            report.findings.push(format!("{name} is {what}"));
        }
    }
    no_sidecars.retain(|stem| !listed.logs.contains(stem));
    listed.blocked = no_sidecars;
    listed
}

/// True if the session file of this name is that of another spelling of it: the file system folds
/// names, and a session's two files were spelled in two ways. Without this check it would be given
/// to a second session.
fn is_twins(storage: &dyn Storage, dir: &Path, catalog: &Catalog, stem: &str) -> bool {
    let inode = |stem: &str| Some(storage.info(&files::log_path(dir, stem)).ok()?.inode);
    let twins = catalog.twins(stem);
    let is_same = |twin: &Arc<str>| inode(twin).is_some_and(|twin| inode(stem) == Some(twin));
    twins.iter().any(is_same)
}

/// Enters the sessions. If several sidecars claim one key, the one under the key's own file name
/// has it (PicoClaw's name, or one with the key's hash), else the first by file name. The key is
/// listed once, and only the winner's aliases lead to it. The others stay on disk as they are and
/// are reported in a finding. Their names are given to no session: given to the key that they
/// spell, they would show it another's history.
fn entered(
    mut metas: Vec<(String, SessionMeta)>,
    rule: NameRule,
    report: &mut RecoveryReport,
) -> Catalog {
    metas.retain(|(_, meta)| !meta.key.is_empty());
    metas.sort_by(|(a, _), (b, _)| session_file::file_order(a, b));
    let winners = winners(&metas);
    let (mut rows, mut left, mut others) = (Rows::default(), Vec::new(), Vec::new());
    for ((stem, meta), wins) in metas.iter().zip(winners) {
        if !wins {
            report.findings.push(format!(
                "{} names the key of another file; it is left alone",
                session_file::sidecar_name(stem)
            ));
            others.push(stem);
        } else if !rows.push(stem, &meta.key, &meta.aliases, Some(meta.updated_nanos())) {
            left.push((stem, meta));
        }
    }
    let catalog =
        Catalog::of(rows, rule).unwrap_or_else(|| unreachable!("each key has one winner"));
    for (stem, meta) in left {
        catalog.enter(&meta.key, stem, &meta.aliases);
    }
    for stem in others {
        catalog.reserve(stem);
    }
    catalog
}

/// Returns, for each sidecar, true if it has the key that it names.
fn winners(metas: &[(String, SessionMeta)]) -> Vec<bool> {
    let is_own = |(stem, meta): &(String, SessionMeta)| {
        let key = &meta.key;
        *stem == session_file::plain_stem(key) || *stem == session_file::hashed_stem(key)
    };
    let own: Vec<_> = metas.iter().map(is_own).collect();
    let mut wins = vec![false; metas.len()];
    let mut taken = HashSet::with_capacity(metas.len());
    for first in [true, false] {
        for (nth, (_, meta)) in metas.iter().enumerate() {
            if own[nth] == first {
                wins[nth] = taken.insert(&meta.key);
            }
        }
    }
    wins
}

/// Enters restored sidecars after those that are there: the latter win if both claim a key.
fn enter_restored(
    catalog: &Catalog,
    restored: &mut BTreeMap<String, RestoredSidecar>,
    report: &mut RecoveryReport,
) {
    restored.retain(|stem, restored| {
        let meta = &restored.meta;
        let entered = !meta.key.is_empty() && catalog.enter(&meta.key, stem, &meta.aliases);
        if entered {
            report.findings.push(restored.finding.clone());
        }
        entered
    });
}

/// Reports the number of sessions, and of aliases that several claim.
pub(crate) fn report_on(catalog: &Catalog, report: &mut RecoveryReport) {
    report.sessions = catalog.len();
    report.contested_aliases = catalog.alias_conflicts().len();
    if report.contested_aliases > 0 {
        let aliases = report.contested_aliases;
        tracing::warn!(aliases, "aliases that several sessions claim");
    }
}
