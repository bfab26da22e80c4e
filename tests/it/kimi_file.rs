//! Files of kimi-cli: what broke it, one claim per defect, numbered as they were
//! found, `k01` to `k12`; and the way into a store and back.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use sessionlog::{Context, Error, Message, Store, export_kimi, import_kimi};
use tempfile::TempDir;

use crate::support::{open, scratch};

/// A context file that holds `text`.
fn file(text: impl AsRef<[u8]>) -> (TempDir, PathBuf) {
    let dir = scratch();
    let path = dir.path().join("context.jsonl");
    fs::write(&path, text).unwrap();
    (dir, path)
}

fn said(context: &Context) -> Vec<String> {
    let history = context.history().wait().unwrap();
    history
        .iter()
        .map(|message| message.text().into_owned())
        .collect()
}

fn names(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).unwrap();
    let mut names: Vec<_> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[test]
fn k01_what_follows_a_torn_line_is_not_glued_to_it() {
    let (_dir, path) = file("{\"role\":\"user\",\"content\":\"a\"}\n{\"role\":\"us");
    let context = Context::open(&path).unwrap();
    assert_eq!(context.checkpoint(false).wait().unwrap(), 0);
    context.append_message(Message::user("b")).wait().unwrap();
    let again = Context::open(&path).unwrap();
    assert_eq!(said(&again), ["a", "b"]);
    drop(context);
    again.revert_to(0).wait().unwrap();
    assert_eq!(said(&again), ["a"]);
}

#[test]
fn k02_a_line_that_cannot_be_read_costs_only_itself() {
    let huge = "9".repeat(5_000);
    let deep = "[".repeat(200_000);
    let (dir, path) = file(format!(
        "{{\"role\":\"user\",\"content\":\"a\"}}\n\
         {{\"role\":\"user\",\"content\":[{{\"type\":\"new_part\"}}]}}\n\
         {{\"role\":\"_later\",\"v\":1}}\n\
         {{\"role\":\"user\",\"content\":\"x\",\"self\":1}}\n\
         {{\"role\":\"user\",\"content\":\"x\",\"n\":{huge}}}\n\
         {{\"role\":\"user\",\"content\":\"x\",\"n\":{deep}}}\n\
         {{\"role\":\"user\",\"content\":\"b\"}}\n"
    ));
    let context = Context::open(&path).unwrap();
    assert!(context.restore().wait().unwrap());
    let id = context.checkpoint(false).wait().unwrap();
    context.append_message(Message::user("c")).wait().unwrap();
    assert_eq!(said(&context), ["a", "b", "c"]);
    context.revert_to(id).wait().unwrap();
    assert_eq!(said(&context), ["a", "b"]);
    let kept = fs::read_to_string(dir.path().join("context.jsonl")).unwrap();
    for unknown in ["new_part", "_later", "self", &huge] {
        assert!(kept.contains(unknown), "{unknown:.20} is gone");
    }
}

#[test]
fn k03_a_tool_call_without_arguments_is_read_back() {
    let (_dir, path) = file("");
    let line = r#"{"role":"assistant","content":[],"tool_calls":[{"type":"function","id":"1","function":{"name":"f"}}]}"#;
    let call = Message::from_kimi_json(line.as_bytes()).unwrap();
    let context = Context::open(&path).unwrap();
    context.append_message(call).wait().unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), format!("{line}\n"));
    let history = Context::open(&path).unwrap().history().wait().unwrap();
    assert_eq!(history[0].to_kimi_json(), line);
}

#[test]
fn k04_a_refused_message_leaves_neither_a_line_nor_a_memory() {
    let (_dir, path) = file("{\"role\":\"user\",\"content\":\"lone \\ud83d\"}\n");
    let context = Context::open(&path).unwrap();
    let batch = vec![Message::user("a"), Message::new("developer", "b")];
    let refused = context.append_message(batch).wait();
    assert!(
        matches!(refused, Err(Error::InvalidMessage { .. })),
        "{refused:?}"
    );
    assert_eq!(said(&context), ["lone \u{fffd}"]);
    let read = context.history().wait().unwrap().remove(0);
    context.append_message(read).wait().unwrap();
    assert_eq!(said(&Context::open(&path).unwrap()), ["lone \u{fffd}"; 2]);
}

