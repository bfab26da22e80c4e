//! What is said while somebody looks.

use std::process::Stdio;

use sessionlog::Store;
use tokio::io::AsyncWriteExt;
use tokio::process::Command;

use super::rig::rig;
use crate::stores;

const WRITES_TO: &str = "SESSIONLOG_VIEWER_TEST_WRITES_TO";

/// No test, but the gateway of one: it runs as a process of its own, and says what it is told.
#[test]
fn a_gateway_in_another_process() {
    let Ok(dir) = std::env::var(WRITES_TO) else {
        return;
    };
    let store = Store::open(dir).unwrap();
    for line in std::io::stdin().lines() {
        let line = line.unwrap();
        let (key, text) = line.split_once(' ').unwrap();
        store
            .handle()
            .add_message(key, "user", text)
            .wait()
            .unwrap();
    }
    store.close().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_another_process_writes_appears_without_a_reload() {
    let dir = tempfile::tempdir().unwrap();
    let first = Store::open(dir.path()).unwrap();
    stores::numbered(&first.handle(), "chat", 60);
    first.close().unwrap();
    let store = Store::open_read_only(dir.path()).unwrap();
    let Some(rig) = rig(store.handle()).await else {
        return;
    };
    let mut gateway = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "browser::live::a_gateway_in_another_process"])
        .env(WRITES_TO, dir.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut told = gateway.stdin.take().unwrap();

    rig.open().await;
    rig.open_session("chat").await;
    rig.holds("document.querySelector('#live').dataset.state === 'on'")
        .await;
    rig.run("window.untouched = true").await;
    told.write_all(b"chat hello from elsewhere\n")
        .await
        .unwrap();
    rig.shows("hello from elsewhere").await;
    rig.holds("document.querySelector('#facts').innerText.startsWith('61 messages')")
        .await;
    // Who reads further up is not moved, and is told.
    rig.press("g").await;
    rig.shows("message 0").await;
    let top = rig
        .number("document.querySelector('#feed').scrollTop")
        .await;
    told.write_all(b"chat one more\nchat and another\n")
        .await
        .unwrap();
    rig.holds("document.querySelector('#newest').innerText.startsWith('2 new messages')")
        .await;
    assert_eq!(
        rig.number("document.querySelector('#feed').scrollTop")
            .await
            .to_bits(),
        top.to_bits()
    );
    rig.click("#newest").await;
    rig.shows("and another").await;
    // A new session is in the list.
    told.write_all(b"newcomer hi\n").await.unwrap();
    rig.holds("document.querySelector('#rows a').dataset.key === 'newcomer'")
        .await;
    rig.holds("window.untouched").await;
    drop(told);
    assert!(gateway.wait().await.unwrap().success());
    rig.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_of_several_pages_shows_what_comes_and_what_goes() {
    let store = stores::empty();
    for n in 0..260 {
        let key = format!("chat:{n:03}");
        store.chats.add_message(&key, "user", "hi").wait().unwrap();
    }
    let Some(rig) = rig(store.chats.clone()).await else {
        return;
    };
    rig.open().await;
    for shown in [100, 150, 200, 250, 260] {
        rig.click("#more").await;
        rig.holds(&format!(
            "document.querySelectorAll('#rows a').length === {shown}"
        ))
        .await;
    }
    rig.holds("document.querySelector('#live').dataset.state === 'on'")
        .await;
    let said = store.chats.add_message("newcomer", "user", "hi");
    said.wait().unwrap();
    rig.holds("document.querySelector('#rows a').dataset.key === 'newcomer'")
        .await;
    // One of the last, on another page of the server's.
    let row = "document.querySelector('#rows a[data-key=\"chat:020\"]')";
    rig.holds(row).await;
    store.chats.delete_session("chat:020").wait().unwrap();
    rig.holds(&format!("!{row}")).await;
    rig.holds("document.querySelectorAll('#rows a').length === 260")
        .await;
    rig.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_conversation_that_is_truncated_or_deleted_meanwhile_is_shown_as_it_is_then() {
    let store = stores::empty();
    stores::numbered(&store.chats, "chat", 300);
    let Some(rig) = rig(store.chats.clone()).await else {
        return;
    };
    rig.open().await;
    rig.open_session("chat").await;
    rig.shows("message 299").await;
    rig.holds("document.querySelector('#live').dataset.state === 'on'")
        .await;
    store.chats.truncate_history("chat", 200).wait().unwrap();
    rig.holds("document.querySelector('#facts').innerText.startsWith('200 messages')")
        .await;
    rig.shows("message 299").await;
    rig.press("g").await;
    rig.shows("message 100").await;
    store.chats.delete_session("chat").wait().unwrap();
    rig.holds("document.querySelector('#empty').innerText.includes('does not exist')")
        .await;
    rig.end().await;
}
