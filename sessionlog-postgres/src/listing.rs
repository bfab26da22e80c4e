//! Finding sessions among many.

use std::sync::Arc;

use sessionlog::backend::kit;
use sessionlog::{Cursor, Reply, Result, SessionInfo, SessionOrder, SessionPage, SessionQuery};
use time::OffsetDateTime;
use tokio_postgres::types::Type;

use crate::connection::{Connection, Param};
use crate::context::Shared;
use crate::fault::Tried;
use crate::row::{Session, one_id};
use crate::sql::WIDTH;
use crate::store::PostgresStore;

/// The most sessions that are read at a time.
const AT_A_TIME: usize = 1000;

/// Finding sessions.
impl PostgresStore {
    /// Returns the keys of all sessions, in the order of the names that their files would have.
    ///
    /// # Errors
    /// Those all verbs share.
    pub fn list_sessions(&self) -> Reply<Vec<String>> {
        let shared = self.inner.shared.clone();
        self.work(async move {
            let sql = shared
                .sql
                .fill("SELECT key FROM {schema}.sessions ORDER BY file_name, key");
            shared.read(|_, connection| keys(connection, &sql)).await
        })
    }

    /// Returns the sessions that `query` looks for, each with its counts, times, summary, first and
    /// last text and size. In [`SessionOrder::Name`] they are sorted by the names that their files
    /// would have. Each page is of one moment.
    ///
    /// # Errors
    /// Those all verbs share.
    pub fn sessions(&self, query: SessionQuery) -> Reply<SessionPage> {
        let shared = self.inner.shared.clone();
        self.work(async move { page(&shared, query).await })
    }
}

fn keys<'c>(connection: &'c Connection, sql: &str) -> crate::context::Asked<'c, Vec<String>> {
    let sql = sql.to_owned();
    Box::pin(async move {
        let rows = connection.query(&sql, &[]).await?;
        Ok(rows.iter().map(|row| row.get(0)).collect())
    })
}

/// Returns a page of any length. For many rows it reads some at a time.
pub(crate) async fn page(shared: &Arc<Shared>, query: SessionQuery) -> Result<SessionPage> {
    // A database has no trash.
    if has_nul(&query) || query.get_deleted() {
        return Ok(SessionPage::default());
    }
    let most = query.get_limit();
    let (mut page, mut query) = (SessionPage::default(), query);
    loop {
        let wanted = (most - page.sessions.len()).min(AT_A_TIME);
        let part = query.clone().limit(wanted);
        let part = shared
            .read(|shared, connection| read_page(shared, connection, part.clone()))
            .await?;
        page.sessions.extend(part.sessions);
        page.next = part.next;
        match &page.next {
            Some(next) if page.sessions.len() < most => query = query.after(next.clone()),
            _ => return Ok(page),
        }
    }
}

fn read_page(
    shared: Arc<Shared>,
    connection: &Connection,
    query: SessionQuery,
) -> crate::context::Asked<'_, SessionPage> {
    Box::pin(async move {
        let wanted = query.get_limit();
        // The people in a row are only a preselection: few of many rows may fit.
        let is_told_by_rows = query.get_person().is_none() && query.get_chat().is_none();
        let looked_at = if is_told_by_rows { wanted } else { AT_A_TIME };
        let bounds = Bounds::of(&query.clone().limit(looked_at));
        let sql = shared.sql.fill(&bounds.sql(query.get_order(), ENDS));
        let rows = connection.query(&sql, &bounds.params()).await?;
        let mut page = SessionPage::default();
        for (at, row) in rows.iter().take(looked_at).enumerate() {
            let session = Session::of(row);
            page.next = (at + 1 < rows.len()).then(|| cursor(&session, query.get_order()));
            if !kit::admits_session(&query, session.meta()) {
                continue;
            }
            let text = |at: usize| {
                let line: Option<&[u8]> = row.get(at);
                let message = line.and_then(kit::message_of);
                message.map(|message| message.text().into_owned())
            };
            let first = text(WIDTH).unwrap_or_default();
            let last = text(WIDTH + 1).unwrap_or_default();
            let size = session.end_at.cast_unsigned();
            page.sessions
                .push(kit::session_info(session.meta(), &first, &last, size));
            if page.sessions.len() == wanted {
                break;
            }
        }
        Ok(page)
    })
}

