//! PicoClaw's contract: a store with verbs that do not fail.

use std::sync::Arc;

use sessionlog_core::error::Error;
use sessionlog_core::scope::SessionScope;

use super::store::{SessionStore, StoreKind};
use crate::{
    Appended, Budget, Keep, Merged, Message, MigrationReport, Position, Reply, SessionPage,
    SessionQuery, Update, Version, Window,
};

/// A store that logs its errors and goes on, as PicoClaw's session layer does.
/// Made by [`fire_and_forget`].
///
/// A failed write counts as done, though nothing was written. A failed read shows an empty session,
/// though the session may not be empty. Only [`save`](SessionStore::save) and
/// [`close`](SessionStore::close) return their errors, as in PicoClaw. So does
/// [`ensure_session_metadata`](SessionStore::ensure_session_metadata) for [`Error::ScopeConflict`]:
/// a caller that went on would be inside another conversation. Verbs that PicoClaw does not have
/// and whose answer is an outcome, [`update`](SessionStore::update), [`edit`](SessionStore::edit),
/// [`remove`](SessionStore::remove), [`set_history_at`](SessionStore::set_history_at),
/// [`append_once`](SessionStore::append_once) and [`window`](SessionStore::window), return their
/// errors, too. Errors are logged at level `error`, with the verb and the key.
///
/// Only for callers that cannot handle errors; all others lose by it.
#[derive(Clone, Debug)]
pub struct FireAndForget {
    store: Arc<dyn SessionStore>,
}

/// Puts a store under PicoClaw's contract: errors are logged, not returned.
///
/// ```
/// use std::sync::Arc;
/// use sessionlog::backend::{EphemeralStore, SessionStore, fire_and_forget};
///
/// # fn main() -> sessionlog::Result<()> {
/// let chats = fire_and_forget(Arc::new(EphemeralStore::new()));
/// chats.add_message("", "user", "for nobody").wait()?;
/// assert!(chats.history("").wait()?.is_empty());
/// # Ok(())
/// # }
/// ```
#[must_use]
pub fn fire_and_forget(store: Arc<dyn SessionStore>) -> FireAndForget {
    FireAndForget { store }
}

impl FireAndForget {
    fn logged<T: Send + 'static>(
        verb: &'static str,
        key: &str,
        reply: Reply<T>,
        instead: impl FnOnce(String) -> T + Send + 'static,
    ) -> Reply<T> {
        let key = key.to_owned();
        Reply::lookup(move |place| {
            Box::pin(async move {
                Ok(reply.at(place).await.unwrap_or_else(|error| {
                    log(verb, &key, &error);
                    instead(key)
                }))
            })
        })
    }

    fn or_empty<T: Default + Send + 'static>(
        verb: &'static str,
        key: &str,
        reply: Reply<T>,
    ) -> Reply<T> {
        Self::logged(verb, key, reply, |_| T::default())
    }
}

fn log(verb: &str, key: &str, error: &Error) {
    // A key that is refused for its length is not logged at that length.
    let key = &key[..key.floor_char_boundary(256)];
    tracing::error!(verb, key, %error, "a session store failed; its caller goes on");
}

impl SessionStore for FireAndForget {
    fn kind(&self) -> StoreKind {
        self.store.kind()
    }

    fn migration_report(&self) -> MigrationReport {
        self.store.migration_report()
    }

    fn append_all(&self, key: &str, messages: Vec<Message>) -> Reply<()> {
        Self::or_empty("append_all", key, self.store.append_all(key, messages))
    }

    fn history(&self, key: &str) -> Reply<Vec<Message>> {
        Self::or_empty("history", key, self.store.history(key))
    }

    fn tail(&self, key: &str, n: usize) -> Reply<Vec<Message>> {
        Self::or_empty("tail", key, self.store.tail(key, n))
    }

    fn count(&self, key: &str) -> Reply<usize> {
        Self::or_empty("count", key, self.store.count(key))
    }

    fn exists(&self, key: &str) -> Reply<bool> {
        Self::or_empty("exists", key, self.store.exists(key))
    }

    fn window(&self, key: &str, budget: Budget) -> Reply<Window> {
        self.store.window(key, budget)
    }

