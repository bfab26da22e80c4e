//! Making a damaged directory sound again.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::backup::Backup;
use super::census::Census;
use super::mend::{self, Mending};
use super::salvage::Salvage;
use crate::engine::home::Home;
use crate::engine::open;
use crate::error::{Error, Result};
use crate::journal::committer::{Committer, Counters};
use crate::journal::inspect::{Inspected, Inspection};
use crate::journal::pool::SegmentPool;
use crate::journal::record::{self, Record};
use crate::journal::scan::Scan;
use crate::journal::segment::{Lengths, StoreId};
use crate::recovery::plan::{Base, Plans};
use crate::recovery::redo::rewrite_fault;
use crate::session_file;
use crate::shard::load;
use crate::shard::rewrite::{log_path, temp_name};
use crate::storage::{OpenMode, Storage};

/// A repair needs few and short records, and leaves no segment behind.
const SEGMENTS: Lengths = Lengths {
    first: 16 << 10,
    largest: 64 << 20,
};

/// How [`Store::repair`](crate::Store::repair) may go about it.
#[derive(Clone, Copy, Debug, Default)]
pub struct RepairOptions {
    allow_data_loss: bool,
}

impl RepairOptions {
    /// Nothing may be lost.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Whether to go on without what cannot be saved. `false` by default: what
    /// is lossless is done, and [`RepairReport::needs_data_loss`] says what this
    /// would be needed for.
    #[must_use]
    pub fn allow_data_loss(mut self, allow: bool) -> Self {
        self.allow_data_loss = allow;
        self
    }
}

/// What a repair did. Its `Display` is a report for a person.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RepairReport {
    /// Where copies of everything are that was changed; `None` where nothing
    /// needed to be.
    pub backup: Option<PathBuf>,
    /// What was mended, one line each.
    pub done: Vec<String>,
    /// What is gone, one line each. Whatever of it could be read is in the
    /// backup.
    pub losses: Vec<String>,
    /// Files in which bytes that are no records were set aside.
    pub quarantined: Vec<PathBuf>,
    /// What was left as it is, because mending it gives something up: repeat
    /// with [`allow_data_loss`](RepairOptions::allow_data_loss). The store does
    /// not open until then.
    pub needs_data_loss: Vec<String>,
}

impl fmt::Display for RepairReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == Self::default() {
            return writeln!(f, "nothing to repair");
        }
        let mut list = |what: &str, lines: &[String]| {
            lines
                .iter()
                .try_for_each(|line| writeln!(f, "{what}: {line}"))
        };
        list("mended", &self.done)?;
        list("lost", &self.losses)?;
        list("left, for it would lose data", &self.needs_data_loss)?;
        for path in &self.quarantined {
            writeln!(f, "set aside in {}", path.display())?;
        }
        match &self.backup {
            Some(path) => writeln!(f, "what was there before is in {}", path.display()),
            None => Ok(()),
        }
    }
}

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
    let home = Home::of(dir);
    home.create(&**storage, dir)?;
    let lock = home.lock(&**storage, dir)?;
    let mut repair = Repair {
        storage,
        dir,
        home: &home,
        options,
        report: RepairReport::default(),
        backup: None,
        temps: 0,
    };
    if let Some(id) = repair.identity()?
        && repair.journal(&id)?
    {
        repair.settle(&id)?;
        repair.sessions(&id)?;
    }
    drop(lock);
    Ok(repair.report)
}

struct Repair<'a> {
    storage: &'a Arc<dyn Storage>,
    dir: &'a Path,
    home: &'a Home,
    options: RepairOptions,
    report: RepairReport,
    backup: Option<Backup>,
    /// The next hidden file's number.
    temps: u64,
}

