//! One moment of a session, its pages, and the window of it that a model is given.

use sessionlog::{
    Budget, Durability, Error, Keep, Message, Page, SessionSnapshot, Store, StoreHandle, Unpaired,
    Version,
};

use crate::support::{add_numbers, line, numbers, open, said, scratch, texts};

fn snapshot(chats: &StoreHandle) -> SessionSnapshot {
    chats.snapshot("cli").wait().unwrap()
}

#[test]
fn a_snapshot_stays_what_it_was() {
    let dir = scratch();
    let store = open(dir.path());
    let chats = store.handle();
    add_numbers(&chats, "cli", 0..20);
    chats.set_summary("cli", "before").wait().unwrap();
    let seen = snapshot(&chats);
    let agree = || {
        assert_eq!(said(&seen.history().wait().unwrap()), numbers(0..20));
        assert_eq!(said(&seen.tail(3).wait().unwrap()), numbers(17..20));
        assert_eq!(seen.count().wait().unwrap(), 20);
        assert_eq!(seen.summary(), "before");
        assert_eq!(seen.meta().count, 20);
        let page = seen.before(seen.end(), 5).wait().unwrap();
        assert_eq!(said(&page.messages), numbers(15..20));
    };
    agree();
    add_numbers(&chats, "cli", 20..25);
    agree();
    chats.set_summary("cli", "after").wait().unwrap();
    chats.truncate_history("cli", 2).wait().unwrap();
    chats.compact("cli").wait().unwrap();
    agree();
    chats
        .set_history("cli", vec![Message::user("anew")])
        .wait()
        .unwrap();
    agree();
    chats.delete_session("cli").wait().unwrap();
    agree();
    assert_ne!(seen.version(), Version::ABSENT);
    let gone = snapshot(&chats);
    assert_eq!((gone.version(), gone.summary()), (Version::ABSENT, ""));
    store.close().unwrap();
    agree();
}

fn pages(seen: &SessionSnapshot, n: usize) -> Vec<Page> {
    let mut pages: Vec<Page> = Vec::new();
    loop {
        let end = pages.last().map_or(seen.end(), |page| page.start);
        let page = seen.before(end, n).wait().unwrap();
        let is_first = page.is_first;
        pages.push(page);
        if is_first {
            return pages;
        }
    }
}

/// Lines in the file and lines that are not there yet, blank ones and control records
/// among them.
#[test]
fn pages_are_the_history_in_pieces() {
    let dir = scratch();
    let mut found = line("0") + "\n\nno record\n";
    for text in numbers(1..9) {
        found += &line(&text);
    }
    std::fs::write(dir.path().join("cli.jsonl"), found).unwrap();
    let store = open(dir.path());
    let chats = store.handle();
    chats.context("cli").checkpoint(false).wait().unwrap();
    add_numbers(&chats, "cli", 9..12);
    chats.flush().wait().unwrap();
    add_numbers(&chats.with_durability(Durability::Buffered), "cli", 12..14);
    let reader = Store::open_read_only(dir.path()).unwrap();
    for chats in [chats.clone(), reader.handle()] {
        let seen = snapshot(&chats);
        for n in [1, 2, 3, 5, 14, 20] {
            let mut pages = pages(&seen, n);
            pages.reverse();
            let all: Vec<_> = pages.iter().flat_map(|page| said(&page.messages)).collect();
            assert_eq!(all, numbers(0..14), "{n}");
            for page in &pages {
                assert_eq!(page.positions.len(), page.messages.len());
                assert_eq!(page.positions[0], page.start);
            }
        }
        assert!(
            seen.before(seen.end(), 0)
                .wait()
                .unwrap()
                .messages
                .is_empty()
        );
    }
    store.close().unwrap();
}

#[test]
fn a_position_holds_in_a_later_snapshot_until_its_message_goes() {
    let dir = scratch();
    let store = open(dir.path());
    let chats = store.handle();
    add_numbers(&chats, "cli", 0..10);
    let page = snapshot(&chats)
        .before(snapshot(&chats).end(), 4)
        .wait()
        .unwrap();
    add_numbers(&chats, "cli", 10..12);
    chats.truncate_history("cli", 8).wait().unwrap();
    chats.compact("cli").wait().unwrap();
    let older = snapshot(&chats).before(page.start, 9).wait().unwrap();
    assert_eq!(said(&older.messages), numbers(4..6));
    chats.truncate_history("cli", 2).wait().unwrap();
    for position in [page.start, older.start] {
        let gone = snapshot(&chats).before(position, 1).wait();
        assert!(
            matches!(gone, Err(Error::PositionNotFound { .. })),
            "{gone:?}"
        );
    }
    let amiss = page.start.to_string() + "1";
    let gone = snapshot(&chats).before(amiss.parse().unwrap(), 1).wait();
    assert!(
        matches!(gone, Err(Error::PositionNotFound { .. })),
        "{gone:?}"
    );
    store.close().unwrap();
}

