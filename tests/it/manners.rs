//! What a user of any crate counts on: types that go to other threads, and values that go
//! through serde and come back.

use std::fmt::Debug;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use sessionlog::{
    Appended, Budget, Change, ChangeFilter, Changes, CheckpointId, Context, Cursor, Error, Keep,
    Message, Messages, Page, Position, Reply, SessionInfo, SessionMeta, SessionOrder, SessionPage,
    SessionQuery, SessionSnapshot, Store, StoreHandle, StoreOptions, StoreStatus, Update, Version,
    Watch, Window,
};

use crate::support::{add_numbers, open, scratch};

fn goes_anywhere<T: Send + Sync + 'static>() {}

fn moves<T: Send + 'static>() {}

#[test]
fn every_type_goes_to_other_threads() {
    goes_anywhere::<(Store, StoreHandle, StoreOptions, StoreStatus)>();
    goes_anywhere::<(Context, Watch, Changes, ChangeFilter, Change)>();
    goes_anywhere::<(SessionSnapshot, Page, Position, Keep, Version)>();
    goes_anywhere::<(Update, Appended, Budget, Window, Message, Error)>();
    goes_anywhere::<(SessionQuery, SessionOrder, SessionPage, SessionInfo, Cursor)>();
    // A reply is one caller's: it is moved, and not looked at from two threads.
    moves::<Reply<Vec<Message>>>();
}

fn comes_back<T: Serialize + DeserializeOwned + PartialEq + Debug>(value: &T) {
    let text = serde_json::to_string(value).unwrap();
    assert_eq!(&serde_json::from_str::<T>(&text).unwrap(), value, "{text}");
}

#[test]
fn what_is_shown_to_others_comes_back_from_serde() {
    let dir = scratch();
    let store = open(dir.path());
    let chats = store.handle();
    for key in ["a", "b"] {
        add_numbers(&chats, key, 0..3);
    }
    for order in [SessionOrder::Name, SessionOrder::Updated] {
        let query = SessionQuery::new().order(order).limit(1);
        let page = chats.sessions(query).wait().unwrap();
        assert!(page.next.is_some());
        comes_back(&page);
    }
    let seen = chats.snapshot("a").wait().unwrap();
    comes_back(&(seen.version(), seen.end()));
    comes_back(&seen.tail(1).wait().unwrap());
    store.close().unwrap();
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event")]
enum Event {
    Said(Box<Message>),
    Left { key: String },
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
enum Either {
    Number(u8),
    Said(Box<Message>),
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Envelope {
    key: String,
    #[serde(flatten)]
    message: Message,
}

#[test]
fn a_message_works_inside_tagged_untagged_and_flattened_types() {
    let json = br#"{"role":"assistant","content":"4 \u00b0","tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{}"}}],"zeal":{"b":1,"a":[null,1.5]},"mood":"good"}"#;
    let said = Message::from_json(json).unwrap();
    let event = Event::Said(Box::new(said.clone()));
    let text = serde_json::to_string(&event).unwrap();
    let Event::Said(back) = serde_json::from_str(&text).unwrap() else {
        panic!("{text}");
    };
    assert_eq!(
        back.unknown_field("zeal"),
        Some(r#"{"b":1,"a":[null,1.5]}"#)
    );
    assert_eq!(back.tool_calls(), said.tool_calls());
    assert_eq!(back.text(), "4 \u{b0}");
    comes_back(&Event::Left { key: "cli".into() });
    comes_back(&Either::Said(Box::new(said.clone())));
    comes_back(&Either::Number(7));
    let envelope = Envelope {
        key: "cli".into(),
        message: Message::user("hi")
            .with_created_at("2026-01-02T03:04:05Z")
            .unwrap(),
    };
    comes_back(&envelope);
    assert_eq!(envelope.message.created().unwrap().year(), 2026);
    assert!(serde_json::from_str::<Event>(r#"{"event":"Said","role":7}"#).is_err());
    // Straight from serde_json, numbers are as they stand.
    let precise = r#"{"role":"user","content":"","n":0.1000000000000000055511151231257827}"#;
    let read: Message = serde_json::from_str(precise).unwrap();
    assert_eq!(
        read.unknown_field("n"),
        Some("0.1000000000000000055511151231257827")
    );
}

#[test]
fn ids_of_checkpoints_are_numbers_to_who_wants_numbers() {
    let dir = scratch();
    let store = open(dir.path());
    let chat = store.handle().context("cli");
    let id = chat.checkpoint(false).wait().unwrap();
    assert_eq!(id, 0);
    assert_eq!(0, i64::from(id));
    comes_back(&id);
    assert_eq!(serde_json::to_string(&id).unwrap(), "0");
    assert_eq!("0".parse(), Ok(id));
    chat.revert_to(0).wait().unwrap();
    assert!(chat.revert_to(CheckpointId::new(0)).wait().is_err());
    store.close().unwrap();
}

#[test]
fn a_sidecar_comes_back_and_says_its_times() {
    let dir = scratch();
    let store = open(dir.path());
    let chats = store.handle();
    add_numbers(&chats, "cli", 0..3);
    let meta = chats.session_meta("cli").wait().unwrap();
    let text = serde_json::to_string(&meta).unwrap();
    let back: SessionMeta = serde_json::from_str(&text).unwrap();
    assert_eq!(serde_json::to_string(&back).unwrap(), text);
    assert!(meta.created().unwrap() <= meta.updated().unwrap());
    assert_eq!(SessionMeta::empty("cli").created(), None, "not the year 1");
    store.close().unwrap();
}

#[test]
fn messages_are_collected_extended_and_gone_through() {
    let mut messages: Messages = ["0", "1"].into_iter().map(Message::user).collect();
    messages.extend([Message::user("2")]);
    let texts: Vec<_> = messages.into_iter().map(|m| m.text().to_string()).collect();
    assert_eq!(texts, ["0", "1", "2"]);
}

/// Counts what is told at level `debug`.
struct Told(std::sync::Arc<std::sync::atomic::AtomicUsize>);

impl tracing::Subscriber for Told {
    fn enabled(&self, meta: &tracing::Metadata<'_>) -> bool {
        meta.is_event() && *meta.level() == tracing::Level::DEBUG
    }

    fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        tracing::span::Id::from_u64(1)
    }

    fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}

    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}

    fn event(&self, event: &tracing::Event<'_>) {
        if event.metadata().target().starts_with("sessionlog") {
            self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        }
    }

    fn enter(&self, _: &tracing::span::Id) {}

    fn exit(&self, _: &tracing::span::Id) {}
}

#[test]
fn a_reply_that_nobody_asked_for_is_told_to_the_log_once() {
    let dir = scratch();
    let store = open(dir.path());
    let chats = store.handle();
    let told = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let count = || told.swap(0, std::sync::atomic::Ordering::Relaxed);
    tracing::subscriber::with_default(Told(told.clone()), || {
        drop(chats.add_message("cli", "user", "forgotten"));
        assert_eq!(count(), 1);
        drop(chats.history("cli"));
        assert_eq!(count(), 1);
        chats.add_message("cli", "user", "sent").wait().unwrap();
        chats.history("cli").wait().unwrap();
        drop(Reply::ready(Ok(())));
        assert_eq!(count(), 0);
    });
    assert_eq!(chats.count("cli").wait().unwrap(), 1);
    store.close().unwrap();
}
