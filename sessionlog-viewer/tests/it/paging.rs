//! Sessions and messages, page by page.

use axum::http::StatusCode;
use serde_json::{Value, json};
use sessionlog::{Message, StoreHandle};

use crate::asked::{get, json as ask, quoted, viewer};
use crate::stores;

fn texts(page: &Value) -> Vec<&str> {
    let messages = page["messages"].as_array().unwrap().iter();
    messages
        .map(|message| message["text"].as_str().unwrap())
        .collect()
}

fn keys(page: &Value) -> Vec<&str> {
    let sessions = page["sessions"].as_array().unwrap().iter();
    sessions
        .map(|session| session["key"].as_str().unwrap())
        .collect()
}

/// The stores that a page is shown from: the gateway's own, and one beside it.
fn both(store: &stores::Written) -> (sessionlog::Store, [StoreHandle; 2]) {
    let beside = store.beside();
    let handles = [store.chats.clone(), beside.handle()];
    (beside, handles)
}

#[tokio::test]
async fn every_message_of_a_long_session_is_on_one_page_at_its_index() {
    let store = stores::empty();
    stores::numbered(&store.chats, "long", 1_234);
    let (_beside, handles) = both(&store);
    for handle in handles {
        let router = viewer(handle).router();
        let mut at = 0;
        while at < 1_234 {
            let page = ask(
                &router,
                &format!("/api/messages?key=long&from={at}&limit=97"),
            )
            .await;
            assert_eq!((&page["total"], &page["from"]), (&json!(1234), &json!(at)));
            for text in texts(&page) {
                assert_eq!(text, format!("message {at}"));
                at += 1;
            }
        }
        for from in [0, 1, 127, 128, 129, 640, 1_233] {
            let page = ask(
                &router,
                &format!("/api/messages?key=long&from={from}&limit=1"),
            )
            .await;
            assert_eq!(texts(&page), [format!("message {from}")]);
            assert_eq!(page["messages"][0]["index"], from);
        }
        let newest = ask(&router, "/api/messages?key=long&limit=2").await;
        assert_eq!(texts(&newest), ["message 1232", "message 1233"]);
        let beyond = ask(&router, "/api/messages?key=long&from=9999999999").await;
        assert_eq!(texts(&beyond), [""; 0]);
    }
}

#[tokio::test]
async fn indexes_stay_right_while_messages_are_added_one_by_one() {
    let store = stores::empty();
    stores::numbered(&store.chats, "growing", 5);
    let (_beside, handles) = both(&store);
    let routers = handles.map(|handle| viewer(handle).router());
    for n in 5..300 {
        let message = format!("message {n}");
        store
            .chats
            .add_message("growing", "user", &message)
            .wait()
            .unwrap();
        if n == 100 {
            store.chats.flush().wait().unwrap();
        }
        // Beside its writer each read looks at the whole journal: a few will do.
        let asked = if n % 20 == 0 {
            &routers[..]
        } else {
            &routers[..1]
        };
        for router in asked {
            let middle = n / 2;
            let page = ask(
                router,
                &format!("/api/messages?key=growing&from={middle}&limit=1"),
            )
            .await;
            assert_eq!(page["total"], n + 1);
            assert_eq!(texts(&page), [format!("message {middle}")]);
            let last = ask(router, "/api/messages?key=growing&limit=1").await;
            assert_eq!(texts(&last), [&*message]);
        }
    }
}

#[tokio::test]
async fn a_position_leads_to_its_index() {
    let store = stores::empty();
    stores::numbered(&store.chats, "long", 700);
    let (_beside, handles) = both(&store);
    for handle in handles {
        let router = viewer(handle).router();
        let page = ask(&router, "/api/messages?key=long&from=300&limit=200").await;
        for message in page["messages"].as_array().unwrap() {
            let position = message["position"].as_str().unwrap();
            let found = ask(
                &router,
                &format!("/api/locate?key=long&position={position}"),
            )
            .await;
            assert_eq!(found["index"], message["index"]);
        }
        let none = get(&router, "/api/locate?key=long&position=nonsense").await;
        assert_eq!(none.status, StatusCode::BAD_REQUEST);
        let other = get(&router, "/api/locate?key=long&position=1234567-5").await;
        assert_eq!(other.status, StatusCode::CONFLICT);
    }
}

