//! The verbs that read a session.

use std::ops::ControlFlow;
use std::sync::Arc;

use sessionlog::backend::kit::{self, Moment};
use sessionlog::scope::SessionScope;
use sessionlog::{
    Besides, Budget, Message, Position, Reply, Result, SessionMeta, SessionSnapshot, Window,
};
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use crate::connection::{Connection, Param};
use crate::context::{Asked, Shared};
use crate::fault::Tried;
use crate::row::Session;
use crate::store::PostgresStore;
use crate::write::map;

/// A key, in the form in which a statement asks for its session.
#[derive(Clone, Debug)]
pub(crate) struct Sought {
    key: String,
    trimmed: String,
    is_own_first: bool,
    exact: bool,
}

impl Sought {
    pub(crate) fn params(&self) -> [Param<'_>; 4] {
        [
            (&self.key, Type::TEXT),
            (&self.trimmed, Type::TEXT),
            (&self.is_own_first, Type::BOOL),
            (&self.exact, Type::BOOL),
        ]
    }
}

/// Number of messages that are read first to find a window.
const FIRST: i64 = 128;

/// Reading. Every later read sees the content that a reply to a write confirmed. A read is of one
/// moment, and takes one round trip unless its documentation says otherwise.
impl PostgresStore {
    /// Returns every visible message of a session, oldest first. A session that does not exist has
    /// none. All of them are in memory at once.
    ///
    /// # Errors
    /// Those all verbs share.
    pub fn history(&self, key: &str) -> Reply<Vec<Message>> {
        self.find(key, |shared, connection, sought| {
            Box::pin(async move {
                let sql = &shared.sql.history;
                Ok(messages(connection.query(sql, &sought.params()).await?))
            })
        })
    }

