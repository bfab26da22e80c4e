//! PicoClaw's older sessions: one JSON file each, whole in memory.
//!
//! A save writes a hidden file, syncs it, renames it and syncs the directory. A crash before the
//! rename leaves the old file, and the next open removes the hidden one. After the rename the new
//! file is there.

use std::path::Path;
use std::sync::Arc;

mod files;

use sessionlog_core::error::{Error, Result};
use sessionlog_core::scope::SessionScope;
use sessionlog_core::session_file;
use sessionlog_wal::storage::{DiskStorage, LockGuard, Storage};

use self::files::LegacyFiles;
use crate::engine::home::{self, Home};
use crate::front::backend::book::BookLimits;
use crate::front::backend::desk::Desk;
use crate::front::backend::page::MemorySession;
use crate::front::backend::store::{SessionStore, StoreKind};
use crate::front::backend::verbs::verbs_of;
use crate::front::handle::blocking;
use crate::maintenance::migrate::{self, LegacyContent};
use crate::{Message, MigrationReport, Reply};

/// The files of PicoClaw's older session manager, one `*.json` per session, read and written in the
/// same way.
///
/// All sessions are in memory. A write is kept only once [`save`](SessionStore::save) or
/// [`close`](SessionStore::close) has returned. Each session is saved by a hidden file, a sync and
/// a rename, so that a crash leaves the old file or the new one. A session that cannot be saved
/// keeps no other from being saved. Dropping the store saves unsaved sessions, and logs a failure.
/// If a deletion fails, the session stays, and the next save writes it again; if the process dies
/// before that, its file may be gone.
///
/// Scopes and aliases are in these files too; PicoClaw ignores them, and drops them from a session
/// that it saves itself. After that, the first caller with a scope of that key gets the session,
/// unless the scope could be a forgery.
///
/// A key with `.` or `..` between its `/` or `\` is refused as [`Error::InvalidKey`]. A file
/// belongs to the key in it; if another key would have the same file, or the name is unsafe, the
/// second key gets a name with a hash in it. Files that do not decode are left alone. Sidecars,
/// JSONL files and imported files (`….json.migrated`) are ignored: open a directory that may have
/// them through [`open_session_store`](crate::backend::open_session_store).
///
/// One process writes: the store holds the directory's lock, the same as [`Store`](crate::Store)
/// takes. Part of that lock is in the engine's own directory; if something is in the way of that
/// directory, the rest of the lock is used alone, and that is logged.
///
/// ```
/// use sessionlog::backend::{LegacyJsonStore, SessionStore};
///
/// # fn main() -> sessionlog::Result<()> {
/// # let scratch = tempfile::tempdir().unwrap();
/// # let dir = scratch.path();
/// let chats = LegacyJsonStore::open(dir)?;
/// chats.add_message("telegram:123", "user", "hi").wait()?;
/// chats.save("telegram:123").wait()?;
/// assert!(dir.join("telegram_123.json").exists());
/// assert!(chats.save("../elsewhere").wait().is_err());
/// # Ok(())
/// # }
/// ```
pub struct LegacyJsonStore {
    desk: Desk,
    files: Arc<LegacyFiles>,
    found: MigrationReport,
}

/// Shows nothing of the sessions: the output ends up in logs, and reading them would take time.
impl std::fmt::Debug for LegacyJsonStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LegacyJsonStore")
            .field("dir", &self.files.dir)
            .finish_non_exhaustive()
    }
}

impl LegacyJsonStore {
    /// Opens a directory, creating it if needed, and reads all sessions in it.
    /// Blocks for as long as that takes.
    ///
    /// # Errors
    /// [`Error::Locked`] while another process, or another store in this one,
    /// writes to the directory; [`Error::Io`] if the directory is a file, a
    /// symbolic link or another user's, or cannot be made, listed or locked, or
    /// if the disk fails to read a file.
    pub fn open(dir: impl AsRef<Path>) -> Result<Self> {
        let dir = dir.as_ref();
        let dir = std::path::absolute(dir).map_err(|e| Error::io("open", dir, e))?;
        let home = Home::of(&dir);
        let storage: Arc<dyn Storage> = Arc::new(DiskStorage::default());
        home.create_site(&*storage, &dir)?;
        let storage = home::root(&storage, &dir)?;
        let lock = home.lock_only(&*storage, &dir)?;
        Self::under(storage, &dir, lock)
    }

