//! A store under more threads than the machine has processors. What it asserts is
//! little; what it is for is to be run under a sanitizer of threads.

use std::thread;

use sessionlog::{Store, StoreOptions};

use super::support::scratch;

const WRITERS: usize = 4;
const READERS: usize = 3;
const MESSAGES: usize = 60;
const SESSIONS: usize = 12;

#[test]
fn writers_readers_and_flushes_get_along() {
    let dir = scratch();
    let options = StoreOptions::new().journal_segments(16 << 10, 64 << 10);
    let store = Store::open_with(dir.path(), options).unwrap();
    thread::scope(|scope| {
        for writer in 0..WRITERS {
            let chats = store.handle();
            scope.spawn(move || {
                for message in 0..MESSAGES {
                    let key = key(message % SESSIONS);
                    let text = format!("{writer} {message}");
                    chats.add_message(&key, "user", &text).wait().unwrap();
                    let seen = chats.tail(&key, WRITERS * MESSAGES).wait().unwrap();
                    assert!(seen.iter().any(|m| m.text() == text), "is not seen");
                }
            });
        }
        for _ in 0..READERS {
            let chats = store.handle();
            scope.spawn(move || {
                let mut seen = [0; SESSIONS];
                for look in 0..MESSAGES {
                    let session = look % SESSIONS;
                    let found = chats.history(&key(session)).wait().unwrap().len();
                    assert!(found >= seen[session], "a message has gone");
                    seen[session] = found;
                }
            });
        }
        let chats = store.handle();
        scope.spawn(move || {
            for _ in 0..3 {
                chats.flush().wait().unwrap();
                chats.compact(&key(0)).wait().unwrap();
            }
        });
    });
    let chats = store.handle();
    let all: usize = (0..SESSIONS)
        .map(|session| chats.history(&key(session)).wait().unwrap().len())
        .sum();
    assert_eq!(all, WRITERS * MESSAGES);
    store.close().unwrap();
}

fn key(session: usize) -> String {
    format!("chat-{session}")
}
