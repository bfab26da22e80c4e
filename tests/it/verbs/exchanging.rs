//! Conversations handed over in the shapes of others, and taken in.

use sessionlog::{Error, Format, Message, Store};

use crate::support::{open, scratch, texts};

#[test]
fn a_conversation_goes_out_and_comes_back_in_every_shape_that_can_be_imported() {
    let dir = scratch();
    let store = open(dir.path());
    let chats = store.handle();
    let said = vec![
        Message::system("Be brief."),
        Message::user("2 + 2?"),
        Message::assistant("").with_tool_call("c1", "add", r#"{"a":2,"b":2}"#),
        Message::tool("c1", "4"),
        Message::assistant("4."),
    ];
    chats.append_all("a", said.clone()).wait().unwrap();
    chats.context("a").checkpoint(false).wait().unwrap();
    for format in [Format::Jsonl, Format::OpenAi, Format::Anthropic] {
        let text = chats.export("a", format).wait().unwrap();
        let key = format!("{format:?}");
        assert_eq!(chats.import(&key, format, &text).wait().unwrap(), 5);
        let history = chats.history(&key).wait().unwrap();
        assert_eq!(texts(&chats, &key), texts(&chats, "a"));
        assert_eq!(history[2].tool_calls(), said[2].tool_calls());
        assert_eq!(history[3].tool_call_id(), "c1");
        let again = chats.export(&key, format).wait().unwrap();
        let all = chats.history("a").wait().unwrap();
        // Lines keep what they say of themselves; a checkpoint is the session's own.
        if format == Format::Jsonl {
            assert_eq!(history, all);
            assert!(
                text.starts_with(&*again) && text.contains("_checkpoint"),
                "{text}"
            );
        } else {
            assert_eq!(again, text);
        }
    }
    let markdown = chats.export("a", Format::Markdown).wait().unwrap();
    assert!(markdown.contains("> 2 + 2?"), "{markdown}");
    store.close().unwrap();
    let reader = Store::open_read_only(dir.path()).unwrap();
    let chats = reader.handle();
    assert_eq!(
        chats.export("a", Format::Markdown).wait().unwrap(),
        markdown
    );
    assert_eq!(chats.export("none", Format::OpenAi).wait().unwrap(), "[]");
    assert_eq!(chats.export("none", Format::Jsonl).wait().unwrap(), "");
    let refused = chats.import(
        "a",
        Format::OpenAi,
        "[{\"role\":\"user\",\"content\":\"x\"}]",
    );
    assert!(matches!(refused.wait(), Err(Error::ReadOnly)));
}

#[test]
fn a_text_that_is_refused_leaves_nothing_of_itself() {
    let dir = scratch();
    let store = open(dir.path());
    let chats = store.handle();
    let first = r#"{"role":"user","content":"first"}"#;
    for (format, text) in [
        (Format::OpenAi, format!(r#"[{first},{{"content":"x"}}]"#)),
        // It would be a control record, and hidden.
        (Format::OpenAi, format!(r#"[{first},{{"role":"_usage"}}]"#)),
        (
            Format::Anthropic,
            format!(r#"{{"messages":[{first},{{"role":"user"}}]}}"#),
        ),
        (Format::Jsonl, format!("{first}\nnot JSON\n")),
        (Format::Markdown, String::from("## user\n\n> hi\n")),
    ] {
        let error = chats.import("a", format, &text).wait().unwrap_err();
        assert!(
            matches!(error, Error::InvalidMessage { .. }),
            "{format:?}: {error}"
        );
    }
    assert!(!chats.exists("a").wait().unwrap());
    store.close().unwrap();
}

#[test]
fn a_system_prompt_goes_with_its_conversation() {
    let dir = scratch();
    let store = open(dir.path());
    let chats = store.handle();
    chats
        .context("a")
        .write_system_prompt("Be brief.")
        .wait()
        .unwrap();
    for text in ["one", "two"] {
        chats.add_message("a", "user", text).wait().unwrap();
    }
    chats.truncate_history("a", 1).wait().unwrap();
    let text = chats.export("a", Format::OpenAi).wait().unwrap();
    assert_eq!(chats.import("b", Format::OpenAi, &text).wait().unwrap(), 2);
    assert_eq!(texts(&chats, "b"), ["Be brief.", "two"]);
    let lines = chats.export("a", Format::Jsonl).wait().unwrap();
    assert!(
        lines.contains("_system_prompt") && !lines.contains("one"),
        "{lines}"
    );
    store.close().unwrap();
}

#[test]
fn an_export_says_that_a_damaged_line_is_not_in_it() {
    let dir = scratch();
    std::fs::write(
        dir.path().join("cli.jsonl"),
        "{\"role\":\"user\",\"content\":\"hi\"}\n{\"role\":\"us\n",
    )
    .unwrap();
    let store = open(dir.path());
    for format in [Format::Markdown, Format::OpenAi, Format::Anthropic] {
        let export = store.handle().export("cli", format).wait().unwrap();
        let told = export.summary();
        let is_told = told
            .iter()
            .any(|(what, many)| what.contains("damaged line") && *many == 1);
        assert!(is_told, "{format:?}: {told:?}");
    }
}
