//! What must hold after all: of both sides, nothing is missing, doubled or back.

use std::collections::BTreeSet;

use sessionlog::SessionMeta;
use sessionlog::testing::disk_model::MemoryStorage;
use sessionlog::testing::sim::{DIR, Sim, read_now, read_only};

use super::opened;
use super::others::Deed;
use super::ours::{Fields, KEY, Known, Script};
use crate::foreign::picoclaw::{Files as _, InMemory, PicoClaw, Sidecar, log_name, sidecar_name};

/// What both sides know, after the crash and after what others did.
#[derive(Clone, Debug)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "independent facts about a case, not states of one machine"
)]
pub(super) struct After {
    known: Known,
    may_lack_files: bool,
    /// What they wrote, and what they took away.
    added: BTreeSet<String>,
    dropped: BTreeSet<String>,
    /// What they replaced or removed with a whole file, and we had journalled.
    taken: BTreeSet<String>,
    /// What they hid, and then took the sidecar away that said so.
    free: BTreeSet<String>,
    /// Whether they changed lines in place.
    edited: bool,
    /// What they saw last.
    seen: BTreeSet<String>,
    /// Whether they wrote a history of their own, a sidecar where they had removed ours, or
    /// one that makes a file look cut by them: what they saw then may be shown, also what we
    /// had hidden.
    rewritten: bool,
    took_sidecar: bool,
    removed: bool,
    /// Whether all that they did to lines was to add some after those that they found.
    only_added: bool,
    /// Whether they removed files that may not have been there.
    untold: bool,
    /// What the sidecar must say beyond lines.
    fields: Fields,
    /// What sidecars said of hidden lines.
    hidden: Vec<Option<(i64, i64)>>,
    pub(super) changed: bool,
    pub(super) twice: bool,
    deeds: u64,
}

impl After {
    pub(super) fn crash(known: Known, script: &Script) -> Self {
        Self {
            fields: known.fields.clone(),
            known,
            may_lack_files: script.may_lack_files(),
            added: BTreeSet::new(),
            dropped: BTreeSet::new(),
            taken: BTreeSet::new(),
            free: BTreeSet::new(),
            edited: false,
            seen: BTreeSet::new(),
            rewritten: false,
            took_sidecar: false,
            removed: false,
            only_added: true,
            untold: false,
            hidden: Vec::new(),
            changed: false,
            twice: false,
            deeds: 0,
        }
    }

    /// Whether they took anything away.
    pub(super) fn drops(&self) -> bool {
        !self.dropped.is_empty()
    }

