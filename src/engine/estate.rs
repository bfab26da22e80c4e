//! What sessions leave in a store's directory, also where a deletion does not look: among
//! files that were set aside, in copies of repairs, and in older files that were imported.

use std::collections::BTreeSet;
use std::io;
use std::path::Path;

use super::home;
use super::traces::Texts;
use crate::disk::archive::Part;
use crate::disk::files::backup::{self, Name};
use crate::disk::files::{self, once, sidecar};
use crate::disk::journal::segment;
use crate::disk::session_file::{self, LOG, SIDECAR, encode_string};
use crate::error::{Error, Result};
use crate::ground::storage::Storage;

/// Sessions that are to leave nothing.
#[derive(Debug)]
pub(crate) struct Estate<'a> {
    storage: &'a dyn Storage,
    dir: &'a Path,
    /// Their keys, and the aliases that are no other session's.
    names: BTreeSet<String>,
    stems: BTreeSet<String>,
    /// What is theirs and is not told by its name.
    found: BTreeSet<String>,
}

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

    /// What stands where one of them is spoken of: their names as JSON has them.
    pub(crate) fn texts(&self) -> Vec<String> {
        let forms = self.names.iter().flat_map(|name| {
            let plain = serde_json::to_string(name).unwrap_or_default();
            [encode_string(name), plain]
        });
        forms.collect::<BTreeSet<_>>().into_iter().collect()
    }

    /// Whether a file is of one of them, or is the journal's, by its name.
    pub(crate) fn owns(&self, file: &str) -> bool {
        let (site, name) = file.rsplit_once('/').unwrap_or(("", file));
        let of_any = |is_of: &dyn Fn(&str) -> bool| self.stems.iter().any(|stem| is_of(stem));
        let own = match site {
            "" => of_any(&|stem| is_session(name, stem)),
            ".sessionlog/backups" => of_any(&|stem| is_backup(name, stem)),
            ".sessionlog/once" => of_any(&|stem| is_once(name, stem)),
            ".sessionlog/archive" => of_any(&|stem| is_archived(name, stem)),
            ".sessionlog/journal" => true,
            _ if is_aside(site) => {
                let name = unnumbered(name);
                of_any(&|stem| is_session(name, stem) || is_backup(name, stem))
            }
            _ => false,
        };
        own || self.found.contains(file)
    }

    /// Whether a file that is there speaks of them by its name.
    pub(crate) fn is_left(&self, file: &str) -> bool {
        self.owns(file) && !file.starts_with(".sessionlog/journal/")
    }

    /// Removes what a deletion leaves of them. Before they are deleted: until then their
    /// names are known, and who is cut short can begin again.
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
        let texts = Texts::of(self.dir, &self.texts())?;
        let mut sites = BTreeSet::from([""]);
        for file in files {
            let (site, name) = file.rsplit_once('/').unwrap_or(("", file));
            let aside = is_aside(site)
                && (self.owns(file) || is_mixed(name) && self.is_in(&texts, file)?);
            let lost =
                site == ".sessionlog/once" && !self.owns(file) && self.is_in(&texts, file)?;
            if aside || lost || site.is_empty() && self.is_older(name)? {
                self.found.insert(file.clone());
                self.remove(file)?;
                sites.insert(site);
            }
        }
        for site in sites {
            let site = self.dir.join(site);
            let synced = self.storage.sync_dir(&site);
            synced.map_err(|e| Error::io("sync", &site, e))?;
        }
        Ok(())
    }

    /// The file names of sessions that are not listed, because another file has their key,
    /// which is one of these.
    fn twins(&self, files: &[String], listed: &BTreeSet<String>) -> Vec<String> {
        let stems = files.iter().filter_map(|file| file.strip_suffix(SIDECAR));
        let stems = stems.filter(|stem| !stem.contains('/') && !listed.contains(*stem));
        let is_theirs = |stem: &&str| {
            let path = self.dir.join(session_file::sidecar_name(stem));
            let meta = sidecar::read_bytes(self.storage, &path).ok();
            let meta = meta.and_then(|bytes| session_file::decode_sidecar(&bytes).ok());
            meta.is_some_and(|meta| self.names.contains(&meta.key)) && !self.stems.contains(*stem)
        };
        stems.filter(is_theirs).map(String::from).collect()
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

    /// Whether it is an older file of one of them, imported or not: the next import would
    /// bring it back.
    fn is_older(&self, name: &str) -> Result<bool> {
        let old = name.strip_suffix(".migrated").unwrap_or(name);
        let is_old = old.strip_suffix(".json").is_some();
        if !is_old || old == name && old.ends_with(SIDECAR) {
            return Ok(false);
        }
        let path = self.dir.join(name);
        let bytes = match files::read_whole(self.storage, &path) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(false),
            read => read.map_err(|e| Error::io("read", &path, e))?,
        };
        let session = session_file::decode_legacy(&bytes);
        Ok(session.is_ok_and(|session| self.names.contains(&session.key)))
    }
}

/// Whether files that are nobody's any more are kept there.
fn is_aside(site: &str) -> bool {
    let Some(own) = site.strip_prefix(home::NAME) else {
        return false;
    };
    own == "/quarantine" || own.starts_with("/backups/repair-")
}

/// Whether a file that was set aside may speak of many sessions.
fn is_mixed(name: &str) -> bool {
    let name = unnumbered(name);
    let is_once = name.ends_with(".ids.jsonl") || name.ends_with(".old.jsonl");
    segment::number_of(name).is_some()
        || is_once
        || !name.ends_with(LOG) && !name.ends_with(SIDECAR)
}

fn is_session(name: &str, stem: &str) -> bool {
    let rest = name.strip_prefix(stem);
    rest.is_some_and(|rest| rest == LOG || rest == SIDECAR)
}

fn is_backup(name: &str, stem: &str) -> bool {
    let log = name
        .strip_suffix(SIDECAR)
        .map(|rest| format!("{rest}{LOG}"));
    let stored = Name::parse(log.as_deref().unwrap_or(name));
    let marked = backup::parse_number_marker(name);
    stored.is_some_and(|stored| stored.stem == stem) || marked.is_some_and(|(of, _)| of == stem)
}

fn is_archived(name: &str, stem: &str) -> bool {
    Part::parse(name).is_some_and(|part| part.stem == stem)
}

fn is_once(name: &str, stem: &str) -> bool {
    let mut paths = once::paths(Path::new(""), stem).into_iter();
    paths.any(|path| path == Path::new(name))
}

/// A name without the number that kept it from taking another's place.
fn unnumbered(name: &str) -> &str {
    match name.rsplit_once('.') {
        Some((rest, number)) if number.parse::<u64>().is_ok() => rest,
        _ => name,
    }
}
