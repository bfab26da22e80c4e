//! Writes the inputs that fuzzing starts from to `tests/it/fuzz/inputs`: session
//! files and sidecars as PicoClaw wrote them, journals as this crate writes
//! them, and a few courses of commands.
//!
//! `cargo run --example seed`, in `fuzz/`.

use std::fs;
use std::path::{Path, PathBuf};

use sessionlog::testing::sim::Sim;
use sessionlog::testing::disk_model::MemoryStorage;
use sessionlog::{Message, StoreOptions};

/// Larger files only slow a fuzzer down.
const MAX_SEED: usize = 3000;

/// Files of one kind.
const MAX_FILES: usize = 16;

fn main() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let inputs = root.join("tests/it/fuzz/inputs");
    for (kind, suffix, first) in [("log", ".jsonl", &[0x30][..]), ("sidecar", ".meta.json", &[])] {
        let mut files = Vec::new();
        find(&root.join("tests/golden/sessions"), suffix, &mut files);
        files.sort();
        files.dedup_by_key(|path| fs::read(path).expect("it was just found"));
        let step = files.len().div_ceil(MAX_FILES).max(1);
        for (nth, path) in files.iter().step_by(step).enumerate() {
            let bytes = fs::read(path).expect("it was just found");
            let seed = [first, &bytes[..]].concat();
            write(&inputs, kind, &format!("golden-{nth:02}"), &seed);
        }
    }
    let segment = segment();
    let end = segment.iter().rposition(|byte| *byte != 0).unwrap_or(0) + 40;
    let segment = &segment[..end.min(segment.len())];
    write(&inputs, "journal", "segment", &[&[0], segment].concat());
    write(&inputs, "journal", "records", &[&[1], &segment[4096..]].concat());
    write(&inputs, "journal", "records-numbered", &[&[3], &segment[4096..]].concat());
    for (nth, course) in COURSES.iter().enumerate() {
        write(&inputs, "image", &format!("course-{nth}"), course);
    }
}

/// Commands, the disk a crash leaves, damage.
const COURSES: [&[u8]; 4] = [
    &[0, 0, 1, 4, 0x81, 8, 7, 64, 10, 0, 0xFF, 0, 1, 7, 0, 0, 0, 0, 0, 0, 0, 0],
    &[0, 0, 6, 0, 7, 0, 8, 0, 0x89, 4, 14, 0, 2, 1, 0xFF, 0, 11, 3, 0, 0, 0, 0, 0, 0, 0, 3, 20, 16, 1],
    &[0x40, 1, 0x42, 2, 13, 90, 0x4A, 1, 11, 2, 0, 2, 0xFF, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 9, 0, 0],
    &[0, 0, 12, 0, 11, 1, 0, 1, 0x80, 1, 0x87, 1, 0x88, 1, 0x80, 5, 0xFF, 0, 9, 1, 1, 1, 1, 1, 1, 1, 1],
];

/// A journal segment with a record of every kind.
fn segment() -> Vec<u8> {
    let storage = MemoryStorage::new();
    let options = StoreOptions::new().journal_segments(8 << 10, 8 << 10);
    let mut sim = Sim::open(storage.clone(), &options, 0).expect("an empty disk");
    let chats = sim.handle();
    let replies = [
        chats.add_message("cli", "user", "one"),
        chats.append_all("cli", vec![Message::user("two"), Message::assistant("three")]),
        chats.set_summary("cli", "a summary"),
        chats.truncate_history("cli", 1),
        chats.compact("cli"),
        chats.add_message("other", "user", "four"),
        chats.delete_session("other"),
        chats.set_history("cli", vec![Message::user("five")]),
        chats.add_message("cli", "user", "six"),
    ];
    for reply in replies {
        sim.run(reply).expect("the disk works");
    }
    let files = storage.dump();
    let segment = files.into_iter().find(|(path, bytes)| {
        path.contains("/segment-") && bytes[4096..].iter().any(|byte| *byte != 0)
    });
    segment.expect("there is a journal").1
}

fn find(dir: &Path, suffix: &str, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).expect("the recorded files are there") {
        let path = entry.expect("the recorded files are there").path();
        if path.is_dir() {
            find(&path, suffix, found);
        } else if path.to_string_lossy().ends_with(suffix)
            && path.metadata().is_ok_and(|m| m.len() as usize <= MAX_SEED)
        {
            found.push(path);
        }
    }
}

fn write(inputs: &Path, kind: &str, name: &str, bytes: &[u8]) {
    let dir = inputs.join(kind);
    fs::create_dir_all(&dir).expect("the directory can be made");
    fs::write(dir.join(name), bytes).expect("the file can be written");
}
