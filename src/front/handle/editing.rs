//! The verbs that change one message.

use sessionlog_core::error::{Error, Result, Version};
use sessionlog_core::position::Position;
use sessionlog_core::rules::lines::{hand_back, in_place_of};
use sessionlog_core::session_file::{self, Decoded};

use super::StoreHandle;
use super::lines::encode;
use super::reads::MemoryPart;
use crate::Message;
use crate::engine::pages;
use crate::engine::shard::verbs::edit::Edit;
use crate::front::reply::{LookupPlace, Reply};

/// Changing one message.
impl StoreHandle {
    /// Replaces the message at a position; returns the session's new version. A message without
    /// `created_at` gets that of the old message.
    ///
    /// The new history replaces the old one in one commit. Messages appended meanwhile come after
    /// it. If the message was truncated, edited or removed since the position was read, nothing
    /// changes. The old message is hidden as a truncated one is:
    /// [searches](crate::SearchQuery::archived) find it, and the next compaction drops it, into the
    /// archive if the store [has one](crate::StoreOptions::archive). Backups and forks keep the old
    /// message: those made before, and those made until that compaction. To leave nothing in the
    /// directory, [erase](Self::erase) the session and its forks. Earlier positions become invalid.
    /// Rewrites the session, so the cost grows with its length. Always durable.
    ///
    /// ```
    /// use sessionlog::{Error, Message, Store};
    ///
    /// # fn main() -> sessionlog::Result<()> {
    /// # let scratch = tempfile::tempdir().unwrap();
    /// # let store = Store::open(scratch.path())?;
    /// let chats = store.handle();
    /// chats.append_all("cli", vec![Message::user("Olso?"), Message::assistant("No idea.")]).wait()?;
    ///
    /// let seen = chats.snapshot("cli").wait()?;
    /// let page = seen.before(seen.end(), 2).wait()?;
    /// chats.edit("cli", page.positions[0], Message::user("Oslo?")).wait()?;
    /// assert_eq!(chats.history("cli").wait()?[0].text(), "Oslo?");
    ///
    /// let late = chats.remove("cli", page.positions[1]).wait();
    /// assert!(matches!(late, Err(Error::PositionNotFound { .. })));
    /// # store.close()
    /// # }
    /// ```
    ///
    /// # Errors
    /// The errors all verbs share; [`Error::PositionNotFound`]; [`Error::InvalidMessage`], also for
    /// a message of reasoning alone, which is not stored; [`Error::MessageTooLarge`].
    pub fn edit(&self, key: &str, position: Position, message: Message) -> Reply<Version> {
        self.amend(key, position, Some(message))
    }

    /// Removes the message at a position, as [`edit`](Self::edit) replaces one. A tool result whose
    /// call is removed stays in the session; a [window](Self::window) for a model leaves it out.
    ///
    /// # Errors
    /// The errors all verbs share, and [`Error::PositionNotFound`].
    pub fn remove(&self, key: &str, position: Position) -> Reply<Version> {
        self.amend(key, position, None)
    }

    /// Replaces a message, or removes it for `None`.
    fn amend(&self, key: &str, position: Position, message: Option<Message>) -> Reply<Version> {
        if let Err(error) = self.open_for(key) {
            return Reply::known(Err(error));
        }
        let (this, key) = (self.clone(), key.to_owned());
        Reply::lookup(move |place| {
            Box::pin(async move {
                let (old, len) = this.message_at(&key, position, place).await?;
                let message = message.map(|new| in_place_of(new, &old)).transpose()?;
                let max = this.limits;
                let edit = this.encoded(&key, move |engine| {
                    let messages: Vec<_> = message.into_iter().collect();
                    let encoded = encode(&messages, max, engine);
                    let line = encoded.map_err(|e| hand_back(e, || messages))?.bytes;
                    Ok(Edit {
                        position,
                        len,
                        line,
                    })
                });
                edit.at(place).await
            })
        })
    }

    /// The visible message at a position, and the length of its line.
    async fn message_at(
        &self,
        key: &str,
        position: Position,
        place: LookupPlace,
    ) -> Result<(Message, u64)> {
        let found = self.read(key, move |_, _| {
            MemoryPart::rest(move |snapshot, _| pages::line_at(snapshot, position))
        });
        let line = found.at(place).await?;
        let message = line.as_deref().map(session_file::decode);
        match (message, line) {
            (Some(Decoded::Message(message)), Some(line)) => Ok((message, line.len() as u64)),
            _ => Err(Error::PositionNotFound { key: key.into() }),
        }
    }
}
