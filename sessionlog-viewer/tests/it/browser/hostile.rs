//! What people write to get at who reads it. All of it shows, none of it acts. What is lost
//! otherwise: a message to a bot would run in the browser of its operator, with all chats at
//! hand.

use serde_json::json;
use sessionlog::{Attachment, Message};

use super::rig::rig;
use crate::stores;

/// Each would set `window.pwned`, go elsewhere or load something, if it were more than text.
const ATTEMPTS: [&str; 16] = [
    "<script>window.pwned = 1</script>",
    "<img src=x onerror=\"window.pwned = 1\">",
    "<img src=\"https://evil.example/pixel.gif\">",
    "<svg onload=\"window.pwned = 1\"><animate onbegin=\"window.pwned = 1\"/></svg>",
    "javascript:window.pwned=1",
    "[click me](javascript:window.pwned=1)",
    "![image](https://evil.example/image.png)",
    "<a href=\"javascript:window.pwned=1\" autofocus onfocus=\"window.pwned=1\">link</a>",
    "<iframe srcdoc=\"<script>parent.pwned = 1</script>\"></iframe>",
    "<link rel=stylesheet href=https://evil.example/style.css><style>body{display:none}</style>",
    "<meta http-equiv=refresh content=\"0;url=https://evil.example/\"><base href=https://evil.example/>",
    "</script><script>window.pwned = 1</script>",
    "\"><img src=x onerror=window.pwned=1>'><img src=x onerror=window.pwned=1>",
    "{{constructor.constructor('window.pwned=1')()}} ${window.pwned=1} <%= 1 %>",
    "<form action=https://evil.example/><button autofocus>send</button></form>",
    "&lt;script&gt;window.pwned = 1&lt;/script&gt;",
];

const KEYS: [&str; 6] = [
    "<img src=x onerror=window.pwned=1>",
    "\"onmouseover=\"window.pwned=1",
    "../../etc/passwd",
    "a/at/b#c?d=e&f=%41%",
    "__proto__",
    "javascript:window.pwned=1",
];

