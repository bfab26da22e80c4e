//! Asking a viewer's router.

use std::fmt::Write;

use axum::Router;
use axum::body::Body;
use axum::http::{HeaderMap, Request, StatusCode};
use http_body_util::BodyExt;
use serde_json::Value;
use sessionlog::StoreHandle;
use sessionlog_viewer::{Viewer, ViewerOptions};
use tower::ServiceExt;

pub(crate) const TOKEN: &str = "a-token-for-the-tests";

/// A viewer with the token of the tests.
pub(crate) fn viewer(store: StoreHandle) -> Viewer {
    Viewer::new(store, ViewerOptions::new().token(TOKEN)).unwrap()
}

/// What came back.
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) text: String,
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap()
    }

    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers
            .get(name)
            .map_or("", |value| value.to_str().unwrap())
    }
}

/// A request that is let in, but for what `with` makes of it.
pub(crate) async fn send(
    router: &Router,
    path: &str,
    with: impl FnOnce(&mut Request<Body>),
) -> Answer {
    let mut request = Request::get(path)
        .header("host", "127.0.0.1:8080")
        .header("authorization", format!("Bearer {TOKEN}"))
        .body(Body::empty())
        .unwrap();
    with(&mut request);
    let response = router.clone().oneshot(request).await.unwrap();
    let (parts, body) = response.into_parts();
    let body = body.collect().await.unwrap().to_bytes();
    Answer {
        status: parts.status,
        headers: parts.headers,
        text: String::from_utf8(body.to_vec()).unwrap(),
    }
}

/// What a path answers to who is let in.
pub(crate) async fn get(router: &Router, path: &str) -> Answer {
    send(router, path, |_| ()).await
}

/// The JSON of it, if all is well.
pub(crate) async fn json(router: &Router, path: &str) -> Value {
    let answer = get(router, path).await;
    assert_eq!(answer.status, StatusCode::OK, "{path}: {}", answer.text);
    answer.json()
}

/// `text` as it stands in a query.
pub(crate) fn quoted(text: &str) -> String {
    text.bytes().fold(String::new(), |mut quoted, byte| {
        write!(quoted, "%{byte:02X}").unwrap();
        quoted
    })
}
