//! Erasing sessions, down to the last byte.

use std::collections::BTreeSet;
use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use sessionlog::scope::{InboundContext, SessionPolicy, allocate_route_session};
use sessionlog::testing::disk_model::{Image, MemoryStorage};
use sessionlog::{
    Appended, Erase, Error, Message, RawValue, Store, StoreHandle, StoreOptions, Whose,
};

use crate::support::{add_numbers, in_memory, open, open_memory, scratch, small_segments};

/// Every regular file under a directory, by the names of directories and files. A file that
/// goes away meanwhile, as spare journal segments do, is not there.
fn files(dir: &Path) -> Vec<(String, Vec<u8>)> {
    let mut files = Vec::new();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files.extend(self::files(&path));
            continue;
        }
        match fs::read(&path) {
            Ok(bytes) => files.push((path.display().to_string(), bytes)),
            Err(error) => assert_eq!(error.kind(), ErrorKind::NotFound, "{}", path.display()),
        }
    }
    files
}

/// In which files one of these is.
fn found(dir: &Path, secrets: &[String]) -> BTreeSet<String> {
    let is_in = |bytes: &[u8]| {
        let mut secrets = secrets.iter();
        secrets.any(|secret| memchr::memmem::find(bytes, secret.as_bytes()).is_some())
    };
    let files = files(dir).into_iter();
    files
        .filter(|(name, bytes)| is_in(bytes) || is_in(name.as_bytes()))
        .map(|(name, _)| name)
        .collect()
}

const SESSIONS: usize = 10;

fn secret(session: usize, what: usize) -> String {
    format!("s3cr3t-{session:02}-{what:02}-{}", "x".repeat(8))
}

