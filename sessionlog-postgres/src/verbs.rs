//! The changes that look at a session's lines, each in a transaction of its own.

mod amend;
mod backups;
mod fork;
mod identity;
mod lines;
mod moving;

use std::borrow::Cow;

use sessionlog::backend::kit::{self, Moment, TagChange};
use sessionlog::{BackupReason, ChangeKind, Error, Result, SessionTags, Version};
use tokio_postgres::types::Type;

use crate::command::{Order, Outcome, Restore, Update, Verb};
use crate::connection::Param;
use crate::fault::Tried;
use crate::row::{CHECKPOINT, MESSAGE, NewLine, Session, random};
use crate::transaction::Transaction;

impl<'a> Transaction<'a> {
    /// Carries out any verb. A verb that is answered with an error changed nothing.
    pub(crate) async fn carry_out(&mut self, order: &'a Order) -> Tried<Result<Outcome>> {
        let key = match self.resolve(order) {
            Ok(key) => key,
            Err(error) => return Ok(Err(error)),
        };
        match &order.verb {
            Verb::Update(update) if order.verb.is_simple() => Ok(self.update(&key, update)),
            Verb::Update(update) => self.look_and_update(&key, update).await,
            Verb::Checkpoint { message } => self.checkpoint(&key, *message).await,
            Verb::SetHistory { lines, expect } => {
                let found = self.sessions.get(&key);
                let found = found.map_or(Version::ABSENT, Session::version);
                if let Err(error) = found.require(&key, *expect) {
                    return Ok(Err(error));
                }
                self.replace(&key, lines).await?;
                Ok(Ok(self.changed(&key, ChangeKind::Replaced)))
            }
            Verb::Amend { position, message } => {
                self.amend(&key, *position, message.as_ref()).await
            }
            Verb::Upsert(identity) => self.upsert(&key, identity).await,
            Verb::Promote { identity, always } => self.promote(order, identity, *always).await,
            Verb::Delete { expect } => self.delete(&key, *expect).await,
            Verb::RevertTo(id) => self.revert(&key, *id).await,
            Verb::Clear => self.clear(&key).await,
            Verb::Compact => self.compact(&key).await,
            Verb::RestoreBackup(number) => self.restore_backup(&key, *number).await,
            Verb::PruneBackups(limits) => {
                let pruned = self.prune(&key, *limits).await?;
                Ok(Ok(Outcome::Number(pruned)))
            }
            Verb::Fork { from, at } => self.fork(order, &key, (from, *at)).await,
            Verb::Restore(restore) => self.restore(&key, restore).await,
            Verb::TakeBackup(backup) => self.take_backup(&key, backup).await,
            Verb::Move { to, merge } => self.go_on_as(&order.key, to, *merge).await,
        }
    }

    /// Carries out an update that hides lines, or changes tags. These are read first.
    async fn look_and_update(&mut self, key: &str, update: &'a Update) -> Tried<Result<Outcome>> {
        match self.is_settled(key, update) {
            Ok(None) => {}
            Ok(Some(outcome)) => return Ok(Ok(outcome)),
            Err(error) => return Ok(Err(error)),
        }
        let hides = update.keep.is_some() && self.sessions.contains_key(key);
        if let Some(keep) = update.keep {
            match self.find_cut(key, keep).await? {
                Ok(Some(start)) => self.hide_before(key, start).await?,
                Ok(None) => {}
                Err(error) => return Ok(Err(error)),
            }
        }
        if let Some(change) = &update.tags {
            self.tag(key, change).await?;
        }
        Ok(Ok(self.make(key, update, update.kind(hides))))
    }

    async fn tag(&mut self, key: &str, change: &TagChange) -> Tried<()> {
        let mut tags = match self.sessions.get(key) {
            Some(session) => self.tags_of(session).await?,
            None => SessionTags::default(),
        };
        change.clone().apply(&mut tags);
        self.session(key).set_tags(tags);
        Ok(())
    }

    async fn checkpoint(&mut self, key: &str, message: bool) -> Tried<Result<Outcome>> {
        let id = self.moment(key).await?.next_checkpoint();
        let mark = NewLine {
            kind: CHECKPOINT,
            line: kit::checkpoint_line(id),
            said: None,
        };
        self.push(key, Cow::Owned(mark));
        if message {
            let told = NewLine::read(kit::checkpoint_message_line(id));
            self.push(key, Cow::Owned(told));
        }
        self.changed(key, ChangeKind::Appended);
        Ok(Ok(Outcome::Number(id)))
    }

    /// Replaces all lines.
    async fn replace(&mut self, key: &str, lines: &'a [NewLine]) -> Tried<()> {
        self.empty(key).await?;
        for line in lines {
            self.push(key, Cow::Borrowed(line));
        }
        Ok(())
    }

    /// Removes all lines, and begins another history. Makes the session if needed.
    async fn empty(&mut self, key: &str) -> Tried<()> {
        let session = self.session(key);
        let id = session.id;
        (session.start_at, session.end_at, session.history) = (0, 0, random());
        (session.lines, session.hidden, session.messages) = (0, 0, 0);
        if !session.change.is_new {
            self.remove("DELETE FROM {schema}.lines WHERE session_id = $1", id)
                .await?;
        }
        Ok(())
    }

    async fn delete(&mut self, key: &str, expect: Option<Version>) -> Tried<Result<Outcome>> {
        let session = self.sessions.get(key);
        let found = session.map_or(Version::ABSENT, Session::version);
        if let Err(error) = found.require(key, expect) {
            return Ok(Err(error));
        }
        let Some(id) = session.map(|session| session.id) else {
            return Ok(Ok(Outcome::Done));
        };
        self.remove_all(id).await?;
        self.gone(key);
        Ok(Ok(Outcome::Done))
    }