#[test]
fn k05_a_revert_that_fails_leaves_the_file_where_it_was() {
    let (dir, path) = file("{\"role\": \"_checkpoint\", \"id\": 0}\n");
    let old = fs::read(&path).unwrap();
    let context = Context::open(&path).unwrap();
    context.checkpoint(false).wait().unwrap();
    let old = [&old[..], b"{\"role\": \"_checkpoint\", \"id\": 1}\n"].concat();
    // Where the new file would be made, something stands in the way.
    fs::create_dir_all(dir.path().join(".context.jsonl.new/x")).unwrap();
    assert!(context.revert_to(0).wait().is_err());
    assert!(context.clear().wait().is_err());
    assert_eq!(fs::read(&path).unwrap(), old);
    assert_eq!(names(dir.path()), [".context.jsonl.new", "context.jsonl"]);
    assert_eq!(context.n_checkpoints().wait().unwrap(), 2);
}

#[test]
fn k06_reverting_to_what_is_not_there_is_refused_and_says_what_is() {
    let (dir, path) = file(
        "{\"role\": \"_checkpoint\", \"id\": 0}\n{\"role\": \"_checkpoint\", \"id\": \"1\"}\n\
         {\"role\":\"user\",\"content\":\"a\"}\n{\"role\": \"_checkpoint\", \"id\": 4}\n",
    );
    let context = Context::open(&path).unwrap();
    for id in [-1, 1, 3, 5, i64::MAX, i64::MIN] {
        match context.revert_to(id).wait() {
            Err(Error::CheckpointNotFound { existing, .. }) => assert_eq!(existing, [0, 4]),
            other => panic!("{id}: {other:?}"),
        }
    }
    assert_eq!(names(dir.path()), ["context.jsonl"]);
    assert_eq!(said(&context), ["a"]);
}

// k07, no sync: `src/compat/context_file/tests.rs` cuts the power at every call.

#[test]
fn k08_of_two_contexts_on_one_file_one_writes() {
    let (_dir, path) = file("");
    let (first, second) = (Context::open(&path).unwrap(), Context::open(&path).unwrap());
    assert_eq!(first.checkpoint(false).wait().unwrap(), 0);
    assert!(matches!(
        second.checkpoint(false).wait(),
        Err(Error::Locked { .. })
    ));
    first.revert_to(0).wait().unwrap();
    first.clear().wait().unwrap();
    first.append_message(Message::user("a")).wait().unwrap();
    assert!(matches!(second.clear().wait(), Err(Error::Locked { .. })));
    assert!(second.restore().wait().unwrap());
    assert_eq!(said(&second), ["a"]);
    drop(first);
    second.append_message(Message::user("b")).wait().unwrap();
    assert_eq!(said(&Context::open(&path).unwrap()), ["a", "b"]);
}

#[test]
fn k09_ten_thousand_messages_are_restored_and_reverted_in_well_under_a_second_each() {
    let line = |i| {
        let checkpoint = match i {
            9_990 => "{\"role\": \"_checkpoint\", \"id\": 0}\n",
            _ => "",
        };
        let text = "x".repeat(190);
        format!("{checkpoint}{{\"role\":\"user\",\"content\":\"{i} {text}\"}}\n")
    };
    let text: String = (0..10_000).map(line).collect();
    let (_dir, path) = file(text);
    let start = Instant::now();
    let context = Context::open(&path).unwrap();
    assert!(context.restore().wait().unwrap());
    let restored = start.elapsed();
    context.revert_to(0).wait().unwrap();
    assert_eq!(context.history().wait().unwrap().len(), 9_990);
    let both = start.elapsed();
    // kimi-cli takes 3 s and 7 s.
    assert!(
        both.as_secs() < 2,
        "restored in {restored:?}, both {both:?}"
    );
}

#[test]
fn k10_backups_are_plain_files_that_may_be_removed() {
    let (dir, path) = file("{\"role\": \"_checkpoint\", \"id\": 0}\n");
    let context = Context::open(&path).unwrap();
    for number in 1..4 {
        context.revert_to(0).wait().unwrap();
        context.checkpoint(false).wait().unwrap();
        let backup = dir.path().join(format!("context_{number}.jsonl"));
        assert!(backup.is_file());
    }
    fs::remove_file(dir.path().join("context_1.jsonl")).unwrap();
    fs::remove_file(dir.path().join("context_3.jsonl")).unwrap();
    context.revert_to(0).wait().unwrap();
    assert_eq!(
        names(dir.path()),
        ["context.jsonl", "context_2.jsonl", "context_3.jsonl"]
    );
}

