//! The process that has a store open for writing. The lock is only looked at: a lock that is tried
//! for a moment could refuse a gateway that starts in that moment.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use serde::Serialize;

/// The writer of a store.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Writer {
    /// No process has it open.
    Nobody,
    /// This process has it open.
    Process(u32),
    /// A process has it open; its id is not known.
    Somebody,
    /// This system does not tell.
    Unknown,
}

/// Returns the process that has the store in `dir` open for writing.
pub(crate) fn writer(dir: &Path) -> Writer {
    let file = dir.join(".sessionlog/lock");
    let Ok(info) = std::fs::metadata(&file) else {
        return Writer::Nobody;
    };
    let Ok(locks) = std::fs::read_to_string("/proc/locks") else {
        return Writer::Unknown;
    };
    let inode = format!(":{}", info.ino());
    // "7: FLOCK  ADVISORY  WRITE 4711 fe:00:1234 0 EOF"; on some file systems the device differs
    // from the file's own.
    let is_it = |line: &&str| {
        let mut fields = line.split_whitespace().skip(1);
        fields.next() == Some("FLOCK") && fields.nth(3).is_some_and(|place| place.ends_with(&inode))
    };
    if !locks.lines().any(|line| is_it(&line)) {
        return Writer::Nobody;
    }
    let pid = std::fs::read_to_string(&file).ok();
    let pid = pid.and_then(|note| note.split_whitespace().next()?.parse().ok());
    match pid {
        Some(pid) => Writer::Process(pid),
        None => Writer::Somebody,
    }
}

impl Writer {
    /// Returns the text for a person.
    pub(crate) fn text(&self) -> String {
        match self {
            Self::Nobody => String::from("none"),
            Self::Process(pid) => format!("process {pid}"),
            Self::Somebody => String::from("a process (its id is not known)"),
            Self::Unknown => String::from("this system does not tell"),
        }
    }
}
