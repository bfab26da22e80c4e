//! The engine as a session store: PicoClaw's session layer.

use std::sync::Arc;

use sessionlog_core::error::{Error, Result};
use sessionlog_core::scope::SessionScope;
use sessionlog_wal::sync::Mutex;

use super::store::{SessionStore, StoreKind};
use super::verbs::verbs_of;
use crate::front::handle::blocking;
use crate::{Merged, Message, MigrationReport, Reply, Store, StoreHandle};

/// A [`Store`] as a [`SessionStore`].
///
/// A write is kept, as the store's [`Durability`](crate::Durability) says, when its reply arrives.
/// [`save`](SessionStore::save) compacts the session. Dropping this closes the store it was made
/// from, as dropping a [`Store`] does.
///
/// ```
/// use std::sync::Arc;
/// use sessionlog::backend::{JsonlBackend, SessionStore};
/// use sessionlog::Store;
///
/// # fn main() -> sessionlog::Result<()> {
/// # let scratch = tempfile::tempdir().unwrap();
/// # let dir = scratch.path();
/// let chats: Arc<dyn SessionStore> = Arc::new(JsonlBackend::new(Store::open(dir)?));
/// chats.add_message("telegram:123", "user", "hi").wait()?;
/// chats.save("telegram:123").wait()?;
/// assert_eq!(chats.history("telegram:123").wait()?[0].text(), "hi");
/// chats.close().wait()
/// # }
/// ```
pub struct JsonlBackend {
    chats: StoreHandle,
    owned: Arc<Mutex<OwnedStore>>,
    migration: MigrationReport,
}

/// Shows no keys and paths.
impl std::fmt::Debug for JsonlBackend {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let chats = &self.chats;
        f.debug_struct("JsonlBackend")
            .field("chats", chats)
            .finish_non_exhaustive()
    }
}

/// The store to close.
#[derive(Debug, Default)]
enum OwnedStore {
    Open(Store),
    /// No store, or one that is closed already.
    #[default]
    Nothing,
    /// A store that did not close in order.
    Failed(Error),
}

impl OwnedStore {
    fn close(&mut self) -> Result<()> {
        let closed = match std::mem::take(self) {
            Self::Open(store) => store.close(),
            Self::Nothing => Ok(()),
            Self::Failed(error) => Err(error),
        };
        if let Err(error) = &closed {
            *self = Self::Failed(error.clone());
        }
        closed
    }
}

impl JsonlBackend {
    /// The sessions of `store`, which is closed with this.
    #[must_use]
    pub fn new(store: Store) -> Self {
        Self {
            chats: store.handle(),
            owned: Arc::new(Mutex::new(OwnedStore::Open(store))),
            migration: MigrationReport::default(),
        }
    }

    /// The sessions of `store`, with the report of what it imported when it was opened.
    pub(super) fn migrated(store: Store, migration: MigrationReport) -> Self {
        Self {
            migration,
            ..Self::new(store)
        }
    }

    /// The sessions behind a handle. Closing this leaves the store open; it belongs to another
    /// owner.
    #[must_use]
    pub fn over(chats: StoreHandle) -> Self {
        Self {
            chats,
            owned: Arc::default(),
            migration: MigrationReport::default(),
        }
    }

    /// The handle behind it, for verbs that only the engine has.
    #[must_use]
    pub fn handle(&self) -> StoreHandle {
        self.chats.clone()
    }
}

impl SessionStore for JsonlBackend {
    fn kind(&self) -> StoreKind {
        StoreKind::Jsonl
    }

    fn migration_report(&self) -> MigrationReport {
        self.migration.clone()
    }

    verbs_of!(chats);

    fn append_once(&self, key: &str, id: &str, messages: Vec<Message>) -> Reply<crate::Appended> {
        self.chats.append_once(key, id, messages)
    }

    fn save(&self, key: &str) -> Reply<()> {
        self.chats.compact(key)
    }

    fn delete_session(&self, key: &str) -> Reply<()> {
        self.chats.delete_session(key)
    }

    fn ensure_session_metadata(
        &self,
        key: &str,
        scope: Option<&SessionScope>,
        aliases: Vec<String>,
    ) -> Reply<bool> {
        let scope = scope.map(SessionScope::to_raw);
        self.chats.ensure_session_metadata(key, scope, aliases)
    }

    fn session_scope(&self, key: &str) -> Reply<Option<SessionScope>> {
        let meta = self.chats.session_meta(key);
        Reply::lookup(move |place| {
            Box::pin(async move {
                let scope = meta.at(place).await?.scope;
                let scope = scope.filter(|scope| scope.get() != "null");
                scope
                    .map(|scope| SessionScope::from_json(scope.get()))
                    .transpose()
            })
        })
    }

    fn rename_session(&self, old: &str, new: &str) -> Reply<()> {
        self.chats.rename_session(old, new)
    }

    fn merge_session(&self, old: &str, new: &str) -> Reply<Merged> {
        self.chats.merge_session(old, new)
    }

    fn close(&self) -> Reply<()> {
        let owned = self.owned.clone();
        Reply::lookup(move |place| Box::pin(blocking(place, move || owned.lock().close())))
    }
}