/// Makes a cursor. The name of a file holds no NUL, so a NUL separates it from the key.
fn cursor(session: &Session, order: SessionOrder) -> Cursor {
    let updated = match order {
        SessionOrder::Name => 0,
        _ => session.updated_ns,
    };
    Cursor::new(
        format!("{}\0{}", kit::file_name(&session.key), session.key),
        updated,
    )
}

/// Returns the statement that reads a page.
pub(crate) fn statement(query: &SessionQuery) -> String {
    Bounds::of(query).sql(query.get_order(), ENDS)
}

/// Returns the ids of the sessions that a query looks for, in its order, and the place where the
/// ids after them begin. If `only` is given, it looks among those.
pub(crate) async fn ids(
    shared: &Arc<Shared>,
    query: &SessionQuery,
    only: Option<Arc<Vec<i64>>>,
) -> Result<(Vec<i64>, Option<Cursor>)> {
    if has_nul(query) {
        return Ok((Vec::new(), None));
    }
    shared
        .read_bulk(|shared, connection| {
            let (query, only) = (query.clone(), only.clone());
            Box::pin(async move { read_ids(&shared, connection, &query, only).await })
        })
        .await
}

async fn read_ids(
    shared: &Shared,
    connection: &Connection,
    query: &SessionQuery,
    only: Option<Arc<Vec<i64>>>,
) -> Tried<(Vec<i64>, Option<Cursor>)> {
    let (order, looked_at) = (query.get_order(), query.get_limit());
    let bounds = Bounds::of(query);
    let mut sql = bounds.sql(order, "");
    let mut params = bounds.params();
    if let Some(only) = &only {
        params.push((&**only, Type::INT8_ARRAY));
        let among = format!(" AND s.session_id = ANY(${}) ORDER BY", params.len());
        sql = sql.replace(" ORDER BY", &among);
    }
    let rows = connection.query(&shared.sql.fill(&sql), &params).await?;
    let sessions: Vec<_> = rows.iter().take(looked_at).map(Session::of).collect();
    let next = sessions.last().filter(|_| rows.len() > looked_at);
    let next = next.map(|last| cursor(last, order));
    let ids = sessions
        .into_iter()
        .filter(|session| kit::admits_session(query, session.meta()))
        .map(|session| session.id);
    Ok((ids.collect(), next))
}

/// True if a filter has a NUL, which no text in a database has: the database would refuse the
/// question.
fn has_nul(query: &SessionQuery) -> bool {
    let texts = [
        Some(query.get_prefix()),
        query.get_agent(),
        query.get_channel(),
    ];
    texts.into_iter().flatten().any(|text| text.contains('\0'))
}

/// The first and the last message of a session, in addition to its columns.
const ENDS: &str = ",
                (SELECT l.line FROM {schema}.lines l WHERE l.session_id = s.session_id
                    AND l.line_at >= s.start_at AND l.kind = 0 ORDER BY l.line_at LIMIT 1),
                (SELECT l.line FROM {schema}.lines l WHERE l.session_id = s.session_id
                    AND l.line_at >= s.start_at AND l.kind = 0 ORDER BY l.line_at DESC LIMIT 1)";

/// Restricts the sessions to those with labels or a pin.
const TAGGED: &str = "
                AND s.session_id IN (SELECT g.session_id FROM {schema}.session_tags g
                    WHERE {HOW})";

/// The bounds of a query, in the form for a database.
struct Bounds {
    prefix: String,
    /// File names of keys with the prefix begin with `name`, and come before `name_end`.
    name: Vec<u8>,
    name_end: Option<Vec<u8>>,
    agent: Option<String>,
    channel: Option<String>,
    since: Option<i64>,
    after_name: Vec<u8>,
    after_key: Option<String>,
    after_updated: i64,
    limit: i64,
    /// The id of the person or chat.
    whom: Option<String>,
    labels: Vec<String>,
    pinned: bool,
}

