//! Checkpoints, usage, system prompts, forks, and learning of changes.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use sessionlog::{Context, Durability, Error, Fork, Message, Store};

use crate::support::{Caller, for_each_caller, open, said, scratch, texts, visible_names};

const CHAT: &str = "telegram:1";

/// What a conversation says of itself.
#[derive(Debug, PartialEq, Eq)]
struct State {
    history: Vec<String>,
    tokens: i64,
    pending: i64,
    next: i64,
    prompt: Option<String>,
}

fn state(caller: &Caller, chat: &Context) -> State {
    State {
        history: said(&caller.ok(chat.history())),
        tokens: caller.ok(chat.token_count()),
        pending: caller.ok(chat.token_count_with_pending()),
        next: caller.ok(chat.n_checkpoints()),
        prompt: caller.ok(chat.system_prompt()),
    }
}

fn log(dir: &Path) -> String {
    std::fs::read_to_string(dir.join("telegram_1.jsonl")).unwrap()
}

#[test]
fn control_records_are_lines_as_kimi_cli_writes_them_and_no_messages() {
    for_each_caller(|caller, chats, dir| {
        let chat = chats.context(CHAT);
        assert!(!caller.ok(chat.restore()));
        caller.ok(chat.write_system_prompt("be \u{e9} \"kind\""));
        assert_eq!(caller.ok(chat.checkpoint(false)), 0);
        assert_eq!(caller.ok(chat.checkpoint(true)), 1);
        caller.ok(chat.update_token_count(12));
        assert!(caller.ok(chat.restore()));
        caller.ok(chats.flush());
        let expected = [
            "{\"role\": \"_system_prompt\", \"content\": \"be \\u00e9 \\\"kind\\\"\"}",
            "{\"role\": \"_checkpoint\", \"id\": 0}",
            "{\"role\": \"_checkpoint\", \"id\": 1}",
            "{\"role\":\"user\",\"content\":\"<system>CHECKPOINT 1</system>\"}",
            "{\"role\": \"_usage\", \"token_count\": 12}",
            "",
        ];
        assert_eq!(log(dir), expected.join("\n"));
        assert_eq!(
            said(&caller.ok(chat.history())),
            ["<system>CHECKPOINT 1</system>"]
        );
        assert_eq!(caller.ok(chats.session_meta(CHAT)).count, 5);
        assert_eq!(caller.ok(chat.usage_history()), [12]);
    });
}

#[test]
fn a_revert_restores_everything_to_what_it_was_before_the_checkpoint() {
    for_each_caller(|caller, chats, dir| {
        let chat = chats.context(CHAT);
        caller.ok(chat.write_system_prompt("first"));
        let mut states = Vec::new();
        for turn in 0..4_i64 {
            caller.ok(chats.flush());
            states.push((state(caller, &chat), log(dir)));
            assert_eq!(caller.ok(chat.checkpoint(turn % 2 == 0)), turn);
            caller.ok(chat.append_message(vec![
                Message::user(format!("question {turn}")),
                Message::assistant("answer"),
            ]));
            caller.ok(chat.update_token_count(100 * turn));
            caller.ok(chat.append_message(Message::user("more")));
            caller.ok(chat.write_system_prompt(&format!("prompt {turn}")));
        }
        for turn in [3, 1, 0_i64] {
            caller.ok(chat.revert_to(turn));
            caller.ok(chats.flush());
            let (before, lines) = states.remove(usize::try_from(turn).unwrap());
            assert_eq!(state(caller, &chat), before);
            assert_eq!(log(dir), lines);
        }
        assert_eq!(caller.ok(chat.checkpoint(false)), 0);
        let backups = caller.ok(chats.list_backups(CHAT));
        assert_eq!(backups.len(), 3);
        assert_eq!(visible_names(dir).len(), 2);
        assert_eq!(caller.ok(chats.list_sessions()), [CHAT]);
    });
}

