//! Opening: lock, recover, take stock, and put the engine together.

mod strays;
mod told;

use std::io;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use sessionlog_core::error::{Error, Result};
use sessionlog_wal::clock::Clock;
use sessionlog_wal::journal::committer::{Batch, Committer};
use sessionlog_wal::journal::pool::SegmentPool;
use sessionlog_wal::journal::progress::Progress;
use sessionlog_wal::journal::scan::Scan;
use sessionlog_wal::mailbox;
use sessionlog_wal::meter::Meters;
use sessionlog_wal::seldom::Seldom;
use sessionlog_wal::storage::{DirEntry, LockGuard, Storage};
use sessionlog_wal::sync::atomic::{AtomicBool, AtomicU64};
use sessionlog_wal::sync::thread;
use sessionlog_wal::sync::wake::Runtime;

use self::strays::set_aside_strays;
use super::Engine;
use super::feed::Feed;
use super::home::{self, Home};
use super::kept::KeptCatalog;
use crate::StoreOptions;
use crate::disk::copies::copy_file::CopyFile;
use crate::disk::copies::lost::Copies;
use crate::engine::archive::Archive;
use crate::engine::catalog::Catalog;
use crate::engine::recovery::RecoveryReport;
use crate::engine::recovery::plan::Plans;
use crate::engine::recovery::restore;
use crate::engine::recovery::run;
use crate::engine::recovery::survey::{ForeignChanges, report_on, survey};
use crate::engine::shard::backups::Backups;
use crate::engine::shard::inbox::Inbox;
use crate::engine::shard::job::Job;
use crate::engine::shard::number::SHARDS;
use crate::engine::shard::owed::Keeper;
use crate::engine::shard::shared::{FullShards, SharedState};
use crate::engine::shard::steps::LastRewrite;
use crate::engine::shard::worker::alarm::Alarm;
use crate::engine::shard::worker::driver::Driver;
use crate::engine::shard::worker::limits::TurnLimits;
use crate::engine::shard::worker::ready::Ready;
use crate::engine::shard::worker::seat::Seat;
use crate::engine::shard::worker::{Worker, WorkerParts};
use crate::engine::stats::Counters;
use crate::engine::supervisor::Supervisor;
use crate::engine::supervisor::commits::Commits;
use crate::engine::supervisor::event_loop::Loop;
use crate::engine::supervisor::leader::{Journal, Lead, Leader};
use crate::engine::supervisor::machine::Machine;
use crate::engine::supervisor::publisher::{Publisher, StoreLook};

/// Number of commands that one shard's inbox holds before callers wait.
pub(crate) const MAILBOX: usize = 1024;

/// The place of a store, and its settings.
#[derive(Debug)]
pub(crate) struct Site<'a> {
    pub(crate) storage: Arc<dyn Storage>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) dir: &'a Path,
    pub(crate) options: &'a StoreOptions,
    /// Number of commands that one shard's inbox holds.
    pub(crate) mailbox: usize,
    /// The limits of a worker's work at a time.
    pub(crate) limits: TurnLimits,
    /// The number of sessions from which on the catalog is kept when the store ends.
    pub(crate) keep_from: usize,
}

/// A store that is recovered and ready to run.
#[derive(Debug)]
pub(crate) struct OpenedStore {
    pub(crate) engine: Arc<Engine>,
    pub(crate) machine: Machine,
    pub(crate) lock: Box<dyn LockGuard>,
    pub(crate) report: RecoveryReport,
}

/// Opens the directory, recovers it, and puts the engine together; no thread
/// runs yet.
///
/// # Errors
/// `Locked`, `Corrupt`, or the errors of the operating system.
pub(crate) fn open(site: &Site<'_>) -> Result<OpenedStore> {
    let _opening = tracing::info_span!("open", dir = %site.dir.display()).entered();
    let began = site.clock.monotonic();
    let opened = open_unheard(site);
    match &opened {
        Ok(opened) => told::opened(opened, site.clock.monotonic().saturating_sub(began)),
        Err(error) => told::failed(site, error),
    }
    opened
}

