//! Tells a page that something changed, by server-sent events. An event has no content of a
//! session: the page asks for the parts it shows. So a slow page costs nothing, and is told less
//! often.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::response::sse::{Event, KeepAlive, Sse};
use futures_util::Stream;
use futures_util::stream::unfold;
use serde::Deserialize;
use serde_json::json;
use tokio::sync::{OwnedSemaphorePermit, watch};

use super::Library;
use crate::failure::{Answer, Failure};
use crate::follow::{Follower, Notice};

/// The interval at which a quiet stream sends a sign of life, so that a stream ends after its
/// browser is gone.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

#[derive(Deserialize)]
pub(super) struct Wanted {
    /// The session to watch beside the list.
    key: Option<String>,
}

pub(super) async fn live(
    State(library): State<Arc<Library>>,
    wanted: Result<Query<Wanted>, QueryRejection>,
) -> Answer<Sse<impl Stream<Item = Result<Event, Infallible>>>> {
    let Wanted { key } = super::query(wanted)?;
    let Ok(room) = library.streams.clone().try_acquire_owned() else {
        return Err(Failure::busy("live pages"));
    };
    let follower = library.watcher.follow(key).await?;
    let events = Events {
        is_over: library.is_over.subscribe(),
        library,
        follower,
        state: Stage::Greeting,
        _room: room,
    };
    let events = unfold(events, Events::next);
    Ok(Sse::new(events).keep_alive(KeepAlive::new().interval(KEEP_ALIVE)))
}

struct Events {
    library: Arc<Library>,
    follower: Follower,
    is_over: watch::Receiver<bool>,
    state: Stage,
    _room: OwnedSemaphorePermit,
}

enum Stage {
    Greeting,
    Following,
    Over,
}

impl Events {
    async fn next(mut self) -> Option<(Result<Event, Infallible>, Self)> {
        let event = match self.state {
            // From here on nothing is missed: the page looks once more.
            Stage::Greeting => {
                self.state = Stage::Following;
                event("ready", "{}")
            }
            Stage::Following => tokio::select! {
                notice = self.library.watcher.next(&mut self.follower) => match notice {
                    Ok(notice) => changed(notice),
                    Err(error) => {
                        self.state = Stage::Over;
                        event("end", &json!({ "error": error.to_string() }).to_string())
                    }
                },
                _ = self.is_over.wait_for(|is_over| *is_over) => return None,
            },
            Stage::Over => return None,
        };
        Some((Ok(event), self))
    }
}

fn changed(notice: Notice) -> Event {
    let Notice { session, sessions } = notice;
    let data = json!({ "session": session, "sessions": sessions });
    event("change", &data.to_string())
}

fn event(name: &str, data: &str) -> Event {
    Event::default().event(name).data(data)
}