    /// Returns the newest `n` messages, oldest first.
    ///
    /// # Errors
    /// Those all verbs share.
    pub fn tail(&self, key: &str, n: usize) -> Reply<Vec<Message>> {
        let most = i64::try_from(n).unwrap_or(i64::MAX);
        self.find(key, move |shared, connection, sought| {
            Box::pin(async move {
                let [key, trimmed, own, exact] = sought.params();
                let params: [Param<'_>; 5] = [key, trimmed, own, exact, (&most, Type::INT8)];
                Ok(messages(connection.query(&shared.sql.tail, &params).await?))
            })
        })
    }

    /// Returns the number of messages that [`history`](Self::history) would return. It is in the
    /// session's row.
    ///
    /// # Errors
    /// Those all verbs share.
    pub fn count(&self, key: &str) -> Reply<usize> {
        map(self.row(key), |row| {
            let messages = row.map_or(0, |row| row.messages);
            Ok(usize::try_from(messages).unwrap_or(0))
        })
    }

    /// True if there is a session that `key` means.
    ///
    /// # Errors
    /// Those all verbs share.
    pub fn exists(&self, key: &str) -> Reply<bool> {
        map(self.row(key), |row| Ok(row.is_some()))
    }

    /// Returns a session's summary. It is empty if the session has none or does not exist.
    ///
    /// # Errors
    /// Those all verbs share.
    pub fn summary(&self, key: &str) -> Reply<String> {
        map(self.row(key), |row| {
            Ok(row.map(|row| row.summary).unwrap_or_default())
        })
    }

    /// Returns the content that a session's sidecar would have. It is empty for a session that does
    /// not exist.
    ///
    /// # Errors
    /// Those all verbs share.
    pub fn session_meta(&self, key: &str) -> Reply<SessionMeta> {
        let empty = SessionMeta::empty(key);
        map(self.row(key), |row| Ok(row.map_or(empty, |row| row.meta())))
    }

    /// Returns the scope that a session was given, if any.
    ///
    /// # Errors
    /// [`Error::InvalidScope`](sessionlog::Error::InvalidScope) if the stored value is not a scope,
    /// and those all verbs share.
    pub fn session_scope(&self, key: &str) -> Reply<Option<SessionScope>> {
        map(self.row(key), |row| {
            let scope = row.and_then(|row| row.scope);
            let scope = scope.filter(|scope| scope != "null");
            scope
                .map(|scope| SessionScope::from_json(&scope))
                .transpose()
        })
    }

    /// Returns the key of the session that `key` means, if there is one.
    ///
    /// # Errors
    /// Those all verbs share.
    pub fn resolve_session_key(&self, key: &str) -> Reply<Option<String>> {
        if kit::check_key(key).is_err() {
            let open = self.inner.shared.check_open();
            return Reply::ready(open.map(|()| None));
        }
        let mut literal = self.clone();
        literal.exact = false;
        literal.find(key, |shared, connection, sought| {
            Box::pin(async move {
                let rows = connection.query(&shared.sql.find, &sought.params()).await?;
                Ok(rows.first().map(|row| row.get(0)))
            })
        })
    }

    /// Takes a snapshot of a session at one moment, to read several parts of it that belong
    /// together, page by page if needed. All its visible messages are read at once, and are in
    /// memory.
    ///
    /// # Errors
    /// Those all verbs share.
    pub fn snapshot(&self, key: &str) -> Reply<SessionSnapshot> {
        map(self.moment(key, true), |moment| Ok(moment.snapshot()))
    }

    /// Returns the newest part of a conversation that fits `budget`, for a model; see
    /// [`StoreHandle::window`](sessionlog::StoreHandle::window). Reads about as many messages as it
    /// returns, in a few round trips.
    ///
    /// # Errors
    /// [`Error::ToolCallUnpaired`](sessionlog::Error::ToolCallUnpaired), and those all verbs
    /// share.
    pub fn window(&self, key: &str, budget: Budget) -> Reply<Window> {
        let name = key.to_owned();
        let found = self.find(key, move |shared, connection, sought| {
            let (name, budget) = (name.clone(), budget.clone());
            Box::pin(async move {
                connection.run(READ).await?;
                let rows = connection
                    .query(&shared.sql.session, &sought.params())
                    .await?;
                let found = if let Some(session) = rows.first().map(Session::of) {
                    chosen(&shared, connection, &session, &budget).await
                } else {
                    let nowhere = Position::new(0, 0);
                    let nothing = std::iter::empty();
                    Ok(Window::fit(
                        &name,
                        nothing,
                        nowhere,
                        Besides::default(),
                        &budget,
                    ))
                };
                connection.run("COMMIT").await?;
                found
            })
        });
        map(found, |window| window)
    }

    /// Returns the row of the session that a key means.
    pub(crate) fn row(&self, key: &str) -> Reply<Option<Session>> {
        self.find(key, |shared, connection, sought| {
            Box::pin(async move {
                let rows = connection
                    .query(&shared.sql.session, &sought.params())
                    .await?;
                Ok(rows.first().map(Session::of))
            })
        })
    }

    /// Returns the present state of a session: the content of its control records, and its visible
    /// lines if `with_lines` is true.
    pub(crate) fn moment(&self, key: &str, with_lines: bool) -> Reply<Moment> {
        let name = key.to_owned();
        self.find(key, move |shared, connection, sought| {
            let name = name.clone();
            Box::pin(async move {
                connection.run(READ).await?;
                let rows = connection
                    .query(&shared.sql.session, &sought.params())
                    .await?;
                let moment = match rows.first().map(Session::of) {
                    Some(session) => read_moment(&shared, connection, &session, with_lines).await?,
                    None => Moment::new(SessionMeta::empty(&name), kit::MomentParts::default()),
                };
                connection.run("COMMIT").await?;
                Ok(moment)
            })
        })
    }

    /// Asks the database about the session that a key means.
    pub(crate) fn find<T: Send + 'static>(
        &self,
        key: &str,
        ask: impl for<'c> Fn(Arc<Shared>, &'c Connection, Arc<Sought>) -> Asked<'c, T>
        + Send
        + Sync
        + 'static,
    ) -> Reply<T> {
        let trimmed = key.trim().to_owned();
        let sought = Arc::new(Sought {
            is_own_first: kit::is_own_first(&trimmed),
            key: key.to_owned(),
            trimmed,
            exact: self.exact,
        });
        let shared = self.inner.shared.clone();
        self.work(async move {
            shared.check_open()?;
            kit::check_key(&sought.key)?;
            shared
                .read(|shared, connection| ask(shared, connection, sought.clone()))
                .await
        })
    }
}

/// Begins a transaction in which all statements see one moment.
pub(crate) const READ: &str = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY";

