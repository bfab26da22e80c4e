//! The verbs that change the content of a session.

use serde_json::value::RawValue;
use sessionlog::backend::kit::{self, UpdateContent};
use sessionlog::{Appended, Error, Keep, Merged, Message, Position, Reply, Result, Version};

use crate::command::{Identity, Outcome, Update, Verb};
use crate::row::{NewLine, USAGE};
use crate::store::PostgresStore;

/// Writing.
impl PostgresStore {
    /// Appends a text message, stamped with the time of the call.
    ///
    /// # Errors
    /// [`Error::InvalidMessage`] for a role that starts with `_`, [`Error::MessageTooLarge`],
    /// and those all verbs share.
    pub fn add_message(&self, key: &str, role: &str, content: &str) -> Reply<()> {
        self.append_all(key, vec![Message::new(role, content)])
    }

    /// Appends a message. A missing `created_at` becomes the time of the call. A transient message
    /// is accepted and not stored.
    ///
    /// # Errors
    /// As [`add_message`](Self::add_message).
    pub fn add_full_message(&self, key: &str, message: Message) -> Reply<()> {
        self.append_all(key, vec![message])
    }

    /// Appends several messages as one change: all of them are stored, or none.
    ///
    /// # Errors
    /// As [`add_message`](Self::add_message), and [`Error::MessageTooLarge`] for a batch over
    /// its limit.
    pub fn append_all(&self, key: &str, messages: Vec<Message>) -> Reply<()> {
        let update = sessionlog::Update::new().append(messages);
        map(self.update(key, update), |_| Ok(()))
    }

    /// Appends messages, but only if the session still has the history of `position`. Returns the
    /// version after that. Messages that were appended or truncated meanwhile do not matter.
    ///
    /// # Errors
    /// [`Error::PositionNotFound`] if the history was deleted, cleared, replaced or reverted since,
    /// and those of [`append_all`](Self::append_all).
    pub fn append_after(
        &self,
        key: &str,
        position: Position,
        messages: impl Into<sessionlog::Messages>,
    ) -> Reply<Version> {
        let update = sessionlog::Update::new().after(position);
        self.update(key, update.append(messages))
    }

    /// Appends messages, unless the session took some under this id before. The id is any text of 1
    /// to 256 bytes. Each session has its own ids. The id is remembered in the transaction that
    /// appends the messages. It stays until at least [`once_ids`](crate::PostgresOptions::once_ids)
    /// newer ones were taken, or the session is deleted.
    ///
    /// # Errors
    /// [`Error::InvalidMessageId`], and those of [`append_all`](Self::append_all).
    pub fn append_once(
        &self,
        key: &str,
        id: &str,
        messages: impl Into<sessionlog::Messages>,
    ) -> Reply<Appended> {
        let (this, id) = (self.clone(), id.to_owned());
        let messages: Vec<Message> = messages.into().into();
        let written = self.write(key, move || {
            kit::check_message_id(&id)?;
            Ok(Verb::Update(Update {
                lines: this.lines(messages)?,
                once: Some(id),
                ..Update::default()
            }))
        });
        map(written, |outcome| Ok(outcome.appended()))
    }

