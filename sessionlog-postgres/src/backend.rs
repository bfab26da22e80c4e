//! Implements the trait that a gateway holds for the store.

use sessionlog::backend::{SessionStore, StoreKind};
use sessionlog::scope::SessionScope;
use sessionlog::{
    Appended, Budget, Keep, Merged, Message, Position, Reply, SessionPage, SessionQuery, Update,
    Version, Window,
};

use crate::command::Verb;
use crate::store::PostgresStore;
use crate::write::done;

impl SessionStore for PostgresStore {
    fn kind(&self) -> StoreKind {
        StoreKind::Other
    }

    fn append_all(&self, key: &str, messages: Vec<Message>) -> Reply<()> {
        self.append_all(key, messages)
    }

    fn history(&self, key: &str) -> Reply<Vec<Message>> {
        self.history(key)
    }

    fn tail(&self, key: &str, n: usize) -> Reply<Vec<Message>> {
        self.tail(key, n)
    }

    fn count(&self, key: &str) -> Reply<usize> {
        self.count(key)
    }

    fn exists(&self, key: &str) -> Reply<bool> {
        self.exists(key)
    }

    fn window(&self, key: &str, budget: Budget) -> Reply<Window> {
        self.window(key, budget)
    }

    fn update(&self, key: &str, update: Update) -> Reply<Version> {
        self.update(key, update)
    }

    fn append_once(&self, key: &str, id: &str, messages: Vec<Message>) -> Reply<Appended> {
        self.append_once(key, id, messages)
    }

    fn edit(&self, key: &str, position: Position, message: Message) -> Reply<Version> {
        self.edit(key, position, message)
    }

    fn remove(&self, key: &str, position: Position) -> Reply<Version> {
        self.remove(key, position)
    }

    fn set_history_at(
        &self,
        key: &str,
        version: Version,
        messages: Vec<Message>,
    ) -> Reply<Version> {
        self.set_history_at(key, version, messages)
    }

    fn truncate_to(&self, key: &str, keep: Keep) -> Reply<()> {
        self.truncate_to(key, keep)
    }

    fn sessions(&self, query: SessionQuery) -> Reply<SessionPage> {
        self.sessions(query)
    }

    fn set_history(&self, key: &str, messages: Vec<Message>) -> Reply<()> {
        self.set_history(key, messages)
    }

    fn truncate_history(&self, key: &str, keep_last: usize) -> Reply<()> {
        self.truncate_history(key, keep_last)
    }

    fn summary(&self, key: &str) -> Reply<String> {
        self.summary(key)
    }

    fn set_summary(&self, key: &str, summary: &str) -> Reply<()> {
        self.set_summary(key, summary)
    }

    /// The session is durable when this returns, as is everything that was written durably before.
    fn save(&self, key: &str) -> Reply<()> {
        let durable = self.with_durability(sessionlog::Durability::Durable);
        done(durable.write(key, || Ok(Verb::Compact)))
    }

    fn delete_session(&self, key: &str) -> Reply<()> {
        self.delete_session(key)
    }

    fn list_sessions(&self) -> Reply<Vec<String>> {
        self.list_sessions()
    }

    fn ensure_session_metadata(
        &self,
        key: &str,
        scope: Option<&SessionScope>,
        aliases: Vec<String>,
    ) -> Reply<bool> {
        self.ensure_session_metadata(key, scope.map(SessionScope::to_raw), aliases)
    }

    fn resolve_session_key(&self, key: &str) -> Reply<Option<String>> {
        self.resolve_session_key(key)
    }

    fn session_scope(&self, key: &str) -> Reply<Option<SessionScope>> {
        self.session_scope(key)
    }

    fn rename_session(&self, old: &str, new: &str) -> Reply<()> {
        self.rename_session(old, new)
    }

    fn merge_session(&self, old: &str, new: &str) -> Reply<Merged> {
        self.merge_session(old, new)
    }

    fn close(&self) -> Reply<()> {
        self.close()
    }
}
