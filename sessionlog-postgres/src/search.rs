//! Searching messages.

use std::collections::VecDeque;
use std::sync::Arc;

use futures_util::future::join_all;
use sessionlog::backend::kit::{self, Matcher, MoreHits, Went};
use sessionlog::{Position, Reply, Result, Search, SearchHit, SearchQuery, SessionQuery};
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use crate::connection::{Connection, Param};
use crate::context::{Asked, Shared};
use crate::fault::Tried;
use crate::listing;
use crate::store::PostgresStore;

/// How many sessions are looked through at a time, and how many candidates of each.
const SESSIONS: usize = 16;
const LINES: i64 = 512;

/// Searching.
impl PostgresStore {
    /// The messages that `query` looks for, session by session, each session's oldest first;
    /// what is found is what a [`StoreHandle`](sessionlog::StoreHandle) finds. The database
    /// rules out the messages without the text, and reads all of those that it cannot. There
    /// is no archive.
    #[must_use]
    pub fn search(&self, query: SearchQuery) -> Search {
        let hunt = self.inner.shared.check_open().and_then(|()| {
            let matcher = Matcher::new(query)?;
            let hunt = Hunt {
                store: self.clone(),
                sessions: Some(matcher.sessions().clone().limit(256)),
                matcher: Arc::new(matcher),
                left: VecDeque::new(),
            };
            Ok(Box::new(hunt) as Box<dyn MoreHits>)
        });
        kit::search_over(hunt)
    }

    /// The messages whose text has these words, the best first, at most `most`, as
    /// PostgreSQL's text search finds them: words in any order and case, `"words in a row"`,
    /// `or`, and `-without`. Of a text over 65,536 characters its first 65,536 are searched.
    /// [`PostgresOptions::text_search`](crate::PostgresOptions::text_search)
    /// makes it fast.
    ///
    /// # Errors
    /// Those all verbs share.
    pub fn search_words(&self, words: &str, most: usize) -> Reply<Vec<SearchHit>> {
        let shared = self.inner.shared.clone();
        let words = words.replace('\0', " ");
        let most = i64::try_from(most).unwrap_or(i64::MAX);
        self.work(async move {
            let matcher = Arc::new(Matcher::new(SearchQuery::new())?);
            shared
                .read(|shared, connection| {
                    find_words(shared, connection, (matcher.clone(), words.clone(), most))
                })
                .await
        })
    }
}

fn find_words(
    shared: Arc<Shared>,
    connection: &Connection,
    (matcher, words, most): (Arc<Matcher>, String, i64),
) -> Asked<'_, Vec<SearchHit>> {
    Box::pin(async move {
        let sql = shared.sql.fill(WORDS);
        let params: [Param<'_>; 2] = [(&words, Type::TEXT), (&most, Type::INT8)];
        let rows = connection.query(&sql, &params).await?;
        let hits = rows.iter().filter_map(|row| {
            let mut hit = hit(&matcher, row)?;
            hit.matched = first_word(&hit.message.text(), &words);
            Some(hit)
        });
        Ok(hits.collect())
    })
}

/// With the index's own words, so that it is used.
pub(crate) const WORDS: &str = "SELECT l.line_at, l.line, s.history, s.key
     FROM {schema}.lines l JOIN {schema}.sessions s ON s.session_id = l.session_id
     WHERE to_tsvector('simple', left(l.said, 65536)) @@ websearch_to_tsquery('simple', $1)
         AND l.said IS NOT NULL AND l.line_at >= s.start_at AND l.kind = 0
     ORDER BY ts_rank(to_tsvector('simple', left(l.said, 65536)),
             websearch_to_tsquery('simple', $1)) DESC,
         s.key, l.line_at LIMIT $2";

/// How many characters of a text are searched for words: what PostgreSQL makes of a text has at
/// most a megabyte, and one over that would refuse the message. The index has it, too.
pub(crate) const SEARCHED: usize = 65_536;

/// Where the first of the words stands in a text, whatever its case.
fn first_word(text: &str, words: &str) -> std::ops::Range<usize> {
    let is_word = |c: char| c.is_alphanumeric();
    let words = words.split(|c| !is_word(c)).filter(|word| !word.is_empty());
    let found = words.filter_map(|word| {
        let length = word.chars().count();
        text.char_indices().find_map(|(at, _)| {
            let part: String = text[at..].chars().take(length).collect();
            (part.to_lowercase() == word.to_lowercase()).then_some(at..at + part.len())
        })
    });
    found.min_by_key(|range| range.start).unwrap_or(0..0)
}

