//! Giving a session another key, before the content of that key.

use sessionlog::backend::kit::{self, Move, TagChange};
use sessionlog::{ChangeKind, Result, SessionMeta, SessionTags};
use tokio_postgres::types::Type;

use super::identity::carried;
use crate::command::Outcome;
use crate::connection::Param;
use crate::fault::Tried;
use crate::row::{CHECKPOINT, NewLine, Session, random};
use crate::transaction::{Transaction, as_race};

impl Transaction<'_> {
    /// See [`Verb::Move`](crate::command::Verb::Move). Returns true if the session of the new key
    /// had a visible message or a summary.
    pub(super) async fn go_on_as(
        &mut self,
        old: &str,
        new: &str,
        merge: bool,
    ) -> Tried<Result<Outcome>> {
        let literal = |key| kit::literal(key, |key| self.sessions.contains_key(key));
        let (old, new) = (literal(old), literal(new));
        let has_said = !self.is_blank(new).await?;
        let may = self.may_go_on_as(old, new);
        if let Err(error) = may.and_then(|()| kit::check_history(new, has_said, merge)) {
            return Ok(Err(error));
        }
        let older = self.whole_meta(old).await?;
        let own = self.whole_meta(new).await?;
        let is_there = self.sessions.contains_key(new);
        let stays = if is_there { &own } else { &older };
        let said = (stays.summary.clone(), stays.tags.clone());
        let meta = kit::meta_after(own, older);
        if let Err(error) = self.check_meta(&meta) {
            return Ok(Err(error));
        }
        let ids = [old, new]
            .into_iter()
            .filter_map(|key| self.sessions.get(key));
        let ids: Vec<i64> = ids.map(|session| session.id).collect();
        let mut former = self.disclaim(&ids).await?;
        former.push(old.trim().to_owned());
        if is_there {
            self.put_before(old, new).await?;
            self.changed(new, ChangeKind::Replaced);
        } else {
            self.set_key(old, new).await?;
            self.tell(new, ChangeKind::Replaced);
        }
        self.gone(old);
        self.claim(new, &meta.aliases, &former).await?;
        self.describe(new, &said, meta);
        Ok(Ok(Outcome::Whether(has_said)))
    }

    /// Checks that a session may get another key.
    ///
    /// # Errors
    /// `InvalidKey`, `SessionNotFound`, `IsAlias`.
    fn may_go_on_as(&self, old: &str, new: &str) -> Result<()> {
        let has = |key: &str| self.sessions.contains_key(key);
        let new_owner = kit::resolve(new, has, |key| self.claimant(key));
        let moved = Move {
            old,
            new,
            is_there: has(old),
            old_claimant: self.claimant(old),
            new_owner: new_owner.as_deref().filter(|key| *key != new),
        };
        moved.check()
    }

    /// Returns the description of a session that was locked, or of none.
    async fn whole_meta(&self, key: &str) -> Tried<SessionMeta> {
        let Some(session) = self.sessions.get(key) else {
            return Ok(SessionMeta::empty(key));
        };
        let mut meta = session.meta();
        meta.summary = self.summary_of(session).await?;
        meta.tags = self.tags_of(session).await?;
        Ok(meta)
    }

    /// Checks the sizes of a description.
    ///
    /// # Errors
    /// `MessageTooLarge`.
    fn check_meta(&self, meta: &SessionMeta) -> Result<()> {
        let limit = self.shared.options.max_line;
        kit::check_summary(&meta.summary, limit)?;
        kit::check_tags(&TagChange::whole(meta.tags.clone()), limit)?;
        kit::check_identity(None, &meta.aliases, limit)
    }

    /// Gives a session the description `meta`, except for its lines and its time of change. `said`
    /// is its present summary and tags.
    fn describe(&mut self, key: &str, said: &(String, SessionTags), meta: SessionMeta) {
        let session = self.session(key);
        session.scope = meta.scope.map(|scope| scope.get().to_owned());
        session.aliases = meta.aliases;
        session.created_at = meta.created_at;
        session.change.text = true;
        if meta.summary != said.0 {
            session.set_summary(&meta.summary);
        }
        if meta.tags != said.1 {
            session.set_tags(meta.tags);
        }
    }

    /// Gives a session a key that no session has.
    async fn set_key(&mut self, old: &str, new: &str) -> Tried<()> {
        let Some(mut session) = self.sessions.get(old).cloned() else {
            return Ok(());
        };
        let file = kit::file_name(new).into_bytes();
        let params: [Param<'_>; 3] = [
            (&session.id, Type::INT8),
            (&new, Type::TEXT),
            (&file, Type::BYTEA),
        ];
        let sql = &self.shared.sql.set_key;
        let set = self.connection.execute(sql, &params).await;
        set.map_err(as_race)?;
        new.clone_into(&mut session.key);
        self.sessions.insert(new.to_owned(), session);
        Ok(())
    }

    /// Puts all content of a session before that of another session, and removes it.
    async fn put_before(&mut self, old: &str, new: &str) -> Tried<()> {
        let both = (self.sessions.get(old), self.sessions.get(new));
        let (Some(older), Some(own)) = both else {
            return Ok(());
        };
        let (older, own) = (older.clone(), own.clone());
        if own.lines == 0 {
            self.move_lines(&older, own.id, 0, true).await?;
            let session = self.session(new);
            (session.start_at, session.end_at) = (older.start_at, older.end_at);
            (session.lines, session.hidden) = (older.lines, older.hidden);
            // Positions stay valid.
            (session.messages, session.history) = (older.messages, older.history);
        } else {
            self.join_lines(&older, &own).await?;
        }
        self.move_ids(&older, new).await?;
        self.move_backups(older.id, own.id).await?;
        self.remove_all(older.id).await
    }

    /// Puts the lines of a session before those of another. The hidden lines of both come first,
    /// because the hidden lines are the first ones of a session.
    async fn join_lines(&mut self, older: &Session, own: &Session) -> Tried<()> {
        let controls = self.controls(own.id).await?;
        let hidden = controls.into_iter();
        let hidden = hidden.filter(|(at, _)| *at < own.start_at.cast_unsigned());
        // Nobody can go back to a checkpoint of the older session, because the other's lines use
        // the same ids. The line that marks it as lost is longer, so the lines behind it come
        // later.
        let mut lost = Vec::new();
        let mut grown = 0;
        for (at, line) in self.controls(older.id).await? {
            let (at, was) = (at.cast_signed(), crate::read::number(line.len()) + 1);
            let line = NewLine::read(kit::lost_checkpoint_line(&line));
            if line.kind != CHECKPOINT {
                continue;
            }
            if at < older.start_at {
                self.put((own.id, at), line);
                continue;
            }
            let (at, by) = (at + own.start_at, line.len() - was);
            lost.push((at, by));
            self.put((own.id, at + grown), line);
            grown += by;
        }
        // The own control records hold, not those of the older session.
        let carried = carried(hidden.collect(), own.start_at);
        let mut end = older.end_at + own.start_at;
        let added = crate::read::number(carried.len());
        for line in carried {
            let at = end + grown;
            end += line.len();
            self.put((own.id, at), line);
        }
        let room: [Param<'_>; 4] = [
            (&own.id, Type::INT8),
            (&own.start_at, Type::INT8),
            (&older.start_at, Type::INT8),
            (&(end - own.start_at), Type::INT8),
        ];
        let (connection, sql) = (self.connection, &self.shared.sql);
        connection.execute(&sql.make_room, &room).await?;
        connection.execute(&sql.turn_back, &room[..1]).await?;
        self.move_lines(older, own.id, own.start_at, false).await?;
        for &(at, by) in lost.iter().rev() {
            self.shift((own.id, at), by).await?;
        }
        let end = end + grown;
        let session = self.session(&own.key);
        session.start_at = older.start_at + own.start_at;
        session.end_at = end + own.end_at - own.start_at;
        session.lines = older.lines + own.lines + added;
        session.hidden = older.hidden + own.hidden;
        session.messages = older.messages + own.messages;
        session.history = random();
        Ok(())
    }

    /// Copies the lines of a session to another. The visible ones are `later` bytes later.
    async fn move_lines(
        &self,
        from: &Session,
        to: i64,
        later: i64,
        with_checkpoints: bool,
    ) -> Tried<()> {
        let params: [Param<'_>; 5] = [
            (&from.id, Type::INT8),
            (&to, Type::INT8),
            (&from.start_at, Type::INT8),
            (&later, Type::INT8),
            (&with_checkpoints, Type::BOOL),
        ];
        let sql = &self.shared.sql.move_lines;
        self.connection.execute(sql, &params).await?;
        Ok(())
    }

    /// Makes a session remember the message ids of another, as older than its own.
    async fn move_ids(&mut self, from: &Session, to: &str) -> Tried<()> {
        let session = self.session(to);
        let id = session.id;
        let (connection, sql) = (self.connection, &self.shared.sql);
        let behind: [Param<'_>; 2] = [(&id, Type::INT8), (&from.taken, Type::INT8)];
        let own = connection.execute(&sql.renumber_ids, &behind).await?;
        let moved: [Param<'_>; 2] = [(&from.id, Type::INT8), (&id, Type::INT8)];
        connection.execute(&sql.move_ids, &moved).await?;
        self.session(to).taken = from.taken + own.cast_signed();
        Ok(())
    }

    async fn move_backups(&self, from: i64, to: i64) -> Tried<()> {
        let moved: [Param<'_>; 2] = [(&from, Type::INT8), (&to, Type::INT8)];
        let sql = &self.shared.sql;
        for sql in [
            &sql.move_backup_lines,
            &sql.move_backups,
            &sql.count_moved_backups,
        ] {
            self.connection.execute(sql, &moved).await?;
        }
        Ok(())
    }
}
