//! Handing conversations over in the shapes of others, and taking them in.

use sessionlog::backend::kit;
use sessionlog::{Error, Export, ExportOptions, Format, Reply};

use crate::fault::Fault;
use crate::read::{READ, lines_from};
use crate::row::Session;
use crate::store::PostgresStore;
use crate::write::map;

/// Handing over.
impl PostgresStore {
    /// A session's conversation as text in another shape, and what of it could not go; that
    /// of a session that does not exist has no messages. `options` is a [`Format`], or
    /// [`ExportOptions`]. All of it is in memory at once.
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

    /// Appends what such a text has to a session, in one batch, all or nothing; how many
    /// messages that is.
    ///
    /// # Errors
    /// [`Error::InvalidMessage`](sessionlog::Error::InvalidMessage), which says where, if the
    /// text is not of that shape; those of [`append_all`](Self::append_all).
    pub fn import(&self, key: &str, format: Format, text: &str) -> Reply<usize> {
        let messages = match kit::import(text, format) {
            Ok(messages) => messages,
            Err(error) => return Reply::ready(Err(error)),
        };
        let many = messages.len();
        map(self.append_all(key, messages), move |()| Ok(many))
    }
}
