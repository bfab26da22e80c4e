//! Reads everything, and writes nothing.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use sessionlog_core::error::{Error, Result};
use sessionlog_core::session_file::{self, Decoded, SessionMeta};
use sessionlog_wal::journal::inspect::{Inspection, SegmentInspection};
use sessionlog_wal::journal::scan::{Scan, Tip};
use sessionlog_wal::journal::segment::StoreId;
use sessionlog_wal::storage::{FileKind, OpenMode, Storage};

use super::census::{self, Census};
use super::look::JournalLook;
use super::report::{
    DamagedLine, JournalCheck, Mismatch, SegmentCheck, SegmentEnd, SessionCheck, SidecarCheck,
    VerifyReport,
};
use super::rounds::Rounds;
use crate::disk::files::{self, backup::BackupName};
use crate::engine::home::Home;
use crate::engine::recovery::bytes::Bytes;
use crate::engine::recovery::foreign::{ForeignVerdict, judge_beside_a_writer};
use crate::engine::recovery::plan::{Base, Plans};
use crate::engine::recovery::planned::PlannedFiles;
use crate::engine::recovery::redo::{backup_fault, rewrite_fault};

/// Number of damaged lines listed for one session.
const LISTED: usize = 1000;

/// Reads everything in `dir`. See [`Store::verify`](crate::Store::verify).
///
/// # Errors
/// If the directory cannot be listed.
pub(crate) fn verify(storage: &Arc<dyn Storage>, dir: &Path) -> Result<VerifyReport> {
    let storage = &**storage;
    let info = storage.info(dir).map_err(|e| Error::io("open", dir, e))?;
    if info.kind == FileKind::File {
        let error = std::io::ErrorKind::NotADirectory.into();
        return Err(Error::io("open", dir, error));
    }
    let home = Home::of(dir);
    let look = JournalLook::settled(storage, &home)?;
    let mut report = VerifyReport {
        strays: look.strays.clone(),
        ..VerifyReport::default()
    };
    let census = Census::take(storage, dir, &look.plans)?;
    report.strays.extend(census.strays);
    let mut rounds = Rounds::new(storage, dir, &home, look);
    rounds.judge(census.stems)?;
    rounds.report_on(&mut report)?;
    Ok(report)
}

impl JournalCheck {
    /// Computes the result that opening would have. Returns the places where the journal would take
    /// its next batch.
    pub(super) fn judge(
        &mut self,
        storage: &dyn Storage,
        home: &Home,
        id: Option<StoreId>,
        inspection: &Inspection,
        plans: &mut Plans,
    ) -> Vec<Tip> {
        let Some(id) = id else {
            self.clean = inspection.segments.is_empty();
            self.damage.clone_from(&self.identity_fault);
            if !self.clean && self.damage.is_none() {
                let why = "the store's identity is missing, and its journal holds records";
                self.damage = Some(why.into());
            }
            return Vec::new();
        };
        let read = Scan::read(storage, &home.journal, &id).and_then(|scan| {
            scan.replay(storage, |record| plans.add(record))?;
            plans.require_sound(&home.journal)?;
            Ok(scan)
        });
        match read {
            Ok(scan) => {
                // From the plans' own scan: a flush may have come after the inspection, and plans
                // of two checkpoints would pass for those of one.
                self.checkpoint = scan.checkpoint;
                self.clean = scan.is_empty() || scan.clean;
                self.replayed_records = plans.records;
                self.torn_bytes = scan.torn_bytes;
                return scan.tips;
            }
            // A journal that was never made is an empty one.
            Err(Error::Io { source, .. })
                if source.kind() == std::io::ErrorKind::NotFound
                    && inspection.segments.is_empty() =>
            {
                self.clean = true;
            }
            Err(Error::Corrupt { detail, .. }) => {
                self.damage = Some(detail);
                *plans = Plans::default();
            }
            Err(other) => {
                self.damage = Some(other.to_string());
                *plans = Plans::default();
            }
        }
        Vec::new()
    }
}

pub(super) fn segment(
    segment: &SegmentInspection,
    inspection: &Inspection,
    damaged: bool,
) -> SegmentCheck {
    let later = segment.batches() - segment.leading;
    let unread = segment.newest > segment.last().unwrap_or(0) || later > 0;
    let offset = segment.end;
    let covered = inspection.is_covered(segment);
    let end = if damaged && unread && !covered && segment.newest <= inspection.newest() {
        SegmentEnd::Damaged {
            offset,
            behind: later,
        }
    } else if segment.torn > 0 || unread {
        SegmentEnd::Torn { offset }
    } else {
        SegmentEnd::Whole
    };
    SegmentCheck {
        name: sessionlog_wal::journal::segment::name(segment.number),
        bytes: segment.len,
        fault: segment.fault.clone(),
        records: segment.records,
        batches: segment.batches(),
        range: segment.first().zip(segment.last()),
        watermark: segment.watermark,
        end,
    }
}