    /// Makes the changes of an [`Update`](sessionlog::Update) in one transaction, and returns the
    /// version after it. An update can append messages, replace the summary, title, labels and pin,
    /// hide old messages and record the token count. Versions hold across processes and reopening.
    /// [`Update::replace`](sessionlog::Update::replace) can only be combined with an expected
    /// version.
    ///
    /// # Errors
    /// [`Error::VersionConflict`], [`Error::PositionNotFound`], [`Error::Unsupported`], and those
    /// of [`append_all`](Self::append_all).
    pub fn update(&self, key: &str, update: sessionlog::Update) -> Reply<Version> {
        let UpdateContent {
            messages,
            summary,
            keep,
            tokens,
            expect,
            tags,
            after,
            replaces,
        } = update.into_content();
        let messages: Vec<Message> = messages.into();
        if replaces {
            let is_alone =
                summary.is_none() && tokens.is_none() && after.is_none() && tags.is_empty();
            if !is_alone {
                return Reply::ready(Err(Error::Unsupported {
                    verb: "to replace a history and change something else at once",
                }));
            }
            let replaced = self.replace(key, messages, expect);
            return map(replaced, |outcome| Ok(outcome.version()));
        }
        let (this, limit) = (self.clone(), self.inner.shared.options.max_line);
        let written = self.write(key, move || {
            let summary_fits = summary
                .as_deref()
                .map_or(Ok(()), |summary| kit::check_summary(summary, limit));
            let fits = summary_fits.and_then(|()| kit::check_tags(&tags, limit));
            if let Err(error) = fits {
                return Err(kit::hand_back(error, || messages));
            }
            let mut lines = this.lines(messages)?;
            lines.extend(tokens.map(usage));
            Ok(Verb::Update(Update {
                lines,
                summary,
                tags: Some(tags).filter(|tags| !tags.is_empty()),
                keep,
                expect,
                after,
                ..Update::default()
            }))
        });
        map(written, |outcome| Ok(outcome.version()))
    }

    /// Replaces a session's history. Prompt, checkpoints and token counts go with the lines.
    /// Summary, scope and aliases stay. Always durable.
    ///
    /// # Errors
    /// As [`append_all`](Self::append_all).
    pub fn set_history(&self, key: &str, messages: Vec<Message>) -> Reply<()> {
        done(self.replace(key, messages, None))
    }

    /// Replaces a session's history as [`set_history`](Self::set_history) does, but only if the
    /// session is at this version. Returns the version after that.
    ///
    /// # Errors
    /// [`Error::VersionConflict`], and those of [`append_all`](Self::append_all).
    pub fn set_history_at(
        &self,
        key: &str,
        version: Version,
        messages: Vec<Message>,
    ) -> Reply<Version> {
        let replaced = self.replace(key, messages, Some(version));
        map(replaced, |outcome| Ok(outcome.version()))
    }

    fn replace(
        &self,
        key: &str,
        messages: Vec<Message>,
        expect: Option<Version>,
    ) -> Reply<Outcome> {
        let this = self.clone();
        self.write(key, move || {
            Ok(Verb::SetHistory {
                lines: this.lines(messages)?,
                expect,
            })
        })
    }

    /// Replaces the message at a position, and returns the version after that. A message without
    /// `created_at` gets that of the old one. Messages that are appended meanwhile stay. If the
    /// message was truncated, edited or removed since the position was read, nothing changes. Only
    /// earlier backups and forks keep the old message. Earlier positions become invalid. The server
    /// moves the lines behind the message. Always durable.
    ///
    /// # Errors
    /// [`Error::PositionNotFound`]; [`Error::InvalidMessage`], also for a message of reasoning
    /// alone, which is not stored; [`Error::MessageTooLarge`]; those all verbs share.
    pub fn edit(&self, key: &str, position: Position, message: Message) -> Reply<Version> {
        self.amend(key, position, Some(message))
    }

    /// Removes the message at a position, in the way in which [`edit`](Self::edit) replaces one.
    ///
    /// # Errors
    /// [`Error::PositionNotFound`], and those all verbs share.
    pub fn remove(&self, key: &str, position: Position) -> Reply<Version> {
        self.amend(key, position, None)
    }

    fn amend(&self, key: &str, position: Position, message: Option<Message>) -> Reply<Version> {
        let amended = self.write(key, move || Ok(Verb::Amend { position, message }));
        map(amended, |outcome| Ok(outcome.version()))
    }

    /// Replaces a session's summary.
    ///
    /// # Errors
    /// [`Error::MessageTooLarge`], without messages, and those all verbs share.
    pub fn set_summary(&self, key: &str, summary: &str) -> Reply<()> {
        let update = sessionlog::Update::new().summary(summary);
        map(self.update(key, update), |_| Ok(()))
    }

