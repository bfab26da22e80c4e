//! Reading the messages that compactions dropped.

use std::io;
use std::path::{Path, PathBuf};

use sessionlog_core::error::{Error, Result};
use sessionlog_core::session_file::{self, Decoded};
use sessionlog_wal::storage::Storage;

use super::{Side, StoreHandle, blocking};
use crate::Message;
use crate::disk::archive::{self, ArchivePart};
use crate::disk::files;
use crate::engine::home::Home;
use crate::front::reply::Reply;

/// The archive.
impl StoreHandle {
    /// The months in which compactions dropped messages of a session, as `2026-11`, oldest first.
    /// Covers only times when the store was opened with
    /// [`StoreOptions::archive`](crate::StoreOptions::archive).
    ///
    /// # Errors
    /// The errors all verbs share.
    pub fn archived_months(&self, key: &str) -> Reply<Vec<String>> {
        let (this, key) = (self.clone(), key.to_owned());
        Reply::lookup(move |place| {
            Box::pin(blocking(place, move || {
                let archived = ArchivedPart::of(&this, &key)?;
                let mut months = Vec::new();
                archived.each(&|_| true, &mut |part, _| months.push(part.month.clone()))?;
                months.dedup();
                Ok(months)
            }))
        })
    }

    /// The messages of a session that compactions dropped in a month, oldest first. All of them are
    /// in memory at once. After a compaction that was cut short, some may be hidden in the
    /// session's file as well. Lines that do not decode are left out.
    ///
    /// ```
    /// use sessionlog::{Store, StoreOptions};
    ///
    /// # fn main() -> sessionlog::Result<()> {
    /// # let scratch = tempfile::tempdir().unwrap();
    /// let store = Store::open_with(scratch.path(), StoreOptions::new().archive(true))?;
    /// let chats = store.handle();
    /// chats.add_message("cli", "user", "remember the milk").wait()?;
    /// chats.truncate_history("cli", 0).wait()?;
    /// chats.compact("cli").wait()?;
    /// let months = chats.archived_months("cli").wait()?;
    /// let messages = chats.archived("cli", &months[0]).wait()?;
    /// assert_eq!(messages[0].text(), "remember the milk");
    /// # store.close()
    /// # }
    /// ```
    ///
    /// # Errors
    /// The errors all verbs share, and [`Error::Corrupt`] if a file of the archive is damaged.
    pub fn archived(&self, key: &str, month: &str) -> Reply<Vec<Message>> {
        let (this, key, month) = (self.clone(), key.to_owned(), month.to_owned());
        Reply::lookup(move |place| {
            Box::pin(blocking(place, move || {
                let archived = ArchivedPart::of(&this, &key)?;
                let mut messages = Vec::new();
                archived.each(&|part| part.month == month, &mut |_, lines| {
                    let lines = session_file::lines(&lines);
                    messages.extend(
                        lines.filter_map(|(_, raw)| match session_file::decode(raw) {
                            Decoded::Message(message) => Some(message),
                            _ => None,
                        }),
                    );
                })?;
                Ok(messages)
            }))
        })
    }
}

/// A session's part of the archive.
struct ArchivedPart {
    storage: std::sync::Arc<dyn Storage>,
    dir: PathBuf,
    key: String,
    stem: Option<String>,
}

/// The number of tries to find a part after another took its place.
const TRIES: usize = 20;

impl ArchivedPart {
    fn of(chats: &StoreHandle, key: &str) -> Result<Self> {
        let (dir, key, stem) = match &chats.side {
            Side::Writer(engine) => {
                if engine.is_closed() {
                    return Err(engine.failure());
                }
                let catalog = &engine.shared.catalog;
                let key = chats.canonical(catalog, key)?;
                let entry = catalog.get(&key);
                let stem = entry.map(|entry| entry.stem.to_string());
                (engine.shared.archive.dir.clone(), key, stem)
            }
            Side::Reader(view) => {
                let (key, stem) = view.named(key, chats.resolve)?;
                (view.home().archive.clone(), key, stem)
            }
        };
        Ok(Self {
            storage: chats.storage(),
            dir,
            key: key.to_string(),
            stem,
        })
    }

    /// Calls `take` for each wanted part, with its lines.
    fn each(
        &self,
        is_wanted: &dyn Fn(&ArchivePart) -> bool,
        take: &mut dyn FnMut(ArchivePart, Vec<u8>),
    ) -> Result<()> {
        let Some(stem) = &self.stem else {
            return Ok(());
        };
        let (mut next, mut tries) = (0, 0);
        loop {
            let mut parts = parts(&*self.storage, &self.dir)?;
            parts.retain(|part| part.stem == *stem && part.first > next && is_wanted(part));
            let mut is_over = true;
            for part in archive::in_order(parts) {
                let last = part.last;
                match read(&*self.storage, &self.dir, &self.key, &part) {
                    Ok(Some(lines)) => take(part, lines),
                    Ok(None) => {}
                    Err(error) if is_gone(&error) && tries < TRIES => {
                        is_over = false;
                        break;
                    }
                    Err(error) => return Err(error),
                }
                next = last;
            }
            if is_over {
                return Ok(());
            }
            tries += 1;
        }
    }
}

/// All parts in an archive. The archive may be absent.
///
/// # Errors
/// If it cannot be listed.
pub(super) fn parts(storage: &dyn Storage, dir: &Path) -> Result<Vec<ArchivePart>> {
    let names = files::entries(storage, dir)?;
    Ok(names
        .iter()
        .filter_map(|name| ArchivePart::parse(name))
        .collect())
}

/// The directory of a store's archive.
pub(super) fn dir_of(chats: &StoreHandle) -> PathBuf {
    match &chats.side {
        Side::Writer(engine) => engine.shared.archive.dir.clone(),
        Side::Reader(view) => Home::of(view.dir()).archive,
    }
}

/// The lines of a part; `None` if they belong to another session that had the name before.
///
/// # Errors
/// `Io` if the part cannot be read or is gone; `Corrupt` if it is damaged.
pub(super) fn read(
    storage: &dyn Storage,
    dir: &Path,
    key: &str,
    part: &ArchivePart,
) -> Result<Option<Vec<u8>>> {
    let path = dir.join(part.to_text());
    let bytes = files::read_whole(storage, &path).map_err(|e| Error::io("read", &path, e))?;
    if !archive::is_of(key, &bytes) {
        return Ok(None);
    }
    let corrupt = |e: io::Error| Error::Corrupt {
        path,
        detail: format!("the archive does not read: {e}"),
    };
    archive::decode(&bytes).map(Some).map_err(corrupt)
}

fn is_gone(error: &Error) -> bool {
    matches!(error, Error::Io { source, .. } if source.kind() == io::ErrorKind::NotFound)
}
