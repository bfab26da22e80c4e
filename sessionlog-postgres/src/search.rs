//! Searching messages.

use std::collections::{HashMap, VecDeque};
use std::ops::ControlFlow;
use std::sync::Arc;

use sessionlog::backend::kit::{self, Matcher, MoreHits, Went};
use sessionlog::{Position, Reply, Result, Search, SearchHit, SearchQuery, SessionQuery};
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use crate::connection::{Connection, Param};
use crate::context::{Asked, Shared};
use crate::listing;
use crate::row::Session;
use crate::store::PostgresStore;

/// Number of sessions that are found at a time.
const FOUND: usize = 1024;

/// The number of bytes of lines after which the caller gets the hits of these lines.
const ROOM: usize = 8 << 20;

/// The amount that a statement looks through. A search with long hits takes small steps. A search
/// that finds little takes large ones.
#[derive(Clone, Copy, Debug)]
struct Pace {
    sessions: usize,
    /// The most candidates of each session.
    lines: i64,
}

impl Pace {
    const FIRST: Self = Self {
        sessions: 8,
        lines: 64,
    };
    const MOST: Self = Self {
        sessions: 64,
        lines: 512,
    };

    fn after(self, looked: &Looked) -> Self {
        let Self { sessions, lines } = self;
        match &looked.end {
            // The server found more than was used.
            Some(end) if looked.bytes >= ROOM => Self {
                sessions: usize::try_from(end.nth).unwrap_or(sessions).max(1),
                lines: end.lines.max(8),
            },
            _ => Self {
                sessions: Self::MOST.sessions.min(sessions * 2),
                lines: Self::MOST.lines.min(lines * 2),
            },
        }
    }
}

/// The most sessions that may have a text before the search looks through all sessions.
const FEW: usize = 10_000;

/// Searching.
impl PostgresStore {
    /// Returns the messages that `query` looks for, session by session, each session's oldest
    /// first. It finds the same as a [`StoreHandle`](sessionlog::StoreHandle). The database rules
    /// out the messages without the text, and this reads the rest. If more than 1,024 sessions are
    /// to be searched, the database does it in one scan of its table. It can rule out no message if
    /// the search is by a regular expression, ignores case, or looks in tool calls.
    /// [`archived`](SearchQuery::archived) finds messages that truncations hid, until they are
    /// compacted: there is no archive.
    #[must_use]
    pub fn search(&self, query: SearchQuery) -> Search {
        let hunt = self.inner.shared.check_open().and_then(|()| {
            let matcher = Matcher::new(query)?;
            let hunt = Hunt {
                store: self.clone(),
                sessions: Some(matcher.sessions().clone().limit(FOUND)),
                only: None,
                matcher: Arc::new(matcher),
                pace: Pace::FIRST,
                left: VecDeque::new(),
            };
            Ok(Box::new(hunt) as Box<dyn MoreHits>)
        });
        kit::search_over(hunt)
    }

    /// Returns at most `most` messages with these words in their text, the best first, as
    /// PostgreSQL's text search finds them: words in any order and case, `"words in a row"`, `or`,
    /// and `-without`. Of a text over 65,536 characters, the first 65,536 are searched.
    /// [`PostgresOptions::text_search`](crate::PostgresOptions::text_search) makes it fast.
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
                .read_bulk(|shared, connection| {
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
        let sql = shared.sql.fill(&words_statement(shared.has_word_index));
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

/// Returns the statement that searches for words. If there is an index, the statement has the same
/// expression as the index, so that the server uses the index.
pub(crate) fn words_statement(has_index: bool) -> String {
    let words = if has_index {
        "{schema}.words(l.line, l.said)"
    } else {
        // A line that is not a message may have any content.
        "CASE WHEN l.kind = 0 THEN to_tsvector('simple', left(
             coalesce(l.said, convert_from(l.line, 'UTF8')::json ->> 'content'), 65536)) END"
    };
    WORDS.replace("{WORDS}", words)
}

const WORDS: &str = "SELECT l.line_at, l.line, s.history, s.key
     FROM {schema}.lines l JOIN {schema}.sessions s ON s.session_id = l.session_id
     WHERE {WORDS} @@ websearch_to_tsquery('simple', $1)
         AND l.line_at >= s.start_at AND l.kind = 0
     ORDER BY ts_rank({WORDS}, websearch_to_tsquery('simple', $1)) DESC,
         s.key, l.line_at LIMIT $2";

/// Number of characters of a text that are searched for words. PostgreSQL's search value of a text
/// has at most a megabyte, and a longer text would make it refuse the message. The index has the
/// same number.
pub(crate) const SEARCHED: usize = 65_536;

/// Returns the place of the first of the words in a text, in any case.
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
    let (at, history): (i64, i64) = (row.get(0), row.get(2));
    let position = Position::new(history.cast_unsigned(), at.cast_unsigned());
    matcher.hit(row.get(3), position, row.get(1))
}

