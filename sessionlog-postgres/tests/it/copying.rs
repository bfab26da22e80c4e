//! Moving between directories and databases.

use sessionlog::{BackupReason, Error, Format, Message, Store, StoreHandle, StoreOptions};
use sessionlog_postgres::copy::{Place, copy, follow};
use sessionlog_postgres::{PostgresOptions, PostgresStore};

use crate::faults::Holder;
use crate::support::{fresh, scratch, server, store, texts};

fn block_on<T>(work: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(work)
}

fn fill(chats: &StoreHandle) {
    let odd = br#"{"role":"user","content":"<&>\u2028","n":1.10,"e":1e2,"mood":{"a":[]}}"#;
    chats
        .add_full_message("a:1", Message::from_json(odd).unwrap())
        .wait()
        .unwrap();
    let context = chats.context("a:1");
    context.write_system_prompt("Be brief. é").wait().unwrap();
    context.checkpoint(true).wait().unwrap();
    for n in 0..5 {
        chats
            .add_message("a:1", "user", &n.to_string())
            .wait()
            .unwrap();
    }
    context.update_token_count(77).wait().unwrap();
    context.checkpoint(false).wait().unwrap();
    chats.truncate_history("a:1", 2).wait().unwrap();
    chats.set_summary("a:1", "nul \0 and more").wait().unwrap();
    chats
        .ensure_session_metadata("sk_1", None, vec!["b:1".into(), "b:\0".into()])
        .wait()
        .unwrap();
    chats
        .add_message("b:1", "user", "under an alias")
        .wait()
        .unwrap();
    chats.set_history("empty", Vec::new()).wait().unwrap();
}

#[test]
fn what_others_keep_is_taken_in_whole_or_not_at_all_and_handed_over_again() {
    let Some(chats) = store() else { return };
    let lines = "{\"role\":\"user\",\"content\":\"a\",\"n\":1.10}\n{\"role\":\"assistant\",\"content\":\"b\"}\n";
    assert_eq!(chats.import("in", Format::Jsonl, lines).wait().unwrap(), 2);
    assert_eq!(texts(&chats, "in"), ["a", "b"]);
    let text = chats.export("in", Format::Jsonl).wait().unwrap();
    assert!(
        text.contains("\"n\":1.10") && text.lines().count() == 2,
        "{text}"
    );
    let torn = format!("{lines}{{\"role\"");
    let refused = chats.import("in", Format::Jsonl, &torn).wait();
    assert!(
        matches!(refused, Err(Error::InvalidMessage { .. })),
        "{refused:?}"
    );
    assert_eq!(texts(&chats, "in"), ["a", "b"]);
    let openai = chats.export("in", Format::OpenAi).wait().unwrap();
    assert_eq!(
        chats.import("out", Format::OpenAi, &openai).wait().unwrap(),
        2
    );
    assert_eq!(texts(&chats, "out"), ["a", "b"]);
}

