//! Which files of a store's directory hold given bytes: every byte of it is read.

use std::collections::BTreeSet;
use std::io;
use std::path::Path;

use aho_corasick::AhoCorasick;

use super::glance;
use crate::error::{Error, Result};
use crate::ground::storage::{FileKind, OpenMode, Storage};

/// How much of a file is read at a time, bytes.
const CHUNK: usize = 1 << 20;

/// What a look at all files found.
#[derive(Debug, Default)]
pub(crate) struct Looked {
    /// The files with a text in them or in their names, and which texts.
    pub(crate) found: Vec<(String, BTreeSet<usize>)>,
    /// What could not be read.
    pub(crate) unread: Vec<String>,
    pub(crate) files: usize,
    pub(crate) bytes: u64,
}

/// Texts that are looked for.
#[derive(Debug)]
pub(crate) struct Texts {
    automaton: AhoCorasick,
    longest: usize,
    count: usize,
}

impl Texts {
    /// # Errors
    /// If they are more than can be looked for at once.
    pub(crate) fn of(dir: &Path, texts: &[String]) -> Result<Self> {
        let automaton = AhoCorasick::new(texts);
        let reason = |e: aho_corasick::BuildError| io::Error::other(e.to_string());
        Ok(Self {
            automaton: automaton.map_err(|e| Error::io("search", dir, reason(e)))?,
            longest: texts.iter().map(String::len).max().unwrap_or(0),
            count: texts.len(),
        })
    }

    /// Which of them are in `bytes`, too.
    fn add(&self, bytes: &[u8], found: &mut BTreeSet<usize>) {
        let all = self.automaton.find_overlapping_iter(bytes);
        for hit in all {
            found.insert(hit.pattern().as_usize());
            if found.len() == self.count {
                return;
            }
        }
    }

    /// Which of them are in a file or its name, and how long it is.
    ///
    /// # Errors
    /// As the operating system reports them.
    pub(crate) fn within(
        &self,
        storage: &dyn Storage,
        dir: &Path,
        name: &str,
    ) -> io::Result<(BTreeSet<usize>, u64)> {
        let mut found = BTreeSet::new();
        self.add(name.as_bytes(), &mut found);
        let file = storage.open(&dir.join(name), OpenMode::Read)?;
        let len = file.info()?.len;
        // A text may lie across the end of a chunk.
        let kept = self.longest.saturating_sub(1);
        let (mut bytes, mut at) = (Vec::new(), 0);
        while at < len && found.len() < self.count {
            bytes.drain(..bytes.len().saturating_sub(kept));
            let before = bytes.len();
            bytes.resize(before + (len - at).min(CHUNK as u64) as usize, 0);
            let read = file.read_at(&mut bytes[before..], at)?;
            bytes.truncate(before + read);
            if read == 0 {
                break;
            }
            at += read as u64;
            self.add(&bytes, &mut found);
        }
        Ok((found, len))
    }
}

/// The names of all regular files in `dir` and below.
///
/// # Errors
/// If one of the directories cannot be listed.
pub(crate) fn files(storage: &dyn Storage, dir: &Path) -> Result<Vec<String>> {
    let (mut files, mut dirs) = (Vec::new(), vec![String::new()]);
    while let Some(above) = dirs.pop() {
        let path = dir.join(&above);
        let entries = match storage.read_dir(&path) {
            Err(e) if e.kind() == io::ErrorKind::NotFound && !above.is_empty() => continue,
            listed => listed.map_err(|e| Error::io("list", &path, e))?,
        };
        for entry in entries {
            let name = if above.is_empty() {
                entry.name
            } else {
                format!("{above}/{}", entry.name)
            };
            match entry.kind {
                FileKind::Directory => dirs.push(name),
                FileKind::File => files.push(name),
                FileKind::Symlink | FileKind::Other => {}
            }
        }
    }
    files.sort_unstable();
    Ok(files)
}

/// Reads all files, on as many threads as the machine runs at once.
///
/// # Errors
/// If a directory cannot be listed.
pub(crate) fn look(storage: &dyn Storage, dir: &Path, texts: &Texts) -> Result<Looked> {
    let files = files(storage, dir)?;
    let each = glance::each(&files, 1, &|name| texts.within(storage, dir, name));
    let mut looked = Looked::default();
    for (name, within) in files.into_iter().zip(each) {
        match within {
            Ok((found, len)) => {
                looked.files += 1;
                looked.bytes += len;
                if !found.is_empty() {
                    looked.found.push((name, found));
                }
            }
            Err(e) if e.kind() == io::ErrorKind::NotFound => {}
            Err(error) => {
                tracing::warn!(name, %error, "a file is not searched");
                looked.unread.push(name);
            }
        }
    }
    Ok(looked)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::disk_model::MemoryStorage;

    #[test]
    fn a_text_is_found_in_names_and_wherever_it_lies_in_a_file() {
        let disk = MemoryStorage::new();
        let dir = Path::new("/s");
        let texts = ["secret", "ret!", "nowhere"].map(String::from);
        for at in [0, CHUNK - 9, CHUNK - 3, CHUNK, 2 * CHUNK - 1] {
            let mut bytes = vec![b'x'; at];
            bytes.extend(b"secret!");
            bytes.resize(at + CHUNK / 2, b'y');
            disk.write_foreign(&format!("/s/below/{at}"), &bytes)
                .unwrap();
        }
        disk.write_foreign("/s/secret.txt", b"").unwrap();
        disk.write_foreign("/s/other", b"secre").unwrap();
        let texts = Texts::of(dir, &texts).unwrap();
        let looked = look(&disk, dir, &texts).unwrap();
        assert_eq!(looked.files, 7);
        assert_eq!(looked.found.len(), 6, "{looked:?}");
        for (name, found) in looked.found {
            let both = name.starts_with("below/");
            assert_eq!(found.contains(&0), true);
            assert_eq!(found.contains(&1), both);
            assert!(!found.contains(&2));
        }
    }
}