/// Returns the faults of backups that the journal made, by session.
pub(super) fn backup_faults(planned: PlannedFiles<'_>) -> BTreeMap<String, Vec<String>> {
    let mut faults: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for kept in &planned.plans.backups {
        let fault = backup_fault(planned.storage, planned.backups, kept);
        let fault = fault.unwrap_or_else(|error| Some(error.to_string()));
        if let (Some(fault), Some(name)) = (fault, BackupName::parse(&kept.name)) {
            faults.entry(name.stem).or_default().push(fault);
        }
    }
    faults
}

pub(super) fn session(
    planned: PlannedFiles<'_>,
    stem: &str,
) -> (SessionCheck, Option<SessionMeta>) {
    let mut check = SessionCheck {
        stem: stem.into(),
        ..SessionCheck::default()
    };
    let read = check.read(planned);
    let meta = read.unwrap_or_else(|error| {
        check.unreadable = Some(error.to_string());
        None
    });
    (check, meta)
}

impl SessionCheck {
    fn read(&mut self, planned: PlannedFiles<'_>) -> Result<Option<SessionMeta>> {
        let PlannedFiles {
            storage,
            dir,
            plans,
            ..
        } = planned;
        let plan = plans.sessions.get(&self.stem);
        let judged = plan
            .map(|plan| judge_beside_a_writer(planned, &self.stem, plan))
            .transpose()?;
        if let Some(Base::Swapped(swap)) = plan.map(|plan| &plan.base) {
            self.rewrite_fault = rewrite_fault(storage, dir, swap)?;
        }
        let (sidecar, on_disk) = census::sidecar(storage, dir, &self.stem)?;
        self.sidecar = sidecar;
        let mut meta = on_disk;
        if let Some(plan) = plan {
            if plan.image.is_some() {
                self.sidecar = SidecarCheck::Sound;
            }
            if plan.image.is_some() || meta.is_some() {
                let on_disk = meta.take();
                meta = Some(plan.meta(|| on_disk.unwrap_or_else(|| SessionMeta::empty(""))));
            }
        }
        let content = match judged {
            None => {
                let log = files::open_log(storage, dir, &self.stem, OpenMode::Read)?;
                Bytes::whole(log, dir)?
            }
            Some(ForeignVerdict::Ours { lines, finding }) => {
                self.changed = finding;
                lines
            }
            Some(ForeignVerdict::Barred(barred)) => return Err(barred.error(dir, &self.stem)),
            Some(ForeignVerdict::Changed(changed)) => {
                self.changed = Some(changed.finding.clone());
                meta.clone_from(&changed.meta);
                changed.into_lines()
            }
        };
        self.count_lines(&content)
            .map_err(|e| Error::io("read", dir, e))?;
        if let Some(meta) = &meta {
            self.key.clone_from(&meta.key);
            self.aliases.clone_from(&meta.aliases);
            (self.skip, self.count) = (meta.skip, meta.count);
            let lines = i64::try_from(self.lines).unwrap_or(i64::MAX);
            self.mismatch = if content.size() == 0 && meta.count > 0 {
                Some(Mismatch::LinesMissing)
            } else if meta.skip > lines {
                Some(Mismatch::SkipBeyond)
            } else {
                (meta.count != lines).then_some(Mismatch::Stale)
            };
        }
        Ok(meta)
    }

    fn count_lines(&mut self, content: &Bytes) -> std::io::Result<()> {
        content.for_each_line(|raw| {
            self.torn_end = raw.next() > content.size();
            match session_file::decode(raw.text) {
                Decoded::Blank => return,
                Decoded::Control(_) => self.controls += 1,
                Decoded::Message(_) | Decoded::Transient(_) => self.messages += 1,
                Decoded::Corrupt(reason) => {
                    self.damaged_lines += 1;
                    if self.damaged.len() < LISTED {
                        self.damaged.push(DamagedLine {
                            offset: raw.begin,
                            len: raw.len,
                            reason,
                        });
                    }
                }
            }
            self.lines += 1;
        })
    }
}