#[test]
fn a_store_goes_to_a_database_and_back_with_all_its_bytes_and_is_not_copied_twice() {
    let Some(database) = store() else { return };
    let (from, to) = (scratch(), scratch());
    let options = || StoreOptions::new().auto_compact(false);
    let source = Store::open_with(from.path(), options()).unwrap();
    fill(&source.handle());
    let (here, there) = (
        Place::Directory(source.handle()),
        Place::Database(database.clone()),
    );
    let first = block_on(copy(&here, &there)).unwrap();
    assert_eq!(
        (first.sessions, first.written, first.others.len()),
        (3, 3, 0)
    );
    let again = block_on(copy(&here, &there)).unwrap();
    assert_eq!((again.written, &again.hash), (0, &first.hash));

    let formats = [Format::Markdown, Format::OpenAi, Format::Anthropic];
    for (key, format) in ["a:1", "b:1", "nobody"]
        .into_iter()
        .flat_map(|key| formats.map(|format| (key, format)))
    {
        let text = source.handle().export(key, format).wait().unwrap();
        assert_eq!(database.export(key, format).wait().unwrap(), text);
        assert_eq!(text.contains("Be brief. é"), key == "a:1");
    }
    assert_eq!(database.context("a:1").token_count().wait().unwrap(), 77);
    assert_eq!(database.context("a:1").n_checkpoints().wait().unwrap(), 2);
    assert_eq!(texts(&database, "b:1"), ["under an alias"]);

    let back = Store::open_with(to.path(), options()).unwrap();
    let home = Place::Directory(back.handle());
    let returned = block_on(copy(&there, &home)).unwrap();
    assert_eq!((returned.written, &returned.hash), (3, &first.hash));
    for key in ["a:1", "sk_1", "empty"] {
        let (one, other) = (source.handle(), back.handle());
        assert_eq!(
            one.history(key).wait().unwrap(),
            other.history(key).wait().unwrap()
        );
        assert_eq!(
            one.summary(key).wait().unwrap(),
            other.summary(key).wait().unwrap()
        );
        let (one, other) = (one.context(key), other.context(key));
        assert_eq!(
            one.system_prompt().wait().unwrap(),
            other.system_prompt().wait().unwrap()
        );
        assert_eq!(
            one.n_checkpoints().wait().unwrap(),
            other.n_checkpoints().wait().unwrap()
        );
    }
    // What differs is replaced, what is besides is told and left.
    database
        .add_message("a:1", "user", "foreign")
        .wait()
        .unwrap();
    database.add_message("besides", "user", "x").wait().unwrap();
    let third = block_on(copy(&here, &there)).unwrap();
    assert_eq!(
        (third.written, third.others),
        (1, vec!["besides".to_owned()])
    );
    // What only the copy had is not lost.
    let backups = database.list_backups("a:1").wait().unwrap();
    let kept: Vec<_> = backups.iter().map(|backup| backup.reason).collect();
    assert_eq!(kept, [BackupReason::Import]);
    database.restore_backup("a:1", 1).wait().unwrap();
    assert_eq!(texts(&database, "a:1").last().unwrap(), "foreign");
    let chats = back.handle();
    chats
        .add_message("sk_1", "user", "here only")
        .wait()
        .unwrap();
    block_on(copy(&there, &home)).unwrap();
    // And a copy of what the source added since leaves the backup alone, and makes none.
    let kept = chats.list_backups("sk_1").wait().unwrap();
    assert_eq!(kept.len(), 1);
    database.add_message("sk_1", "user", "more").wait().unwrap();
    block_on(copy(&there, &home)).unwrap();
    assert_eq!(chats.list_backups("sk_1").wait().unwrap(), kept);
    assert_eq!(chats.tail("sk_1", 1).wait().unwrap()[0].text(), "more");
    chats.restore_backup("sk_1", kept[0].number).wait().unwrap();
    let newest = chats.tail("sk_1", 1).wait().unwrap();
    assert_eq!(newest[0].text(), "here only");
    source.close().unwrap();
    back.close().unwrap();
}

/// Whether something was copied yet.
fn has_any(place: &Place) -> bool {
    let keys = match place {
        Place::Directory(chats) => chats.list_sessions().wait(),
        Place::Database(store) => store.list_sessions().wait(),
    };
    !keys.unwrap().is_empty()
}

/// Writes beside a copy until it is switched; the copy has all of it.
fn lives(
    from: &Place,
    to: &Place,
    write: impl Fn(usize) + Sync,
) -> sessionlog_postgres::copy::CopyReport {
    std::thread::scope(|scope| {
        let (switch, switched) = tokio::sync::oneshot::channel::<()>();
        scope.spawn(|| {
            // Some of it before the copy begins, and most beside it.
            let mut beside = 0;
            for n in 0.. {
                write(n);
                beside += usize::from(has_any(to));
                if beside == 60 {
                    break;
                }
            }
            switch.send(()).unwrap();
        });
        block_on(follow(from, to, async {
            switched.await.unwrap();
        }))
        .unwrap()
    })
}

fn churn(store: &PostgresStore, n: usize) {
    let key = format!("k:{}", n % 4);
    store
        .add_message(&key, "user", &n.to_string())
        .wait()
        .unwrap();
    match n % 9 {
        4 => store.truncate_history(&key, 3).wait().unwrap(),
        6 => store.set_title(&key, &n.to_string()).wait().unwrap(),
        7 => store.set_summary(&key, &n.to_string()).wait().unwrap(),
        8 => store.delete_session("k:2").wait().unwrap(),
        _ => {}
    }
}