async fn read_moment(
    shared: &Shared,
    connection: &Connection,
    session: &Session,
    with_lines: bool,
) -> Tried<Moment> {
    let mut parts = session.parts();
    let params: [Param<'_>; 1] = [(&session.id, Type::INT8)];
    let controls = connection.query(&shared.sql.controls, &params).await?;
    parts.controls = controls
        .iter()
        .map(|row| (row.get::<_, i64>(0).cast_unsigned(), row.get(1)))
        .collect();
    if with_lines {
        let sql = shared.sql.fill(
            "SELECT line FROM {schema}.lines WHERE session_id = $1 AND line_at >= $2
             ORDER BY line_at",
        );
        let params: [Param<'_>; 2] = [(&session.id, Type::INT8), (&session.start_at, Type::INT8)];
        for row in connection.query(&sql, &params).await? {
            parts.lines.extend_from_slice(row.get(0));
            parts.lines.push(b'\n');
        }
    }
    Ok(Moment::new(session.meta(), parts))
}

/// Reads the newest messages, more and more of them, until a window is certain.
async fn chosen(
    shared: &Shared,
    connection: &Connection,
    session: &Session,
    budget: &Budget,
) -> Tried<Result<Window>> {
    let moment = read_moment(shared, connection, session, false).await?;
    let history = session.history.cast_unsigned();
    let mut most = FIRST;
    loop {
        let params: [Param<'_>; 4] = [
            (&session.id, Type::INT8),
            (&session.start_at, Type::INT8),
            (&session.end_at, Type::INT8),
            (&most, Type::INT8),
        ];
        let rows = connection.query(&shared.sql.newest, &params).await?;
        let position = |row: &Row| Position::new(history, row.get::<_, i64>(0).cast_unsigned());
        let newest = rows.iter().filter_map(|row| {
            let line: &[u8] = row.get(1);
            Some((position(row), line.len(), kit::message_of(line)?))
        });
        let besides = Besides {
            summary: session.summary.clone(),
            system_prompt: moment.system_prompt(),
            version: session.version(),
        };
        let end = Position::new(history, session.end_at.cast_unsigned());
        let is_all = number(rows.len()) < most;
        let mut window = match Window::fit(&session.key, newest, end, besides, budget) {
            Ok(window) => window,
            // The messages that are not read yet may have the other half.
            Err(_) if !is_all => {
                most = most.saturating_mul(4);
                continue;
            }
            Err(error) => return Ok(Err(error)),
        };
        // If the window begins with the oldest message that was read, older ones may fit, too.
        let is_sure = rows
            .last()
            .is_some_and(|oldest| window.start != position(oldest));
        if is_all || is_sure {
            let unread = session.messages - number(rows.len());
            window.omitted += usize::try_from(unread).unwrap_or(0);
            return Ok(Ok(window));
        }
        most = most.saturating_mul(4);
    }
}

/// Returns a count in the form for the database.
pub(crate) fn number(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

/// Returns the messages of rows in the order of their places. The rows may come in any order.
fn messages(mut rows: Vec<Row>) -> Vec<Message> {
    rows.sort_unstable_by_key(|row| row.get::<_, i64>(0));
    let messages = rows.iter().filter_map(|row| kit::message_of(row.get(1)));
    messages.collect()
}

impl PostgresStore {
    /// Returns all existing lines of a session, each ended by LF, and the place where the visible
    /// ones begin.
    pub(crate) fn raw_lines(&self, row: &Session) -> Reply<(Vec<u8>, usize)> {
        let (shared, id, start) = (self.inner.shared.clone(), row.id, row.start_at);
        self.work(async move {
            shared
                .read_bulk(|shared, connection| lines_from(shared, connection, (id, start)))
                .await
        })
    }
}

pub(crate) fn lines_from(
    shared: Arc<Shared>,
    connection: &Connection,
    (id, start): (i64, i64),
) -> Asked<'_, (Vec<u8>, usize)> {
    Box::pin(async move {
        let sql = shared.sql.fill(
            "SELECT line_at, line FROM {schema}.lines WHERE session_id = $1 ORDER BY line_at",
        );
        let params: [Param<'_>; 1] = [(&id, Type::INT8)];
        let (mut lines, mut hidden) = (Vec::new(), 0);
        let take = |row: &Row| {
            lines.extend_from_slice(row.get(1));
            lines.push(b'\n');
            if row.get::<_, i64>(0) < start {
                hidden = lines.len();
            }
            ControlFlow::Continue(())
        };
        connection.each(&sql, &params, take).await?;
        Ok((lines, hidden))
    })
}
