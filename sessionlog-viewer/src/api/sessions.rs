//! Finding sessions.

use std::sync::Arc;

use axum::Json;
use axum::extract::Query;
use axum::extract::State;
use axum::extract::rejection::QueryRejection;
use serde::{Deserialize, Serialize};
use sessionlog::{Cursor, SessionInfo, SessionOrder, SessionQuery};

use super::{Library, millis};
use crate::failure::{Answer, Failure};

/// Most sessions on a page.
const MAX_SESSIONS: usize = 200;
const USUAL_SESSIONS: usize = 50;

/// Most characters of a summary in a list.
const SUMMARY_SHOWN: usize = 300;

/// Which sessions, in which order.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct Wanted {
    prefix: String,
    channel: String,
    agent: String,
    order: String,
    limit: Option<usize>,
    after: String,
}

#[derive(Serialize)]
pub(super) struct Found {
    sessions: Vec<Listed>,
    unreadable: Vec<String>,
    /// What to give as `after` for the next page.
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
    let mut query = query(&wanted.prefix, &wanted.channel, &wanted.agent)
        .limit(wanted.limit.unwrap_or(USUAL_SESSIONS).min(MAX_SESSIONS))
        .order(match &*wanted.order {
            "" | "updated" => SessionOrder::Updated,
            "name" => SessionOrder::Name,
            _ => return Err(Failure::bad("the order is updated or name")),
        });
    if !wanted.after.is_empty() {
        let cursor = serde_json::from_str::<Cursor>(&wanted.after);
        query = query.after(cursor.map_err(|_| Failure::bad("after is no page's next"))?);
    }
    let _turn = library.turn_to_read().await?;
    let page = library.store.sessions(query).await?;
    let next = page.next.map(|cursor| serde_json::to_string(&cursor));
    Ok(Json(Found {
        sessions: page.sessions.into_iter().map(listed).collect(),
        unreadable: page.unreadable,
        next: next.transpose().unwrap_or_default(),
    }))
}

/// The sessions of a prefix, a channel and an agent; empty ones are any.
pub(super) fn query(prefix: &str, channel: &str, agent: &str) -> SessionQuery {
    let mut query = SessionQuery::new().prefix(prefix);
    if !channel.is_empty() {
        query = query.channel(channel);
    }
    if !agent.is_empty() {
        query = query.agent(agent);
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
