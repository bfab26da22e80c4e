//! Sessions that get another key, and histories that are put together, while others write.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use sessionlog::{
    Appended, ChangeFilter, ChangeKind, Error, Keep, Merged, Message, SessionMeta, Update,
};
use sessionlog_postgres::{PostgresOptions, PostgresStore};

use crate::support::crew::Crew;
use crate::support::load::assert_kept;
use crate::support::proxy::Proxy;
use crate::support::{fresh, numbers, options, said, server, store, texts};

const OLD: &str = "telegram:-123";
const NEW: &str = "telegram:-100123";

fn add(store: &PostgresStore, key: &str, range: std::ops::Range<usize>) {
    for text in numbers(range) {
        store.add_message(key, "user", &text).wait().unwrap();
    }
}

fn is_known(store: &PostgresStore, key: &str, id: &str) -> bool {
    let taken = store.append_once(key, id, Message::user(id)).wait();
    matches!(taken.unwrap(), Appended::Duplicate(_))
}

fn meta(store: &PostgresStore, key: &str) -> SessionMeta {
    store.session_meta(key).wait().unwrap()
}

/// A session with everything that one can have: messages `first + 5` to `first + 7`, hidden lines,
/// a backup, an id, control records.
fn full(store: &PostgresStore, key: &str, first: usize) {
    add(store, key, first..first + 2);
    let (id, once) = (format!("{first}-a"), (first + 2).to_string());
    let taken = store.append_once(key, &id, Message::user(once));
    assert!(matches!(taken.wait().unwrap(), Appended::New(_)));
    store.context(key).clear().wait().unwrap();
    let context = store.context(key);
    context.checkpoint(false).wait().unwrap();
    context
        .write_system_prompt(&format!("of {first}"))
        .wait()
        .unwrap();
    add(store, key, first + 3..first + 6);
    store.truncate_history(key, 2).wait().unwrap();
    add(store, key, first + 6..first + 7);
    context.checkpoint(false).wait().unwrap();
    let tokens = i64::try_from(first + 1).unwrap();
    context.update_token_count(tokens).wait().unwrap();
    add(store, key, first + 7..first + 8);
    store.truncate_history(key, 3).wait().unwrap();
    let update = Update::new().summary(format!("of {first}"));
    let update = update.labels([format!("label {first}"), "both".into()]);
    store.update(key, update).wait().unwrap();
    assert!(meta(store, key).skip > 0);
}

/// Stores whose lines are in one table, and in several.
fn layouts() -> Vec<(PostgresStore, String)> {
    let Some(server) = server() else {
        return Vec::new();
    };
    let layouts = [None, Some(4)].map(|parts| {
        let schema = fresh("moved");
        let options = PostgresOptions::new(server.dsn()).schema(&schema);
        let options = match parts {
            Some(parts) => options.partitions(parts),
            None => options,
        };
        (PostgresStore::open(options).unwrap(), schema)
    });
    layouts.into()
}

/// Rows that no session has.
fn strays(schema: &str) -> String {
    let tables = [
        "lines",
        "session_aliases",
        "session_summaries",
        "session_tags",
        "message_ids",
        "backup_lines",
        "backups",
    ];
    let counts = tables.map(|table| {
        format!(
            "(SELECT count(*) FROM {schema}.{table} WHERE session_id NOT IN
                 (SELECT session_id FROM {schema}.sessions))"
        )
    });
    server()
        .unwrap()
        .sql(&format!("SELECT {}", counts.join(" + ")))
}

