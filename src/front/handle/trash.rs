//! Deleting sessions, the trash, and bringing them back.

use std::sync::Arc;

use sessionlog_core::error::{Error, Result};
use sessionlog_core::session_file::{self, Meta, MetaText};

use super::finding::{ListedSession, OwnedSessions, Sight as _};
use super::moving::moved;
use super::{Side, StoreHandle, blocking};
use crate::engine::Engine;
use crate::engine::glance::{self, GLANCES};
use crate::engine::shard::verbs::delete::Delete;
use crate::engine::shard::verbs::rename::Rename;
use crate::front::erase::is_own;
use crate::front::reply::Reply;

/// Deleting.
impl StoreHandle {
    /// Deletes a session: both its files, its aliases and its [backups](Self::list_backups). It
    /// cannot be brought back, unless the store has a trash. Readers that hold a snapshot finish
    /// with it. Does nothing to a session that does not exist. Like every verb it resolves the key
    /// first: given an alias, it deletes the session that the alias names. Always durable.
    ///
    /// With [`StoreOptions::trash`](crate::StoreOptions::trash) the whole session is kept, and
    /// [`undelete`](Self::undelete) brings it back. In the trash its key is
    /// `deleted:20261128T192303.123456789Z:` (the time in UTC) followed by its former key. The
    /// former key and its aliases then mean nothing, or whatever they mean without this session.
    /// [`SessionQuery::deleted`](crate::SessionQuery::deleted) alone lists it. It can be read under
    /// the key in the trash, but not written to. It is gone once it is deleted under that key or
    /// [erased](Self::erase), or once [retention](Self::retention) is applied after it was kept for
    /// long enough. Other programs see its files: to them it is a session of that key. Moving a
    /// session to the trash copies its file, and waits until no compaction of it is under way.
    ///
    /// An older session that it took history over from is a session of its own, and stays; ensuring
    /// the same aliases again takes it over again. To be rid of everything that was said, first
    /// delete the sessions that its aliases name, with [`exact_keys`](Self::exact_keys).
    ///
    /// # Errors
    /// The errors all verbs share. A session that cannot be read, or for whose copy there is no
    /// space, is not moved to the trash: see [`delete_for_good`](Self::delete_for_good).
    pub fn delete_session(&self, key: &str) -> Reply<()> {
        let has_trash = match &self.side {
            Side::Writer(engine) => engine.shared.trash.is_some(),
            Side::Reader(_) => false,
        };
        self.let_go(key, has_trash)
    }

    /// Deletes a session without moving it to the trash, or one that is in the trash already, as
    /// [`delete_session`](Self::delete_session) does in a store without a trash. It needs no space,
    /// and reads nothing of the session.
    ///
    /// # Errors
    /// The errors all verbs share.
    pub fn delete_for_good(&self, key: &str) -> Reply<()> {
        self.let_go(key, false)
    }

    fn let_go(&self, key: &str, to_trash: bool) -> Reply<()> {
        let delete = Delete {
            expect: None,
            to_trash,
        };
        self.ask(key, delete)
    }

