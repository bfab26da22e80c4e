//! The files that say which messages a session took once, by the ids their platform gave
//! them: in `.sessionlog/once`, a line for each, `{"key":"telegram:123","id":"42"}`. The key
//! is in every line, because the files of a session may be removed by hand, and another key
//! may get their name.
//!
//! A session has two: lines are added to `<stem>.ids.jsonl`, and if that has enough of them
//! it takes the place of `<stem>.old.jsonl`. So the newest stay, and no line is written
//! twice.
//!
//! # What a crash leaves
//!
//! Nothing stands here that is not synced in the journal: an id whose message a power loss
//! took would have the message refused when it is delivered again.
//!
//! * *Lines added*. Unfinished: part of a line is no id, and the next write begins with an
//!   LF. After: the same, until the checkpoint; the journal has them, and recovery adds
//!   those that are missing.
//! * *File renamed*. Before, or after: both have the same lines. The next line is added
//!   by a later flush, or by a recovery.

use std::collections::HashSet;
use std::io;
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::read_whole;
use crate::ground::storage::{OpenMode, Storage};

/// The id of a message, and whose it is.
#[derive(Serialize)]
struct Line<'a> {
    key: &'a str,
    id: &'a str,
}

/// The line that says that the session `key` took the message `id`, with its LF.
pub(crate) fn line(key: &str, id: &str) -> String {
    let line = serde_json::to_string(&Line { key, id });
    line.unwrap_or_default() + "\n"
}

/// The two files of a session, the one that lines are added to first.
pub(crate) fn paths(dir: &Path, stem: &str) -> [PathBuf; 2] {
    ["ids", "old"].map(|which| dir.join(format!("{stem}.{which}.jsonl")))
}

/// What the files of a session say.
#[derive(Debug, Default)]
pub(crate) struct Taken {
    pub(crate) lines: HashSet<Vec<u8>>,
    /// How many stand in the file that lines are added to.
    pub(crate) newest: usize,
}

impl Taken {
    /// What stands in the files of a session.
    pub(crate) fn of([newest, old]: [&[u8]; 2]) -> Self {
        let lines = |bytes: &[u8]| {
            let lines = bytes.split_inclusive(|&byte| byte == b'\n');
            lines.map(<[u8]>::to_vec).collect::<HashSet<_>>()
        };
        let mut all = lines(newest);
        let newest = all.len();
        all.extend(lines(old));
        Self { lines: all, newest }
    }
}

/// Reads what the files of a session say.
///
/// # Errors
/// As the operating system reports them.
pub(crate) fn read(storage: &dyn Storage, [newest, old]: &[PathBuf; 2]) -> io::Result<Taken> {
    let [newest, old] = [read_file(storage, newest)?, read_file(storage, old)?];
    Ok(Taken::of([&newest, &old]))
}

/// What stands in one of them; nothing if it is not there.
///
/// # Errors
/// As the operating system reports them.
pub(crate) fn read_file(storage: &dyn Storage, path: &Path) -> io::Result<Vec<u8>> {
    match read_whole(storage, path) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        read => read,
    }
}

/// Adds lines to the file at `path`, made if it is not there.
///
/// # Errors
/// As the operating system reports them; part of them may be there then.
pub(crate) fn add(storage: &dyn Storage, path: &Path, lines: &[u8]) -> io::Result<()> {
    let file = match storage.open(path, OpenMode::ReadWrite) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => storage.open(path, OpenMode::CreateNew)?,
        other => other?,
    };
    let len = file.info()?.len;
    let mut last = *b"\n";
    if len > 0 {
        file.read_exact_at(&mut last, len - 1)?;
    }
    // Part of a line, from a write cut short, would spoil this one.
    let ended = last == *b"\n";
    let end: &[u8] = if ended { b"" } else { b"\n" };
    file.write_all_at(&[end, lines].concat(), len)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::disk_model::MemoryStorage;

    #[test]
    fn a_line_is_read_whole_and_after_part_of_one() {
        let disk = MemoryStorage::new();
        let paths = paths(Path::new("once"), "a");
        disk.write_foreign("once/a.ids.jsonl", b"{\"key\":\"a\",\"id\":\"1")
            .unwrap();
        disk.write_foreign("once/a.old.jsonl", line("a", "0").as_bytes())
            .unwrap();
        add(&disk, &paths[0], line("a", "2").as_bytes()).unwrap();
        add(&disk, &paths[0], line("a", "3").as_bytes()).unwrap();
        let taken = read(&disk, &paths).unwrap();
        for (id, there) in [("0", true), ("1", false), ("2", true), ("3", true)] {
            assert_eq!(
                taken.lines.contains(line("a", id).as_bytes()),
                there,
                "{id}"
            );
        }
        assert_eq!(taken.newest, 3);
    }
}