#[test]
fn a_renamed_session_goes_on_with_all_there_is_of_it() {
    for (store, schema) in layouts() {
        // To a key that nobody has, and to one of which only is known whose it is.
        for (old, new) in [(OLD, NEW), ("telegram:-7", "telegram:-1007")] {
            full(&store, old, 0);
            store.set_title(old, "trip").wait().unwrap();
            store.set_pinned(old, true).wait().unwrap();
            let is_bare = new == NEW;
            let of_old = format!("of:{old}");
            store
                .upsert_session_meta(old, None, vec![of_old.clone()])
                .wait()
                .unwrap();
            server().unwrap().sql(&format!(
                "UPDATE {schema}.session_tags SET tags = '{{\"theirs\":[1,2],' || substr(tags, 2)
                 WHERE session_id = (SELECT session_id FROM {schema}.sessions WHERE key = '{old}')"
            ));
            if !is_bare {
                let aliases = vec!["own:7".to_owned()];
                let known = store.upsert_session_meta(new, None, aliases);
                known.wait().unwrap();
            }
            let before = meta(&store, old);
            let seen = store.snapshot(old).wait().unwrap();
            let place = seen.before(seen.end(), 2).wait().unwrap().start;
            let backups = store.list_backups(old).wait().unwrap();
            let checkpoints = store.checkpoints(old).wait().unwrap();
            assert_eq!((backups.len(), checkpoints.len()), (1, 1));
            store.rename_session(old, new).wait().unwrap();

            assert!(
                !store
                    .list_sessions()
                    .wait()
                    .unwrap()
                    .contains(&old.to_owned())
            );
            assert!(!store.exact_keys().exists(old).wait().unwrap());
            for key in [new, old, &of_old] {
                assert_eq!(texts(&store, key), numbers(5..8), "{key}");
            }
            let after = meta(&store, new);
            assert_eq!((&*after.key, &*after.summary), (new, "of 0"));
            assert_eq!((after.skip, after.count), (before.skip, before.count));
            assert_eq!(after.created_at, before.created_at);
            assert_eq!(after.tags, before.tags);
            assert_eq!(after.tags.unknown_field("theirs"), Some("[1,2]"));
            assert_eq!(after.tags.title, "trip");
            let version = store.snapshot(new).wait().unwrap().version();
            if is_bare {
                assert_eq!(after.updated_at, before.updated_at);
                assert_eq!(version, seen.version());
                assert_eq!(after.aliases, [&*of_old, old]);
            } else {
                assert_ne!(version, seen.version());
                assert_eq!(after.aliases, ["own:7", &*of_old, old]);
            }
            assert_eq!(store.list_backups(new).wait().unwrap(), backups);
            assert_eq!(store.checkpoints(new).wait().unwrap(), checkpoints);
            let context = store.context(new);
            assert_eq!(context.token_count().wait().unwrap(), 1);
            assert_eq!(context.system_prompt().wait().unwrap().unwrap(), "of 0");
            assert_eq!(strays(&schema), "0");
            assert!(is_known(&store, new, "0-a") && is_known(&store, old, "0-a"));
            // Positions stay valid.
            store.truncate_to(new, Keep::From(place)).wait().unwrap();
            assert_eq!(texts(&store, new), numbers(6..8));
            store.restore_backup(new, 1).wait().unwrap();
            assert_eq!(texts(&store, new), numbers(0..3));
            store.context(new).clear().wait().unwrap();
            let newest = store.list_backups(new).wait().unwrap();
            assert_eq!(newest.last().unwrap().number, 3);
        }
    }
}

