//! Who may look, and what an answer allows a browser. What is lost otherwise: any page that a
//! person visits could read all chats of the machine.

use axum::http::{HeaderValue, Method, Request, StatusCode};
use sessionlog_viewer::{Viewer, ViewerError, ViewerOptions};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use crate::asked::{TOKEN, get, send, viewer};
use crate::stores;

const API: [&str; 12] = [
    "/api/damage?key=slack:ops",
    "/api/line?key=slack:ops&position=0-0",
    "/api/kept?key=slack:ops",
    "/api/store",
    "/api/sessions",
    "/api/session?key=slack:ops",
    "/api/messages?key=slack:ops",
    "/api/message?key=slack:ops&index=0",
    "/api/locate?key=slack:ops&position=0-0",
    "/api/archive?key=slack:ops&month=2026-11",
    "/api/search?q=deploy",
    "/api/live",
];

fn without_token<T>(request: &mut Request<T>) {
    request.headers_mut().remove("authorization");
}

#[tokio::test]
async fn nothing_of_a_store_is_answered_without_the_token() {
    let store = stores::empty();
    stores::furnished(&store.chats);
    let router = viewer(store.chats.clone()).router();
    for path in API {
        let answer = send(&router, path, without_token).await;
        assert_eq!(answer.status, StatusCode::UNAUTHORIZED, "{path}");
        assert!(answer.json()["error"].as_str().unwrap().contains("URL"));
        for wrong in [
            "",
            "a-token-for-the-test",
            "A-token-for-the-tests",
            "a-token-for-the-tests2",
        ] {
            let answer = send(&router, path, |request| {
                let value = HeaderValue::from_str(&format!("Bearer {wrong}")).unwrap();
                request.headers_mut().insert("authorization", value);
            });
            assert_eq!(
                answer.await.status,
                StatusCode::UNAUTHORIZED,
                "{path} {wrong}"
            );
        }
    }
}

#[tokio::test]
async fn the_url_gives_the_token_once_and_a_cookie_keeps_it() {
    let store = stores::empty();
    let viewer = viewer(store.chats.clone());
    let url = viewer.url("127.0.0.1:8080".parse().unwrap());
    assert_eq!(url, format!("http://127.0.0.1:8080/?token={TOKEN}"));
    let router = viewer.router();
    let answer = send(&router, &format!("/?token={TOKEN}"), without_token).await;
    assert_eq!(
        (answer.status, answer.header("location")),
        (StatusCode::SEE_OTHER, "/")
    );
    let cookie = answer.header("set-cookie").to_owned();
    for part in ["HttpOnly", "SameSite=Strict", "Path=/"] {
        assert!(cookie.contains(part), "{cookie}");
    }
    let kept = cookie.split(';').next().unwrap().to_owned();
    let answer = send(&router, "/api/sessions", |request| {
        without_token(request);
        let cookies = HeaderValue::from_str(&format!("other=1; {kept}")).unwrap();
        request.headers_mut().insert("cookie", cookies);
    });
    assert_eq!(answer.await.status, StatusCode::OK);

    let wrong = send(&router, "/?token=another-token-of-16", without_token).await;
    assert_eq!(wrong.status, StatusCode::UNAUTHORIZED);
    assert!(wrong.headers.get("set-cookie").is_none());
}

#[tokio::test]
async fn a_token_is_random_unless_given_and_one_that_can_be_guessed_is_refused() {
    let store = stores::empty();
    let new = |options| Viewer::new(store.chats.clone(), options);
    let tokens = [(); 2].map(|()| {
        new(ViewerOptions::new())
            .unwrap()
            .token()
            .unwrap()
            .to_owned()
    });
    assert_ne!(tokens[0], tokens[1]);
    assert_eq!(tokens[0].len(), 64);
    for bad in [
        "",
        "short",
        "spaces are no letters",
        "semi;colons=are;no=letters",
    ] {
        let error = new(ViewerOptions::new().token(bad)).unwrap_err();
        assert_eq!(error, ViewerError::InvalidToken, "{bad:?}");
    }
    assert!(
        new(ViewerOptions::new().without_token())
            .unwrap()
            .token()
            .is_none()
    );
    let error = new(ViewerOptions::new().without_token().beyond_loopback(true));
    assert_eq!(error.unwrap_err(), ViewerError::TokenRequired);
}

