//! Getting in, finding a session, and what a conversation shows.

use serde_json::json;

use super::rig::rig;
use crate::stores;

const KEY: &str = "telegram:direct:123";

#[tokio::test(flavor = "multi_thread")]
async fn the_url_lets_in_and_its_token_is_out_of_sight_at_once() {
    let store = stores::empty();
    stores::furnished(&store.chats);
    let Some(rig) = rig(store.chats.clone()).await else {
        return;
    };
    rig.goto(&rig.base).await;
    rig.holds("document.body.dataset.view === 'locked'").await;
    rig.holds("document.querySelector('#empty').innerText.includes('URL')")
        .await;
    assert_eq!(
        rig.value("document.querySelectorAll('#rows a').length")
            .await,
        json!(0)
    );

    rig.open().await;
    assert_eq!(rig.text("location.href").await, rig.base);
    assert_eq!(
        rig.text("document.cookie").await,
        "",
        "no script reads the cookie"
    );
    rig.goto(&rig.base).await;
    rig.holds("document.querySelectorAll('#rows a').length === 4")
        .await;
    rig.quit().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hit_in_the_archive_opens_there_and_one_that_is_hidden_where_the_rest_begins() {
    let store = stores::empty();
    stores::numbered(&store.chats, "old", 300);
    // Few enough are hidden that the store compacts nothing by itself.
    store.chats.truncate_history("old", 200).wait().unwrap();
    let Some(rig) = rig(store.chats.clone()).await else {
        return;
    };
    rig.open().await;
    let search = |text: &str| {
        format!(
            "document.querySelector('#archived').checked = true;
             const query = document.querySelector('#query');
             query.value = '{text}';
             query.dispatchEvent(new Event('input', {{ bubbles: true }}))"
        )
    };
    let note = "document.querySelector('#rows .note:last-child')?.innerText";
    rig.run(&search("message 99")).await;
    rig.holds(&format!("{note}?.includes('hidden by a truncation')"))
        .await;
    rig.click("#rows a").await;
    rig.shows("the conversation was truncated here").await;
    rig.shows("message 100").await;

    store.chats.compact("old").wait().unwrap();
    rig.run(&search("message 98")).await;
    rig.holds(&format!("{note}?.includes('archived')")).await;
    rig.click("#rows a").await;
    let focused = "document.activeElement.querySelector?.('.text')?.textContent === 'message 98'";
    rig.holds(focused).await;
    let in_view = "document.activeElement.getBoundingClientRect().top >= 0
        && document.activeElement.getBoundingClientRect().bottom <= innerHeight";
    rig.holds(in_view).await;
    rig.holds("document.querySelector('#facts').innerText.includes('archived in')")
        .await;
    rig.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_conversation_shows_all_that_is_in_it() {
    let store = stores::empty();
    stores::furnished(&store.chats);
    let Some(rig) = rig(store.chats.clone()).await else {
        return;
    };
    rig.open().await;
    rig.open_session(KEY).await;
    rig.press("g").await;
    rig.shows("The conversation begins here").await;
    for text in [
        "How do I get from Oslo",
        "Calls find_trains",
        "Reasoning",
        "Checkpoint 0",
        "640 tokens",
        "System prompt set",
    ] {
        rig.shows(text).await;
    }
    let roles = "[...document.querySelectorAll('#feed .who')].map((e) => e.textContent).join()";
    assert_eq!(
        rig.text(roles).await,
        "User,Assistant,Tool result,Assistant,User,Assistant,User"
    );
    // Folded until they are asked for.
    let folded = "[...document.querySelectorAll('#feed details')].every((e) => !e.open)";
    rig.holds(folded).await;
    rig.click("#feed .call > summary").await;
    rig.shows("\"date\": \"2026-11-25\"").await;
    rig.click("#feed .reasoning > summary").await;
    rig.shows("The Bergen Line takes about seven hours").await;
    rig.click("#feed .result > summary").await;
    rig.shows("12:03 Oslo S, 18:57 Bergen").await;
    // Attachments are named, and neither linked nor loaded.
    rig.shows("https://files.example/ticket.pdf").await;
    assert_eq!(
        rig.value("document.querySelectorAll('#main img, #main a:not([href^=\"#\"])').length")
            .await,
        json!(0)
    );

    rig.click("#details-toggle").await;
    for text in [
        "Planning a train journey",
        "Checkpoints",
        "You are a travel assistant",
        "agent_id",
    ] {
        rig.holds(&format!(
            "document.querySelector('#details').innerText.includes('{text}')"
        ))
        .await;
    }
    let plot = rig
        .text("document.querySelector('#details svg').getAttribute('aria-label')")
        .await;
    assert!(
        plot.starts_with("4 counts of tokens") && plot.contains("at most 1,480, 1,320 last"),
        "{plot}"
    );
    rig.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_search_finds_is_shown_where_it_stands() {
    let store = stores::empty();
    stores::numbered(&store.chats, "long", 3_000);
    stores::furnished(&store.chats);
    let Some(rig) = rig(store.chats.clone()).await else {
        return;
    };
    rig.open().await;
    rig.click("#query").await;
    rig.press("message 1234").await;
    rig.holds("document.querySelector('#rows mark')?.textContent === 'message 1234'")
        .await;
    rig.click("#rows a").await;
    rig.holds("document.activeElement.dataset.index === '1234'")
        .await;
    rig.holds("(() => { const box = document.activeElement.getBoundingClientRect(); return box.top > 0 && box.bottom < innerHeight; })()").await;
    rig.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_truncation_shows_where_it_is_and_what_the_archive_kept() {
    let store = stores::empty();
    stores::numbered(&store.chats, "cut", 20);
    store.chats.truncate_history("cut", 15).wait().unwrap();
    stores::numbered(&store.chats, "old", 40);
    store.chats.truncate_history("old", 5).wait().unwrap();
    store.chats.compact("old").wait().unwrap();
    let Some(rig) = rig(store.chats.clone()).await else {
        return;
    };
    rig.open().await;
    rig.open_session("cut").await;
    rig.press("g").await;
    rig.shows("5 earlier lines are hidden: the conversation was truncated here")
        .await;
    rig.open_session("old").await;
    rig.press("g").await;
    rig.holds("document.querySelector('#key').textContent === 'old'")
        .await;
    rig.holds("document.querySelector('#feed .beginning a')")
        .await;
    rig.click("#feed .beginning a").await;
    rig.shows("message 0").await;
    rig.holds("document.querySelector('#facts').innerText.includes('35 messages')")
        .await;
    rig.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_that_is_not_there_is_said_to_be_missing() {
    let store = stores::empty();
    stores::furnished(&store.chats);
    let Some(rig) = rig(store.chats.clone()).await else {
        return;
    };
    rig.open().await;
    rig.run("location.hash = '#/s/nobody'").await;
    rig.holds("document.querySelector('#empty').innerText.includes('\"nobody\" does not exist')")
        .await;
    rig.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_alias_or_a_title_stands_for_a_key_that_is_a_hash() {
    let store = stores::empty();
    let keys = ["a", "b"].map(|digit| format!("sk_v1_{}", digit.repeat(64)));
    for key in &keys {
        store
            .chats
            .add_message(key, "user", "hello")
            .wait()
            .unwrap();
    }
    let aliases = ["agent:main:main", "agent:main:telegram:direct:7"].map(String::from);
    store
        .chats
        .upsert_session_meta(&keys[0], None, aliases.to_vec())
        .wait()
        .unwrap();
    store.chats.set_title(&keys[1], "Trains").wait().unwrap();
    let labels = store.chats.set_labels(&keys[1], ["travel"]);
    labels.wait().unwrap();
    let named = "Trains|agent:main:telegram:direct:7";
    let Some(rig) = rig(store.chats.clone()).await else {
        return;
    };
    rig.open().await;
    let shown =
        "[...document.querySelectorAll('#rows .key')].map((e) => e.textContent).sort().join('|')";
    assert_eq!(rig.text(shown).await, named);
    rig.holds("document.querySelector('#rows').textContent.includes('travel')")
        .await;
    rig.click("#query").await;
    rig.press("hello").await;
    rig.holds("document.querySelectorAll('#rows mark').length === 2")
        .await;
    assert_eq!(rig.text(shown).await, named);
    for (key, name) in keys.iter().rev().zip(named.split('|')) {
        rig.open_session(key).await;
        rig.holds(&format!(
            "document.querySelector('#key').textContent === '{name}'"
        ))
        .await;
    }
    rig.end().await;
}