impl Bounds {
    fn of(query: &SessionQuery) -> Self {
        let prefix = query.get_prefix().to_owned();
        let name = kit::file_name(&prefix);
        let name = name.strip_suffix(".meta.json").unwrap_or_default();
        let name = name.as_bytes().to_vec();
        let after = query.get_after();
        let place = after.and_then(|after| after.name().split_once('\0'));
        Self {
            name_end: next(&name),
            name,
            prefix,
            agent: query.get_agent().map(str::to_owned),
            channel: query.get_channel().map(str::to_owned),
            since: query.get_updated_since().map(nanos),
            after_name: place.map_or_else(Vec::new, |(name, _)| name.as_bytes().to_vec()),
            after_key: place.map(|(_, key)| key.to_owned()),
            after_updated: after.map_or(i64::MAX, Cursor::updated),
            limit: i64::try_from(query.get_limit()).unwrap_or(i64::MAX - 1) + 1,
            whom: kit::sought_id(query).map(|id| one_id(&id)),
            labels: query.get_labels().iter().map(|one| one_id(one)).collect(),
            pinned: query.get_pinned(),
        }
    }

    fn sql(&self, order: SessionOrder, besides: &str) -> String {
        let range = match &self.name_end {
            Some(_) => "s.file_name >= $1 AND s.file_name < $2",
            None => "s.file_name >= $1 AND ($2::bytea IS NULL)",
        };
        let (after, order) = match order {
            SessionOrder::Name => (
                "($8::text IS NULL OR (s.file_name, s.key) > ($7, $8)) AND $9 IS NOT NULL",
                "s.file_name, s.key",
            ),
            _ => (
                "($8::text IS NULL OR s.updated_ns < $9
                    OR s.updated_ns = $9 AND (s.file_name, s.key) > ($7, $8))",
                "s.updated_ns DESC, s.file_name, s.key",
            ),
        };
        let whom = match &self.whom {
            Some(_) => "(s.whom @> ARRAY[$11::text] OR s.whom IS NULL)",
            None => "$11::text IS NULL",
        };
        let tagged = match (self.labels.is_empty(), self.pinned) {
            (true, false) => String::new(),
            (true, true) => TAGGED.replace("{HOW}", "g.pinned"),
            (false, false) => TAGGED.replace("{HOW}", "g.labels @> $12"),
            (false, true) => TAGGED.replace("{HOW}", "g.labels @> $12 AND g.pinned"),
        };
        format!(
            "SELECT {{COLUMNS}}{besides}
             FROM {{schema}}.sessions s
             WHERE {range} AND left(s.key, length($3)) = $3
                AND ($4::text IS NULL OR s.agent = $4) AND ($5::text IS NULL OR s.channel = $5)
                AND ($6::bigint IS NULL OR s.updated_ns >= $6) AND {after}
                AND {whom}{tagged}
             ORDER BY {order} LIMIT $10"
        )
    }

    fn params(&self) -> Vec<Param<'_>> {
        let mut params: Vec<Param<'_>> = vec![
            (&self.name, Type::BYTEA),
            (&self.name_end, Type::BYTEA),
            (&self.prefix, Type::TEXT),
            (&self.agent, Type::TEXT),
            (&self.channel, Type::TEXT),
            (&self.since, Type::INT8),
            (&self.after_name, Type::BYTEA),
            (&self.after_key, Type::TEXT),
            (&self.after_updated, Type::INT8),
            (&self.limit, Type::INT8),
            (&self.whom, Type::TEXT),
        ];
        if !self.labels.is_empty() {
            params.push((&self.labels, Type::TEXT_ARRAY));
        }
        params
    }
}

/// Returns the first text that comes after all texts with this prefix; none if they are the last.
fn next(prefix: &[u8]) -> Option<Vec<u8>> {
    let kept = prefix.iter().rposition(|byte| *byte < u8::MAX)?;
    let mut next = prefix[..=kept].to_vec();
    next[kept] += 1;
    Some(next)
}

fn nanos(time: OffsetDateTime) -> i64 {
    let nanos = time.unix_timestamp_nanos();
    i64::try_from(nanos).unwrap_or(if nanos < 0 { i64::MIN } else { i64::MAX })
}

/// Returns all sessions that a query looks for, page after page.
pub(crate) async fn all(shared: &Arc<Shared>, query: SessionQuery) -> Result<Vec<SessionInfo>> {
    Ok(page(shared, query.limit(usize::MAX)).await?.sessions)
}

/// Returns the rows of the sessions that a statement finds.
pub(crate) async fn rows(
    connection: &Connection,
    shared: &Shared,
    condition: &str,
    params: &[Param<'_>],
) -> Tried<Vec<Session>> {
    let sql = format!("SELECT {{COLUMNS}} FROM {{schema}}.sessions s WHERE {condition}");
    let rows = connection.query(&shared.sql.fill(&sql), params).await?;
    Ok(rows.iter().map(Session::of).collect())
}
