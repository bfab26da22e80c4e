//! Files and directories by path, without calls that fail on demand.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Component, Path};
use std::sync::{Arc, Weak};

use rustix::io::Errno;
use unicode_normalization::UnicodeNormalization;

use super::inode::Inode;
use super::names::{DirectoryNames, Entries, Ino};
use super::write_back::{Errors, Known};
use crate::storage::{DirEntry, FileInfo, FileKind, OpenMode};

/// The directory that every path starts from.
pub(super) const ROOT: Ino = 1;
/// The user that owns what the engine creates.
pub(super) const USER: u32 = 1000;
/// The longest file name, as on the file systems in use.
const MAX_NAME: usize = 255;
/// File times start here and advance with every change, by more than what has the same
/// time on a real disk.
const EPOCH: i128 = 1_700_000_000_000_000_000;
const TICK: i128 = 25_000_001;

/// All files and directories.
#[derive(Debug)]
pub(super) struct Tree {
    pub(super) nodes: BTreeMap<Ino, Node>,
    pub(super) names: DirectoryNames,
    /// Failures to write any file back.
    pub(super) errors: Errors,
    /// Orders every change of the file system.
    pub(super) clock: u64,
    /// The sizes of all files may add up to this.
    pub(super) capacity: u64,
    pub(super) next: Ino,
    /// Whether names that differ in case, or in how a character is composed, are
    /// one.
    pub(super) folds: bool,
    /// How many nodes there may be before nameless ones are looked for.
    pub(super) collect_above: usize,
}

/// What an inode number stands for.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) what: What,
    pub(super) owner: u32,
    pub(super) mode: u32,
    /// Failures to write it back.
    pub(super) errors: Errors,
    /// Shared with every open file of this node, which keeps the node.
    pub(super) open: Arc<()>,
    /// Alive while somebody holds the lock.
    lock: Weak<()>,
}

#[derive(Clone, Debug)]
pub(super) enum What {
    File(Inode),
    Directory,
    Symlink,
}

/// What an open file holds on to.
#[derive(Debug)]
pub(super) struct OpenFile {
    pub(super) ino: Ino,
    pub(super) known: Known,
    /// Keeps the file's bytes while it is open.
    pub(super) open: Arc<()>,
}

impl Node {
    pub(super) fn new(what: What, owner: u32, mode: u32) -> Self {
        Self {
            what,
            owner,
            mode,
            errors: Errors::default(),
            open: Arc::new(()),
            lock: Weak::new(),
        }
    }

    /// The same, open nowhere and locked by nobody.
    pub(super) fn detached(&self, what: What) -> Self {
        Self::new(what, self.owner, self.mode)
    }

    pub(super) fn opens(&self) -> usize {
        Arc::strong_count(&self.open) - 1
    }

    /// The size of a file; other nodes take no space here.
    pub(super) fn len(&self) -> u64 {
        match &self.what {
            What::File(inode) => inode.cache().len(),
            What::Directory | What::Symlink => 0,
        }
    }

    fn kind(&self) -> FileKind {
        match self.what {
            What::File(_) => FileKind::File,
            What::Directory => FileKind::Directory,
            What::Symlink => FileKind::Symlink,
        }
    }
}

impl Tree {
    pub(super) fn new() -> Self {
        let mut names = DirectoryNames::default();
        names.add_directory(ROOT);
        let root = Node::new(What::Directory, USER, 0o700);
        Self {
            nodes: BTreeMap::from([(ROOT, root)]),
            names,
            errors: Errors::default(),
            clock: 0,
            capacity: u64::MAX,
            next: ROOT + 1,
            folds: false,
            collect_above: 64,
        }
    }

    pub(super) fn create_dir(&mut self, path: &Path) -> io::Result<()> {
        self.create(path, Node::new(What::Directory, USER, 0o700))?;
        Ok(())
    }

    pub(super) fn read_dir(&self, path: &Path) -> io::Result<Vec<DirEntry>> {
        let directory = self.lookup(path)?;
        let entry = |(name, ino): (&Arc<str>, &Ino)| {
            Ok(DirEntry {
                name: name.to_string(),
                kind: self.node(*ino)?.kind(),
            })
        };
        self.entries(directory)?.iter().map(entry).collect()
    }

