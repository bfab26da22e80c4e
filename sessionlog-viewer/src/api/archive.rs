//! The messages that compactions dropped of a session and the archive keeps.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use axum::Json;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use serde::{Deserialize, Serialize};
use sessionlog::Message;

use super::{Library, turn};
use crate::failure::{Answer, Failure};
use crate::shown::{Extent, Shown};

/// Most messages of an answer.
const MAX_MESSAGES: usize = 200;
const USUAL_MESSAGES: usize = 100;

#[derive(Deserialize)]
pub(super) struct Wanted {
    key: String,
    month: String,
    from: Option<usize>,
    limit: Option<usize>,
    /// The sign of a message; its index is returned.
    #[serde(default)]
    sign: String,
}

#[derive(Serialize)]
pub(super) struct Archived {
    total: usize,
    from: usize,
    /// The index of the message with the requested sign.
    found: Option<usize>,
    messages: Vec<Shown>,
}

/// Returns a sign of a message: it identifies the message where there are no positions.
pub(super) fn sign(message: &Message) -> String {
    let mut hasher = DefaultHasher::new();
    message.to_json().hash(&mut hasher);
    format!("{:016x}", hasher.finish())
}

/// Returns some messages of a month. It reads all of that month, so it takes its turn among the
/// searches.
pub(super) async fn archive(
    State(library): State<Arc<Library>>,
    wanted: Result<Query<Wanted>, QueryRejection>,
) -> Answer<Json<Archived>> {
    let wanted = super::query(wanted)?;
    let _turn = turn(&library.searches, "searches").await?;
    if !library.store.exists(&wanted.key).await? {
        return Err(Failure::missing(&wanted.key));
    }
    let messages = library.store.archived(&wanted.key, &wanted.month).await?;
    let limit = wanted
        .limit
        .unwrap_or(USUAL_MESSAGES)
        .clamp(1, MAX_MESSAGES);
    let is_it = |message: &Message| sign(message) == wanted.sign;
    let is_asked = !wanted.sign.is_empty();
    let found = is_asked.then(|| messages.iter().position(is_it)).flatten();
    let from = wanted.from.unwrap_or(0).min(messages.len());
    let page = messages.iter().enumerate().skip(from).take(limit);
    Ok(Json(Archived {
        total: messages.len(),
        from,
        found,
        messages: page
            .map(|(index, message)| Shown::new(message, index, None, &Extent::Cut))
            .collect(),
    }))
}
