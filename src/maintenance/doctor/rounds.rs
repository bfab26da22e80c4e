//! Judges sessions beside a writer: each at one moment, however many looks that takes.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use sessionlog_core::error::Result;
use sessionlog_core::session_file::SessionMeta;
use sessionlog_wal::storage::Storage;

use super::census::{self, Census};
use super::cost;
use super::look::{JournalLook, Stood};
use super::report::{Claim, SessionCheck, VerifyReport};
use super::verify::{backup_faults, session};
use crate::engine::home::Home;
use crate::engine::recovery::planned::PlannedFiles;

/// Number of times that something is looked at again because it changes meanwhile.
const ROUNDS: usize = 20;

/// The judged sessions, and the journal they were judged by.
pub(super) struct Rounds<'a> {
    storage: &'a dyn Storage,
    dir: &'a Path,
    home: &'a Home,
    look: JournalLook,
    judged: BTreeMap<String, (SessionCheck, Option<SessionMeta>)>,
    /// True if the journal moved meanwhile.
    busy: bool,
    /// Things that never stood still, and did not look sound.
    unsettled: BTreeSet<String>,
}

impl<'a> Rounds<'a> {
    pub(super) fn new(
        storage: &'a dyn Storage,
        dir: &'a Path,
        home: &'a Home,
        look: JournalLook,
    ) -> Self {
        Self {
            storage,
            dir,
            home,
            look,
            judged: BTreeMap::new(),
            busy: false,
            unsettled: BTreeSet::new(),
        }
    }

    /// Judges sessions. A fault of a session counts only if the session stood still meanwhile: its
    /// files are read after the journal, and in between a writer may delete it, make it again or
    /// overwrite its sidecar.
    ///
    /// # Errors
    /// If the directory cannot be listed.
    pub(super) fn judge(&mut self, mut stems: BTreeSet<String>) -> Result<()> {
        for _ in 0..ROUNDS {
            let restless = self.round(stems)?;
            let wrong = |stem: &String| {
                let judged = self.judged.get(stem);
                judged.is_some_and(|(check, _)| !check.troubles().is_empty())
            };
            stems = restless.into_iter().filter(wrong).collect();
            if stems.is_empty() {
                return Ok(());
            }
        }
        for stem in &stems {
            if let Some((check, _)) = self.judged.get_mut(stem) {
                check.forget();
            }
        }
        self.unsettled.extend(stems);
        Ok(())
    }

    /// Judges sessions by the present look, and returns those that did not stand still. Those that
    /// are gone by then are no sessions: their writer may be about to remove the rest of their
    /// files.
    fn round(&mut self, mut stems: BTreeSet<String>) -> Result<BTreeSet<String>> {
        stems.retain(|stem| {
            let plan = self.look.plans.sessions.get(stem);
            let is_there = plan.is_none_or(|plan| plan.exists());
            if !is_there {
                self.judged.remove(stem);
            }
            is_there
        });
        let planned = PlannedFiles {
            storage: self.storage,
            dir: self.dir,
            backups: &self.home.backups,
            plans: &self.look.plans,
        };
        let mut faults = backup_faults(planned);
        let judge = |stem: String| {
            let (mut check, meta) = session(planned, &stem);
            check.backup_faults = faults.remove(&stem).unwrap_or_default();
            (stem, (check, meta))
        };
        let judged: Vec<_> = stems.into_iter().map(judge).collect();
        if !self.look.moved(self.storage, self.home) {
            self.judged.extend(judged);
            return Ok(BTreeSet::new());
        }
        self.busy = true;
        let now = JournalLook::settled(self.storage, self.home)?;
        let there = Census::take(self.storage, self.dir, &now.plans)?.stems;
        let mut restless = BTreeSet::new();
        for (stem, (mut check, meta)) in judged {
            let stood = self.look.stood(&now, &stem);
            if stood == Stood::Grown {
                // The file is read after the journal, and may hold more.
                check.mismatch = None;
            }
            if stood != Stood::Still {
                restless.insert(stem.clone());
            }
            if there.contains(&stem) {
                self.judged.insert(stem, (check, meta));
            } else {
                self.judged.remove(&stem);
            }
        }
        self.look = now;
        Ok(restless)
    }

    /// Reports the results.
    ///
    /// # Errors
    /// If the directory cannot be listed.
    pub(super) fn report_on(mut self, report: &mut VerifyReport) -> Result<()> {
        let [keys, aliases] = self.settle_claims()?;
        (report.duplicate_keys, report.duplicate_aliases) = (keys, aliases);
        report.busy = self.busy || self.look.moved(self.storage, self.home);
        if self.look.is_unsettled {
            self.unsettled.insert("the journal".into());
        }
        report.unsettled = self.unsettled.into_iter().collect();
        report.sessions = self.judged.into_values().map(|(check, _)| check).collect();
        report.journal = self.look.report;
        if report.journal.damage.is_some() {
            match cost::of_journal(self.storage, self.dir, self.home) {
                Ok(losses) => report.journal.losses = losses,
                Err(error) => {
                    let what = format!("not known, for the journal cannot be read now: {error}");
                    report.journal.losses = vec![what];
                }
            }
        }
        Ok(())
    }

    /// Returns the names that several sessions claim at one moment: a name given up by one and
    /// taken by another would be read twice in between.
    fn settle_claims(&mut self) -> Result<[Vec<Claim>; 2]> {
        let mut restless = BTreeSet::new();
        for _ in 0..ROUNDS {
            let claims = self.claims();
            let stems = claims.iter().flatten().flat_map(|claim| &claim.stems);
            let stems: BTreeSet<String> = stems.cloned().collect();
            if stems.is_empty() || !(self.busy || self.look.moved(self.storage, self.home)) {
                return Ok(claims);
            }
            restless = self.round(stems)?;
            if restless.is_empty() {
                return Ok(self.claims());
            }
            // They may have moved again: a check of two moments must not stay.
            self.judge(restless.clone())?;
        }
        let stands = |claim: &Claim| claim.stems.iter().all(|stem| !restless.contains(stem));
        let mut claims = self.claims();
        for claims in &mut claims {
            claims.retain(stands);
        }
        self.unsettled.extend(restless);
        Ok(claims)
    }

    /// Returns the contested keys, and the contested aliases.
    fn claims(&self) -> [Vec<Claim>; 2] {
        let keys = self.judged.iter();
        let keys = keys.map(|(stem, (check, _))| (check.key.clone(), stem.clone()));
        let aliases = self.judged.iter().flat_map(|(stem, (_, meta))| {
            let aliases = meta.iter().flat_map(|meta| &meta.aliases);
            aliases.map(|alias| (alias.clone(), stem.clone()))
        });
        [census::contested(keys), census::contested(aliases)]
    }
}