#[test]
fn a_merge_puts_the_older_history_before_the_newer_with_all_there_is_of_both() {
    for (store, schema) in layouts() {
        full(&store, OLD, 0);
        full(&store, NEW, 10);
        store.set_title(OLD, "the group").wait().unwrap();
        // It shows a prompt, and the newer one's is hidden.
        let prompt = store.context(OLD).write_system_prompt("the group's");
        prompt.wait().unwrap();
        let created = meta(&store, OLD).created_at;
        let seen = [OLD, NEW].map(|key| store.snapshot(key).wait().unwrap());
        let merged = store.merge_session(OLD, NEW).wait().unwrap();
        assert_eq!(merged, Merged::Joined);
        let both: Vec<_> = numbers(5..8).into_iter().chain(numbers(15..18)).collect();
        assert_eq!(texts(&store, NEW), both);
        assert_eq!(texts(&store, OLD), both);
        let tail = said(&store.tail(NEW, 4).wait().unwrap());
        assert_eq!(tail, both[2..]);
        let after = meta(&store, NEW);
        assert_eq!(after.summary, "of 0\n\nof 10");
        assert_eq!(after.created_at, created);
        assert_eq!(after.tags.title, "the group");
        assert_eq!(after.tags.labels, ["label 10", "both", "label 0"]);
        assert_eq!(after.aliases, [OLD]);
        assert_eq!(strays(&schema), "0");
        let counted = server().unwrap().sql(&format!(
            "SELECT s.lines = (SELECT count(*) FROM {schema}.lines),
                 s.hidden = (SELECT count(*) FROM {schema}.lines l WHERE l.line_at < s.start_at),
                 s.end_at > (SELECT max(line_at) FROM {schema}.lines)
             FROM {schema}.sessions s"
        ));
        assert_eq!(counted, "t|t|t");
        // What the newer one said of the conversation holds.
        let context = store.context(NEW);
        assert_eq!(context.token_count().wait().unwrap(), 11);
        assert_eq!(context.system_prompt().wait().unwrap().unwrap(), "of 10");
        assert_eq!(store.checkpoints(NEW).wait().unwrap().len(), 1);
        assert_eq!(context.n_checkpoints().wait().unwrap(), 2);
        for seen in seen {
            let kept = store.truncate_to(NEW, Keep::From(seen.end())).wait();
            assert!(
                matches!(kept, Err(Error::PositionNotFound { .. })),
                "{kept:?}"
            );
            let stale = Update::new().expect(seen.version()).summary("late");
            let stale = store.update(NEW, stale).wait();
            assert!(
                matches!(stale, Err(Error::VersionConflict { .. })),
                "{stale:?}"
            );
        }
        for id in ["0-a", "10-a"] {
            assert!(is_known(&store, NEW, id), "{id}");
        }
        store.compact(NEW).wait().unwrap();
        assert_eq!(texts(&store, NEW), both);
        let backups = store.list_backups(NEW).wait().unwrap();
        let backups: Vec<_> = backups.iter().map(|backup| backup.number).collect();
        assert_eq!(backups, [1, 2]);
        store.restore_backup(NEW, 2).wait().unwrap();
        assert_eq!(texts(&store, NEW), numbers(0..3));
        store.restore_backup(NEW, 1).wait().unwrap();
        assert_eq!(texts(&store, NEW), numbers(10..13));
        store.context(NEW).revert_to(0).wait().unwrap_err();
    }
}

#[test]
fn a_merge_forgets_none_of_the_newest_ids_of_either_and_the_rest_by_and_by() {
    let Some(server) = server() else { return };
    let schema = fresh("moved");
    let options = PostgresOptions::new(server.dsn()).schema(&schema);
    let store = PostgresStore::open(options.once_ids(16)).unwrap();
    for (key, count) in [(OLD, 31), (NEW, 16)] {
        for n in 0..count {
            assert!(!is_known(&store, key, &format!("{key} {n}")));
        }
    }
    // One that both took.
    assert!(!is_known(&store, NEW, &format!("{OLD} 30")));
    store.merge_session(OLD, NEW).wait().unwrap();
    for key in [OLD, NEW] {
        for n in 1..16 {
            assert!(is_known(&store, key, &format!("{NEW} {n}")), "{n}");
        }
        for n in 29..31 {
            assert!(is_known(&store, key, &format!("{OLD} {n}")), "{n}");
        }
    }
    for n in 0..40 {
        assert!(!is_known(&store, NEW, &format!("later {n}")));
        // The older session's ids go first.
        for newest in n + 2..16 {
            assert!(
                is_known(&store, NEW, &format!("{NEW} {newest}")),
                "{newest} after {n}"
            );
        }
        for newest in usize::saturating_sub(n, 14)..=n {
            assert!(is_known(&store, NEW, &format!("later {newest}")));
        }
    }
    let kept = server.sql(&format!("SELECT count(*) FROM {schema}.message_ids"));
    assert!((16..=20).contains(&kept.parse().unwrap()), "{kept}");
}

