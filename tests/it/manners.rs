//! What a user of any crate counts on: types that go to other threads, and values that go
//! through serde and come back.

use std::fmt::Debug;

use serde::Serialize;
use serde::de::DeserializeOwned;
use sessionlog::{
    Appended, Budget, Change, ChangeFilter, Changes, Context, Cursor, Error, Keep, Message, Page,
    Position, Reply, SessionInfo, SessionOrder, SessionPage, SessionQuery, SessionSnapshot, Store,
    StoreHandle, StoreOptions, StoreStatus, Update, Version, Watch, Window,
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