#[test]
fn a_checkpoint_that_is_not_there_is_refused_with_those_that_are() {
    for_each_caller(|caller, chats, dir| {
        let chat = chats.context(CHAT);
        let refused = |id: i64| -> (Vec<i64>, bool) {
            match caller.get(chat.revert_to(id)) {
                Err(Error::CheckpointNotFound { existing, lost, .. }) => {
                    (existing.into_iter().map(i64::from).collect(), lost)
                }
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(refused(0), (vec![], false));
        assert!(visible_names(dir).is_empty());
        for _ in 0..4 {
            caller.ok(chat.checkpoint(true));
        }
        let before = state(caller, &chat);
        assert_eq!(refused(-1), (vec![0, 1, 2, 3], false));
        assert_eq!(refused(4), (vec![0, 1, 2, 3], false));
        assert_eq!(refused(i64::MAX), (vec![0, 1, 2, 3], false));
        assert_eq!(state(caller, &chat), before);
        caller.ok(chat.revert_to(2));
        assert_eq!(refused(2), (vec![0, 1], false));
        assert_eq!(refused(3), (vec![0, 1], false));
        assert!(caller.ok(chats.list_backups(CHAT)).len() == 1);
    });
}

#[test]
fn what_a_conversation_says_survives_truncation_and_compaction_but_lost_checkpoints_do_not() {
    for_each_caller(|caller, chats, _| {
        let chat = chats.context(CHAT);
        caller.ok(chat.write_system_prompt("kind"));
        for turn in 0..3 {
            caller.ok(chat.checkpoint(false));
            caller.ok(chat.append_message(Message::user(format!("say {turn}"))));
            caller.ok(chat.update_token_count(turn));
        }
        caller.ok(chats.truncate_history(CHAT, 1));
        for compacted in [false, true, true] {
            if compacted {
                caller.ok(chats.compact(CHAT));
            }
            let now = state(caller, &chat);
            assert_eq!(now.history, ["say 2"]);
            assert_eq!((now.tokens, now.next), (2, 3));
            assert_eq!(now.prompt.as_deref(), Some("kind"));
            let error = caller.get(chat.revert_to(1)).unwrap_err();
            assert!(
                matches!(&error, Error::CheckpointNotFound { existing, lost: true, .. } if *existing == [2]),
                "{error:?}"
            );
        }
        caller.ok(chats.truncate_history(CHAT, 0));
        caller.ok(chats.compact(CHAT));
        let error = caller.get(chat.revert_to(2)).unwrap_err();
        assert!(error.to_string().contains("existing ids: none"), "{error}");
        assert_eq!(caller.ok(chat.checkpoint(false)), 3);
        caller.ok(chat.revert_to(3));
        let now = state(caller, &chat);
        assert_eq!((now.tokens, now.next), (2, 3));
        assert_eq!(now.prompt.as_deref(), Some("kind"));
    });
}

#[test]
fn clearing_resets_the_conversation_and_keeps_a_backup() {
    for_each_caller(|caller, chats, dir| {
        let chat = chats.context(CHAT);
        caller.ok(chat.clear());
        assert!(visible_names(dir).is_empty());
        caller.ok(chat.write_system_prompt("kind"));
        caller.ok(chat.checkpoint(true));
        caller.ok(chat.update_token_count(5));
        caller.ok(chats.set_summary(CHAT, "so far"));
        caller.ok(chat.clear());
        let empty = State {
            history: vec![],
            tokens: 0,
            pending: 0,
            next: 0,
            prompt: None,
        };
        assert_eq!(state(caller, &chat), empty);
        assert!(!caller.ok(chat.restore()));
        assert_eq!(caller.ok(chats.summary(CHAT)), "so far");
        caller.ok(chat.clear());
        assert_eq!(caller.ok(chats.list_backups(CHAT)).len(), 1);
        assert_eq!(caller.ok(chat.checkpoint(false)), 0);
    });
}

#[test]
fn pending_tokens_are_the_characters_of_texts_since_the_last_count_by_four() {
    for_each_caller(|caller, chats, _| {
        let chat = chats.context(CHAT);
        for _ in 0..1000 {
            caller.ok(chat.append_message(Message::user("abc")));
        }
        assert_eq!(caller.ok(chat.token_count_with_pending()), 750);
        caller.ok(chat.update_token_count(9));
        assert_eq!(caller.ok(chat.token_count_with_pending()), 9);
        caller.ok(chat.append_message(Message::user("\u{1f600}\u{1f600}\u{1f600}\u{e9}")));
        assert_eq!(caller.ok(chat.token_count_with_pending()), 10);
        caller.ok(chats.truncate_history(CHAT, 0));
        assert_eq!(caller.ok(chat.token_count_with_pending()), 9);
    });
}

#[test]
fn records_of_other_programs_are_kept_as_lines_and_not_shown() {
    let dir = scratch();
    let foreign = concat!(
        "{\"role\":\"_note\",\"content\":\"mine\"}\n",
        "{\"role\":\"_checkpoint\",\"id\":\"one\"}\n",
        "{\"role\": \"_checkpoint\", \"id\": 5}\n",
        "{\"role\":\"user\",\"content\":\"hi\"}\n",
    );
    std::fs::write(dir.path().join("telegram_1.jsonl"), foreign).unwrap();
    let store = open(dir.path());
    let chat = store.handle().context(CHAT);
    assert_eq!(chat.n_checkpoints().wait().unwrap(), 6);
    assert_eq!(chat.checkpoint(false).wait().unwrap(), 6);
    chat.revert_to(6).wait().unwrap();
    assert_eq!(texts(&store.handle(), CHAT), ["hi"]);
    store.close().unwrap();
    assert_eq!(log(dir.path()), foreign);
}

#[test]
fn a_torn_last_line_does_not_move_a_checkpoint() {
    let dir = scratch();
    std::fs::write(
        dir.path().join("telegram_1.jsonl"),
        "{\"role\":\"user\",\"content\":\"a\"}\n{\"ro",
    )
    .unwrap();
    let store = open(dir.path());
    let chat = store.handle().context(CHAT);
    assert_eq!(chat.checkpoint(true).wait().unwrap(), 0);
    assert_eq!(chat.checkpoint(true).wait().unwrap(), 1);
    chat.revert_to(1).wait().unwrap();
    chat.revert_to(0).wait().unwrap();
    assert_eq!(texts(&store.handle(), CHAT), ["a"]);
    store.close().unwrap();
    assert_eq!(
        log(dir.path()),
        "{\"role\":\"user\",\"content\":\"a\"}\n{\"ro\n"
    );
}

#[test]
fn two_contexts_on_one_session_agree_also_while_others_write() {
    let dir = scratch();
    let store = open(dir.path());
    let chats = store.handle();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let (chats, done) = (&chats, &done);
        let writer = scope.spawn(move || {
            for n in 0..300 {
                let pair = [format!("{n} a"), format!("{n} b")].map(Message::user);
                chats.context(CHAT).append_message(pair).wait().unwrap();
            }
            done.store(true, Ordering::Release);
        });
        while !done.load(Ordering::Acquire) {
            let (one, other) = (chats.context(CHAT), chats.context(CHAT));
            let id = one.checkpoint(false).wait().unwrap();
            assert_eq!(other.n_checkpoints().wait().unwrap(), id.number() + 1);
            other.revert_to(id).wait().unwrap();
            assert_eq!(one.n_checkpoints().wait().unwrap(), id);
        }
        writer.join().unwrap();
    });
    let history = texts(&chats, CHAT);
    for pair in history.chunks(2) {
        assert_eq!(pair[0].strip_suffix('a'), pair[1].strip_suffix('b'));
    }
    store.close().unwrap();
}