    /// Has another program do something.
    pub(super) fn does(&mut self, disk: &MemoryStorage, deed: &Deed) {
        self.deeds += 1;
        let picoclaw = PicoClaw::new(InMemory::new(disk, DIR), 1_000 * self.deeds);
        let texts = || -> BTreeSet<String> {
            picoclaw
                .texts(KEY)
                .unwrap_or_default()
                .into_iter()
                .collect()
        };
        let files = || {
            let names = [log_name(KEY), sidecar_name(KEY)];
            names.map(|name| picoclaw.files.read(&name))
        };
        if picoclaw.texts(KEY).is_err() {
            // Part of a sidecar: PicoClaw refuses, and a person would not edit it.
            return;
        }
        let (before, found) = (texts(), files());
        (deed.run)(&picoclaw, &self.deeds.to_string());
        let (after, left) = (texts(), files());
        let rewrites = deed.rewrites && found[0] != left[0];
        let kept = |text: &String| self.known.must.contains(text) || self.added.contains(text);
        let edits = before.difference(&after).any(|text| !kept(text));
        if deed.adds && !(edits && deed.name.starts_with("typo")) {
            // What the file had is shown again if the sidecar is gone that hid it.
            let had = texts_in(found[0].as_ref());
            let new = after
                .difference(&before)
                .filter(|text| !had.contains(*text));
            self.added.extend(new.cloned());
        }
        self.dropped.extend(before.difference(&after).cloned());
        let removed = found[0].is_some() && left[0].is_none();
        self.removed |= removed;
        if rewrites || removed {
            // Also lines that the file had, and they did not see.
            let (had, has) = (texts_in(found[0].as_ref()), texts_in(left[0].as_ref()));
            self.dropped.extend(had.difference(&has).cloned());
        }
        // What a recovery made again they saw, and took away or not.
        self.taken.retain(|text| !before.contains(text));
        let whole = deed.name.starts_with("set") || deed.name.starts_with("clear");
        let whole = whole && rewrites;
        if self.deeds == 1 && (whole || removed) {
            let lost = self.known.journalled.difference(&after);
            self.taken.extend(lost.cloned());
        }
        if deed.name.contains("truncate") {
            // A power loss may have left a sidecar that hid lines from them already.
            self.dropped
                .extend(texts_in(found[0].as_ref()).difference(&after).cloned());
        } else if rewrites {
            let hidden = texts_in(left[0].as_ref())
                .difference(&after)
                .cloned()
                .collect::<Vec<_>>();
            self.free.extend(hidden);
        }
        let hides = |sidecar: &Option<Vec<u8>>| {
            let sidecar = Sidecar::decode(sidecar.as_deref()?)?;
            Some((sidecar.skip, sidecar.count))
        };
        // As many as in another file before: nobody can tell which of the two it was.
        let hidden = hides(&left[1]);
        let doubtful = self.twice && hidden.is_some() && self.hidden.contains(&hidden);
        self.untold |= doubtful && found[1] != left[1];
        self.hidden.extend([hides(&found[1]), hidden]);
        let took = left[1].is_none() || deed.name.contains("delete_sidecar");
        let unhidden = found[1].is_some() && took;
        // What they find is another that recovery made.
        self.took_sidecar &= found[1].is_none();
        self.took_sidecar |= unhidden;
        self.rewritten |= self.took_sidecar && left[1].is_some() && found[1] != left[1];
        let only_hides = deed.name == "truncate" && found[1] != left[1];
        self.rewritten |= only_hides && self.looks_cut(left[0].as_ref(), hidden);
        if unhidden {
            let free = self.dropped.intersection(&after).cloned();
            self.free.extend(free);
        }
        if rewrites || unhidden {
            self.dropped.retain(|text| !after.contains(text));
            self.rewritten |= rewrites;
        }
        if ["typo", "typo_last", "remove_line"].contains(&deed.name) && found[0] != left[0] {
            self.edits(left[0].as_ref());
        }
        self.added.retain(|text| !self.dropped.contains(text));
        self.changed |= found != left;
        // The end of a file that is gone may not have been written, but for who says so.
        let cleared = left[0].as_ref().is_some_and(Vec::is_empty) && hidden == Some((0, 0));
        let cut = rewrites
            && !cleared
            && found[0]
                .as_ref()
                .zip(left[0].as_ref())
                .is_some_and(|(f, l)| f.starts_with(l));
        self.untold |= cut;
        self.only_added &= adds([&found[0], &left[0]]) && !deed.rewrites && !cleared;
        // To truncate all is a clear if the sidecar counts lines, although a power loss took the
        // file. Our lines may then be a backup.
        let all = deed.name.starts_with("truncate_all") && texts_in(found[0].as_ref()).is_empty();
        self.only_added &= !(all && hides(&found[1]).is_some_and(|(skip, count)| skip < count));
        self.only_added &= !unhidden && self.dropped.is_empty();
        self.untold |= self.may_lack_files && (removed || unhidden);
        // Nor had the file a line before: what they wrote may as well be added to none.
        let has_ours = !self.known.ever.is_disjoint(&texts_in(left[0].as_ref()));
        let theirs_alone = left[0].is_some() && !cleared && !has_ours;
        self.untold |= self.may_lack_files && theirs_alone && (rewrites || self.rewritten);
        // Nothing tells any more that an empty file was cleared.
        self.untold |= unhidden && left[0].as_ref().is_some_and(Vec::is_empty);
        self.says(deed, [&found, &left], unhidden || removed);
        self.seen = after;
    }

    /// Whether lines of ours are missing from a file, and their sidecar shows all the rest:
    /// nobody can tell whether a power loss took the lines or they did.
    fn looks_cut(&self, log: Option<&Vec<u8>>, sidecar: Option<(i64, i64)>) -> bool {
        let lines = log.map_or(0, |log| log.split_inclusive(|byte| *byte == b'\n').count());
        let shows_all = sidecar == i64::try_from(lines).ok().map(|lines| (0, lines));
        shows_all && !self.known.must.is_subset(&texts_in(log))
    }

    /// They changed lines in place, and left this file.
    fn edits(&mut self, left: Option<&Vec<u8>>) {
        if self.edited {
            // Two edits: a line that only the journal tells of may as well never have
            // been in this file.
            let journalled = &self.known.journalled;
            let untold = self
                .dropped
                .extract_if(.., |text| journalled.contains(text));
            self.free.extend(untold);
        }
        // Two edits may leave just the lines that were shown once: that a compaction does, too.
        self.untold |= self.edited && self.known.shown.contains(&texts_in(left));
        self.edited = true;
        // Nothing but zeros is left: that a power loss leaves, too.
        let zeros = |log: &Vec<u8>| log.iter().all(|byte| *byte == 0);
        self.untold |= left.is_some_and(zeros);
    }

