//! What a reader holds: one moment of one session.

use std::sync::Arc;

use serde_json::value::RawValue;

use crate::session_file::SessionMeta;
use crate::storage::StorageFile;
use crate::sync::Mutex;

/// A session's sidecar, cheap to copy: what appends change stands apart from
/// the text they leave alone.
#[derive(Debug, Clone)]
pub(crate) struct Meta {
    pub(crate) text: Arc<MetaText>,
    pub(crate) skip: i64,
    pub(crate) count: i64,
    pub(crate) updated_at: Arc<str>,
}

/// The part of a sidecar that appends leave alone.
#[derive(Debug, Clone)]
pub(crate) struct MetaText {
    pub(crate) key: String,
    pub(crate) summary: String,
    pub(crate) created_at: String,
    pub(crate) scope: Option<Box<RawValue>>,
    pub(crate) aliases: Vec<String>,
}

impl Meta {
    pub(crate) fn of(meta: SessionMeta) -> Self {
        Self {
            skip: meta.skip,
            count: meta.count,
            updated_at: meta.updated_at.into(),
            text: Arc::new(MetaText {
                key: meta.key,
                summary: meta.summary,
                created_at: meta.created_at,
                scope: meta.scope,
                aliases: meta.aliases,
            }),
        }
    }

    pub(crate) fn empty(key: &str) -> Self {
        Self::of(SessionMeta::empty(key))
    }

    pub(crate) fn to_sidecar(&self) -> SessionMeta {
        let text = &*self.text;
        SessionMeta {
            key: text.key.clone(),
            summary: text.summary.clone(),
            skip: self.skip,
            count: self.count,
            created_at: text.created_at.clone(),
            updated_at: self.updated_at.to_string(),
            scope: text.scope.clone(),
            aliases: text.aliases.clone(),
        }
    }

    /// The text, to change; copied where a reader still holds the old one.
    pub(crate) fn text_mut(&mut self) -> &mut MetaText {
        Arc::make_mut(&mut self.text)
    }
}

/// Lines the journal holds and the session file does not yet. Only grows: a
/// reader that knows a length finds the same bytes below it for as long as it
/// holds the tail.
#[derive(Debug, Default)]
pub(crate) struct Tail {
    bytes: Mutex<Vec<u8>>,
}

impl Tail {
    /// Adds lines; the length after them.
    pub(crate) fn extend(&self, lines: &[u8]) -> usize {
        let mut bytes = self.bytes.lock();
        bytes.extend_from_slice(lines);
        bytes.len()
    }

    /// A copy of the first `len` bytes.
    pub(crate) fn copy(&self, len: usize) -> Vec<u8> {
        self.bytes.lock()[..len].to_vec()
    }
}

/// One moment of a session: a file, the range of it that is live, the lines
/// behind it that only the journal holds so far, and the sidecar that goes with
/// them. Holding it keeps the file open, so a compaction or deletion meanwhile
/// changes nothing for its holder.
#[derive(Debug, Clone)]
pub(crate) struct Snapshot {
    pub(crate) meta: Meta,
    /// Counts rewrites of the file; a range means nothing without it.
    pub(crate) generation: u64,
    /// `None` where there is nothing to read, or where the owner closed it.
    pub(crate) file: Option<Arc<dyn StorageFile>>,
    /// The live range of the file.
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) tail: Arc<Tail>,
    pub(crate) tail_len: usize,
}

impl Snapshot {
    /// A session without lines.
    pub(crate) fn empty(key: &str) -> Self {
        Self {
            meta: Meta::empty(key),
            generation: 0,
            file: None,
            start: 0,
            end: 0,
            tail: Arc::default(),
            tail_len: 0,
        }
    }

    /// Whether reading it needs a file it does not hold.
    pub(crate) fn lacks_file(&self) -> bool {
        self.start < self.end && self.file.is_none()
    }
}

/// What is published of a session.
#[derive(Debug)]
pub(crate) enum View {
    /// Not loaded: the owner must be asked.
    Cold,
    /// Loaded.
    Live(Snapshot),
    /// Deleted.
    Gone,
}