    /// Brings a session back from the trash: the one [deleted](Self::delete_session) last under a
    /// key, or under an alias if none was under a key, or the one that has this very key in the
    /// trash. Answers with the key that it has again. Lines, summary, title, labels and pin, ids of
    /// messages taken once, backups, archive and positions are as they were. So are its aliases,
    /// except those that became another session's. Always durable; copies the session's file.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use sessionlog::{SessionQuery, Store, StoreOptions};
    /// # fn main() -> sessionlog::Result<()> {
    /// # let scratch = tempfile::tempdir().unwrap();
    /// let month = Duration::from_secs(30 * 24 * 3600);
    /// let store = Store::open_with(scratch.path(), StoreOptions::new().trash(month))?;
    /// let chats = store.handle();
    /// chats.add_message("telegram:7", "user", "hi").wait()?;
    /// chats.delete_session("telegram:7").wait()?;
    /// assert!(chats.list_sessions().wait()?.is_empty());
    ///
    /// let trash = chats.sessions(SessionQuery::new().deleted()).wait()?.sessions;
    /// assert_eq!(trash[0].deleted.as_ref().unwrap().key, "telegram:7");
    /// assert_eq!(chats.history(&trash[0].key).wait()?.len(), 1);
    ///
    /// assert_eq!(chats.undelete("telegram:7").wait()?, "telegram:7");
    /// assert_eq!(chats.history("telegram:7").wait()?.len(), 1);
    /// # store.close()
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::SessionNotFound`] if no such session is in the trash. [`Error::HasHistory`] if its
    /// key has a session again, with a message or a summary: use
    /// [`merge_session`](Self::merge_session) with the key in the trash and that key, which puts
    /// the deleted history first. [`Error::IsAlias`] if its key is another session's alias, but not
    /// an agent's main one; only [`exact_keys`](Self::exact_keys) bypass this. The errors all verbs
    /// share. Nothing is changed then.
    pub fn undelete(&self, key: &str) -> Reply<String> {
        let engine = match self.writer() {
            Ok(engine) => engine.clone(),
            Err(error) => return Reply::known(Err(error)),
        };
        let is_exact = !self.resolve;
        let (this, key) = (self.exact_keys(), key.to_owned());
        Reply::lookup(move |place| {
            Box::pin(async move {
                let among = engine.clone();
                let find = move || this.in_trash(&among, &key);
                let (kept, was) = blocking(place, find).await?;
                let rename = Rename {
                    from: kept.into(),
                    merge: false,
                    // The session may have stood beside that of its alias before.
                    may_be_alias: is_exact || !is_own(&was),
                };
                moved(engine, rename, was.as_str().into()).await?;
                Ok(was)
            })
        })
    }

    /// The engine, unless it takes no commands.
    fn writer(&self) -> Result<&Arc<Engine>> {
        match &self.side {
            Side::Reader(_) => Err(Error::ReadOnly),
            Side::Writer(engine) if engine.is_closed() => Err(engine.failure()),
            Side::Writer(engine) => Ok(engine),
        }
    }

    /// The key that a session has in the trash, and its former key.
    fn in_trash(&self, engine: &Arc<Engine>, key: &str) -> Result<(String, String)> {
        let mut all = TrashEntry::all(self, engine);
        all.reverse();
        let is_found = |kept: &&TrashEntry, key: &str, by_alias: bool| match &kept.was {
            _ if kept.key == key => true,
            Ok(was) if by_alias => was.aliases.iter().any(|own| own == key && is_own(own)),
            Ok(was) => was.key == key,
            Err(_) => !by_alias && session_file::key_before(&kept.key) == key,
        };
        // White space around a key may be part of it.
        let ways = [(key, false), (key.trim(), false), (key.trim(), true)];
        let found = |(key, by_alias)| all.iter().find(|kept| is_found(kept, key, by_alias));
        match ways.into_iter().find_map(found) {
            Some(kept) => Ok((kept.key.clone(), kept.was.clone()?.key.clone())),
            None => Err(Error::SessionNotFound { key: key.into() }),
        }
    }
}

/// A session in the trash.
pub(super) struct TrashEntry {
    pub(super) key: String,
    /// Its sidecar before the deletion.
    pub(super) was: Result<Arc<MetaText>>,
}

impl TrashEntry {
    /// True if it had this key, or this alias, unless the alias is an agent's main one.
    pub(super) fn is_called(&self, name: &str) -> bool {
        match &self.was {
            Ok(was) => {
                let aliases = was.aliases.iter().filter(|alias| is_own(alias));
                aliases.chain([&was.key]).any(|own| own == name)
            }
            Err(_) => session_file::key_before(&self.key) == name,
        }
    }

    /// All sessions in the trash, in the order of their deletion.
    pub(super) fn all(chats: &StoreHandle, engine: &Arc<Engine>) -> Vec<Self> {
        let mut listed: Vec<ListedSession> = engine.shared.catalog.listed();
        listed.retain(|(_, key)| session_file::is_deleted_key(key));
        listed.sort_by(|(_, a), (_, b)| a.cmp(b));
        let sessions = OwnedSessions(chats, engine);
        let was = |meta: Meta| Arc::new(meta.text.undeleted().into_owned());
        let metas = glance::each(&listed, GLANCES, &|session| sessions.meta(session).map(was));
        let all = listed.into_iter().zip(metas);
        all.map(|((_, key), was)| Self { key, was }).collect()
    }
}
