//! Everything without a mouse.

use thirtyfour::Key;

use super::rig::rig;
use crate::stores;

#[tokio::test(flavor = "multi_thread")]
async fn a_person_without_a_mouse_gets_everywhere() {
    let store = stores::empty();
    stores::furnished(&store.chats);
    let Some(rig) = rig(store.chats.clone()).await else {
        return;
    };
    rig.open().await;
    let focus = "document.activeElement";

    // What keys there are is a key away.
    rig.press("?").await;
    rig.holds("document.querySelector('#help').open").await;
    rig.press_key(Key::Escape).await;
    rig.holds("!document.querySelector('#help').open").await;

    // Down the list, and into a session.
    rig.press("s").await;
    rig.holds(&format!("{focus}.dataset.key === 'telegram:direct:123'"))
        .await;
    let outline = format!("getComputedStyle({focus}).outlineStyle !== 'none'");
    rig.holds(&outline).await;
    rig.press_key(Key::Down).await;
    rig.holds(&format!("{focus}.dataset.key === 'telegram:direct:77'"))
        .await;
    rig.press("k").await;
    rig.press_key(Key::Enter).await;
    rig.shows("Yes please.").await;

    // Through the messages, and into what is folded.
    rig.press("m").await;
    rig.holds(&format!("{focus}.id === 'feed'")).await;
    rig.press_key(Key::Home).await;
    rig.shows("The conversation begins here").await;
    rig.press("j").await;
    rig.holds(&format!("{focus}.dataset.index === '0'")).await;
    rig.press("j").await;
    rig.holds(&format!("{focus}.dataset.index === '1'")).await;
    rig.holds(&format!(
        "getComputedStyle({focus}.querySelector('.card')).outlineStyle !== 'none'"
    ))
    .await;
    rig.press_key(Key::Enter).await;
    rig.shows("\"date\": \"2026-11-25\"").await;
    rig.press("]").await;
    rig.holds(&format!("{focus}.dataset.index === '4'")).await;
    rig.press_key(Key::End).await;
    rig.press("k").await;
    rig.press("d").await;
    rig.holds("document.querySelector('#details-toggle').getAttribute('aria-expanded') === 'true'")
        .await;
    rig.press_key(Key::Escape).await;
    rig.holds("document.querySelector('#details').hidden").await;

    // Searching, and to what was found.
    rig.press("/").await;
    rig.press("Deploy fin").await;
    rig.holds("document.querySelectorAll('#rows mark').length === 1")
        .await;
    rig.press_key(Key::Down).await;
    rig.press_key(Key::Enter).await;
    rig.shows("Deploy finished without errors.").await;
    rig.press_key(Key::Escape).await;
    rig.holds("document.querySelector('#query').value === ''")
        .await;
    rig.press_key(Key::Escape).await;
    rig.holds("document.querySelector('#head').hidden").await;
    rig.holds(&format!("{focus}.dataset.key === 'slack:ops'"))
        .await;

    // Tab comes by every control, and is nowhere caught.
    rig.run("document.activeElement.blur()").await;
    let mut ids = Vec::new();
    for _ in 0..14 {
        rig.press_key(Key::Tab).await;
        ids.push(rig.text(&format!("{focus}.id || {focus}.tagName")).await);
    }
    for id in ["help-open", "query", "SUMMARY", "A"] {
        assert!(ids.iter().any(|found| found == id), "{id} in {ids:?}");
    }
    rig.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_control_has_a_name_and_the_messages_are_a_feed() {
    let store = stores::empty();
    stores::furnished(&store.chats);
    let Some(rig) = rig(store.chats.clone()).await else {
        return;
    };
    rig.open().await;
    rig.open_session("telegram:direct:123").await;
    let nameless = "[...document.querySelectorAll('button, input, select, [role=img]')].filter((e) =>
        !(e.getAttribute('aria-label') || e.labels?.length || e.textContent.trim() || e.hidden)).map((e) => e.outerHTML).join()";
    assert_eq!(rig.text(nameless).await, "");
    let ids = "[...document.querySelectorAll('[id]')].map((e) => e.id).filter((id, at, all) => all.indexOf(id) !== at).join()";
    assert_eq!(rig.text(ids).await, "");
    let articles = "[...document.querySelectorAll('#feed > * article, #feed article')].every((e) =>
        e.getAttribute('aria-posinset') > 0 && e.getAttribute('aria-setsize') === '7'
        && document.getElementById(e.getAttribute('aria-labelledby')))";
    rig.holds(articles).await;
    assert_eq!(
        rig.text("document.querySelector('#feed').getAttribute('role')")
            .await,
        "feed"
    );
    rig.end().await;
}
