//! Beside a gateway that runs, is killed, and comes back.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use sessionlog::{Message, Store};

use crate::support::{Fixture, json, program, run};

/// Long enough for any machine; nothing waits for it that works.
const PATIENCE: Duration = Duration::from_secs(30);

/// Where the writer writes, and the number of its first message; without it, it is no test.
const WRITER: &str = "SESSIONLOG_CLI_TEST_WRITER";

/// Another process: writes numbered messages to two sessions until it is killed, and says
/// which were acknowledged.
#[test]
fn writer() {
    let Ok(task) = std::env::var(WRITER) else {
        return;
    };
    let (first, dir) = task.split_once(' ').unwrap();
    let first: u64 = first.parse().unwrap();
    let store = Store::open(dir).unwrap();
    let chats = store.handle();
    for number in first.. {
        for key in ["chat:1", "chat:2"] {
            let message = Message::user(number.to_string());
            chats.add_full_message(key, message).wait().unwrap();
        }
        println!("\nacknowledged {number}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A process that is killed in the end, and the lines it says.
struct Process {
    child: Child,
    lines: Receiver<String>,
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Process {
    fn start(mut command: Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        let (told, lines) = channel();
        std::thread::spawn(move || {
            for line in out.lines().map_while(Result::ok) {
                if told.send(line).is_err() {
                    return;
                }
            }
        });
        Self { child, lines }
    }

    fn writer(dir: &Path, first: u64) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "beside::writer", "--nocapture"]);
        command.env(WRITER, format!("{first} {}", dir.display()));
        Self::start(command)
    }

    fn program(args: &[&str], dir: &Path, more: &[&str]) -> Self {
        let mut command = program();
        command.args(args).arg(dir).args(more);
        Self::start(command)
    }

    fn line(&self) -> String {
        self.lines.recv_timeout(PATIENCE).expect("it says no more")
    }

    /// Waits until so many more messages were acknowledged; the last one's number.
    fn acknowledges(&self, many: usize) -> u64 {
        let mut last = 0;
        for _ in 0..many {
            last = loop {
                if let Some(number) = self.line().strip_prefix("acknowledged ") {
                    break number.parse().unwrap();
                }
            };
        }
        last
    }

    /// Ends it as a power cut would, and says what it had acknowledged last, if anything more.
    fn kill(mut self) -> Option<u64> {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        let said = self.lines.iter();
        let numbers = said.filter_map(|line| line.strip_prefix("acknowledged ")?.parse().ok());
        numbers.last()
    }
}

/// What a follower showed of each session.
#[derive(Default)]
struct Seen([Vec<u64>; 2]);

impl Seen {
    /// Takes what `tail` says until that number was seen in each session that is followed.
    fn until(&mut self, tail: &Process, number: u64, sessions: &[&str]) {
        let has = |seen: &Self, session: &&str| seen.of(session).last() >= Some(&number);
        while !sessions.iter().all(|session| has(self, session)) {
            let line = json(&tail.line()).remove(0);
            let text = line["message"]["content"].as_str().unwrap();
            let session = usize::from(line["session"] == "chat:2");
            self.0[session].push(text.parse().unwrap());
        }
    }

    fn of(&self, session: &str) -> &[u64] {
        &self.0[usize::from(session == "chat:2")]
    }
}

#[test]
fn a_follower_shows_every_message_once_in_order_through_a_kill() {
    for sessions in [vec!["chat:1"], vec!["chat:1", "chat:2"]] {
        let fixture = Fixture::empty();
        let dir = fixture.dir();
        let writer = Process::writer(&dir, 0);
        writer.acknowledges(3);
        let follow = ["tail", "-f", "--json", "--interval", "50ms", "-n", "1000"];
        let named: &[&str] = if sessions.len() == 1 {
            &["chat:1"]
        } else {
            &[]
        };
        let tail = Process::program(&follow, &dir, named);
        let mut seen = Seen::default();
        let number = writer.acknowledges(20);
        seen.until(&tail, number, &sessions);
        let last = writer.kill().unwrap_or(number);
        seen.until(&tail, last, &sessions);
        // What the killed one wrote last may be there, or not.
        let next = fixture.read(|chats| chats.count("chat:1").wait().unwrap()) as u64;
        let next = next.max(fixture.read(|chats| chats.count("chat:2").wait().unwrap()) as u64);
        let again = Process::writer(&dir, next);
        let number = again.acknowledges(20);
        seen.until(&tail, number, &sessions);
        for session in sessions {
            let numbers = seen.of(session);
            let is_next = |pair: &[u64]| pair[1] == pair[0] + 1;
            let is_after_kill = |pair: &[u64]| pair == [next - 2, next];
            let is_right = numbers
                .windows(2)
                .all(|pair| is_next(pair) || is_after_kill(pair));
            assert!(is_right && numbers[0] == 0, "{session}: {numbers:?}");
        }
    }
}

#[test]
fn a_backup_and_a_check_beside_a_writer_have_all_that_was_acknowledged() {
    let fixture = Fixture::empty();
    let (dir, copy) = (fixture.dir(), fixture.beside("copy"));
    let writer = Process::writer(&dir, 0);
    let number = writer.acknowledges(20);
    run("backup", &dir, &[copy.to_str().unwrap()]).exits(0);
    run("verify", &dir, &[]).exits(0);
    writer.acknowledges(1);
    drop(writer);
    run("verify", &copy, &[]).exits(0);
    let copied = json(&run("show", &copy, &["chat:2", "--json"]).exits(0));
    assert!(copied.len() as u64 > number, "{} of {number}", copied.len());
}

#[test]
fn a_follower_finds_its_place_again_after_a_compaction() {
    let fixture = Fixture::empty();
    let dir = fixture.dir();
    let store = Store::open(&dir).unwrap();
    let chats = store.handle();
    let say = |text: &str| chats.add_message("chat:1", "user", text).wait().unwrap();
    (0..10).for_each(|number| say(&number.to_string()));
    let follow = ["tail", "-f", "--json", "--interval", "50ms", "-n", "1"];
    let tail = Process::program(&follow, &dir, &["chat:1"]);
    let text = || {
        json(&tail.line())[0]["message"]["content"]
            .as_str()
            .unwrap()
            .to_owned()
    };
    assert_eq!(text(), "9");
    chats.truncate_history("chat:1", 2).wait().unwrap();
    chats.compact("chat:1").wait().unwrap();
    say("10");
    assert_eq!(text(), "10");
    chats
        .set_history("chat:1", vec![Message::user("anew")])
        .wait()
        .unwrap();
    assert_eq!(text(), "anew");
    store.close().unwrap();
}

#[test]
fn who_follows_all_is_not_shown_an_old_conversation_again_under_another_key() {
    let fixture = Fixture::empty();
    let dir = fixture.dir();
    std::fs::create_dir_all(&dir).unwrap();
    let line = |text: u64| {
        format!(
            "{{\"role\":\"user\",\"content\":\"{text}\",\"created_at\":\"2020-01-01T00:00:0{text}Z\"}}\n"
        )
    };
    let lines: String = (0..3).map(line).collect();
    std::fs::write(dir.join("old.jsonl"), lines).unwrap();
    let store = Store::open(&dir).unwrap();
    let chats = store.handle();
    let follow = ["tail", "-f", "--json", "--interval", "50ms", "-n", "1"];
    let tail = Process::program(&follow, &dir, &[]);
    let line = || json(&tail.line()).remove(0);
    assert_eq!(line()["message"]["content"], "2");
    chats.rename_session("old", "now").wait().unwrap();
    chats.add_message("now", "user", "3").wait().unwrap();
    let next = line();
    assert_eq!(
        (&next["session"], &next["message"]["content"]),
        (&"now".into(), &"3".into())
    );
    store.close().unwrap();
}

#[test]
fn a_follower_marks_damaged_lines_that_come_each_once() {
    let text = |n: u64| format!("{{\"role\":\"user\",\"content\":\"{n}\"}}\n");
    for named in [&["chat"][..], &[]] {
        let dir = tempfile::tempdir().unwrap();
        // A program without a journal, as PicoClaw, writes.
        let log = dir.path().join("chat.jsonl");
        std::fs::write(&log, format!("{}damaged\n", text(0))).unwrap();
        let append = |lines: &str| {
            let mut file = std::fs::OpenOptions::new().append(true).open(&log).unwrap();
            file.write_all(lines.as_bytes()).unwrap();
        };
        let follow = ["tail", "-f", "--interval", "50ms"];
        let tail = Process::program(&follow, dir.path(), named);
        let shown = |many: usize| {
            let lines = std::iter::from_fn(|| Some(tail.line()));
            let lines = lines.filter(|line| line.starts_with("  ") || line.contains("damaged"));
            let lines: Vec<_> = lines.take(many).collect();
            lines.join(",")
        };
        let damaged = |lines: &str| {
            if named.is_empty() {
                format!("{lines}  chat")
            } else {
                lines.to_owned()
            }
        };
        assert_eq!(shown(2), format!("  0,{}", damaged("1 damaged line")));
        append("damaged\ndamaged\n");
        assert_eq!(shown(1), damaged("2 damaged lines"));
        append(&format!("{}damaged\n{}", text(1), text(2)));
        assert_eq!(shown(3), format!("  1,{},  2", damaged("1 damaged line")));
        append(&text(3));
        assert_eq!(shown(1), "  3");
    }
}
