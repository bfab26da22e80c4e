//! The file of a context under power cuts, full disks and failing calls.

use std::path::Path;
use std::sync::Arc;

use proptest::prelude::*;
use sessionlog_wal::storage::Storage;
use sessionlog_wal::testing::disk_model::{Fault, Image, MemoryStorage, Repeat};

use crate::{Context, Error, Message, Result};

const PATH: &str = "/context.jsonl";

fn open(disk: &MemoryStorage) -> Context {
    Context::open_on(Arc::new(disk.clone()), Path::new(PATH)).unwrap()
}

/// A prompt, two turns with a checkpoint before each, and a token count.
fn talked() -> MemoryStorage {
    let disk = MemoryStorage::new();
    let context = open(&disk);
    context.write_system_prompt("be brief").wait().unwrap();
    for turn in ["one", "two"] {
        context.checkpoint(true).wait().unwrap();
        context.append_message(Message::user(turn)).wait().unwrap();
    }
    context.update_token_count(40).wait().unwrap();
    drop(context);
    disk.image(Image::AllKept)
}

/// The state of a context, as text.
fn told(disk: &MemoryStorage) -> String {
    told_by(&open(disk))
}

fn told_by(context: &Context) -> String {
    format!(
        "{:?} {} {} {:?}",
        context.history().wait().unwrap(),
        context.token_count_with_pending().wait().unwrap(),
        context.n_checkpoints().wait().unwrap(),
        context.system_prompt().wait().unwrap(),
    )
}

type ContextEdit = fn(&Context) -> Result<()>;

const CHANGES: [(&str, ContextEdit); 6] = [
    ("append", |context| {
        context.append_message(Message::user("three")).wait()
    }),
    ("checkpoint", |context| {
        context.checkpoint(false).wait().map(drop)
    }),
    ("usage", |context| context.update_token_count(50).wait()),
    ("prompt", |context| {
        context.write_system_prompt("be kind").wait()
    }),
    ("revert", |context| context.revert_to(1).wait()),
    ("clear", |context| context.clear().wait()),
];

#[test]
fn a_power_cut_at_any_call_leaves_the_file_before_or_after() {
    for (name, change) in CHANGES {
        let before = told(&talked());
        let after = {
            let disk = talked();
            change(&open(&disk)).unwrap();
            told(&disk)
        };
        for step in 0.. {
            let disk = talked();
            let context = open(&disk);
            disk.crash_at(disk.steps() + step);
            let outcome = change(&context);
            let drawn = (0..4).map(Image::Random);
            for image in Image::NAMED.into_iter().chain(drawn) {
                let left = disk.image(image);
                let now = told(&left);
                let kept = now == after || (outcome.is_err() && now == before);
                assert!(kept, "{name} cut at call {step}, {image:?}: {now}");
                let again = open(&left);
                again.append_message(Message::user("x")).wait().unwrap();
                drop(again);
                assert!(told(&left).contains("\"x\""), "{name} {step} {image:?}");
            }
            if outcome.is_ok() {
                break;
            }
        }
    }
}

#[test]
fn what_was_there_before_is_set_aside_whole() {
    for (name, change) in &CHANGES[4..] {
        let disk = talked();
        let old = disk.read_foreign(PATH).unwrap();
        disk.write_foreign("/context_6.jsonl", b"another's")
            .unwrap();
        change(&open(&disk)).unwrap();
        let left = disk.image(Image::AllLost);
        assert_eq!(left.read_foreign("/context_7.jsonl"), Some(old), "{name}");
        assert_eq!(
            left.read_foreign("/context_6.jsonl").as_deref(),
            Some(&b"another's"[..]),
        );
    }
}

#[test]
fn a_refused_write_changes_nothing_and_the_next_one_succeeds() {
    for (name, change) in CHANGES {
        let disk = talked();
        let context = open(&disk);
        let before = told(&disk);
        // Room for a part of the data to be written, if it grows the file.
        let files: usize = disk.dump().values().map(Vec::len).sum();
        disk.capacity(files as u64 + 5);
        let refused = change(&context);
        assert!(matches!(refused, Err(Error::StorageFull { .. })), "{name}");
        assert_eq!(told(&disk), before, "{name}");
        disk.capacity(u64::MAX);
        change(&context).unwrap();
        let now = format!("{:?}", context.history().wait().unwrap());
        assert!(told(&disk).starts_with(&now), "{name}");
    }
}