/// Handles of another process: one that resolves aliases, and one that takes keys literally.
#[test]
fn late_writers_of_other_processes_arrive_at_the_new_key() {
    let Some(server) = server() else { return };
    for (old, new, merges) in [
        ("a", "b", false),
        ("a", "b", true),
        ("a:1", "b:1", false),
        ("a:1", "b:1", true),
    ] {
        let options = options(server);
        let [here, there] = [(), ()].map(|()| PostgresStore::open(options.clone()).unwrap());
        let late = there.exact_keys();
        // Each knows the session well enough to append to it without a look.
        for n in 0..4 {
            there
                .add_message(old, "user", &format!("{n} a"))
                .wait()
                .unwrap();
            late.add_message(old, "user", &format!("{n} b"))
                .wait()
                .unwrap();
        }
        if merges {
            here.add_message(new, "user", "own").wait().unwrap();
            let merged = here.merge_session(old, new).wait().unwrap();
            assert_eq!(merged, Merged::Joined);
        } else {
            here.rename_session(old, new).wait().unwrap();
        }
        let before = texts(&here, new);
        late.add_message(old, "user", "1").wait().unwrap();
        there.add_message(old, "user", "2").wait().unwrap();
        let once = late.append_once(old, "id", Message::user("3"));
        once.wait().unwrap();
        let other = late.set_summary(old, "late");
        other.wait().unwrap();
        let after = [before, numbers(1..4)].concat();
        assert_eq!(texts(&here, new), after, "{old} {merges}");
        assert_eq!(here.summary(new).wait().unwrap(), "late");
        assert!(is_known(&here, new, "id"));
        assert_eq!(here.list_sessions().wait().unwrap(), [new]);
        // Another rename takes all of them along.
        here.rename_session(new, "c:1").wait().unwrap();
        late.add_message(old, "user", "4").wait().unwrap();
        late.add_message(new, "user", "5").wait().unwrap();
        assert_eq!(texts(&here, "c:1"), [after, numbers(4..6)].concat());
        // The key is free for whoever takes the alias away.
        here.upsert_session_meta("c:1", None, Vec::new())
            .wait()
            .unwrap();
        late.add_message(old, "user", "anew").wait().unwrap();
        assert_eq!(texts(&here, old), ["anew"]);
        assert_eq!(here.list_sessions().wait().unwrap().len(), 2);
        late.delete_session(new).wait().unwrap();
        assert_eq!(here.list_sessions().wait().unwrap().len(), 2);
    }
}

/// Says that it is over when it is dropped.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn while_sessions_move_processes_lose_nothing_and_make_none_anew() {
    let Some(server) = server() else { return };
    let schema = fresh("moved");
    let options = PostgresOptions::new(server.dsn()).schema(&schema);
    let store = PostgresStore::open(options).unwrap();
    let crew = Crew::start(&server.dsn(), &schema);
    crew.wait_for(5);
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                let newest = store.tail("s0", 1).wait().unwrap();
                assert_eq!(newest.len(), 1, "empty in between");
            }
        });
        // A claim that fails ends the reader, too.
        let ends = Ends(&over);
        let mut at = "s0".to_owned();
        for round in 0..12 {
            let next = format!("moved:{round}");
            store.rename_session(&at, &next).wait().unwrap();
            crew.wait_for(1);
            at = next;
        }
        store.rename_session(&at, "s0").wait().unwrap();
        crew.wait_for(2);
        assert_eq!(
            store.merge_session("s1", "s2").wait().unwrap(),
            Merged::Joined
        );
        crew.wait_for(2);
        assert_eq!(
            store.merge_session("s2", "s0").wait().unwrap(),
            Merged::Joined
        );
        crew.wait_for(2);
        drop(ends);
        reader.join().unwrap();
    });
    let told = crew.stop();
    assert_kept(&store, &told);
    assert_eq!(store.list_sessions().wait().unwrap(), ["s0"]);
    let said: usize = told.iter().map(|one| one.said.len()).sum();
    assert_eq!(store.count("s0").wait().unwrap(), said);
    assert_eq!(strays(&schema), "0");
}

/// Some go to and fro, some put sessions together, and some write: whoever comes too late is told.
#[test]
fn moves_that_cross_end_and_no_message_is_lost_or_doubled() {
    let Some(server) = server() else { return };
    let options = options(server).lanes(2);
    let stores = [(), (), ()].map(|()| PostgresStore::open(options.clone()).unwrap());
    let keys = ["a", "b:1", "c", "d:1"];
    let written = AtomicUsize::new(0);
    let moved = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for (n, store) in stores.iter().enumerate() {
            scope.spawn({
                let written = &written;
                move || {
                    for round in 0..60 {
                        let key = keys[(n + round) % keys.len()];
                        let text = format!("{n} {round}");
                        store.add_message(key, "user", &text).wait().unwrap();
                        written.fetch_add(1, Ordering::Relaxed);
                    }
                }
            });
            scope.spawn({
                let moved = &moved;
                move || {
                    for round in 0..40 {
                        let old = keys[(n + round) % keys.len()];
                        let new = keys[(n + round * 3 + 1) % keys.len()];
                        let told = if round % 2 == 0 {
                            store.merge_session(old, new).wait().map(drop)
                        } else {
                            store.rename_session(old, new).wait()
                        };
                        match told {
                            Ok(()) => drop(moved.fetch_add(1, Ordering::Relaxed)),
                            Err(
                                Error::IsAlias { .. }
                                | Error::SessionNotFound { .. }
                                | Error::HasHistory { .. }
                                | Error::InvalidKey { .. },
                            ) => {}
                            Err(error) => panic!("{old} {new}: {error:?}"),
                        }
                    }
                }
            });
        }
    });
    assert!(moved.into_inner() > 0);
    let mut seen = BTreeMap::new();
    for key in stores[0].list_sessions().wait().unwrap() {
        for text in texts(&stores[0].exact_keys(), &key) {
            *seen.entry(text).or_insert(0) += 1;
        }
    }
    assert!(seen.values().all(|times| *times == 1), "{seen:?}");
    assert_eq!(seen.len(), written.into_inner());
}