#[tokio::test]
async fn no_name_of_the_host_that_others_could_make_is_answered() {
    let store = stores::empty();
    let status = async |options: ViewerOptions, host: &str| {
        let options = options.token(TOKEN);
        let router = Viewer::new(store.chats.clone(), options).unwrap().router();
        let answer = send(&router, "/api/sessions", |request| {
            let host = HeaderValue::from_str(host).unwrap();
            request.headers_mut().insert("host", host);
        });
        answer.await.status
    };
    let own = [
        "127.0.0.1",
        "127.0.0.1:80",
        "localhost:1",
        "LOCALHOST",
        "[::1]:8080",
        "[::1]",
    ];
    for host in own {
        assert_eq!(
            status(ViewerOptions::new(), host).await,
            StatusCode::OK,
            "{host}"
        );
    }
    let others = [
        "evil.example",
        "127.0.0.1.evil.example",
        "localhost.evil.example",
        "192.168.1.7:8080",
        "",
        "127.0.0.1@evil.example",
        "localhost:80:80",
        "0x7f000001",
    ];
    for host in others {
        let found = status(ViewerOptions::new(), host).await;
        assert_eq!(found, StatusCode::MISDIRECTED_REQUEST, "{host}");
    }
    let named = ViewerOptions::new().host("Chats.example");
    assert_eq!(
        status(named.clone(), "chats.example:443").await,
        StatusCode::OK
    );
    assert_eq!(
        status(named, "more.chats.example").await,
        StatusCode::MISDIRECTED_REQUEST
    );
    let public = ViewerOptions::new().beyond_loopback(true);
    assert_eq!(
        status(public.clone(), "192.168.1.7:8080").await,
        StatusCode::OK
    );
    assert_eq!(
        status(public, "evil.example").await,
        StatusCode::MISDIRECTED_REQUEST
    );

    let router = viewer(store.chats.clone()).router();
    let without = send(&router, "/api/sessions", |request| {
        request.headers_mut().remove("host");
    });
    assert_eq!(without.await.status, StatusCode::MISDIRECTED_REQUEST);
    let two = send(&router, "/", |request| {
        request
            .headers_mut()
            .append("host", HeaderValue::from_static("evil.example"));
    });
    assert_eq!(two.await.status, StatusCode::MISDIRECTED_REQUEST);
}

#[tokio::test]
async fn the_api_answers_no_page_of_another_site() {
    let store = stores::empty();
    let open = ViewerOptions::new().without_token();
    let open = Viewer::new(store.chats.clone(), open).unwrap().router();
    for router in [viewer(store.chats.clone()).router(), open] {
        for (site, status) in [
            ("same-origin", StatusCode::OK),
            ("none", StatusCode::OK),
            ("same-site", StatusCode::FORBIDDEN),
            ("cross-site", StatusCode::FORBIDDEN),
        ] {
            let answer = send(&router, "/api/sessions", |request| {
                let site = HeaderValue::from_str(site).unwrap();
                request.headers_mut().insert("sec-fetch-site", site);
            });
            let answer = answer.await;
            assert_eq!(answer.status, status, "{site}");
            assert!(answer.headers.get("access-control-allow-origin").is_none());
        }
    }
}

#[tokio::test]
async fn no_page_of_a_foreign_origin_is_answered() {
    let store = stores::empty();
    let options = ViewerOptions::new().token(TOKEN).host("chat.example");
    let router = Viewer::new(store.chats.clone(), options).unwrap().router();
    for path in ["/", "/api/sessions"] {
        for (origin, status) in [
            ("http://127.0.0.1:8080", StatusCode::OK),
            ("https://chat.example", StatusCode::OK),
            ("http://127.0.0.1:9999", StatusCode::FORBIDDEN),
            ("http://localhost:8080", StatusCode::FORBIDDEN),
            ("https://evil.example", StatusCode::FORBIDDEN),
            ("null", StatusCode::FORBIDDEN),
            ("", StatusCode::FORBIDDEN),
        ] {
            let answer = send(&router, path, |request| {
                let origin = HeaderValue::from_str(origin).unwrap();
                request.headers_mut().insert("origin", origin);
            });
            assert_eq!(answer.await.status, status, "{path} {origin}");
        }
    }
}

#[tokio::test]
async fn only_reading_is_answered() {
    let store = stores::empty();
    let router = viewer(store.chats.clone()).router();
    for path in ["/", "/api/sessions", "/nowhere"] {
        for method in [
            Method::POST,
            Method::PUT,
            Method::DELETE,
            Method::PATCH,
            Method::OPTIONS,
            Method::TRACE,
        ] {
            let answer = send(&router, path, |request| {
                *request.method_mut() = method.clone();
            })
            .await;
            assert_eq!(
                answer.status,
                StatusCode::METHOD_NOT_ALLOWED,
                "{method} {path}"
            );
            assert_eq!(answer.header("allow"), "GET, HEAD");
        }
    }
    let head = send(&router, "/", |request| *request.method_mut() = Method::HEAD).await;
    assert_eq!((head.status, &*head.text), (StatusCode::OK, ""));
}

