//! The files that sessions leave in a store's directory, also where a deletion does not look: files
//! that were set aside, copies of repairs, and older files that were imported.

mod names;

use std::collections::BTreeSet;
use std::io;
use std::path::Path;

use sessionlog_core::error::{Error, Result};
use sessionlog_core::session_file::{self, LegacySession, SIDECAR, SessionMeta, encode_string};
use sessionlog_wal::journal::segment;
use sessionlog_wal::storage::Storage;

use self::names::{is_archived, is_aside, is_backup, is_mixed, is_once, is_session, unnumbered};
use super::traces::Texts;
use crate::disk::files::{self, once, sidecar};

/// Sessions that are to leave no trace.
#[derive(Debug)]
pub(crate) struct Estate<'a> {
    storage: &'a dyn Storage,
    dir: &'a Path,
    /// Their keys, and the aliases that are no other session's.
    names: BTreeSet<String>,
    stems: BTreeSet<String>,
    /// Files that are theirs but are not recognized by their names.
    found: BTreeSet<String>,
}

/// Names with fewer bytes than this occur in too many places that do not mean them.
const SHORT: usize = 6;

impl<'a> Estate<'a> {
    pub(crate) fn of(
        storage: &'a dyn Storage,
        dir: &'a Path,
        names: BTreeSet<String>,
        stems: BTreeSet<String>,
    ) -> Self {
        Self {
            storage,
            dir,
            names,
            stems,
            found: BTreeSet::new(),
        }
    }

    /// Returns the texts that refer to them: their names as JSON has them.
    pub(crate) fn texts(&self) -> Vec<String> {
        let (short, long) = self.names.iter().partition(|name| name.len() < SHORT);
        let long: Vec<&String> = long;
        let long = long.into_iter().flat_map(forms).collect::<BTreeSet<_>>();
        long.into_iter().chain(keyed(short)).collect()
    }

    /// Returns true if a file belongs to one of them or to the journal, by its name.
    pub(crate) fn owns(&self, file: &str) -> bool {
        let (site, name) = file.rsplit_once('/').unwrap_or(("", file));
        let of_any = |is_of: &dyn Fn(&str) -> bool| self.stems.iter().any(|stem| is_of(stem));
        let own = match site {
            "" => of_any(&|stem| is_session(name, stem)),
            ".sessionlog/backups" => of_any(&|stem| is_backup(name, stem)),
            ".sessionlog/once" => of_any(&|stem| is_once(name, stem)),
            ".sessionlog/archive" => of_any(&|stem| is_archived(name, stem)),
            ".sessionlog/journal" => true,
            _ if is_aside(site) => self.stem_of(name).is_some(),
            _ => false,
        };
        own || self.found.contains(file)
    }

    /// Returns the stem of theirs that a file which was set aside has.
    fn stem_of(&self, name: &str) -> Option<&str> {
        let name = unnumbered(name);
        let mut stems = self.stems.iter().map(String::as_str);
        stems.find(|stem| is_session(name, stem) || is_backup(name, stem))
    }

    /// Returns true if a file that is there refers to them by its name.
    pub(crate) fn is_left(&self, file: &str) -> bool {
        self.owns(file) && !file.starts_with(".sessionlog/journal/")
    }

    /// Returns true if the owner of a file's lines cannot be known: a file that was never put in
    /// its place, or a part of a journal that could name the session only by a name too short to be
    /// searched for.
    pub(crate) fn is_doubtful(&self, file: &str) -> bool {
        let (site, name) = file.rsplit_once('/').unwrap_or(("", file));
        let has_short = self.stems.iter().any(|stem| stem.len() < SHORT);
        let is_segment = segment::number_of(unnumbered(name)).is_some();
        is_aside(site) && (files::is_temp_name(unnumbered(name)) || is_segment && has_short)
    }

