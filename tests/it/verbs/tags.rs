//! Titles, labels and pins, and what other programs put into a sidecar.

use std::fs;
use std::path::Path;

use serde_json::Value;
use sessionlog::{
    Error, Fork, Message, SessionOrder, SessionQuery, SessionTags, Store, StoreHandle, Update,
    Version,
};

use crate::support::{add_numbers, open, scratch};

fn tags(chats: &StoreHandle, key: &str) -> SessionTags {
    chats.session_meta(key).wait().unwrap().tags
}

fn sidecar(dir: &Path, stem: &str) -> Value {
    let bytes = fs::read(dir.join(format!("{stem}.meta.json"))).unwrap();
    serde_json::from_slice(&bytes).unwrap()
}

/// The sidecar as PicoClaw writes it: without what it does not know.
fn written_by_picoclaw(dir: &Path, stem: &str) {
    let path = dir.join(format!("{stem}.meta.json"));
    let mut fields = sidecar(dir, stem);
    let known = [
        "key",
        "summary",
        "skip",
        "count",
        "created_at",
        "updated_at",
        "scope",
        "aliases",
    ];
    let object = fields.as_object_mut().unwrap();
    object.retain(|name, _| known.contains(&&**name));
    fs::remove_file(&path).unwrap();
    fs::write(&path, serde_json::to_vec_pretty(&fields).unwrap()).unwrap();
}

fn tagged(store: &Store, key: &str) {
    let chats = store.handle();
    chats.set_title(key, "  Oslo in May ").wait().unwrap();
    chats
        .set_labels(key, ["travel", " ours ", "travel", ""])
        .wait()
        .unwrap();
    chats.set_pinned(key, true).wait().unwrap();
}

fn is_whole(tags: &SessionTags) {
    assert_eq!(tags.title, "Oslo in May");
    assert_eq!(tags.labels, ["travel", "ours"]);
    assert!(tags.pinned);
}

#[test]
fn a_title_labels_and_a_pin_stand_where_others_see_them_and_stay_through_everything_but_a_deletion()
{
    let dir = scratch();
    let store = open(dir.path());
    let chats = store.handle();
    add_numbers(&chats, "cli", 0..9);
    tagged(&store, "cli");
    let context = chats.context("cli");
    context.checkpoint(false).wait().unwrap();
    chats.truncate_history("cli", 2).wait().unwrap();
    chats.compact("cli").wait().unwrap();
    is_whole(&tags(&chats, "cli"));
    context.revert_to(0).wait().unwrap();
    chats
        .set_history("cli", vec![Message::user("anew")])
        .wait()
        .unwrap();
    is_whole(&tags(&chats, "cli"));
    context.clear().wait().unwrap();
    chats.restore_backup("cli", 1).wait().unwrap();
    chats
        .upsert_session_meta("cli", None, vec!["c".into()])
        .wait()
        .unwrap();
    is_whole(&tags(&chats, "cli"));
    chats.flush().wait().unwrap();
    let file = sidecar(dir.path(), "cli");
    assert_eq!(file["title"], "Oslo in May");
    assert_eq!(file["labels"][1], "ours");
    assert_eq!(file["pinned"], true);
    store.close().unwrap();
    let store = open(dir.path());
    let chats = store.handle();
    is_whole(&tags(&chats, "cli"));
    chats.delete_session("cli").wait().unwrap();
    add_numbers(&chats, "cli", 0..1);
    assert_eq!(tags(&chats, "cli"), SessionTags::default());
    store.close().unwrap();
    let store = open(dir.path());
    assert_eq!(tags(&store.handle(), "cli"), SessionTags::default());
    store.close().unwrap();
}

#[test]
fn tags_that_picoclaw_dropped_come_back_and_those_taken_away_do_not() {
    let dir = scratch();
    let store = open(dir.path());
    let chats = store.handle();
    for key in ["tg:1", "tg:2", "tg:3", "tg:4"] {
        add_numbers(&chats, key, 0..3);
        tagged(&store, key);
    }
    chats.flush().wait().unwrap();
    chats
        .update("tg:2", Update::new().title("").labels([""]).pinned(false))
        .wait()
        .unwrap();
    store.close().unwrap();
    written_by_picoclaw(dir.path(), "tg_1");
    written_by_picoclaw(dir.path(), "tg_2");
    // Another session by now, under the same key.
    fs::remove_file(dir.path().join("tg_3.jsonl")).unwrap();
    let other = r#"{"key":"tg:3","summary":"","skip":0,"count":0,"created_at":"2020-01-01T00:00:00Z","updated_at":"2020-01-01T00:00:00Z"}"#;
    fs::write(dir.path().join("tg_3.meta.json"), other).unwrap();
    // A tool that knows titles is believed.
    let mut fields = sidecar(dir.path(), "tg_4");
    fields["title"] = "theirs".into();
    fields.as_object_mut().unwrap().remove("labels");
    fs::write(dir.path().join("tg_4.meta.json"), fields.to_string()).unwrap();

    for _ in 0..2 {
        let store = open(dir.path());
        let chats = store.handle();
        let listed = chats.sessions(SessionQuery::new().pinned()).wait().unwrap();
        let titles: Vec<_> = listed.sessions.iter().map(|info| &*info.title).collect();
        assert_eq!(titles, ["Oslo in May", "theirs"]);
        assert_eq!(sidecar(dir.path(), "tg_1")["title"], "Oslo in May");
        is_whole(&tags(&chats, "tg:1"));
        assert_eq!(tags(&chats, "tg:2"), SessionTags::default());
        assert_eq!(tags(&chats, "tg:3"), SessionTags::default());
        assert!(tags(&chats, "tg:4").labels.is_empty());
        assert_eq!(chats.count("tg:1").wait().unwrap(), 3);
        store.close().unwrap();
    }
}

