//! The verbs that say where a session belongs and what else it is called.

use std::sync::Arc;

use serde_json::value::RawValue;

use super::lines::check_size;
use super::{Side, StoreHandle, blocking, identity_size};
use crate::catalog::{AliasConflict, Catalog};
use crate::error::{Error, Result};
use crate::reader;
use crate::reply::{Place, Reply};
use crate::scope;
use crate::session_file;
use crate::shard::command::{Command, Ensure, Identity, Search, Verb};
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

    /// Looks for something to take over. An alias without a session costs a
    /// look-up, not a read; so does one that the session claims already: what it
    /// had was taken over or declined then, and must not come back to a session
    /// that was cleared since.
    async fn search(
        &self,
        catalog: &Catalog,
        key: &str,
        (scope, aliases): (Option<&RawValue>, &[String]),
        place: Place,
    ) -> Result<Search> {
        let names = session_file::normalize_aliases(key, aliases);
        if !names.iter().any(|name| catalog.knows(name)) {
            return Ok(Search::Vain);
        }
        let own = self.snapshot(key, place).await?.meta.text.clone();
        let fresh = |name: &&String| !own.aliases.contains(name) && catalog.knows(name);
        let fresh: Vec<String> = names.iter().filter(fresh).cloned().collect();
        if fresh.is_empty() {
            return Ok(Search::Vain);
        }
        if self.shows_something(key, place).await? {
            return Ok(Search::Needless);
        }
        let scopes = [scope, own.scope.as_deref()];
        let found = self.candidate(&fresh, &names, scopes, place).await?;
        Ok(found.map_or(Search::Vain, |(alias, candidate)| {
            Search::Found(alias, candidate)
        }))
    }

    async fn shows_something(&self, key: &str, place: Place) -> Result<bool> {
        let snapshot = self.snapshot(key, place).await?;
        if !snapshot.meta.text.summary.trim().is_empty() {
            return Ok(true);
        }
        let (counters, key) = (self.counters(), key.to_owned());
        blocking(place, move || {
            let newest = reader::tail(&snapshot, 1, &counters);
            newest.map_err(|e| Error::io("read", std::path::Path::new(&key), e))
        })
        .await
        .map(|newest| !newest.is_empty())
    }
}

pub(super) fn of(scope: Option<Box<RawValue>>, aliases: Vec<String>) -> Identity {
    Identity {
        scope,
        aliases,
        judge: scope::may_follow,
    }
}