#[tokio::test]
async fn indexes_of_before_a_truncation_are_refused_and_not_taken_for_others() {
    let store = stores::empty();
    stores::numbered(&store.chats, "cut", 50);
    let (_beside, handles) = both(&store);
    let routers = handles.map(|handle| viewer(handle).router());
    let mut epochs = Vec::new();
    for router in &routers {
        let before = ask(router, "/api/messages?key=cut&from=0&limit=1").await;
        epochs.push(before["epoch"].as_str().unwrap().to_owned());
    }
    store.chats.truncate_history("cut", 40).wait().unwrap();
    for (router, epoch) in routers.iter().zip(epochs) {
        let path = format!(
            "/api/messages?key=cut&from=0&limit=1&epoch={}",
            quoted(&epoch)
        );
        let stale = get(router, &path).await;
        assert_eq!(stale.status, StatusCode::CONFLICT);
        let session = ask(router, "/api/session?key=cut").await;
        assert_eq!(
            (&session["total"], &session["hidden"]),
            (&json!(40), &json!(10))
        );
        let after = ask(router, "/api/messages?key=cut&from=0&limit=1").await;
        assert_eq!(texts(&after), ["message 10"]);
    }
    // A session that was made anew under the same key is another.
    store.chats.delete_session("cut").wait().unwrap();
    for router in &routers {
        assert_eq!(
            get(router, "/api/messages?key=cut").await.status,
            StatusCode::NOT_FOUND
        );
    }
    stores::numbered(&store.chats, "cut", 3);
    for router in &routers {
        let page = ask(router, "/api/messages?key=cut").await;
        assert_eq!(texts(&page), ["message 0", "message 1", "message 2"]);
    }
}

#[tokio::test]
async fn pages_of_sessions_have_each_session_once() {
    let store = stores::empty();
    for n in 0..25 {
        let key = format!("telegram:{n}");
        store
            .chats
            .add_message(&key, "user", &format!("hi from {n}"))
            .wait()
            .unwrap();
        let channel = if n % 5 == 0 { "slack" } else { "telegram" };
        stores::scope(&store.chats, &key, channel);
    }
    let (_beside, handles) = both(&store);
    for handle in handles {
        let router = viewer(handle).router();
        for order in ["updated", "name"] {
            let (mut found, mut after) = (Vec::new(), String::new());
            loop {
                let path = format!(
                    "/api/sessions?order={order}&limit=7&after={}",
                    quoted(&after)
                );
                let page = ask(&router, &path).await;
                found.extend(keys(&page).into_iter().map(ToOwned::to_owned));
                match page["next"].as_str() {
                    Some(next) => next.clone_into(&mut after),
                    None => break,
                }
            }
            assert_eq!(found.len(), 25, "{order}");
            if order == "updated" {
                assert_eq!((&*found[0], &*found[24]), ("telegram:24", "telegram:0"));
            }
            found.sort();
            found.dedup();
            assert_eq!(found.len(), 25, "{order}");
        }
        let slack = ask(&router, "/api/sessions?channel=slack").await;
        assert_eq!(keys(&slack).len(), 5);
        let agent = ask(&router, "/api/sessions?agent=main&prefix=telegram:1").await;
        assert_eq!(keys(&agent).len(), 11);
        assert_eq!(
            keys(&ask(&router, "/api/sessions?agent=nobody").await).len(),
            0
        );
    }
}

