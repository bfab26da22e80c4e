//! The verbs for a session's scope and aliases.

use std::sync::Arc;

use serde_json::value::RawValue;
use sessionlog_core::error::{Error, Result};
use sessionlog_core::rules::identity::{self, Heir};
use sessionlog_core::rules::names;
use sessionlog_core::session_file;

use super::{Side, StoreHandle, blocking};
use crate::engine::catalog::AliasConflict;
use crate::engine::shard::verbs::ensure::Ensure;
use crate::engine::shard::verbs::identity::Identity;
use crate::engine::shard::verbs::promote::Promote;
use crate::engine::shard::verbs::upsert::UpsertMeta;
use crate::front::reply::{LookupPlace, Reply};

/// Identity of a session.
impl StoreHandle {
    /// Replaces a session's scope and aliases, creating the session if needed. The scope is kept as
    /// the JSON text it is. Aliases are trimmed; blank ones, duplicates and the key itself are
    /// dropped. The key is taken literally.
    ///
    /// # Errors
    /// The errors all verbs share, [`Error::ScopeConflict`] if the session has the scope of another
    /// conversation, [`Error::InvalidScope`] for a scope nested deeper than 128, and
    /// [`Error::MessageTooLarge`], without messages, for a scope or aliases over the limit of a
    /// line, or that would bring the sidecar over [its own
    /// limit](crate::StoreOptions::max_line_bytes).
    pub fn upsert_session_meta(
        &self,
        key: &str,
        scope: Option<Box<RawValue>>,
        aliases: Vec<String>,
    ) -> Reply<()> {
        let (level, max) = (self.level, self.limits.line);
        self.exact_keys().write(key, move |_| {
            identity::check(scope.as_deref(), &aliases, max)?;
            let identity = Identity { scope, aliases };
            Ok(Some(UpsertMeta { identity, level }))
        })
    }

    /// If the session has neither history nor summary, takes over those of the first of `aliases`
    /// that has either, and replaces scope and aliases in the same step, as
    /// [`upsert_session_meta`](Self::upsert_session_meta) does. Returns whether it took something
    /// over; if not, nothing changes. A message that is added to the alias's own session meanwhile
    /// may stay behind there, out of sight of this key: promote before writing goes on. Lines are
    /// copied as bytes; the alias's files stay. The control records of both sessions (prompt, token
    /// count, numbering of checkpoints) stay in effect, hidden ones included, the alias's before
    /// the session's own. The session's own checkpoints can no longer be reverted to. The key is
    /// taken literally. Always durable.
    ///
    /// It looks only at what the session shows, not at what was taken over before: a session that
    /// was cleared or truncated to nothing since takes the same history over again.
    /// [`ensure_session_metadata`](Self::ensure_session_metadata) does not.
    ///
    /// An agent's main session is never taken over. An opaque key does not say that it is a main
    /// session's. It is recognised if it is that of PicoClaw's default agent, or if the agent is
    /// named in the scope given, in the scope of either session, or in an `agent:<agent>:…` among
    /// the aliases given or those of the alias's session. The main key of an agent that none of
    /// these names is treated like any other: leave it out.
    ///
    /// The alias's backups stay with the alias, too. From then on the alias leads to this session:
    /// a handle with [exact keys](Self::exact_keys) lists and restores them under the old key.
    ///
    /// # Errors
    /// As [`upsert_session_meta`](Self::upsert_session_meta).
    pub fn promote_alias_history(
        &self,
        key: &str,
        scope: Option<Box<RawValue>>,
        aliases: Vec<String>,
    ) -> Reply<bool> {
        let Side::Writer(engine) = &self.side else {
            return Reply::known(Err(Error::ReadOnly));
        };
        if let Err(error) = session_file::validate_key(key) {
            return Reply::known(Err(error));
        }
        if let Err(error) = identity::check(scope.as_deref(), &aliases, self.limits.line) {
            return Reply::known(Err(error));
        }
        if engine.is_closed() {
            return Reply::known(Err(engine.failure()));
        }
        let (engine, key, this) = (engine.clone(), Arc::<str>::from(key), self.exact_keys());
        Reply::lookup(move |place| {
            Box::pin(async move {
                let names = session_file::normalize_aliases(&key, &aliases);
                let own = this.moment_of(&key, place).await?.meta.text.clone();
                let heir = Heir {
                    names: &names,
                    scopes: [scope.as_deref(), own.scope.as_deref()],
                    claimed: &[],
                };
                let found = this.candidate(&names, heir, place).await?;
                let Some((_, candidate)) = found else {
                    return Ok(false);
                };
                let promote = Promote {
                    identity: Some(Identity { scope, aliases }),
                    candidate,
                };
                Reply::command(engine, key, promote).await
            })
        })
    }

