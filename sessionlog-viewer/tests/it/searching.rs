//! Searching, with results that lead to where they stand.

use serde_json::{Value, json};

use crate::asked::{json as ask, quoted, viewer};
use crate::stores;

fn hits(found: &Value) -> &Vec<Value> {
    found["hits"].as_array().unwrap()
}

#[tokio::test]
async fn what_is_found_leads_to_its_place_in_the_conversation() {
    let store = stores::empty();
    stores::numbered(&store.chats, "long", 900);
    stores::furnished(&store.chats);
    let beside = store.beside();
    for handle in [store.chats.clone(), beside.handle()] {
        let router = viewer(handle).router();
        let found = ask(&router, &format!("/api/search?q={}", quoted("MESSAGE 456"))).await;
        let hit = &hits(&found)[0];
        assert_eq!(
            (hits(&found).len(), &hit["key"], &hit["matched"]),
            (1, &json!("long"), &json!("message 456"))
        );
        let position = hit["position"].as_str().unwrap();
        let located = ask(
            &router,
            &format!("/api/locate?key=long&position={position}"),
        )
        .await;
        assert_eq!(located["index"], 456);

        let cased = ask(
            &router,
            &format!("/api/search?q={}&case=true", quoted("MESSAGE 456")),
        )
        .await;
        assert_eq!(hits(&cased).len(), 0);
        let regex = ask(
            &router,
            &format!("/api/search?q={}&regex=true", quoted("message 45[0-9]$")),
        )
        .await;
        assert_eq!(hits(&regex).len(), 10);
        let one = ask(
            &router,
            &format!(
                "/api/search?q=the&key={}&role=user",
                quoted("telegram:direct:123")
            ),
        )
        .await;
        assert!(
            hits(&one)
                .iter()
                .all(|hit| hit["key"] == "telegram:direct:123" && hit["role"] == "user")
        );
        let slack = ask(&router, "/api/search?q=e&channel=slack").await;
        assert!(!hits(&slack).is_empty());
        assert!(hits(&slack).iter().all(|hit| hit["key"] == "slack:ops"));
    }
}

#[tokio::test]
async fn pages_of_a_search_have_each_message_once() {
    let store = stores::empty();
    stores::numbered(&store.chats, "long", 130);
    let router = viewer(store.chats.clone()).router();
    let mut found = Vec::new();
    loop {
        let page = ask(
            &router,
            &format!("/api/search?q=message&limit=50&skip={}", found.len()),
        )
        .await;
        found.extend(hits(&page).iter().map(|hit| hit["position"].clone()));
        match &page["more"] {
            Value::Null => break,
            more => assert_eq!(more, "full"),
        }
    }
    assert_eq!(found.len(), 130);
    found.sort_by_key(ToString::to_string);
    found.dedup();
    assert_eq!(found.len(), 130);
}

#[tokio::test]
async fn a_key_that_begins_like_another_does_not_get_its_messages() {
    let store = stores::empty();
    store
        .chats
        .add_message("chat:1", "user", "apple")
        .wait()
        .unwrap();
    store
        .chats
        .add_message("chat:12", "user", "apple")
        .wait()
        .unwrap();
    let router = viewer(store.chats.clone()).router();
    let found = ask(&router, "/api/search?q=apple&key=chat:1").await;
    assert_eq!(hits(&found).len(), 1);
    assert_eq!(hits(&found)[0]["key"], "chat:1");
}

#[tokio::test]
async fn an_excerpt_of_a_long_message_is_short_and_of_whole_characters() {
    let store = stores::empty();
    let text = format!(
        "{}needle{}",
        "\u{1f600}".repeat(50_000),
        "\u{e9}".repeat(50_000)
    );
    store
        .chats
        .add_message("long", "user", &text)
        .wait()
        .unwrap();
    let router = viewer(store.chats.clone()).router();
    let found = ask(&router, "/api/search?q=needle").await;
    let hit = &hits(&found)[0];
    assert_eq!(hit["matched"], "needle");
    assert_eq!(hit["before"].as_str().unwrap().chars().count(), 90);
    assert_eq!(hit["after"].as_str().unwrap().chars().count(), 90);
}

#[tokio::test]
async fn archived_messages_are_found_if_asked_for() {
    let store = stores::empty();
    stores::numbered(&store.chats, "old", 30);
    // Few enough are hidden that the store compacts nothing by itself.
    store.chats.truncate_history("old", 20).wait().unwrap();
    let router = viewer(store.chats.clone()).router();
    let query = format!("/api/search?q={}", quoted("message 3"));
    let found = ask(&router, &format!("{query}&archived=true")).await;
    let hit = &hits(&found)[0];
    assert_eq!(
        (&hit["hidden"], &hit["archived"]),
        (&json!(true), &json!(null))
    );
    store.chats.compact("old").wait().unwrap();
    assert_eq!(hits(&ask(&router, &query).await).len(), 0);
    let found = ask(&router, &format!("{query}&archived=true")).await;
    let hit = &hits(&found)[0];
    let (month, sign) = (
        hit["archived"].as_str().unwrap(),
        hit["sign"].as_str().unwrap(),
    );
    // It leads to where it stands in the archive.
    let place = format!("/api/archive?key=old&month={month}&limit=1&sign=");
    assert_eq!(ask(&router, &format!("{place}{sign}")).await["found"], 3);
    assert_eq!(
        ask(&router, &format!("{place}none")).await["found"],
        json!(null)
    );
}

#[tokio::test]
async fn a_search_says_what_sessions_are_called_whose_keys_are_hashes() {
    let store = stores::empty();
    let key = format!("sk_v1_{}", "a".repeat(64));
    for key in [&*key, "plain"] {
        let said = store.chats.add_message(key, "user", "hello");
        said.wait().unwrap();
        store.chats.set_title(key, "Trains").wait().unwrap();
    }
    let aliases = vec![String::from("agent:main:telegram:direct:7")];
    let named = store.chats.upsert_session_meta(&key, None, aliases.clone());
    named.wait().unwrap();
    let beside = store.beside();
    for handle in [store.chats.clone(), beside.handle()] {
        let router = viewer(handle).router();
        let found = ask(&router, "/api/search?q=hello").await;
        assert_eq!(hits(&found).len(), 2);
        let known = json!({ &key: { "title": "Trains", "aliases": aliases } });
        assert_eq!(found["names"], known);
    }
}