fn hit(matcher: &Matcher, row: &Row) -> Option<SearchHit> {
    let found = matcher.find(row.get(1))?;
    let (at, history): (i64, i64) = (row.get(0), row.get(2));
    let position = Position::new(history.cast_unsigned(), at.cast_unsigned());
    Some(matcher.hit(row.get(3), position, found))
}

/// A search under way.
struct Hunt {
    store: PostgresStore,
    matcher: Arc<Matcher>,
    /// Which sessions come after those at hand; none if there are no more.
    sessions: Option<SessionQuery>,
    left: VecDeque<Left>,
}

/// A session that is to be looked through, from a line on.
#[derive(Clone, Debug)]
struct Left {
    key: String,
    from: i64,
}

impl MoreHits for Hunt {
    fn more(mut self: Box<Self>) -> Reply<Went> {
        let store = self.store.clone();
        store.work(async move {
            let shared = self.store.inner.shared.clone();
            shared.check_open()?;
            if self.left.is_empty()
                && let Some(query) = self.sessions.take()
            {
                let page = listing::page(&shared, query.clone()).await?;
                self.sessions = page.next.map(|next| query.after(next));
                let keys = page.sessions.into_iter().map(|session| session.key);
                self.left = keys.map(|key| Left { key, from: 0 }).collect();
            }
            let many = self.left.len().min(SESSIONS);
            let now: Vec<Left> = self.left.drain(..many).collect();
            let (hits, rest) = self.look(&shared, now).await?;
            for left in rest.into_iter().rev() {
                self.left.push_front(left);
            }
            let is_over = self.left.is_empty() && self.sessions.is_none();
            let goes_on = (!is_over).then_some(self as Box<dyn MoreHits>);
            Ok((goes_on, hits.into_iter().map(Ok).collect()))
        })
    }
}

impl Hunt {
    /// Hits in the order of the sessions; those after one with too many are left.
    async fn look(
        &self,
        shared: &Arc<Shared>,
        sessions: Vec<Left>,
    ) -> Result<(Vec<SearchHit>, Vec<Left>)> {
        let literal = Some(self.matcher.literal()).filter(|text| !text.contains('\0'));
        let literal = literal.unwrap_or_default().to_owned();
        let given = sessions.clone();
        let found = shared
            .read(|shared, connection| {
                candidates(shared, connection, (given.clone(), literal.clone()))
            })
            .await?;
        let (mut hits, mut rest) = (Vec::new(), Vec::new());
        for (mut session, rows) in sessions.into_iter().zip(found) {
            if !rest.is_empty() {
                rest.push(session);
                continue;
            }
            hits.extend(rows.iter().filter_map(|row| hit(&self.matcher, row)));
            if crate::read::number(rows.len()) == LINES {
                session.from = rows.last().map_or(0, |row| row.get::<_, i64>(0) + 1);
                rest.push(session);
            }
        }
        Ok((hits, rest))
    }
}

/// The lines of each session that may be looked for, all asked for at once.
fn candidates(
    shared: Arc<Shared>,
    connection: &Connection,
    (sessions, literal): (Vec<Left>, String),
) -> Asked<'_, Vec<Vec<Row>>> {
    Box::pin(async move {
        let sql = shared.sql.fill(
            "SELECT l.line_at, l.line, s.history, s.key FROM {schema}.sessions s
             JOIN {schema}.lines l ON l.session_id = s.session_id
             WHERE s.key = $1 AND l.line_at >= s.start_at AND l.line_at >= $2 AND l.kind = 0
                 AND ($3 = '' OR strpos(l.said, $3) > 0)
             ORDER BY l.line_at LIMIT $4",
        );
        let (sql, literal) = (&sql, &literal);
        let asked = sessions.iter().map(|left| async move {
            let params: [Param<'_>; 4] = [
                (&left.key, Type::TEXT),
                (&left.from, Type::INT8),
                (literal, Type::TEXT),
                (&LINES, Type::INT8),
            ];
            connection.query(sql, &params).await
        });
        let found = join_all(asked)
            .await
            .into_iter()
            .collect::<std::result::Result<_, _>>();
        let found: Tried<Vec<Vec<Row>>> = found.map_err(Into::into);
        found
    })
}