    /// In one step, gives a session its scope and aliases, as
    /// [`upsert_session_meta`](Self::upsert_session_meta) does, and takes over the history and
    /// summary of the first alias that has any, as
    /// [`promote_alias_history`](Self::promote_alias_history) does. No reader sees one without the
    /// other, and no crash leaves only one. Returns whether it took something over. A gateway calls
    /// this before it handles a message: if nothing needs to change, nothing is written.
    ///
    /// White space around the key is ignored, unless a session has it in its key; apart from that
    /// the key is taken literally. White space alone is not a key. Without a scope the session has
    /// none afterwards. A promotion is always durable; scope and aliases alone are as durable as
    /// this handle's appends. A message that is added to an alias's own session during the takeover
    /// may stay behind there.
    ///
    /// If the session has a message or a summary, nothing is taken over, as in PicoClaw, but the
    /// alias leads to the session all the same. Messages under the alias's own key are then out of
    /// reach, except for [`merge_session`](Self::merge_session), which puts them before the
    /// session's own.
    ///
    /// An alias that the session claims already is not looked at: it was taken over, or there was
    /// nothing to take, or the session had something itself. So history that was cleared, truncated
    /// or replaced since does not come back. It does come back if the session forgot the alias,
    /// because it was ensured without it, or deleted: the history was taken over as a copy, and the
    /// older session still has its own ([`delete_session`](Self::delete_session)).
    ///
    /// ```
    /// # use sessionlog::Store;
    /// # fn main() -> sessionlog::Result<()> {
    /// # let scratch = tempfile::tempdir().unwrap();
    /// # let store = Store::open(scratch.path())?;
    /// let chats = store.handle();
    /// chats.add_message("agent:main:telegram:direct:7", "user", "hi").wait()?;
    ///
    /// let aliases = vec![String::from("agent:main:telegram:direct:7")];
    /// assert!(chats.ensure_session_metadata("sk_1", None, aliases.clone()).wait()?);
    /// assert!(!chats.ensure_session_metadata("sk_1", None, aliases).wait()?);
    /// chats.add_message("agent:main:telegram:direct:7", "user", "again").wait()?;
    /// assert_eq!(chats.history("sk_1").wait()?.len(), 2);
    /// # store.close()
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`upsert_session_meta`](Self::upsert_session_meta). Nothing is changed then.
    pub fn ensure_session_metadata(
        &self,
        key: &str,
        scope: Option<Box<RawValue>>,
        aliases: Vec<String>,
    ) -> Reply<bool> {
        match self.ready_to_ensure(key, scope.as_deref(), &aliases) {
            Err(error) => Reply::known(Err(error)),
            Ok(key) => {
                let this = self.exact_keys();
                Reply::lookup(move |place| {
                    Box::pin(async move { this.ensure(key, scope, aliases, place).await })
                })
            }
        }
    }

    /// Every alias that several sessions claim, in order, with those sessions. The meaning of such
    /// an alias is settled ([`resolve_session_key`](Self::resolve_session_key)), but the sessions
    /// were meant to be different. An agent's main alias, which all its sessions claim, is left
    /// out. Looks at every alias of the store.
    ///
    /// A conflict is also logged, as a warning, when it arises. Conflicts found at open are
    /// [counted](crate::RecoveryReport::contested_aliases).
    ///
    /// # Errors
    /// The errors all verbs share.
    pub fn alias_conflicts(&self) -> Reply<Vec<AliasConflict>> {
        match &self.side {
            Side::Writer(engine) if engine.is_closed() => Reply::known(Err(engine.failure())),
            Side::Writer(engine) => Reply::known(Ok(engine.shared.catalog.alias_conflicts())),
            Side::Reader(view) => {
                let view = view.clone();
                Reply::lookup(move |place| {
                    Box::pin(blocking(place, move || view.alias_conflicts()))
                })
            }
        }
    }

    fn ready_to_ensure(
        &self,
        key: &str,
        scope: Option<&RawValue>,
        aliases: &[String],
    ) -> Result<Arc<str>> {
        let Side::Writer(engine) = &self.side else {
            return Err(Error::ReadOnly);
        };
        let key = names::literal(key, |key| engine.shared.catalog.has_files(key));
        session_file::validate_key(key)?;
        identity::check(scope, aliases, self.limits.line)?;
        if engine.is_closed() {
            return Err(engine.failure());
        }
        Ok(key.into())
    }

    async fn ensure(
        &self,
        key: Arc<str>,
        scope: Option<Box<RawValue>>,
        aliases: Vec<String>,
        place: LookupPlace,
    ) -> Result<bool> {
        let Side::Writer(engine) = &self.side else {
            return Err(Error::ReadOnly);
        };
        loop {
            let given = (scope.as_deref(), &*aliases);
            let search = self.look_for_inheritance(&engine.shared.catalog, &key, given, place);
            let search = search.await?;
            let ensure = Ensure {
                identity: Identity {
                    scope: scope.clone(),
                    aliases: aliases.clone(),
                },
                search,
                level: self.level,
            };
            let answer = Reply::command(engine.clone(), key.clone(), ensure);
            if let Some(promoted) = answer.await? {
                return Ok(promoted);
            }
        }
    }
}