#[test]
fn fields_that_nobody_here_knows_stay_in_the_sidecar() {
    let dir = scratch();
    let store = open(dir.path());
    add_numbers(&store.handle(), "telegram:0", 0..2);
    store.close().unwrap();
    let path = dir.path().join("telegram_0.meta.json");
    let mut fields = sidecar(dir.path(), "telegram_0");
    fields["mood"] = serde_json::json!({"now": [1.5, null]});
    fields["title"] = "Trip".into();
    fs::write(&path, fields.to_string()).unwrap();

    let store = open(dir.path());
    let chats = store.handle();
    add_numbers(&chats, "telegram:0", 2..3);
    assert_eq!(tags(&chats, "telegram:0").title, "Trip");
    let mood = tags(&chats, "telegram:0");
    assert_eq!(mood.unknown_field("mood"), Some(r#"{"now":[1.5,null]}"#));
    chats.set_summary("telegram:0", "s").wait().unwrap();
    chats.truncate_history("telegram:0", 1).wait().unwrap();
    chats.compact("telegram:0").wait().unwrap();
    store.close().unwrap();
    let written = sidecar(dir.path(), "telegram_0");
    assert_eq!(written["mood"]["now"][0], 1.5);
    assert_eq!(written["title"], "Trip");
    let store = open(dir.path());
    assert_eq!(tags(&store.handle(), "telegram:0"), mood);
    store.close().unwrap();
}

#[test]
fn sessions_are_found_by_label_and_pin_and_show_them() {
    let dir = scratch();
    let store = open(dir.path());
    let chats = store.handle();
    for (key, labels) in [("a", &["x", "y"][..]), ("b", &["x"]), ("c", &[])] {
        add_numbers(&chats, key, 0..1);
        chats
            .set_labels(key, labels.iter().copied())
            .wait()
            .unwrap();
    }
    chats.set_pinned("b", true).wait().unwrap();
    let found = |query: SessionQuery| {
        let by_name = chats.sessions(query.clone()).wait().unwrap();
        let recent = chats
            .sessions(query.order(SessionOrder::Updated))
            .wait()
            .unwrap();
        let keys = |page: sessionlog::SessionPage| {
            let mut keys: Vec<_> = page.sessions.into_iter().map(|info| info.key).collect();
            keys.sort();
            keys
        };
        let (by_name, recent) = (keys(by_name), keys(recent));
        assert_eq!(by_name, recent);
        by_name
    };
    assert_eq!(found(SessionQuery::new().label("x")), ["a", "b"]);
    assert_eq!(found(SessionQuery::new().label("x").label("y")), ["a"]);
    assert_eq!(found(SessionQuery::new().label("x").pinned()), ["b"]);
    assert_eq!(found(SessionQuery::new()), ["a", "b", "c"]);
    chats.flush().wait().unwrap();
    let beside = Store::open_read_only(dir.path()).unwrap();
    let page = beside
        .handle()
        .sessions(SessionQuery::new().label("y"))
        .wait()
        .unwrap();
    assert_eq!(page.sessions[0].labels, ["x", "y"]);
    drop(beside);
    store.close().unwrap();
}

#[test]
fn tags_change_in_one_commit_with_the_rest_at_a_version() {
    let dir = scratch();
    let store = open(dir.path());
    let chats = store.handle();
    let made = Update::new()
        .expect(Version::ABSENT)
        .title("T")
        .append(Message::user("hi"));
    let at = chats.update("cli", made).wait().unwrap();
    chats.add_message("cli", "user", "more").wait().unwrap();
    let late = chats
        .update("cli", Update::new().expect(at).title("U"))
        .wait();
    assert!(matches!(late, Err(Error::VersionConflict { .. })));
    assert_eq!(tags(&chats, "cli").title, "T");
    let huge = "t".repeat(40 << 20);
    let refused = chats.set_title("cli", &huge).wait();
    assert!(
        matches!(refused, Err(Error::MessageTooLarge { .. })),
        "{refused:?}"
    );
    chats.fork_session("cli", "copy", Fork::End).wait().unwrap();
    assert_eq!(tags(&chats, "copy").title, "T");
    // A session that is only named is one, as after a summary.
    chats.set_title("new", "N").wait().unwrap();
    assert!(chats.exists("new").wait().unwrap());
    store.close().unwrap();
}

#[test]
fn tags_that_were_taken_away_stay_so_though_no_copy_says_it() {
    let dir = scratch();
    let copies = dir.path().join(".sessionlog/sidecars.jsonl");
    let store = open(dir.path());
    let chats = store.handle();
    add_numbers(&chats, "cli", 0..3);
    tagged(&store, "cli");
    chats.flush().wait().unwrap();
    let before = fs::read(&copies).unwrap();
    let none = Update::new().title("").labels([""]).pinned(false);
    chats.update("cli", none).wait().unwrap();
    store.close().unwrap();
    // As if the line that says so had found no space.
    fs::write(&copies, before).unwrap();
    let store = open(dir.path());
    assert_eq!(tags(&store.handle(), "cli"), SessionTags::default());
    store.close().unwrap();
}
