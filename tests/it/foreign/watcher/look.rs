//! One look at a session's two files.

use std::fs;
use std::io::Read as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use crate::foreign::picoclaw::{Record, log_name, shown, sidecar_name};

/// What the two files were at one moment.
#[derive(Debug)]
pub(super) struct Look {
    pub(super) sidecar: Option<Vec<u8>>,
    pub(super) log: Option<Vec<u8>>,
}

/// Which file it is, and how long it is.
type Identity = (u64, u64);

impl Look {
    /// Reads the sidecar, then the log. If one of them changes meanwhile, the error
    /// says whether PicoClaw would have refused the sidecar.
    pub(super) fn take(dir: &Path, key: &str) -> Result<Self, bool> {
        let [sidecar_path, log_path] = [sidecar_name(key), log_name(key)].map(|n| dir.join(n));
        let (sidecar, log) = (read(&sidecar_path), read(&log_path));
        let log_before = log.as_ref().map(|(identity, _)| *identity);
        let same = read(&sidecar_path) == sidecar && identity(&log_path) == log_before;
        let look = Self {
            sidecar: sidecar.map(|(_, bytes)| bytes),
            log: log.map(|(_, bytes)| bytes),
        };
        if same {
            Ok(look)
        } else {
            Err(shown(look.sidecar.as_deref(), None).is_err())
        }
    }

    /// The numbers of the messages that PicoClaw shows. It takes control records for
    /// messages without a text, and those are left out.
    ///
    /// # Errors
    /// Why it shows none, or something else.
    pub(super) fn numbers(&self) -> Result<Vec<u64>, String> {
        let shown = shown(self.sidecar.as_deref(), self.log.as_deref());
        let shown = shown.map_err(|_| format!("the sidecar does not decode: {}", self.told()))?;
        let messages = shown.iter().filter(|record| !is_control(record));
        let numbers = messages.map(number).collect::<Option<_>>();
        numbers.ok_or_else(|| format!("a message has no number: {}", self.told()))
    }

    /// What the sidecar says, and how many lines the log has.
    pub(super) fn told(&self) -> String {
        let sidecar = self.sidecar.as_deref().map(String::from_utf8_lossy);
        let lines = |log: &[u8]| log.split_inclusive(|byte| *byte == b'\n').count();
        let lines = self.log.as_deref().map(lines);
        format!("the sidecar is {sidecar:?}, the log has {lines:?} lines")
    }
}

fn is_control(record: &Record) -> bool {
    let role = record["role"].as_str();
    role.is_some_and(|role| role.starts_with('_'))
}

fn number(record: &Record) -> Option<u64> {
    record["content"].as_str()?.split(' ').next()?.parse().ok()
}

fn identity(path: &Path) -> Option<Identity> {
    let found = fs::metadata(path).ok()?;
    Some((found.ino(), found.len()))
}

/// What a file holds, and which one it is if it was that long all the time.
fn read(path: &Path) -> Option<(Identity, Vec<u8>)> {
    let mut file = fs::File::open(path).ok()?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes).unwrap();
    let inode = file.metadata().unwrap().ino();
    Some(((inode, bytes.len() as u64), bytes))
}
