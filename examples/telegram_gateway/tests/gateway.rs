//! The gateway as people meet it: it is killed, stopped and started again while a Telegram and
//! a model on this computer go on.
//!
//! `SESSIONLOG_SEED=N cargo test -p sessionlog-telegram killed` plays the moments of one run
//! again; `SESSIONLOG_LONG=1` kills fifty times.
#![expect(
    clippy::unwrap_used,
    reason = "helpers of tests fail loudly, as tests do"
)]

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, SystemTime};

use serde_json::Value;
use sessionlog::Store;
use sessionlog_telegram::gateway::APOLOGY;
use sessionlog_telegram::local::{BotApi, EchoModel, Sent, StatusCode};

/// Longer than anything here takes on a busy machine.
const PATIENCE: Duration = Duration::from_mins(3);

/// What the gateway is connected to, and where it keeps its sessions.
struct Town {
    telegram: BotApi,
    model: EchoModel,
    dir: tempfile::TempDir,
}

/// A process that ends with the test.
struct Gateway(Child);

impl Town {
    async fn new(redeliver_every: Option<u64>, word: Duration) -> Self {
        Self {
            telegram: BotApi::start(0, redeliver_every).await.unwrap(),
            model: EchoModel::start(0, word).await.unwrap(),
            dir: tempfile::tempdir().unwrap(),
        }
    }

    fn start(&self, more: &[&str]) -> Gateway {
        let mut command = Command::new(env!("CARGO_BIN_EXE_sessionlog-telegram"));
        command.arg("--dir").arg(self.dir.path());
        command.args(["--api-url", &self.telegram.url()]);
        command.args(["--model-url", &self.model.url()]);
        Gateway(command.args(more).stdout(Stdio::null()).spawn().unwrap())
    }

    async fn sent_until(&self, is: impl Fn(&[Sent]) -> bool) -> Vec<Sent> {
        let sent = tokio::time::timeout(PATIENCE, self.telegram.sent_until(is)).await;
        sent.unwrap_or_else(|_| panic!("sent so far: {:?}", self.telegram.sent()))
    }

    /// Whether somebody in a chat was sent an answer to this.
    async fn answered(&self, chat: i64, question: &str) {
        self.sent_until(|sent| {
            sent.iter()
                .any(|s| s.chat == chat && s.text.ends_with(question))
        })
        .await;
    }

    /// The messages in a chat's file. Those that a summary hid are among them as long as
    /// nothing is compacted.
    fn lines(&self, chat: i64) -> Vec<Value> {
        let path = self.dir.path().join(format!("telegram_{chat}.jsonl"));
        let text = std::fs::read_to_string(path).unwrap();
        let lines = text.lines().map(|line| serde_json::from_str(line).unwrap());
        lines
            .filter(|line: &Value| line["role"].is_string())
            .collect()
    }
}

impl Gateway {
    fn kill(mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }

    /// As systemd does.
    async fn terminate(mut self) {
        let id = self.0.id().to_string();
        let sent = Command::new("kill").args(["-TERM", &id]).status().unwrap();
        assert!(sent.success());
        let ended = tokio::task::spawn_blocking(move || self.0.wait().unwrap());
        let ended = tokio::time::timeout(PATIENCE, ended)
            .await
            .unwrap()
            .unwrap();
        assert!(ended.success(), "{ended}");
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Moments that a seed chooses.
struct Dice(u64);

impl Dice {
    fn new() -> Self {
        let seed = std::env::var("SESSIONLOG_SEED").map_or_else(
            |_| {
                let now = SystemTime::UNIX_EPOCH.elapsed().unwrap();
                u64::from(now.subsec_nanos())
            },
            |seed| seed.parse().unwrap(),
        );
        println!("SESSIONLOG_SEED={seed}");
        Self(seed)
    }

    fn below(&mut self, end: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (self.0 >> 33) % end
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_at_random_it_stores_one_answer_to_each_message_in_order_and_sends_it() {
    let town = Town::new(Some(4), Duration::from_millis(2)).await;
    let kills = if std::env::var_os("SESSIONLOG_LONG").is_some() {
        50
    } else {
        10
    };
    let mut dice = Dice::new();
    let mut said: BTreeMap<i64, Vec<String>> = BTreeMap::new();
    // A window this small is summarised every few messages.
    let small = ["--window", "120", "--omitted", "4", "--keep-hidden"];
    for kill in 0..kills {
        let gateway = town.start(&small);
        for nth in 0..4 + dice.below(8) {
            let chat = 1 + dice.below(3).cast_signed();
            let question = format!("question {kill}.{nth}?");
            town.telegram.say(chat, &question);
            said.entry(chat).or_default().push(question);
        }
        // While it begins, or after it sent some answers and is at others.
        let more = dice.below(6) as usize;
        if more > 0 {
            let so_far = town.telegram.sent().len();
            town.sent_until(|sent| sent.len() >= so_far + more).await;
        }
        tokio::time::sleep(Duration::from_millis(dice.below(60))).await;
        gateway.kill();
    }
    let gateway = town.start(&small);
    for (chat, questions) in &said {
        for question in questions {
            town.answered(*chat, question).await;
        }
    }
    gateway.terminate().await;

    for (chat, questions) in &said {
        let lines = town.lines(*chat);
        let of = |role: &'static str| lines.iter().filter(move |line| line["role"] == role);
        let asked: Vec<&str> = of("user")
            .map(|line| line["content"].as_str().unwrap())
            .collect();
        assert_eq!(asked, *questions, "{chat}");
        let ids: Vec<&Value> = of("user").map(|line| &line["update_id"]).collect();
        let answers: Vec<&Value> = of("assistant").map(|line| &line["answers"]).collect();
        assert_eq!(answers, ids, "{chat}");
        for (answer, question) in of("assistant").zip(questions) {
            assert!(
                answer["content"].as_str().unwrap().ends_with(question),
                "{answer}"
            );
        }
    }
    // What was sent is what is stored; once, but for the answers during which it was killed.
    let sent = town.telegram.sent();
    let total: usize = said.values().map(Vec::len).sum();
    assert!(
        sent.len() <= total + 3 * kills,
        "{} for {total}",
        sent.len()
    );
    for Sent { chat, text } in &sent {
        let stored = town
            .lines(*chat)
            .iter()
            .any(|line| line["content"] == **text);
        assert!(stored, "{chat}: {text}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn stopped_it_ends_cleanly_and_answers_the_rest_after_the_next_start() {
    let town = Town::new(None, Duration::from_millis(20)).await;
    let gateway = town.start(&[]);
    for nth in 0..6 {
        town.telegram.say(1, &format!("question {nth}?"));
    }
    town.answered(1, "question 0?").await;
    gateway.terminate().await;
    let answers = |town: &Town| {
        let lines = town.lines(1);
        lines
            .iter()
            .filter(|line| line["role"] == "assistant")
            .count()
    };
    let so_far = answers(&town);
    assert!(
        so_far < 6,
        "it went on for as long as there was something to do"
    );
    let store = Store::open(town.dir.path()).unwrap();
    assert_eq!(
        store.handle().stats().recovered_records,
        0,
        "it left a journal"
    );
    store.close().unwrap();

    let gateway = town.start(&[]);
    town.answered(1, "question 5?").await;
    gateway.terminate().await;
    assert_eq!(answers(&town), 6);
    assert_eq!(town.telegram.sent().len(), 6);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_long_conversation_is_summarised_and_the_model_is_given_a_window() {
    let town = Town::new(None, Duration::ZERO).await;
    let gateway = town.start(&["--window", "120", "--omitted", "4"]);
    for nth in 0..30 {
        town.telegram.say(1, &format!("question {nth}?"));
        town.answered(1, &format!("question {nth}?")).await;
    }
    gateway.terminate().await;
    let store = Store::open(town.dir.path()).unwrap();
    let chats = store.handle();
    assert!(
        chats
            .summary("telegram:1")
            .await
            .unwrap()
            .contains("Summarise")
    );
    let kept = chats.count("telegram:1").await.unwrap();
    assert!(kept < 30, "{kept} of 60");
    // The model says how many messages it was given.
    let last = town.telegram.sent().last().unwrap().text.clone();
    let given: usize = last
        .split(&[' ', ':'][..])
        .find_map(|word| word.parse().ok())
        .unwrap();
    assert!((3..16).contains(&given), "{last}");
    assert_eq!(last, EchoModel::answer("question 29?", given));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_person_who_asks_and_confirms_is_erased_and_nobody_else() {
    let town = Town::new(None, Duration::ZERO).await;
    let gateway = town.start(&[]);
    town.telegram.say(1, "I live at 5 Elm Street");
    town.telegram.say(2, "I live at 7 Oak Street");
    town.answered(1, "Elm Street").await;
    town.answered(2, "Oak Street").await;
    town.telegram.say(1, "/erase");
    town.sent_until(|sent| sent.iter().any(|s| s.text.contains("Answer YES")))
        .await;
    // Anything else is no confirmation.
    town.telegram.say(1, "what did I say?");
    town.answered(1, "what did I say?").await;
    town.telegram.say(1, "YES");
    town.answered(1, "YES").await;
    town.telegram.say(1, "/erase");
    let twice = |sent: &[Sent]| {
        sent.iter()
            .filter(|s| s.text.contains("Answer YES"))
            .count()
            == 2
    };
    town.sent_until(twice).await;
    town.telegram.say(1, "YES");
    town.sent_until(|sent| sent.iter().any(|s| s.text == "Everything is erased."))
        .await;
    town.telegram.say(1, "hello again");
    town.answered(1, "hello again").await;
    gateway.terminate().await;

    assert!(!holds(town.dir.path(), "Elm Street"));
    assert!(holds(town.dir.path(), "Oak Street"));
    let texts: Vec<_> = town
        .lines(1)
        .iter()
        .map(|line| line["content"].clone())
        .collect();
    assert_eq!(texts, ["hello again", &EchoModel::answer("hello again", 1)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_question_that_the_model_refuses_gets_one_apology_and_holds_up_nothing() {
    let town = Town::new(None, Duration::ZERO).await;
    town.model
        .refuse("poison", StatusCode::BAD_REQUEST, usize::MAX);
    let gateway = town.start(&[]);
    town.telegram.say(1, "poison?");
    town.telegram.say(1, "and now?");
    town.answered(1, "and now?").await;
    gateway.terminate().await;
    let gateway = town.start(&[]);
    town.telegram.say(1, "and later?");
    town.answered(1, "and later?").await;
    gateway.terminate().await;

    let sent = town.telegram.sent();
    assert_eq!((sent.len(), &*sent[0].text), (3, APOLOGY));
    // It was not tried again, and later requests left it out.
    assert_eq!(town.model.refused(), 1);
    let lines = town.lines(1);
    let of = |role: &str, field: &str| -> Vec<Value> {
        let lines = lines.iter().filter(|line| line["role"] == *role);
        lines.map(|line| line[field].clone()).collect()
    };
    assert_eq!(of("assistant", "answers"), of("user", "update_id"));
    let failed = of("assistant", "failed");
    assert!(failed[0].as_str().unwrap().contains("400"), "{failed:?}");
    assert_eq!(failed[1..], [Value::Null, Value::Null]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_model_that_is_busy_is_asked_again_and_apologised_for_if_it_stays_so() {
    let town = Town::new(None, Duration::ZERO).await;
    let busy = StatusCode::SERVICE_UNAVAILABLE;
    // More than the client's own attempts.
    town.model.refuse("soon", busy, 6);
    town.model.refuse("never", busy, usize::MAX);
    let gateway = town.start(&[]);
    town.telegram.say(1, "soon?");
    town.answered(1, "soon?").await;
    assert_eq!(town.model.refused(), 6);
    town.telegram.say(1, "never?");
    town.telegram.say(1, "and now?");
    town.answered(1, "and now?").await;
    gateway.terminate().await;
    let texts: Vec<_> = town
        .telegram
        .sent()
        .into_iter()
        .map(|sent| sent.text)
        .collect();
    assert_eq!((texts.len(), &*texts[1]), (3, APOLOGY));
}

#[test]
fn the_demo_answers_three_people_and_ends() {
    let dir = tempfile::tempdir().unwrap();
    let mut demo = Command::new(env!("CARGO_BIN_EXE_sessionlog-telegram"));
    let demo = demo
        .arg("--demo")
        .arg("--dir")
        .arg(dir.path())
        .output()
        .unwrap();
    assert!(demo.status.success(), "{demo:?}");
    let out = String::from_utf8(demo.stdout).unwrap();
    assert!(
        out.lines().filter(|line| line.starts_with("to ")).count() >= 9,
        "{out}"
    );
    assert!(out.contains("messages "), "{out}");
}

/// Whether a file below a directory has this text.
fn holds(dir: &Path, text: &str) -> bool {
    std::fs::read_dir(dir).unwrap().any(|entry| {
        let path = entry.unwrap().path();
        if path.is_dir() {
            return holds(&path, text);
        }
        let bytes = std::fs::read(path).unwrap();
        bytes
            .windows(text.len())
            .any(|window| window == text.as_bytes())
    })
}
