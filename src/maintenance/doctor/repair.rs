//! Makes a damaged directory sound again.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use sessionlog_core::error::{Error, Result};
use sessionlog_core::session_file;
use sessionlog_wal::journal::inspect::{Inspection, SegmentInspection};
use sessionlog_wal::journal::record::{self, Record};
use sessionlog_wal::journal::scan::Scan;
use sessionlog_wal::journal::segment::StoreId;
use sessionlog_wal::storage::Storage;

use super::census::Census;
use super::cost::{self, DamageCost};
use super::mend::{self, Mending};
use super::originals::Originals;
use super::outcome::{RepairOptions, RepairReport};
use super::salvage::{Salvage, Sources};
use crate::disk::copies::lost::Copies;
use crate::disk::files::{TempNames, log_path};
use crate::engine::home::{self, Home};
use crate::engine::recovery::RecoveryReport;
use crate::engine::recovery::plan::Plans;
use crate::engine::recovery::run;
use crate::engine::recovery::standing::FilesState;

/// Makes `dir` sound. See [`Store::repair`](crate::Store::repair).
///
/// # Errors
/// As there.
pub(crate) fn repair(
    storage: &Arc<dyn Storage>,
    dir: &Path,
    options: RepairOptions,
) -> Result<RepairReport> {
    storage.info(dir).map_err(|e| Error::io("open", dir, e))?;
    let home = Home::of(dir)
        .of_any_owner(options.allow_other_owner)
        .allow_missing_lock(options.allow_missing_lock);
    home.create(&**storage, dir)?;
    let storage = home::root(storage, dir)?;
    let (lock, storage) = (home.lock(&*storage, dir)?, home.hold(&storage, dir)?);
    let mut repair = Repair {
        storage: &storage,
        dir,
        home: &home,
        options,
        report: RepairReport::default(),
        backup: None,
        temps: TempNames::default(),
    };
    let repaired = repair.run();
    home.life_file().mark(&*storage);
    drop(lock);
    repaired.map(|()| repair.report)
}

/// A repair under way.
pub(super) struct Repair<'a> {
    pub(super) storage: &'a Arc<dyn Storage>,
    pub(super) dir: &'a Path,
    pub(super) home: &'a Home,
    options: RepairOptions,
    pub(super) report: RepairReport,
    pub(super) backup: Option<Originals>,
    pub(super) temps: TempNames,
}