#[test]
fn a_merge_whose_connection_is_cut_anywhere_is_whole_or_not_there() {
    let Some(server) = server() else { return };
    let proxy = Proxy::to(server.port);
    let schema = fresh("moved");
    let options = |dsn: String| PostgresOptions::new(dsn).schema(&schema).lanes(1);
    let cut = options(proxy.dsn()).retry(Duration::from_millis(1));
    let cut = PostgresStore::open(cut).unwrap();
    let store = PostgresStore::open(options(server.dsn())).unwrap();
    let make = |n: i64| {
        let [old, new] = ["old", "new"].map(|what| format!("{what}:{n}"));
        full(&store, &old, 0);
        full(&store, &new, 10);
        (old, new)
    };
    let both: Vec<_> = numbers(5..8).into_iter().chain(numbers(15..18)).collect();
    // How much that is.
    let (old, new) = make(-1);
    cut.add_message("beside", "user", "x").wait().unwrap();
    let before = proxy.passed().0;
    cut.merge_session(&old, &new).wait().unwrap();
    let sent = i64::try_from(proxy.passed().0 - before).unwrap();
    let (mut whole, mut none) = (0, 0);
    for n in 0..40 {
        let (old, new) = make(n);
        // The lane has a connection again.
        while cut.add_message("beside", "user", "x").wait().is_err() {}
        if n % 4 == 3 {
            proxy.cut_to_client_after(n * 40);
        } else {
            proxy.cut_to_server_after(sent * (n + 1) / 41);
        }
        let told = cut.merge_session(&old, &new).wait();
        proxy.heal();
        // What is under way at the server ends, or waits for a client that is gone.
        store.set_pinned(&new, true).wait().unwrap();
        let there = texts(&store, &new);
        if store.exact_keys().exists(&old).wait().unwrap() {
            assert!(told.is_err(), "{n}");
            assert_eq!(texts(&store, &old), numbers(5..8), "{n}");
            assert_eq!(there, numbers(15..18), "{n}");
            assert_eq!(store.list_backups(&old).wait().unwrap().len(), 1);
            none += 1;
        } else {
            let is_unknown = matches!(told, Ok(Merged::Joined) | Err(Error::OutcomeUnknown { .. }));
            assert!(is_unknown, "{n}: {told:?}");
            assert_eq!(there, both, "{n}");
            assert_eq!(store.list_backups(&new).wait().unwrap().len(), 2);
            whole += 1;
        }
    }
    assert!(none > 0, "{whole} were whole");
    assert_eq!(strays(&schema), "0");
}

#[test]
fn followers_are_told_that_the_new_key_was_replaced_and_the_old_one_is_gone() {
    let Some(store) = store() else { return };
    for key in ["a", "b", "c"] {
        add(&store, key, 0..1);
    }
    let mut changes = store.follow(ChangeFilter::new()).wait().unwrap();
    store.rename_session("a", "n").wait().unwrap();
    store.merge_session("b", "c").wait().unwrap();
    for (key, kind) in [
        ("n", ChangeKind::Replaced),
        ("a", ChangeKind::Deleted),
        ("c", ChangeKind::Replaced),
        ("b", ChangeKind::Deleted),
    ] {
        let change = changes.wait_next().unwrap();
        assert_eq!((&*change.key, change.kind), (key, kind));
        if kind == ChangeKind::Replaced {
            let now = store.snapshot(key).wait().unwrap().version();
            assert_eq!(change.version, now);
        }
    }
}
