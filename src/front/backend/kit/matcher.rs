//! Searching lines that are elsewhere.

use std::ops::Range;

use crate::engine::search::{FoundIn, Needle};
use crate::error::{Error, Result};
use crate::front::search::{MoreHits, Search, SearchHit, SearchQuery};
use crate::{Message, Position, SessionQuery};

/// What a [`SearchQuery`] looks for, ready to be looked for.
#[derive(Debug)]
pub struct Matcher {
    needle: Needle,
    query: SearchQuery,
}

impl Matcher {
    /// # Errors
    /// [`Error::InvalidPattern`](crate::Error::InvalidPattern);
    /// [`Error::Unsupported`] if more than the texts of messages is to be searched.
    pub fn new(query: SearchQuery) -> Result<Self> {
        if query.pattern.in_calls || query.summaries {
            return Err(Error::Unsupported {
                verb: "to search tool calls and summaries",
            });
        }
        Ok(Self {
            needle: Needle::new(&query.pattern)?,
            query,
        })
    }

    /// The sessions to look in.
    pub fn sessions(&self) -> &SessionQuery {
        &self.query.sessions
    }

    /// A text that stands, as it is, in the text of every message that is looked for; empty
    /// if there is none.
    #[must_use]
    pub fn literal(&self) -> &str {
        let pattern = &self.query.pattern;
        if pattern.is_regex || pattern.ignores_case {
            return "";
        }
        &pattern.text
    }

    /// The message of a line and where in its text it matches, if it is looked for.
    #[must_use]
    pub fn find(&self, line: &[u8]) -> Option<(Message, Range<usize>)> {
        let found = self.needle.find(line)?;
        Some((found.message, found.matched))
    }

    /// What is told of a message that was found.
    #[must_use]
    pub fn hit(
        &self,
        key: &str,
        position: Position,
        (message, matched): (Message, Range<usize>),
    ) -> SearchHit {
        SearchHit {
            key: key.to_owned(),
            position,
            archived: None,
            hidden: false,
            found_in: FoundIn::Text,
            message,
            matched,
        }
    }
}

/// The search of a store of one's own.
#[must_use]
pub fn search_over(hits: Result<Box<dyn MoreHits>>) -> Search {
    Search::over(hits)
}
