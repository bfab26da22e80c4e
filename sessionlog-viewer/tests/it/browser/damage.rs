//! Damaged sessions in the list, and damaged lines as what they are.

use serde_json::json;
use thirtyfour::Key;

use super::looks::{fits, readable};
use super::rig::{Rig, rig};
use crate::stores::{self, Written};

const KEY: &str = "telegram:direct:123";

/// Bytes that are no text, text that cannot be seen, and what would act if it were markup.
const HOSTILE: &[u8] =
    b"{\"role\":\"user\",\"content\":\"<img src=x onerror='window.pwned=1'>\xe2\x80\x8b\x1b[31m\xff\0 \xd7\xa9\xd7\x9c\xd7\x95\xd7\x9d";

fn spoiled() -> Written {
    let store = stores::empty();
    stores::furnished(&store.chats);
    for key in ["nothing-left", "lost"] {
        stores::numbered(&store.chats, key, 1);
    }
    store.after(|dir| {
        stores::insert_line(dir, "telegram_direct_123", 2, HOSTILE);
        let long = [HOSTILE, &b"\0".repeat(100_000)].concat();
        stores::insert_line(dir, "telegram_direct_123", 4, &long);
        std::fs::write(dir.join("nothing-left.jsonl"), "}\n\"\u{200b}\"\n").unwrap();
        stores::lose(dir, "lost");
    })
}

/// Waits until the row of a session says this of it, and all others that are named nothing.
async fn flagged(rig: &Rig, flags: &[(&str, &str)]) {
    for (key, flag) in flags {
        rig.holds(&format!(
            "[...document.querySelectorAll('#rows a')].find((a) => a.dataset.key === {})\
                ?.querySelector('.flag')?.textContent === {}",
            json!(key),
            json!(flag)
        ))
        .await;
    }
    let all = "document.querySelectorAll('#rows .flag').length";
    assert_eq!(rig.value(all).await, json!(flags.len()));
}

#[tokio::test(flavor = "multi_thread")]
async fn damaged_sessions_are_marked_in_the_list_and_a_damaged_line_shows_its_bytes() {
    let store = spoiled();
    let Some(rig) = rig(store.chats.clone()).await else {
        return;
    };
    rig.open().await;
    let flags = [
        ("lost", "Cannot be read"),
        ("nothing-left", "2 damaged lines"),
        (KEY, "2 damaged lines"),
    ];
    flagged(&rig, &flags).await;
    // Said again when the list is drawn anew.
    store
        .chats
        .add_message("slack:ops", "user", "and more")
        .wait()
        .unwrap();
    rig.holds("document.querySelector('#rows').innerText.includes('and more')")
        .await;
    flagged(&rig, &flags).await;

    // By keyboard: to the message behind the line, and the line opens with what is folded there.
    rig.open_session(KEY).await;
    rig.holds("document.querySelector('#facts').textContent.includes('2 damaged lines')")
        .await;
    rig.press("g").await;
    rig.press("m").await;
    rig.press("j").await;
    rig.press("j").await;
    rig.press_key(Key::Enter).await;
    let opened = "document.activeElement.querySelector('.damage')";
    rig.holds(&format!("{opened}.open && {opened}.querySelector('.hex')"))
        .await;
    let text = rig
        .text(&format!("{opened}.querySelector('.text').textContent"))
        .await;
    assert_eq!(
        text,
        "{\"role\":\"user\",\"content\":\"<img src=x onerror='window.pwned=1'>\u{27e8}U+200B\u{27e9}\u{27e8}U+001B\u{27e9}[31m\u{27e8}ff\u{27e9}\u{27e8}U+0000\u{27e9} \u{5e9}\u{5dc}\u{5d5}\u{5dd}"
    );
    let hex = rig
        .text(&format!("{opened}.querySelector('.hex').textContent"))
        .await;
    let lines: Vec<_> = hex.lines().collect();
    assert_eq!(
        lines[0],
        "0000  7b 22 72 6f 6c 65 22 3a 22 75 73 65 72 22 2c 22  {\"role\":\"user\",\""
    );
    assert!(
        lines[3].ends_with("31 27 3e e2 80  ndow.pwned=1'>\u{b7}\u{b7}"),
        "{hex}"
    );
    // Tab comes by it, and each part says what it is.
    let mut reached = Vec::new();
    for _ in 0..3 {
        rig.press_key(Key::Tab).await;
        let name = "document.activeElement.ariaLabel ?? document.activeElement.textContent";
        reached.push(rig.text(name).await);
    }
    assert_eq!(
        reached,
        [
            "A line here does not decode",
            "Text of the damaged line",
            "Hex of the damaged line"
        ]
    );
    // Of a long one there is the beginning, and how much is left out.
    rig.run("document.querySelectorAll('.damage').forEach((e) => { e.open = true; })")
        .await;
    rig.shows("The first 4.0 KiB of 98 KiB; 95,985 more bytes not shown")
        .await;
    rig.shows("\u{27e8}U+0000\u{27e9}\u{d7}4,015").await;

    // A session without a message shows its lines, and one that cannot be read says why.
    rig.run("location.hash = '#/s/nothing-left'").await;
    rig.holds("document.querySelectorAll('#empty .damage').length === 2")
        .await;
    rig.run("location.hash = '#/s/lost'").await;
    rig.holds("document.querySelector('#empty').innerText.includes('lost.jsonl')")
        .await;
    assert_eq!(rig.value("window.pwned ?? null").await, json!(null));
    let alien = "document.querySelectorAll(':is(#main, #side) :is(script, img, iframe)').length";
    assert_eq!(rig.value(alien).await, json!(0));
    rig.quit().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn bytes_fit_a_telephone_and_a_desk_by_day_and_by_night() {
    let store = spoiled();
    let Some(rig) = rig(store.chats.clone()).await else {
        return;
    };
    rig.open().await;
    for (width, height) in [(1280, 800), (390, 844)] {
        rig.screen(width, height).await;
        for scheme in ["light", "dark"] {
            rig.scheme(scheme).await;
            rig.run("location.hash = '#/'").await;
            rig.holds("document.querySelector('#head').hidden").await;
            rig.holds("document.querySelectorAll('#rows .flag').length === 3")
                .await;
            fits(&rig, width).await;
            readable(&rig, scheme).await;
            rig.picture(&format!("damage-list-{width}-{scheme}")).await;
            rig.open_session(KEY).await;
            rig.press("g").await;
            rig.holds("document.querySelector('#feed .damage')").await;
            rig.run("document.querySelector('#feed .damage').open = true")
                .await;
            rig.holds("document.querySelector('#feed .hex')").await;
            fits(&rig, width).await;
            readable(&rig, scheme).await;
            // A line of bytes is a line of the screen.
            let hex = "(() => { const e = document.querySelector('#feed .hex'); return e.scrollWidth <= e.clientWidth; })()";
            rig.holds(hex).await;
            rig.picture(&format!("damage-{width}-{scheme}")).await;
            rig.press("d").await;
            rig.holds("document.querySelector('#details').innerText.includes('before #')")
                .await;
            fits(&rig, width).await;
            rig.picture(&format!("damage-details-{width}-{scheme}"))
                .await;
            rig.press("d").await;
            rig.run("location.hash = '#/s/nothing-left'").await;
            rig.holds("document.querySelector('#empty .damage')").await;
            rig.run("document.querySelector('#empty .damage').open = true")
                .await;
            rig.holds("document.querySelector('#empty .hex')").await;
            fits(&rig, width).await;
            rig.picture(&format!("damage-alone-{width}-{scheme}")).await;
        }
    }
    rig.end().await;
}