    fn update(&self, key: &str, update: Update) -> Reply<Version> {
        self.store.update(key, update)
    }

    fn append_once(&self, key: &str, id: &str, messages: Vec<Message>) -> Reply<Appended> {
        self.store.append_once(key, id, messages)
    }

    fn set_title(&self, key: &str, title: &str) -> Reply<()> {
        Self::or_empty("set_title", key, self.store.set_title(key, title))
    }

    fn set_labels(&self, key: &str, labels: Vec<String>) -> Reply<()> {
        Self::or_empty("set_labels", key, self.store.set_labels(key, labels))
    }

    fn set_pinned(&self, key: &str, pinned: bool) -> Reply<()> {
        Self::or_empty("set_pinned", key, self.store.set_pinned(key, pinned))
    }

    fn edit(&self, key: &str, position: Position, message: Message) -> Reply<Version> {
        self.store.edit(key, position, message)
    }

    fn remove(&self, key: &str, position: Position) -> Reply<Version> {
        self.store.remove(key, position)
    }

    fn set_history_at(
        &self,
        key: &str,
        version: Version,
        messages: Vec<Message>,
    ) -> Reply<Version> {
        self.store.set_history_at(key, version, messages)
    }

    fn truncate_to(&self, key: &str, keep: Keep) -> Reply<()> {
        Self::or_empty("truncate_to", key, self.store.truncate_to(key, keep))
    }

    fn sessions(&self, query: SessionQuery) -> Reply<SessionPage> {
        Self::or_empty("sessions", "", self.store.sessions(query))
    }

    fn set_history(&self, key: &str, messages: Vec<Message>) -> Reply<()> {
        Self::or_empty("set_history", key, self.store.set_history(key, messages))
    }

    fn truncate_history(&self, key: &str, keep_last: usize) -> Reply<()> {
        let reply = self.store.truncate_history(key, keep_last);
        Self::or_empty("truncate_history", key, reply)
    }

    fn summary(&self, key: &str) -> Reply<String> {
        Self::or_empty("summary", key, self.store.summary(key))
    }

    fn set_summary(&self, key: &str, summary: &str) -> Reply<()> {
        Self::or_empty("set_summary", key, self.store.set_summary(key, summary))
    }

    fn save(&self, key: &str) -> Reply<()> {
        self.store.save(key)
    }

    fn delete_session(&self, key: &str) -> Reply<()> {
        Self::or_empty("delete_session", key, self.store.delete_session(key))
    }

    fn list_sessions(&self) -> Reply<Vec<String>> {
        Self::or_empty("list_sessions", "", self.store.list_sessions())
    }

    fn ensure_session_metadata(
        &self,
        key: &str,
        scope: Option<&SessionScope>,
        aliases: Vec<String>,
    ) -> Reply<bool> {
        let reply = self.store.ensure_session_metadata(key, scope, aliases);
        let key = key.to_owned();
        Reply::lookup(move |place| {
            Box::pin(async move {
                reply.at(place).await.or_else(|error| {
                    log("ensure_session_metadata", &key, &error);
                    match error {
                        Error::ScopeConflict { .. } => Err(error),
                        _ => Ok(false),
                    }
                })
            })
        })
    }

    /// Never `None`: a key without a session means its own session, to be created.
    fn resolve_session_key(&self, key: &str) -> Reply<Option<String>> {
        let reply = self.store.resolve_session_key(key);
        let given = key.to_owned();
        let own = Self::logged("resolve_session_key", key, reply, Some);
        Reply::lookup(move |place| {
            Box::pin(async move { Ok(own.at(place).await?.or(Some(given))) })
        })
    }

    fn session_scope(&self, key: &str) -> Reply<Option<SessionScope>> {
        Self::or_empty("session_scope", key, self.store.session_scope(key))
    }

    fn rename_session(&self, old: &str, new: &str) -> Reply<()> {
        self.store.rename_session(old, new)
    }

    fn merge_session(&self, old: &str, new: &str) -> Reply<Merged> {
        self.store.merge_session(old, new)
    }

    fn close(&self) -> Reply<()> {
        self.store.close()
    }
}
