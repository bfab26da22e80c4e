//! The data of a session beside its messages.

use std::sync::Arc;

use axum::Json;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use serde::{Deserialize, Serialize};
use sessionlog::{MarkKind, RawValue};

use super::{Library, millis, turn};
use crate::failure::{Answer, Failure};
use crate::outlines::Chart;

/// Most points of the plot: more than a screen has columns are of no use.
const MAX_POINTS: usize = 400;

/// Most checkpoints that are listed, and damaged lines: the newest.
const MAX_LISTED: usize = 500;

#[derive(Deserialize)]
pub(super) struct Wanted {
    key: String,
}

#[derive(Serialize)]
pub(super) struct Session {
    /// The session's own key, also if an alias was requested.
    key: String,
    epoch: String,
    version: String,
    /// Number of messages.
    total: usize,
    /// Number of lines that are hidden before the first of them.
    hidden: i64,
    title: String,
    labels: Vec<String>,
    pinned: bool,
    summary: String,
    system_prompt: Option<String>,
    created: Option<i64>,
    updated: Option<i64>,
    aliases: Vec<String>,
    scope: Option<Box<RawValue>>,
    checkpoints: Vec<Checkpoint>,
    damaged: usize,
    /// The indexes of the messages before which the damaged lines stand.
    damaged_before: Vec<usize>,
    usage: Vec<Usage>,
    /// The last one recorded.
    tokens: Option<i64>,
}

#[derive(Serialize)]
struct Checkpoint {
    id: i64,
    /// Before the message of this index.
    before: usize,
}

#[derive(Serialize)]
struct Usage {
    before: usize,
    said: Option<i64>,
    tokens: i64,
}

pub(super) async fn session(
    State(library): State<Arc<Library>>,
    wanted: Result<Query<Wanted>, QueryRejection>,
) -> Answer<Json<Session>> {
    let Wanted { key } = super::query(wanted)?;
    let _turn = library.turn_to_read().await?;
    let (key, (snapshot, chart)) = match library.outlines.of(&key).await {
        Err(failure) if failure.is_missing() => {
            let found = library.by_name.resolve_session_key(&key).await?;
            let key = found.ok_or(failure)?;
            let found = library.outlines.of(&key).await?;
            (key, found)
        }
        found => (key, found?),
    };
    let meta = snapshot.meta();
    let (checkpoints, damage) = landmarks(&chart);
    let usage = usage(&chart);
    Ok(Json(Session {
        epoch: chart.epoch().to_owned(),
        version: snapshot.version().to_string(),
        total: chart.messages,
        hidden: meta.skip,
        title: meta.tags.title,
        labels: meta.tags.labels,
        pinned: meta.tags.pinned,
        summary: meta.summary,
        system_prompt: chart.system_prompt(&library.store, &key).await?,
        created: millis(&meta.created_at),
        updated: millis(&meta.updated_at),
        aliases: meta.aliases,
        scope: meta.scope,
        checkpoints: newest(checkpoints),
        damaged: damage.len(),
        damaged_before: newest(damage),
        tokens: usage.last().map(|usage| usage.tokens),
        usage: thinned(usage),
        key,
    }))
}

#[derive(Serialize)]
pub(super) struct Kept {
    /// Months in which compactions dropped messages that the archive keeps.
    archived: Vec<String>,
    backups: usize,
}

/// Returns the number of backups and the archived months of a session. This lists directories, so
/// the page does not request it with every change.
pub(super) async fn kept(
    State(library): State<Arc<Library>>,
    wanted: Result<Query<Wanted>, QueryRejection>,
) -> Answer<Json<Kept>> {
    let Wanted { key } = super::query(wanted)?;
    let _turn = library.turn_to_read().await?;
    let store = &library.store;
    if !store.exists(&key).await? {
        return Err(Failure::missing(&key));
    }
    Ok(Json(Kept {
        archived: store.archived_months(&key).await?,
        backups: store.list_backups(&key).await?.len(),
    }))
}

#[derive(Serialize)]
pub(super) struct Damage {
    lines: usize,
}

/// Returns the number of lines that do not decode, of a session in a list. The session is read
/// whole the first time, so only one session is read at once.
pub(super) async fn damage(
    State(library): State<Arc<Library>>,
    wanted: Result<Query<Wanted>, QueryRejection>,
) -> Answer<Json<Damage>> {
    let Wanted { key } = super::query(wanted)?;
    let _turn = turn(&library.counts, "counts of damaged lines").await?;
    let lines = library.outlines.damaged(&key).await?;
    Ok(Json(Damage { lines }))
}

/// Returns the checkpoints, and the indexes of the messages before which lines do not decode.
fn landmarks(chart: &Chart) -> (Vec<Checkpoint>, Vec<usize>) {
    let (mut checkpoints, mut damaged) = (Vec::new(), Vec::new());
    for mark in &chart.marks {
        match mark.kind {
            MarkKind::Checkpoint(id) => checkpoints.push(Checkpoint {
                id,
                before: mark.after,
            }),
            MarkKind::Damaged => damaged.push(mark.after),
            _ => {}
        }
    }
    (checkpoints, damaged)
}

fn newest<T>(mut listed: Vec<T>) -> Vec<T> {
    let older = listed.len().saturating_sub(MAX_LISTED);
    listed.drain(..older);
    listed
}

fn usage(chart: &Chart) -> Vec<Usage> {
    let marks = chart.marks.iter();
    marks
        .filter_map(|mark| match mark.kind {
            MarkKind::Tokens(tokens) => Some(Usage {
                before: mark.after,
                said: mark.said,
                tokens,
            }),
            _ => None,
        })
        .collect()
}

/// Returns the maximum of every stretch, because people look for peaks. The last point stays.
fn thinned(usage: Vec<Usage>) -> Vec<Usage> {
    let stretch = usage.len().div_ceil(MAX_POINTS).max(1);
    if stretch == 1 {
        return usage;
    }
    let mut usage = usage.into_iter().peekable();
    let mut points = Vec::new();
    while usage.peek().is_some() {
        let most = usage
            .by_ref()
            .take(stretch)
            .max_by_key(|point| point.tokens);
        points.extend(most);
    }
    points
}
