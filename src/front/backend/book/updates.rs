//! Changing several things of a session in memory at once, and looking at many.

use super::Book;
use crate::error::{Error, Result, Version};
use crate::front::handle::updates::check_id;
use crate::{
    Appended, Besides, Budget, Message, SessionPage, SessionQuery, Update, UpdateParts, Window,
};

/// How many ids of messages taken once a session remembers.
const ONCE_IDS: usize = 256;

impl Book {
    pub(crate) fn version(&self, key: &str) -> Version {
        self.page(key)
            .map_or(Version::ABSENT, |page| Version::new(page.turn))
    }

    /// See [`SessionStore::update`](crate::backend::SessionStore::update).
    pub(crate) fn update(&mut self, key: String, update: Update) -> Result<Version> {
        let UpdateParts {
            expect,
            messages,
            summary,
            keep,
            tokens,
        } = update.into_parts();
        let found = self.version(&key);
        found.require(&key, expect)?;
        if tokens.is_some() {
            return Err(Error::Unsupported {
                verb: "to record a token count",
            });
        }
        let staying = match (self.page(&key), keep) {
            (Some(page), Some(keep)) => match page.staying(keep) {
                Some(staying) => staying,
                None => return Err(Error::PositionNotFound { key }),
            },
            _ => usize::MAX,
        };
        if let Some(summary) = &summary {
            self.check_summary(&key, summary)?;
        }
        let lines = self.accept(&key, messages, summary.as_deref())?;
        let hides = keep.is_some() && found != Version::ABSENT;
        if lines.is_empty() && summary.is_none() && !hides {
            return Ok(found);
        }
        self.change(key.clone(), |page| {
            page.keep(staying);
            page.extend(lines);
            if let Some(summary) = summary {
                page.summary = summary;
            }
        });
        Ok(self.version(&key))
    }

    /// See [`SessionStore::append_once`](crate::backend::SessionStore::append_once).
    pub(crate) fn append_once(
        &mut self,
        key: &str,
        id: String,
        messages: Vec<Message>,
    ) -> Result<Appended> {
        check_id(&id)?;
        if self.page(key).is_some_and(|page| page.has_taken(&id)) {
            return Ok(Appended::Duplicate(self.version(key)));
        }
        let lines = self.accept(key, messages, None)?;
        let bytes = self.limits.bytes / 8;
        self.change(key.to_owned(), |page| {
            page.take_once(id, ONCE_IDS, bytes);
            page.extend(lines);
        });
        Ok(Appended::New(self.version(key)))
    }

    /// See [`SessionStore::window`](crate::backend::SessionStore::window).
    pub(crate) fn window(&self, key: &str, budget: &Budget) -> Result<Window> {
        let nobody = super::Page::default();
        let page = self.page(key).unwrap_or(&nobody);
        let besides = Besides {
            summary: page.summary.clone(),
            system_prompt: None,
            version: self.version(key),
        };
        Window::fit(key, page.newest_first(), page.end(), besides, budget)
    }

    /// See [`SessionStore::sessions`](crate::backend::SessionStore::sessions).
    pub(crate) fn sessions(&self, query: &SessionQuery) -> SessionPage {
        let pages = self.pages.iter();
        SessionPage::of(pages.map(|(key, page)| page.info(key)).collect(), query)
    }
}