fn open_unheard(site: &Site<'_>) -> Result<OpenedStore> {
    for clamped in site.options.clamped() {
        tracing::warn!(%clamped, "an option is out of its bounds");
    }
    let home = Home::of(site.dir)
        .of_any_owner(site.options.allow_other_owner)
        .allow_missing_lock(site.options.allow_missing_lock);
    let (lock, rooted) = lock(site, &home)?;
    let shared = home.hold(&rooted, site.dir)?;
    let storage = &*shared;
    let cleared = home.clear_ways(storage)?;
    let id = home.identity(storage)?;
    let recovery = tracing::info_span!("recovery").entered();
    let began = site.clock.monotonic();
    let scan = Scan::read(storage, &home.journal, &id)?;
    let mut copy_file = home.copy_file(&shared, site.dir);
    let kept = KeptCatalog::of(storage, &home, id, site.keep_from);
    let known = kept_catalog(&kept, (storage, site.dir), &scan)?;
    let remains = run::Remains {
        storage,
        dir: site.dir,
        home: &home,
        scan: &scan,
        known: known.is_some(),
    };
    let mut recovered = run::recover(&remains, &mut copy_file)?;
    let counters = Arc::new(Counters::new(&meters(site), site.clock.clone()));
    let pool = Arc::new(SegmentPool::new(
        shared.clone(),
        home.journal.clone(),
        id,
        scan.next_number,
        site.options.segments,
    ));
    let progress = Arc::new(Progress::default());
    let mut committer = Committer::new(
        pool.clone(),
        scan.sequence,
        progress.clone(),
        counters.journal.clone(),
    )?;
    remains.supersede(&mut committer, &mut recovered, &mut copy_file)?;
    pool.keep_reserve();
    let mut report = recovered.report;
    report.findings.splice(0..0, cleared);
    let took = site.clock.monotonic().saturating_sub(began);
    told::recovered(&report, &counters, took);
    drop(recovery);
    let catalog = match known {
        Some(catalog) => catalog,
        None => take_stock(storage, site.dir, &home, recovered.entries, &mut report)?,
    };
    report_on(&catalog, &mut report);
    // Not before: a record that names a backup would not find it any more.
    set_aside_strays(storage, &home, &catalog, &mut report)?;
    let life = home.life_file();
    let backups = Backups::survey(storage, home.backups.clone())
        .map_err(|e| Error::io("list", &home.backups, e))?;
    let archive = Archive::survey(storage, home.archive.clone(), site.options.archive)?;
    let shared = Arc::new(SharedState {
        storage: shared.clone(),
        clock: site.clock.clone(),
        dir: site.dir.into(),
        quarantine: home.quarantine,
        copies: home.copies,
        once: home.once,
        once_ids: site.options.once_ids,
        backups,
        archive,
        catalog,
        kept,
        life,
        counters,
        feed: Feed::default(),
        auto_compact: site.options.auto_compact,
        trash: site.options.trash,
        max_sidecar: site.options.max_sidecar_bytes(),
        versions: first_version(site.dir)?,
        temp_counter: AtomicU64::new(1),
        rebased: AtomicU64::new(0),
        keeper: Keeper::default(),
        last_rewrite: LastRewrite::default(),
        lacking: Seldom::default(),
        refusing: Seldom::default(),
        full: FullShards::default(),
        copied: AtomicU64::new(1),
    });
    let published = site.options.publish_stats.then_some(home.stats);
    let keepers = (progress, copy_file, published);
    let (engine, machine) = assemble(site, shared, committer, pool, keepers);
    Ok(OpenedStore {
        engine,
        machine,
        lock,
        report,
    })
}

/// Exports the store's counters, unless it is in a test's memory.
fn meters(site: &Site<'_>) -> Meters {
    if site.storage.is_shared() {
        Meters::of(site.dir)
    } else {
        Meters::silent()
    }
}

fn commits(site: &Site<'_>, shared: &SharedState) -> Commits {
    Commits::new(&shared.counters, &site.clock, site.options.slow_commit)
}

/// Returns the publisher of the store's state. The engine may be dropped meanwhile.
fn publisher(site: &Site<'_>, engine: &Arc<Engine>, path: Option<PathBuf>) -> Publisher {
    let shared = site.storage.is_shared();
    let path = path.filter(|_| shared);
    let told = shared && (path.is_some() || cfg!(feature = "metrics"));
    let (queued, all) = (Arc::downgrade(engine), Arc::downgrade(engine));
    let look = StoreLook {
        queued: Box::new(move || queued.upgrade().map_or(0, |engine| engine.queued())),
        all: Box::new(move || Some(all.upgrade()?.publishable())),
    };
    Publisher::new(&engine.shared, look, told, path)
}

/// Returns a number that, almost certainly, no other opening of the store had.
fn first_version(dir: &Path) -> Result<u64> {
    getrandom::u64().map_err(|e| Error::io("open", dir, io::Error::other(e.to_string())))
}

/// The wait before asking for the lock again.
const ASKING: Duration = Duration::from_millis(20);

/// Takes the writer's lock, waiting for it as long as the options say. No event reports that
/// another process gave it up. The lock's directory is looked at each time: during the wait,
/// another program may put something else in its place.
fn lock(site: &Site<'_>, home: &Home) -> Result<(Box<dyn LockGuard>, Arc<dyn Storage>)> {
    let mut left = site.options.open_timeout;
    loop {
        home.create(&*site.storage, site.dir)?;
        let rooted = home::root(&site.storage, site.dir)?;
        match home.lock(&*rooted, site.dir) {
            Ok(lock) => return Ok((lock, rooted)),
            Err(Error::Locked { .. }) if !left.is_zero() => {
                let pause = left.min(ASKING);
                thread::pause(pause);
                left -= pause;
            }
            Err(error) => return Err(error),
        }
    }
}

