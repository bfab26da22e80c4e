//! Restores sessions from a journal with holes: all readable records are carried out, and the
//! missing parts are reported.

use std::io;
use std::path::{Path, PathBuf};

use sessionlog_core::error::{Error, Result};
use sessionlog_core::session_file::{self, Kind, SessionMeta};
use sessionlog_wal::journal::inspect::Inspection;
use sessionlog_wal::journal::record::Record;
use sessionlog_wal::storage::Storage;

use super::census;
use crate::disk::files;
use crate::disk::files::backup::BackupName;
use crate::disk::files::log_path;
use crate::engine::recovery::plan::{AppendedLines, Base, Plan, Plans, flaw};
use crate::engine::recovery::redo::rewrite_fault;

/// The plan of each session from the readable records, by file name.
#[derive(Debug, Default)]
pub(super) struct Salvage {
    pub(super) plans: Plans<SalvagedPieces>,
    /// The flaw of each record that no engine wrote. None of them is carried out.
    flaws: Vec<&'static str>,
}

/// Appended bytes and their offsets, in order; there may be gaps.
#[derive(Debug, Default, Clone)]
pub(super) struct SalvagedPieces(Vec<(u64, Vec<u8>)>);

/// The places of files.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sources<'a> {
    pub(super) storage: &'a dyn Storage,
    pub(super) dir: &'a Path,
    pub(super) backups: &'a Path,
}

/// A session restored from a damaged journal.
#[derive(Debug)]
pub(super) struct RescuedSession {
    /// The session's key, or its file's name if no key is known.
    pub(super) name: String,
    /// `None` if it was deleted.
    pub(super) content: Option<Vec<u8>>,
    pub(super) meta: Option<SessionMeta>,
    /// The losses, one line each.
    pub(super) losses: Vec<String>,
}

impl Salvage {
    /// Collects the readable records of a journal.
    ///
    /// # Errors
    /// If a segment cannot be read any more.
    pub(super) fn of(inspection: &Inspection, storage: &dyn Storage) -> Result<Self> {
        let mut salvage = Self::default();
        inspection.replay(storage, |record| salvage.add(record))?;
        Ok(salvage)
    }

    /// Takes in the next readable record.
    pub(super) fn add(&mut self, record: &Record<'_>) {
        match flaw(record) {
            Some(flaw) => self.flaws.push(flaw),
            None => self.plans.apply(record),
        }
    }

    /// Puts session `stem` together from the files and the records.
    ///
    /// # Errors
    /// If its files cannot be read.
    pub(super) fn rescue(&self, sources: Sources<'_>, stem: &str) -> Result<RescuedSession> {
        let Sources { storage, dir, .. } = sources;
        let plan = self.plans.sessions.get(stem).cloned().unwrap_or_default();
        if !plan.exists() {
            let (_, on_disk) = census::sidecar(storage, dir, stem)?;
            return Ok(RescuedSession {
                name: on_disk.map_or_else(|| stem.to_owned(), |meta| meta.key),
                content: None,
                meta: None,
                losses: Vec::new(),
            });
        }
        let file = || bytes_of(storage, &log_path(dir, stem));
        let mut rebuilt = plan.rebuild(self, sources, &file, 0)?;
        if let Base::Swapped(swap) = &plan.base {
            rebuilt.losses.extend(rewrite_fault(storage, dir, swap)?);
            let places = [dir.join(&swap.temp), log_path(dir, stem)];
            let there = places.iter().map(|path| files::is_there(storage, path));
            if !there.collect::<Result<Vec<_>>>()?.contains(&true) {
                let missing = "the rewritten session file is missing";
                rebuilt.losses.push(missing.into());
            }
        }
        if rebuilt.lost > 0 {
            let lost = rebuilt.lost;
            rebuilt
                .losses
                .push(format!("{lost} appended bytes are gone"));
        }
        let (_, on_disk) = census::sidecar(storage, dir, stem)?;
        let meta = rebuilt.meta(plan.meta_rescued(on_disk));
        let name = meta.as_ref().map_or(stem, |meta| &meta.key).to_owned();
        let losses = rebuilt.losses.iter().map(|loss| format!("{name}: {loss}"));
        Ok(RescuedSession {
            losses: losses.collect(),
            name,
            content: Some(rebuilt.bytes),
            meta,
        })
    }

