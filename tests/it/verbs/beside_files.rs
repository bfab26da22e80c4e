//! What is taken in while a worker's thread writes files.

use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use sessionlog::testing::disk_model::{Image, MemoryStorage};

use crate::intercept::{Flags, Intercepted};
use crate::support::{add_numbers, numbers, open_memory, open_on, small_segments, texts};

/// How long something may take before a test gives up.
const PATIENCE: Duration = Duration::from_secs(30);

/// A disk that stalls stalls whoever waits for it, and nobody else.
#[test]
fn an_append_is_answered_while_its_sessions_file_is_being_written() {
    let storage = Intercepted::default();
    let store = open_on(Arc::new(storage.clone()), small_segments()).unwrap();
    let chats = store.handle();
    let flags = storage.hold("create", "a.meta.json");
    add_numbers(&chats, "a", 0..1);
    let flush = thread::spawn({
        let chats = chats.clone();
        move || chats.flush().wait()
    });
    flags.wait_for("begun");
    add_numbers(&chats, "a", 1..20);
    assert_eq!(texts(&chats, "a"), numbers(0..20));
    flags.raise("go");
    flush.join().unwrap().unwrap();
    store.close().unwrap();
}

/// Recorded as if there were no sidecar before it, such a change would make the sidecar
/// another program's after a crash.
#[test]
fn what_changes_while_a_sidecar_is_written_outlives_a_power_cut_and_makes_no_conflict() {
    let storage = Intercepted::default();
    let store = open_on(Arc::new(storage.clone()), small_segments()).unwrap();
    let chats = store.handle();
    let (ask, asked) = mpsc::channel::<mpsc::Sender<()>>();
    let changing = thread::spawn({
        let (chats, disk) = (chats.clone(), storage.disk.clone());
        move || {
            for (nth, done) in (1..).zip(asked) {
                let text = format!("{nth}");
                chats.add_message("a", "user", &text).wait().unwrap();
                chats.set_summary("a", &text).wait().unwrap();
                for image in [Image::ProcessDeath, Image::AllLost] {
                    holds(&disk.image(image), nth);
                }
                done.send(()).unwrap();
            }
        }
    });
    // Opened to be loaded, it is not written.
    let loaded = Flags::default();
    storage.at_every_call({
        let loaded = loaded.clone();
        move |call, path, _| {
            let path = path.to_string_lossy();
            let is_its = path.ends_with("/a.meta.json") || path.contains("/.sessionlog-");
            let begins = call == "create" || call == "open" && loaded.is_raised("loaded");
            if is_its && begins {
                let (done, changed) = mpsc::channel();
                ask.send(done).unwrap();
                changed.recv_timeout(PATIENCE).unwrap();
            }
            Ok(())
        }
    });
    chats.add_message("a", "user", "0").wait().unwrap();
    loaded.raise("loaded");
    for _ in 0..12 {
        chats.flush().wait().unwrap();
        let last = texts(&chats, "a").len() - 1;
        holds(&storage.disk.image(Image::AllLost), last);
    }
    assert!(texts(&chats, "a").len() >= 12, "nothing changed meanwhile");
    storage.at_every_call(|_, _, _| Ok(()));
    changing.join().unwrap();
    store.close().unwrap();
}

/// What a power cut left: the messages from 0 to `last`, the summary of the last, and
/// nothing of another program.
fn holds(left: &MemoryStorage, last: usize) {
    let store = open_memory(left).unwrap();
    let chats = store.handle();
    assert_eq!(texts(&chats, "a"), numbers(0..last + 1));
    let summary = chats.summary("a").wait().unwrap();
    let expected = if last == 0 {
        String::new()
    } else {
        last.to_string()
    };
    assert_eq!(summary, expected);
    let findings = &store.recovery_report().findings;
    assert!(findings.is_empty(), "{findings:?}");
    store.close().unwrap();
}
