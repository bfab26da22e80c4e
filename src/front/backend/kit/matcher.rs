//! Searching lines of a custom store.

use sessionlog_core::error::Result;

use crate::engine::search::Needle;
use crate::front::search::{MoreHits, Search, SearchHit, SearchQuery};
use crate::{Position, SessionMeta, SessionQuery};

/// A compiled [`SearchQuery`].
#[derive(Debug)]
pub struct Matcher {
    needle: Needle,
    query: SearchQuery,
}

impl Matcher {
    /// # Errors
    /// [`Error::InvalidPattern`](crate::Error::InvalidPattern).
    pub fn new(query: SearchQuery) -> Result<Self> {
        Ok(Self {
            needle: Needle::new(&query.pattern)?,
            query,
        })
    }

    /// The sessions to look in.
    pub fn sessions(&self) -> &SessionQuery {
        &self.query.sessions
    }

    /// True if titles and summaries are searched, too.
    #[must_use]
    pub fn is_outside(&self) -> bool {
        self.query.summaries
    }

    /// True if the hidden and archived messages of sessions are searched, too.
    #[must_use]
    pub fn is_archived(&self) -> bool {
        self.query.archived
    }

    /// A text that is contained literally in every match; empty if there is none, or if tool calls
    /// are searched, whose arguments are escaped twice in a line.
    #[must_use]
    pub fn literal(&self) -> &str {
        let pattern = &self.query.pattern;
        if pattern.is_regex || pattern.ignores_case || pattern.in_calls {
            return "";
        }
        &pattern.text
    }

    /// The hit for a line at a position of a session, if it matches.
    #[must_use]
    pub fn hit(&self, key: &str, position: Position, line: &[u8]) -> Option<SearchHit> {
        let found = self.needle.find(line)?;
        Some(SearchHit::of(key, position, found))
    }

    /// The hits in a session's title and summary, if these are searched.
    #[must_use]
    pub fn hits_outside(&self, meta: &SessionMeta) -> Vec<SearchHit> {
        if !self.query.summaries {
            return Vec::new();
        }
        let (title, nowhere) = (&meta.tags.title, Position::new(0, 0));
        let found = self.needle.find_outside(title, &meta.summary);
        let hits = found
            .into_iter()
            .map(|found| SearchHit::of(&meta.key, nowhere, found));
        hits.collect()
    }
}

/// The search of a custom store.
#[must_use]
pub fn search_over(hits: Result<Box<dyn MoreHits>>) -> Search {
    Search::over(hits)
}