#[test]
fn k11_the_prompt_written_last_holds_a_mark_costs_nothing_and_nothing_is_cleared_quietly() {
    let (dir, path) =
        file(b"\xef\xbb\xbf{\"role\": \"_system_prompt\", \"content\": \"old\"}\nbad \xff\n");
    let context = Context::open(&path).unwrap();
    assert_eq!(
        context.system_prompt().wait().unwrap().as_deref(),
        Some("old")
    );
    context.write_system_prompt("new").wait().unwrap();
    let again = Context::open(&path).unwrap();
    assert_eq!(
        again.system_prompt().wait().unwrap().as_deref(),
        Some("new")
    );
    assert_eq!(names(dir.path()), ["context.jsonl"]);

    let missing = dir.path().join("none.jsonl");
    Context::open(&missing).unwrap().clear().wait().unwrap();
    assert_eq!(names(dir.path()), ["context.jsonl"]);
}

#[test]
fn k12_the_estimate_does_not_depend_on_when_the_file_was_opened() {
    let (_dir, path) = file("");
    let context = Context::open(&path).unwrap();
    for _ in 0..1_000 {
        context.append_message(Message::user("abc")).wait().unwrap();
    }
    let again = Context::open(&path).unwrap();
    for context in [&context, &again] {
        assert_eq!(context.token_count_with_pending().wait().unwrap(), 750);
    }
}

#[test]
fn a_context_with_messages_is_not_restored_twice() {
    let (_dir, path) = file("{\"role\":\"user\",\"content\":\"a\"}\n");
    let context = Context::open(&path).unwrap();
    assert!(context.restore().wait().unwrap());
    assert!(matches!(
        context.restore().wait(),
        Err(Error::AlreadyRestored)
    ));
    assert_eq!(said(&context), ["a"]);
    context.clear().wait().unwrap();
    assert!(!context.restore().wait().unwrap());
}

const LINES: &str = "{\"role\": \"_system_prompt\", \"content\": \"kind\"}\n\
     {\"role\":\"user\",\"content\":\"a\",\"extra\":1.50}\nnot json\n\n\
     {\"role\": \"_checkpoint\", \"id\": 0}\n\
     {\"role\":\"assistant\",\"content\":[{\"type\":\"think\",\"think\":\"hm\",\"encrypted\":null},{\"type\":\"text\",\"text\":\"b\"}]}\n\
     {\"role\": \"_usage\", \"token_count\": 12}\n\
     {\"role\":\"assistant\",\"content\":\"\",\"reasoning_content\":\"r\"}\n";

#[test]
fn an_imported_file_is_a_session_with_its_conversation_and_comes_out_as_it_went_in() {
    let (dir, path) = file(LINES);
    let store = open(&dir.path().join("sessions"));
    let chats = store.handle();
    let import = import_kimi(&path, "telegram:1", &chats).unwrap();
    assert_eq!((import.lines, import.messages, import.unread), (7, 2, 1));
    let context = chats.context("telegram:1");
    assert_eq!(said(&context), ["a", "b"]);
    assert_eq!(context.token_count().wait().unwrap(), 12);
    assert_eq!(context.n_checkpoints().wait().unwrap(), 1);
    assert_eq!(
        context.system_prompt().wait().unwrap().as_deref(),
        Some("kind")
    );

    let back = dir.path().join("back.jsonl");
    export_kimi("telegram:1", &back, &chats).unwrap();
    assert_eq!(fs::read_to_string(&back).unwrap(), LINES);
    context.revert_to(0).wait().unwrap();
    assert_eq!(said(&context), ["a"]);
    store.close().unwrap();

    let store = open(&dir.path().join("sessions"));
    assert_eq!(said(&store.handle().context("telegram:1")), ["a"]);
    store.close().unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), LINES);
}

#[test]
fn what_truncation_hid_is_exported_as_far_as_it_still_counts() {
    let dir = scratch();
    let store = open(&dir.path().join("sessions"));
    let chats = store.handle();
    let chat = chats.context("k");
    chat.write_system_prompt("kind").wait().unwrap();
    chat.checkpoint(false).wait().unwrap();
    chat.update_token_count(12).wait().unwrap();
    let turns = [Message::user("a"), Message::user("b")];
    chat.append_message(turns).wait().unwrap();
    chats.truncate_history("k", 1).wait().unwrap();
    let expected = "{\"role\": \"_system_prompt\", \"content\": \"kind\"}\n\
         {\"role\": \"_usage\", \"token_count\": 12}\n\
         {\"role\":\"user\",\"content\":\"b\"}\n\
         {\"role\": \"_checkpoint\", \"id\": 0, \"lost\": true}\n";
    for name in ["hidden.jsonl", "compacted.jsonl"] {
        let path = dir.path().join(name);
        export_kimi("k", &path, &chats).unwrap();
        let text = fs::read_to_string(&path).unwrap();
        let text = text.replace(&times(&text), "");
        assert_eq!(text, expected, "{name}");
        let context = Context::open(&path).unwrap();
        assert_eq!(context.token_count().wait().unwrap(), 12);
        assert_eq!(context.n_checkpoints().wait().unwrap(), 1);
        let prompt = context.system_prompt().wait().unwrap();
        assert_eq!(prompt.as_deref(), Some("kind"));
        chats.compact("k").wait().unwrap();
    }
    store.close().unwrap();
}

