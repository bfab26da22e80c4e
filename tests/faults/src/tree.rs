//! A copy of the repository that faults are put into.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

#[derive(Debug)]
pub(crate) struct Tree {
    /// Where what is built and said goes.
    pub(crate) work: PathBuf,
    /// The copy.
    pub(crate) root: PathBuf,
}

pub(crate) fn repository() -> &'static Path {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    package.ancestors().nth(2).expect("stands in tests/faults")
}

impl Tree {
    /// Copies what has changed since the last run, so that cargo builds only that again.
    pub(crate) fn copied() -> Self {
        let target = std::env::var_os("CARGO_TARGET_DIR")
            .map_or_else(|| repository().join("target"), PathBuf::from);
        let target = std::path::absolute(target).expect("is a path");
        let work = target.join("faults");
        let tree = Self {
            root: work.join("source"),
            work,
        };
        let listed = Command::new("git")
            .args([
                "ls-files",
                "-z",
                "--cached",
                "--others",
                "--exclude-standard",
            ])
            .current_dir(repository())
            .output()
            .expect("git is there");
        let listed = String::from_utf8(listed.stdout).expect("names are text");
        let mut names: Vec<_> = listed.split_terminator('\0').collect();
        names.retain(|name| repository().join(name).is_file());
        for name in &names {
            tree.restore(name);
        }
        let is_listed = |path: &Path| {
            let name = path.strip_prefix(&tree.root).expect("stands below it");
            names.iter().any(|listed| Path::new(listed) == name)
        };
        for path in files_below(&tree.root) {
            if !is_listed(&path) {
                fs::remove_file(path).expect("can be removed");
            }
        }
        tree
    }

    /// The files that a patch changes, as it would have them. Its context may have changed by
    /// up to three lines.
    ///
    /// # Errors
    /// What `patch` says if it does not apply.
    pub(crate) fn patched(&self, patch: &Path) -> Result<HashMap<String, String>, String> {
        let text = fs::read_to_string(patch).expect("is text");
        let names: Vec<_> = text
            .lines()
            .filter_map(|line| line.strip_prefix("+++ b/"))
            .collect();
        let done = Command::new("patch")
            .args([
                "--silent",
                "--forward",
                "--fuzz=3",
                "--no-backup-if-mismatch",
            ])
            .args(["--reject-file=-", "-p1", "--input"])
            .arg(patch)
            .current_dir(&self.root)
            .output()
            .expect("patch is installed");
        let changed = names
            .iter()
            .map(|&name| (name.to_owned(), self.read(name)))
            .collect();
        for name in names {
            self.restore(name);
        }
        if done.status.success() {
            Ok(changed)
        } else {
            Err(String::from_utf8_lossy(&done.stdout)
                .trim()
                .replace('\n', "; "))
        }
    }

    pub(crate) fn read(&self, name: &str) -> String {
        fs::read_to_string(self.root.join(name)).unwrap_or_default()
    }

    /// Writes a file of the copy, if that changes it.
    pub(crate) fn write(&self, name: &str, text: &str) {
        self.write_bytes(name, text.as_bytes());
    }

    /// Makes a file of the copy what it is in the repository.
    pub(crate) fn restore(&self, name: &str) {
        let bytes = fs::read(repository().join(name)).expect("can be read");
        self.write_bytes(name, &bytes);
        let from = repository().join(name);
        let mode = fs::metadata(from).expect("can be read").permissions();
        fs::set_permissions(self.root.join(name), mode).expect("can be set");
    }

    fn write_bytes(&self, name: &str, bytes: &[u8]) {
        let path = self.root.join(name);
        if fs::read(&path).is_ok_and(|there| there == bytes) {
            return;
        }
        fs::create_dir_all(path.parent().expect("stands in a folder")).expect("can be made");
        fs::write(path, bytes).expect("can be written");
    }
}

fn files_below(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
            let list = if is_folder { &mut folders } else { &mut files };
            list.push(entry.path());
        }
    }
    files
}