    /// Replaces a session's title. An empty title removes it. A session that does not exist is
    /// made. Title, labels and pin stay until the session is deleted. A fork takes title and labels
    /// along.
    ///
    /// ```no_run
    /// # fn main() -> sessionlog::Result<()> {
    /// # let options = sessionlog_postgres::PostgresOptions::new("");
    /// # let chats = sessionlog_postgres::PostgresStore::open(options)?;
    /// use sessionlog::SessionQuery;
    ///
    /// chats.set_title("telegram:7", "Oslo in May").wait()?;
    /// chats.set_labels("telegram:7", ["travel"]).wait()?;
    /// chats.set_pinned("telegram:7", true).wait()?;
    /// let found = chats.sessions(SessionQuery::new().label("travel").pinned()).wait()?;
    /// assert_eq!(found.sessions[0].title, "Oslo in May");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::MessageTooLarge`], without messages, for a title or labels over the limit of a
    /// line, and those all verbs share.
    pub fn set_title(&self, key: &str, title: &str) -> Reply<()> {
        map(
            self.update(key, sessionlog::Update::new().title(title)),
            |_| Ok(()),
        )
    }

    /// Replaces a session's labels, as [`set_title`](Self::set_title) replaces its title. White
    /// space around each label is left out. Blank and repeated labels are left out, too.
    ///
    /// # Errors
    /// As [`set_title`](Self::set_title).
    pub fn set_labels<L: Into<String>>(
        &self,
        key: &str,
        labels: impl IntoIterator<Item = L>,
    ) -> Reply<()> {
        map(
            self.update(key, sessionlog::Update::new().labels(labels)),
            |_| Ok(()),
        )
    }

    /// Pins a session, or unpins it. It works as [`set_title`](Self::set_title).
    ///
    /// # Errors
    /// As [`set_title`](Self::set_title).
    pub fn set_pinned(&self, key: &str, pinned: bool) -> Reply<()> {
        map(
            self.update(key, sessionlog::Update::new().pinned(pinned)),
            |_| Ok(()),
        )
    }

    /// Hides all but the newest `keep_last` messages. Does nothing to a session that does not
    /// exist. Hidden lines are removed once they outnumber the others, or by
    /// [`compact`](Self::compact). Always durable.
    ///
    /// # Errors
    /// Those all verbs share.
    pub fn truncate_history(&self, key: &str, keep_last: usize) -> Reply<()> {
        self.truncate_to(key, Keep::Last(keep_last))
    }

    /// Hides all messages except those that `keep` names.
    ///
    /// # Errors
    /// Those all verbs share, and [`Error::PositionNotFound`].
    pub fn truncate_to(&self, key: &str, keep: Keep) -> Reply<()> {
        let update = sessionlog::Update::new().keep(keep);
        map(self.update(key, update), |_| Ok(()))
    }

    /// Removes a session's hidden lines, except for control records, which stay in force.
    ///
    /// # Errors
    /// Those all verbs share.
    pub fn compact(&self, key: &str) -> Reply<()> {
        done(self.write(key, || Ok(Verb::Compact)))
    }

    /// Deletes a session, with its aliases, its backups and the ids of its messages. Does nothing
    /// to a session that does not exist. Always durable.
    ///
    /// # Errors
    /// Those all verbs share.
    pub fn delete_session(&self, key: &str) -> Reply<()> {
        self.delete_at(key, None)
    }

    /// Does the same, if the session is at that version.
    pub(crate) fn delete_at(&self, key: &str, expect: Option<Version>) -> Reply<()> {
        done(self.write(key, move || Ok(Verb::Delete { expect })))
    }
}

/// The identity of a session.
impl PostgresStore {
    /// Replaces a session's scope and aliases. Creates the session if needed. The key is taken
    /// literally.
    ///
    /// # Errors
    /// [`Error::ScopeConflict`], [`Error::InvalidScope`], [`Error::MessageTooLarge`], and
    /// those all verbs share.
    pub fn upsert_session_meta(
        &self,
        key: &str,
        scope: Option<Box<RawValue>>,
        aliases: Vec<String>,
    ) -> Reply<()> {
        done(self.identify(key, scope, aliases, Verb::Upsert))
    }

