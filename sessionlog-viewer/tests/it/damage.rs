//! Damage: which sessions have it, where, and what it is.

use std::fs::OpenOptions;
use std::io::{Seek, SeekFrom, Write};
use std::path::Path;

use axum::http::StatusCode;
use serde_json::{Value, json};

use crate::asked::{get, json as ask, viewer};
use crate::stores::{self, Written};

/// `bad` has three lines that do not decode: before its messages, among them, and at the end.
fn spoiled() -> Written {
    let store = stores::empty();
    for key in ["bad", "good", "lost"] {
        stores::numbered(&store.chats, key, 4);
    }
    store.after(|dir| {
        stores::insert_line(dir, "bad", 0, b"{\"role\":\xff\0");
        stores::insert_line(dir, "bad", 3, &b"x".repeat(5_000));
        stores::insert_line(dir, "bad", 6, b"");
        stores::insert_line(dir, "bad", 7, b"[]");
        stores::lose(dir, "lost");
    })
}

/// The lines that do not decode, as a page of messages has them.
fn damaged(page: &Value) -> Vec<(u64, String)> {
    let marks = page["marks"].as_array().unwrap().iter();
    let damaged = marks.filter(|mark| mark["kind"] == "damaged");
    let place = |mark: &Value| {
        let position = mark["position"].as_str().unwrap().to_owned();
        (mark["before"].as_u64().unwrap(), position)
    };
    damaged.map(place).collect()
}

#[tokio::test]
async fn damaged_lines_are_counted_and_said_to_stand_where_they_do() {
    let store = spoiled();
    let beside = store.beside();
    for handle in [store.chats.clone(), beside.handle()] {
        let router = viewer(handle).router();
        for (key, lines) in [("bad", 3), ("good", 0)] {
            let damage = ask(&router, &format!("/api/damage?key={key}")).await;
            assert_eq!(damage, json!({ "lines": lines }));
        }
        let session = ask(&router, "/api/session?key=bad").await;
        assert_eq!(
            (&session["damaged"], &session["damaged_before"]),
            (&json!(3), &json!([0, 2, 4]))
        );
        let page = ask(&router, "/api/messages?key=bad").await;
        let places: Vec<_> = damaged(&page).iter().map(|(before, _)| *before).collect();
        assert_eq!(places, [0, 2, 4]);
    }
}

#[tokio::test]
async fn a_session_that_cannot_be_read_is_named_in_the_list_and_says_why() {
    let store = spoiled();
    let beside = store.beside();
    for handle in [store.chats.clone(), beside.handle()] {
        let router = viewer(handle).router();
        for order in ["updated", "name"] {
            let page = ask(&router, &format!("/api/sessions?order={order}")).await;
            assert_eq!(page["unreadable"], json!(["lost"]), "{order}");
            assert_eq!(page["sessions"].as_array().unwrap().len(), 2, "{order}");
        }
        for path in ["/api/session?key=lost", "/api/damage?key=lost"] {
            let answer = get(&router, path).await;
            assert_eq!(answer.status, StatusCode::INTERNAL_SERVER_ERROR, "{path}");
            assert!(answer.text.contains("lost.jsonl"), "{}", answer.text);
        }
    }
}

/// What is lost otherwise: a busy session in sight would be read whole with each message.
#[tokio::test]
async fn a_session_of_a_list_is_read_once_and_then_what_is_added() {
    let store = spoiled();
    let beside = store.beside();
    let handles = [store.chats.clone(), beside.handle()];
    let routers = handles.map(|handle| viewer(handle).router());
    for router in &routers {
        assert_eq!(ask(router, "/api/damage?key=good").await["lines"], 0);
    }
    // Unseen by a count that goes on where it was: the first and the last line decode no more.
    let path = store.dir.path().join("good.jsonl");
    let bytes = std::fs::read(&path).unwrap();
    let newline = |byte: &u8| *byte == b'\n';
    let last = 1 + bytes[..bytes.len() - 1].iter().rposition(newline).unwrap();
    for at in [0, last] {
        overwrite(&path, at as u64, b"#");
    }
    let add = |text: &str| store.chats.add_message("good", "user", text).wait();
    add("more").unwrap();
    for router in &routers {
        assert_eq!(ask(router, "/api/damage?key=good").await["lines"], 0);
    }
    // A truncation makes another line the first one: all is read anew.
    store.chats.truncate_history("good", 2).wait().unwrap();
    for router in &routers {
        assert_eq!(ask(router, "/api/damage?key=good").await["lines"], 1);
    }
}

fn overwrite(path: &Path, at: u64, bytes: &[u8]) {
    let mut file = OpenOptions::new().write(true).open(path).unwrap();
    file.seek(SeekFrom::Start(at)).unwrap();
    file.write_all(bytes).unwrap();
}

#[tokio::test]
async fn a_damaged_line_is_had_as_bytes_and_of_a_long_one_the_beginning() {
    let store = spoiled();
    let beside = store.beside();
    for handle in [store.chats.clone(), beside.handle()] {
        let router = viewer(handle).router();
        let page = ask(&router, "/api/messages?key=bad").await;
        let [(_, first), (_, long), (_, last)] = &damaged(&page)[..] else {
            panic!("{page}");
        };
        let line = async |position: &str| {
            let path = format!("/api/line?key=bad&position={position}");
            ask(&router, &path).await
        };
        let bytes = json!({ "size": 10, "hex": "7b22726f6c65223aff00" });
        assert_eq!(line(first).await, bytes);
        let bytes = json!({ "size": 5_000, "hex": "78".repeat(4_096) });
        assert_eq!(line(long).await, bytes);
        assert_eq!(line(last).await, json!({ "size": 2, "hex": "5b5d" }));
        let other = get(&router, "/api/line?key=bad&position=1234567-5").await;
        assert_eq!(other.status, StatusCode::CONFLICT);
    }
}
