//! Erasing sessions, and proving that they are gone.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use sessionlog_core::error::{Error, Result};
use sessionlog_core::session_file::{self, Meta};
use sessionlog_wal::storage::Storage;
use sessionlog_wal::sync::thread;

use super::finding::{ListedSession, OwnedSessions, Sight as _};
use super::trash::TrashEntry;
use super::{Side, StoreHandle, blocking};
use crate::disk::files::is_temp_name;
use crate::engine::Engine;
use crate::engine::glance::{self, GLANCES};
use crate::engine::shard::verbs::delete::Delete;
use crate::engine::supervisor::SupervisorRequest;
use crate::front::erase::{Erase, EraseReceipt, Traces, is_own};
use crate::front::reply::Reply;
use crate::maintenance::estate::{self, Estate};
use crate::maintenance::traces::{self, Texts};

/// Erasing.
impl StoreHandle {
    /// Erases sessions from the directory, for a person who asks to be forgotten.
    /// [Deletes](Self::delete_session) them with their backups; removes their quarantined files,
    /// the copies that repairs kept, and the older files that they were imported from; and replaces
    /// the journal. Then it reads every file in the directory and lists in the receipt where the
    /// keys are still mentioned. Also erases the sessions under their aliases, except for an alias
    /// that another session has too, and for an agent's main alias.
    ///
    /// Quarantined files that mention several sessions, such as a damaged part of a journal, are
    /// removed whole. These stay: a message of another session that quotes the key; a
    /// [fork](crate::Context), which is a session of its own; copies made by
    /// [`backup_to`](Self::backup_to); files of other programs. The first and the last are among
    /// the traces if they are in the directory. Blocks that the file system freed are not
    /// overwritten. Do not write to the sessions meanwhile: a message makes a new one.
    ///
    /// Always durable. Takes a flush, and the time to read the whole directory. If it is cut short
    /// or fails, part of it is done, and another call does the rest. A session is deleted after its
    /// quarantined files are removed.
    ///
    /// ```
    /// use sessionlog::{Erase, Store};
    ///
    /// # fn main() -> sessionlog::Result<()> {
    /// # let scratch = tempfile::tempdir().unwrap();
    /// # let store = Store::open(scratch.path())?;
    /// let chats = store.handle();
    /// chats.add_message("telegram:7", "user", "I live at 5 Elm Street").wait()?;
    /// chats.add_message("telegram:8", "user", "hi").wait()?;
    /// let receipt = chats.erase(Erase::key("telegram:7")).wait()?;
    /// assert_eq!(receipt.sessions, ["telegram:7"]);
    /// assert!(receipt.is_complete());
    /// assert!(chats.traces(["Elm Street"]).wait()?.is_none());
    /// # store.close()
    /// # }
    /// ```
    ///
    /// # Errors
    /// The errors all verbs share, and [`Error::Io`] if a file cannot be removed or a directory
    /// cannot be listed.
    pub fn erase(&self, what: Erase) -> Reply<EraseReceipt> {
        let this = self.clone();
        Reply::lookup(move |place| {
            Box::pin(blocking(place, move || {
                let Side::Writer(engine) = &this.side else {
                    return Err(Error::ReadOnly);
                };
                if engine.is_closed() {
                    return Err(engine.failure());
                }
                Erasing::of(&this, engine, &what)?.erase(&this)
            }))
        })
    }

    /// Finds the files in the store's directory, and in directories below it, whose bytes or names
    /// contain any of these texts: sessions, hidden lines, backups, the journal, and files that are
    /// not the store's. A text is searched for as it is given: one with quotes, line breaks or
    /// characters that JSON escapes stands in files in another form. An empty text is found
    /// nowhere. Takes as long as reading the whole directory.
    ///
    /// ```
    /// # use sessionlog::Store;
    /// # fn main() -> sessionlog::Result<()> {
    /// # let scratch = tempfile::tempdir().unwrap();
    /// # let store = Store::open(scratch.path())?;
    /// let chats = store.handle();
    /// chats.add_message("cli", "user", "the password is hunter2").wait()?;
    /// chats.truncate_history("cli", 0).wait()?;
    /// assert!(!chats.traces(["hunter2"]).wait()?.found.is_empty());
    /// # store.close()
    /// # }
    /// ```
    ///
    /// # Errors
    /// The errors all verbs share, and [`Error::Io`] if a directory cannot be listed. A file that
    /// cannot be read is [reported](Traces::unread), and does not fail the call.
    pub fn traces<T: Into<String>>(&self, texts: impl IntoIterator<Item = T>) -> Reply<Traces> {
        let texts = texts.into_iter().map(Into::into);
        let mut texts: Vec<String> = texts.filter(|text: &String| !text.is_empty()).collect();
        texts.sort_unstable();
        texts.dedup();
        let this = self.clone();
        Reply::lookup(move |place| {
            Box::pin(blocking(place, move || {
                let dir = match &this.side {
                    Side::Writer(engine) if engine.is_closed() => return Err(engine.failure()),
                    Side::Writer(engine) => engine.shared.dir.clone(),
                    Side::Reader(view) => view.dir().to_owned(),
                };
                find(&*this.storage(), &dir, &texts)
            }))
        })
    }
}