#[test]
fn ids_handed_out_at_once_are_all_different() {
    let dir = scratch();
    let store = open(dir.path());
    let chats = store.handle();
    let mut ids: Vec<i64> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..4)
            .map(|_| {
                let chat = chats.context(CHAT);
                scope.spawn(move || -> Vec<i64> {
                    (0..50)
                        .map(|_| chat.checkpoint(false).wait().unwrap().number())
                        .collect()
                })
            })
            .collect();
        workers
            .into_iter()
            .flat_map(|w| w.join().unwrap())
            .collect()
    });
    ids.sort_unstable();
    assert_eq!(ids, (0..200).collect::<Vec<_>>());
    store.close().unwrap();
}

#[test]
fn a_reader_sees_what_was_before_a_revert_or_after_it_and_nothing_between() {
    let dir = scratch();
    let store = open(dir.path());
    let (chats, chat) = (store.handle(), store.handle().context(CHAT));
    let turn: Vec<_> = (0..200).map(|n| Message::user(n.to_string())).collect();
    let texts_of_turn = said(&turn);
    chat.append_message(turn.clone()).wait().unwrap();
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            for _ in 0..100 {
                let id = chat.checkpoint(false).wait().unwrap();
                chat.append_message(turn.clone()).wait().unwrap();
                chat.revert_to(id).wait().unwrap();
            }
        });
        while !writer.is_finished() {
            let history = texts(&chats, CHAT);
            assert!(matches!(history.len(), 200 | 400), "{}", history.len());
            assert!(history.chunks(200).all(|turn| turn == texts_of_turn));
            let pending = chat.token_count_with_pending().wait().unwrap();
            assert!(matches!(pending, 122 | 245), "{pending}");
        }
    });
    store.close().unwrap();
}

