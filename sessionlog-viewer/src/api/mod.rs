//! The page's requests, answered as JSON. Everything is read anew, each answer at one moment.

mod archive;
mod live;
mod messages;
mod search;
mod session;
mod sessions;

use std::sync::Arc;
use std::time::Duration;

use axum::extract::Query;
use axum::extract::rejection::QueryRejection;
use axum::http::StatusCode;
use axum::routing::get;
use axum::{Json, Router};
use serde::Serialize;
use sessionlog::StoreHandle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

use crate::failure::{Answer, Failure};
use crate::follow::Watcher;
use crate::options::Limits;
use crate::outlines::Outlines;

/// Number of requests that read at once; more wait. Each holds a page of messages in memory.
const MAX_READS: usize = 8;

/// The time that a request waits for its turn.
const PATIENCE: Duration = Duration::from_secs(5);

/// The latest time of a JavaScript date, milliseconds since 1970.
pub(crate) const MAX_MILLIS: i64 = 8_640_000_000_000_000;

/// The state that requests are answered from.
pub(crate) struct Library {
    /// Takes keys literally, as they are listed.
    store: StoreHandle,
    /// Takes aliases for the sessions they lead to.
    by_name: StoreHandle,
    title: String,
    outlines: Outlines,
    watcher: Arc<Watcher>,
    reads: Arc<Semaphore>,
    searches: Arc<Semaphore>,
    /// Lets one session at a time be read for a list.
    counts: Arc<Semaphore>,
    streams: Arc<Semaphore>,
    is_over: watch::Sender<bool>,
}

impl Library {
    pub(crate) fn new(handle: StoreHandle, title: String, limits: Limits) -> Self {
        let store = handle.exact_keys();
        Self {
            outlines: Outlines::new(store.clone()),
            watcher: Arc::new(Watcher::new(store.clone(), limits.poll_every)),
            store,
            by_name: handle,
            title,
            reads: Arc::new(Semaphore::new(MAX_READS)),
            searches: Arc::new(Semaphore::new(limits.searches)),
            counts: Arc::new(Semaphore::new(1)),
            streams: Arc::new(Semaphore::new(limits.streams)),
            is_over: watch::Sender::new(false),
        }
    }

    /// Ends the live streams: a server waits for them.
    pub(crate) fn end_streams(&self) {
        self.is_over.send_replace(true);
    }

    async fn turn_to_read(&self) -> Answer<OwnedSemaphorePermit> {
        turn(&self.reads, "requests").await
    }
}

async fn turn(turns: &Arc<Semaphore>, what: &str) -> Answer<OwnedSemaphorePermit> {
    match tokio::time::timeout(PATIENCE, turns.clone().acquire_owned()).await {
        Ok(Ok(turn)) => Ok(turn),
        Ok(Err(_)) | Err(_) => Err(Failure::busy(what)),
    }
}

/// The API's paths.
pub(crate) fn routes() -> Router<Arc<Library>> {
    Router::new()
        .route("/api/store", get(store))
        .route("/api/sessions", get(sessions::sessions))
        .route("/api/session", get(session::session))
        .route("/api/kept", get(session::kept))
        .route("/api/damage", get(session::damage))
        .route("/api/messages", get(messages::messages))
        .route("/api/message", get(messages::message))
        .route("/api/line", get(messages::line))
        .route("/api/locate", get(messages::locate))
        .route("/api/archive", get(archive::archive))
        .route("/api/search", get(search::search))
        .route("/api/live", get(live::live))
}

pub(crate) async fn no_such_page() -> Failure {
    Failure::new(StatusCode::NOT_FOUND, "there is no such page")
}

#[derive(Serialize)]
struct About {
    title: String,
    version: &'static str,
    health: String,
    free_space: Option<u64>,
}

async fn store(
    axum::extract::State(library): axum::extract::State<Arc<Library>>,
) -> Answer<Json<About>> {
    let status = library.store.status().await?;
    Ok(Json(About {
        title: library.title.clone(),
        version: env!("CARGO_PKG_VERSION"),
        health: match status.health {
            sessionlog::Health::Healthy => String::from("healthy"),
            sessionlog::Health::Full => String::from("full"),
            sessionlog::Health::Poisoned { reason } => format!("stopped writing: {reason}"),
            _ => String::from("closed"),
        },
        free_space: status.free_space,
    }))
}

/// Returns the milliseconds since 1970 of a time in a file, if it reads and was ever set.
pub(crate) fn millis(text: &str) -> Option<i64> {
    let format = &time::format_description::well_known::Rfc3339;
    let time = sessionlog::OffsetDateTime::parse(text, format).ok()?;
    let millis = i64::try_from(time.unix_timestamp_nanos() / 1_000_000).ok()?;
    (time.year() > 1 && millis.abs() <= MAX_MILLIS).then_some(millis)
}

/// Returns a request's parameters, or a failure that describes their error.
fn query<T>(read: Result<Query<T>, QueryRejection>) -> Answer<T> {
    match read {
        Ok(Query(wanted)) => Ok(wanted),
        Err(rejection) => Err(Failure::bad(rejection.body_text())),
    }
}