#[test]
fn a_live_copy_has_everything_when_it_is_switched_either_way() {
    let Some(database) = store() else { return };
    let dir = scratch();
    let files = Store::open(dir.path()).unwrap();
    let chats = files.handle();
    let (here, there) = (
        Place::Directory(chats.clone()),
        Place::Database(database.clone()),
    );
    let out = lives(&here, &there, |n| {
        let key = format!("k:{}", n % 4);
        chats
            .add_message(&key, "user", &n.to_string())
            .wait()
            .unwrap();
        if n % 40 == 39 {
            chats.truncate_history(&key, 3).wait().unwrap();
        }
        if n % 5 == 3 {
            chats.set_title(&key, &n.to_string()).wait().unwrap();
        }
    });
    assert_eq!((out.sessions, out.others.len()), (4, 0));
    for key in chats.list_sessions().wait().unwrap() {
        assert_eq!(
            database.history(&key).wait().unwrap(),
            chats.history(&key).wait().unwrap()
        );
        let tags = database.session_meta(&key).wait().unwrap().tags;
        assert_eq!(tags, chats.session_meta(&key).wait().unwrap().tags);
        assert!(!tags.title.is_empty());
    }
    // A copy that keeps up makes no backup of what the source took back.
    assert!(database.list_backups("k:3").wait().unwrap().is_empty());
    let back = lives(&there, &here, |n| churn(&database, n));
    assert_eq!(back.others.len(), 0);
    for key in database.list_sessions().wait().unwrap() {
        assert_eq!(
            database.history(&key).wait().unwrap(),
            chats.history(&key).wait().unwrap()
        );
        assert_eq!(
            database.summary(&key).wait().unwrap(),
            chats.summary(&key).wait().unwrap()
        );
        let tags = database.session_meta(&key).wait().unwrap().tags;
        assert_eq!(tags, chats.session_meta(&key).wait().unwrap().tags);
    }
    files.close().unwrap();
}

/// What a session has besides its lines, as it is compared: times, and backups without numbers.
fn besides(meta: &sessionlog::SessionMeta, backups: &[sessionlog::Backup]) -> Vec<String> {
    let backups = backups
        .iter()
        .map(|one| format!("{} {:?} {}", one.created_at, one.reason, one.size));
    [meta.created_at.clone(), meta.updated_at.clone()]
        .into_iter()
        .chain(backups)
        .collect()
}