#[test]
fn a_fork_is_the_lines_up_to_a_point_and_touches_nothing_else() {
    for_each_caller(|caller, chats, dir| {
        let chat = chats.context(CHAT);
        for n in 0..3 {
            caller.ok(chat.append_message(Message::user(n.to_string())));
            caller.ok(chat.checkpoint(false));
            caller.ok(chat.update_token_count(n));
        }
        caller.ok(chats.set_summary(CHAT, "sum"));
        caller.ok(chats.upsert_session_meta(CHAT, None, vec![String::from("alias")]));
        let before = state(caller, &chat);
        for (to, at, lines) in [
            ("end", Fork::End, 9),
            ("checkpoint", Fork::Checkpoint(1.into()), 4),
            ("message", Fork::Message(2), 4),
            ("none", Fork::Message(0), 0),
            ("beyond", Fork::Message(99), 9),
        ] {
            caller.ok(chats.fork_session("alias", to, at));
            caller.ok(chats.flush());
            let copy = std::fs::read_to_string(dir.join(format!("{to}.jsonl"))).unwrap();
            assert_eq!(
                copy,
                log(dir)
                    .split_inclusive('\n')
                    .take(lines)
                    .collect::<String>()
            );
            let meta = caller.ok(chats.session_meta(to));
            assert_eq!((meta.summary.as_str(), meta.aliases.len()), ("sum", 0));
            assert_eq!(meta.count, i64::try_from(lines).unwrap());
        }
        let fork = chats.context("checkpoint");
        assert_eq!(state(caller, &fork).next, 1);
        assert_eq!(caller.ok(fork.checkpoint(false)), 1);
        assert_eq!(state(caller, &chat), before);
        for taken in ["end", "alias", CHAT] {
            let error = caller
                .get(chats.fork_session(CHAT, taken, Fork::End))
                .unwrap_err();
            assert!(matches!(error, Error::SessionExists { .. }), "{error}");
        }
        let error = caller
            .get(chats.fork_session("nobody", "x", Fork::End))
            .unwrap_err();
        assert!(matches!(error, Error::SessionNotFound { .. }), "{error}");
        let error = caller
            .get(chats.fork_session(CHAT, "x", Fork::Checkpoint(7.into())))
            .unwrap_err();
        assert!(matches!(error, Error::CheckpointNotFound { .. }), "{error}");
        assert!(!dir.join("x.jsonl").exists());
    });
}

#[test]
fn a_fork_does_not_bring_truncated_messages_back() {
    for_each_caller(|caller, chats, _| {
        for n in 0..5 {
            caller.ok(chats.add_message(CHAT, "user", &n.to_string()));
        }
        caller.ok(chats.truncate_history(CHAT, 2));
        caller.ok(chats.fork_session(CHAT, "all", Fork::End));
        caller.ok(chats.fork_session(CHAT, "part", Fork::Message(1)));
        caller.ok(chats.fork_session(CHAT, "dead", Fork::Message(0)));
        assert_eq!(said(&caller.ok(chats.history("all"))), ["3", "4"]);
        assert_eq!(said(&caller.ok(chats.history("part"))), ["3"]);
        assert!(caller.ok(chats.history("dead")).is_empty());
        let chat = chats.context(CHAT);
        caller.ok(chat.checkpoint(false));
        caller.ok(chats.add_message(CHAT, "user", "5"));
        caller.ok(chats.truncate_history(CHAT, 1));
        caller.ok(chats.fork_session(CHAT, "hidden", Fork::Message(0)));
        caller.ok(chats.compact(CHAT));
        // The checkpoint is a line that is not hidden now.
        caller.ok(chats.fork_session(CHAT, "carried", Fork::Message(0)));
        for fork in ["hidden", "carried"] {
            let checkpoints = caller.ok(chats.context(fork).n_checkpoints());
            assert_eq!(checkpoints, 1, "{fork}");
            assert!(caller.ok(chats.history(fork)).is_empty());
        }
        caller.ok(chats.fork_session(CHAT, "compacted", Fork::Message(1)));
        assert_eq!(said(&caller.ok(chats.history("compacted"))), ["5"]);
    });
}

