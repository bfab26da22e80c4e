//! What a promotion or an import leaves of what was there.

use std::sync::{Arc, Barrier};

use sessionlog::testing::disk_model::MemoryStorage;
use sessionlog::testing::sim::Sim;
use sessionlog::{Error, Message, Store, import_kimi};

use crate::support::{manual, scratch};

/// What a conversation says besides its messages.
#[derive(Debug, PartialEq, Eq)]
struct Says {
    checkpoints: i64,
    tokens: i64,
    prompt: Option<String>,
}

fn says(sim: &mut Sim, key: &str) -> Says {
    let chat = sim.handle().exact_keys().context(key);
    Says {
        checkpoints: sim.run(chat.n_checkpoints()).unwrap(),
        tokens: sim.run(chat.token_count()).unwrap(),
        prompt: sim.run(chat.system_prompt()).unwrap(),
    }
}

/// A session with a prompt, checkpoints, a token count, and messages.
fn talk(sim: &mut Sim, key: &str) {
    let chat = sim.handle().exact_keys().context(key);
    sim.run(chat.write_system_prompt("be kind")).unwrap();
    for _ in 0..3 {
        sim.run(chat.checkpoint(false)).unwrap();
    }
    for text in ["one", "two"] {
        sim.run(chat.append_message(Message::user(text))).unwrap();
    }
    sim.run(chat.update_token_count(9)).unwrap();
}

fn told() -> Says {
    Says {
        checkpoints: 3,
        tokens: 9,
        prompt: Some("be kind".into()),
    }
}

#[test]
fn a_promotion_keeps_what_the_sessions_own_hidden_lines_say() {
    for compact_first in [false, true] {
        let mut sim = Sim::open(MemoryStorage::new(), &manual(), 0).unwrap();
        let chats = sim.handle().exact_keys();
        sim.run(chats.add_message("old", "user", "old one"))
            .unwrap();
        talk(&mut sim, "new");
        sim.run(chats.truncate_history("new", 0)).unwrap();
        if compact_first {
            sim.run(chats.compact("new")).unwrap();
        }
        let promoted = chats.promote_alias_history("new", None, vec!["old".into()]);
        assert!(sim.run(promoted).unwrap());
        assert_eq!(says(&mut sim, "new"), told(), "{compact_first}");
        let meta = sim.run(chats.session_meta("new")).unwrap();
        assert_eq!(meta.count, 4);
    }
}

#[test]
fn a_promotion_takes_over_what_the_aliass_hidden_lines_say() {
    for keep in [0, 1] {
        let mut sim = Sim::open(MemoryStorage::new(), &manual(), 0).unwrap();
        let chats = sim.handle().exact_keys();
        talk(&mut sim, "old");
        sim.run(chats.truncate_history("old", keep)).unwrap();
        sim.run(chats.set_summary("old", "s")).unwrap();
        let promoted = chats.promote_alias_history("new", None, vec!["old".into()]);
        assert!(sim.run(promoted).unwrap());
        assert_eq!(says(&mut sim, "new"), told(), "{keep}");
        assert_eq!(sim.run(chats.history("new")).unwrap().len(), keep);
    }
}

#[test]
fn after_a_promotion_a_checkpoint_id_means_one_place() {
    let mut sim = Sim::open(MemoryStorage::new(), &manual(), 0).unwrap();
    let chats = sim.handle().exact_keys();
    for _ in 0..2 {
        sim.run(chats.context("new").checkpoint(false)).unwrap();
    }
    sim.run(chats.add_message("old", "user", "one")).unwrap();
    sim.run(chats.context("old").checkpoint(false)).unwrap();
    sim.run(chats.add_message("old", "user", "two")).unwrap();
    let promoted = chats.promote_alias_history("new", None, vec!["old".into()]);
    assert!(sim.run(promoted).unwrap());
    let chat = chats.context("new");
    let gone = sim.run(chat.revert_to(1));
    assert!(matches!(gone, Err(Error::CheckpointNotFound { .. })));
    sim.run(chat.revert_to(0)).unwrap();
    let history = sim.run(chats.history("new")).unwrap();
    let texts: Vec<_> = history.iter().map(|m| m.text().into_owned()).collect();
    assert_eq!(texts, ["one"]);
}

#[test]
fn an_import_leaves_what_others_say_of_the_session_meanwhile() {
    let dir = scratch();
    let path = dir.path().join("context.jsonl");
    std::fs::write(&path, "{\"role\":\"user\",\"content\":\"hi\"}\n").unwrap();
    let store = Store::open_with(dir.path().join("s"), manual()).unwrap();
    let chats = store.handle();
    for n in 0..100 {
        let key = format!("k{n}");
        let start = Arc::new(Barrier::new(2));
        let other = std::thread::spawn({
            let (chats, key, start) = (chats.clone(), key.clone(), start.clone());
            move || {
                start.wait();
                let aliases = vec![format!("alias:{n}")];
                chats.upsert_session_meta(&key, None, aliases).wait()
            }
        });
        start.wait();
        import_kimi(&path, &key, &chats).unwrap();
        other.join().unwrap().unwrap();
        let meta = chats.session_meta(&key).wait().unwrap();
        assert_eq!(meta.aliases, [format!("alias:{n}")]);
    }
    store.close().unwrap();
}

#[test]
fn an_import_counts_lines_as_the_session_does_when_it_is_opened_again() {
    let dir = scratch();
    let path = dir.path().join("context.jsonl");
    let user = |n| format!("{{\"role\":\"user\",\"content\":\"{n}\"}}\n");
    std::fs::write(&path, format!("{}\n\n{}\n{}", user(0), user(1), user(2))).unwrap();
    let store = Store::open_with(dir.path().join("s"), manual()).unwrap();
    let chats = store.handle();
    import_kimi(&path, "cli", &chats).unwrap();
    chats.truncate_history("cli", 2).wait().unwrap();
    let meta = chats.session_meta("cli").wait().unwrap();
    assert_eq!((meta.skip, meta.count), (1, 3));
    store.close().unwrap();
}

#[test]
fn a_line_over_the_limit_is_not_imported() {
    let dir = scratch();
    let path = dir.path().join("context.jsonl");
    let long = "x".repeat(2 << 10);
    std::fs::write(
        &path,
        format!("{{\"role\":\"user\",\"content\":\"{long}\"}}\n"),
    )
    .unwrap();
    let options = manual().max_line_bytes(1 << 10);
    let store = Store::open_with(dir.path().join("s"), options).unwrap();
    let chats = store.handle();
    let refused = import_kimi(&path, "cli", &chats);
    assert!(matches!(refused, Err(Error::MessageTooLarge { .. })));
    assert!(chats.list_sessions().wait().unwrap().is_empty());
    store.close().unwrap();
}
