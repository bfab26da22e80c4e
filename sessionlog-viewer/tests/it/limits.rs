//! What a viewer takes on at once.

use std::time::Duration;

use axum::http::StatusCode;
use sessionlog::Message;
use sessionlog_viewer::{Viewer, ViewerOptions};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::asked::{TOKEN, get};
use crate::stores;

const LIMIT: Duration = Duration::from_secs(30);

async fn serving(
    options: ViewerOptions,
) -> (
    stores::Written,
    u16,
    tokio::sync::oneshot::Sender<()>,
    tokio::task::JoinHandle<()>,
) {
    let store = stores::empty();
    stores::numbered(&store.chats, "k", 3);
    let viewer = Viewer::new(store.chats.clone(), options.token(TOKEN)).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let (stop, stopped) = tokio::sync::oneshot::channel();
    let server = tokio::spawn(async move {
        let end = async {
            stopped.await.ok();
        };
        viewer.serve_until(listener, end).await.unwrap();
    });
    (store, port, stop, server)
}

async fn asking(port: u16, path: &str) -> TcpStream {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
    let request =
        format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    stream
}

/// Reads until `text` was sent.
async fn until(stream: &mut TcpStream, text: &str) -> String {
    let mut got = String::new();
    let mut bytes = [0; 4096];
    while !got.contains(text) {
        let n = tokio::time::timeout(LIMIT, stream.read(&mut bytes))
            .await
            .expect(text)
            .unwrap();
        assert!(n > 0, "the connection ended after {got}");
        got.push_str(&String::from_utf8_lossy(&bytes[..n]));
    }
    got
}