impl Repair<'_> {
    fn run(&mut self) -> Result<()> {
        let cleared = self.home.clear_ways(&**self.storage)?;
        self.report.done.extend(cleared);
        if let Some(id) = self.identity()?
            && self.journal(&id)?
        {
            self.settle(&id)?;
            self.sessions(&id)?;
        }
        Ok(())
    }

    /// Returns the store's identity; `None` if it cannot be had without loss.
    fn identity(&mut self) -> Result<Option<StoreId>> {
        let read = self.home.read_identity(&**self.storage);
        let fault = match &read {
            Ok(Some(_)) => None,
            Ok(None) => Some("missing"),
            Err(Error::Corrupt { .. }) => Some("damaged"),
            Err(_) => return read,
        };
        let inspection = self.inspect(None)?;
        if let Some(loss) = cost::of_identity(&read, &inspection)
            && !self.may_lose(loss)
        {
            return Ok(None);
        }
        let own = read.ok().flatten();
        if let Some(own) = own
            && inspection.store().is_none_or(|id| id == own)
        {
            return Ok(Some(own));
        }
        if let Some(id) = inspection.store() {
            // An identity that reads and that no segment has may be a damaged one.
            self.replace_identity(&id)?;
            if let Some(fault) = fault {
                self.report.done.push(format!(
                    "the store's identity was {fault}, and is what its journal says"
                ));
            }
            return Ok(Some(id));
        }
        for segment in &inspection.segments {
            self.give_up(segment)?;
        }
        if fault == Some("damaged") {
            self.back_up([&self.home.identity])?;
            self.remove([&self.home.identity])?;
        }
        self.home.identity(&**self.storage).map(Some)
    }

    fn replace_identity(&mut self, id: &StoreId) -> Result<()> {
        self.back_up([&self.home.identity])?;
        self.home.write_identity(&**self.storage, id)
    }

    /// Makes the journal readable; returns `false` if that would lose something.
    fn journal(&mut self, id: &StoreId) -> Result<bool> {
        if self.journal_holds(id)? {
            return Ok(true);
        }
        let mut inspection = self.inspect(Some(id))?;
        let (covered, _): (Vec<_>, Vec<_>) = inspection
            .segments
            .iter()
            .partition(|segment| cost::is_needless(&inspection, segment));
        if !covered.is_empty() {
            let paths: Vec<_> = covered.iter().map(|segment| segment.path.clone()).collect();
            self.back_up(&paths)?;
            self.remove(&paths)?;
            let count = paths.len();
            self.report.done.push(format!(
                "{count} damaged segments, whose records all are in the session files, are removed"
            ));
            if self.journal_holds(id)? {
                return Ok(true);
            }
            inspection = self.inspect(Some(id))?;
        }
        if !self.may_lose_records(&inspection)? {
            return Ok(false);
        }
        self.salvage(id, &inspection)?;
        Ok(true)
    }

    fn inspect(&self, id: Option<&StoreId>) -> Result<Inspection> {
        Inspection::read(&**self.storage, &self.home.journal, id)?.refuse_unread()
    }

    /// Returns true if opening would carry the journal out.
    fn journal_holds(&self, id: &StoreId) -> Result<bool> {
        let scan = match Scan::read(&**self.storage, &self.home.journal, id) {
            Ok(scan) => scan,
            Err(Error::Corrupt { .. }) => return Ok(false),
            Err(e) => return Err(e),
        };
        let mut plans = Plans::default();
        scan.replay(&**self.storage, |record| plans.add(record))?;
        Ok(plans.require_sound(&self.home.journal).is_ok())
    }

    /// Reports the losses of a damaged journal; returns true if the repair may go on without them.
    fn may_lose_records(&mut self, inspection: &Inspection) -> Result<bool> {
        let salvage = self.salvaged(inspection)?;
        let DamageCost { losses, mut spared } =
            cost::of_parts(inspection, &salvage, self.sources())?;
        let mut may = true;
        for loss in losses {
            may = self.may_lose(loss);
        }
        if may {
            self.report.done.append(&mut spared);
        }
        Ok(may)
    }

    fn sources(&self) -> Sources<'_> {
        Sources {
            storage: &**self.storage,
            dir: self.dir,
            backups: &self.home.backups,
        }
    }

    fn salvaged(&self, inspection: &Inspection) -> Result<Salvage> {
        Salvage::of(inspection, &**self.storage)
    }

    /// Puts every session that the journal names together anew, commits all of them at once, and
    /// gives the damaged segments up.
    fn salvage(&mut self, id: &StoreId, inspection: &Inspection) -> Result<()> {
        self.back_up(inspection.segments.iter().map(|segment| &segment.path))?;
        let salvage = self.salvaged(inspection)?;
        for (stem, plan) in &salvage.plans.sessions {
            self.back_up(files(self.dir, stem))?;
            self.back_up(plan.temp().map(|temp| self.dir.join(temp)))?;
        }
        // These files are all that is left of a rewrite that lost its record.
        let census = Census::take(&**self.storage, self.dir, &Plans::default())?;
        self.back_up(census.strays.iter().map(|name| self.dir.join(name)))?;
        let mut records = Vec::new();
        self.temps = TempNames::before_segment(inspection.next_number());
        self.salvage_backups(&salvage)?;
        self.salvage_once(&salvage)?;
        for stem in salvage.plans.sessions.keys() {
            let rescued = salvage.rescue(self.sources(), stem)?;
            self.report.sessions.insert(rescued.name);
            let Some(content) = rescued.content else {
                let standing = FilesState::of(&**self.storage, self.dir, stem)?;
                let delete = Record::Delete {
                    stem,
                    generation: 0,
                    before: standing.prior(),
                };
                record::encode(&mut records, &delete);
                continue;
            };
            let meta = rescued.meta.map(|meta| session_file::encode_sidecar(&meta));
            self.rewrite(&mut records, stem, &content, &meta.unwrap_or_default())?;
        }
        self.commit(id, inspection.newest(), inspection.next_number(), &records)?;
        self.remove(inspection.segments.iter().map(|segment| &segment.path))?;
        let sessions = salvage.plans.sessions.len();
        self.report.done.push(format!(
            "the journal was damaged; what reads of it is in {sessions} session files"
        ));
        Ok(())
    }

    /// Writes the backups that the journal made and removes those it deleted. Doing it again
    /// changes nothing; the session files are unchanged until the commit.
    fn salvage_backups(&mut self, salvage: &Salvage) -> Result<()> {
        let dir = &self.home.backups;
        for kept in &salvage.plans.backups {
            let Some(bytes) = salvage.backup(self.sources(), &kept.name)? else {
                continue;
            };
            self.back_up([dir.join(&kept.name), dir.join(&kept.link)])?;
            let temp = self.temps.take(&**self.storage, self.dir)?;
            self.write(&self.dir.join(&temp), &bytes)?;
            let to = dir.join(&kept.name);
            let renamed = self.storage.rename(&self.dir.join(&temp), &to);
            renamed.map_err(|e| Error::io("write", &to, e))?;
        }
        let gone = salvage.unmade(self.sources())?;
        self.back_up(&gone)?;
        self.remove(&gone)?;
        if salvage.plans.backups.is_empty() {
            return Ok(());
        }
        let synced = self.storage.sync_dir(dir);
        synced.map_err(|e| Error::io("sync", dir, e))
    }

    /// Carries the journal out as opening does, and ends it as closing does.
    fn settle(&mut self, id: &StoreId) -> Result<()> {
        let (storage, home) = (&**self.storage, self.home);
        let scan = Scan::read(storage, &home.journal, id)?;
        let mut copies = home.copy_file(self.storage, self.dir);
        let remains = run::Remains {
            storage,
            dir: self.dir,
            home,
            scan: &scan,
            known: false,
        };
        let mut recovered = run::recover(&remains, &mut copies)?;
        if scan.is_empty() {
            self.tell(recovered.report);
            return Ok(());
        }
        let mut committer = self.committer(id, scan.sequence, scan.next_number)?;
        let upto = remains.supersede(&mut committer, &mut recovered, &mut copies)?;
        self.tell(recovered.report);
        run::commit_checkpoint(&mut committer, upto, true, b"")?;
        // The clean checkpoint stands beside the last of the others.
        let scan = Scan::read(&**self.storage, &self.home.journal, id)?;
        self.remove(scan.paths())
    }

    fn tell(&mut self, recovered: RecoveryReport) {
        let losses = recovered.losses;
        let mut done = recovered.findings;
        done.retain(|finding| !losses.contains(finding));
        self.report.done.extend(done);
        self.report.losses.extend(losses);
    }

    /// Mends session files and sidecars.
    fn sessions(&mut self, id: &StoreId) -> Result<()> {
        let census = Census::take(&**self.storage, self.dir, &Plans::default())?;
        let scan = Scan::read(&**self.storage, &self.home.journal, id)?;
        self.temps = TempNames::before_segment(scan.next_number);
        let mut records = Vec::new();
        let mut dropped = Vec::new();
        let mut copies = Copies::new(&**self.storage, self.dir, &self.home.copies);
        for stem in &census.stems {
            match mend::mending(&**self.storage, self.dir, stem, &mut copies) {
                Ok(Some(mending)) => self.mend(&mut records, &mut dropped, stem, mending)?,
                Ok(None) => {}
                Err(error) if error.may_pass() => return Err(error),
                // It costs no other session its repair.
                Err(error) => self.report.unreadable.push(format!("{stem}: {error}")),
            }
        }
        if !records.is_empty() {
            self.commit(id, scan.sequence, scan.next_number, &records)?;
            self.settle(id)?;
        }
        self.remove(&dropped)
    }

    fn mend(
        &mut self,
        records: &mut Vec<u8>,
        dropped: &mut Vec<PathBuf>,
        stem: &str,
        mending: Mending,
    ) -> Result<()> {
        self.back_up(files(self.dir, stem))?;
        if !mending.garbage.is_empty() {
            self.quarantine(&session_file::log_name(stem), &mending.garbage)?;
        }
        let sidecar = self.dir.join(session_file::sidecar_name(stem));
        if mending.drop_sidecar {
            dropped.push(sidecar);
        }
        let image = mending.meta.map(|meta| session_file::encode_sidecar(&meta));
        match (&mending.content, &image) {
            (Some(content), image) => {
                let image = image.as_deref().unwrap_or_default();
                self.rewrite(records, stem, content, image)?;
            }
            (None, Some(image)) => {
                let standing = FilesState::of(&**self.storage, self.dir, stem)?;
                let meta = Record::Meta {
                    stem,
                    generation: 0,
                    before: standing.prior(),
                    image,
                };
                record::encode(records, &meta);
            }
            (None, None) => {}
        }
        let name = mending.name;
        let named = |line: String| format!("{name}: {line}");
        self.report.done.extend(mending.done.into_iter().map(named));
        let losses = mending.losses.into_iter().map(named);
        self.report.losses.extend(losses);
        self.report.sessions.insert(name);
        Ok(())
    }

    /// Notes `what` as a loss, or as needing data loss; returns true if it may go.
    fn may_lose(&mut self, what: String) -> bool {
        if self.options.allow_data_loss {
            self.report.losses.push(what);
        } else {
            self.report.needs_data_loss.push(what);
        }
        self.options.allow_data_loss
    }

    fn give_up(&mut self, segment: &SegmentInspection) -> Result<()> {
        self.back_up([&segment.path])?;
        self.remove([&segment.path])
    }
}

fn files(dir: &Path, stem: &str) -> [PathBuf; 2] {
    [
        log_path(dir, stem),
        dir.join(session_file::sidecar_name(stem)),
    ]
}
