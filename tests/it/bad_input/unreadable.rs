//! Session files that may not be opened. Tests run as root, whom no mode keeps out: a modelled
//! disk refuses.

use std::io;
use std::path::Path;
use std::sync::Arc;

use sessionlog::testing::disk_model::{Image, MemoryStorage};
use sessionlog::testing::sim::{DIR, read_now, read_only_on};
use sessionlog::testing::storage::Storage;
use sessionlog::testing::{open_store, verify_store};
use sessionlog::{Error, Result, SessionQuery, Store, StoreHandle};

use crate::intercept::Intercepted;
use crate::support::{add_numbers, line, manual, numbers, sidecar, texts};

/// The disk, on which nobody may open files of this name.
fn forbidding(disk: &MemoryStorage, name: &'static str) -> Intercepted {
    let storage = Intercepted::on(disk.clone());
    storage.at_every_call(move |call, path, _| match call {
        "open" if path.ends_with(name) => Err(io::ErrorKind::PermissionDenied.into()),
        _ => Ok(()),
    });
    storage
}

fn opened(storage: &Arc<dyn Storage>) -> Store {
    open_store(storage.clone(), Path::new(DIR), manual()).unwrap()
}

fn opened_on(disk: &MemoryStorage) -> Store {
    let storage: Arc<dyn Storage> = Arc::new(disk.clone());
    opened(&storage)
}

fn names_it<T: std::fmt::Debug>(refused: Result<T>) {
    match refused {
        Err(error @ Error::Io { .. }) => {
            let told = error.to_string();
            assert!(told.contains("/telegram_1.jsonl"), "{told}");
        }
        other => panic!("{other:?}"),
    }
}

fn writes_are_refused(chats: &StoreHandle) {
    names_it(chats.add_message("telegram:1", "user", "x").wait());
    names_it(chats.set_history("telegram:1", Vec::new()).wait());
    names_it(chats.truncate_history("telegram:1", 0).wait());
}

fn session_files(disk: &MemoryStorage) -> Vec<String> {
    let mut names: Vec<_> = disk.dump().into_keys().collect();
    names.retain(|name| !name.contains(".sessionlog") && !name.contains(".meta."));
    names
}

/// Taken for missing, its history would be empty, and the next message the first of a second
/// session.
#[test]
fn a_session_file_that_may_not_be_read_is_named_in_the_error_of_its_session() {
    for with_sidecar in [true, false] {
        let disk = MemoryStorage::new();
        let place = |name: &str, text: &str| {
            disk.write_foreign(Path::new(DIR).join(name), text.as_bytes())
                .unwrap();
        };
        place("telegram_1.jsonl", &(line("0") + &line("1")));
        place("other.jsonl", &line("0"));
        let mut listed = "telegram_1";
        if with_sidecar {
            place(
                "telegram_1.meta.json",
                &sidecar("telegram:1", "its own", 0, 2),
            );
            listed = "telegram:1";
        }
        let storage: Arc<dyn Storage> = Arc::new(forbidding(&disk, "telegram_1.jsonl"));

        let view = read_only_on(storage.clone()).unwrap();
        names_it(read_now(view.history("telegram:1")));
        let page = read_now(view.sessions(SessionQuery::new())).unwrap();
        assert_eq!(page.unreadable, [listed]);

        let store = opened(&storage);
        let chats = store.handle();
        names_it(chats.history("telegram:1").wait());
        names_it(chats.tail("telegram:1", 1).wait());
        let page = chats.sessions(SessionQuery::new()).wait().unwrap();
        assert_eq!(page.unreadable, [listed]);
        writes_are_refused(&chats);
        add_numbers(&chats, "other", 1..2);
        assert_eq!(texts(&chats, "other"), numbers(0..2));
        store.close().unwrap();
        let report = verify_store(&storage, Path::new(DIR)).unwrap();
        let of_it = report.sessions.iter().find(|s| s.stem == "telegram_1");
        assert!(of_it.unwrap().unreadable.is_some(), "{report}");

        assert_eq!(
            session_files(&disk),
            ["sessions/other.jsonl", "sessions/telegram_1.jsonl"]
        );
        let store = opened_on(&disk);
        assert_eq!(texts(&store.handle(), "telegram:1"), numbers(0..2));
        store.close().unwrap();
    }
}

/// Only the file has the older lines, and only the journal the newer.
#[test]
fn a_session_file_that_may_not_be_read_after_a_crash_stays_and_what_the_journal_held_is_a_backup() {
    let disk = MemoryStorage::new();
    let store = opened_on(&disk);
    let chats = store.handle();
    add_numbers(&chats, "telegram:1", 0..2);
    chats.flush().wait().unwrap();
    add_numbers(&chats, "telegram:1", 2..4);
    add_numbers(&chats, "other", 0..1);
    let disk = disk.image(Image::AllLost);
    drop(store);
    let storage: Arc<dyn Storage> = Arc::new(forbidding(&disk, "telegram_1.jsonl"));
    let view = read_only_on(storage.clone()).unwrap();
    names_it(read_now(view.history("telegram:1")));
    for nth in 0..2 {
        let store = opened(&storage);
        let chats = store.handle();
        let findings = store.recovery_report().findings.join("\n");
        assert_eq!(findings.contains("is its backup 1"), nth == 0, "{findings}");
        names_it(chats.history("telegram:1").wait());
        writes_are_refused(&chats);
        assert_eq!(texts(&chats, "other"), numbers(0..1));
        store.close().unwrap();
    }
    let store = opened_on(&disk);
    let chats = store.handle();
    assert_eq!(texts(&chats, "telegram:1"), numbers(0..2));
    chats.restore_backup("telegram:1", 1).wait().unwrap();
    assert_eq!(texts(&chats, "telegram:1"), numbers(2..4));
    store.close().unwrap();
}
