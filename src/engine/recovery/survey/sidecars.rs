//! Reads all sidecars of a directory.

use std::io;
use std::path::Path;

use sessionlog_core::session_file::{self, SessionMeta};
use sessionlog_wal::storage::Storage;
use sessionlog_wal::sync::thread;

use crate::disk::files::sidecar;

/// Number of sidecars that is worth another thread.
const MANY: usize = 1_000;

/// The content of the files named as sidecars.
#[derive(Default)]
pub(super) struct Sidecars {
    pub(super) metas: Vec<(String, SessionMeta)>,
    /// Those that are no sidecars: sessions of PicoClaw's older manager with keys that end in
    /// `.meta`, each in a file with the name of a sidecar.
    pub(super) unimported: Vec<String>,
    /// Those that are there, and could not be read; a later attempt may succeed.
    pub(super) unread: Vec<String>,
    /// Those that do not decode, each with its finding.
    pub(super) damaged: Vec<(String, String)>,
    /// The findings about the others.
    pub(super) findings: Vec<String>,
}

/// Reads the sidecars of `stems`, on several threads if they are many.
pub(super) fn read_sidecars(storage: &dyn Storage, dir: &Path, stems: &[String]) -> Sidecars {
    let parts = stems.len() / MANY + 1;
    read_parts(
        storage,
        dir,
        stems,
        parts.min(thread::available_parallelism()),
    )
}

fn read_parts(storage: &dyn Storage, dir: &Path, stems: &[String], parts: usize) -> Sidecars {
    if parts < 2 {
        let mut found = Sidecars::default();
        for stem in stems {
            found.read(storage, dir, stem);
        }
        return found;
    }
    let (half, rest) = (parts / 2, parts - parts / 2);
    let (first, second) = stems.split_at(stems.len() * half / parts);
    let (mut first, second) = thread::both(
        || read_parts(storage, dir, first, half),
        || read_parts(storage, dir, second, rest),
    );
    first.append(second);
    first
}

impl Sidecars {
    fn append(&mut self, after: Self) {
        self.metas.extend(after.metas);
        self.unimported.extend(after.unimported);
        self.unread.extend(after.unread);
        self.damaged.extend(after.damaged);
        self.findings.extend(after.findings);
    }

    fn read(&mut self, storage: &dyn Storage, dir: &Path, stem: &str) {
        let name = session_file::sidecar_name(stem);
        let path = dir.join(&name);
        let bytes = match sidecar::read_bytes(storage, &path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return self.damaged(&path, stem, &error.to_string());
            }
            Err(error) => {
                let path = path.display();
                self.findings.push(format!(
                    "{path} cannot be read ({error}); its session is refused until it can be"
                ));
                return self.unread.push(stem.to_owned());
            }
        };
        if session_file::holds_own_session(&name, &bytes) {
            let path = path.display();
            let finding = format!("{path} is no sidecar but a session to be imported");
            self.findings.push(finding);
            return self.unimported.push(stem.to_owned());
        }
        match session_file::decode_sidecar(&bytes) {
            Ok(meta) => self.metas.push((stem.to_owned(), meta)),
            Err(reason) => self.damaged(&path, stem, &reason),
        }
    }

    fn damaged(&mut self, path: &Path, stem: &str, reason: &str) {
        let finding = format!(
            "{} does not decode ({reason}); the history is kept, what only the sidecar \
             said is lost, and the session is listed again once it is written to",
            path.display()
        );
        self.damaged.push((stem.to_owned(), finding));
    }
}