    /// Opens a directory under its writer's lock, which is held already.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub(crate) fn under(
        storage: Arc<dyn Storage>,
        dir: &Path,
        lock: Box<dyn LockGuard>,
    ) -> Result<Self> {
        let files = LegacyFiles::open(storage, dir, lock)?;
        let desk = Desk::new(BookLimits {
            paths: false,
            ..BookLimits::none()
        });
        let found = load(&files, &desk)?;
        Ok(Self {
            desk,
            files: Arc::new(files),
            found,
        })
    }

    /// Does `work` on a session and its file, on a thread where it may block.
    fn filed(
        &self,
        key: &str,
        work: impl FnOnce(&LegacyFiles, &Desk, &str) -> Result<()> + Send + 'static,
    ) -> Reply<()> {
        let (desk, files, key) = (self.desk.clone(), self.files.clone(), key.to_owned());
        Reply::lookup(move |place| {
            Box::pin(blocking(place, move || {
                let key = desk.now(|book| book.canonical(&key))?;
                work(&files, &desk, &key)
            }))
        })
    }
}

/// Reads every session; if several files have one key, the last by name counts, as in PicoClaw.
/// Reports the files that are not sessions, with the reasons.
fn load(files: &LegacyFiles, desk: &Desk) -> Result<MigrationReport> {
    let mut report = MigrationReport::default();
    for name in migrate::candidates(&*files.storage, &files.dir)? {
        let session = match migrate::read(&*files.storage, &files.dir, &name)? {
            LegacyContent::Session(session) if session_file::validate_key(&session.key).is_ok() => {
                session
            }
            other => {
                match other {
                    LegacyContent::Neither(reason) => report.skip(&files.dir.join(&name), reason),
                    LegacyContent::Session(_) => {
                        let reason = String::from("its key is none");
                        report.skip(&files.dir.join(&name), reason);
                    }
                    LegacyContent::Sidecar => {}
                }
                files.reserve(&name);
                continue;
            }
        };
        files.own(&name, &session.key);
        let key = session.key.clone();
        let page = MemorySession::found(session);
        desk.now(|book| {
            book.put(key, page);
            Ok(())
        })?;
    }
    Ok(report)
}

impl Drop for LegacyJsonStore {
    fn drop(&mut self) {
        if let Err(error) = self.files.close(&self.desk) {
            tracing::error!(%error, "sessions were not saved");
        }
    }
}

impl SessionStore for LegacyJsonStore {
    fn kind(&self) -> StoreKind {
        StoreKind::LegacyJson
    }

    fn migration_report(&self) -> MigrationReport {
        self.found.clone()
    }

    verbs_of!(desk);

    fn save(&self, key: &str) -> Reply<()> {
        self.filed(key, LegacyFiles::save)
    }

    fn delete_session(&self, key: &str) -> Reply<()> {
        self.filed(key, LegacyFiles::delete)
    }

    fn ensure_session_metadata(
        &self,
        key: &str,
        scope: Option<&SessionScope>,
        aliases: Vec<String>,
    ) -> Reply<bool> {
        self.desk.ensure_session_metadata(key, scope, aliases)
    }

    fn session_scope(&self, key: &str) -> Reply<Option<SessionScope>> {
        self.desk.session_scope(key)
    }

    fn close(&self) -> Reply<()> {
        let (desk, files) = (self.desk.clone(), self.files.clone());
        Reply::lookup(move |place| Box::pin(blocking(place, move || files.close(&desk))))
    }
}
