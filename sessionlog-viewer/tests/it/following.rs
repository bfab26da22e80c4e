//! Live updates: nothing of a session is in them, and none is missed.

use std::time::Duration;

use axum::body::Body;
use axum::http::Request;
use http_body_util::BodyExt;
use serde_json::{Value, json};
use sessionlog::{Store, StoreHandle};
use sessionlog_viewer::{Viewer, ViewerOptions};
use tower::ServiceExt;

use crate::asked::TOKEN;
use crate::stores;

/// Far longer than anything here takes: who waits so long waits in vain.
const LIMIT: Duration = Duration::from_secs(30);

fn viewer(store: StoreHandle) -> Viewer {
    let options = ViewerOptions::new()
        .token(TOKEN)
        .poll_every(Duration::from_millis(50));
    Viewer::new(store, options).unwrap()
}

/// The events of a stream, one after the other.
struct Events {
    body: Body,
    text: String,
}

impl Events {
    async fn of(viewer: &Viewer, key: Option<&str>) -> Self {
        let path = key.map_or_else(
            || String::from("/api/live"),
            |key| format!("/api/live?key={key}"),
        );
        let request = Request::get(path)
            .header("host", "localhost")
            .header("authorization", format!("Bearer {TOKEN}"))
            .body(Body::empty())
            .unwrap();
        let response = viewer.router().oneshot(request).await.unwrap();
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        let mut events = Self {
            body: response.into_body(),
            text: String::new(),
        };
        assert_eq!(
            events.next().await,
            Some((String::from("ready"), json!({})))
        );
        events
    }

    /// The next event that is no comment.
    async fn next(&mut self) -> Option<(String, Value)> {
        loop {
            if let Some((event, rest)) = self.text.split_once("\n\n") {
                let event = event.to_owned();
                self.text = String::from(rest);
                let line = |name: &str| {
                    event
                        .lines()
                        .find_map(|l| Some(l.strip_prefix(name)?.trim().to_owned()))
                };
                if let (Some(name), Some(data)) = (line("event:"), line("data:")) {
                    return Some((name, serde_json::from_str(&data).unwrap()));
                }
                continue;
            }
            let frame = tokio::time::timeout(LIMIT, self.body.frame())
                .await
                .expect("an event");
            let bytes = frame?.unwrap().into_data().unwrap();
            self.text.push_str(std::str::from_utf8(&bytes).unwrap());
        }
    }

    /// Waits for a change of the session that is watched, or of another.
    async fn change(&mut self, of_session: bool) {
        loop {
            let (name, data) = self.next().await.expect("the stream goes on");
            assert_eq!(name, "change");
            if data["session"] == of_session {
                return;
            }
        }
    }
}

#[tokio::test]
async fn a_page_learns_of_changes_by_the_store_itself_and_by_another_process() {
    let store = stores::empty();
    stores::numbered(&store.chats, "watched", 2);
    let beside: Store = store.beside();
    for handle in [store.chats.clone(), beside.handle()] {
        let viewer = viewer(handle);
        let mut events = Events::of(&viewer, Some("watched")).await;
        store
            .chats
            .add_message("watched", "user", "secret")
            .wait()
            .unwrap();
        events.change(true).await;
        store
            .chats
            .add_message("other", "user", "hi")
            .wait()
            .unwrap();
        events.change(false).await;
        store.chats.truncate_history("watched", 1).wait().unwrap();
        events.change(true).await;
        assert!(!events.text.contains("secret"));
        let mut list = Events::of(&viewer, None).await;
        store.chats.delete_session("other").wait().unwrap();
        list.change(false).await;
    }
}

#[tokio::test]
async fn a_flood_of_changes_is_told_in_few_events() {
    let store = stores::empty();
    stores::numbered(&store.chats, "busy", 1);
    let viewer = viewer(store.chats.clone());
    let mut events = Events::of(&viewer, Some("busy")).await;
    for n in 0..2_000 {
        store
            .chats
            .add_message("busy", "user", &n.to_string())
            .wait()
            .unwrap();
    }
    store
        .chats
        .add_message("last", "user", "the end")
        .wait()
        .unwrap();
    // Nobody read meanwhile: what waits is one event, not 2,000.
    events.change(true).await;
    let mut told = 1;
    while let Ok(Some(_)) = tokio::time::timeout(Duration::from_secs(1), events.next()).await {
        told += 1;
    }
    assert!(told < 20, "{told} events");
}

#[tokio::test]
async fn the_end_of_the_store_ends_the_stream() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path()).unwrap();
    let viewer = viewer(store.handle());
    let mut events = Events::of(&viewer, None).await;
    tokio::task::spawn_blocking(|| store.close())
        .await
        .unwrap()
        .unwrap();
    let (name, data) = events.next().await.unwrap();
    assert_eq!(name, "end");
    assert!(data["error"].as_str().unwrap().contains("closed"));
    assert_eq!(events.next().await, None);
}