    pub(super) fn open(&mut self, path: &Path, mode: OpenMode) -> io::Result<OpenFile> {
        let ino = match mode {
            OpenMode::CreateNew => {
                self.create(path, Node::new(What::File(Inode::default()), USER, 0o600))?
            }
            OpenMode::Read | OpenMode::ReadWrite => self.lookup(path)?,
        };
        let node = self.node(ino)?;
        if node.kind() != FileKind::File {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                format!("{} is not a regular file", path.display()),
            ));
        }
        Ok(OpenFile {
            ino,
            known: node.errors.known(),
            open: Arc::clone(&node.open),
        })
    }

    pub(super) fn info(&self, ino: Ino) -> io::Result<FileInfo> {
        let node = self.node(ino)?;
        let modified = match &node.what {
            What::File(inode) => inode.modified(),
            What::Directory => self.names.changed(ino),
            What::Symlink => 0,
        };
        let modified = EPOCH + i128::from(modified) * TICK;
        Ok(FileInfo {
            kind: node.kind(),
            len: node.len(),
            inode: ino,
            owner: node.owner,
            mode: node.mode,
            modified,
            changed: modified,
        })
    }

    pub(super) fn rename(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        let (from_dir, from_name) = self.place(from)?;
        let (to_dir, to_name) = self.place(to)?;
        let ino = self.lookup(from)?;
        let replaced = self.entries(to_dir)?.get(&to_name).copied();
        if replaced == Some(ino) {
            return Ok(());
        }
        let moves_directory = self.entries(ino).is_ok();
        if moves_directory && to.starts_with(from) {
            return Err(Errno::INVAL.into());
        }
        if from.starts_with(to) {
            return Err(Errno::NOTEMPTY.into());
        }
        if let Some(replaced) = replaced {
            self.may_replace(replaced, moves_directory)?;
        }
        let seq = self.tick();
        let changes = [
            (from_dir, &*from_name, None),
            (to_dir, &*to_name, Some(ino)),
        ];
        self.names.apply(seq, &changes);
        Ok(())
    }

    fn may_replace(&self, replaced: Ino, by_directory: bool) -> io::Result<()> {
        match (self.names.entries(replaced), by_directory) {
            (None, false) => Ok(()),
            (None, true) => Err(Errno::NOTDIR.into()),
            (Some(_), false) => Err(Errno::ISDIR.into()),
            (Some(entries), true) if entries.is_empty() => Ok(()),
            (Some(_), true) => Err(Errno::NOTEMPTY.into()),
        }
    }

    pub(super) fn link(&mut self, file: &Path, name: &Path) -> io::Result<()> {
        let ino = self.lookup(file)?;
        let (directory, name) = self.place(name)?;
        if self.entries(ino).is_ok() {
            return Err(Errno::PERM.into());
        }
        if self.entries(directory)?.contains_key(&name) {
            return Err(Errno::EXIST.into());
        }
        let seq = self.tick();
        self.names.apply(seq, &[(directory, &*name, Some(ino))]);
        Ok(())
    }

    pub(super) fn remove_dir(&mut self, path: &Path) -> io::Result<()> {
        let ino = self.lookup(path)?;
        let (directory, name) = self.place(path)?;
        if !self.entries(ino)?.is_empty() {
            return Err(Errno::NOTEMPTY.into());
        }
        let seq = self.tick();
        self.names.apply(seq, &[(directory, &*name, None)]);
        Ok(())
    }

    pub(super) fn remove_file(&mut self, path: &Path) -> io::Result<()> {
        let ino = self.lookup(path)?;
        let (directory, name) = self.place(path)?;
        if self.entries(ino).is_ok() {
            return Err(Errno::ISDIR.into());
        }
        let seq = self.tick();
        self.names.apply(seq, &[(directory, &*name, None)]);
        Ok(())
    }

    /// Takes the lock of a file, made if there is none. `None` if it is held.
    pub(super) fn lock(&mut self, path: &Path, note: &str) -> io::Result<Option<Arc<()>>> {
        let mode = match self.lookup(path) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => OpenMode::CreateNew,
            _ => OpenMode::ReadWrite,
        };
        let OpenFile { ino, .. } = self.open(path, mode)?;
        if self.node(ino)?.lock.strong_count() > 0 {
            return Ok(None);
        }
        self.set_len(ino, 0)?;
        // As on a real disk that is full, the note may be missing.
        let note = &note.as_bytes()[..self.room(ino, 0, note.len())?];
        self.write(ino, 0, note)?;
        Ok(Some(self.hold(ino)))
    }

    /// Takes the lock of a directory. `None` if it is held.
    pub(super) fn lock_dir(&mut self, path: &Path) -> io::Result<Option<Arc<()>>> {
        let ino = self.lookup(path)?;
        self.entries(ino)?;
        if self.node(ino)?.lock.strong_count() > 0 {
            return Ok(None);
        }
        Ok(Some(self.hold(ino)))
    }

    fn hold(&mut self, ino: Ino) -> Arc<()> {
        let held = Arc::new(());
        if let Some(node) = self.nodes.get_mut(&ino) {
            node.lock = Arc::downgrade(&held);
        }
        held
    }

    pub(super) fn lookup(&self, path: &Path) -> io::Result<Ino> {
        let mut at = ROOT;
        for name in parts(path) {
            let name = self.spelled(at, name?)?;
            at = *self.entries(at)?.get(&name).ok_or(Errno::NOENT)?;
        }
        Ok(at)
    }

    pub(super) fn entries(&self, directory: Ino) -> io::Result<&Entries> {
        Ok(self.names.entries(directory).ok_or(Errno::NOTDIR)?)
    }

    /// The directory and the name in it that a path speaks of.
    pub(super) fn place(&self, path: &Path) -> io::Result<(Ino, Arc<str>)> {
        let Some(Component::Normal(name)) = path.components().next_back() else {
            return Err(Errno::EXIST.into());
        };
        let name = name.to_str().ok_or(Errno::ILSEQ)?;
        if name.len() > MAX_NAME {
            return Err(Errno::NAMETOOLONG.into());
        }
        let directory = self.lookup(path.parent().unwrap_or(Path::new("")))?;
        Ok((directory, self.spelled(directory, name)?))
    }

    /// A name as it stands in its directory, if it does.
    fn spelled(&self, directory: Ino, name: &str) -> io::Result<Arc<str>> {
        let entries = self.entries(directory)?;
        let mut found = entries.get_key_value(name).map(|(name, _)| name);
        if self.folds && found.is_none() {
            let folded = fold(name);
            found = entries.keys().find(|other| fold(other) == folded);
        }
        Ok(found.cloned().unwrap_or_else(|| name.into()))
    }

    /// Gives a new node a name nothing has.
    pub(super) fn create(&mut self, path: &Path, node: Node) -> io::Result<Ino> {
        let (directory, name) = self.place(path)?;
        if self.entries(directory)?.contains_key(&name) {
            return Err(Errno::EXIST.into());
        }
        self.collect();
        let ino = self.next;
        self.next += 1;
        if node.kind() == FileKind::Directory {
            self.names.add_directory(ino);
        }
        self.nodes.insert(ino, node);
        let seq = self.tick();
        self.names.apply(seq, &[(directory, &*name, Some(ino))]);
        Ok(ino)
    }

    /// Forgets nodes that no name, disk or open file can lead to.
    fn collect(&mut self) {
        if self.nodes.len() < self.collect_above {
            return;
        }
        let mentioned: BTreeSet<Ino> = self.names.mentioned();
        self.nodes
            .retain(|ino, node| *ino == ROOT || mentioned.contains(ino) || node.opens() > 0);
        self.collect_above = self.nodes.len() * 2 + 64;
    }

    pub(super) fn tick(&mut self) -> u64 {
        self.clock += 1;
        self.clock
    }

    pub(super) fn node(&self, ino: Ino) -> io::Result<&Node> {
        Ok(self.nodes.get(&ino).ok_or(Errno::STALE)?)
    }

    pub(super) fn inode_mut(&mut self, ino: Ino) -> io::Result<&mut Inode> {
        match self.nodes.get_mut(&ino).map(|node| &mut node.what) {
            Some(What::File(inode)) => Ok(inode),
            _ => Err(Errno::ISDIR.into()),
        }
    }
}

/// As a file system that folds names compares them.
fn fold(name: &str) -> String {
    let lower: String = name.nfc().flat_map(char::to_lowercase).collect();
    lower.nfc().collect()
}

/// The names along a path, from the root. There is no working directory and
/// `..` is refused.
fn parts(path: &Path) -> impl Iterator<Item = io::Result<&str>> {
    path.components().filter_map(|component| match component {
        Component::RootDir | Component::CurDir => None,
        Component::Normal(name) => Some(name.to_str().ok_or_else(|| Errno::ILSEQ.into())),
        Component::ParentDir | Component::Prefix(_) => Some(Err(Errno::INVAL.into())),
    })
}
