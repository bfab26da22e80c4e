//! Kinds of data that may be too large, and the check.

use std::fmt;

use super::{Error, Result};

/// The kind of data that an [`Error::MessageTooLarge`] is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Oversized {
    /// One message, as the line it becomes.
    Message,
    /// All lines of one command together.
    Batch,
    /// A summary.
    Summary,
    /// A scope.
    Scope,
    /// The aliases given for a session, together.
    Aliases,
    /// All contents of a session's sidecar: key, summary, scope and aliases, encoded.
    Sidecar,
    /// A system prompt, as the line it becomes.
    Prompt,
}

impl fmt::Display for Oversized {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Message => "a message",
            Self::Batch => "a batch of lines",
            Self::Summary => "a summary",
            Self::Scope => "a scope",
            Self::Aliases => "aliases",
            Self::Sidecar => "a sidecar (summary, scope and aliases together)",
            Self::Prompt => "a system prompt",
        })
    }
}

/// Refuses data larger than `limit` bytes. The caller adds the messages to the error.
///
/// # Errors
/// `MessageTooLarge`.
pub fn check_size(what: Oversized, size: usize, limit: usize) -> Result<()> {
    if size <= limit {
        return Ok(());
    }
    Err(Error::MessageTooLarge {
        what,
        size,
        limit,
        messages: Vec::new(),
    })
}
