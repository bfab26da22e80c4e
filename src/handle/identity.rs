//! The verbs that say where a session belongs and what else it is called.

use std::sync::Arc;

use serde_json::value::RawValue;

use super::lines::check_size;
use super::{Side, StoreHandle, blocking, identity_size};
use crate::catalog::AliasConflict;
use crate::error::{Error, Result};
use crate::reply::{Place, Reply};
use crate::scope;
use crate::session_file;
use crate::shard::command::{Command, Ensure, Identity, Verb};
use crate::sync::slot::slot;

/// Who a session is.
impl StoreHandle {
    /// Gives a session its scope and aliases, as
    /// [`upsert_session_meta`](Self::upsert_session_meta) does, and takes over
    /// what the first of the aliases has that has anything, as
    /// [`promote_alias_history`](Self::promote_alias_history) does, in one step:
    /// nobody sees one without the other, and no crash leaves it so. Says whether
    /// it took something over. For a gateway to call before it handles a message:
    /// where nothing is to be changed, nothing is written.
    ///
    /// White space around the key does not count, unless a session has it in its
    /// key; apart from that it is taken literally. A key of white space alone is
    /// none. Without a scope the session has none afterwards. A promotion is
    /// always durable; scope and aliases alone are as durable as this handle's
    /// appends. A message that someone adds to an alias's own session while it
    /// is taken over may stay behind there.
    ///
    /// An alias that the session claims already is not looked at: it was taken
    /// over, or there was nothing to take, or the session had something itself. So
    /// what was cleared, truncated or replaced since does not come back. It does
    /// where the session forgot the alias, because it was ensured without it, or
    /// deleted: what was taken over is a copy, and the older session still has its
    /// own ([`delete_session`](Self::delete_session)).
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
    /// As [`upsert_session_meta`](Self::upsert_session_meta). Nothing is changed
    /// then.
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

    /// Every alias that several sessions claim, in order, with those who do.
    /// Whom such an alias means is settled
    /// ([`resolve_session_key`](Self::resolve_session_key)), but those who wrote
    /// it down meant different sessions. An agent's main alias, which all its
    /// sessions claim, is left out. Looks at every alias of the store.
    ///
    /// A conflict is also logged, as a warning, when it arises, and those that
    /// opening found are
    /// [counted](crate::RecoveryReport::contested_aliases).
    ///
    /// # Errors
    /// Those all verbs share.
    pub fn alias_conflicts(&self) -> Reply<Vec<AliasConflict>> {
        match &self.side {
            Side::Writer(engine) if engine.is_closed() => Reply::known(Err(engine.failure())),
            Side::Writer(engine) => Reply::known(Ok(engine.context.catalog.alias_conflicts())),
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
        let key = if engine.context.catalog.has_files(key) {
            key
        } else {
            key.trim()
        };
        session_file::validate_key(key)?;
        check_size(identity_size(scope, aliases), self.max_line)?;
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
        place: Place,
    ) -> Result<bool> {
        let Side::Writer(engine) = &self.side else {
            return Err(Error::ReadOnly);
        };
        loop {
            let given = (scope.as_deref(), &*aliases);
            let search = self.search(&engine.context.catalog, &key, given, place);
            let search = search.await?;
            let (promise, slot) = slot();
            let verb = Verb::Ensure(Box::new(Ensure {
                identity: Box::new(of(scope.clone(), aliases.clone())),
                search,
                level: self.level,
                answer: promise,
            }));
            let key = key.clone();
            let answer = Reply::command(Command { key, verb }, slot, engine.clone());
            if let Some(promoted) = answer.await? {
                return Ok(promoted);
            }
        }
    }
}

pub(super) fn of(scope: Option<Box<RawValue>>, aliases: Vec<String>) -> Identity {
    Identity {
        scope,
        aliases,
        judge: scope::may_follow,
    }
}