/// A search under way.
struct Hunt {
    store: PostgresStore,
    matcher: Arc<Matcher>,
    /// The query for the sessions after those at hand; none if there are no more.
    sessions: Option<SessionQuery>,
    /// The only sessions that may have the text, once that was found out.
    only: Option<Arc<Vec<i64>>>,
    pace: Pace,
    left: VecDeque<Left>,
}

/// The result of a look.
#[derive(Debug, Default)]
struct Looked {
    /// The hits, each with the place of its session among the sessions of this look, from 1.
    hits: Vec<(i64, SearchHit)>,
    /// Number of bytes of the lines with hits.
    bytes: usize,
    /// The place where it ended, if there was too much.
    end: Option<End>,
}

/// The last line that was looked at.
#[derive(Clone, Copy, Debug, Default)]
struct End {
    nth: i64,
    at: i64,
    /// Number of candidates of that session that were looked at.
    lines: i64,
}

/// A session that is to be looked through, from a line on.
#[derive(Clone, Debug)]
struct Left {
    id: i64,
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
                self.find_sessions(&shared, query).await?;
            }
            let many = self.left.len().min(self.pace.sessions);
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
    /// Finds the next sessions. If there are many, one scan of all messages finds those that may
    /// have the text: looking through each of a hundred thousand sessions takes minutes.
    async fn find_sessions(&mut self, shared: &Arc<Shared>, query: SessionQuery) -> Result<()> {
        let (mut ids, mut next) = listing::ids(shared, &query, self.only.clone()).await?;
        let (literal, is_outside) = (self.literal(), self.matcher.is_outside());
        if next.is_some() && query.get_after().is_none() && !literal.text.is_empty() {
            let having = shared
                .read_bulk(|shared, connection| {
                    having(shared, connection, (literal.clone(), is_outside))
                })
                .await?;
            if having.len() <= FEW {
                self.only = Some(Arc::new(having));
                (ids, next) = listing::ids(shared, &query, self.only.clone()).await?;
            }
        }
        self.sessions = next.map(|next| query.after(next));
        let left = ids.into_iter().map(|id| Left { id, from: 0 });
        self.left = left.collect();
        Ok(())
    }

    fn literal(&self) -> Literal {
        let literal = Some(self.matcher.literal()).filter(|text| !text.contains('\0'));
        let text = literal.unwrap_or_default().to_owned();
        let quoted = kit::json_text(&text).into_bytes();
        let json = quoted[1..quoted.len() - 1].to_vec();
        Literal { text, json }
    }

    /// Returns hits in the order of the sessions, and the sessions after one with too many hits.
    async fn look(
        &mut self,
        shared: &Arc<Shared>,
        sessions: Vec<Left>,
    ) -> Result<(Vec<SearchHit>, Vec<Left>)> {
        if sessions.is_empty() {
            return Ok((Vec::new(), Vec::new()));
        }
        let (literal, lines) = (self.literal(), self.pace.lines);
        let looked = shared
            .read_bulk(|shared, connection| {
                let sought = (literal.clone(), self.matcher.clone());
                candidates(shared, connection, (sessions.clone(), lines), sought)
            })
            .await?;
        self.pace = self.pace.after(&looked);
        let mut outside = self.outside(shared, &sessions).await?;
        let (mut hits, mut rest) = (Vec::new(), Vec::new());
        let mut found = looked.hits.into_iter().peekable();
        for (nth, mut session) in (1_i64..).zip(sessions) {
            if looked.end.is_some_and(|end| end.nth < nth) {
                rest.push(session);
                continue;
            }
            hits.extend(outside.remove(&session.id).into_iter().flatten());
            while let Some((_, hit)) = found.next_if(|(of, _)| *of == nth) {
                hits.push(hit);
            }
            if let Some(end) = looked.end.filter(|end| end.nth == nth) {
                session.from = end.at + 1;
                rest.push(session);
            }
        }
        Ok((hits, rest))
    }

    /// Returns the hits in titles and summaries, by session, if these are looked through. They come
    /// before the session's messages.
    async fn outside(
        &self,
        shared: &Arc<Shared>,
        sessions: &[Left],
    ) -> Result<HashMap<i64, Vec<SearchHit>>> {
        let fresh = sessions.iter().filter(|session| session.from == 0);
        let ids: Vec<i64> = fresh.map(|session| session.id).collect();
        if !self.matcher.is_outside() || ids.is_empty() {
            return Ok(HashMap::new());
        }
        let found = shared.read(|shared, connection| sessions_of(shared, connection, ids.clone()));
        let found = found.await?.into_iter();
        let hits = found.map(|one| (one.id, self.matcher.hits_outside(&one.meta())));
        Ok(hits.collect())
    }
}