#[test]
fn ids_times_and_backups_go_along_and_what_cannot_is_told() {
    let Some(server) = server() else { return };
    let options = PostgresOptions::new(server.dsn()).schema(fresh("besides"));
    let database = PostgresStore::open(options.clone()).unwrap();
    let (from, to) = (scratch(), scratch());
    let archiving = || StoreOptions::new().archive(true);
    let source = Store::open_with(from.path(), archiving()).unwrap();
    let chats = source.handle();
    let once = |id: usize| {
        let id = format!("update {id}");
        let told = chats
            .append_once("a", &id, Message::user(&*id))
            .wait()
            .unwrap();
        assert!(matches!(told, sessionlog::Appended::New(_)));
    };
    (0..300).for_each(once);
    chats.truncate_history("a", 250).wait().unwrap();
    chats.context("a").clear().wait().unwrap();
    (300..310).for_each(once);
    let checkpoint = chats.context("a").checkpoint(false).wait().unwrap();
    (310..320).for_each(once);
    chats.context("a").revert_to(checkpoint).wait().unwrap();
    chats.add_message("b", "user", "dropped").wait().unwrap();
    chats.truncate_history("b", 0).wait().unwrap();
    chats.compact("b").wait().unwrap();
    chats.add_message("b", "user", "stays").wait().unwrap();
    let there = Place::Database(database.clone());
    let out = block_on(copy(&Place::Directory(chats.clone()), &there)).unwrap();
    assert_eq!(out.failed.len(), 0, "{:?}", out.failed);
    assert_eq!((out.backups, out.message_ids), (2, 256));
    for words in ["of 1 session: the archive", "the oldest ids"] {
        let is_told = out.left.iter().any(|left| left.contains(words));
        assert!(is_told, "{:?}", out.left);
    }
    let meta = chats.session_meta("a").wait().unwrap();
    let was = besides(&meta, &chats.list_backups("a").wait().unwrap());
    let is = || {
        let meta = database.session_meta("a").wait().unwrap();
        besides(&meta, &database.list_backups("a").wait().unwrap())
    };
    assert_eq!(is(), was);
    let page = database
        .sessions(sessionlog::SessionQuery::new())
        .wait()
        .unwrap();
    assert_eq!(page.sessions[0].updated_at, meta.updated_at);
    let again = block_on(copy(&Place::Directory(chats.clone()), &there)).unwrap();
    assert_eq!(
        (again.written, again.backups, &again.hash),
        (0, 0, &out.hash)
    );

    // And back again.
    let back = Store::open(to.path()).unwrap();
    let home = Place::Directory(back.handle());
    let returned = block_on(copy(&there, &home)).unwrap();
    assert_eq!(
        (returned.written, returned.backups, &returned.hash),
        (2, 2, &out.hash)
    );
    let own = back.handle();
    let meta = own.session_meta("a").wait().unwrap();
    assert_eq!(besides(&meta, &own.list_backups("a").wait().unwrap()), was);
    assert_eq!(block_on(copy(&there, &home)).unwrap().written, 0);
    back.close().unwrap();
    let back = Store::open(to.path()).unwrap();
    let own = back.handle();
    // A message that is delivered again to either copy is not taken twice.
    for id in 64..320 {
        let id = format!("update {id}");
        let told = database.append_once("a", &id, vec![Message::user("again")]);
        assert!(
            matches!(told.wait().unwrap(), sessionlog::Appended::Duplicate(_)),
            "{id}"
        );
        let told = own
            .append_once("a", &id, Message::user("again"))
            .wait()
            .unwrap();
        assert!(matches!(told, sessionlog::Appended::Duplicate(_)), "{id}");
    }
    for number in [1, 2] {
        chats.restore_backup("a", number).wait().unwrap();
        let history = chats.history("a").wait().unwrap();
        database.restore_backup("a", number).wait().unwrap();
        assert_eq!(database.history("a").wait().unwrap(), history);
        own.restore_backup("a", number).wait().unwrap();
        assert_eq!(own.history("a").wait().unwrap(), history);
    }
    source.close().unwrap();
    back.close().unwrap();
    // A directory that is only read says neither, and the copy says that.
    let only = Store::open_read_only(from.path()).unwrap();
    let other = PostgresStore::open(options.schema(fresh("besides"))).unwrap();
    let (here, there) = (
        Place::Directory(only.handle()),
        Place::Database(other.clone()),
    );
    let read = block_on(copy(&here, &there)).unwrap();
    assert_eq!((read.sessions, read.failed.len(), read.backups), (2, 0, 0));
    assert!(read.left[0].contains("for reading only"), "{:?}", read.left);
    let history = only.handle().history("a").wait().unwrap();
    assert_eq!(other.history("a").wait().unwrap(), history);
}

