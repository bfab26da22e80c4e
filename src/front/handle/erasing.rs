//! Erasing sessions, and proving that they are gone.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use super::finding::{Listed, Owned, Source};
use super::{Side, StoreHandle, blocking};
use crate::disk::session_file::{self, Meta};
use crate::engine::Engine;
use crate::engine::estate::Estate;
use crate::engine::glance::{self, GLANCES};
use crate::engine::shard::verbs::delete::Delete;
use crate::engine::supervisor::Request;
use crate::engine::traces::{self, Texts};
use crate::error::{Error, Result};
use crate::front::erase::{Erase, EraseReceipt, Traces, is_own};
use crate::front::reply::Reply;
use crate::ground::storage::Storage;

/// Erasing.
impl StoreHandle {
    /// Erases sessions from the directory, for who asks to be forgotten:
    /// [deletes](Self::delete_session) them with their backups, removes what was set aside of
    /// them, what repairs kept, and the older files that they were imported from, and
    /// replaces the journal. Then it reads every file in the directory, and tells in the
    /// receipt where the keys are still spoken of. Sessions under aliases of theirs that no
    /// other session has, nor an agent for its main session, are erased, too.
    ///
    /// Files that were set aside and speak of several sessions, such as a damaged part of a
    /// journal, are removed whole. What stays: a message of another session that quotes the
    /// key; a [fork](crate::Context), which is a session of its own; copies that
    /// [`backup_to`](Self::backup_to) made; files of other programs. The first and the last
    /// are among the traces if they are in the directory. Blocks that the file system gave up
    /// are not written over. Nobody should write to the sessions meanwhile: a message makes a
    /// new one.
    ///
    /// Always durable. Takes a flush, and as long as reading the whole directory. Cut short,
    /// or after an error, part of it is done, and another call does the rest; the session is
    /// deleted after its files that were set aside are removed.
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
    /// Those all verbs share, and [`Error::Io`] if a file cannot be removed, or a directory
    /// not listed.
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
                Erasing::of(&this, engine, &what)?.erase()
            }))
        })
    }

    /// In which files of the store's directory, or of directories in it, the bytes of any of
    /// these texts are, or in whose names: in sessions, hidden lines, backups, the journal,
    /// and files that are not the store's. A text is looked for as it is given: one with
    /// quotes, line breaks or characters that JSON escapes stands in files in another form.
    /// An empty one is nowhere. Takes as long as reading the whole directory.
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
    /// Those all verbs share, and [`Error::Io`] if a directory cannot be listed. A file that
    /// cannot be read is [told](Traces::unread), and fails nothing.
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
    /// Their keys.
    keys: BTreeSet<String>,
    /// The keys, and the aliases that are theirs alone.
    names: BTreeSet<String>,
    stems: BTreeSet<String>,
    unreadable: Vec<String>,
}

impl<'a> Erasing<'a> {
    /// # Errors
    /// `InvalidKey` if an id is blank, or a key is none.
    fn of(chats: &StoreHandle, engine: &'a Arc<Engine>, what: &Erase) -> Result<Self> {
        let mut this = Self {
            engine,
            keys: BTreeSet::new(),
            names: BTreeSet::new(),
            stems: BTreeSet::new(),
            unreadable: Vec::new(),
        };
        let exact = chats.exact_keys();
        let sessions = Owned(&exact, engine);
        match what {
            Erase::Key(key) => {
                let meant = chats.canonical(&engine.shared.catalog, key)?;
                this.keys.insert(meant.to_string());
                if session_file::validate_key(key).is_ok() {
                    this.keys.insert(key.clone());
                }
            }
            Erase::Person(whose) | Erase::Chat(whose) => {
                if whose.id.trim().is_empty() {
                    let reason = "the id of whom to erase is blank";
                    return Err(Error::InvalidKey { reason });
                }
                this.find(&sessions, what);
            }
        }
        this.follow(&sessions)?;
        Ok(this)
    }

    /// All sessions that are meant.
    fn find(&mut self, sessions: &Owned<'_>, what: &Erase) {
        let listed = sessions.listed();
        let metas = glance::each(&listed, GLANCES, &|session| sessions.meta(session));
        for ((_, key), meta) in listed.into_iter().zip(metas) {
            match meta {
                Ok(meta) if what.means(&key, &meta) => drop(self.keys.insert(key)),
                Ok(_) => {}
                Err(error) => {
                    tracing::warn!(key, %error, "whose session it is cannot be told");
                    self.unreadable.push(key);
                }
            }
        }
    }

    /// Adds what their aliases lead to, and their files' names.
    fn follow(&mut self, sessions: &Owned<'_>) -> Result<()> {
        let catalog = &self.engine.shared.catalog;
        let conflicts = catalog.alias_conflicts().into_iter();
        let shared: BTreeMap<_, _> = conflicts.map(|one| (one.alias, one.sessions)).collect();
        let mut left: Vec<String> = self.keys.iter().cloned().collect();
        while let Some(key) = left.pop() {
            self.names.insert(key.clone());
            let listed = (self.claim(&key), key);
            for alias in aliases_of(sessions, &listed)? {
                let others = shared.get(&alias).into_iter().flatten();
                let is_others = others.into_iter().any(|other| !self.keys.contains(other));
                if is_others || !is_own(&alias) {
                    continue;
                }
                if catalog.has_files(&alias) && self.keys.insert(alias.clone()) {
                    left.push(alias.clone());
                }
                self.names.insert(alias);
            }
        }
        Ok(())
    }

    /// The name of a key's files; that it would have, if there are none.
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
        let stem = own.as_deref().unwrap_or_default().to_owned();
        match own {
            Some(own) => drop(self.stems.insert(own.to_string())),
            None => self.stems.extend(usual),
        }
        stem
    }

    fn erase(self) -> Result<EraseReceipt> {
        let shared = &self.engine.shared;
        let (storage, dir) = (&*shared.storage, &*shared.dir);
        let before = traces::files(storage, dir)?;
        let mut estate = Estate::of(storage, dir, self.names, self.stems);
        let listed = shared.catalog.listed().into_iter();
        estate.clear(&before, &listed.map(|(stem, _)| stem).collect())?;
        for key in &self.keys {
            Reply::command(self.engine.clone(), key.as_str().into(), Delete::default()).wait()?;
        }
        self.engine.ask(Request::Purge)?;
        let after: BTreeSet<String> = traces::files(storage, dir)?.into_iter().collect();
        let removed = before.into_iter();
        let removed = removed.filter(|file| estate.owns(file) && !after.contains(file));
        let mut receipt = EraseReceipt {
            sessions: self.keys.into_iter().collect(),
            removed: removed.collect(),
            unreadable: self.unreadable,
            traces: find(storage, dir, &estate.texts())?,
        };
        let left = after.into_iter().filter(|file| estate.is_left(file));
        let left = left.map(|file| (file.clone(), file));
        receipt.traces.found.extend(left);
        Ok(receipt)
    }
}

fn aliases_of(sessions: &Owned<'_>, listed: &Listed) -> Result<Vec<String>> {
    if listed.0.is_empty() {
        return Ok(Vec::new());
    }
    let meta: Meta = sessions.meta(listed)?;
    Ok(meta.text.aliases.clone())
}
