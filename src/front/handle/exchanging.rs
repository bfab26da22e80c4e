//! Handing conversations over in the shapes of others, and taking them in.

use std::path::Path;

use super::{StoreHandle, blocking};
use crate::Message;
use crate::compat::exchange::{self, Format};
use crate::engine::reader;
use crate::error::{Error, Result};
use crate::front::reply::{Place, Reply};

/// Handing over.
impl StoreHandle {
    /// A session's conversation as text in another shape; that of a session that does not
    /// exist has no messages. All of it is in memory at once.
    ///
    /// ```
    /// use sessionlog::{Format, Store};
    ///
    /// # fn main() -> sessionlog::Result<()> {
    /// # let scratch = tempfile::tempdir().unwrap();
    /// # let store = Store::open(scratch.path())?;
    /// let chats = store.handle();
    /// chats.add_message("cli", "user", "hi").wait()?;
    /// let messages = chats.export("cli", Format::OpenAi).wait()?;
    /// assert_eq!(messages, r#"[{"content":"hi","role":"user"}]"#);
    /// assert_eq!(chats.import("copy", Format::OpenAi, &messages).wait()?, 1);
    /// assert_eq!(chats.history("copy").wait()?[0].text(), "hi");
    /// # store.close()
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`history`](Self::history).
    pub fn export(&self, key: &str, format: Format) -> Reply<String> {
        let (this, key) = (self.clone(), key.to_owned());
        Reply::lookup(move |place| {
            Box::pin(blocking(place, move || match format {
                Format::Jsonl => {
                    let (lines, start) = this.all_lines(&key)?;
                    Ok(exchange::export(&lines, start, format))
                }
                _ => this.export_messages(&key, format),
            }))
        })
    }

    /// Appends what such a text has to a session, in one batch, all or nothing; how many
    /// messages that is. At the handle's level of durability.
    ///
    /// # Errors
    /// [`Error::InvalidMessage`](crate::Error::InvalidMessage), which says where, if the text
    /// is not of that shape or has something that no message can hold; those of
    /// [`append_all`](Self::append_all).
    pub fn import(&self, key: &str, format: Format, text: &str) -> Reply<usize> {
        let (this, key, text) = (self.clone(), key.to_owned(), text.to_owned());
        Reply::lookup(move |place| {
            Box::pin(async move {
                let read = move || exchange::import(&text, format);
                let messages = blocking(place, read).await?;
                let many = messages.len();
                this.append_all(&key, messages).at(place).await?;
                Ok(many)
            })
        })
    }

    fn export_messages(&self, key: &str, format: Format) -> Result<String> {
        let looked = pollster::block_on(self.look(key, Place::Here))?;
        let mut snapshot = looked.snapshot.clone();
        snapshot.hide_before(looked.start);
        let read = reader::history(&snapshot, &self.counters());
        let history = read.map_err(|e| Error::io("read", Path::new(key), e))?;
        let prompt = looked.now().system_prompt();
        let prompt = prompt.map(|prompt| Message::system(&**prompt));
        let messages: Vec<_> = prompt.into_iter().chain(history).collect();
        Ok(exchange::write(&messages, format))
    }
}
