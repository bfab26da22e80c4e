//! Input, directories and machines that are not as they should be.

mod directories;
mod folding;
mod impostors;
mod lifecycle;
mod limits;
mod machine;
mod poison;
mod shown;
mod sidecars;
mod unreadable;
mod wakers;

use std::sync::mpsc;
use std::time::Duration;

use sessionlog::{Message, Result, StoreHandle};

/// Runs what must not hang.
fn within<T: Send + 'static>(what: &str, work: impl FnOnce() -> T + Send + 'static) -> T {
    let (done, result) = mpsc::channel();
    std::thread::spawn(move || done.send(work()));
    match result.recv_timeout(Duration::from_secs(30)) {
        Ok(result) => result,
        Err(error) => panic!("{what}: {error}"),
    }
}

/// The result of every verb that writes.
fn every_write(chats: &StoreHandle, key: &str) -> Vec<(&'static str, Result<()>)> {
    let user = || Message::user("x");
    let aliases = || vec![String::from("alias")];
    vec![
        ("add_message", chats.add_message(key, "user", "x").wait()),
        (
            "add_full_message",
            chats.add_full_message(key, user()).wait(),
        ),
        ("append_all", chats.append_all(key, vec![user()]).wait()),
        ("set_history", chats.set_history(key, vec![user()]).wait()),
        ("set_summary", chats.set_summary(key, "s").wait()),
        ("truncate_history", chats.truncate_history(key, 1).wait()),
        ("compact", chats.compact(key).wait()),
        ("delete_session", chats.delete_session(key).wait()),
        (
            "upsert_session_meta",
            chats.upsert_session_meta(key, None, aliases()).wait(),
        ),
        (
            "promote_alias_history",
            chats
                .promote_alias_history(key, None, aliases())
                .wait()
                .map(drop),
        ),
        (
            "promote_alias_history without aliases",
            chats
                .promote_alias_history(key, None, Vec::new())
                .wait()
                .map(drop),
        ),
    ]
}

/// The result of every verb that reads one session.
fn every_read(chats: &StoreHandle, key: &str) -> Vec<(&'static str, Result<()>)> {
    vec![
        ("history", chats.history(key).wait().map(drop)),
        ("tail", chats.tail(key, 1).wait().map(drop)),
        ("summary", chats.summary(key).wait().map(drop)),
        ("session_meta", chats.session_meta(key).wait().map(drop)),
    ]
}