/// The time in a line of a store, as it stands there.
fn times(text: &str) -> String {
    let field = text.find(",\"created_at\"").map(|at| &text[at..]);
    let end = field.and_then(|field| field.find('}'));
    field
        .zip(end)
        .map_or("\0".into(), |(f, end)| f[..end].into())
}

#[test]
fn a_lost_checkpoint_is_nothing_to_go_back_to_and_numbers_the_next_one() {
    let (dir, path) = file(
        "{\"role\": \"_checkpoint\", \"id\": 2, \"lost\": true}\n{\"role\":\"user\",\"content\":\"a\"}\n",
    );
    let context = Context::open(&path).unwrap();
    for (id, was) in [(-1, false), (0, true), (2, true), (3, false)] {
        match context.revert_to(id).wait() {
            Err(Error::CheckpointNotFound { existing, lost, .. }) => {
                assert_eq!((&existing[..], lost), (&[][..], was), "{id}");
            }
            other => panic!("{id}: {other:?}"),
        }
    }
    assert_eq!(names(dir.path()), ["context.jsonl"]);
    assert_eq!(context.checkpoint(false).wait().unwrap(), 3);
    context.append_message(Message::user("b")).wait().unwrap();
    context.revert_to(3).wait().unwrap();
    assert_eq!(said(&context), ["a"]);
    assert_eq!(context.n_checkpoints().wait().unwrap(), 3);
    drop(context);

    // With a checkpoint behind it, the lost one has nothing to say.
    let store = open(&dir.path().join("sessions"));
    let chats = store.handle();
    import_kimi(&path, "k", &chats).unwrap();
    chats.context("k").checkpoint(false).wait().unwrap();
    let back = dir.path().join("back.jsonl");
    export_kimi("k", &back, &chats).unwrap();
    let text = fs::read_to_string(&back).unwrap();
    assert_eq!(
        text,
        "{\"role\":\"user\",\"content\":\"a\"}\n{\"role\": \"_checkpoint\", \"id\": 3}\n"
    );
    store.close().unwrap();
}

#[test]
fn what_only_python_reads_is_imported_as_everyones_json() {
    let (dir, path) = file(
        "\u{feff}{\"role\":\"user\",\"content\":\"a\tb\"}\r{\"role\":\"user\",\"content\":\"c\"}\r\n{\"role\":\"us",
    );
    let store = open(&dir.path().join("sessions"));
    let chats = store.handle();
    let import = import_kimi(&path, "k", &chats).unwrap();
    assert_eq!((import.lines, import.messages, import.unread), (3, 2, 1));
    assert_eq!(said(&chats.context("k")), ["a\tb", "c"]);
    chats.add_message("k", "user", "d").wait().unwrap();
    assert_eq!(said(&chats.context("k")), ["a\tb", "c", "d"]);
    store.close().unwrap();
}

#[test]
fn nothing_is_written_past_a_store() {
    let dir = scratch();
    let sessions = dir.path().join("sessions");
    let store = open(&sessions);
    let chats = store.handle();
    chats.add_message("k", "user", "a").wait().unwrap();
    chats.flush().wait().unwrap();
    let path = sessions.join("k.jsonl");
    let every_write = |context: &Context| {
        assert_eq!(said(context), ["a"]);
        for refused in [
            context.append_message(Message::user("b")).wait(),
            context.update_token_count(1).wait(),
            context.write_system_prompt("p").wait(),
            context.checkpoint(true).wait().map(drop),
            context.clear().wait(),
        ] {
            assert!(matches!(refused, Err(Error::InStore { .. })), "{refused:?}");
        }
    };
    let context = Context::open(&path).unwrap();
    every_write(&context);
    for name in ["new.jsonl", "k.jsonl"] {
        let exported = export_kimi("k", sessions.join(name), &chats);
        assert!(
            matches!(exported, Err(Error::InStore { .. })),
            "{exported:?}"
        );
    }
    chats.add_message("k", "user", "c").wait().unwrap();
    store.close().unwrap();
    assert!(matches!(context.clear().wait(), Err(Error::InStore { .. })));
    let store = open(&sessions);
    let texts = said(&store.handle().context("k"));
    assert_eq!(texts, ["a", "c"]);
    assert_eq!(store.handle().list_sessions().wait().unwrap(), ["k"]);
    store.close().unwrap();
}

