//! Where things stand in a conversation, for who reads a long one in pages.

use sessionlog::{Error, MarkKind, Message, Outline, SessionSnapshot, Store, StoreHandle};

use crate::support::{add_numbers, numbers, open, said, scratch};

fn snapshot(chats: &StoreHandle) -> SessionSnapshot {
    chats.snapshot("cli").wait().unwrap()
}

fn outline(snapshot: &SessionSnapshot) -> Outline {
    snapshot.outline(snapshot.start(), 4).wait().unwrap()
}

fn marks(outline: &Outline) -> Vec<(usize, MarkKind)> {
    let marks = outline.marks.iter();
    marks.map(|mark| (mark.after, mark.kind)).collect()
}

#[test]
fn anchors_lead_to_every_message_in_file_and_journal_and_beside_the_writer() {
    let dir = scratch();
    let store = open(dir.path());
    let chats = store.handle();
    add_numbers(&chats, "cli", 0..10);
    chats.flush().wait().unwrap();
    add_numbers(&chats, "cli", 10..23);
    chats.truncate_history("cli", 20).wait().unwrap();
    let beside = Store::open_read_only(dir.path()).unwrap();
    for handle in [chats, beside.handle()] {
        let snapshot = snapshot(&handle);
        let outline = outline(&snapshot);
        assert_eq!((outline.messages, outline.anchors.len()), (20, 5));
        for (at, anchor) in outline.anchors.iter().enumerate() {
            let page = snapshot.before(*anchor, 100).wait().unwrap();
            assert_eq!(said(&page.messages), numbers(3..3 + at * 4));
        }
    }
}

#[test]
fn an_outline_says_what_stands_between_the_messages_and_goes_on_where_another_ended() {
    let dir = scratch();
    let store = open(dir.path());
    let chats = store.handle();
    let chat = chats.context("cli");
    chat.write_system_prompt("be brief").wait().unwrap();
    let first = Message::user("hi")
        .with_created_at("2026-11-24T10:00:00Z")
        .unwrap();
    chats.add_full_message("cli", first).wait().unwrap();
    chat.checkpoint(false).wait().unwrap();
    let then = snapshot(&chats);
    let before = outline(&then);
    let system = (0, MarkKind::SystemPrompt);
    assert_eq!(marks(&before), [system, (1, MarkKind::Checkpoint(0))]);
    assert_eq!(
        before.marks[1].said_at.as_deref(),
        Some("2026-11-24T10:00:00Z")
    );

    chats
        .add_message("cli", "assistant", "hello")
        .wait()
        .unwrap();
    chat.update_token_count(12).wait().unwrap();
    let now = snapshot(&chats);
    let since = now.outline(then.end(), 4).wait().unwrap();
    assert_eq!(
        (since.messages, marks(&since)),
        (1, vec![(1, MarkKind::Tokens(12))])
    );
    let whole = outline(&now);
    assert_eq!((whole.messages, whole.marks.len()), (2, 3));

    chats
        .set_history("cli", vec![Message::user("anew")])
        .wait()
        .unwrap();
    let error = snapshot(&chats).outline(then.end(), 4).wait().unwrap_err();
    assert!(matches!(error, Error::PositionNotFound { .. }), "{error}");
}

#[test]
fn a_line_that_does_not_decode_is_marked_and_an_empty_session_has_nothing() {
    let dir = scratch();
    let store = open(dir.path());
    add_numbers(&store.handle(), "cli", 0..2);
    store.close().unwrap();
    let path = dir.path().join("cli.jsonl");
    let mut text = std::fs::read_to_string(&path).unwrap();
    text.insert_str(text.find('\n').unwrap() + 1, "{\"role\":\"us\n");
    std::fs::write(&path, text).unwrap();
    let store = open(dir.path());
    let chats = store.handle();
    assert_eq!(marks(&outline(&snapshot(&chats))), [(1, MarkKind::Damaged)]);
    let nobody = chats.snapshot("nobody").wait().unwrap();
    let empty = nobody.outline(nobody.start(), 4).wait().unwrap();
    assert_eq!(
        (empty.messages, empty.anchors.len(), empty.marks.len()),
        (0, 0, 0)
    );
}

#[test]
fn a_line_shows_its_bytes_in_file_and_journal_and_as_many_as_are_asked_for() {
    let dir = scratch();
    let store = open(dir.path());
    add_numbers(&store.handle(), "cli", 0..2);
    store.close().unwrap();
    let path = dir.path().join("cli.jsonl");
    let mut bytes = std::fs::read(&path).unwrap();
    let damage = [&b"{\"role\":\xff\0"[..], &b"x".repeat(300_000)].concat();
    let at = bytes.iter().position(|byte| *byte == b'\n').unwrap() + 1;
    bytes.splice(at..at, [&damage[..], b"\n"].concat());
    // The last line has no LF.
    bytes.extend(b"{\"role\"");
    std::fs::write(&path, &bytes).unwrap();
    let store = open(dir.path());
    let chats = store.handle();
    add_numbers(&chats, "cli", 2..4);
    let beside = Store::open_read_only(dir.path()).unwrap();
    for handle in [chats, beside.handle()] {
        let snapshot = snapshot(&handle);
        let [first, last] = &outline(&snapshot).marks[..] else {
            panic!("two lines do not decode");
        };
        let line = |position, most| snapshot.line(position, most).wait().unwrap();
        let whole = line(first.position, usize::MAX);
        assert!(whole.bytes == damage && whole.len == damage.len() as u64);
        let beginning = line(first.position, 10);
        assert_eq!(
            (&*beginning.bytes, beginning.len),
            (&damage[..10], whole.len)
        );
        assert_eq!(line(last.position, usize::MAX).bytes, b"{\"role\"");
        let page = snapshot.before(snapshot.end(), 9).wait().unwrap();
        assert_eq!(page.messages.len(), 4);
        for (message, position) in page.messages.iter().zip(page.positions) {
            let read: Message = serde_json::from_slice(&line(position, usize::MAX).bytes).unwrap();
            assert_eq!(read, *message);
        }
        let error = snapshot.line(snapshot.end(), 9).wait().unwrap_err();
        assert!(matches!(error, Error::PositionNotFound { .. }), "{error}");
    }
}

/// A viewer asks for everything after its first outline, which was before the compaction.
#[test]
fn what_a_compaction_carried_along_is_at_the_start_and_in_the_outline() {
    let dir = scratch();
    let store = open(dir.path());
    let chats = store.handle();
    let chat = chats.context("cli");
    chat.write_system_prompt("be brief").wait().unwrap();
    add_numbers(&chats, "cli", 0..9);
    chat.checkpoint(false).wait().unwrap();
    chats.truncate_history("cli", 2).wait().unwrap();
    let then = snapshot(&chats);
    chats.compact("cli").wait().unwrap();
    let now = snapshot(&chats);
    assert_eq!(now.start(), then.start());
    let whole = outline(&now);
    assert_eq!(whole.messages, 2);
    assert!(marks(&whole).contains(&(0, MarkKind::SystemPrompt)));
    let page = now.before(now.start(), 9).wait().unwrap();
    assert!(page.messages.is_empty() && page.is_first);
}
