//! Exporting conversations in the formats of other programs, and importing them.

use sessionlog::backend::kit::{self, Dates, TagChange};
use sessionlog::{Error, Export, ExportOptions, Format, Reply, Transcript};

use crate::command::{Update, Verb};
use crate::fault::Fault;
use crate::read::{READ, lines_from};
use crate::row::Session;
use crate::store::PostgresStore;
use crate::write::{done, map};

/// Exporting.
impl PostgresStore {
    /// Returns a session's conversation as text in another format, and a list of the content that
    /// could not be exported. A session that does not exist has no messages. `options` is a
    /// [`Format`], or [`ExportOptions`]. The whole export is in memory at once.
    ///
    /// ```no_run
    /// # fn main() -> sessionlog::Result<()> {
    /// # let options = sessionlog_postgres::PostgresOptions::new("");
    /// # let chats = sessionlog_postgres::PostgresStore::open(options)?;
    /// use sessionlog::Format;
    ///
    /// let messages = chats.export("telegram:123", Format::OpenAi).wait()?;
    /// chats.import("copy", Format::OpenAi, &messages).wait()?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::ToolCallUnpaired`], if that was asked for; those all verbs share.
    pub fn export(&self, key: &str, options: impl Into<ExportOptions>) -> Reply<Export> {
        let (options, name) = (options.into(), key.to_owned());
        self.find(key, move |shared, connection, sought| {
            let name = name.clone();
            Box::pin(async move {
                connection.run(READ).await?;
                let found = connection
                    .query(&shared.sql.session, &sought.params())
                    .await?;
                let row = found.first().map(Session::of);
                let (lines, start) = match &row {
                    Some(row) => lines_from(shared, connection, (row.id, row.start_at)).await?,
                    None => (Vec::new(), 0),
                };
                connection.run("COMMIT").await?;
                let summary = row.map(|row| row.summary).unwrap_or_default();
                let exported = kit::export(&lines, start, &summary, options);
                exported.map_err(|error| {
                    Fault::from(match error {
                        Error::ToolCallUnpaired { id, .. } => {
                            Error::ToolCallUnpaired { key: name, id }
                        }
                        other => other,
                    })
                })
            })
        })
    }

    /// Appends the messages of such a text to a session, as
    /// [`import_transcript`](Self::import_transcript) does, and returns their number.
    ///
    /// # Errors
    /// [`Error::InvalidMessage`](sessionlog::Error::InvalidMessage), which names the place, if the
    /// text is not in that format. Also those of [`append_all`](Self::append_all).
    pub fn import(&self, key: &str, format: Format, text: &str) -> Reply<usize> {
        let transcript = match Transcript::read(text, Some(format)) {
            Ok(transcript) => transcript,
            Err(error) => return Reply::ready(Err(error)),
        };
        let many = transcript.messages.len();
        map(self.import_transcript(key, transcript), move |()| Ok(many))
    }

    /// Appends the messages of a transcript to a session, in one batch, all or nothing. A summary
    /// of the transcript becomes the session's summary. A title becomes the session's title, unless
    /// the session has one. The session's time of creation is no later than the transcript's. If
    /// the session had no lines, its time of change is the transcript's, else the later of both
    /// times. Branches are not looked at: each is a transcript.
    /// # Errors
    /// Those of [`append_all`](Self::append_all) and [`set_summary`](Self::set_summary).
    pub fn import_transcript(&self, key: &str, transcript: Transcript) -> Reply<()> {
        let this = self.clone();
        let limit = self.inner.shared.options.max_line;
        let written = self.write(key, move || {
            let summary = Some(transcript.summary).filter(|summary| !summary.is_empty());
            if let Some(summary) = &summary {
                kit::check_summary(summary, limit)?;
            }
            let is_empty = transcript.messages.is_empty() && summary.is_none();
            let title = transcript.title.filter(|_| !is_empty);
            let tags = TagChange::first_title(&title.unwrap_or_default());
            kit::check_tags(&tags, limit)?;
            let dates = Dates {
                created: transcript.created,
                updated: transcript.updated,
                keep_later: true,
            };
            Ok(Verb::Update(Update {
                lines: this.lines(transcript.messages)?,
                summary,
                tags: Some(tags).filter(|tags| !tags.is_empty()),
                dates: Some(dates).filter(|_| !is_empty),
                ..Update::default()
            }))
        });
        done(written)
    }
}
