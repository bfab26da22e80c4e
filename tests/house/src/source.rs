//! The files of the repository.

use std::fs;
use std::path::{Path, PathBuf};

/// A source file, by its path from the repository's root.
#[derive(Debug)]
pub(crate) struct Source {
    pub(crate) path: String,
    pub(crate) text: String,
}

/// Where the repository is.
pub(crate) fn root() -> &'static Path {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    package
        .ancestors()
        .nth(2)
        .expect("the package is tests/house")
}

/// Reads one file of the repository.
pub(crate) fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|e| panic!("{path}: {e}"))
}

/// The crates that a store is made of, by their directories; the first depends on the others.
pub(crate) const CRATES: [&str; 3] = ["", "crates/wal/", "crates/core/"];

/// Every source file of a crate, by its path there, in the order of their paths.
pub(crate) fn crate_sources(krate: &str) -> Vec<Source> {
    let mut sources = Vec::new();
    for path in everything() {
        let inside = path.strip_prefix(krate);
        if let Some(inside) = inside.filter(|path| path.starts_with("src/") && is_rust(path)) {
            sources.push(Source {
                text: read(&path),
                path: inside.to_owned(),
            });
        }
    }
    sources
}

/// Whether a path is that of a source.
pub(crate) fn is_rust(path: &str) -> bool {
    Path::new(path).extension().is_some_and(|end| end == "rs")
}

/// Every file, and every directory with a `/` at its end, that is not built.
pub(crate) fn everything() -> Vec<String> {
    let mut found = Vec::new();
    let mut left = vec![PathBuf::new()];
    while let Some(dir) = left.pop() {
        for (path, is_dir) in entries(&dir) {
            let text = path.to_str().expect("sources have names in UTF-8");
            if is_dir {
                found.push(format!("{text}/"));
                left.push(path);
            } else {
                found.push(text.to_owned());
            }
        }
    }
    found.sort();
    found
}

fn entries(dir: &Path) -> Vec<(PathBuf, bool)> {
    let entries = fs::read_dir(root().join(dir)).expect("a directory of the repository");
    let entries = entries.map(|entry| entry.expect("a directory that stays as it is"));
    let ours = entries.filter(|entry| entry.file_name() != "target" && entry.file_name() != ".git");
    ours.map(|entry| {
        let is_dir = entry.file_type().expect("an entry has a type").is_dir();
        (dir.join(entry.file_name()), is_dir)
    })
    .collect()
}

/// Which part of the sources a file belongs to: the name of its directory under
/// `src`, or nothing for a file that stands there itself.
pub(crate) fn room(path: &str) -> Option<&str> {
    let (room, _) = path.strip_prefix("src/")?.split_once('/')?;
    Some(room)
}