    /// Removes the files that a deletion leaves of them. This comes before they are deleted: until
    /// then their names are known, and a call that is cut short can begin again.
    ///
    /// # Errors
    /// If one of the files cannot be read or removed.
    pub(crate) fn clear(&mut self, files: &[String], listed: &BTreeSet<String>) -> Result<()> {
        for stem in self.twins(files, listed) {
            let twin = [
                session_file::sidecar_name(&stem),
                session_file::log_name(&stem),
            ];
            twin.iter().try_for_each(|name| self.remove(name))?;
            self.stems.insert(stem);
        }
        let others = self.others(files);
        let stems = self.stems.iter().filter(|stem| stem.len() >= SHORT);
        let mixed: Vec<String> = keyed(self.names.iter().collect())
            .chain(stems.cloned())
            .collect();
        let mixed = Texts::of(self.dir, &mixed)?;
        let mut removed = Vec::new();
        for file in files {
            let (site, name) = file.rsplit_once('/').unwrap_or(("", file));
            let is_theirs = match site {
                "" => self.is_older(name),
                ".sessionlog/once" => match once::stem_of(name) {
                    // It goes with the session. If the erasure were cut short in between, a session
                    // that exists would take its messages again.
                    Some(stem) if self.stems.contains(stem) => false,
                    Some(stem) if listed.contains(stem) => {
                        self.blank_taken(file)?;
                        false
                    }
                    _ => self.has_taken(file)?,
                },
                _ if !is_aside(site) || files::is_temp_name(unnumbered(name)) => false,
                _ => match self.stem_of(name) {
                    Some(stem) => !others.contains(&(site, stem.to_owned())),
                    None => is_mixed(name) && self.is_in(&mixed, file)?,
                },
            };
            if is_theirs {
                removed.push(file.clone());
            }
        }
        self.remove_all(&removed)?;
        self.found.extend(removed);
        Ok(())
    }

    /// Removes files, and syncs that.
    ///
    /// # Errors
    /// As the operating system reports them.
    pub(crate) fn remove_all(&self, files: &[String]) -> Result<()> {
        let mut sites = BTreeSet::from([""]);
        for file in files {
            self.remove(file)?;
            sites.extend(file.rsplit_once('/').map(|(site, _)| site));
        }
        for site in sites {
            let site = self.dir.join(site);
            let synced = self.storage.sync_dir(&site);
            synced.map_err(|e| Error::io("sync", &site, e))?;
        }
        Ok(())
    }