    /// Takes over the history and summary of the first of `aliases` that has either, if the session
    /// has neither itself. Replaces scope and aliases in the same transaction. Returns true if it
    /// took something over. The key is taken literally. Never takes over an agent's main session.
    ///
    /// # Errors
    /// As [`upsert_session_meta`](Self::upsert_session_meta).
    pub fn promote_alias_history(
        &self,
        key: &str,
        scope: Option<Box<RawValue>>,
        aliases: Vec<String>,
    ) -> Reply<bool> {
        let written = self.identify(key, scope, aliases, |identity| Verb::Promote {
            identity,
            always: false,
        });
        map(written, |outcome| Ok(outcome == Outcome::Whether(true)))
    }

    /// Gives a session its scope and aliases, and takes over the content of the first alias that
    /// has any, in one transaction. Returns true if it took something over. If there is nothing to
    /// change, nothing is written. White space around the key does not count, unless a session has
    /// it in its key. Apart from that the key is taken literally.
    ///
    /// # Errors
    /// As [`upsert_session_meta`](Self::upsert_session_meta).
    pub fn ensure_session_metadata(
        &self,
        key: &str,
        scope: Option<Box<RawValue>>,
        aliases: Vec<String>,
    ) -> Reply<bool> {
        let (this, key) = (self.exact_keys(), key.to_owned());
        Reply::from_future(async move {
            if this.is_known_as(&key, scope.as_deref(), &aliases).await? {
                return Ok(false);
            }
            let ensured = this.identify(&key, scope, aliases, |identity| Verb::Promote {
                identity,
                always: true,
            });
            Ok(ensured.await? == Outcome::Whether(true))
        })
    }

    /// Gives a session another key, as
    /// [`StoreHandle::rename_session`](sessionlog::StoreHandle::rename_session) does. These go
    /// along: its lines, hidden ones included, summary, scope, title, labels and pin, unknown
    /// fields, times and version, the ids of messages taken [once](Self::append_once) and backups.
    /// All is done in one transaction, and is always durable. Positions in the session stay valid.
    ///
    /// The old key and the old session's aliases become aliases of the new key. From then on,
    /// writes of any process under the old key arrive at the new one, also with [exact
    /// keys](Self::exact_keys). That holds as long as the old key is an alias and no session's own
    /// key. [`ensure_session_metadata`](Self::ensure_session_metadata) and
    /// [`upsert_session_meta`](Self::upsert_session_meta) set the owner of a key, and make a
    /// session of it. Followers of changes are told that the new key's session was replaced and the
    /// old one's deleted.
    ///
    /// The command takes its turn among the commands of the old key. If commands for the new key
    /// were queued before and not awaited, they may be carried out after it. If a session of the
    /// new key exists, without messages and summary, the database copies lines and backups, and the
    /// command takes as long as that. Otherwise it rewrites a few rows. Both keys are taken
    /// literally. White space around them does not count, unless a session has it in its key.
    ///
    /// ```no_run
    /// # fn main() -> sessionlog::Result<()> {
    /// # let options = sessionlog_postgres::PostgresOptions::new("");
    /// # let chats = sessionlog_postgres::PostgresStore::open(options)?;
    /// chats.rename_session("telegram:-123", "telegram:-100123").wait()?;
    /// chats.add_message("telegram:-123", "user", "late").wait()?;
    /// assert_eq!(chats.list_sessions().wait()?, ["telegram:-100123"]);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::HasHistory`] if the new key's session has a visible message or a summary;
    /// [`Error::SessionNotFound`] if the old key has no session; [`Error::IsAlias`] if it has
    /// none and is an alias, or if either key is an alias of a third session;
    /// [`Error::InvalidKey`] if both keys are the same, or one is none;
    /// [`Error::MessageTooLarge`], without messages, if summary, aliases or tags of both would be
    /// over the limit of a line; those all verbs share. Nothing is changed then.
    pub fn rename_session(&self, old: &str, new: &str) -> Reply<()> {
        done(self.go_on_as(old, new, false))
    }