/// Lines that only the journal holds, of which some are hidden.
#[test]
fn positions_hold_for_a_reader_beside_the_writer() {
    let dir = scratch();
    let store = open(dir.path());
    let chats = store.handle();
    add_numbers(&chats, "cli", 0..10);
    chats.truncate_history("cli", 5).wait().unwrap();
    let beside = Store::open_read_only(dir.path()).unwrap();
    let reader = beside.handle();
    let budget = Budget::unlimited().messages(2);
    let window = reader.window("cli", budget).wait().unwrap();
    assert_eq!(said(&window.messages), numbers(8..10));
    let older = snapshot(&reader).before(window.start, 9).wait().unwrap();
    assert_eq!(said(&older.messages), numbers(5..8));
    store.close().unwrap();
}

#[test]
fn versions_and_positions_are_text_for_those_who_send_them_on() {
    let dir = scratch();
    let store = open(dir.path());
    let chats = store.handle();
    add_numbers(&chats, "cli", 0..3);
    let seen = snapshot(&chats);
    let sent = serde_json::to_string(&(seen.version(), seen.end())).unwrap();
    let (version, end) = serde_json::from_str(&sent).unwrap();
    assert_eq!((seen.version(), seen.end()), (version, end));
    assert!(serde_json::from_str::<Version>("\"none\"").is_err());
    store.close().unwrap();
}

fn conversation() -> Vec<Message> {
    vec![
        Message::user("hi"),
        Message::assistant("hello"),
        Message::user("weather?"),
        Message::assistant("").with_tool_call("call", "weather", "{}"),
        Message::tool("call", "rain"),
        Message::assistant("It rains."),
        Message::user("thanks"),
    ]
}

#[test]
fn a_window_is_whole_turns_within_its_budget() {
    let dir = scratch();
    let store = open(dir.path());
    let chats = store.handle();
    chats.append_all("cli", conversation()).wait().unwrap();
    let reader = Store::open_read_only(dir.path()).unwrap();
    for chats in [chats.clone(), reader.handle()] {
        for (most, got) in [(1, 1), (2, 1), (4, 1), (5, 5), (6, 5), (7, 7), (9, 7)] {
            let budget = Budget::unlimited().messages(most);
            let window = chats.window("cli", budget).wait().unwrap();
            assert_eq!(
                (window.messages.len(), window.omitted),
                (got, 7 - got),
                "{most}"
            );
            assert!(!window.is_partial);
            assert_eq!(
                window.messages,
                conversation()[7 - got..].to_vec().stamped(&chats)
            );
            let first = snapshot(&chats);
            assert_eq!(window.version, first.version());
            let older = first.before(window.start, 9).wait().unwrap();
            assert_eq!(older.messages.len(), window.omitted);
        }
        let one = |message: &Message| message.text().len();
        let budget = Budget::unlimited().counter(one).tokens(6);
        let window = chats.window("cli", budget).wait().unwrap();
        assert_eq!((window.messages.len(), window.tokens), (1, 6));
        let none = chats.window("none", Budget::unlimited()).wait().unwrap();
        assert!(none.messages.is_empty() && none.version == Version::ABSENT);
    }
    let window = chats
        .window("cli", Budget::unlimited().messages(5))
        .wait()
        .unwrap();
    chats
        .truncate_to("cli", Keep::From(window.start))
        .wait()
        .unwrap();
    assert_eq!(texts(&chats, "cli")[0], "weather?");
    store.close().unwrap();
}

#[test]
fn a_result_whose_call_is_nowhere_ends_no_window() {
    let dir = scratch();
    let store = open(dir.path());
    let chats = store.handle();
    for (key, id) in [("gone", "gone"), ("empty", "")] {
        let mut said = Vec::new();
        for turn in 0..12 {
            said.push(Message::user(&*format!("question {turn}")));
            said.push(Message::assistant("answer"));
        }
        said.insert(21, Message::tool(id, "nobody asked"));
        chats.append_all(key, said).wait().unwrap();
        let budget = Budget::unlimited().messages(12);
        let window = chats.window(key, budget).wait().unwrap();
        assert_eq!((window.messages.len(), window.omitted), (10, 15), "{key}");
        assert_eq!(window.messages[0].text(), "question 7", "{key}");
        assert!(!window.is_partial);
        let kept = chats.truncate_to(key, Keep::Turns(6));
        kept.wait().unwrap();
        assert_eq!(texts(&chats, key)[0], "question 9", "{key}");
    }
    store.close().unwrap();
}