#[tokio::test]
async fn people_and_days_narrow_sessions_and_messages_and_all_are_counted() {
    let store = stores::empty();
    let key = |person: u8| format!("agent:main:telegram:direct:{person}");
    for (person, day) in [(7, "2026-11-20"), (8, "2026-11-21")] {
        let message = Message::user("hello").with_created_at(&format!("{day}T10:00:00Z"));
        let said = store.chats.add_full_message(&key(person), message.unwrap());
        said.wait().unwrap();
    }
    let router = viewer(store.chats.clone()).router();
    let page = ask(&router, "/api/sessions?person=7").await;
    assert_eq!(keys(&page), [key(7)]);
    assert_eq!(page["total"], 2);
    // In the year 2096.
    let page = ask(&router, "/api/sessions?since=4000000000000").await;
    assert!(keys(&page).is_empty());
    // 2026-11-21.
    for (filter, person) in [
        ("person=8", 8),
        ("since=1795219200000", 8),
        ("until=1795219200000", 7),
    ] {
        let found = ask(&router, &format!("/api/search?q=hello&{filter}")).await;
        let hits = found["hits"].as_array().unwrap();
        let found: Vec<_> = hits
            .iter()
            .map(|hit| hit["key"].as_str().unwrap())
            .collect();
        assert_eq!(found, [key(person)], "{filter}");
    }
    for path in ["/api/sessions?since=", "/api/search?q=hello&until="] {
        let refused = get(&router, &format!("{path}{}", i64::MAX)).await;
        assert_eq!(refused.status, StatusCode::BAD_REQUEST, "{path}");
    }
}

#[tokio::test]
async fn a_session_is_described_with_its_checkpoints_and_tokens_where_they_stand() {
    let store = stores::empty();
    stores::furnished(&store.chats);
    let (_beside, handles) = both(&store);
    for handle in handles {
        let router = viewer(handle).router();
        let key = quoted("telegram:direct:123");
        let session = ask(&router, &format!("/api/session?key={key}")).await;
        assert_eq!(session["total"], 7);
        assert_eq!(
            session["summary"],
            "Planning a train journey from Oslo to Bergen"
        );
        assert_eq!(session["checkpoints"], json!([{ "id": 0, "before": 4 }]));
        assert_eq!(session["tokens"], 1320);
        let tokens: Vec<_> = session["usage"]
            .as_array()
            .unwrap()
            .iter()
            .map(|u| &u["tokens"])
            .collect();
        assert_eq!(tokens, [640, 910, 1480, 1320]);
        assert_eq!(session["usage"][0]["before"], 3);
        // 2026-11-24T10:16:00Z
        assert_eq!(session["usage"][0]["said"], 1_795_515_360_000_i64);
        assert!(
            session["system_prompt"]
                .as_str()
                .unwrap()
                .contains("travel")
        );
        assert_eq!(session["scope"]["channel"], "telegram");

        let page = ask(&router, &format!("/api/messages?key={key}")).await;
        let [call, result, ticket] = [1, 2, 4].map(|at| &page["messages"][at]);
        assert_eq!(call["calls"][0]["name"], "find_trains");
        assert!(call["reasoning"].as_str().unwrap().contains("Bergen Line"));
        assert_eq!(
            (&result["role"], &result["answers"]),
            (&json!("tool"), &json!("call_1"))
        );
        assert_eq!(ticket["attachments"][0]["name"], "ticket.pdf");
        assert_eq!(ticket["attachments"][1]["reference"], "media/photo-1.jpg");
        let kinds: Vec<_> = page["marks"]
            .as_array()
            .unwrap()
            .iter()
            .map(|m| m["kind"].as_str().unwrap())
            .collect();
        assert_eq!(
            kinds,
            [
                "system_prompt",
                "tokens",
                "tokens",
                "checkpoint",
                "tokens",
                "tokens"
            ]
        );
        // What stands behind the last message comes with it.
        assert_eq!(page["marks"][5]["before"], 7);
    }
}

