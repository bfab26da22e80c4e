//! The files that say which messages a session took once, by the ids their platform gave
//! them: `.sessionlog/once/<stem>.jsonl`, a line for each,
//! `{"key":"telegram:123","id":"42"}`. The key is in every line, because the files of a
//! session may be removed by hand, and another key may get their name.
//!
//! # What a crash leaves
//!
//! Nothing stands here that is not synced in the journal: an id whose message a power loss
//! took would have the message refused when it is delivered again.
//!
//! * *Lines added*. Unfinished: part of a line is no id, and the next write begins with an
//!   LF. After: the same, until the checkpoint; the journal has them, and recovery adds
//!   those that are missing.
//! * *File replaced, without its oldest lines* (hidden file, sync, rename). Unfinished:
//!   the old one whole; the hidden one is written over by the next. After: the new one.

use std::io;
use std::path::{Path, PathBuf};

use memchr::memmem;
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

/// The file of a session.
pub(crate) fn path(dir: &Path, stem: &str) -> PathBuf {
    dir.join(format!("{stem}.jsonl"))
}

/// What a session's file says, each line ended; nothing if there is none.
///
/// # Errors
/// As the operating system reports them.
pub(crate) fn read(storage: &dyn Storage, path: &Path) -> io::Result<Vec<u8>> {
    match read_whole(storage, path) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        read => read,
    }
}

/// Adds a line, unless it is there.
pub(crate) fn add(lines: &mut Vec<u8>, line: &[u8]) {
    if contains(lines, line) {
        return;
    }
    // Part of a line, from a write cut short, would spoil this one.
    if lines.last().is_some_and(|&last| last != b'\n') {
        lines.push(b'\n');
    }
    lines.extend_from_slice(line);
}

/// Adds those of `more` that are not there.
pub(crate) fn add_all(lines: &mut Vec<u8>, more: &[u8]) {
    for line in more.split_inclusive(|&byte| byte == b'\n') {
        add(lines, line);
    }
}

/// How many lines there are.
pub(crate) fn count(lines: &[u8]) -> usize {
    memchr::memchr_iter(b'\n', lines).count()
}

/// The last `n` lines.
pub(crate) fn newest(lines: &[u8], n: usize) -> &[u8] {
    let before = memchr::memrchr_iter(b'\n', lines).nth(n);
    &lines[before.map_or(0, |lf| lf + 1)..]
}

/// Puts a file with `lines` in the place of the one at `path`.
///
/// # Errors
/// As the operating system reports them; the old one is whole then.
pub(crate) fn replace(storage: &dyn Storage, path: &Path, lines: &[u8]) -> io::Result<()> {
    let temp = path.with_extension("tmp");
    match storage.remove_file(&temp) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
        _ => {}
    }
    let file = storage.open(&temp, OpenMode::CreateNew)?;
    file.write_all_at(lines, 0)?;
    // Its name may reach the disk first, and the ids that it replaces are in no journal.
    file.sync_data()?;
    storage.rename(&temp, path)
}

/// Whether `line` is among `lines`.
pub(crate) fn contains(lines: &[u8], line: &[u8]) -> bool {
    let begins = |at: usize| at == 0 || lines[at - 1] == b'\n';
    memmem::find_iter(lines, line).any(begins)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_found_whole_and_after_part_of_one() {
        let mut lines = b"{\"key\":\"a\",\"id\":\"1".to_vec();
        add(&mut lines, line("a", "2").as_bytes());
        add(&mut lines, line("a", "2").as_bytes());
        assert_eq!(count(&lines), 2);
        assert!(contains(&lines, line("a", "2").as_bytes()));
        assert!(!contains(&lines, line("a", "1").as_bytes()));
        assert!(!contains(&lines, line("b", "2").as_bytes()));
        add_all(
            &mut lines,
            &[line("a", "2"), line("a", "3")].concat().into_bytes(),
        );
        assert_eq!(count(&lines), 3);
        assert_eq!(newest(&lines, 1), line("a", "3").as_bytes());
        assert_eq!(newest(&lines, 9), lines);
    }
}