fn find(storage: &dyn Storage, dir: &Path, texts: &[String]) -> Result<Traces> {
    let looked = traces::look(storage, dir, &Texts::of(dir, texts)?)?;
    let found = looked.found.into_iter().flat_map(|(file, which)| {
        let texts = which.into_iter().map(|which| texts[which].clone());
        texts
            .map(move |text| (file.clone(), text))
            .collect::<Vec<_>>()
    });
    Ok(Traces {
        found: found.collect(),
        unread: looked.unread,
        files: looked.files,
        bytes: looked.bytes,
    })
}

/// Sessions that are about to be erased.
struct Erasing<'a> {
    engine: &'a Arc<Engine>,
    what: &'a Erase,
    /// Their keys.
    keys: BTreeSet<String>,
    /// The keys, and the aliases that no other session has.
    names: BTreeSet<String>,
    stems: BTreeSet<String>,
    unreadable: Vec<String>,
    doubtful: BTreeSet<String>,
}

/// The number of waits for files that were being written, and the length of each.
const PATIENCE: u32 = 250;
const PAUSE: Duration = Duration::from_millis(20);

impl<'a> Erasing<'a> {
    /// # Errors
    /// `InvalidKey` if an id is blank, or a text is not a key.
    fn of(chats: &StoreHandle, engine: &'a Arc<Engine>, what: &'a Erase) -> Result<Self> {
        let mut this = Self {
            engine,
            what,
            keys: BTreeSet::new(),
            names: BTreeSet::new(),
            stems: BTreeSet::new(),
            unreadable: Vec::new(),
            doubtful: BTreeSet::new(),
        };
        let exact = chats.exact_keys();
        let sessions = OwnedSessions(&exact, engine);
        match what {
            Erase::Key(key) => {
                // An agent's main alias leads to any one of its sessions by chance.
                if is_own(key) {
                    let meant = chats.canonical(&engine.shared.catalog, key)?;
                    this.keys.insert(meant.to_string());
                }
                match session_file::validate_key(key) {
                    Ok(()) => drop(this.keys.insert(key.clone())),
                    Err(error) if this.keys.is_empty() => return Err(error),
                    Err(_) => {}
                }
            }
            Erase::Person(whose) | Erase::Chat(whose) => {
                if whose.id.trim().is_empty() {
                    let reason = "the id of whom to erase is blank";
                    return Err(Error::InvalidKey { reason });
                }
                this.find(&sessions);
                this.find_left()?;
            }
        }
        this.follow(&sessions)?;
        Ok(this)
    }

    /// True if a session is meant; a deleted one is judged by its former key and metadata.
    fn means(&self, key: &str, meta: &Meta) -> bool {
        let (key, meta) = meta.undeleted(key);
        self.what.means(&key, &meta)
    }

    /// True if the key contains the id, and nothing else tells the session's person or chat.
    fn may_mean(&self, key: &str, meta: &Meta) -> bool {
        let (key, meta) = meta.undeleted(key);
        let (key, id) = (session_file::fold(&key), self.what.id());
        let mut parts = key.split([':', '/']);
        Erase::ids_of(&key, &meta).is_empty() && parts.any(|part| Some(part) == id.as_deref())
    }

