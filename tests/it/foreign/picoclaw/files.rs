//! A directory as other programs work on it.

use std::fs;
use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};

use sessionlog::testing::disk_model::MemoryStorage;

/// What a program does to the files of one directory. Nothing here fails: a test's
/// directory takes everything.
pub(crate) trait Files {
    /// The bytes of a file, if there is one.
    fn read(&self, name: &str) -> Option<Vec<u8>>;
    /// Adds to the end of the file that has the name, or makes it.
    fn append(&self, name: &str, bytes: &[u8]);
    /// Puts a new file in the place of the one that has the name.
    fn replace(&self, name: &str, bytes: &[u8]);
    /// Writes over the file that has the name, which stays the same one.
    fn overwrite(&self, name: &str, bytes: &[u8]);
    /// Takes a file away, if there is one.
    fn remove(&self, name: &str);
    /// The names of all files, in order, without directories and hidden ones.
    fn list(&self) -> Vec<String>;
}

/// A directory of a modelled disk.
#[derive(Clone, Debug)]
pub(crate) struct InMemory {
    pub(crate) disk: MemoryStorage,
    pub(crate) dir: PathBuf,
}

impl InMemory {
    pub(crate) fn new(disk: &MemoryStorage, dir: impl Into<PathBuf>) -> Self {
        Self {
            disk: disk.clone(),
            dir: dir.into(),
        }
    }
}

impl Files for InMemory {
    fn read(&self, name: &str) -> Option<Vec<u8>> {
        self.disk.read_foreign(self.dir.join(name))
    }

    fn append(&self, name: &str, bytes: &[u8]) {
        self.disk
            .append_foreign(self.dir.join(name), bytes)
            .unwrap();
    }

    fn replace(&self, name: &str, bytes: &[u8]) {
        self.disk
            .replace_foreign(self.dir.join(name), bytes)
            .unwrap();
    }

    fn overwrite(&self, name: &str, bytes: &[u8]) {
        self.disk.write_foreign(self.dir.join(name), bytes).unwrap();
    }

    fn remove(&self, name: &str) {
        match self.disk.remove_foreign(self.dir.join(name)) {
            Err(e) if e.kind() != ErrorKind::NotFound => panic!("{name}: {e}"),
            _ => {}
        }
    }

    fn list(&self) -> Vec<String> {
        let dir = self.dir.strip_prefix("/").unwrap_or(&self.dir);
        let files = self.disk.dump().into_keys();
        let own = files.filter_map(|path| {
            let name = Path::new(&path).strip_prefix(dir).ok()?.to_str()?;
            shown(name).then(|| name.to_owned())
        });
        own.collect()
    }
}

/// A directory of the machine.
#[derive(Clone, Debug)]
pub(crate) struct OnDisk {
    pub(crate) dir: PathBuf,
}

impl OnDisk {
    pub(crate) fn new(dir: impl Into<PathBuf>) -> Self {
        Self { dir: dir.into() }
    }
}

impl Files for OnDisk {
    fn read(&self, name: &str) -> Option<Vec<u8>> {
        match fs::read(self.dir.join(name)) {
            Err(e) if e.kind() == ErrorKind::NotFound => None,
            read => Some(read.unwrap()),
        }
    }

    fn append(&self, name: &str, bytes: &[u8]) {
        let mut options = fs::OpenOptions::new();
        let file = options.append(true).create(true).open(self.dir.join(name));
        file.unwrap().write_all(bytes).unwrap();
    }

    fn replace(&self, name: &str, bytes: &[u8]) {
        let mut file = tempfile::NamedTempFile::new_in(&self.dir).unwrap();
        file.write_all(bytes).unwrap();
        file.persist(self.dir.join(name)).unwrap();
    }

    fn overwrite(&self, name: &str, bytes: &[u8]) {
        fs::write(self.dir.join(name), bytes).unwrap();
    }

    fn remove(&self, name: &str) {
        match fs::remove_file(self.dir.join(name)) {
            Err(e) if e.kind() != ErrorKind::NotFound => panic!("{name}: {e}"),
            _ => {}
        }
    }

    fn list(&self) -> Vec<String> {
        let entries = fs::read_dir(&self.dir).unwrap().map(Result::unwrap);
        let files = entries.filter(|entry| entry.file_type().unwrap().is_file());
        let names = files.map(|entry| entry.file_name().into_string().unwrap());
        let mut names: Vec<_> = names.filter(|name| shown(name)).collect();
        names.sort();
        names
    }
}

/// Whether a path from the directory is that of a file in it which is not hidden.
fn shown(name: &str) -> bool {
    !name.is_empty() && !name.contains('/') && !name.starts_with('.')
}
