//! What other programs see and leave: no steps, no failures on demand.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use super::content::SharedBytes;
use super::inode::Inode;
use super::names::Ino;
use super::tree::{Node, ROOT, Tree, USER, What};

impl Tree {
    /// Overwrites or creates a file as a program did that has long ended: it
    /// is all on the disk.
    pub(super) fn place_foreign(&mut self, path: &Path, node: Node) -> io::Result<()> {
        for parent in ancestors(path) {
            match self.create(parent, Node::new(What::Directory, USER, 0o755)) {
                Err(e) if e.kind() != io::ErrorKind::AlreadyExists => return Err(e),
                _ => self.settle_name(parent)?,
            }
        }
        match (self.lookup(path), node.what) {
            (Ok(ino), What::File(inode)) => *self.inode_mut(ino)? = inode,
            (_, what) => {
                self.create(path, Node::new(what, node.owner, node.mode))?;
            }
        }
        self.settle_name(path)
    }

    /// Gives a file's name to a new one, which is all on the disk.
    pub(super) fn replace_foreign(&mut self, path: &Path, node: Node) -> io::Result<()> {
        if self.lookup(path).is_ok() {
            self.remove_file(path)?;
        }
        self.place_foreign(path, node)
    }

    /// A file node with bytes that are on the disk.
    pub(super) fn foreign_file(&mut self, bytes: &[u8]) -> Node {
        let inode = Inode::settled(SharedBytes::from_bytes(bytes), self.tick());
        Node::new(What::File(inode), USER, 0o644)
    }

    /// A name's history up to now reaches the disk.
    pub(super) fn settle_name(&mut self, path: &Path) -> io::Result<()> {
        let (directory, name) = self.place(path)?;
        self.names.sync_name(directory, &name);
        Ok(())
    }

    /// The bytes of a file, `None` if it is not one.
    pub(super) fn bytes(&self, ino: Ino) -> Option<Vec<u8>> {
        match &self.nodes.get(&ino)?.what {
            What::File(inode) => Some(inode.cache().to_vec()),
            What::Directory | What::Symlink => None,
        }
    }

    /// The bytes of every file by its path.
    pub(super) fn dump(&self) -> BTreeMap<String, Vec<u8>> {
        let mut files = BTreeMap::new();
        let mut unread = vec![(String::new(), ROOT)];
        while let Some((path, ino)) = unread.pop() {
            let below = self.names.entries(ino).into_iter().flatten();
            unread.extend(below.map(|(name, ino)| {
                let parent = if path.is_empty() { "" } else { "/" };
                (format!("{path}{parent}{name}"), *ino)
            }));
            if let Some(bytes) = self.bytes(ino) {
                files.insert(path, bytes);
            }
        }
        files
    }
}

/// The directories above a path, outermost first.
fn ancestors(path: &Path) -> Vec<&Path> {
    let mut above: Vec<&Path> = path.ancestors().skip(1).collect();
    above.retain(|parent| parent.file_name().is_some());
    above.reverse();
    above
}