#[test]
fn who_subscribed_learns_of_every_kind_of_change() {
    for_each_caller(|caller, chats, _| {
        let mut watch = caller.ok(chats.subscribe(CHAT));
        assert_eq!(watch.latest().lines, 0);
        caller.ok(chats.add_message(CHAT, "user", "one"));
        let mut next = |what: &str| {
            let state = match caller {
                Caller::PlainThread => watch.wait_changed(),
                Caller::Runtime(runtime) => runtime.block_on(watch.changed()),
            };
            state.unwrap_or_else(|error| panic!("{what}: {error}"))
        };
        let first = next("an append");
        assert_eq!((first.generation, first.lines, first.skip), (0, 1, 0));
        let chat = chats.context(CHAT);
        caller.ok(chat.checkpoint(false));
        assert_eq!(next("a checkpoint").lines, 2);
        caller.ok(chat.revert_to(0));
        let reverted = next("a revert");
        assert_eq!((reverted.generation, reverted.lines), (1, 1));
        caller.ok(chats.truncate_history(CHAT, 0));
        assert_eq!(next("a truncation").skip, 1);
        caller.ok(chat.clear());
        assert_eq!(next("a clear").lines, 0);
        caller.ok(chats.add_message(CHAT, "user", "two"));
        caller.ok(chats.delete_session(CHAT));
        assert_eq!(next("a deletion").lines, 0);
        caller.ok(chats.add_message(CHAT, "user", "three"));
        assert_eq!(next("a new beginning").lines, 1);
    });
}

#[test]
fn a_watch_ends_with_the_store() {
    let dir = scratch();
    let store = open(dir.path());
    let mut early = store.handle().subscribe("none").wait().unwrap();
    store
        .handle()
        .add_message(CHAT, "user", "x")
        .wait()
        .unwrap();
    let mut watch = store.handle().subscribe(CHAT).wait().unwrap();
    store.close().unwrap();
    assert!(matches!(watch.wait_changed(), Err(Error::Closed)));
    assert!(matches!(early.wait_changed(), Err(Error::Closed)));
}

#[test]
fn a_conversation_can_be_read_and_not_changed_on_a_read_only_store() {
    let dir = scratch();
    let store = open(dir.path());
    let chat = store.handle().context(CHAT);
    chat.write_system_prompt("kind").wait().unwrap();
    chat.append_message(Message::user("12345678"))
        .wait()
        .unwrap();
    chat.checkpoint(false).wait().unwrap();
    chat.update_token_count(3).wait().unwrap();
    chat.append_message(Message::user("12345678"))
        .wait()
        .unwrap();
    chat.checkpoint(false).wait().unwrap();
    chat.revert_to(1).wait().unwrap();
    store.handle().truncate_history(CHAT, 1).wait().unwrap();
    let caller = Caller::PlainThread;
    let before = state(&caller, &chat);
    for closed in [false, true] {
        let view = Store::open_read_only(dir.path()).unwrap();
        let read = view.handle().context(CHAT);
        assert_eq!(state(&caller, &read), before);
        assert!(read.restore().wait().unwrap());
        assert_eq!(read.usage_history().wait().unwrap(), [3]);
        let backups = view.handle().list_backups(CHAT).wait().unwrap();
        assert_eq!(backups, store_backups(&store));
        for reply in [
            read.append_message(Message::user("x")),
            read.update_token_count(1),
            read.revert_to(0),
            read.clear(),
            read.write_system_prompt("x"),
            view.handle().fork_session(CHAT, "x", Fork::End),
            view.handle().restore_backup(CHAT, 1),
        ] {
            assert!(matches!(reply.wait(), Err(Error::ReadOnly)));
        }
        assert!(matches!(read.checkpoint(true).wait(), Err(Error::ReadOnly)));
        assert!(view.handle().subscribe(CHAT).wait().is_err());
        view.close().unwrap();
        if !closed {
            store.handle().flush().wait().unwrap();
        }
    }
    store.close().unwrap();
}

fn store_backups(store: &Store) -> Vec<sessionlog::Backup> {
    store.handle().list_backups(CHAT).wait().unwrap()
}

#[test]
fn conversations_work_buffered_too() {
    for_each_caller(|caller, chats, _| {
        let chat = chats.with_durability(Durability::Buffered).context(CHAT);
        for n in 0..20 {
            assert_eq!(caller.ok(chat.checkpoint(n % 3 == 0)), n);
            caller.ok(chat.update_token_count(n));
            assert_eq!(caller.ok(chat.token_count()), n);
        }
        caller.ok(chat.revert_to(10));
        assert_eq!(caller.ok(chat.token_count()), 9);
        assert_eq!(caller.ok(chat.n_checkpoints()), 10);
    });
}
