//! Finds sessions.

use std::sync::Arc;

use axum::Json;
use axum::extract::Query;
use axum::extract::State;
use axum::extract::rejection::QueryRejection;
use serde::{Deserialize, Serialize};
use sessionlog::{Cursor, OffsetDateTime, SessionInfo, SessionOrder, SessionQuery, Whose};

use super::{Library, millis};
use crate::failure::{Answer, Failure};

/// Most sessions on a page.
const MAX_SESSIONS: usize = 200;
const USUAL_SESSIONS: usize = 50;

/// Most characters of a summary in a list.
const SUMMARY_SHOWN: usize = 300;

/// The selection and the order of sessions.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct Wanted {
    prefix: String,
    channel: String,
    agent: String,
    person: String,
    /// Changed then or later, milliseconds since 1970.
    since: Option<i64>,
    order: String,
    limit: Option<usize>,
    after: String,
}

#[derive(Serialize)]
pub(super) struct Found {
    sessions: Vec<Listed>,
    unreadable: Vec<String>,
    /// Number of sessions in the store, whatever the request.
    total: usize,
    /// The value of `after` for the next page.
    next: Option<String>,
}

#[derive(Serialize)]
struct Listed {
    #[serde(flatten)]
    info: SessionInfo,
    created: Option<i64>,
    updated: Option<i64>,
}

pub(super) async fn sessions(
    State(library): State<Arc<Library>>,
    wanted: Result<Query<Wanted>, QueryRejection>,
) -> Answer<Json<Found>> {
    let wanted = super::query(wanted)?;
    let whose = [&wanted.channel, &wanted.agent, &wanted.person];
    let mut query = query(&wanted.prefix, whose.map(String::as_str))
        .limit(wanted.limit.unwrap_or(USUAL_SESSIONS).min(MAX_SESSIONS))
        .order(match &*wanted.order {
            "" | "updated" => SessionOrder::Updated,
            "name" => SessionOrder::Name,
            _ => return Err(Failure::bad("the order is updated or name")),
        });
    if let Some(since) = time(wanted.since)? {
        query = query.updated_since(since);
    }
    if !wanted.after.is_empty() {
        let cursor = serde_json::from_str::<Cursor>(&wanted.after);
        query = query.after(cursor.map_err(|_| Failure::bad("after is no page's next"))?);
    }
    let _turn = library.turn_to_read().await?;
    let page = library.store.sessions(query).await?;
    let total = library.store.list_sessions().await?.len();
    let next = page.next.map(|cursor| serde_json::to_string(&cursor));
    Ok(Json(Found {
        sessions: page.sessions.into_iter().map(listed).collect(),
        unreadable: page.unreadable,
        total,
        next: next.transpose().unwrap_or_default(),
    }))
}

/// Returns a requested time.
pub(super) fn time(millis: Option<i64>) -> Answer<Option<OffsetDateTime>> {
    let time = |millis: i64| {
        let nanos = i128::from(millis) * 1_000_000;
        OffsetDateTime::from_unix_timestamp_nanos(nanos)
    };
    let wrong = |_| Failure::bad("a time is in milliseconds since 1970");
    millis.map(time).transpose().map_err(wrong)
}

/// Returns a query for the sessions of a prefix, a channel, an agent and a person; empty ones match
/// all.
pub(super) fn query(prefix: &str, [channel, agent, person]: [&str; 3]) -> SessionQuery {
    let mut query = SessionQuery::new().prefix(prefix);
    if !channel.is_empty() {
        query = query.channel(channel);
    }
    if !agent.is_empty() {
        query = query.agent(agent);
    }
    if !person.is_empty() {
        let whose = Whose::new(person);
        query = query.person(if channel.is_empty() {
            whose
        } else {
            whose.on(channel)
        });
    }
    query
}

fn listed(mut info: SessionInfo) -> Listed {
    if let Some((cut, _)) = info.summary.char_indices().nth(SUMMARY_SHOWN) {
        info.summary.truncate(cut);
    }
    Listed {
        created: millis(&info.created_at),
        updated: millis(&info.updated_at),
        info,
    }
}
