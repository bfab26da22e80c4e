//! A session's conversation: checkpoints, token usage, a system prompt.

use sessionlog::backend::kit;
use sessionlog::{CheckpointId, Fork, Message, Reply};

use crate::command::{Outcome, Update, Verb};
use crate::row::{NewLine, PROMPT};
use crate::store::PostgresStore;
use crate::write::{done, map};

/// A session's conversation, with the verbs of a [`Context`](sessionlog::Context).
#[derive(Clone, Debug)]
pub struct PostgresContext {
    store: PostgresStore,
    key: String,
}

impl PostgresStore {
    /// Returns a session's conversation. The call itself touches nothing.
    #[must_use]
    pub fn context(&self, key: &str) -> PostgresContext {
        PostgresContext {
            store: self.clone(),
            key: key.to_owned(),
        }
    }

    /// Makes a new session from another. The new one gets the lines up to `at`, as bytes, hidden
    /// ones and control records included, and the summary. It does not get the scope, aliases,
    /// message ids and backups. The other session is not touched, but its writers wait while the
    /// database copies the lines. Always durable. The command takes its turn among the commands of
    /// `to`. If commands for `from` were queued before and not awaited, they may be carried out
    /// after it.
    ///
    /// ```no_run
    /// # fn main() -> sessionlog::Result<()> {
    /// # let options = sessionlog_postgres::PostgresOptions::new("");
    /// # let chats = sessionlog_postgres::PostgresStore::open(options)?;
    /// use sessionlog::Fork;
    ///
    /// chats.fork_session("telegram:123", "what-if", Fork::Message(10)).wait()?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::SessionExists`](sessionlog::Error::SessionExists) if `to` is a session, or an
    /// alias of one; [`Error::SessionNotFound`](sessionlog::Error::SessionNotFound) if `from`
    /// is none; [`Error::CheckpointNotFound`](sessionlog::Error::CheckpointNotFound); and those
    /// all verbs share.
    pub fn fork_session(&self, from: &str, to: &str, at: Fork) -> Reply<()> {
        let from = from.to_owned();
        done(self.write(to, move || Ok(Verb::Fork { from, at })))
    }

    /// Returns the checkpoints to which a session's conversation can be taken back, in the order of
    /// their lines.
    ///
    /// # Errors
    /// Those all verbs share.
    pub fn checkpoints(&self, key: &str) -> Reply<Vec<CheckpointId>> {
        map(self.moment(key, false), |moment| {
            let ids = moment.checkpoints().into_iter();
            Ok(ids.map(CheckpointId::new).collect())
        })
    }
}

/// Every verb returns a lazy [`Reply`]. Besides the errors named here, they have those of all verbs
/// of a [`PostgresStore`].
impl PostgresContext {
    /// True if there is any line.
    ///
    /// # Errors
    /// Those all verbs share.
    pub fn restore(&self) -> Reply<bool> {
        map(self.store.row(&self.key), |row| {
            Ok(row.is_some_and(|row| row.lines > 0))
        })
    }

    /// Appends messages as one change.
    ///
    /// # Errors
    /// As [`PostgresStore::append_all`].
    pub fn append_message(&self, messages: impl Into<sessionlog::Messages>) -> Reply<()> {
        let update = sessionlog::Update::new().append(messages);
        map(self.store.update(&self.key, update), |_| Ok(()))
    }

    /// Records how many tokens the conversation has.
    ///
    /// # Errors
    /// Those all verbs share.
    pub fn update_token_count(&self, token_count: i64) -> Reply<()> {
        let update = sessionlog::Update::new().tokens(token_count);
        map(self.store.update(&self.key, update), |_| Ok(()))
    }

    /// Sets a point to which the conversation can be taken back, and returns its id, counted from
    /// 0. With `add_user_message` a message right after it tells the model of it.
    ///
    /// # Errors
    /// Those all verbs share.
    pub fn checkpoint(&self, add_user_message: bool) -> Reply<CheckpointId> {
        let verb = Verb::Checkpoint {
            message: add_user_message,
        };
        map(self.store.write(&self.key, || Ok(verb)), |outcome| {
            Ok(CheckpointId::new(match outcome {
                Outcome::Number(id) => id,
                _ => 0,
            }))
        })
    }

    /// Takes the conversation back to its state before checkpoint `id`. The state of the session
    /// until now becomes a [backup](PostgresStore::list_backups), in the same transaction. Always
    /// durable. The database copies all lines for that, so the call takes as long.
    ///
    /// # Errors
    /// [`Error::CheckpointNotFound`](sessionlog::Error::CheckpointNotFound), and those all
    /// verbs share.
    pub fn revert_to(&self, id: impl Into<CheckpointId>) -> Reply<()> {
        let id = id.into().number();
        done(self.store.write(&self.key, move || Ok(Verb::RevertTo(id))))
    }

    /// Starts the conversation anew. The old one becomes a [backup](PostgresStore::list_backups),
    /// in the same transaction. Summary, scope and aliases stay. Does nothing if there is no line.
    /// Always durable.
    ///
    /// # Errors
    /// Those all verbs share.
    pub fn clear(&self) -> Reply<()> {
        done(self.store.write(&self.key, || Ok(Verb::Clear)))
    }

    /// Replaces the system prompt.
    ///
    /// # Errors
    /// [`Error::MessageTooLarge`](sessionlog::Error::MessageTooLarge), without messages, and
    /// those all verbs share.
    pub fn write_system_prompt(&self, prompt: &str) -> Reply<()> {
        let prompt = prompt.to_owned();
        let most = self.store.inner.shared.options.max_line;
        done(self.store.write(&self.key, move || {
            let line = NewLine {
                kind: PROMPT,
                line: kit::system_prompt_line(&prompt, most)?,
                said: None,
            };
            Ok(Verb::Update(Update {
                lines: vec![line],
                ..Update::default()
            }))
        }))
    }

    /// Returns every message, oldest first.
    ///
    /// # Errors
    /// Those all verbs share.
    pub fn history(&self) -> Reply<Vec<Message>> {
        self.store.history(&self.key)
    }

    /// Returns the last recorded token count, or 0 if there is none.
    ///
    /// # Errors
    /// Those all verbs share.
    pub fn token_count(&self) -> Reply<i64> {
        map(self.store.moment(&self.key, false), |moment| {
            Ok(moment.token_count())
        })
    }

    /// Returns the last recorded token count, plus an estimate for the messages since.
    ///
    /// # Errors
    /// Those all verbs share.
    pub fn token_count_with_pending(&self) -> Reply<i64> {
        map(self.store.moment(&self.key, true), |moment| {
            moment.token_count_with_pending()
        })
    }

    /// Returns the id that the next checkpoint gets.
    ///
    /// # Errors
    /// Those all verbs share.
    pub fn n_checkpoints(&self) -> Reply<i64> {
        map(self.store.moment(&self.key, false), |moment| {
            Ok(moment.n_checkpoints())
        })
    }

    /// Returns the system prompt, if one was written.
    ///
    /// # Errors
    /// Those all verbs share.
    pub fn system_prompt(&self) -> Reply<Option<String>> {
        map(self.store.moment(&self.key, false), |moment| {
            Ok(moment.system_prompt())
        })
    }

    /// Returns every recorded token count, oldest first.
    ///
    /// # Errors
    /// Those all verbs share.
    pub fn usage_history(&self) -> Reply<Vec<i64>> {
        map(self.store.moment(&self.key, false), |moment| {
            Ok(moment.usage_history())
        })
    }
}
