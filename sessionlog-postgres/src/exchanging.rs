//! Handing conversations over in the shapes of others, and taking them in.

use sessionlog::backend::kit;
use sessionlog::{Format, Reply};

use crate::read::{READ, lines_from};
use crate::row::Session;
use crate::store::PostgresStore;
use crate::write::map;

/// Handing over.
impl PostgresStore {
    /// A session's conversation as text in another shape; that of a session that does not
    /// exist has no messages. All of it is in memory at once.
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
    /// Those all verbs share.
    pub fn export(&self, key: &str, format: Format) -> Reply<String> {
        self.find(key, move |shared, connection, sought| {
            Box::pin(async move {
                connection.run(READ).await?;
                let found = connection
                    .query(&shared.sql.session, &sought.params())
                    .await?;
                let (lines, start) = match found.first().map(Session::of) {
                    Some(row) => lines_from(shared, connection, (row.id, row.start_at)).await?,
                    None => (Vec::new(), 0),
                };
                connection.run("COMMIT").await?;
                Ok(kit::export(&lines, start, format))
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
