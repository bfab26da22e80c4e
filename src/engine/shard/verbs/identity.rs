//! The scope of a session, and its other names.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use serde_json::value::RawValue;
use sessionlog_core::error::{Oversized, Result, check_size};
use sessionlog_core::rules::identity;
use sessionlog_core::session_file::{self, Meta};

use crate::engine::shard::session::Session;
use crate::engine::shard::turn::Turn;

/// A scope, and aliases.
#[derive(Debug)]
pub(crate) struct Identity {
    pub(crate) scope: Option<Box<RawValue>>,
    pub(crate) aliases: Vec<String>,
}

impl Identity {
    /// Returns the memory it holds, bytes.
    pub(super) fn bytes(&self) -> usize {
        let aliases = self.aliases.iter().map(String::len).sum::<usize>();
        self.scope.as_ref().map_or(0, |scope| scope.get().len()) + aliases
    }

    /// Replaces the identity in a sidecar.
    pub(super) fn replace_in(self, meta: &mut Meta) {
        let aliases = session_file::normalize_aliases(&meta.text.key, &self.aliases);
        let text = meta.text_mut();
        text.scope = self.scope;
        text.aliases = aliases;
    }
}

impl Session {
    /// Refuses an identity that is another conversation's.
    pub(super) fn admits(&self, identity: &Identity) -> Result<()> {
        if !self.exists || self.deleted {
            return Ok(());
        }
        let stored = self.staged.meta.text.scope.as_deref();
        identity::admit(&self.entry.key, stored, identity.scope.as_deref())
    }

    /// Returns the sidecar that holds after a change of its text. A sidecar over the limit is
    /// refused before anything is staged, unless it gets smaller: an acknowledged sidecar must be
    /// written and read again.
    pub(in crate::engine::shard) fn changed(
        &self,
        change: impl FnOnce(&mut Meta),
        turn: &Turn<'_>,
    ) -> Result<Meta> {
        let mut meta = self.staged.meta.clone();
        change(&mut meta);
        let len = |meta: &Meta| session_file::encoded_sidecar_len(&meta.to_sidecar());
        let (size, limit) = (len(&meta), turn.shared.max_sidecar);
        if size > limit && size >= len(&self.staged.meta) {
            check_size(Oversized::Sidecar, size, limit)?;
        }
        Ok(meta)
    }

    pub(super) fn claims(&self, alias: &String) -> bool {
        !self.deleted && self.staged.meta.text.aliases.contains(alias)
    }

    /// True if it certainly has neither message nor summary.
    pub(super) fn shows_nothing(&self) -> bool {
        let Meta { text, skip, .. } = &self.staged.meta;
        let live = i64::try_from(self.staged.lines).unwrap_or(i64::MAX) - skip;
        live <= 0 && text.summary.trim().is_empty()
    }

    /// True if it has that identity on disk already, and no other is under way.
    pub(super) fn is_known_as(&self, identity: &Identity) -> bool {
        let text = &self.staged.meta.text;
        self.exists
            && !self.deleted
            && self.entry.listed.load(Ordering::Acquire)
            && Arc::ptr_eq(text, &self.synced_meta.text)
            && identity::is_same_text(text.scope.as_deref(), identity.scope.as_deref())
            && text.aliases == session_file::normalize_aliases(&text.key, &identity.aliases)
    }
}