#[test]
fn a_live_copy_reads_after_the_switch_only_what_came_last() {
    let Some(server) = server() else { return };
    let schema = fresh("gap");
    let options = PostgresOptions::new(server.dsn()).schema(&schema);
    let source = PostgresStore::open(options).unwrap();
    let many = std::env::var("SESSIONLOG_LONG").map_or(300, |_| 20_000);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    runtime.block_on(async {
        let said = (0..many).map(|n| {
            let (source, key) = (source.clone(), format!("k:{n}"));
            async move { source.add_message(&key, "user", "0").await.unwrap() }
        });
        futures_util::future::join_all(said).await;
    });
    let dir = scratch();
    let copied = Store::open(dir.path()).unwrap();
    let (here, there) = (
        Place::Database(source.clone()),
        Place::Directory(copied.handle()),
    );
    let looks = || {
        let sql = format!(
            "SELECT coalesce(sum(idx_scan), 0) FROM pg_stat_all_indexes
             WHERE schemaname = '{schema}' AND indexrelname = 'lines_pkey'"
        );
        server.sql(&sql).parse::<usize>().unwrap()
    };
    let report = std::thread::scope(|scope| {
        let (switch, switched) = tokio::sync::oneshot::channel::<()>();
        let (source, target) = (&source, copied.handle());
        scope.spawn(move || {
            while target.list_sessions().wait().unwrap().len() < many {
                std::thread::sleep(std::time::Duration::from_millis(5));
            }
            for n in 1..20 {
                source
                    .add_message("k:7", "user", &n.to_string())
                    .wait()
                    .unwrap();
            }
            switch.send(()).unwrap();
        });
        block_on(follow(&here, &there, async { switched.await.unwrap() })).unwrap()
    });
    println!("{many} sessions, gap {:?}", report.gap);
    assert_eq!((report.sessions, report.failed.len()), (many, 0));
    assert!(report.gap.is_some());
    assert_eq!(texts(&source, "k:7").len(), 20);
    assert_eq!(copied.handle().count("k:7").wait().unwrap(), 20);
    // What connections did is told when they end: each session was read once, and a few again.
    source.close().wait().unwrap();
    let gone = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'sessionlog'
        AND query LIKE '%";
    while server.sql(&format!("{gone}{schema}%'")) != "0" {
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    assert!(
        looks() < many + many / 2 + 100,
        "{} looks at lines",
        looks()
    );
    copied.close().unwrap();
}

#[test]
fn a_session_that_fails_is_named_and_the_others_are_copied() {
    let Some(server) = server() else { return };
    let schema = fresh("fails");
    let short = std::time::Duration::from_millis(300);
    let options = PostgresOptions::new(server.dsn())
        .schema(&schema)
        .statement_timeout(short)
        .bulk_timeout(short)
        .retry(short);
    let database = PostgresStore::open(options).unwrap();
    let dir = scratch();
    let source = Store::open(dir.path()).unwrap();
    let chats = source.handle();
    let (here, there) = (
        Place::Directory(chats.clone()),
        Place::Database(database.clone()),
    );
    for text in ["0", "1"] {
        for key in ["a", "b", "c"] {
            chats.add_message(key, "user", text).wait().unwrap();
        }
        if text == "0" {
            assert_eq!(block_on(copy(&here, &there)).unwrap().written, 3);
        }
    }
    let row = format!("UPDATE {schema}.sessions SET lines = lines WHERE key = 'b'");
    let holder = Holder::of(server, &row);
    let report = block_on(copy(&here, &there)).unwrap();
    holder.release(server);
    let failed: Vec<_> = report.failed.iter().map(|(key, _)| key.as_str()).collect();
    assert_eq!((report.written, failed), (2, vec!["b"]));
    assert_eq!(texts(&database, "c"), ["0", "1"]);
    let again = block_on(copy(&here, &there)).unwrap();
    assert_eq!((again.written, again.failed.len()), (1, 0));
    source.close().unwrap();
}

#[test]
fn sessions_that_fail_for_good_do_not_end_a_copy_when_another_one_is_busy() {
    let Some(server) = server() else { return };
    let schema = fresh("fails");
    let short = std::time::Duration::from_millis(300);
    let options = PostgresOptions::new(server.dsn())
        .schema(&schema)
        .statement_timeout(short)
        .bulk_timeout(short)
        .retry(short);
    let database = PostgresStore::open(options).unwrap();
    let dir = scratch();
    let source = Store::open(dir.path()).unwrap();
    let chats = source.handle();
    let (here, there) = (
        Place::Directory(chats.clone()),
        Place::Database(database.clone()),
    );
    for text in ["0", "1"] {
        for key in ["a", "b", "c"] {
            chats.add_message(key, "user", text).wait().unwrap();
        }
        if text == "0" {
            assert_eq!(block_on(copy(&here, &there)).unwrap().written, 3);
        }
    }
    server.sql(&format!(
        "CREATE FUNCTION {schema}.refuse() RETURNS trigger LANGUAGE plpgsql AS
             $$ BEGIN RAISE EXCEPTION 'refused'; END $$;
         CREATE TRIGGER refuses BEFORE UPDATE ON {schema}.sessions FOR EACH ROW
             WHEN (OLD.key <> 'c') EXECUTE FUNCTION {schema}.refuse()"
    ));
    let row = format!("UPDATE {schema}.sessions SET lines = lines WHERE key = 'c'");
    let holder = Holder::of(server, &row);
    let report = block_on(copy(&here, &there));
    holder.release(server);
    let failed = report.unwrap().failed;
    let told: Vec<_> = failed
        .iter()
        .map(|(key, why)| (key.as_str(), why.is_retryable()))
        .collect();
    assert_eq!(told, [("a", false), ("b", false), ("c", true)]);
    source.close().unwrap();
}

#[test]
fn the_gap_of_a_live_copy_begins_with_the_switch_whatever_is_copied_then() {
    let Some(server) = server() else { return };
    let schema = fresh("gap");
    let options = PostgresOptions::new(server.dsn()).schema(&schema);
    let database = PostgresStore::open(options).unwrap();
    let dir = scratch();
    let source = Store::open(dir.path()).unwrap();
    let chats = source.handle();
    let (here, there) = (
        Place::Directory(chats.clone()),
        Place::Database(database.clone()),
    );
    chats.add_message("a", "user", "0").wait().unwrap();
    block_on(copy(&here, &there)).unwrap();
    chats.add_message("a", "user", "1").wait().unwrap();
    let row = format!("UPDATE {schema}.sessions SET lines = lines WHERE key = 'a'");
    let holder = Holder::of(server, &row);
    let held = std::time::Duration::from_millis(700);
    let report = std::thread::scope(|scope| {
        scope.spawn(|| {
            let waits = format!(
                "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'
                 AND query LIKE '%{schema}%'"
            );
            while server.sql(&waits) == "0" {
                std::thread::sleep(std::time::Duration::from_millis(5));
            }
            std::thread::sleep(held);
            holder.release(server);
        });
        // The switch comes before the first round ends.
        block_on(follow(&here, &there, std::future::ready(()))).unwrap()
    });
    assert!(report.gap.unwrap() >= held, "{:?}", report.gap);
    assert_eq!(texts(&database, "a"), ["0", "1"]);
    source.close().unwrap();
}

#[test]
fn a_transcript_brings_its_summary_and_its_dates_as_into_a_directory() {
    let Some(database) = store() else { return };
    let dir = scratch();
    let files = Store::open(dir.path()).unwrap();
    let chats = files.handle();
    let read = |text: &str| sessionlog::Transcript::read(text, None).unwrap();
    let message = |text: &str, at: &str| {
        format!("{{\"role\":\"user\",\"content\":\"{text}\",\"created_at\":\"{at}\"}}\n")
    };
    let (first, second) = ("2024-03-01T09:00:00Z", "2024-03-02T09:00:00Z");
    let (earlier, later) = (message("a", first), message("b", second));
    // In both orders, into a session that is younger, and into one with a summary alone.
    for (key, texts) in [("up", [&later, &earlier]), ("down", [&earlier, &later])] {
        for text in texts {
            let import = database.import(key, Format::Jsonl, text);
            assert_eq!(import.wait().unwrap(), 1);
            chats.import(key, Format::Jsonl, text).wait().unwrap();
        }
        assert_eq!(database.session_meta(key).wait().unwrap().created_at, first);
    }
    let mut summed = read(&earlier);
    summed.summary = String::from("of then");
    summed.title = Some(String::from(" of a talk "));
    database.set_summary("summed", "before").wait().unwrap();
    database
        .import_transcript("summed", summed.clone())
        .wait()
        .unwrap();
    chats.set_summary("summed", "before").wait().unwrap();
    chats.import_transcript("summed", summed).wait().unwrap();
    for key in ["up", "down", "summed"] {
        let (is, should) = (
            database.session_meta(key).wait().unwrap(),
            chats.session_meta(key).wait().unwrap(),
        );
        assert_eq!(
            (is.created_at, is.updated_at, is.summary, is.tags),
            (
                should.created_at,
                should.updated_at,
                should.summary,
                should.tags
            ),
            "{key}"
        );
    }
    let title = |key: &str| database.session_meta(key).wait().unwrap().tags.title;
    assert_eq!(title("summed"), "of a talk");
    let mut other = read(&later);
    other.title = Some(String::from("of another"));
    database.import_transcript("summed", other).wait().unwrap();
    assert_eq!(title("summed"), "of a talk");
    // What is young stays so.
    database.add_message("young", "user", "0").wait().unwrap();
    let young = database.session_meta("young").wait().unwrap().updated_at;
    database
        .import("young", Format::Jsonl, &earlier)
        .wait()
        .unwrap();
    let meta = database.session_meta("young").wait().unwrap();
    assert_eq!((&*meta.created_at, meta.updated_at), (first, young));
    files.close().unwrap();
}

#[test]
fn a_session_of_very_many_lines_goes_there_and_back() {
    let Some(server) = server() else { return };
    let lines = std::env::var("SESSIONLOG_LONG").map_or(60_000, |_| 1_000_000);
    let options = PostgresOptions::new(server.dsn()).schema(fresh("many"));
    let options = options.statement_timeout(std::time::Duration::from_secs(5));
    let database = PostgresStore::open(options).unwrap();
    let (from, to) = (scratch(), scratch());
    let source = Store::open(from.path()).unwrap();
    let back = Store::open(to.path()).unwrap();
    for part in 0..lines / 10_000 {
        let said = (0..10_000).map(|n| Message::user(format!("{part} {n}")));
        source
            .handle()
            .append_all("a", said.collect())
            .wait()
            .unwrap();
    }
    let there = Place::Database(database.clone());
    let out = block_on(copy(&Place::Directory(source.handle()), &there)).unwrap();
    assert_eq!((out.lines, out.failed.len()), (lines, 0));
    assert_eq!(database.count("a").wait().unwrap(), lines);
    // What takes all of them away keeps them, and they come back.
    database.context("a").clear().wait().unwrap();
    database.restore_backup("a", 1).wait().unwrap();
    let home = block_on(copy(&there, &Place::Directory(back.handle()))).unwrap();
    assert_eq!((home.lines, home.hash), (lines, out.hash));
    source.close().unwrap();
    back.close().unwrap();
}

/// What of a session's tags goes along: what other programs added, too.
fn tags_of(chats: &StoreHandle, key: &str) -> (String, Vec<String>, bool, Option<String>) {
    let tags = chats.session_meta(key).wait().unwrap().tags;
    let mood = tags.unknown_field("mood").map(str::to_owned);
    (tags.title, tags.labels, tags.pinned, mood)
}

#[test]
fn titles_labels_pins_and_fields_of_others_go_there_and_back_and_alone() {
    let Some(database) = store() else { return };
    let (from, to) = (scratch(), scratch());
    let sidecar = r#"{"key":"a","title":"Oslo","labels":["x","nul \u0000"],"pinned":true,"mood":{"n":1.50},"count":1}"#;
    std::fs::write(from.path().join("a.meta.json"), sidecar).unwrap();
    let line = "{\"role\":\"user\",\"content\":\"hi\"}\n";
    std::fs::write(from.path().join("a.jsonl"), line).unwrap();
    let source = Store::open(from.path()).unwrap();
    let chats = source.handle();
    chats.set_title("only named", "N").wait().unwrap();
    let (here, there) = (
        Place::Directory(chats.clone()),
        Place::Database(database.clone()),
    );
    let out = block_on(copy(&here, &there)).unwrap();
    assert_eq!((out.sessions, out.failed.len(), out.left.len()), (2, 0, 0));
    let page = database
        .sessions(sessionlog::SessionQuery::new().label("nul \0").pinned())
        .wait()
        .unwrap();
    assert_eq!(
        (&*page.sessions[0].key, &*page.sessions[0].title),
        ("a", "Oslo")
    );
    assert_eq!(block_on(copy(&here, &there)).unwrap().written, 0);

    let back = Store::open(to.path()).unwrap();
    let (own, home) = (back.handle(), Place::Directory(back.handle()));
    let returned = block_on(copy(&there, &home)).unwrap();
    assert_eq!((returned.written, &returned.hash), (2, &out.hash));
    let whole = tags_of(&chats, "a");
    assert_eq!(whole.3.as_deref(), Some(r#"{"n":1.50}"#));
    assert_eq!(tags_of(&own, "a"), whole);
    assert_eq!(tags_of(&own, "only named").0, "N");
    assert_eq!(block_on(copy(&there, &home)).unwrap().written, 0);

    // A title that changes goes alone: neither copy keeps a backup for it, and dates are the
    // source's.
    chats.set_title("a", "Bergen").wait().unwrap();
    assert_eq!(block_on(copy(&here, &there)).unwrap().written, 1);
    let changed = block_on(copy(&there, &home)).unwrap();
    assert_eq!((changed.written, changed.backups), (1, 0));
    assert_eq!(tags_of(&own, "a").0, "Bergen");
    assert_eq!(tags_of(&own, "a").3, whole.3);
    let updated = |chats: &StoreHandle| chats.session_meta("a").wait().unwrap().updated_at;
    assert_eq!(updated(&own), updated(&chats));
    // And so does one that is taken away, with lines that were added.
    let none = sessionlog::Update::new()
        .title("")
        .append(Message::user("more"));
    database.update("a", none).wait().unwrap();
    block_on(copy(&there, &home)).unwrap();
    assert_eq!(tags_of(&own, "a").0, "");
    assert_eq!(own.count("a").wait().unwrap(), 2);
    assert!(own.list_backups("a").wait().unwrap().is_empty());
    back.close().unwrap();
    let back = Store::open(to.path()).unwrap();
    assert_eq!(tags_of(&back.handle(), "a").1, whole.1);
    assert_eq!(tags_of(&back.handle(), "a").3, whole.3);
    back.close().unwrap();
    source.close().unwrap();
}