    /// What they changed of the sidecar is theirs, unless it is what ours said once: then
    /// nobody can tell. Who takes a sidecar away may have meant what it said or not.
    fn says(&mut self, deed: &Deed, files: [&[Option<Vec<u8>>; 2]; 2], doubtful: bool) {
        let [found, left] = files.map(|[_, sidecar]| Sidecar::decode(sidecar.as_deref()?));
        // Without its lines a session is deleted, unless it may have had none.
        let deleted = files[1][0].is_none() && (self.removed || !self.may_lack_files);
        let Some(left) = left.filter(|_| !doubtful && !deleted) else {
            self.fields = Fields::default();
            return;
        };
        let found = found.unwrap_or_else(|| Sidecar::new(KEY));
        let scope = |sidecar: &Sidecar| {
            let scope = sidecar
                .scope
                .as_ref()
                .map(|scope| scope.to_value().to_string());
            scope.unwrap_or_default()
        };
        let is_new = |is_it: &dyn Fn(&Fields) -> bool| !self.known.said.iter().any(is_it);
        let [was_empty, is_empty] = files.map(|[log, _]| log.as_ref().is_some_and(Vec::is_empty));
        let clears = deed.name.starts_with("clear") && is_empty;
        if clears || left.summary != found.summary {
            let summary = Some(left.summary.clone());
            let certain = clears || is_new(&|said| said.summary == summary);
            self.fields.summary = summary.filter(|_| certain);
        } else if was_empty || deed.rewrites && is_empty {
            // An empty file that a crash had left looks cleared, and one that they cleared
            // does not any more once it has a line.
            self.fields.summary = None;
        }
        if scope(&left) != scope(&found) {
            let scope = Some(scope(&left));
            let certain = is_new(&|said| said.scope == scope);
            self.fields.scope = scope.filter(|_| certain);
        }
        if left.aliases != found.aliases {
            let aliases = Some(left.aliases);
            let certain = is_new(&|said| said.aliases == aliases);
            self.fields.aliases = aliases.filter(|_| certain);
        }
    }
}

/// Whether a file goes on as it was found. An empty one they may have emptied and added to.
fn adds(log: [&Option<Vec<u8>>; 2]) -> bool {
    match log {
        [Some(found), Some(left)] => !found.is_empty() && left.starts_with(found),
        [found, _] => found.is_none(),
    }
}

fn texts_in(log: Option<&Vec<u8>>) -> BTreeSet<String> {
    let text = String::from_utf8_lossy(log.map_or(&[][..], Vec::as_slice)).into_owned();
    let records = text
        .lines()
        .filter_map(|line| serde_json::from_str(line).ok());
    let texts = records
        .filter_map(|record: serde_json::Value| Some(record["content"].as_str()?.to_owned()));
    texts.collect()
}

/// Opens the store and looks.
pub(super) fn check(disk: &MemoryStorage, after: &After) -> Result<(), String> {
    let view = read_only(disk.clone()).map_err(|e| format!("no view: {e}"))?;
    let seen = read_now(view.history(KEY)).map_err(|e| format!("the view reads as {e}"))?;
    let seen: Vec<_> = seen.iter().map(|m| m.text().into_owned()).collect();
    let said = read_now(view.session_meta(KEY)).map_err(|e| format!("the view's meta: {e}"))?;
    let mut sim = opened(disk).map_err(|e| format!("it does not open: {e}"))?;
    let report = sim.report().clone();
    let history = history(&mut sim)?;
    if seen != history {
        return Err(format!(
            "the view showed {seen:?}: the store shows {history:?}"
        ));
    }
    let reply = sim.handle().exact_keys().session_meta(KEY);
    let says = sim.run(reply).map_err(|e| format!("meta: {e}"))?;
    let of = |meta: &SessionMeta| (meta.key.clone(), meta.summary.clone(), meta.aliases.clone());
    if !history.is_empty() && of(&said) != of(&says) {
        return Err(format!(
            "the view said {:?}: the store says {:?}",
            of(&said),
            of(&says)
        ));
    }
    let told =
        |finding: &&String| finding.contains("another program") || finding.contains("missing");
    let findings: Vec<_> = report.findings.iter().filter(told).collect();
    // Of a session that nothing in the journal is about, nothing is to be told.
    let theirs = after.seen.iter().filter(|text| !text.is_empty());
    let theirs: Vec<_> = theirs.cloned().collect();
    let mut sorted = history.clone();
    sorted.sort();
    let as_seen = findings.is_empty() && sorted == theirs;
    if as_seen {
        return Ok(());
    }
    lines(disk, after, &history).map_err(|e| format!("{e}: {history:?}, {findings:?}"))?;
    backups_are_listed(disk, &mut sim)?;
    meta(&mut sim, after)?;
    if after.changed && findings.len() != 1 && !after.untold && !after.twice {
        return Err(format!("{} findings: {findings:?}", findings.len()));
    }
    if !after.changed && !findings.is_empty() {
        return Err(format!("findings of nothing: {findings:?}"));
    }
    sim.close().map_err(|e| format!("it does not close: {e}"))?;
    let mut sim = opened(disk).map_err(|e| format!("it does not open again: {e}"))?;
    let again = self::history(&mut sim)?;
    if again != history || !sim.report().findings.is_empty() {
        let findings = &sim.report().findings;
        return Err(format!(
            "opened again: {history:?}, then {again:?}, {findings:?}"
        ));
    }
    Ok(())
}

