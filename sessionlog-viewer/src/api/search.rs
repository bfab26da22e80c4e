//! Searches the messages of all sessions, or of one.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use serde::{Deserialize, Serialize};
use sessionlog::scope::is_opaque_session_key;
use sessionlog::{Position, SearchHit, SearchQuery, SessionOrder};
use tokio::time::{Instant, timeout_at};

use super::{Library, archive, millis, sessions, turn};
use crate::failure::{Answer, Failure};

/// Most messages of an answer.
const MAX_HITS: usize = 100;
const USUAL_HITS: usize = 50;

/// Most hits that are passed over to get to a later page.
const MAX_SKIP: usize = 10_000;

/// The longest time of a search; then it answers with the hits so far.
const TIME: Duration = Duration::from_secs(20);

/// Characters shown around a match, on either side.
const AROUND: usize = 90;

/// Longest pattern, bytes.
const MAX_PATTERN: usize = 1000;

#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct Wanted {
    q: String,
    /// Only in this session.
    key: String,
    prefix: String,
    channel: String,
    agent: String,
    person: String,
    /// Said then or later, milliseconds since 1970.
    since: Option<i64>,
    /// Said before, milliseconds since 1970.
    until: Option<i64>,
    role: String,
    regex: bool,
    case: bool,
    archived: bool,
    skip: usize,
    limit: Option<usize>,
}

#[derive(Serialize)]
pub(super) struct Found {
    hits: Vec<Hit>,
    /// Title and aliases of the sessions of the hits that have hashes as keys.
    names: BTreeMap<String, Names>,
    /// Sessions that could not be read.
    unreadable: Vec<String>,
    /// Set if there is more: `full` if the page is full, `time` if the search took too long.
    more: Option<&'static str>,
}

#[derive(Serialize)]
struct Names {
    title: String,
    aliases: Vec<String>,
}

#[derive(Serialize)]
struct Hit {
    key: String,
    position: Position,
    archived: Option<String>,
    /// Its sign, which `/api/archive` takes.
    sign: Option<String>,
    /// True if a truncation hid it: it has no place in the conversation.
    hidden: bool,
    role: String,
    said: Option<i64>,
    before: String,
    matched: String,
    after: String,
}

pub(super) async fn search(
    State(library): State<Arc<Library>>,
    wanted: Result<Query<Wanted>, QueryRejection>,
) -> Answer<Json<Found>> {
    let wanted = super::query(wanted)?;
    if wanted.q.is_empty() || wanted.q.len() > MAX_PATTERN {
        return Err(Failure::bad(format!(
            "q is what to search for, 1 to {MAX_PATTERN} bytes"
        )));
    }
    if wanted.skip > MAX_SKIP {
        let message = format!("at most {MAX_SKIP} are skipped; search for something rarer");
        return Err(Failure::bad(message));
    }
    let _turn = turn(&library.searches, "searches").await?;
    let limit = wanted.limit.unwrap_or(USUAL_HITS).clamp(1, MAX_HITS);
    let mut found = Found {
        hits: Vec::new(),
        names: BTreeMap::new(),
        unreadable: Vec::new(),
        more: None,
    };
    let mut search = library.store.search(query(&wanted)?);
    let mut skip = wanted.skip;
    let deadline = Instant::now() + TIME;
    loop {
        let Ok(next) = timeout_at(deadline, search.next()).await else {
            found.more = Some("time");
            break;
        };
        match next {
            None => break,
            Some(Ok(hit)) if !wanted.key.is_empty() && hit.key != wanted.key => {}
            Some(Ok(_)) if skip > 0 => skip -= 1,
            Some(Ok(_)) if found.hits.len() == limit => {
                found.more = Some("full");
                break;
            }
            Some(Ok(hit)) => found.hits.push(shown(hit)),
            Some(Err(error @ sessionlog::Error::Io { .. })) => {
                tracing::warn!(%error, "a session could not be searched");
                if found.unreadable.len() < limit {
                    found.unreadable.push(error.to_string());
                }
            }
            Some(Err(error)) => return Err(error.into()),
        }
    }
    found.names = names(&library, &found.hits).await;
    Ok(Json(found))
}

/// Returns the names; a session that is gone meanwhile has none.
async fn names(library: &Library, hits: &[Hit]) -> BTreeMap<String, Names> {
    let keys = hits.iter().map(|hit| &*hit.key);
    let hashes: BTreeSet<_> = keys.filter(|key| is_opaque_session_key(key)).collect();
    let mut names = BTreeMap::new();
    for key in hashes {
        if let Ok(meta) = library.store.session_meta(key).await {
            let (title, aliases) = (meta.tags.title, meta.aliases);
            names.insert(key.to_owned(), Names { title, aliases });
        }
    }
    names
}

fn query(wanted: &Wanted) -> Answer<SearchQuery> {
    let prefix = if wanted.key.is_empty() {
        &wanted.prefix
    } else {
        &wanted.key
    };
    let whose = [&wanted.channel, &wanted.agent, &wanted.person];
    let among = sessions::query(prefix, whose.map(String::as_str));
    let mut query = SearchQuery::new()
        .among(among.order(SessionOrder::Updated))
        .archived(wanted.archived);
    if let Some(since) = sessions::time(wanted.since)? {
        query = query.since(since);
    }
    if let Some(until) = sessions::time(wanted.until)? {
        query = query.until(until);
    }
    let query = if wanted.regex {
        query.regex(&*wanted.q)
    } else {
        query.text(&*wanted.q)
    };
    let query = query.ignore_case(!wanted.case);
    Ok(match &*wanted.role {
        "" => query,
        role => query.role(role),
    })
}

fn shown(hit: SearchHit) -> Hit {
    let text = hit.message.text();
    let (start, end) = (hit.matched.start, hit.matched.end);
    let before = text.get(..start).unwrap_or_default();
    let skipped = before.chars().count().saturating_sub(AROUND);
    let after = text.get(end..).unwrap_or_default();
    let matched = text.get(start..end).unwrap_or_default();
    Hit {
        sign: hit.archived.as_ref().map(|_| archive::sign(&hit.message)),
        role: hit.message.role().to_owned(),
        said: hit.message.created_at().and_then(millis),
        before: before.chars().skip(skipped).collect(),
        matched: matched.chars().take(2 * AROUND).collect(),
        after: after.chars().take(AROUND).collect(),
        key: hit.key,
        position: hit.position,
        archived: hit.archived,
        hidden: hit.hidden,
    }
}