fn sessions_of(
    shared: Arc<Shared>,
    connection: &Connection,
    ids: Vec<i64>,
) -> Asked<'_, Vec<Session>> {
    Box::pin(async move {
        let params: [Param<'_>; 1] = [(&ids, Type::INT8_ARRAY)];
        listing::rows(connection, &shared, "s.session_id = ANY($1)", &params).await
    })
}

/// A text that every sought message has: in the form of the database's texts, and in the form of
/// lines.
#[derive(Clone, Debug)]
struct Literal {
    text: String,
    json: Vec<u8>,
}

/// Returns the sessions that have a message with a text, hidden messages included. If `is_outside`
/// is true, also those with the text in a title or summary.
fn having(
    shared: Arc<Shared>,
    connection: &Connection,
    (literal, is_outside): (Literal, bool),
) -> Asked<'_, Vec<i64>> {
    Box::pin(async move {
        let sql = if is_outside {
            shared.sql.fill(&[HAVING, HAVING_OUTSIDE].concat())
        } else {
            shared.sql.fill(HAVING)
        };
        let params: [Param<'_>; 2] = [(&literal.text, Type::TEXT), (&literal.json, Type::BYTEA)];
        let rows = connection.query(&sql, &params).await?;
        Ok(rows.iter().map(|row| row.get(0)).collect())
    })
}

pub(crate) const HAVING: &str = "SELECT DISTINCT session_id FROM {schema}.lines
     WHERE kind = 0
         AND CASE WHEN said IS NULL THEN position($2 IN line) > 0 ELSE strpos(said, $1) > 0 END";

/// Adds the sessions that have it in their title or summary.
pub(crate) const HAVING_OUTSIDE: &str = "
     UNION SELECT session_id FROM {schema}.session_tags
         WHERE position($2 IN convert_to(tags, 'UTF8')) > 0
     UNION SELECT session_id FROM {schema}.session_summaries
         WHERE position(convert_to($1, 'UTF8') IN summary) > 0";

/// Looks at the candidate lines of each session as they come. It stops when one session has as many
/// as it may have, or the hits take all the room.
fn candidates(
    shared: Arc<Shared>,
    connection: &Connection,
    (sessions, lines): (Vec<Left>, i64),
    (literal, matcher): (Literal, Arc<Matcher>),
) -> Asked<'_, Looked> {
    Box::pin(async move {
        let sql = shared.sql.fill(CANDIDATES);
        let ids: Vec<i64> = sessions.iter().map(|left| left.id).collect();
        let from: Vec<i64> = sessions.iter().map(|left| left.from).collect();
        let params: [Param<'_>; 6] = [
            (&ids, Type::INT8_ARRAY),
            (&from, Type::INT8_ARRAY),
            (&literal.text, Type::TEXT),
            (&lines, Type::INT8),
            (&literal.json, Type::BYTEA),
            (&matcher.is_archived(), Type::BOOL),
        ];
        let (mut looked, mut last) = (Looked::default(), End::default());
        let take = |row: &Row| {
            let nth = row.get(4);
            last = End {
                nth,
                at: row.get(0),
                lines: if nth == last.nth { last.lines + 1 } else { 1 },
            };
            if let Some(mut hit) = hit(&matcher, row) {
                hit.hidden = row.get(5);
                looked.hits.push((nth, hit));
                looked.bytes += row.get::<_, &[u8]>(1).len();
            }
            if last.lines == lines || looked.bytes >= ROOM {
                looked.end = Some(last);
                return ControlFlow::Break(());
            }
            ControlFlow::Continue(())
        };
        connection.each(&sql, &params, take).await?;
        Ok(looked)
    })
}

pub(crate) const CANDIDATES: &str = "SELECT l.line_at, l.line, s.history, s.key, t.n,
         l.line_at < s.start_at
     FROM unnest($1::bigint[], $2::bigint[]) WITH ORDINALITY AS t(id, begin_at, n)
     JOIN {schema}.sessions s ON s.session_id = t.id,
     LATERAL (SELECT l.line_at, l.line FROM {schema}.lines l
         WHERE l.session_id = t.id
             AND l.line_at >= greatest(t.begin_at, CASE WHEN $6 THEN 0 ELSE s.start_at END)
             AND l.kind = 0 AND ($3 = '' OR CASE WHEN l.said IS NULL
                 THEN position($5 IN l.line) > 0 ELSE strpos(l.said, $3) > 0 END)
         ORDER BY l.line_at LIMIT $4) l
     ORDER BY t.n, l.line_at";