    /// Puts the history of a session before that of another, which has the messages of both then,
    /// as [`StoreHandle::merge_session`](sessionlog::StoreHandle::merge_session) does. In all else
    /// it works as [`rename_session`](Self::rename_session). The database copies the older
    /// session's lines and backups. The command takes as long as that, and the other writers of
    /// both sessions wait meanwhile.
    ///
    /// * Hidden lines of both come first, and stay hidden.
    /// * The summary is the older one's and, after an empty line, the newer one's.
    /// * The newer session keeps its scope, its title and its unknown fields, and gets those that
    ///   it lacks.
    /// * Labels are those of both. It is pinned if either is.
    /// * It was created when the first of them was.
    /// * Nobody can go back to the older one's checkpoints any more.
    /// * If the newer one ever had a backup, the older one's backups come after its own, with new
    ///   numbers.
    /// * The older one's message ids count as the older ones.
    /// * Positions in either become invalid, unless the newer one has no line.
    ///
    /// ```no_run
    /// # fn main() -> sessionlog::Result<()> {
    /// # let options = sessionlog_postgres::PostgresOptions::new("");
    /// # let chats = sessionlog_postgres::PostgresStore::open(options)?;
    /// use sessionlog::Merged;
    ///
    /// let merged = chats.merge_session("telegram:-123", "telegram:-100123").wait()?;
    /// assert_eq!(merged, Merged::Joined);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`rename_session`](Self::rename_session), but for [`Error::HasHistory`].
    pub fn merge_session(&self, old: &str, new: &str) -> Reply<Merged> {
        map(self.go_on_as(old, new, true), |outcome| {
            Ok(match outcome {
                Outcome::Whether(true) => Merged::Joined,
                _ => Merged::Renamed,
            })
        })
    }

    fn go_on_as(&self, old: &str, new: &str, merge: bool) -> Reply<Outcome> {
        let (from, to) = (old.to_owned(), new.to_owned());
        self.write(old, move || {
            for key in [from.trim(), to.trim(), &to] {
                kit::check_key(key)?;
            }
            Ok(Verb::Move { to, merge })
        })
    }

    /// True if a session has just this scope and these aliases. Then there is nothing to take over
    /// from any of them, and nothing is written. Gateways ask this for every message.
    async fn is_known_as(
        &self,
        key: &str,
        scope: Option<&RawValue>,
        aliases: &[String],
    ) -> Result<bool> {
        self.inner.shared.check_open()?;
        if kit::check_key(key).is_err() || kit::check_key(key.trim()).is_err() {
            return Ok(false);
        }
        let mut row = self.row(key).await?;
        if row.is_none() && key.trim() != key {
            row = self.row(key.trim()).await?;
        }
        Ok(row.is_some_and(|row| {
            row.scope.as_deref() == scope.map(RawValue::get)
                && row.aliases == kit::normalize_aliases(&row.key, aliases)
        }))
    }

    fn identify(
        &self,
        key: &str,
        scope: Option<Box<RawValue>>,
        aliases: Vec<String>,
        verb: impl FnOnce(Identity) -> Verb + Send + 'static,
    ) -> Reply<Outcome> {
        let limit = self.inner.shared.options.max_line;
        self.exact_keys().write(key, move || {
            kit::check_identity(scope.as_deref(), &aliases, limit)?;
            Ok(verb(Identity { scope, aliases }))
        })
    }
}

/// Makes the line of a token count.
pub(crate) fn usage(tokens: i64) -> NewLine {
    NewLine {
        kind: USAGE,
        line: kit::usage_line(tokens),
        said: None,
    }
}

pub(crate) fn done(reply: Reply<Outcome>) -> Reply<()> {
    map(reply, |_| Ok(()))
}

/// Applies `then` to an answer.
pub(crate) fn map<T: Send + 'static, U: Send + 'static>(
    reply: Reply<T>,
    then: impl FnOnce(T) -> Result<U> + Send + 'static,
) -> Reply<U> {
    Reply::from_future(async move { then(reply.await?) })
}
