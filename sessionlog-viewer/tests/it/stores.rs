//! Stores to look at.

use std::path::Path;

use sessionlog::{Attachment, Durability, Message, RawValue, Store, StoreHandle, StoreOptions};
use tempfile::TempDir;

/// A store that is written to, in a directory of its own.
pub(crate) struct Written {
    pub(crate) chats: StoreHandle,
    pub(crate) dir: TempDir,
    store: Store,
}

/// An empty one.
pub(crate) fn empty() -> Written {
    opened(tempfile::tempdir().unwrap())
}

fn opened(dir: TempDir) -> Written {
    let options = StoreOptions::new()
        .durability(Durability::Buffered)
        .archive(true);
    let store = Store::open_with(dir.path(), options).unwrap();
    Written {
        chats: store.handle(),
        dir,
        store,
    }
}

impl Written {
    /// The same, as another process sees it.
    pub(crate) fn beside(&self) -> Store {
        Store::open_read_only(self.dir.path()).unwrap()
    }

    /// The same, after something happened to its files while it was closed.
    pub(crate) fn after(self, happens: impl FnOnce(&Path)) -> Self {
        self.store.close().unwrap();
        happens(self.dir.path());
        opened(self.dir)
    }
}

/// Puts a line into a session's file, after so many others.
pub(crate) fn insert_line(dir: &Path, stem: &str, after: usize, line: &[u8]) {
    let path = dir.join(format!("{stem}.jsonl"));
    let bytes = std::fs::read(&path).unwrap();
    let mut lines: Vec<_> = bytes.split_inclusive(|byte| *byte == b'\n').collect();
    let line = [line, b"\n"].concat();
    lines.insert(after, &line);
    std::fs::write(&path, lines.concat()).unwrap();
}

/// Puts a directory where a session's file was: it cannot be read.
pub(crate) fn lose(dir: &Path, stem: &str) {
    let path = dir.join(format!("{stem}.jsonl"));
    std::fs::remove_file(&path).unwrap();
    std::fs::create_dir(&path).unwrap();
}

/// `n` messages that say which they are: `message 0`, `message 1` ...
pub(crate) fn numbered(chats: &StoreHandle, key: &str, n: usize) {
    let said = (0..n).map(|i| match i % 2 {
        0 => Message::user(format!("message {i}")),
        _ => Message::assistant(format!("message {i}")),
    });
    let said: Vec<_> = said.collect();
    for batch in said.chunks(5_000) {
        chats.append_all(key, batch.to_vec()).wait().unwrap();
    }
    chats.flush().wait().unwrap();
}

/// A conversation that has everything in it, among some others.
pub(crate) fn furnished(chats: &StoreHandle) {
    for (key, channel, said) in [
        ("slack:ops", "slack", "Deploy finished without errors."),
        (
            "discord:guild:42",
            "discord",
            "Who is up for a game tonight?",
        ),
        ("telegram:direct:77", "telegram", "Thanks, that was all."),
    ] {
        chats.add_message(key, "user", said).wait().unwrap();
        scope(chats, key, channel);
    }
    let key = "telegram:direct:123";
    let chat = chats.context(key);
    chat.write_system_prompt(
        "You are a travel assistant. Be brief, and say where facts come from.",
    )
    .wait()
    .unwrap();
    say(
        chats,
        key,
        0,
        Message::user("How do I get from Oslo to Bergen tomorrow? I would rather not fly."),
    );
    let call = Message::assistant("I will look at the trains.")
        .with_reasoning("The traveller does not want to fly. The Bergen Line takes about seven hours; look up tomorrow's departures.")
        .with_model_name("example-model-2")
        .with_tool_call("call_1", "find_trains", r#"{"from":"Oslo S","to":"Bergen","date":"2026-11-25"}"#);
    say(chats, key, 1, call);
    say(
        chats,
        key,
        2,
        Message::tool(
            "call_1",
            "08:25 Oslo S, 15:06 Bergen\n12:03 Oslo S, 18:57 Bergen\n23:03 Oslo S, 06:26 Bergen",
        ),
    );
    chat.update_token_count(640).wait().unwrap();
    say(chats, key, 3, Message::assistant("There are three direct trains tomorrow:\n\n08:25, arrives 15:06\n12:03, arrives 18:57\n23:03, arrives 06:26 the next morning\n\nThe first two go over the mountains by daylight, which most people take the train for.").with_model_name("example-model-2"));
    chat.update_token_count(910).wait().unwrap();
    chat.checkpoint(false).wait().unwrap();
    let mut ticket = Attachment::new("file", "media/7f3a");
    "ticket.pdf".clone_into(&mut ticket.filename);
    "application/pdf".clone_into(&mut ticket.content_type);
    "https://files.example/ticket.pdf".clone_into(&mut ticket.url);
    say(
        chats,
        key,
        4,
        Message::user("The first one. Here is my ticket from last time, is it the same fare?")
            .with_attachment(ticket)
            .with_media("media/photo-1.jpg"),
    );
    say(
        chats,
        key,
        5,
        Message::assistant(
            "It is: 1,099 kr, second class, and a seat is included. Shall I book it?",
        ),
    );
    chat.update_token_count(1480).wait().unwrap();
    say(chats, key, 6, Message::user("Yes please."));
    chat.update_token_count(1320).wait().unwrap();
    chats
        .set_summary(key, "Planning a train journey from Oslo to Bergen")
        .wait()
        .unwrap();
    scope(chats, key, "telegram");
}

fn say(chats: &StoreHandle, key: &str, minute: usize, message: Message) {
    let time = format!("2026-11-24T10:{:02}:00Z", 10 + minute * 3);
    let message = message.with_created_at(&time).unwrap();
    chats.add_full_message(key, message).wait().unwrap();
}

/// Gives a session an agent and a channel.
pub(crate) fn scope(chats: &StoreHandle, key: &str, channel: &str) {
    let scope = format!(r#"{{"version":1,"agent_id":"main","channel":"{channel}"}}"#);
    let scope = RawValue::from_string(scope).unwrap();
    chats
        .upsert_session_meta(key, Some(scope), Vec::new())
        .wait()
        .unwrap();
}