impl Repair<'_> {
    /// The store's identity; `None` if there is none to be had without loss.
    fn identity(&mut self) -> Result<Option<StoreId>> {
        let fault = match self.home.read_identity(&**self.storage) {
            Ok(Some(id)) => return self.identity_of_journal(id),
            Ok(None) => "missing",
            Err(Error::Corrupt { .. }) => "damaged",
            Err(e) => return Err(e),
        };
        let inspection = self.inspect(None)?;
        if let Some(id) = inspection.store() {
            self.replace_identity(&id)?;
            self.report.done.push(format!(
                "the store's identity was {fault}, and is what its journal says"
            ));
            return Ok(Some(id));
        }
        if !inspection.segments.is_empty() {
            let what = format!("the store's identity is {fault}, and no segment tells it");
            if !self.may_lose(what) {
                return Ok(None);
            }
            for segment in &inspection.segments {
                self.give_up(segment)?;
            }
        }
        if fault == "damaged" {
            self.back_up([&self.home.identity])?;
            self.remove([&self.home.identity])?;
        }
        self.home.identity(&**self.storage).map(Some)
    }

    /// An identity that reads and that no segment has may be a damaged one.
    fn identity_of_journal(&mut self, id: StoreId) -> Result<Option<StoreId>> {
        let inspection = self.inspect(None)?;
        let Some(other) = inspection.store().filter(|other| *other != id) else {
            return Ok(Some(id));
        };
        let what = "the whole journal is another store's than the identity says; it is taken for \
                    this one's";
        if !self.may_lose(what.into()) {
            return Ok(None);
        }
        self.replace_identity(&other)?;
        Ok(Some(other))
    }

    fn replace_identity(&mut self, id: &StoreId) -> Result<()> {
        self.back_up([&self.home.identity])?;
        self.home.write_identity(&**self.storage, id)
    }

    /// Makes the journal readable; `false` if that would lose something.
    fn journal(&mut self, id: &StoreId) -> Result<bool> {
        if self.journal_holds(id)? {
            return Ok(true);
        }
        let mut inspection = self.inspect(Some(id))?;
        self.back_up(inspection.segments.iter().map(|segment| &segment.path))?;
        let (covered, _): (Vec<_>, Vec<_>) = inspection
            .segments
            .iter()
            .partition(|segment| segment.fault.is_some() && inspection.is_covered(segment));
        if !covered.is_empty() {
            let paths: Vec<_> = covered.iter().map(|segment| segment.path.clone()).collect();
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

    /// Whether opening would carry the journal out.
    fn journal_holds(&self, id: &StoreId) -> Result<bool> {
        let scan = match Scan::read(&**self.storage, &self.home.journal, id) {
            Ok(scan) => scan,
            Err(Error::Corrupt { .. }) => return Ok(false),
            Err(e) => return Err(e),
        };
        let mut plans = Plans::default();
        scan.replay(&**self.storage, |record| plans.add(record))?;
        for (stem, plan) in &plans.sessions {
            if let Base::Swapped(swap) = &plan.base
                && rewrite_fault(&**self.storage, self.dir, stem, swap)?.is_some()
            {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Says what a damaged journal has lost, and whether to go on without it.
    fn may_lose_records(&mut self, inspection: &Inspection) -> Result<bool> {
        let mut losses = Vec::new();
        for segment in &inspection.segments {
            let Some(fault) = &segment.fault else {
                continue;
            };
            let name = segment.path.display();
            if segment.batches() == 0 {
                losses.push(format!("{name}: whatever was in it ({fault})"));
            } else if segment.last() == Some(inspection.newest()) {
                losses.push(format!("{name}: whatever came last in it ({fault})"));
            } else {
                self.report
                    .done
                    .push(format!("{name}: read in spite of its header"));
            }
        }
        let missing = inspection.missing();
        if let (Some(first), Some(last)) = (missing.first(), missing.last()) {
            let count = missing.len();
            losses.push(format!(
                "{count} journal batches between {first} and {last}"
            ));
        }
        for (stem, remains) in &self.salvaged(inspection)?.sessions {
            let rescued = remains.rescue(&**self.storage, self.dir, stem)?;
            losses.extend(rescued.losses);
        }
        Ok(losses
            .into_iter()
            .fold(true, |may, loss| self.may_lose(loss) && may))
    }

    fn salvaged(&self, inspection: &Inspection) -> Result<Salvage> {
        let mut salvage = Salvage::default();
        inspection.replay(&**self.storage, |record| salvage.add(record))?;
        Ok(salvage)
    }

    /// Puts every session that the journal speaks of together anew, commits all
    /// of them at once, and gives the damaged segments up.
    fn salvage(&mut self, id: &StoreId, inspection: &Inspection) -> Result<()> {
        let salvage = self.salvaged(inspection)?;
        for (stem, remains) in &salvage.sessions {
            self.back_up(files(self.dir, stem))?;
            self.back_up(remains.temp().map(|temp| self.dir.join(temp)))?;
        }
        // Of a rewrite whose record is gone, this is all that is left.
        let census = Census::take(&**self.storage, self.dir, &Plans::default())?;
        self.back_up(census.strays.iter().map(|name| self.dir.join(name)))?;
        let mut records = Vec::new();
        self.number_temps(inspection.next_number());
        for (stem, remains) in &salvage.sessions {
            let rescued = remains.rescue(&**self.storage, self.dir, stem)?;
            let Some(content) = rescued.content else {
                let generation = 0;
                record::encode(&mut records, &Record::Delete { stem, generation });
                continue;
            };
            let meta = rescued.meta.map(|meta| session_file::encode_sidecar(&meta));
            self.rewrite(&mut records, stem, &content, &meta.unwrap_or_default())?;
        }
        self.commit(id, inspection.newest(), inspection.next_number(), &records)?;
        self.remove(inspection.segments.iter().map(|segment| &segment.path))?;
        let sessions = salvage.sessions.len();
        self.report.done.push(format!(
            "the journal was damaged; what reads of it is in {sessions} session files"
        ));
        Ok(())
    }

    /// Prepares a session file beside the old one.
    fn rewrite(
        &mut self,
        records: &mut Vec<u8>,
        stem: &str,
        content: &[u8],
        image: &[u8],
    ) -> Result<()> {
        let temp = loop {
            let name = temp_name(self.temps);
            self.temps += 1;
            if self.storage.info(&self.dir.join(&name)).is_err() {
                break name;
            }
        };
        self.write(&self.dir.join(&temp), content)?;
        let swap = Record::Swap {
            stem,
            generation: 0,
            image,
            temp: &temp,
            base_len: content.len() as u64,
            base_crc: crc32fast::hash(content),
            tail: b"",
        };
        record::encode(records, &swap);
        Ok(())
    }

    fn write(&self, path: &Path, bytes: &[u8]) -> Result<()> {
        let file = self.storage.open(path, OpenMode::CreateNew);
        let written = file.and_then(|file| {
            file.write_all_at(bytes, 0)?;
            file.sync_data()
        });
        written.map_err(|e| Error::io("write", path, e))
    }

    /// Hidden files get names that no record in the journal has, also none of a
    /// repair that was cut short: they carry the number of the segment to come.
    fn number_temps(&mut self, segment: u64) {
        self.temps = segment << 32;
    }

    /// Commits `records` as one batch that also says that everything before it
    /// is in the session files.
    fn commit(&self, id: &StoreId, sequence: u64, number: u64, records: &[u8]) -> Result<()> {
        let sync = |dir: &Path| {
            let synced = self.storage.sync_dir(dir);
            synced.map_err(|e| Error::io("sync", dir, e))
        };
        sync(self.dir)?;
        sync(&self.home.quarantine)?;
        let mut committer = self.committer(id, sequence, number)?;
        open::commit_checkpoint(&mut committer, 0, sequence, false, records)
    }

    fn committer(&self, id: &StoreId, sequence: u64, number: u64) -> Result<Committer> {
        let pool = Arc::new(SegmentPool::new(
            self.storage.clone(),
            self.home.journal.clone(),
            *id,
            number,
            SEGMENTS,
        ));
        Committer::new(
            pool,
            sequence,
            1,
            Arc::default(),
            Arc::<Counters>::default(),
        )
    }

    /// Carries the journal out as opening does, and ends it as closing does.
    fn settle(&mut self, id: &StoreId) -> Result<()> {
        let scan = Scan::read(&**self.storage, &self.home.journal, id)?;
        let found = open::recover(&**self.storage, self.dir, self.home, &scan)?;
        self.report.done.extend(found.findings);
        if scan.is_empty() {
            return Ok(());
        }
        let mut committer = self.committer(id, scan.sequence, scan.next_number)?;
        open::commit_checkpoint(&mut committer, 0, scan.sequence, true, b"")?;
        let old: Vec<_> = scan.paths().collect();
        self.remove(&old)?;
        // The clean checkpoint stood beside the last of the others.
        let scan = Scan::read(&**self.storage, &self.home.journal, id)?;
        self.remove(scan.paths())
    }

    /// Mends session files and sidecars.
    fn sessions(&mut self, id: &StoreId) -> Result<()> {
        let census = Census::take(&**self.storage, self.dir, &Plans::default())?;
        let scan = Scan::read(&**self.storage, &self.home.journal, id)?;
        self.number_temps(scan.next_number);
        let mut records = Vec::new();
        let mut dropped = Vec::new();
        for stem in &census.stems {
            if let Some(mending) = mend::mending(&**self.storage, self.dir, stem)? {
                self.mend(&mut records, &mut dropped, stem, mending)?;
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
                let generation = 0;
                record::encode(
                    records,
                    &Record::Meta {
                        stem,
                        generation,
                        image,
                    },
                );
            }
            (None, None) => {}
        }
        self.report.done.extend(mending.done);
        self.report.losses.extend(mending.losses);
        Ok(())
    }

    fn quarantine(&mut self, name: &str, bytes: &[u8]) -> Result<()> {
        let path = load::free_path(&**self.storage, &self.home.quarantine, name);
        self.write(&path, bytes)?;
        self.report.quarantined.push(path);
        Ok(())
    }

    /// Whether something may go; noted as a loss, or as what it would take.
    fn may_lose(&mut self, what: String) -> bool {
        if self.options.allow_data_loss {
            self.report.losses.push(what);
        } else {
            self.report.needs_data_loss.push(what);
        }
        self.options.allow_data_loss
    }

    fn give_up(&mut self, segment: &Inspected) -> Result<()> {
        self.back_up([&segment.path])?;
        self.remove([&segment.path])
    }

    /// Copies files, durably, before anything happens to them.
    fn back_up<P: AsRef<Path>>(&mut self, paths: impl IntoIterator<Item = P>) -> Result<()> {
        let mut paths = paths.into_iter().peekable();
        if paths.peek().is_none() {
            return Ok(());
        }
        let storage = &**self.storage;
        let backup = match &mut self.backup {
            Some(backup) => backup,
            none => none.insert(Backup::create(storage, &self.home.backups)?),
        };
        for path in paths {
            backup.copy(storage, path.as_ref())?;
        }
        self.report.backup = Some(backup.path.clone());
        backup.finish(storage)
    }

    fn remove<P: AsRef<Path>>(&self, paths: impl IntoIterator<Item = P>) -> Result<()> {
        let mut parent = None;
        for path in paths {
            let path = path.as_ref();
            match self.storage.remove_file(path) {
                Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
                    return Err(Error::io("remove", path, e));
                }
                _ => parent = path.parent().map(Path::to_path_buf),
            }
        }
        let Some(parent) = parent else { return Ok(()) };
        self.storage
            .sync_dir(&parent)
            .map_err(|e| Error::io("sync", &parent, e))
    }
}

fn files(dir: &Path, stem: &str) -> [PathBuf; 2] {
    [
        log_path(dir, stem),
        dir.join(session_file::sidecar_name(stem)),
    ]
}
