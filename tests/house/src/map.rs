//! `ARCHITECTURE.md`, which is read before the code.

use std::collections::BTreeSet;

use crate::nobody_breaks;
use crate::source::{everything, is_rust, read};

/// What a store makes in its directory, and how parts of a path are parted: no
/// paths of the repository.
const ON_DISK: [&str; 4] = [".sessionlog/", "backups/", "quarantine/", "/"];

/// The paths of sources and directories that a text names.
fn paths(text: &str) -> Vec<(usize, &str)> {
    let lines = text.lines().zip(1..);
    let quoted = lines.flat_map(|(line, number)| {
        let parts = line.split('`').skip(1).step_by(2);
        parts.map(move |part| (number, part))
    });
    let is_path = |part: &str| is_rust(part) || part.ends_with('/');
    quoted
        .filter(|(_, part)| is_path(part) && !part.contains(char::is_whitespace))
        .filter(|(_, part)| !ON_DISK.iter().any(|name| part == name))
        .collect()
}

/// Whether a path is there: from the root, or as the end of a path.
fn exists(path: &str, files: &BTreeSet<String>) -> bool {
    let top = path.split_once('/').map(|(top, _)| format!("{top}/"));
    if top.is_some_and(|top| files.contains(&top)) {
        return files.contains(path);
    }
    let end = format!("/{path}");
    files.contains(path) || files.iter().any(|file| file.ends_with(&end))
}

#[test]
fn the_map_names_only_what_is_there() {
    let files = everything().into_iter().collect();
    let text = read("ARCHITECTURE.md");
    let gone = paths(&text)
        .into_iter()
        .filter(|(_, path)| !exists(path, &files));
    let gone: Vec<_> = gone
        .map(|(line, path)| format!("ARCHITECTURE.md:{line}: {path}"))
        .collect();
    nobody_breaks("the map names files and directories that exist", &gone);
}

#[cfg(test)]
mod tests {
    use super::{exists, paths};

    #[test]
    fn a_path_that_is_not_there_is_found_with_its_line() {
        let files = ["src/", "src/engine/", "src/engine/open.rs", "tests/"];
        let files = files.map(str::to_owned).into();
        let text = "`Open` in `open.rs`,\n`src/engine/`, `engine/open.rs`;\n`src/open.rs` and `gone/` in `quarantine/`";
        let gone: Vec<_> = paths(text)
            .into_iter()
            .filter(|(_, p)| !exists(p, &files))
            .collect();
        assert_eq!(gone, [(3, "src/open.rs"), (3, "gone/")]);
    }
}
