//! Staging where a session belongs, and what else it is called.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use serde_json::value::RawValue;

use crate::Durability;
use crate::disk::session_file;
use crate::disk::session_file::Meta;
use crate::engine::shard::Shard;
use crate::engine::shard::command::{Answer, Ensure, Identity, Search};
use crate::engine::shard::context::{Outbox, Turn};
use crate::engine::shard::session::Session;
use crate::engine::shard::staging::{MetaAnswer, SwapAnswer};
use crate::error::{Error, Oversized, Result, check_size};

impl Shard {
    pub(super) fn stage_upsert(
        &mut self,
        id: usize,
        identity: Identity,
        level: Durability,
        answer: Answer<()>,
        turn: &mut Turn<'_>,
    ) {
        match self.session(id).admits(&identity) {
            Ok(()) => self.stage_meta(id, level, answer, turn, |meta| {
                replace_identity(meta, identity);
            }),
            Err(error) => turn.out.answer(answer, Err(error)),
        }
    }

    pub(super) fn stage_ensure(&mut self, id: usize, ensure: Ensure, turn: &mut Turn<'_>) {
        let Ensure {
            identity,
            search,
            level,
            answer,
        } = ensure;
        let session = self.session(id);
        if let Err(error) = session.admits(&identity) {
            return turn.out.answer(answer, Err(error));
        }
        match search {
            // It claims the alias by now, and has had what there was.
            Search::Found(alias, _) if session.claims(&alias) => {}
            Search::Found(_, candidate) => match self.is_blank(id, turn) {
                Ok(true) => {
                    let answer = SwapAnswer::Ensure(answer);
                    return self.take_over(id, Some(*identity), candidate, answer, turn);
                }
                Ok(false) => {}
                Err(error) => return turn.out.answer(answer, Err(error)),
            },
            // It was deleted or emptied since the caller looked.
            Search::Needless if session.shows_nothing() => {
                return turn.out.answer(answer, Ok(None));
            }
            Search::Needless | Search::Vain => {}
        }
        if self.session(id).is_known_as(&identity) {
            return turn.out.answer(answer, Ok(Some(false)));
        }
        let change = |meta: &mut Meta| replace_identity(meta, *identity);
        let changed = match self.session(id).changed(change, turn) {
            Ok(changed) => changed,
            Err(error) => return turn.out.answer(answer, Err(error)),
        };
        let session = self.reclaim(id, turn);
        session.staged.meta = changed;
        session.created(turn);
        session.staged.meta.updated_at = turn.now.clone();
        self.push_meta(id, level, Some(MetaAnswer::Ensure(answer)), turn);
    }
}

impl Ensure {
    /// Whether it may replace the session's file.
    pub(super) fn takes_over(&self) -> bool {
        matches!(self.search, Search::Found(..))
    }

    /// Whether the caller found that there is nothing to look for.
    pub(super) fn was_needless(&self) -> bool {
        matches!(self.search, Search::Needless)
    }
}

impl Session {
    /// Refuses an identity that is another conversation's. Two chats whose names
    /// lead to one key would otherwise read each other.
    pub(super) fn admits(&self, identity: &Identity) -> Result<()> {
        let (key, stored) = (&self.entry.key, self.staged.meta.text.scope.as_deref());
        let exists = self.exists && !self.deleted;
        match identity.scope.as_deref() {
            Some(new) if exists && !(identity.judge)(key, stored, new) => {
                Err(Error::ScopeConflict {
                    key: key.to_string(),
                })
            }
            _ => Ok(()),
        }
    }

    /// The sidecar that holds after a change of its text. One over the limit is
    /// refused before anything is staged, for what is acknowledged must be
    /// written, and read again; unless it gets smaller.
    pub(super) fn changed(&self, change: impl FnOnce(&mut Meta), turn: &Turn<'_>) -> Result<Meta> {
        let mut meta = self.staged.meta.clone();
        change(&mut meta);
        let len = |meta: &Meta| session_file::encoded_sidecar_len(&meta.to_sidecar());
        let (size, limit) = (len(&meta), turn.context.max_sidecar);
        if size > limit && size >= len(&self.staged.meta) {
            check_size(Oversized::Sidecar, size, limit)?;
        }
        Ok(meta)
    }

    fn claims(&self, alias: &String) -> bool {
        !self.deleted && self.staged.meta.text.aliases.contains(alias)
    }

    /// Whether it certainly has neither message nor summary.
    pub(super) fn shows_nothing(&self) -> bool {
        let Meta { text, skip, .. } = &self.staged.meta;
        let live = i64::try_from(self.staged.lines).unwrap_or(i64::MAX) - skip;
        live <= 0 && text.summary.trim().is_empty()
    }

    /// Whether it has that identity on disk already, and no other is under way.
    fn is_known_as(&self, identity: &Identity) -> bool {
        let text = &self.staged.meta.text;
        self.exists
            && !self.deleted
            && self.entry.listed.load(Ordering::Acquire)
            && Arc::ptr_eq(text, &self.synced_meta.text)
            && text_of(text.scope.as_deref()) == text_of(identity.scope.as_deref())
            && text.aliases == session_file::normalize_aliases(&text.key, &identity.aliases)
    }
}

impl MetaAnswer {
    pub(in crate::engine::shard) fn settle(self, result: Result<()>, out: &mut Outbox) {
        match self {
            Self::Plain(answer) => out.answer(answer, result),
            Self::Ensure(answer) => out.answer(answer, result.map(|()| Some(false))),
        }
    }
}

fn text_of(scope: Option<&RawValue>) -> Option<&str> {
    scope.map(RawValue::get)
}

pub(super) fn replace_identity(meta: &mut Meta, identity: Identity) {
    let aliases = session_file::normalize_aliases(&meta.text.key, &identity.aliases);
    let text = meta.text_mut();
    text.scope = identity.scope;
    text.aliases = aliases;
}
