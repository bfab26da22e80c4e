//! The messages of a session, by index.

use std::sync::Arc;

use axum::Json;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use serde::{Deserialize, Serialize};
use sessionlog::{MarkKind, Position};

use super::Library;
use crate::failure::{Answer, Failure};
use crate::outlines::{Chart, Landmark};
use crate::shown::{Extent, Shown};
use crate::token::hex;

/// Most messages of an answer.
const MAX_MESSAGES: usize = 200;
const USUAL_MESSAGES: usize = 100;

/// Most marks of an answer: a session may have any number between two messages.
const MAX_MARKS: usize = 1000;

#[derive(Deserialize)]
pub(super) struct Wanted {
    key: String,
    /// Index of the first; without it, the newest are returned.
    from: Option<usize>,
    limit: Option<usize>,
    /// The epoch of the index.
    epoch: Option<String>,
}

#[derive(Serialize)]
pub(super) struct Excerpt {
    epoch: String,
    total: usize,
    from: usize,
    messages: Vec<Shown>,
    marks: Vec<Marked>,
}

/// A line between two messages.
#[derive(Serialize)]
pub(super) struct Marked {
    /// Before the message of this index.
    before: usize,
    kind: &'static str,
    value: Option<i64>,
    /// The position of its bytes, if it does not decode.
    #[serde(skip_serializing_if = "Option::is_none")]
    position: Option<Position>,
}

pub(super) async fn messages(
    State(library): State<Arc<Library>>,
    wanted: Result<Query<Wanted>, QueryRejection>,
) -> Answer<Json<Excerpt>> {
    let wanted = super::query(wanted)?;
    let _turn = library.turn_to_read().await?;
    let (snapshot, chart) = library.outlines.of(&wanted.key).await?;
    require(&chart, wanted.epoch.as_deref())?;
    let limit = wanted
        .limit
        .unwrap_or(USUAL_MESSAGES)
        .clamp(1, MAX_MESSAGES);
    let newest = chart.messages.saturating_sub(limit);
    let from = wanted.from.unwrap_or(newest).min(chart.messages);
    let until = from.saturating_add(limit).min(chart.messages);
    let show = |index, message: &_, at| Shown::new(message, index, Some(at), &Extent::Cut);
    let messages = chart.read(&snapshot, from, until, show).await?;
    Ok(Json(Excerpt {
        epoch: chart.epoch().to_owned(),
        total: chart.messages,
        from,
        messages,
        marks: marks(&chart, from, until),
    }))
}

#[derive(Deserialize)]
pub(super) struct WantedOne {
    key: String,
    index: usize,
    epoch: Option<String>,
}

/// Returns a whole message.
pub(super) async fn message(
    State(library): State<Arc<Library>>,
    wanted: Result<Query<WantedOne>, QueryRejection>,
) -> Answer<Json<Shown>> {
    let WantedOne { key, index, epoch } = super::query(wanted)?;
    let _turn = library.turn_to_read().await?;
    let (snapshot, chart) = library.outlines.of(&key).await?;
    require(&chart, epoch.as_deref())?;
    let show = |index, message: &_, at| Shown::new(message, index, Some(at), &Extent::Whole);
    let until = index.saturating_add(1);
    let found = chart.read(&snapshot, index, until, show).await?.pop();
    found.map(Json).ok_or_else(|| {
        let message = format!("session {key:?} has no message {index}");
        Failure::new(axum::http::StatusCode::NOT_FOUND, message)
    })
}

#[derive(Deserialize)]
pub(super) struct WantedPlace {
    key: String,
    position: String,
}

#[derive(Serialize)]
pub(super) struct Located {
    epoch: String,
    total: usize,
    index: usize,
}

/// Returns the index of the message at a position, which a search found.
pub(super) async fn locate(
    State(library): State<Arc<Library>>,
    wanted: Result<Query<WantedPlace>, QueryRejection>,
) -> Answer<Json<Located>> {
    let WantedPlace { key, position } = super::query(wanted)?;
    let position = parsed(&position)?;
    let _turn = library.turn_to_read().await?;
    let (snapshot, chart) = library.outlines.of(&key).await?;
    let index = chart.index_of(&snapshot, position).await?;
    Ok(Json(Located {
        epoch: chart.epoch().to_owned(),
        total: chart.messages,
        index,
    }))
}

/// The bytes of a line that are shown.
const LINE_SHOWN: usize = 4 << 10;

#[derive(Serialize)]
pub(super) struct Line {
    /// Bytes of the whole line.
    size: u64,
    /// The first of them.
    hex: String,
}

/// Returns the bytes of a line: a line that does not decode has nothing else to show.
pub(super) async fn line(
    State(library): State<Arc<Library>>,
    wanted: Result<Query<WantedPlace>, QueryRejection>,
) -> Answer<Json<Line>> {
    let WantedPlace { key, position } = super::query(wanted)?;
    let position = parsed(&position)?;
    let _turn = library.turn_to_read().await?;
    let snapshot = library.outlines.snapshot(&key).await?;
    let line = snapshot.line(position, LINE_SHOWN).await?;
    Ok(Json(Line {
        size: line.len,
        hex: hex(&line.bytes),
    }))
}

fn parsed(position: &str) -> Answer<Position> {
    let position = position.parse();
    position.map_err(|_| Failure::bad("the position is none"))
}

fn require(chart: &Chart, epoch: Option<&str>) -> Answer<()> {
    match epoch {
        Some(epoch) if epoch != chart.epoch() => Err(Failure::outdated()),
        _ => Ok(()),
    }
}

/// Returns the marks before the messages `from..until`, and those after the last message of all.
fn marks(chart: &Chart, from: usize, until: usize) -> Vec<Marked> {
    let is_last = until == chart.messages;
    let begin = chart.marks.partition_point(|mark| mark.after < from);
    let those = chart.marks[begin..].iter();
    let those = those.take_while(|mark| mark.after < until || is_last);
    those.take(MAX_MARKS).map(marked).collect()
}

fn marked(mark: &Landmark) -> Marked {
    let (kind, value) = match mark.kind {
        MarkKind::Checkpoint(id) => ("checkpoint", Some(id)),
        MarkKind::Tokens(count) => ("tokens", Some(count)),
        MarkKind::SystemPrompt => ("system_prompt", None),
        _ => ("damaged", None),
    };
    Marked {
        before: mark.after,
        kind,
        value,
        position: (mark.kind == MarkKind::Damaged).then_some(mark.position),
    }
}
