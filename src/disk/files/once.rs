//! The files with the ids of messages that a session took once, as given by their platform: in
//! `.sessionlog/once`, one line for each, `{"key":"telegram:123","id":"42"}`. The key is in every
//! line, because the files of a session may be removed by hand, and another key may then get their
//! name.
//!
//! A session has two: lines are added to `<stem>.ids.jsonl`; when that has enough lines, it
//! replaces `<stem>.old.jsonl`. So the newest ids stay, and no line is written twice.
//!
//! # What a crash leaves
//!
//! Only ids that are synced in the journal are here: if an id survived a power loss and its message
//! did not, the message would be refused when it is delivered again.
//!
//! * *Lines added*. Unfinished: part of a line is not an id, and the next write begins with an LF.
//!   After: the same, until the checkpoint; the journal has them, and recovery adds missing ones.
//! * *File renamed*. Before or after: both have the same lines. The next line is added by a later
//!   flush, or by a recovery.

use std::collections::HashSet;
use std::io;
use std::path::{Path, PathBuf};

use serde::Serialize;
use sessionlog_wal::storage::{FileKind, OpenMode, Storage};

use super::read_whole;

/// The id of a message, and its session's key.
#[derive(Serialize)]
struct OnceLine<'a> {
    key: &'a str,
    id: &'a str,
}

/// The line for the message `id` that the session `key` took, with its LF.
pub(crate) fn line(key: &str, id: &str) -> String {
    let line = serde_json::to_string(&OnceLine { key, id });
    line.unwrap_or_default() + "\n"
}

/// The ids in lines of the session `key`, in their order.
pub(crate) fn ids<'a>(key: &str, lines: &'a [u8]) -> impl Iterator<Item = String> + 'a {
    #[derive(serde::Deserialize)]
    struct OnceRead {
        key: String,
        id: String,
    }
    let key = key.to_owned();
    let lines = lines.split_inclusive(|&byte| byte == b'\n');
    let read = lines.filter_map(|line| serde_json::from_slice::<OnceRead>(line).ok());
    read.filter_map(move |read| (read.key == key).then_some(read.id))
}

/// The two files of a session, the one that lines are added to first.
pub(crate) fn paths(dir: &Path, stem: &str) -> [PathBuf; 2] {
    ["ids", "old"].map(|which| dir.join(format!("{stem}.{which}.jsonl")))
}

/// The contents of a session's files.
#[derive(Debug, Default)]
pub(crate) struct OnceContents {
    pub(crate) lines: HashSet<Vec<u8>>,
    /// The number of lines in the file that lines are added to.
    pub(crate) newest: usize,
}

impl OnceContents {
    /// The contents of a session's files.
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

/// Reads a session's files.
///
/// # Errors
/// As the operating system reports them.
pub(crate) fn read(
    storage: &dyn Storage,
    [newest, old]: &[PathBuf; 2],
) -> io::Result<OnceContents> {
    let [newest, old] = [read_file(storage, newest)?, read_file(storage, old)?];
    Ok(OnceContents::of([&newest, &old]))
}

/// Reads one of them. Empty if it is missing, or if something other than a directory has their
/// directory's name: behind a link, the files belong to someone else.
///
/// # Errors
/// As the operating system reports them.
pub(crate) fn read_file(storage: &dyn Storage, path: &Path) -> io::Result<Vec<u8>> {
    let home = path.parent().map(|home| storage.info(home)).transpose();
    match home {
        Ok(home) if home.is_some_and(|home| home.kind != FileKind::Directory) => {
            return Ok(Vec::new());
        }
        Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
        _ => {}
    }
    match read_whole(storage, path) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        read => read,
    }
}

/// Overwrites the lines that begin with one of `begins` with blanks, in place and synced. Lines of
/// other sessions in the file stay at every step, and so do lines added meanwhile. Returns true if
/// there were any.
///
/// # Errors
/// As the operating system reports them.
pub(crate) fn blank(storage: &dyn Storage, path: &Path, begins: &[String]) -> io::Result<bool> {
    let file = match storage.open(path, OpenMode::ReadWrite) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(false),
        other => other?,
    };
    let mut bytes = vec![0; file.info()?.len as usize];
    file.read_exact_at(&mut bytes, 0)?;
    let (mut at, mut any) = (0, false);
    for line in bytes.split_inclusive(|&byte| byte == b'\n') {
        if is_of(line, begins) {
            let len = line.strip_suffix(b"\n").unwrap_or(line).len();
            file.write_all_at(&vec![b' '; len], at)?;
            any = true;
        }
        at += line.len() as u64;
    }
    if any {
        file.sync_data()?;
    }
    Ok(any)
}

/// True if a line begins with one of `begins`.
pub(crate) fn is_of(line: &[u8], begins: &[String]) -> bool {
    let mut begins = begins.iter();
    begins.any(|begin| line.starts_with(begin.as_bytes()))
}

/// The stem of the session that has its ids in a file of this name.
pub(crate) fn stem_of(name: &str) -> Option<&str> {
    let stem = name.strip_suffix(".ids.jsonl");
    stem.or_else(|| name.strip_suffix(".old.jsonl"))
}

/// Adds lines to the file at `path`, which is created if missing.
///
/// # Errors
/// As the operating system reports them; some of the lines may be there then.
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
    // A part of a line, from a write cut short, would spoil this one.
    let ended = last == *b"\n";
    let end: &[u8] = if ended { b"" } else { b"\n" };
    file.write_all_at(&[end, lines].concat(), len)
}

#[cfg(test)]
mod tests {
    use super::*;
    use sessionlog_wal::testing::disk_model::MemoryStorage;

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
