//! Directories of a run, deleted only when it ends.

use std::path::{Path, PathBuf};

use super::Outcome;

/// One directory per run, a fresh one inside it for every contender and round.
///
/// Nothing is deleted before the run is over: on ext4, deleting many files
/// makes creating files slow for minutes, and the contender that runs next
/// would be measured paying for it.
pub(crate) struct Scratch {
    root: PathBuf,
    keep: bool,
}

impl Scratch {
    /// Creates the run's directory in `parent`, or where Cargo keeps the
    /// temporary files of this package's benchmarks, or in the system's.
    pub(crate) fn new(parent: Option<&Path>, name: &str, keep: bool) -> Outcome<Self> {
        let usual = option_env!("CARGO_TARGET_TMPDIR").map_or_else(std::env::temp_dir, Into::into);
        let parent = parent.unwrap_or(&usual);
        let root = parent.join(format!("{name}-{}", std::process::id()));
        std::fs::create_dir_all(&root)?;
        Ok(Self { root, keep })
    }

    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// A new, empty directory.
    pub(crate) fn fresh(&self, name: &str) -> Outcome<PathBuf> {
        let dir = self.root.join(name);
        std::fs::create_dir(&dir)?;
        Ok(dir)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if self.keep {
            eprintln!("kept {}", self.root.display());
        } else if let Err(error) = std::fs::remove_dir_all(&self.root) {
            eprintln!("{} stays behind: {error}", self.root.display());
        }
    }
}
