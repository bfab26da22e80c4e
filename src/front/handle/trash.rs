//! Deleted sessions that are kept, and bringing them back.

use std::sync::Arc;
use std::time::Duration;

use super::finding::{Listed, Owned, Sight as _};
use super::moving::moved;
use super::{Side, StoreHandle, blocking};
use crate::disk::session_file::{self, Meta};
use crate::engine::Engine;
use crate::engine::glance::{self, GLANCES};
use crate::engine::shard::verbs::delete::Delete;
use crate::error::{Error, Result};
use crate::front::reply::Reply;

/// Deleting.
impl StoreHandle {
    /// Deletes a session: both its files, and its aliases and
    /// [backups](Self::list_backups) with it; it cannot be brought back. Readers that
    /// hold a snapshot finish with it. Does nothing to a session that does not
    /// exist. Like every verb it resolves the key first: given an alias it deletes
    /// the session the alias names. Always durable.
    ///
    /// With [`StoreOptions::keep_deleted`](crate::StoreOptions::keep_deleted) the session is
    /// kept under another key, `deleted:20261128T192303.123Z:` (the time in UTC) and its own,
    /// with all there is of it, and [`undelete_session`](Self::undelete_session) brings it
    /// back. Its key and aliases mean nothing then, or what they would without it. It is
    /// listed by [`SessionQuery::deleted`](crate::SessionQuery::deleted) alone, and can be
    /// read under that key, not written to; deleted once more, it is gone. So it is after
    /// [`erase`](Self::erase), and once [retention](Self::retention) is applied and it was
    /// kept for long enough. Other programs see its files: to them it is a session of that
    /// key. This copies the session's file, and waits as
    /// [`rename_session`](Self::rename_session) does.
    ///
    /// An older session that it took history over from is a session of its own,
    /// and stays; whoever ensures the same aliases again takes it over again. To
    /// be rid of everything that was said, delete first what the session's
    /// aliases name, with [`exact_keys`](Self::exact_keys).
    ///
    /// # Errors
    /// Those all verbs share. A session that is to be kept must be readable, and its copy needs
    /// room.
    pub fn delete_session(&self, key: &str) -> Reply<()> {
        let Side::Writer(engine) = &self.side else {
            return Reply::known(Err(Error::ReadOnly));
        };
        if engine.shared.keep_deleted.is_none() && !session_file::is_deleted_key(key) {
            return self.ask(key, Delete::default());
        }
        if let Err(error) = self.open_to_read(key) {
            return Reply::known(Err(error));
        }
        let (this, engine, key) = (self.clone(), engine.clone(), key.to_owned());
        Reply::lookup(move |_| {
            Box::pin(async move {
                loop {
                    let catalog = &engine.shared.catalog;
                    let key = this.canonical(catalog, &key)?;
                    if session_file::is_deleted_key(&key) || !catalog.has_files(&key) {
                        return Reply::command(engine, key, Delete::default()).await;
                    }
                    let to = unused_key(&engine, &key);
                    match moved(engine.clone(), key, to, false).await {
                        Ok(_) => return Ok(()),
                        // Somebody else deleted it, too.
                        Err(
                            Error::SessionNotFound { .. }
                            | Error::HasHistory { .. }
                            | Error::IsAlias { .. },
                        ) => {}
                        Err(error) => return Err(error),
                    }
                }
            })
        })
    }

