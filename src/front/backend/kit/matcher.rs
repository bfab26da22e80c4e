//! Searching lines that are elsewhere.

use crate::engine::search::Needle;
use crate::error::Result;
use crate::front::search::{MoreHits, Search, SearchHit, SearchQuery};
use crate::{Position, SessionMeta, SessionQuery};

/// What a [`SearchQuery`] looks for, ready to be looked for.
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

    /// Whether titles and summaries are looked through, too.
    #[must_use]
    pub fn is_outside(&self) -> bool {
        self.query.summaries
    }

    /// Whether what is hidden of sessions is looked through, too.
    #[must_use]
    pub fn is_archived(&self) -> bool {
        self.query.archived
    }

    /// A text that stands, as it is, in each text that is looked for; empty if there is none, or
    /// if tool calls are looked through, whose arguments are escaped twice in a line.
    #[must_use]
    pub fn literal(&self) -> &str {
        let pattern = &self.query.pattern;
        if pattern.is_regex || pattern.ignores_case || pattern.in_calls {
            return "";
        }
        &pattern.text
    }

    /// The message of a line that stands at a position of a session, if it is looked for.
    #[must_use]
    pub fn hit(&self, key: &str, position: Position, line: &[u8]) -> Option<SearchHit> {
        let found = self.needle.find(line)?;
        Some(SearchHit::of(key, position, found))
    }

    /// What is found in a session's title and summary, if these are looked through.
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

/// The search of a store of one's own.
#[must_use]
pub fn search_over(hits: Result<Box<dyn MoreHits>>) -> Search {
    Search::over(hits)
}