#[tokio::test]
async fn more_live_pages_than_allowed_are_refused_until_one_is_closed() {
    let (_store, port, _stop, _server) = serving(ViewerOptions::new().max_streams(2)).await;
    let mut first = asking(port, "/api/live").await;
    let mut second = asking(port, "/api/live").await;
    until(&mut first, "ready").await;
    until(&mut second, "ready").await;
    let refused = until(&mut asking(port, "/api/live").await, "}").await;
    assert!(
        refused.contains("503 Service Unavailable") && refused.contains("too many"),
        "{refused}"
    );
    drop(first);
    // The server learns of the end when it reads or writes next.
    let again = async {
        loop {
            let mut stream = asking(port, "/api/live").await;
            if until(&mut stream, "\r\n\r\n").await.contains("200 OK") {
                return;
            }
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(LIMIT, again)
        .await
        .expect("room for another page");
}

#[tokio::test]
async fn more_connections_than_allowed_are_refused_until_one_ends() {
    let (_store, port, _stop, _server) = serving(ViewerOptions::new().max_connections(1)).await;
    let mut first = asking(port, "/api/store").await;
    until(&mut first, "healthy").await;
    let refused = until(&mut asking(port, "/api/store").await, "}").await;
    assert!(refused.contains("503 Service Unavailable"), "{refused}");
    drop(first);
    // The server learns of the end when it reads next.
    let again = async {
        loop {
            let mut stream = asking(port, "/api/store").await;
            if until(&mut stream, "\r\n\r\n").await.contains("200 OK") {
                return;
            }
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(LIMIT, again)
        .await
        .expect("room for another connection");
}

/// Waits for the other side to close.
async fn is_closed(stream: &mut TcpStream) -> bool {
    let mut bytes = [0; 4096];
    loop {
        match stream.read(&mut bytes).await {
            Ok(0) | Err(_) => return true,
            Ok(_) => {}
        }
    }
}

#[tokio::test]
async fn five_hundred_hostile_connections_keep_nobody_out_who_has_the_token() {
    let (_store, port, _stop, _server) = serving(ViewerOptions::new()).await;
    let mut live = asking(port, "/api/live").await;
    until(&mut live, "ready").await;
    let mut inside = asking(port, "/api/store").await;
    until(&mut inside, "healthy").await;
    let mut hostile = Vec::new();
    for n in 0..500 {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
        let sent = match n % 4 {
            0 => "",
            1 => "GET /api/store HTTP/1.1\r\nHost: local",
            2 => "GET / HTTP/1.1\r\nHost: localhost\r\n\r\nGET / HTTP/1.1\r\nHost: localhost\r\n",
            _ => {
                "GET /api/store HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer guessed\r\n\r\n"
            }
        };
        // It may have been shown out already.
        let _ = stream.write_all(sent.as_bytes()).await;
        hostile.push(stream);
    }
    // Long before the first of them has to go for having said nothing.
    let served = async {
        let request = "GET /api/store HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ";
        let request = format!("{request}{TOKEN}\r\n\r\n");
        inside.write_all(request.as_bytes()).await.unwrap();
        until(&mut inside, "healthy").await;
        until(&mut asking(port, "/api/store").await, "healthy").await;
    };
    tokio::time::timeout(Duration::from_secs(5), served)
        .await
        .expect("an answer");
    // The first of them made room for the others.
    assert!(is_closed(&mut hostile[0]).await);
    let mut byte = [0];
    let ended = live.try_read(&mut byte);
    assert!(!matches!(ended, Ok(0)), "{ended:?}");
}

#[tokio::test(start_paused = true)]
async fn who_shows_no_token_in_time_is_shown_out_and_who_did_may_stay() {
    let (_store, port, _stop, _server) = serving(ViewerOptions::new()).await;
    let mut reader = asking(port, "/api/store").await;
    until(&mut reader, "healthy").await;
    let mut half = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
    half.write_all(b"GET /api/store HTTP/1.1\r\nHost: local")
        .await
        .unwrap();
    tokio::time::timeout(LIMIT, is_closed(&mut half))
        .await
        .expect("it is shown out");
    let mut byte = [0];
    let stays = tokio::time::timeout(LIMIT, reader.read(&mut byte)).await;
    assert!(stays.is_err(), "{stays:?}");
}

#[tokio::test]
async fn stopping_ends_live_streams_and_then_the_server() {
    let (_store, port, stop, server) = serving(ViewerOptions::new()).await;
    let mut live = asking(port, "/api/live").await;
    until(&mut live, "ready").await;
    stop.send(()).unwrap();
    tokio::time::timeout(LIMIT, server)
        .await
        .expect("the server ends")
        .unwrap();
}

#[tokio::test]
async fn an_answer_has_a_bounded_number_of_messages_and_sessions() {
    let store = stores::empty();
    stores::numbered(&store.chats, "long", 1_000);
    let viewer = Viewer::new(store.chats.clone(), ViewerOptions::new().token(TOKEN)).unwrap();
    let router = viewer.router();
    let page = get(&router, "/api/messages?key=long&from=0&limit=1000000").await;
    assert_eq!(page.status, StatusCode::OK);
    assert_eq!(page.json()["messages"].as_array().unwrap().len(), 200);
    let hits = get(&router, "/api/search?q=message&limit=1000000")
        .await
        .json();
    assert_eq!(hits["hits"].as_array().unwrap().len(), 100);
}

#[tokio::test]
async fn a_page_of_messages_full_of_everything_is_small_and_says_what_is_left_out() {
    let store = stores::empty();
    let long = "x".repeat(20_000);
    let mut message = Message::assistant(&*long).with_reasoning(&*long);
    for n in 0..60 {
        message = message
            .with_tool_call(format!("call_{n}"), "tool", &*long)
            .with_media(&*long);
    }
    let messages = vec![message; 4];
    store.chats.append_all("full", messages).wait().unwrap();
    let viewer = Viewer::new(store.chats.clone(), ViewerOptions::new().token(TOKEN)).unwrap();
    let page = get(&viewer.router(), "/api/messages?key=full").await;
    let bytes = page.text.len();
    assert!(bytes < 4 * 100_000, "{bytes} bytes");
    let page = page.json();
    let messages = page["messages"].as_array().unwrap();
    assert_eq!(messages.len(), 4);
    assert!(messages.iter().all(|message| message["cut"] == true));
}
