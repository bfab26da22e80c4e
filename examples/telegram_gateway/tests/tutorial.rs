//! The guide's tutorial: its programs are the ones that are compiled here, and do what it says.
#![expect(
    clippy::unwrap_used,
    reason = "helpers of tests fail loudly, as tests do"
)]

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use sessionlog::{Message, Store};
use sessionlog_telegram::local::{BotApi, Sent};

const PATIENCE: Duration = Duration::from_mins(3);

/// A step's program, which ends with the test.
struct Bot(Child);

impl Bot {
    fn start(program: &str, telegram: &BotApi, dir: &Path) -> Self {
        let mut command = Command::new(program);
        command.env("TELOXIDE_TOKEN", "1:local");
        command.env("TELOXIDE_API_URL", telegram.url());
        let command = command.current_dir(dir).stdout(Stdio::null());
        Self(command.spawn().unwrap())
    }
}

impl Drop for Bot {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

async fn sent_until(telegram: &BotApi, count: usize) -> Vec<String> {
    let sent = telegram.sent_until(|sent| sent.len() >= count);
    let sent = tokio::time::timeout(PATIENCE, sent).await;
    let sent = sent.unwrap_or_else(|_| panic!("sent so far: {:?}", telegram.sent()));
    sent.into_iter().map(|Sent { text, .. }| text).collect()
}

fn history(dir: &Path) -> (String, Vec<Message>) {
    let store = Store::open(dir.join("sessions")).unwrap();
    let chats = store.handle().session("telegram:1");
    let history = (
        chats.summary().wait().unwrap(),
        chats.history().wait().unwrap(),
    );
    store.close().unwrap();
    history
}

#[test]
fn the_page_shows_the_programs_that_are_compiled() {
    let page = include_str!("../../../src/guide/tutorial.md");
    let blocks = page.split("```rust,ignore\n").skip(1);
    let shown: Vec<&str> = blocks
        .map(|rest| rest.split("\n```").next().unwrap())
        .collect();
    let programs = [
        include_str!("../src/bin/tutorial_1.rs"),
        include_str!("../src/bin/tutorial_2.rs"),
        include_str!("../src/bin/tutorial_3.rs"),
    ];
    let bare = programs.map(|program| program.split_once("\n\n").unwrap().1.trim_end());
    assert_eq!(shown, bare);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_first_step_repeats() {
    let telegram = BotApi::start(0, None).await.unwrap();
    let dir = tempfile::tempdir().unwrap();
    let _bot = Bot::start(env!("CARGO_BIN_EXE_tutorial_1"), &telegram, dir.path());
    telegram.say(1, "hello");
    assert_eq!(sent_until(&telegram, 1).await, ["hello"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_second_step_stores_each_message_once_with_one_answer_although_it_is_killed() {
    let telegram = BotApi::start(0, Some(2)).await.unwrap();
    let dir = tempfile::tempdir().unwrap();
    for nth in 0..5 {
        let _killed = Bot::start(env!("CARGO_BIN_EXE_tutorial_2"), &telegram, dir.path());
        telegram.say(1, &format!("message {nth}"));
        sent_until(&telegram, nth + 1).await;
    }
    let bot = Bot::start(env!("CARGO_BIN_EXE_tutorial_2"), &telegram, dir.path());
    telegram.say(1, "the last");
    let is_last = |sent: &[Sent]| sent.iter().any(|sent| sent.text.starts_with("the last"));
    tokio::time::timeout(PATIENCE, telegram.sent_until(is_last))
        .await
        .unwrap();
    drop(bot);
    let (_, history) = history(dir.path());
    let roles: Vec<_> = history.iter().map(Message::role).collect();
    // The last answer is stored after it is sent, which the kill may have prevented.
    let expected = ["user", "assistant"].into_iter().cycle().take(roles.len());
    assert!(
        roles.len() >= 11 && roles.iter().copied().eq(expected),
        "{roles:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn the_third_step_summarises_and_erases() {
    let telegram = BotApi::start(0, None).await.unwrap();
    let dir = tempfile::tempdir().unwrap();
    let bot = Bot::start(env!("CARGO_BIN_EXE_tutorial_3"), &telegram, dir.path());
    for nth in 1..=20 {
        telegram.say(1, &"long ".repeat(800));
        sent_until(&telegram, nth).await;
    }
    drop(bot);
    let (summary, kept) = history(dir.path());
    assert!(!summary.is_empty());
    assert!(kept.len() < 30, "{}", kept.len());

    let _bot = Bot::start(env!("CARGO_BIN_EXE_tutorial_3"), &telegram, dir.path());
    telegram.say(1, "/erase");
    let is_erased = |sent: &[Sent]| sent.iter().any(|s| s.text == "Everything is erased.");
    tokio::time::timeout(PATIENCE, telegram.sent_until(is_erased))
        .await
        .unwrap();
    telegram.say(1, "hello");
    let is_new = |sent: &[Sent]| {
        sent.last()
            .is_some_and(|sent| sent.text == "hello (new, 1)")
    };
    tokio::time::timeout(PATIENCE, telegram.sent_until(is_new))
        .await
        .unwrap();
}