    /// Finds all sessions that are meant.
    fn find(&mut self, sessions: &OwnedSessions<'_>) {
        let mut seen = BTreeSet::new();
        // A session that got another key meanwhile is in the next list.
        loop {
            let mut listed = self.engine.shared.catalog.listed();
            listed.retain(|(_, key)| seen.insert(key.clone()));
            if listed.is_empty() {
                return;
            }
            let metas = glance::each(&listed, GLANCES, &|session| sessions.meta(session));
            for ((stem, key), meta) in listed.into_iter().zip(metas) {
                match meta {
                    Ok(meta) if self.means(&key, &meta) => drop(self.keys.insert(key)),
                    Ok(meta) => {
                        if self.may_mean(&key, &meta) {
                            self.doubtful.insert(session_file::log_name(&stem));
                        }
                    }
                    Err(error) => {
                        tracing::warn!(key, %error, "whose session it is cannot be told");
                        self.unreadable.push(key);
                    }
                }
            }
        }
    }

    /// Finds the meant keys of sessions that are gone or not yet imported.
    fn find_left(&mut self) -> Result<()> {
        let shared = &self.engine.shared;
        let (storage, dir) = (&*shared.storage, &*shared.dir);
        for file in traces::files(storage, dir)? {
            let older = (!file.contains('/')).then(|| estate::read_older(storage, dir, &file));
            let older = older.flatten().map(|older| {
                let mut meta = Meta::empty(&older.key).to_sidecar();
                (meta.scope, meta.aliases) = (older.scope, older.aliases);
                meta
            });
            let is_aside = estate::is_aside_sidecar(&file);
            let aside = is_aside.then(|| estate::read_sidecar(storage, &dir.join(&file)));
            if let Some(meta) = older.or(aside.flatten()) {
                let key = meta.key.clone();
                if self.what.means(&key, &Meta::of(meta)) {
                    self.keys.insert(key);
                }
            }
        }
        let orphans = shared.catalog.orphans().into_iter();
        self.doubtful
            .extend(orphans.map(|stem| session_file::log_name(&stem)));
        Ok(())
    }

    /// Adds the sessions that their aliases lead to, and the names of their files.
    fn follow(&mut self, sessions: &OwnedSessions<'_>) -> Result<()> {
        let catalog = &self.engine.shared.catalog;
        let conflicts = catalog.alias_conflicts().into_iter();
        let shared: BTreeMap<_, _> = conflicts.map(|one| (one.alias, one.sessions)).collect();
        let trash = TrashEntry::all(sessions.0, self.engine);
        let mut left: Vec<String> = self.keys.iter().cloned().collect();
        while let Some(key) = left.pop() {
            self.names.insert(key.clone());
            self.find_in_trash(&trash, &key, &mut left);
            let listed = (self.claim(&key), key);
            let found = meta_of(sessions, &listed)?;
            let (was, meta) = found.undeleted(&listed.1);
            self.claim_before(&listed.1, &was);
            for alias in &meta.text.aliases {
                let others = shared.get(alias).into_iter().flatten();
                let claimant = catalog.claimant(alias);
                let mut others = others.map(String::as_str).chain(claimant.as_deref());
                let is_others = others.any(|other| !self.keys.contains(other));
                // Some keys always mean their own session, even if another one has them as an
                // alias.
                let is_key = catalog.resolve(alias).is_some_and(|key| key == *alias);
                if is_others || is_key {
                    continue;
                }
                let has_files = catalog.has_files(alias);
                let own = catalog.get(alias).filter(|_| has_files);
                let own = own.map_or_else(String::new, |entry| entry.stem.to_string());
                let own = meta_of(sessions, &(own, alias.clone()))?;
                if !self.what.goes_along(alias, &own, &meta) {
                    continue;
                }
                if has_files && self.keys.insert(alias.clone()) {
                    left.push(alias.clone());
                }
                // It may have been the session's key, under which files were set aside.
                self.claim(alias);
                self.names.insert(alias.clone());
                self.find_in_trash(&trash, alias, &mut left);
            }
        }
        Ok(())
    }

    /// Adds the sessions in the trash that had this key or alias.
    fn find_in_trash(&mut self, trash: &[TrashEntry], name: &str, left: &mut Vec<String>) {
        for kept in trash.iter().filter(|kept| kept.is_called(name)) {
            if self.keys.insert(kept.key.clone()) {
                left.push(kept.key.clone());
            }
        }
    }

    /// Adds the former key of a deleted session, unless it now means another session.
    fn claim_before(&mut self, key: &str, was: &str) {
        let means = self.engine.shared.catalog.resolve(was);
        if key != was && means.is_none_or(|means| self.keys.contains(&means)) {
            self.claim(was);
            self.names.insert(was.to_owned());
        }
    }

