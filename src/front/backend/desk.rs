//! Sessions in memory that several callers share: the verbs that the stores without an engine have
//! in common.

use std::sync::Arc;

use sessionlog_core::error::{Error, Result, Version};
use sessionlog_core::scope::SessionScope;
use sessionlog_wal::sync::Mutex;

use super::book::{self, Book, BookLimits};
use super::page::MemorySession;
use crate::front::reply::Reply;
use crate::{
    Appended, Budget, Keep, Merged, Message, Position, SessionPage, SessionQuery, Update, Window,
};

/// A book that several callers share. Its lock is held for work in memory only.
#[derive(Clone, Debug)]
pub(crate) struct Desk(Arc<Mutex<Option<Book>>>);

impl Desk {
    pub(crate) fn new(limits: BookLimits) -> Self {
        Self(Arc::new(Mutex::new(Some(Book::new(limits)))))
    }

    /// Runs `work` on the sessions now.
    pub(crate) fn now<T>(&self, work: impl FnOnce(&mut Book) -> Result<T>) -> Result<T> {
        self.0.lock().as_mut().map_or(Err(Error::Closed), work)
    }

    /// Runs `work` on the sessions when the reply is asked for.
    fn work<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Book) -> Result<T> + Send + 'static,
    ) -> Reply<T> {
        let desk = self.clone();
        Reply::lookup(move |_| Box::pin(async move { desk.now(work) }))
    }

    /// Runs `work` on the session that a key means.
    pub(crate) fn work_on<T: Send + 'static>(
        &self,
        key: &str,
        work: impl FnOnce(&mut Book, String) -> Result<T> + Send + 'static,
    ) -> Reply<T> {
        let key = key.to_owned();
        self.work(move |book| {
            let key = book.canonical(&key)?;
            work(book, key)
        })
    }

    /// Forgets everything; later work is refused.
    pub(crate) fn shut(&self) {
        self.0.lock().take();
    }

    /// As [`shut`](Self::shut), unless something is not saved; returns whether it did.
    pub(crate) fn shut_if_saved(&self) -> bool {
        let mut book = self.0.lock();
        let saved = book.as_ref().is_none_or(Book::is_saved);
        if saved {
            book.take();
        }
        saved
    }

    pub(crate) fn append_all(&self, key: &str, messages: Vec<Message>) -> Reply<()> {
        self.work_on(key, |book, key| book.append(key, messages))
    }

    pub(crate) fn history(&self, key: &str) -> Reply<Vec<Message>> {
        self.work_on(key, |book, key| Ok(book.history(&key)))
    }

    pub(crate) fn set_history(&self, key: &str, messages: Vec<Message>) -> Reply<()> {
        self.work_on(key, |book, key| book.set_history(key, messages))
    }

    pub(crate) fn truncate_history(&self, key: &str, keep_last: usize) -> Reply<()> {
        self.work_on(key, move |book, key| {
            book.truncate(key, keep_last);
            Ok(())
        })
    }

    pub(crate) fn summary(&self, key: &str) -> Reply<String> {
        self.work_on(key, |book, key| Ok(book.summary(&key)))
    }

    pub(crate) fn set_summary(&self, key: &str, summary: &str) -> Reply<()> {
        let summary = summary.to_owned();
        self.work_on(key, |book, key| book.set_summary(key, summary))
    }

    pub(crate) fn tail(&self, key: &str, n: usize) -> Reply<Vec<Message>> {
        self.work_on(key, move |book, key| Ok(book.tail(&key, n)))
    }

    pub(crate) fn count(&self, key: &str) -> Reply<usize> {
        self.work_on(key, |book, key| {
            Ok(book.page(&key).map_or(0, MemorySession::len))
        })
    }

    pub(crate) fn exists(&self, key: &str) -> Reply<bool> {
        self.work_on(key, |book, key| Ok(book.page(&key).is_some()))
    }

    pub(crate) fn update(&self, key: &str, update: Update) -> Reply<Version> {
        self.work_on(key, |book, key| book.update(key, update))
    }

    pub(crate) fn edit(&self, key: &str, position: Position, message: Message) -> Reply<Version> {
        self.work_on(key, move |book, key| {
            book.amend(key, position, Some(message))
        })
    }

    pub(crate) fn remove(&self, key: &str, position: Position) -> Reply<Version> {
        self.work_on(key, move |book, key| book.amend(key, position, None))
    }

    pub(crate) fn set_history_at(
        &self,
        key: &str,
        version: Version,
        messages: Vec<Message>,
    ) -> Reply<Version> {
        self.work_on(key, move |book, key| {
            book.set_history_at(&key, version, messages)
        })
    }

    pub(crate) fn truncate_to(&self, key: &str, keep: Keep) -> Reply<()> {
        let update = self.update(key, Update::new().keep(keep));
        update.and_then(|_| Ok(()))
    }

    pub(crate) fn append_once(
        &self,
        key: &str,
        id: &str,
        messages: Vec<Message>,
    ) -> Reply<Appended> {
        let id = id.to_owned();
        self.work_on(key, |book, key| book.append_once(&key, id, messages))
    }

    pub(crate) fn window(&self, key: &str, budget: Budget) -> Reply<Window> {
        let moment = self.work_on(key, |book, key| Ok(book.moment(key)));
        moment.and_then(move |moment| book::window(moment, &budget))
    }

    pub(crate) fn sessions(&self, query: SessionQuery) -> Reply<SessionPage> {
        self.work(move |book| Ok(book.sessions(&query)))
    }

    pub(crate) fn list_sessions(&self) -> Reply<Vec<String>> {
        self.work(|book| Ok(book.keys()))
    }

    pub(crate) fn ensure_session_metadata(
        &self,
        key: &str,
        scope: Option<&SessionScope>,
        aliases: Vec<String>,
    ) -> Reply<bool> {
        let (key, scope) = (key.to_owned(), scope.cloned());
        self.work(move |book| book.ensure(&key, scope.as_ref(), &aliases))
    }

    pub(crate) fn resolve_session_key(&self, key: &str) -> Reply<Option<String>> {
        let key = key.to_owned();
        self.work(move |book| Ok(book.resolve(&key)))
    }

    pub(crate) fn session_scope(&self, key: &str) -> Reply<Option<SessionScope>> {
        self.work_on(key, |book, key| book.scope(&key))
    }

    pub(crate) fn move_session(&self, old: &str, new: &str, merge: bool) -> Reply<Merged> {
        let (old, new) = (old.to_owned(), new.to_owned());
        self.work(move |book| book.move_session(&old, &new, merge))
    }

    pub(crate) fn close(&self) -> Reply<()> {
        let desk = self.clone();
        Reply::lookup(move |_| {
            Box::pin(async move {
                desk.shut();
                Ok(())
            })
        })
    }
}
