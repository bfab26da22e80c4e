//! Changing several things of a session in memory at once, and looking at many.

use sessionlog_core::error::{Error, Result, Version};
use sessionlog_core::rules;
use sessionlog_core::rules::lines::in_place_of;
use sessionlog_core::rules::update::{UpdateDecision, UpdateOrder};
use sessionlog_core::update::UpdateContent;

use super::Book;
use crate::front::backend::page::MemorySession;
use crate::{
    Appended, Besides, Budget, Keep, Message, Position, SessionPage, SessionQuery, Update, Window,
};

/// The number of ids of messages taken once that a session remembers.
const ONCE_IDS: usize = 256;

/// See [`SessionStore::window`](crate::backend::SessionStore::window). Runs without the lock of the
/// book: the caller's counter of tokens may take long, or ask the store.
pub(crate) fn window(moment: (String, MemorySession, Version), budget: &Budget) -> Result<Window> {
    let (key, page, version) = moment;
    let besides = Besides {
        summary: page.summary.clone(),
        system_prompt: None,
        version,
    };
    Window::fit(&key, page.newest_first(), page.end(), besides, budget)
}

impl Book {
    pub(crate) fn version(&self, key: &str) -> Version {
        self.page(key)
            .map_or(Version::ABSENT, |page| Version::new(page.turn))
    }

    /// See [`SessionStore::update`](crate::backend::SessionStore::update).
    pub(crate) fn update(&mut self, key: String, update: Update) -> Result<Version> {
        let UpdateContent {
            messages,
            summary,
            keep,
            tokens,
            expect,
            tags,
            after,
            replaces,
        } = update.into_content();
        if tokens.is_some() {
            return Err(Error::Unsupported {
                verb: "to record a token count",
            });
        }
        if let Some(summary) = &summary {
            self.check_summary(&key, summary)?;
        }
        let lines = self.accept(&key, messages.into(), summary.as_deref(), tags.size())?;
        self.check_tags(&key, &tags, summary.as_deref())?;
        let keep = keep.filter(|_| !replaces);
        let order = UpdateOrder {
            expect,
            after,
            hides: keep.is_some(),
            adds_nothing: lines.is_empty() && summary.is_none() && tags.is_empty() && !replaces,
        };
        let found = self.version(&key);
        let goes_on = |after: Position| {
            self.page(&key)
                .is_some_and(|page| page.end().history() == after.history())
        };
        if order.decide(&key, found, goes_on, || Ok(false))? != UpdateDecision::Make {
            return Ok(found);
        }
        let staying = match (self.page(&key), keep) {
            (Some(page), Some(keep)) => page.staying(keep),
            // It was deleted, or dropped to make room.
            (None, Some(Keep::From(_))) => None,
            _ => Some(usize::MAX),
        };
        let Some(staying) = staying else {
            return Err(Error::PositionNotFound { key });
        };
        self.change(key.clone(), |page| {
            if replaces {
                page.replace(lines);
            } else {
                page.keep(staying);
                page.extend(lines);
            }
            if let Some(summary) = summary {
                page.summary = summary;
            }
            tags.apply(&mut page.tags);
        });
        Ok(self.version(&key))
    }

    /// See [`SessionStore::edit`](crate::backend::SessionStore::edit) and
    /// [`remove`](crate::backend::SessionStore::remove).
    pub(crate) fn amend(
        &mut self,
        key: String,
        position: Position,
        message: Option<Message>,
    ) -> Result<Version> {
        let Some(old) = self.page(&key).and_then(|page| page.at(position)) else {
            return Err(Error::PositionNotFound { key });
        };
        let message = message.map(|new| in_place_of(new, old)).transpose()?;
        let mut lines = self.accept(&key, message.into_iter().collect(), None, 0)?;
        self.change(key.clone(), |page| page.amend(position, lines.pop()));
        Ok(self.version(&key))
    }

    /// See [`SessionStore::set_history_at`](crate::backend::SessionStore::set_history_at).
    pub(crate) fn set_history_at(
        &mut self,
        key: &str,
        version: Version,
        messages: Vec<Message>,
    ) -> Result<Version> {
        self.version(key).require(key, Some(version))?;
        self.set_history(key.to_owned(), messages)?;
        Ok(self.version(key))
    }

    /// See [`SessionStore::append_once`](crate::backend::SessionStore::append_once).
    pub(crate) fn append_once(
        &mut self,
        key: &str,
        id: String,
        messages: Vec<Message>,
    ) -> Result<Appended> {
        rules::update::check_id(&id)?;
        if self.page(key).is_some_and(|page| page.has_taken(&id)) {
            return Ok(Appended::Duplicate(self.version(key)));
        }
        let lines = self.accept(key, messages, None, id.len())?;
        let bytes = self.limits.bytes / 8;
        self.change(key.to_owned(), |page| {
            page.take_once(id, ONCE_IDS, bytes);
            page.extend(lines);
        });
        Ok(Appended::New(self.version(key)))
    }

    /// One moment of a session, for [`window`].
    pub(crate) fn moment(&self, key: String) -> (String, MemorySession, Version) {
        let page = self.page(&key).cloned().unwrap_or_default();
        let version = self.version(&key);
        (key, page, version)
    }

    /// See [`SessionStore::sessions`](crate::backend::SessionStore::sessions).
    pub(crate) fn sessions(&self, query: &SessionQuery) -> SessionPage {
        let pages = self.pages.iter();
        let with =
            pages.filter(|(key, page)| query.is_with(key, page.scope.as_deref(), &page.aliases));
        SessionPage::of_those(with.map(|(key, page)| page.info(key)).collect(), query)
    }
}