    /// Claims the file names that the key has or would have; returns the stem it has, else an empty
    /// string.
    fn claim(&mut self, key: &str) -> String {
        let catalog = &self.engine.shared.catalog;
        let entry = catalog.get(key).map(|entry| entry.stem.clone());
        let own = entry.or_else(|| catalog.orphan_of(key));
        let usual = [
            session_file::plain_stem(key),
            session_file::hashed_stem(key),
        ];
        let usual = usual
            .into_iter()
            .filter(|stem| session_file::is_safe_stem(stem) && !catalog.is_others(stem, key));
        self.stems.extend(usual);
        let Some(own) = own else {
            return String::new();
        };
        self.stems.insert(own.to_string());
        own.to_string()
    }

    fn erase(mut self, chats: &StoreHandle) -> Result<EraseReceipt> {
        let shared = &self.engine.shared;
        let (storage, dir) = (&*shared.storage, &*shared.dir);
        let before = traces::files(storage, dir)?;
        let mut estate = Estate::of(storage, dir, self.names, self.stems);
        let listed = shared.catalog.listed().into_iter();
        estate.clear(&before, &listed.map(|(stem, _)| stem).collect())?;
        let delete =
            |key: &str| Reply::command(self.engine.clone(), key.into(), Delete::default()).wait();
        self.keys.iter().try_for_each(|key| delete(key))?;
        // One of them was deleted meanwhile.
        for kept in TrashEntry::all(&chats.exact_keys(), self.engine) {
            let is_meant = self.keys.iter().any(|key| kept.is_called(key));
            if is_meant && self.keys.insert(kept.key.clone()) {
                delete(&kept.key)?;
            }
        }
        self.engine.ask(SupervisorRequest::Purge)?;
        let mut doubtful = self.doubtful;
        doubtful.extend(unfinished(storage, dir)?);
        if !self.keys.iter().any(|key| shared.catalog.has_files(key)) {
            // For a session that is not in the catalog, a deletion removes nothing.
            let is_left = |file: &String| {
                let is_site = [
                    ".sessionlog/once/",
                    ".sessionlog/backups/",
                    ".sessionlog/archive/",
                ]
                .iter()
                .any(|site| file.starts_with(site));
                is_site && estate.is_left(file)
            };
            let left: Vec<String> = traces::files(storage, dir)?
                .into_iter()
                .filter(is_left)
                .collect();
            estate.remove_all(&left)?;
        }
        let after: BTreeSet<String> = traces::files(storage, dir)?.into_iter().collect();
        let removed = before.into_iter();
        let removed = removed.filter(|file| estate.owns(file) && !after.contains(file));
        doubtful.extend(
            after
                .iter()
                .filter(|file| estate.is_doubtful(file))
                .cloned(),
        );
        doubtful.retain(|file| after.contains(file));
        let mut receipt = EraseReceipt {
            sessions: self.keys.into_iter().collect(),
            removed: removed.collect(),
            unreadable: self.unreadable,
            doubtful: doubtful.into_iter().collect(),
            traces: find(storage, dir, &estate.texts())?,
        };
        let left = after.into_iter().filter(|file| estate.is_left(file));
        let left = left.map(|file| (file.clone(), file));
        receipt.traces.found.extend(left);
        Ok(receipt)
    }
}

/// Temporary files that were there when the sessions were deleted and stay for a while. They may be
/// of one of these sessions, and nothing writes them any more.
fn unfinished(storage: &dyn Storage, dir: &Path) -> Result<BTreeSet<String>> {
    let is_temp = |file: &str| {
        let name = file.rsplit('/').next().unwrap_or(file);
        is_temp_name(name) && !estate::is_aside_file(file)
    };
    let mut left: BTreeSet<String> = traces::files(storage, dir)?.into_iter().collect();
    left.retain(|file| is_temp(file));
    for _ in 0..PATIENCE {
        if left.is_empty() {
            break;
        }
        thread::pause(PAUSE);
        let now: BTreeSet<String> = traces::files(storage, dir)?.into_iter().collect();
        left.retain(|file| now.contains(file));
    }
    Ok(left)
}

fn meta_of(sessions: &OwnedSessions<'_>, listed: &ListedSession) -> Result<Meta> {
    if listed.0.is_empty() {
        return Ok(Meta::empty(&listed.1));
    }
    sessions.meta(listed)
}