#[test]
fn neither_import_nor_export_overwrites_anything() {
    let (dir, path) = file(LINES);
    let store = open(&dir.path().join("sessions"));
    let chats = store.handle();
    chats.add_message("full", "user", "mine").wait().unwrap();
    let refused = import_kimi(&path, "full", &chats);
    assert!(
        matches!(refused, Err(Error::SessionExists { .. })),
        "{refused:?}"
    );
    assert_eq!(said(&chats.context("full")), ["mine"]);

    chats
        .upsert_session_meta("empty", None, vec!["other".into()])
        .wait()
        .unwrap();
    import_kimi(&path, "other", &chats).unwrap();
    let meta = chats.session_meta("empty").wait().unwrap();
    assert_eq!(
        (meta.count, &meta.aliases[..]),
        (7, &["other".to_owned()][..])
    );
    assert!(matches!(
        import_kimi(&path, "empty", &chats),
        Err(Error::SessionExists { .. })
    ));

    assert!(matches!(
        export_kimi("full", &path, &chats),
        Err(Error::Io { .. })
    ));
    assert_eq!(fs::read_to_string(&path).unwrap(), LINES);
    let nothing = export_kimi("nobody", dir.path().join("n.jsonl"), &chats);
    assert!(
        matches!(nothing, Err(Error::SessionNotFound { .. })),
        "{nothing:?}"
    );
    let missing = import_kimi(dir.path().join("n.jsonl"), "new", &chats);
    assert!(matches!(missing, Err(Error::Io { .. })), "{missing:?}");
    assert_eq!(chats.list_sessions().wait().unwrap(), ["empty", "full"]);
    assert_eq!(names(dir.path()), ["context.jsonl", "sessions"]);
    store.close().unwrap();
}

#[test]
fn a_file_that_is_none_cannot_be_opened() {
    let dir = scratch();
    assert!(matches!(Context::open(dir.path()), Err(Error::Io { .. })));
    assert!(matches!(Context::open("/"), Err(Error::Io { .. })));
    let nowhere = Context::open(dir.path().join("no/context.jsonl")).unwrap();
    assert!(!nowhere.restore().wait().unwrap());
    let refused = nowhere.append_message(Message::user("a")).wait();
    assert!(matches!(refused, Err(Error::Io { .. })), "{refused:?}");
    assert!(said(&nowhere).is_empty());
}

/// kimi-cli makes an empty file, which means the same to it as none.
#[test]
fn an_append_of_nothing_makes_no_file() {
    let dir = scratch();
    let path = dir.path().join("context.jsonl");
    let context = Context::open(&path).unwrap();
    context.append_message(Vec::new()).wait().unwrap();
    assert!(!path.exists());
    assert!(!context.restore().wait().unwrap());
    let store = Store::open(dir.path().join("s")).unwrap();
    let session = store.handle().context("cli");
    session.append_message(Vec::new()).wait().unwrap();
    assert!(store.handle().list_sessions().wait().unwrap().is_empty());
    store.close().unwrap();
}

/// kimi-cli gives the file another name and writes a new one beside a context that
/// holds the old.
#[test]
fn a_checkpoint_after_kimi_cli_reverted_is_numbered_by_the_file_there_is() {
    let (dir, path) = file("{\"role\":\"user\",\"content\":\"a\"}\n");
    let context = Context::open(&path).unwrap();
    for expected in 0..4 {
        assert_eq!(context.checkpoint(false).wait().unwrap(), expected);
    }
    fs::rename(&path, dir.path().join("context_1.jsonl")).unwrap();
    let mut reverted = String::new();
    for id in 0..5 {
        let said = format!("{{\"role\":\"user\",\"content\":\"{id}\"}}\n");
        let checkpoint = format!("{{\"role\":\"_checkpoint\",\"id\":{id}}}\n");
        reverted += &(said + &checkpoint);
    }
    fs::write(&path, reverted).unwrap();
    assert_eq!(context.checkpoint(false).wait().unwrap(), 5);
    context.append_message(Message::user("c")).wait().unwrap();
    context.revert_to(5).wait().unwrap();
    assert_eq!(said(&context), ["0", "1", "2", "3", "4"]);
}