/// Returns the catalog that the store's last end kept, if nothing changed since.
fn kept_catalog(
    kept: &KeptCatalog,
    at: (&dyn Storage, &Path),
    scan: &Scan,
) -> Result<Option<Catalog>> {
    let found = kept.take(at.0, at.1);
    let found = found.map_err(|e| Error::io("remove the kept catalog of", at.1, e))?;
    Ok(found.filter(|_| scan.is_empty()))
}

/// Enters the content of the directory into a catalog, and puts back lost sidecars, and the fields
/// that another program dropped of others.
fn take_stock(
    storage: &dyn Storage,
    dir: &Path,
    home: &Home,
    entries: Option<Vec<DirEntry>>,
    report: &mut RecoveryReport,
) -> Result<Catalog> {
    let mut copies = Copies::new(storage, dir, &home.copies);
    // A cache that cannot be read keeps no store shut.
    if let Err(error) = copies.read_tagged() {
        let finding = format!("what other programs dropped of sidecars is not put back: {error}");
        report.findings.push(finding);
    }
    let planned = (&Plans::default(), ForeignChanges::default());
    let found = survey((storage, dir), entries, planned, &mut copies, report)?;
    restore::write(storage, home.places(dir), &found)?;
    Ok(found.catalog)
}

/// Returns the work that a task may do for the journal while it is polled.
fn poll_lead(options: &StoreOptions) -> Lead {
    if options.sync_in_poll {
        Lead::Sync
    } else {
        Lead::Write
    }
}

fn assemble(
    site: &Site<'_>,
    shared: Arc<SharedState>,
    committer: Committer,
    pool: Arc<SegmentPool>,
    (progress, copies, published): (Arc<Progress>, CopyFile, Option<PathBuf>),
) -> (Arc<Engine>, Machine) {
    let (ready, runtime) = (Arc::new(Ready::default()), Runtime::default());
    let (background, jobs) = mailbox::events();
    let (supervise, requests) = mailbox::events();
    let (outcomes, outcomes_in) = mailbox::events();
    let (events, events_in) = mailbox::events();
    let active = Arc::new(AtomicBool::new(false));
    let alarm = Alarm {
        ready: ready.clone(),
        worker: events,
        outcomes: outcomes.clone(),
    };
    let inboxes: Arc<[Inbox]> = (0..SHARDS).map(|_| Inbox::new(site.mailbox)).collect();
    let seat = Seat::new(inboxes.clone(), alarm.clone(), runtime.clone());
    let seat = Arc::new(seat);
    let commits = commits(site, &shared);
    let clock = site.clock.clone();
    let leader = Arc::new(Leader::new(ready.clone(), seat.clone(), clock, commits));
    let worker = Worker::new(WorkerParts {
        limits: site.limits,
        shared: shared.clone(),
        inboxes: inboxes.clone(),
        open_files_per_shard: open_files_per_shard(site),
        jobs: background.clone(),
        pool: pool.clone(),
        alarm: alarm.clone(),
    });
    background.send(Job::PrepareSegment(pool.clone()));
    let supervisor = Supervisor::new(
        shared.clone(),
        alarm.clone(),
        pool.clone(),
        progress,
        active.clone(),
        outcomes_in,
        (copies, site.options.checkpoint_every),
    );
    let engine = Arc::new(Engine {
        shared: shared.clone(),
        inboxes,
        ready,
        leader: leader.clone(),
        runtime,
        poll_lead: poll_lead(site.options),
        supervise: supervise.clone(),
        pool: Arc::downgrade(&pool),
        closed: AtomicBool::new(false),
    });
    let ended_cleanly = Arc::new(AtomicBool::new(false));
    let journal = Journal {
        committer: Some(committer),
        batch: Batch::default(),
        written: 0,
        settled: 0,
        owes_own: false,
        wrote: None,
        outcomes,
        supervise,
        background: background.clone(),
        active,
        ended_cleanly: ended_cleanly.clone(),
        alarm: alarm.clone(),
        pool,
        unsynced_since: None,
        company: 0,
        committed: Vec::new(),
    };
    let supervisor = Loop {
        supervisor,
        requests,
        background,
        alarm: alarm.clone(),
        ended_cleanly,
        busy: false,
        publisher: publisher(site, &engine, published),
    };
    leader.seat(journal);
    let machine = Machine {
        worker: Driver::new(seat, events_in, worker, leader.clone()),
        leader,
        supervisor,
        jobs,
        shared,
        alarm,
    };
    (engine, machine)
}

fn open_files_per_shard(site: &Site<'_>) -> NonZeroUsize {
    let default = (site.storage.open_file_limit() / 2).clamp(64, 1 << 20);
    let files = site
        .options
        .max_open_files
        .map_or(default, NonZeroUsize::get);
    NonZeroUsize::new(files / SHARDS).unwrap_or(NonZeroUsize::MIN)
}