/// 20 secrets of one person, everywhere where a session's may stand.
fn live(chats: &StoreHandle, session: usize) -> String {
    let key = format!("telegram:{}", secret(session, 0));
    let say = |what: usize| {
        let text = format!("My number is {}.", secret(session, what));
        chats.add_message(&key, "user", &text).wait().unwrap();
    };
    (1..6).for_each(say);
    // Hidden, and compacted away.
    chats.truncate_history(&key, 2).wait().unwrap();
    chats.compact(&key).wait().unwrap();
    (6..8).for_each(say);
    chats.truncate_history(&key, 1).wait().unwrap();
    chats.set_summary(&key, &secret(session, 8)).wait().unwrap();
    // In backups.
    let context = chats.context(&key);
    context.checkpoint(false).wait().unwrap();
    say(9);
    context.revert_to(0).wait().unwrap();
    say(10);
    context.clear().wait().unwrap();
    let once = [Message::new("user", secret(session, 11))];
    chats
        .append_once(&key, &secret(session, 12), once)
        .wait()
        .unwrap();
    let scope = format!(r#"{{"channel":"{}"}}"#, secret(session, 13));
    let scope = RawValue::from_string(scope).unwrap();
    let alias = format!("agent:main:telegram:direct:{}", secret(session, 14));
    let aliases = vec![alias.clone(), String::from("agent:main:main")];
    chats
        .upsert_session_meta(&key, Some(scope), aliases)
        .wait()
        .unwrap();
    // Written before it was anybody's alias, and to a file of its own.
    let exact = chats.exact_keys();
    let text = secret(session, 15);
    exact.add_message(&alias, "user", &text).wait().unwrap();
    context
        .write_system_prompt(&secret(session, 16))
        .wait()
        .unwrap();
    key
}

/// What is beside sessions: older files, and what was set aside of sessions of that name.
fn leave_beside(dir: &Path, session: usize) {
    let key = format!("telegram:{}", secret(session, 0));
    let stem = key.replace(':', "_");
    let older = format!(
        r#"{{"key":"{key}","messages":[{{"role":"user","content":"{}"}}]}}"#,
        secret(session, 17)
    );
    fs::write(dir.join(format!("{stem}.json.migrated")), older).unwrap();
    let aside = dir.join(".sessionlog/quarantine");
    fs::write(aside.join(format!("{stem}.meta.json")), secret(session, 18)).unwrap();
    fs::write(aside.join(format!("{stem}.jsonl.3")), secret(session, 19)).unwrap();
    let repair = dir.join(".sessionlog/backups/repair-1");
    fs::create_dir_all(&repair).unwrap();
    fs::write(repair.join(format!("{stem}.jsonl")), secret(session, 18)).unwrap();
    let mixed = format!("…{{\"key\":\"{key}\"}}…{}…", secret(session, 19));
    let segment = repair.join(format!("segment-{session:016x}.log"));
    fs::write(segment, mixed).unwrap();
}

#[test]
fn no_byte_of_200_secrets_is_left_and_other_sessions_are_whole() {
    let dir = scratch();
    let store = Store::open_with(dir.path(), small_segments().archive(true)).unwrap();
    let chats = store.handle();
    let secrets: Vec<String> = (0..SESSIONS)
        .flat_map(|session| (0..20).map(move |what| secret(session, what)))
        .collect();
    let other = "telegram:8";
    let say = |n: usize| {
        let text = format!("{n} {}", "y".repeat(4000));
        chats.add_message(other, "user", &text).wait().unwrap();
    };
    let mut keys = Vec::new();
    for session in 0..SESSIONS {
        keys.push(live(&chats, session));
        leave_beside(dir.path(), session);
        // Fills segments with records of both, which become spares.
        (0..20).for_each(&say);
        chats.flush().wait().unwrap();
    }
    let aliases = vec![String::from("agent:main:main")];
    chats
        .upsert_session_meta(other, None, aliases)
        .wait()
        .unwrap();
    let before = found(dir.path(), &secrets);
    assert!(before.len() > SESSIONS * 8, "{before:?}");
    let all = chats.traces(secrets.clone()).wait().unwrap();
    let traced: BTreeSet<_> = all
        .found
        .iter()
        .map(|(file, _)| dir.path().join(file))
        .collect();
    let traced: BTreeSet<_> = traced
        .iter()
        .map(|file| file.display().to_string())
        .collect();
    assert_eq!(traced, before);

    let mut removed = BTreeSet::new();
    for (session, key) in keys.iter().enumerate() {
        let receipt = chats.erase(Erase::key(key.as_str())).wait().unwrap();
        assert_eq!(receipt.sessions.len(), 2, "{receipt:?}");
        assert!(receipt.is_complete(), "{receipt:?}");
        removed.extend(receipt.removed.iter().map(|file| dir.path().join(file)));
        let mine: Vec<_> = (0..20).map(|what| secret(session, what)).collect();
        assert_eq!(found(dir.path(), &mine), BTreeSet::new());
        assert!(!chats.exists(key).wait().unwrap());
    }
    let removed: BTreeSet<_> = removed
        .iter()
        .map(|file| file.display().to_string())
        .collect();
    // But for segments that the flush before had removed.
    for file in before.iter().filter(|file| !file.contains("/journal/")) {
        assert!(
            removed.contains(file) || file.ends_with("sidecars.jsonl"),
            "{file}"
        );
    }
    assert_eq!(chats.traces(secrets.clone()).wait().unwrap().found, []);
    assert_eq!(chats.count(other).wait().unwrap(), SESSIONS * 20);
    say(0);
    store.close().unwrap();
    assert_eq!(found(dir.path(), &secrets), BTreeSet::new());

    let store = open(dir.path());
    let left = store.handle().list_sessions().wait().unwrap();
    assert_eq!(left, [other]);
    let count = store.handle().count(other).wait().unwrap();
    assert_eq!(count, SESSIONS * 20 + 1);
}

/// After a crash in the middle of an erasure there may be no session any more, and what it
/// left all the same.
#[test]
fn what_a_session_left_is_erased_without_the_session() {
    let dir = scratch();
    let store = open(dir.path());
    let chats = store.handle();
    live(&chats, 1);
    let key = live(&chats, 0);
    chats.delete_session(&key).wait().unwrap();
    leave_beside(dir.path(), 0);
    let receipt = chats.erase(Erase::key(key.as_str())).wait().unwrap();
    assert_eq!(receipt.sessions, [key]);
    assert!(receipt.is_complete(), "{receipt:?}");
    // The alias was the session's, and nobody knows any more.
    let mine: Vec<_> = (0..20)
        .filter(|n| ![14, 15].contains(n))
        .map(|n| secret(0, n))
        .collect();
    assert_eq!(found(dir.path(), &mine), BTreeSet::new());
    let orphan = "telegram_9.jsonl";
    store.close().unwrap();
    fs::write(
        dir.path().join(orphan),
        "{\"role\":\"user\",\"content\":\"hi\"}\n",
    )
    .unwrap();
    let twin = dir.path().join("other.meta.json");
    fs::write(&twin, r#"{"key":"telegram:9"}"#).unwrap();
    let store = open(dir.path());
    let receipt = store
        .handle()
        .erase(Erase::key("telegram:9"))
        .wait()
        .unwrap();
    // It has the key's own name; of which key it is nobody can tell.
    let left = [(orphan.to_owned(), orphan.to_owned())];
    assert_eq!(receipt.traces.found, left, "{receipt:?}");
    assert!(!twin.exists());
    let receipt = store
        .handle()
        .erase(Erase::key("telegram_9"))
        .wait()
        .unwrap();
    assert!(receipt.removed.contains(&orphan.to_owned()), "{receipt:?}");
    assert!(!dir.path().join(orphan).exists());
}

/// Group chats of older versions were one session for all of their members.
#[test]
fn a_group_is_not_erased_with_one_of_its_members() {
    let dir = scratch();
    let store = open(dir.path());
    let chats = store.handle();
    let (group, direct) = (
        "agent:main:telegram:group:-5",
        "agent:main:telegram:direct:7",
    );
    let exact = chats.exact_keys();
    for key in [group, direct, "cli"] {
        exact.add_message(key, "user", "hi").wait().unwrap();
    }
    let scope = r#"{"channel":"Telegram","dimensions":["chat","sender"],"values":{"chat":"group:-5","sender":"7"}}"#;
    let scope = RawValue::from_string(scope.into()).unwrap();
    let aliases = [group, direct, "cli", "agent:main:main"].map(String::from);
    chats
        .upsert_session_meta("sk_v1_7", Some(scope), aliases.to_vec())
        .wait()
        .unwrap();
    exact.add_message("sk_v1_7", "user", "hi").wait().unwrap();
    let receipt = chats.erase(Erase::person("7")).wait().unwrap();
    assert_eq!(receipt.sessions, [direct, "sk_v1_7"]);
    assert!(receipt.is_complete(), "{receipt:?}");
    assert_eq!(chats.list_sessions().wait().unwrap(), [group, "cli"]);
    // Whose the main alias is by chance stays.
    let aliases = vec![String::from("agent:main:main")];
    chats
        .upsert_session_meta("cli", None, aliases)
        .wait()
        .unwrap();
    let receipt = chats.erase(Erase::key("agent:main:main")).wait().unwrap();
    assert_eq!(receipt.sessions, ["agent:main:main"]);
    assert!(chats.exists("cli").wait().unwrap());
}

#[test]
fn what_others_took_once_and_what_was_set_aside_of_them_stays() {
    let dir = scratch();
    let store = open(dir.path());
    let chats = store.handle();
    let text = |id: &str| vec![Message::new("user", id)];
    for (key, id) in [("8", "7"), ("7", "1")] {
        chats.append_once(key, id, text(id)).wait().unwrap();
    }
    chats.flush().wait().unwrap();
    let aside = dir.path().join(".sessionlog/quarantine");
    let others = [
        ("a_b.meta.json", r#"{"key":"a:b"}"#),
        ("a_b.jsonl", "lines"),
        ("7.x", "\"7\""),
    ];
    for (name, bytes) in others {
        fs::write(aside.join(name), bytes).unwrap();
    }
    let receipt = chats.erase(Erase::key("7")).wait().unwrap();
    assert!(!chats.exists("7").wait().unwrap(), "{receipt:?}");
    chats.erase(Erase::key("a/b")).wait().unwrap();
    assert!(others.iter().all(|(name, _)| aside.join(name).exists()));
    drop(chats);
    store.close().unwrap();
    let store = open(dir.path());
    let again = store
        .handle()
        .append_once("8", "7", text("7"))
        .wait()
        .unwrap();
    assert!(matches!(again, sessionlog::Appended::Duplicate(_)));
}

/// What an import would bring back, and what only a name tells.
#[test]
fn older_files_of_a_person_go_and_what_cannot_be_told_is_named() {
    let dir = scratch();
    let store = open(dir.path());
    let messages = r#""messages":[{"role":"user","content":"hi"}]"#;
    let theirs = [
        (
            "direct.json",
            format!(r#"{{"key":"agent:main:telegram:direct:7",{messages}}}"#),
        ),
        (
            "7.json.migrated",
            format!(r#"{{"key":"agent:main:slack:direct:7",{messages}}}"#),
        ),
    ];
    let others = [
        (
            "8.json",
            format!(r#"{{"key":"agent:main:telegram:direct:8",{messages}}}"#),
        ),
        (
            "settings.json",
            String::from(r#"{"key":"agent:main:telegram:direct:7"}"#),
        ),
    ];
    for (name, bytes) in theirs.iter().chain(&others) {
        fs::write(dir.path().join(name), bytes).unwrap();
    }
    let receipt = store.handle().erase(Erase::person("7")).wait().unwrap();
    let removed = receipt.removed.iter();
    let removed = removed.filter(|file| !file.contains("/journal/"));
    assert_eq!(
        removed.collect::<Vec<_>>(),
        ["7.json.migrated", "direct.json"]
    );
    assert_eq!(receipt.traces.found.len(), 1, "{receipt:?}");
    let is_there = |name: &str| dir.path().join(name).exists();
    assert!(!theirs.iter().any(|(name, _)| is_there(name)));
    assert!(others.iter().all(|(name, _)| is_there(name)));
    let nameless = format!("{{{messages}}}");
    fs::write(dir.path().join("telegram_9.json.migrated"), nameless).unwrap();
    store
        .handle()
        .erase(Erase::key("telegram_9"))
        .wait()
        .unwrap();
    assert!(!is_there("telegram_9.json.migrated"));
    store.close().unwrap();
    fs::write(dir.path().join("orphan.jsonl"), "{}\n").unwrap();
    let store = open(dir.path());
    let temp = ".sessionlog/backups/repair-1/.sessionlog-0000000000000001.tmp";
    fs::create_dir_all(dir.path().join(temp).parent().unwrap()).unwrap();
    fs::write(dir.path().join(temp), "lines").unwrap();
    let receipt = store.handle().erase(Erase::person("7")).wait().unwrap();
    assert_eq!(receipt.doubtful, [temp, "orphan.jsonl"]);
    assert!(!receipt.is_complete());
}

#[test]
fn a_quote_in_another_session_is_told_and_stays() {
    let dir = scratch();
    let store = open(dir.path());
    let chats = store.handle();
    chats
        .add_message("telegram:7", "user", "hi")
        .wait()
        .unwrap();
    let quote = r#"{"role":"tool","content":"","tool_calls":[],"about":"telegram:7"}"#;
    let quote: Message = serde_json::from_str(quote).unwrap();
    chats.add_full_message("admin", quote).wait().unwrap();
    let receipt = chats.erase(Erase::key("telegram:7")).wait().unwrap();
    assert!(!receipt.is_complete());
    let found = [("admin.jsonl".to_owned(), "\"telegram:7\"".to_owned())];
    assert_eq!(receipt.traces.found, found);
    assert_eq!(chats.list_sessions().wait().unwrap(), ["admin"]);
    assert_eq!(chats.count("admin").wait().unwrap(), 1);
}

#[test]
fn a_person_and_a_chat_are_erased_with_all_their_sessions_and_nobody_elses() {
    let dir = scratch();
    let store = Store::open_with(dir.path(), StoreOptions::new()).unwrap();
    let chats = store.handle();
    let policy = SessionPolicy {
        dimensions: vec!["chat".into(), "sender".into()],
        ..SessionPolicy::default()
    };
    let say = |channel: &str, chat: (&str, &str), sender: &str| {
        let context = InboundContext {
            channel: channel.into(),
            chat_type: chat.0.into(),
            chat_id: chat.1.into(),
            sender_id: sender.into(),
            ..InboundContext::default()
        };
        let allocation = allocate_route_session("main", &context, &policy).isolated();
        let key = allocation.session_key;
        let (scope, aliases) = (allocation.scope.to_raw(), allocation.session_aliases);
        let ensured = chats.ensure_session_metadata(&key, Some(scope), aliases);
        ensured.wait().unwrap();
        chats.add_message(&key, "user", "hi").wait().unwrap();
        key
    };
    let private = say("telegram", ("direct", "7"), "7");
    let group = say("telegram", ("group", "-5"), "7");
    let others = say("telegram", ("group", "-5"), "8");
    let slack = say("slack", ("direct", "7"), "7");

    let blank = chats.erase(Erase::person(" ")).wait();
    assert!(matches!(blank, Err(Error::InvalidKey { .. })));
    let person = Erase::person(Whose::new("7").on("telegram"));
    let receipt = chats.erase(person).wait().unwrap();
    let mut erased = [private, group];
    erased.sort();
    assert_eq!(receipt.sessions, erased);
    assert!(receipt.is_complete(), "{receipt:?}");
    let receipt = chats.erase(Erase::chat("-5")).wait().unwrap();
    assert_eq!(receipt.sessions, [others]);
    assert_eq!(chats.list_sessions().wait().unwrap(), [slack]);
}

#[test]
fn a_reader_finds_traces_and_erases_nothing() {
    let dir = scratch();
    let store = open(dir.path());
    let chats = store.handle();
    chats
        .add_message("telegram:7", "user", "hunter2")
        .wait()
        .unwrap();
    let reader = Store::open_read_only(dir.path()).unwrap().handle();
    assert!(!reader.traces(["hunter2"]).wait().unwrap().is_none());
    assert!(reader.traces([""]).wait().unwrap().is_none());
    let refused = reader.erase(Erase::key("telegram:7")).wait();
    assert!(matches!(refused, Err(Error::ReadOnly)));
    store.close().unwrap();
    assert!(matches!(
        chats.erase(Erase::key("telegram:7")).wait(),
        Err(Error::Closed)
    ));
    assert!(matches!(chats.traces(["x"]).wait(), Err(Error::Closed)));
}

/// Records of others go on being committed while the journal is replaced.
#[test]
fn an_erasure_beside_writers_loses_nothing_of_theirs() {
    let dir = scratch();
    let store = Store::open_with(dir.path(), small_segments()).unwrap();
    let chats = store.handle();
    let secrets: Vec<_> = (0..8).map(|n| secret(n, 0)).collect();
    std::thread::scope(|scope| {
        for writer in 0..3 {
            let chats = &chats;
            scope.spawn(move || {
                for n in 0..300 {
                    let text = format!("{n} {}", "y".repeat(500));
                    chats
                        .add_message(&format!("w{writer}"), "user", &text)
                        .wait()
                        .unwrap();
                }
            });
        }
        for one in &secrets {
            chats.add_message(one, "user", one).wait().unwrap();
            let receipt = chats.erase(Erase::key(one.as_str())).wait().unwrap();
            assert!(receipt.is_complete(), "{receipt:?}");
        }
    });
    assert_eq!(found(dir.path(), &secrets), BTreeSet::new());
    drop((chats, store));
    let store = open(dir.path());
    for writer in 0..3 {
        let count = store.handle().count(&format!("w{writer}")).wait().unwrap();
        assert_eq!(count, 300);
    }
}

/// An erasure that is cut short leaves each session that is there with the ids of its
/// messages: without, a message that is delivered again is there twice.
#[test]
fn an_erasure_cut_short_leaves_no_session_without_the_ids_of_its_messages() {
    let furnished = || {
        let disk = MemoryStorage::new();
        // Another session had the name of the second one's files once.
        let theirs = "{\"key\":\"person:7\",\"id\":\"old\"}\n";
        disk.write_foreign(
            in_memory(".sessionlog/once/other.ids.jsonl"),
            theirs.as_bytes(),
        )
        .unwrap();
        let store = open_memory(&disk).unwrap();
        let chats = store.handle();
        for key in ["person:7", "other"] {
            let text = vec![Message::user("hi")];
            chats.append_once(key, "update-1", text).wait().unwrap();
        }
        chats.flush().wait().unwrap();
        (disk, store)
    };
    let erase = |store: &Store| store.handle().erase(Erase::key("person:7")).wait();
    let (disk, store) = furnished();
    let begin = disk.steps();
    let receipt = erase(&store).unwrap();
    assert!(receipt.is_complete(), "{receipt:?}");
    let end = disk.steps();
    drop(store);
    let mut living = 0;
    for step in begin..end {
        let (disk, store) = furnished();
        let at = disk.steps() + step - begin;
        disk.crash_at(at);
        let _ = erase(&store);
        drop(store);
        for image in [Image::ProcessDeath, Image::AllLost, Image::Random(step)] {
            let disk = disk.image(image);
            let store = open_memory(&disk).unwrap();
            let chats = store.handle();
            for key in ["person:7", "other"] {
                let count = chats.count(key).wait().unwrap();
                let text = vec![Message::user("hi")];
                let again = chats.append_once(key, "update-1", text).wait().unwrap();
                let is_known = matches!(again, Appended::Duplicate(_));
                assert_eq!(
                    is_known,
                    count == 1,
                    "{key} at {step} of {begin}..{end}, {image:?}"
                );
                living += usize::from(key == "person:7" && is_known);
            }
        }
    }
    assert!(living > 10, "{living}");
}

#[test]
fn a_key_that_has_the_id_and_says_no_more_is_told_and_not_erased() {
    let dir = scratch();
    let store = open(dir.path());
    let chats = store.handle();
    let own = "agent:main:telegram:direct:70001";
    for key in ["telegram:70001", own, "telegram:7"] {
        add_numbers(&chats, key, 0..1);
    }
    let receipt = chats.erase(Erase::person("70001")).wait().unwrap();
    assert_eq!(receipt.sessions, [own]);
    assert_eq!(receipt.doubtful, ["telegram_70001.jsonl"]);
    assert!(!receipt.is_complete());
    let receipt = chats.erase(Erase::key("telegram:70001")).wait().unwrap();
    assert!(receipt.is_complete(), "{receipt:?}");
}
