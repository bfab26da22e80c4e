//! Finds the files of a store's directory that hold given bytes: every byte of it is read.

use std::collections::BTreeSet;
use std::io::{self, BufReader, Read};
use std::path::Path;

use aho_corasick::AhoCorasick;
use flate2::read::MultiGzDecoder;
use sessionlog_core::error::{Error, Result};
use sessionlog_wal::storage::{FileKind, OpenMode, Storage};

use crate::engine::glance;

/// The bytes of a file that are read at a time.
const CHUNK: usize = 1 << 20;

/// The result of a look at all files.
#[derive(Debug, Default)]
pub(crate) struct FilesLook {
    /// The files with a text in them or in their names, each with the numbers of its texts.
    pub(crate) found: Vec<(String, BTreeSet<usize>)>,
    /// The files that could not be read.
    pub(crate) unread: Vec<String>,
    pub(crate) files: usize,
    pub(crate) bytes: u64,
}

/// Texts to search for.
#[derive(Debug)]
pub(crate) struct Texts {
    automaton: AhoCorasick,
    longest: usize,
    count: usize,
}

impl Texts {
    /// # Errors
    /// If there are more than can be searched for at once.
    pub(crate) fn of(dir: &Path, texts: &[String]) -> Result<Self> {
        let automaton = AhoCorasick::new(texts);
        let reason = |e: aho_corasick::BuildError| io::Error::other(e.to_string());
        Ok(Self {
            automaton: automaton.map_err(|e| Error::io("search", dir, reason(e)))?,
            longest: texts.iter().map(String::len).max().unwrap_or(0),
            count: texts.len(),
        })
    }

    /// Adds the numbers of the texts in `bytes`.
    fn add(&self, bytes: &[u8], found: &mut BTreeSet<usize>) {
        let all = self.automaton.find_overlapping_iter(bytes);
        for hit in all {
            found.insert(hit.pattern().as_usize());
            if found.len() == self.count {
                return;
            }
        }
    }

    /// Returns the numbers of the texts in a file or its name, and the file's length.
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
        let path = dir.join(name);
        let file = storage.open(&path, OpenMode::Read)?;
        let len = file.info()?.len;
        let bytes = |at: u64, buf: &mut [u8]| {
            let more = (len - at).min(buf.len() as u64) as usize;
            file.read_at(&mut buf[..more], at)
        };
        self.stream(&mut FileBytes { bytes, at: 0 }, &mut found)?;
        if found.len() < self.count && path.extension().is_some_and(|end| end == "gz") {
            let compressed = FileBytes { bytes, at: 0 };
            let mut lines = MultiGzDecoder::new(BufReader::new(compressed));
            // A file that is no archive, or is damaged, is searched as far as it reads.
            if let Err(error) = self.stream(&mut lines, &mut found) {
                tracing::warn!(name, %error, "a compressed file is searched in part");
            }
        }
        Ok((found, len))
    }

    fn stream(&self, from: &mut dyn Read, found: &mut BTreeSet<usize>) -> io::Result<()> {
        // A text may lie across the end of a chunk.
        let kept = self.longest.saturating_sub(1);
        let mut bytes = Vec::new();
        while found.len() < self.count {
            bytes.drain(..bytes.len().saturating_sub(kept));
            let chunk = Read::take(&mut *from, CHUNK as u64).read_to_end(&mut bytes);
            self.add(&bytes, found);
            if chunk? == 0 {
                return Ok(());
            }
        }
        Ok(())
    }
}

/// A file that is read from its beginning.
struct FileBytes<F> {
    bytes: F,
    at: u64,
}

impl<F: Fn(u64, &mut [u8]) -> io::Result<usize>> Read for FileBytes<F> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let read = (self.bytes)(self.at, buf)?;
        self.at += read as u64;
        Ok(read)
    }
}

/// Returns the names of all regular files in `dir` and below.
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
pub(crate) fn look(storage: &dyn Storage, dir: &Path, texts: &Texts) -> Result<FilesLook> {
    let files = files(storage, dir)?;
    let each = glance::each(&files, 1, &|name| texts.within(storage, dir, name));
    let mut looked = FilesLook::default();
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
    use sessionlog_wal::testing::disk_model::MemoryStorage;

    #[test]
    fn a_text_is_found_in_names_and_wherever_it_lies_in_a_file() {
        let disk = MemoryStorage::new();
        let dir = Path::new("/s");
        let texts = ["secret", "ret!", "nowhere"].map(String::from);
        for at in [0, CHUNK - 9, CHUNK - 3, CHUNK, 2 * CHUNK - 1] {
            let mut bytes = vec![b'x'; at];
            bytes.extend(b"secret!");
            bytes.resize(at + CHUNK / 2, b'y');
            disk.write_foreign(format!("/s/below/{at}"), &bytes)
                .unwrap();
        }
        disk.write_foreign("/s/secret.txt", b"").unwrap();
        let mut lines = crate::disk::archive::encode("cli", b"nothing").unwrap();
        lines.extend(crate::disk::archive::encode("cli", b"a secret!").unwrap());
        disk.write_foreign("/s/below/1.gz", &lines).unwrap();
        disk.write_foreign("/s/other", b"secre").unwrap();
        let texts = Texts::of(dir, &texts).unwrap();
        let looked = look(&disk, dir, &texts).unwrap();
        assert_eq!(looked.files, 8);
        assert_eq!(looked.found.len(), 7, "{looked:?}");
        for (name, found) in looked.found {
            let both = name.starts_with("below/");
            assert!(found.contains(&0));
            assert_eq!(found.contains(&1), both);
            assert!(!found.contains(&2));
        }
    }
}