    /// Brings back the session that was [deleted](Self::delete_session) last under a key or an
    /// alias, if it was kept; or the one that [is kept](crate::SessionQuery::deleted) under that
    /// very key. Answers which key it has: the one it had. Lines, summary, title, ids of messages
    /// taken once, backups, archive and positions are as they were, and so are its aliases, but
    /// for those that mean another session now. Always durable; copies the session's file.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use sessionlog::{SessionQuery, Store, StoreOptions};
    /// # fn main() -> sessionlog::Result<()> {
    /// # let scratch = tempfile::tempdir().unwrap();
    /// let month = Duration::from_secs(30 * 24 * 3600);
    /// let store = Store::open_with(scratch.path(), StoreOptions::new().keep_deleted(month))?;
    /// let chats = store.handle();
    /// chats.add_message("telegram:7", "user", "hi").wait()?;
    /// chats.delete_session("telegram:7").wait()?;
    /// assert!(chats.list_sessions().wait()?.is_empty());
    ///
    /// let kept = chats.sessions(SessionQuery::new().deleted()).wait()?.sessions;
    /// assert_eq!(kept[0].deletion.as_ref().unwrap().key, "telegram:7");
    /// assert_eq!(chats.history(&kept[0].key).wait()?.len(), 1);
    ///
    /// assert_eq!(chats.undelete_session("telegram:7").wait()?, "telegram:7");
    /// assert_eq!(chats.history("telegram:7").wait()?.len(), 1);
    /// # store.close()
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::SessionNotFound`] if none is kept; [`Error::HasHistory`] if its key has a session
    /// again, with a message or a summary: [`merge_session`](Self::merge_session) of the key that
    /// it is kept under and that one puts it before; [`Error::IsAlias`] if its key is another
    /// session's alias now; those all verbs share. Nothing is changed then.
    pub fn undelete_session(&self, key: &str) -> Reply<String> {
        let Side::Writer(engine) = &self.side else {
            return Reply::known(Err(Error::ReadOnly));
        };
        if let Err(error) = self.open_to_read(key) {
            return Reply::known(Err(error));
        }
        let (this, engine, key) = (self.exact_keys(), engine.clone(), key.trim().to_owned());
        Reply::lookup(move |place| {
            Box::pin(async move {
                let among = engine.clone();
                let (kept, was) = blocking(place, move || this.kept_of(&among, &key)).await?;
                moved(engine, kept.into(), was.as_str().into(), false).await?;
                Ok(was)
            })
        })
    }

    /// The key that a deleted session is kept under, and the one that it had.
    fn kept_of(&self, engine: &Arc<Engine>, key: &str) -> Result<(String, String)> {
        let kept = Kept::all(self, engine);
        let found = kept.into_iter().rev().find(|kept| match &kept.was {
            Ok(was) => kept.key == key || was.text.key == key || claims(was, key),
            Err(_) => kept.key == key || session_file::key_before(&kept.key) == key,
        });
        let Some(Kept { key, was }) = found else {
            let key = key.to_owned();
            return Err(Error::SessionNotFound { key });
        };
        Ok((key, was?.text.key.clone()))
    }
}

fn claims(meta: &Meta, alias: &str) -> bool {
    meta.text.aliases.iter().any(|own| own == alias)
}

/// A key for a session that is deleted now.
fn unused_key(engine: &Engine, key: &str) -> Arc<str> {
    let mut at = engine.shared.clock.now();
    loop {
        let deleted = session_file::deleted_key(key, at);
        if !engine.shared.catalog.knows(&deleted) {
            return deleted.into();
        }
        at += Duration::from_millis(1);
    }
}

/// A deleted session that is kept.
pub(super) struct Kept {
    /// The key that it is kept under.
    pub(super) key: String,
    /// Its sidecar as it was before the deletion.
    pub(super) was: Result<Meta>,
}

impl Kept {
    /// All, in the order of their deletion.
    pub(super) fn all(chats: &StoreHandle, engine: &Arc<Engine>) -> Vec<Self> {
        let mut listed: Vec<Listed> = engine.shared.catalog.listed();
        listed.retain(|(_, key)| session_file::is_deleted_key(key));
        listed.sort_by(|(_, a), (_, b)| a.cmp(b));
        let sessions = Owned(chats, engine);
        let metas = glance::each(&listed, GLANCES, &|session| {
            Ok(sessions.meta(session)?.undeleted())
        });
        let all = listed.into_iter().zip(metas);
        all.map(|((_, key), was)| Self { key, was }).collect()
    }
}