    /// Returns stems of theirs under which files of another session were set aside, by site: a
    /// sidecar beside the files shows that.
    fn others<'f>(&self, files: &'f [String]) -> BTreeSet<(&'f str, String)> {
        let aside = files.iter().filter_map(|file| file.rsplit_once('/'));
        let aside = aside.filter(|(site, _)| is_aside(site));
        let of_other = |(site, name): (&'f str, &str)| {
            let stem = unnumbered(name).strip_suffix(SIDECAR)?;
            let meta = self.sidecar(&format!("{site}/{name}"))?;
            let is_other = !meta.key.is_empty() && !self.names.contains(&meta.key);
            is_other.then(|| (site, stem.to_owned()))
        };
        aside.filter_map(of_other).collect()
    }

    /// Returns the file names of sessions that are not listed, because another file has their key,
    /// and their key is one of these.
    fn twins(&self, files: &[String], listed: &BTreeSet<String>) -> Vec<String> {
        let stems = files.iter().filter_map(|file| file.strip_suffix(SIDECAR));
        let stems = stems.filter(|stem| !stem.contains('/') && !listed.contains(*stem));
        let is_theirs = |stem: &&str| {
            let meta = self.sidecar(&session_file::sidecar_name(stem));
            meta.is_some_and(|meta| self.names.contains(&meta.key)) && !self.stems.contains(*stem)
        };
        stems.filter(is_theirs).map(String::from).collect()
    }

    /// Returns a sidecar's content, if it is one and reads.
    fn sidecar(&self, file: &str) -> Option<SessionMeta> {
        read_sidecar(self.storage, &self.dir.join(file))
    }

    fn remove(&self, file: &str) -> Result<()> {
        let path = self.dir.join(file);
        match self.storage.remove_file(&path) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => Err(Error::io("remove", &path, e)),
            _ => Ok(()),
        }
    }

    fn is_in(&self, texts: &Texts, file: &str) -> Result<bool> {
        match texts.within(self.storage, self.dir, file) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(e) => Err(Error::io("read", &self.dir.join(file), e)),
            Ok((found, _)) => Ok(!found.is_empty()),
        }
    }

    /// Returns true if one of them took messages with ids in the file.
    fn has_taken(&self, file: &str) -> Result<bool> {
        let path = self.dir.join(file);
        let bytes = match files::read_whole(self.storage, &path) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(false),
            read => read.map_err(|e| Error::io("read", &path, e))?,
        };
        let begins = self.once_begins();
        let mut lines = bytes.split(|&byte| byte == b'\n');
        Ok(lines.any(|line| once::is_of(line, &begins)))
    }

    /// Blanks their ids among those of another session that got their files' name later.
    fn blank_taken(&self, file: &str) -> Result<()> {
        let path = self.dir.join(file);
        let blanked = once::blank(self.storage, &path, &self.once_begins());
        blanked.map(drop).map_err(|e| Error::io("write", &path, e))
    }

    /// Returns the beginnings of the lines that name messages they took once.
    fn once_begins(&self) -> Vec<String> {
        let begins = keyed(self.names.iter().collect()).map(|key| format!("{{{key},"));
        begins.collect()
    }

    /// Returns true if it is an older file of one of them, imported or not: the next import would
    /// bring it back.
    fn is_older(&self, name: &str) -> bool {
        let session = read_older(self.storage, self.dir, name);
        session.is_some_and(|session| self.names.contains(&session.key))
    }
}

/// Returns a sidecar's content, if it is one and reads.
pub(crate) fn read_sidecar(storage: &dyn Storage, path: &Path) -> Option<SessionMeta> {
    let bytes = sidecar::read_bytes(storage, path).ok()?;
    let meta = session_file::decode_sidecar(&bytes).ok()?;
    (!session_file::holds_session(&bytes)).then_some(meta)
}

/// Returns the session in an older file, imported or not. One that names no key has its file's name
/// as the key.
pub(crate) fn read_older(storage: &dyn Storage, dir: &Path, name: &str) -> Option<LegacySession> {
    let old = name.strip_suffix(".migrated").unwrap_or(name);
    let stem = old.strip_suffix(".json")?;
    let bytes = files::read_whole(storage, &dir.join(name)).ok()?;
    if old.ends_with(SIDECAR) && !session_file::holds_own_session(old, &bytes) {
        return None;
    }
    let mut session = session_file::decode_legacy(&bytes).ok()?;
    if !session_file::holds_session(&bytes) {
        return None;
    }
    if session.key.is_empty() {
        stem.clone_into(&mut session.key);
    }
    Some(session)
}

/// Returns true if a file was set aside.
pub(crate) fn is_aside_file(file: &str) -> bool {
    file.rsplit_once('/')
        .is_some_and(|(site, _)| is_aside(site))
}

/// Returns true if a file is a sidecar that was set aside, by its name.
pub(crate) fn is_aside_sidecar(file: &str) -> bool {
    is_aside_file(file) && unnumbered(file).ends_with(SIDECAR)
}

/// Returns a name as JSON has it: as Go writes it, and as others do.
fn forms(name: &String) -> [String; 2] {
    let plain = serde_json::to_string(name).unwrap_or_default();
    [encode_string(name), plain]
}

/// Returns the texts that declare these names as keys.
fn keyed(names: Vec<&String>) -> impl Iterator<Item = String> {
    let forms = names.into_iter().flat_map(forms).collect::<BTreeSet<_>>();
    let keyed = |form: String| [format!("\"key\":{form}"), format!("\"key\": {form}")];
    forms.into_iter().flat_map(keyed)
}
