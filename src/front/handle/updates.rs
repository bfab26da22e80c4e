//! The verbs that change several things of a session at once, or only if it did not change
//! meanwhile.

use std::fmt::Debug;

use sessionlog_core::error::Version;
use sessionlog_core::messages::Messages;
use sessionlog_core::position::{Keep, Position};
use sessionlog_core::rules;
use sessionlog_core::rules::dates::Dates;
use sessionlog_core::rules::lines::hand_back;
use sessionlog_core::session_file::{self, TagChange};
use sessionlog_core::update::{Appended, Update, UpdateContent};

use super::lines::encode;
use super::{Side, StoreHandle};
use crate::Message;
use crate::engine::shard::verbs::set_history::SetHistory;
use crate::engine::shard::verbs::update::{self, UpdateOutcome};
use crate::front::reply::Reply;

/// One commit for several changes, and changes that are made once only.
impl StoreHandle {
    /// Applies an [`Update`] in one commit: appends messages, replaces the summary, title, labels
    /// and pin, hides old messages, and records the token count, as far as it says so. Returns the
    /// session's new version. A session that does not exist is created, unless the update only
    /// hides messages. An update that names nothing returns the current version.
    ///
    /// With [`Update::expect`] it applies only if nothing changed the session since that version; a
    /// compaction does not count. A caller that uses a [`Position`](crate::Position) instead,
    /// [`Keep::From`], keeps messages appended meanwhile and needs no version. Use a position for a
    /// chat in which people write while a summary is made, and one summariser at a time: the later
    /// summary wins. Use a version for decisions that are wrong if anything changed in between.
    ///
    /// A session without a sidecar has no owner before its first write, and that write invalidates
    /// both its versions and its positions: the first update that names one is refused.
    ///
    /// At the handle's level of durability, but always durable if it hides messages.
    ///
    /// ```
    /// use sessionlog::{Error, Keep, Message, Store, Update};
    ///
    /// # fn main() -> sessionlog::Result<()> {
    /// # let scratch = tempfile::tempdir().unwrap();
    /// # let store = Store::open(scratch.path())?;
    /// let chats = store.handle();
    /// chats.append_all("cli", vec![Message::user("one"), Message::user("two")]).wait()?;
    ///
    /// // Summarize all but the newest message; what comes meanwhile stays.
    /// let seen = chats.snapshot("cli").wait()?;
    /// let page = seen.before(seen.end(), 1).wait()?;
    /// chats.add_message("cli", "user", "three").wait()?;
    /// let update = Update::new().summary("We counted.").keep(Keep::From(page.start));
    /// chats.update("cli", update.clone()).wait()?;
    /// assert_eq!(chats.count("cli").wait()?, 2);
    ///
    /// // It is at another version now.
    /// let refused = chats.update("cli", update.expect(seen.version())).wait();
    /// assert!(matches!(refused, Err(Error::VersionConflict { .. })));
    /// # store.close()
    /// # }
    /// ```
    ///
    /// # Errors
    /// The errors all verbs share; [`Error::VersionConflict`](crate::Error::VersionConflict); [`Error::PositionNotFound`](crate::Error::PositionNotFound); those
    /// of [`append_all`](Self::append_all) and [`set_summary`](Self::set_summary). After an error
    /// nothing is changed.
    pub fn update(&self, key: &str, update: Update) -> Reply<Version> {
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
        let fits = summary
            .as_deref()
            .map_or(Ok(()), |text| self.check_summary(text));
        let max = self.limits;
        if replaces {
            return self.encoded(key, move |engine| {
                let encoded = fits.and_then(|()| encode(&messages, max, engine));
                let mut lines = encoded.map_err(|e| hand_back(e, || messages))?.bytes;
                if let Some(tokens) = tokens {
                    lines.extend_from_slice(session_file::encode_usage(tokens).as_bytes());
                    lines.push(b'\n');
                }
                Ok(SetHistory {
                    after,
                    summary,
                    tags,
                    ..SetHistory::of(lines, expect)
                })
            });
        }
        let besides = update::Update {
            summary,
            tags,
            keep,
            tokens,
            expect,
            after,
            ..update::Update::default()
        };
        match fits {
            Ok(()) => self.commit(key, messages, besides),
            Err(error) => Reply::known(Err(hand_back(error, || messages))),
        }
    }