    /// Removes all rows of a session.
    async fn remove_all(&self, id: i64) -> Tried<()> {
        for table in TABLES {
            let sql = format!("DELETE FROM {{schema}}.{table} WHERE session_id = $1");
            self.remove(&sql, id).await?;
        }
        Ok(())
    }

    async fn revert(&mut self, key: &str, id: i64) -> Tried<Result<Outcome>> {
        if !self.sessions.contains_key(key) {
            return Ok(Err(Error::CheckpointNotFound {
                id: id.into(),
                existing: Vec::new(),
                lost: false,
            }));
        }
        let end = match self.moment(key).await?.checkpoint(id) {
            Ok(at) => at.cast_signed(),
            Err(error) => return Ok(Err(error)),
        };
        self.keep(key, BackupReason::Revert).await?;
        let session = self.session(key).id;
        let gone = self.count(session, end..i64::MAX).await?;
        self.remove_range(session, end..i64::MAX, false).await?;
        let session = self.session(key);
        session.end_at = end;
        session.lines -= gone.lines;
        session.messages -= gone.messages;
        session.history = random();
        self.changed(key, ChangeKind::Replaced);
        self.bound_backups(key).await?;
        Ok(Ok(Outcome::Done))
    }

    async fn clear(&mut self, key: &str) -> Tried<Result<Outcome>> {
        if self
            .sessions
            .get(key)
            .is_some_and(|session| session.lines > 0)
        {
            self.keep(key, BackupReason::Clear).await?;
            self.empty(key).await?;
            self.changed(key, ChangeKind::Replaced);
            self.bound_backups(key).await?;
        }
        Ok(Ok(Outcome::Done))
    }

    /// Removes hidden lines, except for control records, which stay in force.
    async fn compact(&mut self, key: &str) -> Tried<Result<Outcome>> {
        let Some(session) = self.sessions.get(key) else {
            return Ok(Ok(Outcome::Done));
        };
        let (id, start) = (session.id, session.start_at);
        if session.hidden > 0 {
            let gone = self.remove_range(id, 0..start, true).await?;
            let session = self.session(key);
            session.lines -= gone;
            session.hidden -= gone;
            session.change.numbers |= gone > 0;
        }
        Ok(Ok(Outcome::Done))
    }

    async fn restore(&mut self, key: &str, restore: &'a Restore) -> Tried<Result<Outcome>> {
        let found = self.sessions.get(key);
        let found = found.map_or(Version::ABSENT, Session::version);
        if restore.keeps || found != restore.compared {
            self.keep(key, BackupReason::Import).await?;
        }
        self.replace(key, &restore.lines).await?;
        self.set_identity(key, &restore.identity).await?;
        let session = self.session(key);
        session.set_summary(&restore.summary);
        self.tag(key, &restore.tags).await?;
        self.changed(key, ChangeKind::Replaced);
        let session = self.session(key);
        session.created_at.clone_from(&restore.created_at);
        self.carry(key, &restore.carried);
        self.bound_backups(key).await?;
        Ok(Ok(Outcome::Done))
    }

    /// Returns the content of the control records of a session, without its messages.
    pub(crate) async fn moment(&self, key: &str) -> Tried<Moment> {
        let Some(session) = self.sessions.get(key) else {
            return Ok(Moment::new(
                sessionlog::SessionMeta::empty(key),
                kit::MomentParts::default(),
            ));
        };
        let mut parts = session.parts();
        if session.lines > 0 {
            parts.controls = self.controls(session.id).await?;
        }
        Ok(Moment::new(session.meta(), parts))
    }

    /// True if it has neither a visible message nor a summary.
    async fn is_blank(&self, key: &str) -> Tried<bool> {
        Ok(match self.sessions.get(key) {
            Some(one) => one.messages == 0 && self.summary_of(one).await?.trim().is_empty(),
            None => true,
        })
    }

    /// Returns the summary of a session that was locked.
    async fn summary_of(&self, session: &Session) -> Tried<String> {
        if session.change.summary || session.change.is_new {
            return Ok(session.summary.clone());
        }
        let params: [Param<'_>; 1] = [(&session.id, Type::INT8)];
        let rows = self.ask(&self.shared.sql.summary, &params).await?;
        let summary = rows.first().map(|row| row.get::<_, Vec<u8>>(0));
        let summary = summary.unwrap_or_default();
        Ok(String::from_utf8_lossy(&summary).into_owned())
    }

    /// Returns the tags of a session that was locked.
    async fn tags_of(&self, session: &Session) -> Tried<SessionTags> {
        if session.change.tags || session.change.is_new {
            return Ok(session.tags.clone());
        }
        let params: [Param<'_>; 1] = [(&session.id, Type::INT8)];
        let rows = self.ask(&self.shared.sql.tags, &params).await?;
        let tags = rows.first().map(|row| kit::decode_tags(row.get(0)));
        Ok(tags.unwrap_or_default())
    }
}

/// The tables that have rows of a session. Rows that a deletion leaves in one of them are never
/// found again, and no erasure removes them.
const TABLES: [&str; 8] = [
    "lines",
    "session_aliases",
    "session_summaries",
    "session_tags",
    "message_ids",
    "backup_lines",
    "backups",
    "sessions",
];

/// The number of lines, and of messages among them.
#[derive(Clone, Copy, Debug, Default)]
struct Count {
    lines: i64,
    messages: i64,
}

impl Count {
    fn add(&mut self, kind: i16) {
        self.lines += 1;
        self.messages += i64::from(kind == MESSAGE);
    }
}
