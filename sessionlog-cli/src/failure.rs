//! The reason that a command failed, and the next step.

use std::fmt;
use std::io;

use sessionlog::{Error, ErrorKind};

use crate::names;

pub(crate) type Result<T> = std::result::Result<T, Failure>;

/// The outcome of a command that did not fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// It did its work: the exit code is 0.
    Done,
    /// Nothing was found, or damage was: the exit code is 1.
    Nothing,
}

impl Outcome {
    /// Returns the outcome of a search: `Done` if `is_found`.
    pub(crate) fn found(is_found: bool) -> Self {
        if is_found { Self::Done } else { Self::Nothing }
    }
}

/// The reason that a command failed.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The reader of the output went away, which is no failure.
    NobodyReads,
    /// A failure to report.
    Told {
        /// The failure.
        what: String,
        /// The next step.
        hint: Option<String>,
    },
}

impl Failure {
    /// Makes a failure. Keys of the open store that are hashes are replaced by names.
    pub(crate) fn new(what: impl Into<String>) -> Self {
        Self::Told {
            what: names::text(&what.into()),
            hint: None,
        }
    }

    /// Adds the next step.
    pub(crate) fn hint(self, hint: impl Into<String>) -> Self {
        match self {
            Self::NobodyReads => self,
            Self::Told { what, .. } => Self::Told {
                what,
                hint: Some(names::text(&hint.into())),
            },
        }
    }

    /// The failure and the next step, in one line.
    pub(crate) fn with_hint(&self) -> String {
        match self {
            Self::Told {
                hint: Some(hint), ..
            } => format!("{self}; {hint}"),
            _ => self.to_string(),
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NobodyReads => f.write_str("nobody reads the output"),
            Self::Told { what, .. } => f.write_str(what),
        }
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        if error.kind() == io::ErrorKind::BrokenPipe {
            return Self::NobodyReads;
        }
        Self::new(error.to_string())
    }
}

impl From<serde_json::Error> for Failure {
    fn from(error: serde_json::Error) -> Self {
        io::Error::from(error).into()
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let failure = Self::new(error.to_string());
        match hint_of(&error) {
            Some(hint) => failure.hint(hint),
            None => failure,
        }
    }
}

fn hint_of(error: &Error) -> Option<String> {
    Some(match error {
        Error::Locked { pid, .. } => locked(*pid),
        Error::Corrupt { .. } => String::from(
            "`sessionlog verify DIR` says what is wrong, `sessionlog repair DIR` mends it",
        ),
        Error::SessionNotFound { .. } => {
            String::from("`sessionlog ls DIR` shows the sessions there are")
        }
        Error::SessionExists { .. } => String::from("give it another key with --to"),
        Error::InvalidPattern { .. } => {
            String::from("without -E the pattern is looked for as it stands")
        }
        Error::StorageFull { .. } => String::from(
            "make room on that file system, then try again; nothing is lost (`df -h` shows \
                 its space, `df -i` its inodes, `quota` what a user may take)",
        ),
        Error::InStore { .. } => String::from("choose a place outside of any store's directory"),
        Error::Io { source, path, .. } => return io_hint(source.kind(), path),
        _ => return kind_hint(error.kind()),
    })
}

/// Returns the next step for a store that another process writes to.
fn locked(pid: Option<u32>) -> String {
    match pid {
        Some(pid) => format!(
            "process {pid} has it open for writing: stop that, or do this through it \
             (`ps -p {pid}` shows what it is), or wait for it with --wait; ls, show, tail, search, \
             stat, top, serve, verify, export, backup, copy and archive work beside it"
        ),
        None => String::from(
            "another process has it open for writing: stop that first, or wait for it with --wait; \
             ls, show, tail, search, stat, top, serve, verify, export, backup, copy and archive \
             work beside it",
        ),
    }
}

fn io_hint(kind: io::ErrorKind, path: &std::path::Path) -> Option<String> {
    let path = path.display();
    Some(match kind {
        io::ErrorKind::NotFound => format!("is {path} the right directory?"),
        io::ErrorKind::PermissionDenied => {
            format!("run this as the user to whom {path} belongs (`ls -ld {path}`)")
        }
        io::ErrorKind::NotADirectory => String::from("name the directory of a store"),
        io::ErrorKind::AlreadyExists | io::ErrorKind::DirectoryNotEmpty => {
            String::from("choose a name that is not taken")
        }
        _ => return None,
    })
}

fn kind_hint(kind: ErrorKind) -> Option<String> {
    match kind {
        ErrorKind::Corrupt => Some(String::from("`sessionlog verify DIR` says what is wrong")),
        _ => None,
    }
}
