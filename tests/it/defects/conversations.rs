//! What broke kimi-cli's `Context`, one claim per defect: `k01` to `k12`.

use sessionlog::testing::disk_model::{Image, MemoryStorage};
use sessionlog::testing::sim::Sim;
use sessionlog::{BackupLimits, Error, Message, Store, StoreHandle};

use crate::support::{line, manual, numbers, open, said, scratch, texts};

const CHAT: &str = "cli";

fn user(n: usize) -> Message {
    Message::user(n.to_string())
}

/// A store on files of another program.
fn store_of(log: &[u8]) -> (tempfile::TempDir, Store) {
    let dir = scratch();
    std::fs::write(dir.path().join("cli.jsonl"), log).unwrap();
    let store = open(dir.path());
    (dir, store)
}

#[test]
fn k01_a_record_after_a_torn_tail_stands_alone_also_if_it_is_a_checkpoint() {
    let (dir, store) = store_of(&[line("0").as_bytes(), b"{\"role\":\"user\",\"cont"].concat());
    let chat = store.handle().context(CHAT);
    assert_eq!(chat.checkpoint(false).wait().unwrap(), 0);
    chat.append_message(user(1)).wait().unwrap();
    store.close().unwrap();
    let store = open(dir.path());
    assert_eq!(texts(&store.handle(), CHAT), numbers(0..2));
    store.handle().context(CHAT).revert_to(0).wait().unwrap();
    assert_eq!(texts(&store.handle(), CHAT), numbers(0..1));
    store.close().unwrap();
}