#[tokio::test]
async fn every_answer_forbids_the_browser_what_the_page_does_not_need() {
    let store = stores::empty();
    stores::furnished(&store.chats);
    let router = viewer(store.chats.clone()).router();
    let mut paths = vec![
        "/",
        "/app.js",
        "/style.css",
        "/icon.svg",
        "/nowhere",
        "/api/nowhere",
    ];
    paths.extend(API);
    for path in paths {
        if path == "/api/live" {
            continue;
        }
        let answer = get(&router, path).await;
        let policy = answer.header("content-security-policy");
        for part in [
            "default-src 'none'",
            "script-src 'self'",
            "connect-src 'self'",
            "base-uri 'none'",
            "form-action 'none'",
            "frame-ancestors 'none'",
            "require-trusted-types-for 'script'",
        ] {
            assert!(policy.contains(part), "{path}: {policy}");
        }
        assert!(
            !policy.contains("unsafe") && !policy.contains("http"),
            "{policy}"
        );
        assert_eq!(answer.header("x-content-type-options"), "nosniff", "{path}");
        assert_eq!(answer.header("referrer-policy"), "no-referrer", "{path}");
        assert_eq!(answer.header("cache-control"), "no-store", "{path}");
        assert_eq!(
            answer.header("cross-origin-resource-policy"),
            "same-origin",
            "{path}"
        );
    }
    let refused = send(&router, "/api/store", without_token).await;
    assert!(refused.header("content-security-policy").contains("'none'"));
}

#[tokio::test]
async fn the_page_names_no_other_host_and_has_no_script_in_it() {
    let store = stores::empty();
    let router = viewer(store.chats.clone()).router();
    let page = get(&router, "/").await.text;
    let scripts: Vec<_> = page.match_indices("<script").collect();
    assert_eq!(scripts.len(), 1);
    assert!(page.contains(r#"<script type="module" src="/app.js"></script>"#));
    assert!(!page.contains(" style=") && !page.contains(" onclick"));
    let files = [
        "/app.js",
        "/api.js",
        "/dom.js",
        "/feed.js",
        "/markdown.js",
        "/message.js",
        "/usage.js",
        "/style.css",
        "/",
    ];
    for file in files {
        let answer = get(&router, file).await;
        assert_eq!(answer.status, StatusCode::OK, "{file}");
        let text = answer.text.replace("http://www.w3.org/2000/svg", "");
        assert!(!text.contains("://"), "{file}");
        for door in [
            "innerHTML",
            "outerHTML",
            "insertAdjacentHTML",
            "document.write",
            "eval(",
            "DOMParser",
            "srcdoc",
        ] {
            assert!(!text.contains(door), "{file}: {door}");
        }
    }
}

#[tokio::test]
async fn a_listener_that_others_reach_is_refused_unless_it_was_asked_for() {
    let store = stores::empty();
    let listener = TcpListener::bind("0.0.0.0:0").await.unwrap();
    let error = viewer(store.chats.clone())
        .serve(listener)
        .await
        .unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::PermissionDenied);
    assert!(error.to_string().contains("beyond_loopback"), "{error}");

    let listener = TcpListener::bind("0.0.0.0:0").await.unwrap();
    let addr = listener.local_addr().unwrap();
    let options = ViewerOptions::new().beyond_loopback(true).token(TOKEN);
    let viewer = Viewer::new(store.chats.clone(), options).unwrap();
    assert!(viewer.url(addr).starts_with("http://127.0.0.1:"));
    let serving = viewer.clone();
    let server = tokio::spawn(async move { serving.serve(listener).await });
    let answer = raw(
        addr.port(),
        "GET /api/store HTTP/1.0\r\nHost: 127.0.0.1\r\n\r\n",
    )
    .await;
    assert!(answer.contains("401 Unauthorized"), "{answer}");
    server.abort();
}

/// What a server answers to some bytes, up to its end.
async fn raw(port: u16, request: &str) -> String {
    let mut stream = tokio::net::TcpStream::connect(("127.0.0.1", port))
        .await
        .unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.unwrap();
    String::from_utf8_lossy(&answer).into_owned()
}

#[tokio::test]
async fn neither_token_nor_content_stands_in_what_is_logged_of_a_viewer() {
    let store = stores::empty();
    let options = ViewerOptions::new().token(TOKEN);
    assert!(!format!("{options:?}").contains(TOKEN));
    let viewer = Viewer::new(store.chats.clone(), options).unwrap();
    assert!(!format!("{viewer:?}").contains(TOKEN));
}