    /// Returns the losses, one line each.
    ///
    /// # Errors
    /// If files cannot be read.
    pub(super) fn losses(&self, sources: Sources<'_>) -> Result<Vec<String>> {
        let flaws = self.flaws.iter();
        let mut losses: Vec<_> = flaws
            .map(|flaw| format!("a journal record, which {flaw}"))
            .collect();
        for stem in self.plans.sessions.keys() {
            losses.extend(self.rescue(sources, stem)?.losses);
        }
        for kept in &self.plans.backups {
            if self.backup(sources, &kept.name)?.is_none() {
                losses.push(format!("the backup {}", kept.name));
            }
        }
        Ok(losses)
    }

    /// Returns the bytes of a backup, if any are there.
    ///
    /// # Errors
    /// If files cannot be read.
    pub(super) fn backup(&self, sources: Sources<'_>, name: &str) -> Result<Option<Vec<u8>>> {
        self.backup_at(sources, name, 0)
    }

    fn backup_at(&self, sources: Sources<'_>, name: &str, depth: usize) -> Result<Option<Vec<u8>>> {
        let path = sources.backups.join(name);
        let there = |path: &Path| files::is_there(sources.storage, path);
        let Some(kept) = self.plans.backup(name) else {
            return there(&path)?
                .then(|| bytes_of(sources.storage, &path))
                .transpose();
        };
        // A backup is only made of earlier ones; if damage left a circle, nothing is at its end.
        if depth > self.plans.backups.len() {
            return Ok(None);
        }
        let link = sources.backups.join(&kept.link);
        let place = if there(&link)? { link } else { path };
        if !there(&place)? && matches!(kept.plan.base, Base::OnDisk | Base::Swapped(_)) {
            return Ok(None);
        }
        let file = || bytes_of(sources.storage, &place);
        let rebuilt = kept.plan.rebuild(self, sources, &file, depth)?;
        Ok(Some(rebuilt.bytes))
    }

    /// Returns the backups that went with their session.
    ///
    /// # Errors
    /// If they cannot be listed.
    pub(super) fn unmade(&self, sources: Sources<'_>) -> Result<Vec<PathBuf>> {
        let Sources {
            storage, backups, ..
        } = sources;
        let files = files::entries(storage, backups)?;
        let unmade =
            |file: &String| BackupName::parse(file).is_some_and(|n| self.plans.unmakes(&n));
        let unmade = files.into_iter().filter(unmade);
        Ok(unmade.map(|file| backups.join(file)).collect())
    }
}

impl AppendedLines for SalvagedPieces {
    fn append(&mut self, offset: u64, bytes: &[u8]) {
        match self.0.last_mut() {
            Some((start, piece)) if *start + piece.len() as u64 == offset => {
                piece.extend_from_slice(bytes);
            }
            _ => self.0.push((offset, bytes.to_vec())),
        }
    }

    fn is_given(&self) -> bool {
        !self.0.is_empty()
    }
}

impl Plan<SalvagedPieces> {
    /// The hidden file that a rewrite of this session prepared.
    pub(super) fn temp(&self) -> Option<&str> {
        match &self.base {
            Base::Swapped(swap) => Some(&swap.temp),
            Base::OnDisk | Base::Deleted | Base::Prefix(_) => None,
        }
    }