#[test]
fn k02_no_line_keeps_a_conversation_from_opening_or_going_back() {
    let deep = "[".repeat(20_000) + &"]".repeat(20_000);
    let many_digits = "9".repeat(5_000);
    for odd in [
        r#"{"role":"user","content":[{"type":"hologram","x":1}]}"#.to_owned(),
        r#"{"role":"_future","id":1}"#.to_owned(),
        r#"{"role":"user","content":"odd","self":1}"#.to_owned(),
        format!(r#"{{"role":"user","content":"odd","x":{deep}}}"#),
        format!(r#"{{"role":"_usage","token_count":{many_digits}}}"#),
        format!(r#"{{"role":"_checkpoint","id":{many_digits}}}"#),
        String::from("{}"),
        String::from("nonsense"),
    ] {
        let log: String = (0..5).map(|n| line(&n.to_string())).collect();
        let (dir, store) = store_of(format!("{log}{odd}\n").as_bytes());
        let chat = store.handle().context(CHAT);
        assert!(chat.restore().wait().unwrap());
        for n in 5..10 {
            chat.append_message(user(n)).wait().unwrap();
        }
        let before = texts(&store.handle(), CHAT);
        let id = chat.checkpoint(true).wait().unwrap();
        chat.revert_to(id).wait().unwrap();
        assert_eq!(texts(&store.handle(), CHAT), before);
        assert!(before.len() >= 10);
        store.close().unwrap();
        let after = std::fs::read_to_string(dir.path().join("cli.jsonl")).unwrap();
        assert!(after.contains(&odd), "the line is kept");
    }
}

#[test]
fn k03_a_tool_call_without_arguments_reads_back() {
    let dir = scratch();
    let store = open(dir.path());
    let json = br#"{"role":"assistant","content":"","tool_calls":[{"id":"1","type":"function","function":{"name":"now","arguments":null}}]}"#;
    let message = Message::from_json(json).unwrap();
    store
        .handle()
        .context(CHAT)
        .append_message(message)
        .wait()
        .unwrap();
    store.close().unwrap();
    let store = open(dir.path());
    let history = store.handle().context(CHAT).history().wait().unwrap();
    assert_eq!(history.len(), 1);
    assert_eq!(history[0].tool_calls().len(), 1);
    store.close().unwrap();
}

#[test]
fn k04_a_lone_surrogate_is_stored_and_read_as_a_replacement() {
    let log = b"{\"role\":\"user\",\"content\":\"a\\ud800b\"}\n";
    let (dir, store) = store_of(log);
    let chat = store.handle().context(CHAT);
    let message = Message::from_json(&log[..log.len() - 1]).unwrap();
    chat.append_message(message).wait().unwrap();
    store.close().unwrap();
    let store = open(dir.path());
    assert_eq!(texts(&store.handle(), CHAT), ["a\u{fffd}b", "a\u{fffd}b"]);
    store.close().unwrap();
}

/// Cuts the power before every call of `act`; what is found then.
fn found_after_crashes(act: impl Fn(&StoreHandle) -> sessionlog::Reply<()>) -> Vec<Vec<String>> {
    let prepared = || {
        let disk = MemoryStorage::new();
        let mut sim = Sim::open(disk.clone(), &manual(), 0).unwrap();
        let chat = sim.handle().context(CHAT);
        sim.run(chat.append_message(user(0))).unwrap();
        sim.run(chat.checkpoint(false)).unwrap();
        sim.run(chat.append_message(user(1))).unwrap();
        (disk, sim)
    };
    let mut found = Vec::new();
    for step in 0.. {
        let (disk, mut sim) = prepared();
        disk.crash_at(disk.steps() + step);
        let done = sim.run(act(&sim.handle())).is_ok();
        drop(sim);
        for image in [
            Image::ProcessDeath,
            Image::AllLost,
            Image::AllKept,
            Image::Random(step),
        ] {
            let mut sim = Sim::open(disk.image(image), &manual(), 0).unwrap();
            found.push(said(&sim.run(sim.handle().history(CHAT)).unwrap()));
        }
        if done {
            return found;
        }
    }
    found
}

#[test]
fn k05_a_crash_leaves_the_conversation_as_it_was_or_as_it_was_to_be() {
    let (before, reverted) = (numbers(0..2), numbers(0..1));
    let found = found_after_crashes(|chats| chats.context(CHAT).revert_to(0));
    assert!(
        found
            .iter()
            .all(|texts| *texts == before || *texts == reverted)
    );
    assert_eq!(found.first(), Some(&before));
    assert_eq!(found.last(), Some(&reverted));
    let found = found_after_crashes(|chats| chats.context(CHAT).clear());
    assert!(
        found
            .iter()
            .all(|texts| *texts == before || texts.is_empty())
    );
    assert_eq!(found.last(), Some(&Vec::new()));
}

#[test]
fn k06_a_checkpoint_that_cannot_be_found_is_an_error_and_changes_nothing() {
    let log = [
        line("0"),
        String::from("{\"role\": \"_checkpoint\", \"id\"\n"),
        line("1"),
        String::from("{\"role\": \"_checkpoint\", \"id\": \"1\"}\n"),
        String::from("{\"role\": \"_checkpoint\", \"id\": 2}\n"),
        line("2"),
    ];
    let (dir, store) = store_of(log.concat().as_bytes());
    let chat = store.handle().context(CHAT);
    for id in [-1, 0, 1, 3] {
        let error = chat.revert_to(id).wait().unwrap_err();
        assert!(
            matches!(&error, Error::CheckpointNotFound { existing, .. } if *existing == [2]),
            "{error}"
        );
    }
    assert!(store.handle().list_backups(CHAT).wait().unwrap().is_empty());
    store.close().unwrap();
    let after = std::fs::read_to_string(dir.path().join("cli.jsonl")).unwrap();
    assert_eq!(after, log.concat());
}

#[test]
fn k07_what_was_acknowledged_survives_a_power_loss() {
    let disk = MemoryStorage::new();
    let mut sim = Sim::open(disk.clone(), &manual(), 0).unwrap();
    let chat = sim.handle().context(CHAT);
    for n in 0..100 {
        sim.run(chat.append_message(user(n))).unwrap();
    }
    sim.run(chat.update_token_count(7)).unwrap();
    assert_eq!(sim.run(chat.checkpoint(false)).unwrap(), 0);
    drop(sim);
    let mut sim = Sim::open(disk.image(Image::AllLost), &manual(), 0).unwrap();
    let chat = sim.handle().context(CHAT);
    assert_eq!(said(&sim.run(chat.history()).unwrap()), numbers(0..100));
    assert_eq!(sim.run(chat.token_count()).unwrap(), 7);
    assert_eq!(sim.run(chat.n_checkpoints()).unwrap(), 1);
}

#[test]
fn k08_a_second_writer_is_refused_and_appends_beside_reverts_are_kept() {
    let dir = scratch();
    let store = open(dir.path());
    assert!(matches!(Store::open(dir.path()), Err(Error::Locked { .. })));
    let (chats, chat) = (store.handle(), store.handle().context(CHAT));
    chat.append_message(user(0)).wait().unwrap();
    std::thread::scope(|scope| {
        let appender = scope.spawn(|| {
            for n in 1..=200 {
                chats
                    .add_message(CHAT, "user", &n.to_string())
                    .wait()
                    .unwrap();
            }
        });
        while !appender.is_finished() {
            let id = chat.checkpoint(false).wait().unwrap();
            chat.revert_to(id).wait().unwrap();
        }
    });
    store.close().unwrap();
    let backups = dir.path().join(".sessionlog/backups");
    let mut everything = std::fs::read_to_string(dir.path().join("cli.jsonl")).unwrap();
    for backup in std::fs::read_dir(backups).unwrap() {
        everything += &std::fs::read_to_string(backup.unwrap().path()).unwrap();
    }
    for n in 0..=200 {
        assert!(everything.contains(&format!("\"content\":\"{n}\"")), "{n}");
    }
}

/// The calls to the storage that a revert to the last checkpoint takes.
fn calls_of_a_revert(messages: usize) -> u64 {
    let disk = MemoryStorage::new();
    let mut sim = Sim::open(disk.clone(), &manual(), 0).unwrap();
    let chat = sim.handle().context(CHAT);
    let many: Vec<_> = (0..messages).map(user).collect();
    sim.run(chat.append_message(many)).unwrap();
    let id = sim.run(chat.checkpoint(false)).unwrap();
    sim.flush().unwrap();
    let before = disk.steps();
    sim.run(chat.revert_to(id)).unwrap();
    disk.steps() - before
}

#[test]
fn k09_a_revert_reads_the_lines_that_stay_once_and_in_big_pieces() {
    let (short, long) = (calls_of_a_revert(10), calls_of_a_revert(10_000));
    assert!(
        long <= short + 4,
        "{short} calls for 10 lines, {long} for 10,000"
    );
}

#[test]
fn k10_backups_can_be_kept_within_bounds() {
    let dir = scratch();
    let store = open(dir.path());
    let (chats, chat) = (store.handle(), store.handle().context(CHAT));
    chat.append_message(Message::user("x".repeat(100_000)))
        .wait()
        .unwrap();
    for _ in 0..50 {
        let id = chat.checkpoint(false).wait().unwrap();
        chat.revert_to(id).wait().unwrap();
        let limits = BackupLimits::new().count(3).bytes(250_000);
        chats.prune_backups(CHAT, limits).wait().unwrap();
    }
    let backups = chats.list_backups(CHAT).wait().unwrap();
    assert_eq!(backups.len(), 2);
    assert_eq!(backups.last().map(|backup| backup.number), Some(50));
    store.close().unwrap();
}

#[test]
fn k11_the_last_prompt_wins_and_odd_files_cost_at_most_a_line() {
    let first = "{\"role\": \"_system_prompt\", \"content\": \"old\"}\n";
    let bad = b"{\"role\":\"user\",\"content\":\"\xff\"}\n";
    let bom = b"\xef\xbb\xbf{\"role\":\"user\",\"content\":\"bom\"}\n";
    let log = [&bom[..], first.as_bytes(), bad, line("0").as_bytes()].concat();
    let (dir, store) = store_of(&log);
    let chat = store.handle().context(CHAT);
    chat.write_system_prompt("new").wait().unwrap();
    store.close().unwrap();
    let store = open(dir.path());
    let chat = store.handle().context(CHAT);
    assert_eq!(chat.system_prompt().wait().unwrap().as_deref(), Some("new"));
    assert_eq!(texts(&store.handle(), CHAT), ["bom", "\u{fffd}", "0"]);
    store.handle().context("nobody").clear().wait().unwrap();
    assert!(!dir.path().join("nobody.jsonl").exists());
    assert!(!dir.path().join(".sessionlog/backups").exists());
    store.close().unwrap();
    let after = std::fs::read(dir.path().join("cli.jsonl")).unwrap();
    assert!(after.starts_with(&log), "every line is kept");
}

#[test]
fn k12_the_estimate_is_the_same_before_and_after_reopening() {
    let dir = scratch();
    let store = open(dir.path());
    let chat = store.handle().context(CHAT);
    for _ in 0..1000 {
        chat.append_message(Message::user("abc")).wait().unwrap();
    }
    assert_eq!(chat.token_count_with_pending().wait().unwrap(), 750);
    store.close().unwrap();
    let store = open(dir.path());
    let chat = store.handle().context(CHAT);
    assert_eq!(chat.token_count_with_pending().wait().unwrap(), 750);
    store.close().unwrap();
}