#[tokio::test(flavor = "multi_thread")]
async fn markup_and_script_in_messages_show_as_text_and_do_nothing() {
    let store = stores::empty();
    let key = "hostile";
    for text in ATTEMPTS {
        store.chats.add_message(key, "user", text).wait().unwrap();
        let file = Attachment::new(text, text);
        let everywhere = Message::assistant(text)
            .with_reasoning(text)
            .with_model_name(text)
            .with_tool_call(text, text, text)
            .with_media(text)
            .with_attachment(file);
        store
            .chats
            .add_full_message(key, everywhere)
            .wait()
            .unwrap();
        let result = Message::tool(text, text);
        store.chats.add_full_message(key, result).wait().unwrap();
        store
            .chats
            .add_full_message(key, Message::new(text, text))
            .wait()
            .unwrap();
    }
    store.chats.set_summary(key, ATTEMPTS[0]).wait().unwrap();
    store
        .chats
        .context(key)
        .write_system_prompt(ATTEMPTS[1])
        .wait()
        .unwrap();
    stores::scope(&store.chats, key, "<img src=x onerror=window.pwned=1>");
    let Some(rig) = rig(store.chats.clone()).await else {
        return;
    };
    rig.open().await;
    rig.run(
        "window.violations = [];
         document.addEventListener('securitypolicyviolation', (e) => violations.push(e.violatedDirective));",
    )
    .await;
    rig.open_session(key).await;
    rig.press("d").await;
    rig.press("m").await;
    for (index, text) in ATTEMPTS.iter().enumerate() {
        let first = index * 4;
        rig.run(&format!(
            "const f = document.querySelector('#feed'); f.scrollTop = f.scrollHeight * {first} / {}",
            ATTEMPTS.len() * 4
        ))
        .await;
        rig.holds(&format!(
            "[...document.querySelectorAll('#feed .text')].some((e) => e.textContent === {})",
            json!(text)
        ))
        .await;
        rig.run("document.querySelectorAll('#feed details').forEach((e) => { e.open = true; })")
            .await;
    }
    // A search shows them as well.
    rig.click("#query").await;
    rig.press("onerror").await;
    rig.holds("document.querySelectorAll('#rows mark').length > 3")
        .await;
    assert_eq!(rig.value("window.pwned ?? null").await, json!(null));
    assert_eq!(
        rig.value("window.violations").await,
        json!([]),
        "nothing even tried"
    );
    let alien = "document.querySelectorAll('#main :is(script, img, iframe, link, style, form, object, base, meta), \
        #side :is(script, img, iframe, link, style, object)').length";
    assert_eq!(rig.value(alien).await, json!(0));
    let links = "[...document.querySelectorAll('a')].filter((a) => !a.getAttribute('href').startsWith('#/s/')).length";
    assert_eq!(rig.value(links).await, json!(0));
    let loaded = "performance.getEntriesByType('resource').map((e) => e.name).filter((name) => !name.startsWith(location.origin + '/'))";
    assert_eq!(rig.value(loaded).await, json!([]));
    rig.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn hostile_keys_are_listed_opened_and_linked_as_what_they_are() {
    let store = stores::empty();
    for key in KEYS {
        store
            .chats
            .add_message(key, "user", &format!("said in {key}"))
            .wait()
            .unwrap();
    }
    store
        .chats
        .add_message("abc\u{202e}gpj.exe", "user", "turned")
        .wait()
        .unwrap();
    let Some(rig) = rig(store.chats.clone()).await else {
        return;
    };
    rig.open().await;
    rig.holds(&format!(
        "document.querySelectorAll('#rows a').length === {}",
        KEYS.len() + 1
    ))
    .await;
    for key in KEYS {
        let link = format!(
            "[...document.querySelectorAll('#rows a')].find((a) => a.dataset.key === {})",
            json!(key)
        );
        rig.run(&format!("{link}.click()")).await;
        rig.shows(&format!("said in {key}")).await;
        assert_eq!(
            rig.text("document.querySelector('#key').textContent").await,
            key
        );
        assert_eq!(
            rig.text("new URL(location.href).origin + '/'").await,
            rig.base
        );
    }
    // A name that would read backwards says so.
    rig.holds(
        "document.querySelector('#rows').innerText.includes('abc\u{27e8}U+202E\u{27e9}gpj.exe')",
    )
    .await;
    assert_eq!(rig.value("window.pwned ?? null").await, json!(null));
    rig.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn controls_and_very_long_words_stay_in_their_message() {
    let store = stores::empty();
    let key = "odd";
    let word = "w".repeat(1 << 20);
    let texts = [
        "\u{1b}[31mred\u{1b}[0m \u{1b}]0;title\u{7} \u{8}\u{8}",
        "before \u{202e}drawkcab\u{202c} after",
        "zero\u{200b}width",
        "\u{5e9}\u{5dc}\u{5d5}\u{5dd} \u{627}\u{644}\u{633}\u{644}\u{627}\u{645}",
        "Z\u{351}\u{36b}\u{343}\u{36a}\u{302}a\u{36b}\u{33d}\u{34f}lgo"
            .repeat(50)
            .leak(),
        &word,
    ];
    for text in texts {
        store.chats.add_message(key, "user", text).wait().unwrap();
    }
    store
        .chats
        .add_message(key, "assistant", "the end")
        .wait()
        .unwrap();
    let Some(rig) = rig(store.chats.clone()).await else {
        return;
    };
    rig.open().await;
    rig.screen(390, 844).await;
    rig.open_session(key).await;
    rig.shows("the end").await;
    rig.click("#feed .body > button.wide").await;
    rig.holds(&format!(
        "[...document.querySelectorAll('#feed .text')].some((e) => e.textContent.length === {})",
        word.len()
    ))
    .await;
    let wide = "document.querySelector('#feed').scrollWidth <= document.querySelector('#feed').clientWidth";
    rig.holds(wide).await;
    rig.press("g").await;
    rig.shows("\u{241b}[31mred\u{241b}[0m").await;
    rig.shows("zero\u{27e8}U+200B\u{27e9}width").await;
    rig.shows("before \u{27e8}U+202E\u{27e9}drawkcab\u{27e8}U+202C\u{27e9} after")
        .await;
    rig.shows("\u{5e9}\u{5dc}\u{5d5}\u{5dd}").await;
    rig.holds(wide).await;
    rig.end().await;
}