    /// Appends messages, but only if the session still has the history that `position` is of;
    /// returns the session's new version. For answers that take long: if the conversation was
    /// deleted, cleared, replaced or reverted meanwhile, or one of its messages edited or removed,
    /// the answer is refused and does not begin a new conversation. Appends and truncations
    /// meanwhile do not matter.
    ///
    /// ```
    /// use sessionlog::{Error, Message, Store};
    ///
    /// # fn main() -> sessionlog::Result<()> {
    /// # let scratch = tempfile::tempdir().unwrap();
    /// # let store = Store::open(scratch.path())?;
    /// let chats = store.handle();
    /// chats.add_message("cli", "user", "hi").wait()?;
    /// let asked = chats.snapshot("cli").wait()?.end();
    /// chats.append_after("cli", asked, Message::assistant("hello")).wait()?;
    ///
    /// chats.delete_session("cli").wait()?;
    /// let late = chats.append_after("cli", asked, Message::assistant("and")).wait();
    /// assert!(matches!(late, Err(Error::PositionNotFound { .. })));
    /// assert!(!chats.exists("cli").wait()?);
    /// # store.close()
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::PositionNotFound`](crate::Error::PositionNotFound), and those of [`append_all`](Self::append_all).
    pub fn append_after(
        &self,
        key: &str,
        position: Position,
        messages: impl Into<Messages>,
    ) -> Reply<Version> {
        self.update(key, Update::new().after(position).append(messages))
    }

    /// Replaces a session's title; an empty one removes it. A session that does not exist is
    /// created.
    ///
    /// Title, labels and pin stand in the sidecar as `title`, `labels` and `pinned`, and in the
    /// store's own copy of it: PicoClaw drops them when it writes, and the next open puts them
    /// back. They stay with the session until it is deleted; a session that takes over its history
    /// has its own. An [`Update`] changes them with other things in one commit.
    ///
    /// ```
    /// use sessionlog::{SessionQuery, Store};
    ///
    /// # fn main() -> sessionlog::Result<()> {
    /// # let scratch = tempfile::tempdir().unwrap();
    /// # let store = Store::open(scratch.path())?;
    /// let chats = store.handle();
    /// chats.add_message("telegram:7", "user", "A week in Oslo?").wait()?;
    /// chats.set_title("telegram:7", "Oslo in May").wait()?;
    /// chats.set_labels("telegram:7", ["travel"]).wait()?;
    /// chats.set_pinned("telegram:7", true).wait()?;
    ///
    /// let found = chats.sessions(SessionQuery::new().label("travel").pinned()).wait()?;
    /// assert_eq!(found.sessions[0].title, "Oslo in May");
    /// assert_eq!(chats.session_meta("telegram:7").wait()?.tags.labels, ["travel"]);
    /// # store.close()
    /// # }
    /// ```
    ///
    /// # Errors
    /// The errors all verbs share, and [`Error::MessageTooLarge`](crate::Error::MessageTooLarge), without messages, for a title
    /// that would bring the sidecar over [its limit](crate::StoreOptions::max_line_bytes).
    pub fn set_title(&self, key: &str, title: &str) -> Reply<()> {
        self.tag(key, Update::new().title(title))
    }

    /// Replaces a session's labels, as [`set_title`](Self::set_title) does its title. White space
    /// around each is trimmed; blank and repeated labels are left out.
    ///
    /// # Errors
    /// As [`set_title`](Self::set_title).
    pub fn set_labels<L: Into<String>>(
        &self,
        key: &str,
        labels: impl IntoIterator<Item = L>,
    ) -> Reply<()> {
        self.tag(key, Update::new().labels(labels))
    }

    /// Pins or unpins a session, as [`set_title`](Self::set_title) gives it a title.
    ///
    /// # Errors
    /// As [`set_title`](Self::set_title).
    pub fn set_pinned(&self, key: &str, pinned: bool) -> Reply<()> {
        self.tag(key, Update::new().pinned(pinned))
    }

    fn tag(&self, key: &str, update: Update) -> Reply<()> {
        self.change_tags(key, update.into_content().tags)
    }

    /// Changes a session's tags; a session that does not exist is created.
    pub(crate) fn change_tags(&self, key: &str, tags: TagChange) -> Reply<()> {
        let tag = update::Update {
            tags,
            level: self.level,
            ..update::Update::default()
        };
        self.ask(key, tag)
    }