#[tokio::test]
async fn a_long_message_is_cut_in_a_page_and_whole_on_demand() {
    let store = stores::empty();
    let text = "x\u{e9}".repeat(300_000);
    store
        .chats
        .add_message("long", "user", &text)
        .wait()
        .unwrap();
    let router = viewer(store.chats.clone()).router();
    let page = get(&router, "/api/messages?key=long").await;
    assert!(page.text.len() < 40_000);
    let message = &page.json()["messages"][0];
    assert_eq!(
        (&message["cut"], &message["size"]),
        (&json!(true), &json!(text.len()))
    );
    assert!(text.starts_with(message["text"].as_str().unwrap()));
    let whole = ask(&router, "/api/message?key=long&index=0").await;
    assert_eq!(whole["text"], text);
    let raw: Message = serde_json::from_str(whole["raw"].as_str().unwrap()).unwrap();
    assert_eq!(raw.text(), text);
    let none = get(&router, "/api/message?key=long&index=1").await;
    assert_eq!(none.status, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn what_compactions_dropped_is_shown_from_the_archive() {
    let store = stores::empty();
    stores::numbered(&store.chats, "old", 30);
    store.chats.truncate_history("old", 5).wait().unwrap();
    store.chats.compact("old").wait().unwrap();
    let router = viewer(store.chats.clone()).router();
    let session = ask(&router, "/api/kept?key=old").await;
    let month = session["archived"][0].as_str().unwrap();
    let page = ask(
        &router,
        &format!("/api/archive?key=old&month={month}&from=20&limit=2"),
    )
    .await;
    assert_eq!(
        (&page["total"], texts(&page)),
        (&json!(25), vec!["message 20", "message 21"])
    );
}

#[tokio::test]
async fn a_session_that_is_not_there_is_not_found_and_is_not_made() {
    let store = stores::empty();
    let (_beside, handles) = both(&store);
    for handle in handles {
        let router = viewer(handle).router();
        for path in [
            "/api/session?key=nobody",
            "/api/kept?key=nobody",
            "/api/messages?key=nobody",
            "/api/message?key=nobody&index=0",
            "/api/locate?key=nobody&position=0-0",
            "/api/damage?key=nobody",
            "/api/line?key=nobody&position=0-0",
            "/api/archive?key=nobody&month=2026-11",
        ] {
            let answer = get(&router, path).await;
            assert_eq!(answer.status, StatusCode::NOT_FOUND, "{path}");
            assert_eq!(answer.json()["status"], 404, "{path}");
            assert!(answer.json()["error"].as_str().unwrap().contains("nobody"));
        }
    }
    assert!(store.chats.list_sessions().wait().unwrap().is_empty());
}

#[tokio::test]
async fn an_alias_leads_to_its_session() {
    let store = stores::empty();
    store
        .chats
        .add_message("sk_v1_abc", "user", "hi")
        .wait()
        .unwrap();
    let aliases = vec![String::from("agent:main:telegram:direct:7")];
    store
        .chats
        .upsert_session_meta("sk_v1_abc", None, aliases)
        .wait()
        .unwrap();
    let (_beside, handles) = both(&store);
    for handle in handles {
        let router = viewer(handle).router();
        let session = ask(&router, "/api/session?key=agent:main:telegram:direct:7").await;
        assert_eq!(session["key"], "sk_v1_abc");
    }
}

#[tokio::test]
async fn what_is_no_request_is_answered_with_what_is_wrong() {
    let store = stores::empty();
    stores::numbered(&store.chats, "k", 1);
    let router = viewer(store.chats.clone()).router();
    for path in [
        "/api/session",
        "/api/messages?key=k&from=-1",
        "/api/messages?key=k&limit=many",
        "/api/messages?key=",
        "/api/session?key=%00",
        "/api/damage?key=%00",
        "/api/line?key=k",
        "/api/line?key=k&position=nonsense",
        "/api/sessions?order=random",
        "/api/sessions?after=nonsense",
        "/api/search",
        "/api/search?q=",
        "/api/search?q=%28&regex=true",
    ] {
        let answer = get(&router, path).await;
        assert_eq!(
            answer.status,
            StatusCode::BAD_REQUEST,
            "{path}: {}",
            answer.text
        );
        assert!(
            !answer.json()["error"].as_str().unwrap().is_empty(),
            "{path}"
        );
    }
    let answer = get(&router, "/api/nowhere").await;
    assert_eq!(
        (answer.status, &answer.json()["status"]),
        (StatusCode::NOT_FOUND, &json!(404))
    );
}