fn history(sim: &mut Sim) -> Result<Vec<String>, String> {
    let reply = sim.handle().exact_keys().history(KEY);
    let history = sim.run(reply).map_err(|e| format!("it reads as {e}"))?;
    Ok(history.iter().map(|m| m.text().into_owned()).collect())
}

fn lines(disk: &MemoryStorage, after: &After, history: &[String]) -> Result<(), String> {
    let shown: BTreeSet<String> = history.iter().cloned().collect();
    if shown.len() != history.len() {
        return Err("doubled".into());
    }
    let kept = backed_up(disk)?;
    let there = |text: &&String| shown.contains(*text) || kept.contains(*text);
    let must = after.known.must.iter().chain(&after.added);
    let mut must =
        must.filter(|text| !after.dropped.contains(*text) && !after.free.contains(*text));
    let only_added = after.only_added && !after.untold;
    let is_right = |text: &&String| shown.contains(*text) || !only_added && kept.contains(*text);
    if let Some(lost) = must.find(|text| !is_right(text)) {
        return Err(format!("lost {lost}"));
    }
    if let Some(lost) = after.taken.iter().find(|text| !there(text)) {
        return Err(format!("taken by them, and in no backup {lost}"));
    }
    let theirs = |text: &&String| after.rewritten && after.seen.contains(*text);
    let mut gone = after.known.gone.iter().filter(|text| !theirs(text));
    if let Some(back) = gone.find(|text| shown.contains(*text)) {
        return Err(format!("back {back}"));
    }
    let mut dropped = after.dropped.iter().filter(|_| !after.untold);
    match dropped.find(|text| shown.contains(*text)) {
        Some(back) => Err(format!("dropped, and back {back}")),
        None => Ok(()),
    }
}

/// The texts of all backups.
fn backed_up(disk: &MemoryStorage) -> Result<BTreeSet<String>, String> {
    let mut all = BTreeSet::new();
    for (path, bytes) in backups(disk) {
        let mut own = BTreeSet::new();
        for line in String::from_utf8_lossy(&bytes).lines() {
            let record: serde_json::Value = serde_json::from_str(line).unwrap_or_default();
            if let Some(text) = record["content"].as_str()
                && !own.insert(text.to_owned())
            {
                return Err(format!("{path} has {text} twice"));
            }
        }
        all.extend(own);
    }
    Ok(all)
}

fn backups(disk: &MemoryStorage) -> impl Iterator<Item = (String, Vec<u8>)> {
    let own = |path: &str| path.contains("/backups/a.") && !path.contains(".meta.");
    disk.dump().into_iter().filter(move |(path, _)| own(path))
}

fn backups_are_listed(disk: &MemoryStorage, sim: &mut Sim) -> Result<(), String> {
    let reply = sim.handle().exact_keys().list_backups(KEY);
    let listed = sim.run(reply).map_err(|e| format!("backups: {e}"))?;
    let there = backups(disk).count();
    if listed.len() != there {
        return Err(format!("{there} backups, listed are {listed:?}"));
    }
    Ok(())
}

fn compact(json: &str) -> String {
    let value: Option<serde_json::Value> = serde_json::from_str(json).ok();
    value.map(|value| value.to_string()).unwrap_or_default()
}

/// What the sidecar says beyond lines, and where each alias leads.
fn meta(sim: &mut Sim, after: &After) -> Result<(), String> {
    let reply = sim.handle().exact_keys().session_meta(KEY);
    let meta = sim.run(reply).map_err(|e| format!("meta: {e}"))?;
    let scope = meta.scope.as_ref().map_or("", |scope| scope.get());
    let says = Fields {
        summary: Some(meta.summary.clone()),
        scope: Some(compact(scope)),
        aliases: Some(meta.aliases.clone()),
    };
    let Fields {
        summary,
        scope,
        aliases,
    } = &after.fields;
    let is_it = (summary.is_none() || *summary == says.summary)
        && (scope.is_none() || *scope == says.scope)
        && (aliases.is_none() || *aliases == says.aliases);
    if !is_it {
        return Err(format!("it says {says:?}, not {:?}", after.fields));
    }
    for alias in &meta.aliases {
        let reply = sim.handle().session_meta(alias);
        let leads = sim.run(reply).map_err(|e| format!("{alias}: {e}"))?.key;
        if leads != KEY {
            return Err(format!("{alias} leads to {leads:?}"));
        }
    }
    Ok(())
}
