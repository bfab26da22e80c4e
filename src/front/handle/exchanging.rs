//! Exporting conversations to other formats, and importing them.

use std::path::Path;

use sessionlog_core::error::{Error, Result};
use sessionlog_core::exchange::{self, Export, ExportOptions, Format, Head, Transcript};
use sessionlog_core::rules::dates::Dates;
use sessionlog_core::session_file::TagChange;

use super::{StoreHandle, blocking};
use crate::engine::reader;
use crate::engine::shard::verbs::update;
use crate::engine::stats::Counters;
use crate::front::reply::{LookupPlace, Reply};

/// Exporting.
impl StoreHandle {
    /// Exports a session's conversation as text in another format, and lists what could not be
    /// converted. A session that does not exist has no messages. `options` is a [`Format`] or
    /// [`ExportOptions`]. All of it is in memory at once.
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
    /// [`Error::ToolCallUnpaired`], if the options ask for it; the errors of
    /// [`history`](Self::history).
    pub fn export(&self, key: &str, options: impl Into<ExportOptions>) -> Reply<Export> {
        let (this, key, options) = (self.clone(), key.to_owned(), options.into());
        Reply::lookup(move |place| {
            Box::pin(blocking(place, move || {
                let exported = match options.format() {
                    Format::Jsonl => {
                        let (lines, start) = this.all_lines(&key)?;
                        let meta = this.session_meta(&key).wait()?;
                        let exported = exchange::export(&lines, start, &meta.summary, options);
                        exported.map(|export| export.without_title(&meta.tags.title))
                    }
                    _ => this.export_messages(&key, options),
                };
                exported.map_err(|error| exchange::of_session(error, &key))
            }))
        })
    }

    /// Appends the messages of a text in the given format to a session, in one batch, all or
    /// nothing; returns their number. The session is dated as
    /// [`import_transcript`](Self::import_transcript) says. At the handle's level of durability.
    ///
    /// # Errors
    /// [`Error::InvalidMessage`](crate::Error::InvalidMessage), which says where, if the text is
    /// not of that format or has something that no message can hold; the errors of
    /// [`append_all`](Self::append_all).
    pub fn import(&self, key: &str, format: Format, text: &str) -> Reply<usize> {
        let (this, key, text) = (self.clone(), key.to_owned(), text.to_owned());
        Reply::lookup(move |place| {
            Box::pin(async move {
                let read = move || Transcript::read(&text, Some(format));
                let transcript = blocking(place, read).await?;
                let many = transcript.messages.len();
                this.import_transcript(&key, transcript).at(place).await?;
                Ok(many)
            })
        })
    }

    /// Appends the messages of a transcript to a session, in one batch, all or nothing. The
    /// transcript's summary, if any, becomes the session's; so does its title, unless the session
    /// has one. The session counts as created no later than the transcript. If it had no messages,
    /// its time of change becomes the transcript's; otherwise the later of both. Branches are not
    /// imported: each is a transcript of its own. At the handle's level of durability.
    ///
    /// ```
    /// use sessionlog::{Store, Transcript};
    ///
    /// # fn main() -> sessionlog::Result<()> {
    /// # let scratch = tempfile::tempdir().unwrap();
    /// # let store = Store::open(scratch.path())?;
    /// let chats = store.handle();
    /// let text = r#"{"role":"user","content":"hi","created_at":"2024-03-01T09:00:00Z"}"#;
    /// chats.import_transcript("old", Transcript::read(text, None)?).wait()?;
    /// let meta = chats.session_meta("old").wait()?;
    /// assert_eq!(meta.updated_at.to_string(), "2024-03-01T09:00:00Z");
    /// # store.close()
    /// # }
    /// ```
    ///
    /// # Errors
    /// The errors of [`append_all`](Self::append_all) and [`set_summary`](Self::set_summary).
    pub fn import_transcript(&self, key: &str, transcript: Transcript) -> Reply<()> {
        let summary = Some(transcript.summary).filter(|summary| !summary.is_empty());
        let fits = summary
            .as_deref()
            .map_or(Ok(()), |text| self.check_summary(text));
        if let Err(error) = fits {
            return Reply::known(Err(error));
        }
        let is_empty = transcript.messages.is_empty() && summary.is_none();
        let dates = Dates {
            created: transcript.created,
            updated: transcript.updated,
            keep_later: true,
        };
        let title = transcript.title.filter(|_| !is_empty);
        let besides = update::Update {
            summary,
            tags: TagChange::first_title(&title.unwrap_or_default()),
            dates: Some(dates).filter(|_| !is_empty),
            ..update::Update::default()
        };
        self.commit(key, transcript.messages, besides)
    }

    fn export_messages(&self, key: &str, options: ExportOptions) -> Result<Export> {
        let looked = pollster::block_on(self.look(key, LookupPlace::Here))?;
        let mut snapshot = looked.snapshot.clone();
        snapshot.hide_before(looked.start);
        let counted = Counters::default();
        let read = reader::history(&snapshot, &counted);
        let history = read.map_err(|e| Error::io("read", Path::new(key), e))?;
        let damaged = counted.corrupt_lines.read();
        self.counters().corrupt_lines.add(damaged);
        let head = Head {
            prompt: looked.now().system_prompt().map(ToString::to_string),
            summary: &snapshot.meta.text.summary,
            title: &snapshot.meta.text.tags.title,
        };
        let mut export = exchange::write(&head, history, options)?;
        for _ in 0..damaged {
            export.leave_out(None, "a damaged line, which is no message");
        }
        Ok(export)
    }
}