    /// Appends messages, unless the session took some under this id before: for platforms that
    /// deliver an update again. The id is any text of 1 to 256 bytes, such as the platform's
    /// message id; each session has its own ids.
    ///
    /// Only the id counts: another message under it is a duplicate, too, and an append without
    /// messages uses up the id.
    ///
    /// An id is stored in the same commit as its messages: after a crash both are there, or
    /// neither. It survives truncating, compacting, replacing and reverting the history, and is
    /// removed when the session is deleted. Of each session at least the newest
    /// [`once_ids`](crate::StoreOptions::once_ids) are remembered, in `.sessionlog/once`; a process
    /// that does not know of them leaves them as they are when it opens the store. Promoting a
    /// history does not take its ids along. While the first delivery is under way, the second waits
    /// for it. At the handle's level of durability; a `Duplicate` is always durable.
    ///
    /// ```
    /// use sessionlog::{Appended, Message, Store};
    ///
    /// # fn main() -> sessionlog::Result<()> {
    /// # let scratch = tempfile::tempdir().unwrap();
    /// # let store = Store::open(scratch.path())?;
    /// let chats = store.handle();
    /// let deliver = || chats.append_once("telegram:7", "update 42", Message::user("hi")).wait();
    /// assert!(matches!(deliver()?, Appended::New(_)));
    /// assert!(matches!(deliver()?, Appended::Duplicate(_)));
    /// assert_eq!(chats.count("telegram:7").wait()?, 1);
    /// # store.close()
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::InvalidMessageId`](crate::Error::InvalidMessageId), and those of [`append_all`](Self::append_all).
    pub fn append_once(
        &self,
        key: &str,
        id: &str,
        messages: impl Into<Messages>,
    ) -> Reply<Appended> {
        let messages = messages.into();
        if let Err(error) = rules::update::check_id(id) {
            return Reply::known(Err(error));
        }
        let once = update::Update {
            once: Some(id.to_owned()),
            ..update::Update::default()
        };
        self.commit(key, messages.into(), once)
    }

    /// Hides all messages except those that `keep` selects. As
    /// [`truncate_history`](Self::truncate_history), but can cut where a turn begins, or at a
    /// position.
    ///
    /// ```
    /// use sessionlog::{Keep, Message, Store};
    ///
    /// # fn main() -> sessionlog::Result<()> {
    /// # let scratch = tempfile::tempdir().unwrap();
    /// # let store = Store::open(scratch.path())?;
    /// let chats = store.handle();
    /// let turn = vec![
    ///     Message::user("weather?"),
    ///     Message::assistant("").with_tool_call("call_1", "weather", "{}"),
    ///     Message::tool("call_1", "4 degrees, rain"),
    /// ];
    /// chats.append_all("cli", [turn.clone(), turn].concat()).wait()?;
    /// chats.truncate_to("cli", Keep::Turns(1)).wait()?;
    /// assert_eq!(chats.count("cli").wait()?, 3);
    /// # store.close()
    /// # }
    /// ```
    ///
    /// # Errors
    /// The errors all verbs share, and [`Error::PositionNotFound`](crate::Error::PositionNotFound).
    pub fn truncate_to(&self, key: &str, keep: Keep) -> Reply<()> {
        let truncate = update::Update {
            keep: Some(keep),
            ..update::Update::default()
        };
        self.ask(key, truncate)
    }

    /// The least number of message ids that are remembered for a session; for a store opened
    /// read-only, all.
    pub(crate) fn once_ids(&self) -> usize {
        match &self.side {
            Side::Writer(engine) => engine.shared.once_ids,
            Side::Reader(_) => usize::MAX,
        }
    }

    /// Dates a session; one that does not exist is created.
    pub(crate) fn date(&self, key: &str, dates: Dates) -> Reply<()> {
        let besides = update::Update {
            dates: Some(dates),
            ..update::Update::default()
        };
        self.commit(key, Vec::new(), besides)
    }

    pub(super) fn commit<T>(
        &self,
        key: &str,
        messages: Vec<Message>,
        besides: update::Update<T>,
    ) -> Reply<T>
    where
        T: From<UpdateOutcome> + Debug + Send + 'static,
    {
        let (level, max) = (self.level, self.limits);
        self.encoded(key, move |engine| {
            let encoded = encode(&messages, max, engine);
            let lines = encoded.map_err(|e| hand_back(e, || messages))?;
            Ok(update::Update {
                lines: lines.bytes,
                count: lines.count,
                level,
                ..besides
            })
        })
    }
}
