//! The page's files, as they are in the crate.

use axum::Router;
use axum::http::header;
use axum::response::IntoResponse;
use axum::routing::get;

/// Path, type and text of each.
const FILES: [(&str, &str, &str); 11] = [
    (
        "/",
        "text/html; charset=utf-8",
        include_str!("../page/index.html"),
    ),
    (
        "/style.css",
        "text/css; charset=utf-8",
        include_str!("../page/style.css"),
    ),
    (
        "/icon.svg",
        "image/svg+xml",
        include_str!("../page/icon.svg"),
    ),
    script("/app.js", include_str!("../page/app.js")),
    script("/damage.js", include_str!("../page/damage.js")),
    script("/dom.js", include_str!("../page/dom.js")),
    script("/api.js", include_str!("../page/api.js")),
    script("/feed.js", include_str!("../page/feed.js")),
    script("/markdown.js", include_str!("../page/markdown.js")),
    script("/message.js", include_str!("../page/message.js")),
    script("/usage.js", include_str!("../page/usage.js")),
];

const fn script(
    path: &'static str,
    text: &'static str,
) -> (&'static str, &'static str, &'static str) {
    (path, "text/javascript; charset=utf-8", text)
}

/// Serves the files.
pub(crate) fn routes<S: Clone + Send + Sync + 'static>() -> Router<S> {
    FILES
        .into_iter()
        .fold(Router::new(), |router, (path, kind, text)| {
            let answer =
                move || async move { ([(header::CONTENT_TYPE, kind)], text).into_response() };
            router.route(path, get(answer))
        })
}