#[test]
fn no_window_begins_between_a_call_and_its_late_result() {
    let dir = scratch();
    let store = open(dir.path());
    let chats = store.handle();
    let said = vec![
        Message::user("start"),
        Message::assistant("").with_tool_call("slow", "build", "{}"),
        Message::user("and?"),
        Message::assistant("still building"),
        Message::tool("slow", "built"),
        Message::user("thanks"),
        Message::assistant("you are welcome"),
    ];
    chats.append_all("cli", said).wait().unwrap();
    for (most, got) in [(2, 2), (4, 2), (5, 2), (6, 2), (7, 7)] {
        let budget = Budget::unlimited().messages(most);
        let window = chats.window("cli", budget).wait().unwrap();
        assert_eq!(window.messages.len(), got, "{most}");
    }
    store.close().unwrap();
}

/// Messages as the store gives them back: with the time at which they were stored.
trait Stamped {
    fn stamped(self, chats: &StoreHandle) -> Vec<Message>;
}

impl Stamped for Vec<Message> {
    fn stamped(self, chats: &StoreHandle) -> Vec<Message> {
        let all = chats.history("cli").wait().unwrap();
        all[all.len() - self.len()..].to_vec()
    }
}

#[test]
fn a_turn_over_the_budget_is_cut_where_no_result_is_orphaned() {
    let dir = scratch();
    let store = open(dir.path());
    let chats = store.handle();
    chats
        .append_all("cli", conversation()[2..6].to_vec())
        .wait()
        .unwrap();
    let budget = Budget::unlimited().messages(2);
    let window = chats.window("cli", budget.clone()).wait().unwrap();
    assert!(window.is_partial);
    assert_eq!(said(&window.messages), ["It rains."]);
    assert_eq!(window.omitted, 3);
    // Not even its last message fits.
    let none = chats.window("cli", Budget::unlimited().messages(0)).wait();
    let none = none.unwrap();
    assert!(none.is_partial && none.messages.is_empty());
    let kept = budget.clone().unpaired(Unpaired::Keep);
    let window = chats.window("cli", kept).wait().unwrap();
    assert_eq!(said(&window.messages), ["rain", "It rains."]);
    let refused = chats.window("cli", budget.unpaired(Unpaired::Error)).wait();
    assert!(
        matches!(&refused, Err(Error::ToolCallUnpaired { id, .. }) if id == "call"),
        "{refused:?}"
    );
    // A tool that is not done yet.
    chats
        .set_history("cli", conversation()[2..4].to_vec())
        .wait()
        .unwrap();
    let window = chats.window("cli", Budget::unlimited()).wait().unwrap();
    assert_eq!(
        (said(&window.messages), window.omitted),
        (vec!["weather?".to_owned()], 1)
    );
    store.close().unwrap();
}

#[test]
fn summary_and_system_prompt_take_their_part_of_the_budget() {
    let dir = scratch();
    let store = open(dir.path());
    let chats = store.handle();
    chats
        .context("cli")
        .write_system_prompt("Be kind.")
        .wait()
        .unwrap();
    chats
        .append_all("cli", vec![Message::user("1234"), Message::user("5678")])
        .wait()
        .unwrap();
    chats.set_summary("cli", "counting").wait().unwrap();
    let budget = |most| Budget::unlimited().counter(|m| m.text().len()).tokens(most);
    for (most, got) in [(16, 0), (19, 0), (20, 1), (23, 1), (24, 2)] {
        let window = chats.window("cli", budget(most)).wait().unwrap();
        assert_eq!(window.messages.len(), got, "{most}");
        assert_eq!(window.tokens, 16 + 4 * got);
        assert_eq!(window.system_prompt.as_deref(), Some("Be kind."));
        assert_eq!(window.summary, "counting");
    }
    assert_eq!(chats.checkpoints("cli").wait().unwrap(), [0_i64; 0]);
    for _ in 0..3 {
        chats.context("cli").checkpoint(false).wait().unwrap();
    }
    chats.context("cli").revert_to(2).wait().unwrap();
    assert_eq!(chats.checkpoints("cli").wait().unwrap(), [0, 1]);
    store.close().unwrap();
}