#[test]
fn after_a_failed_sync_nothing_more_is_written() {
    let disk = talked();
    let context = open(&disk);
    context
        .append_message(Message::user("kept"))
        .wait()
        .unwrap();
    let steps = disk.steps();
    context
        .append_message(Message::user("kept"))
        .wait()
        .unwrap();
    let calls = disk.steps() - steps;
    disk.fail_at(disk.steps() + calls - 1, Fault::Eio, Repeat::Once);
    let failed = context.append_message(Message::user("unknown")).wait();
    assert!(matches!(failed, Err(Error::Poisoned { .. })), "{failed:?}");
    let refused = context.append_message(Message::user("refused")).wait();
    assert!(matches!(refused, Err(Error::Poisoned { .. })));
    assert_eq!(context.history().wait().unwrap().len(), 6);
}

#[test]
fn a_file_that_another_program_renamed_is_made_anew() {
    let disk = talked();
    let context = open(&disk);
    context
        .append_message(Message::user("here"))
        .wait()
        .unwrap();
    disk.rename(Path::new(PATH), Path::new("/context_1.jsonl"))
        .unwrap();
    context
        .append_message(Message::user("there"))
        .wait()
        .unwrap();
    assert_eq!(
        disk.read_foreign(PATH).unwrap(),
        b"{\"role\":\"user\",\"content\":\"there\"}\n"
    );
}

#[test]
fn no_power_cut_leaves_neither_the_old_file_nor_its_copy() {
    for (name, change) in &CHANGES[4..] {
        let old = talked().read_foreign(PATH).unwrap();
        for step in 0.. {
            let disk = talked();
            let context = open(&disk);
            disk.crash_at(disk.steps() + step);
            let outcome = change(&context);
            for image in Image::NAMED.into_iter().chain((0..20).map(Image::Random)) {
                let left = disk.image(image);
                let holds_old = |path: &str| left.read_foreign(path) == Some(old.clone());
                assert!(
                    holds_old(PATH) || holds_old("/context_1.jsonl"),
                    "{name} cut at call {step}, {image:?}"
                );
            }
            if outcome.is_ok() {
                break;
            }
        }
    }
}

#[test]
fn no_checkpoint_id_is_given_twice_by_contexts_that_were_open_at_once() {
    let disk = MemoryStorage::new();
    let (first, second) = (open(&disk), open(&disk));
    assert_eq!(second.checkpoint(false).wait().unwrap(), 0);
    second.append_message(Message::user("b")).wait().unwrap();
    drop(second);
    assert_eq!(first.checkpoint(false).wait().unwrap(), 1);
    first.append_message(Message::user("a")).wait().unwrap();
    first.revert_to(1).wait().unwrap();
    let history = first.history().wait().unwrap();
    assert_eq!(history.len(), 1);
    assert_eq!(history[0].text(), "b");
}

#[test]
fn a_file_emptied_since_it_was_opened_restores_to_nothing() {
    let disk = talked();
    let context = open(&disk);
    disk.write_foreign(PATH, b"").unwrap();
    assert!(!context.restore().wait().unwrap());
    assert_eq!(told_by(&context), told(&disk));
}

/// Files of whole, torn and odd lines, with every kind of line end.
fn any_file() -> impl Strategy<Value = Vec<u8>> {
    const PIECES: [&[u8]; 12] = [
        b"{\"role\":\"user\",\"content\":\"one\"}",
        b"{\"role\":\"assistant\",\"content\":null,\"tool_calls\":[{\"id\":\"1\",\"function\":{\"name\":\"f\"}}]}",
        b"{\"role\": \"_checkpoint\", \"id\": 0}",
        b"{\"role\": \"_checkpoint\", \"id\": 2}",
        b"{\"role\": \"_usage\", \"token_count\": 7}",
        b"{\"role\": \"_system_prompt\", \"content\": \"p\"}",
        b"{\"role\":\"_note\",\"v\":1}",
        b"\xff\"\\",
        b"\xef\xbb\xbf",
        b"\n",
        b"\r",
        b"\0",
    ];
    let piece = prop::sample::select(&PIECES[..]).prop_map(<[u8]>::to_vec);
    let ended = (piece, any::<bool>()).prop_map(|(mut piece, ended)| {
        piece.extend(ended.then_some(b'\n'));
        piece
    });
    prop::collection::vec(ended, 0..12).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn whatever_is_in_the_file_a_context_says_what_a_new_one_says(
        file in any_file(),
        changes in prop::collection::vec(0..CHANGES.len(), 0..6),
    ) {
        let disk = MemoryStorage::new();
        disk.write_foreign(PATH, &file).unwrap();
        let context = open(&disk);
        for change in changes {
            let before = told_by(&context);
            let (name, change) = CHANGES[change];
            match change(&context) {
                Ok(()) => prop_assert_eq!(told_by(&context), told(&disk), "{}", name),
                Err(Error::CheckpointNotFound { .. }) => prop_assert_eq!(told_by(&context), before),
                Err(error) => prop_assert!(false, "{}: {}", name, error),
            }
        }
    }
}