    /// Puts a file and the records together. `file` reads the file that has the session file's name
    /// now.
    fn rebuild(
        &self,
        salvage: &Salvage,
        sources: Sources<'_>,
        file: &dyn Fn() -> Result<Vec<u8>>,
        depth: usize,
    ) -> Result<Rebuilt> {
        let mut rebuilt = Rebuilt::default();
        match &self.base {
            Base::Deleted => {}
            Base::OnDisk => rebuilt.bytes = file()?,
            Base::Swapped(swap) => {
                let temp = sources.dir.join(&swap.temp);
                rebuilt.bytes = if files::is_there(sources.storage, &temp)? {
                    bytes_of(sources.storage, &temp)?
                } else {
                    file()?
                };
                rebuilt.put(swap.len, &swap.tail);
            }
            Base::Prefix(prefix) => {
                let backup = salvage.backup_at(sources, &prefix.of, depth + 1)?;
                let whole = backup.filter(|bytes| bytes.len() as u64 >= prefix.len);
                if let Some(mut bytes) = whole {
                    bytes.truncate(prefix.len as usize);
                    rebuilt.bytes = bytes;
                } else {
                    let of = &prefix.of;
                    rebuilt
                        .losses
                        .push(format!("the backup {of} it was made of"));
                    rebuilt.bytes = file()?;
                }
            }
        }
        for (offset, piece) in &self.appended.0 {
            rebuilt.put(*offset, piece);
        }
        Ok(rebuilt)
    }

    /// Returns the sidecar as the records have it, if they or the disk have one.
    fn meta_rescued(&self, on_disk: Option<SessionMeta>) -> Option<SessionMeta> {
        let deleted = matches!(self.base, Base::Deleted);
        let before = on_disk.filter(|_| !deleted);
        let image = self.image.as_deref().cloned();
        let mut meta = image.or(before)?;
        if let Some(patch) = &self.patch {
            patch.apply(&mut meta);
        }
        Some(meta)
    }
}

/// A session file being put together.
#[derive(Debug, Default)]
struct Rebuilt {
    bytes: Vec<u8>,
    /// The offset of the next piece, minus the offset in its record.
    shift: i64,
    lost: u64,
    /// Number of lines before the first gap.
    gap: Option<i64>,
    losses: Vec<String>,
}

impl Rebuilt {
    fn put(&mut self, offset: u64, piece: &[u8]) {
        if piece.is_empty() {
            return;
        }
        let len = self.bytes.len();
        let at = offset.saturating_add_signed(self.shift);
        let begin = usize::try_from(at).unwrap_or(usize::MAX);
        if begin <= len && self.holds(begin, piece) {
            let end = begin + piece.len();
            self.bytes.resize(len.max(end), 0);
            self.bytes[begin..end].copy_from_slice(piece);
            return;
        }
        if begin > len {
            self.lost += at - len as u64;
            let lines = count(&self.bytes);
            self.gap.get_or_insert(lines);
        }
        if self.bytes.last().is_some_and(|last| *last != b'\n') {
            self.bytes.push(b'\n');
        }
        let end = self.bytes.len() as u64;
        self.shift = end.wrapping_sub(offset).cast_signed();
        self.bytes.extend_from_slice(piece);
    }

    /// True if the bytes there are the piece, as far as it arrived.
    fn holds(&self, begin: usize, piece: &[u8]) -> bool {
        let found = self.bytes[begin..].iter().zip(piece);
        found
            .into_iter()
            .all(|(found, byte)| found == byte || *found == 0)
    }

    /// Returns the sidecar that holds when lines it counts are gone: it hides none of the lines
    /// after them.
    fn meta(&self, meta: Option<SessionMeta>) -> Option<SessionMeta> {
        let mut meta = meta?;
        let lines = count(&self.bytes);
        if let Some(gap) = self.gap
            && meta.skip > gap
        {
            let lost = meta.count.saturating_sub(lines).max(0);
            meta.skip = (meta.skip - lost).max(gap);
        }
        meta.count = lines;
        Some(meta)
    }
}

/// Counts lines as `skip` does.
fn count(bytes: &[u8]) -> i64 {
    let lines = session_file::lines(bytes);
    let lines = lines.filter(|(_, line)| session_file::classify(line) != Kind::Blank);
    i64::try_from(lines.count()).unwrap_or(i64::MAX)
}

fn bytes_of(storage: &dyn Storage, path: &Path) -> Result<Vec<u8>> {
    match files::read_whole(storage, path) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        other => other.map_err(|e| Error::io("read", path, e)),
    }
}
