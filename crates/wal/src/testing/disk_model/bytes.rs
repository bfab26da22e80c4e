//! What is done to the bytes of files: reading, writing, syncing.

use std::io;
use std::path::Path;

use rustix::io::Errno;

use super::faults::SyncFault;
use super::names::Ino;
use super::tree::{Node, Tree, What};
use super::write_back::Known;

impl Tree {
    pub(super) fn read(&self, ino: Ino, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        match &self.node(ino)?.what {
            What::File(inode) => Ok(inode.cache().read(offset, buf)),
            What::Directory | What::Symlink => Err(Errno::ISDIR.into()),
        }
    }

    /// Writes what there is room for.
    pub(super) fn write(&mut self, ino: Ino, offset: u64, bytes: &[u8]) -> io::Result<usize> {
        let room = self.room(ino, offset, bytes.len())?;
        if bytes.is_empty() {
            return Ok(0);
        }
        if room == 0 {
            return Err(Errno::NOSPC.into());
        }
        let seq = self.tick();
        self.inode_mut(ino)?.write(seq, offset, &bytes[..room]);
        Ok(room)
    }

    pub(super) fn set_len(&mut self, ino: Ino, len: u64) -> io::Result<()> {
        let now = self.info(ino)?.len;
        let gained = len.saturating_sub(now) as usize;
        if self.room(ino, now, gained)? < gained {
            return Err(Errno::NOSPC.into());
        }
        let seq = self.tick();
        self.inode_mut(ino)?.set_len(seq, len);
        Ok(())
    }

    /// How many of `wanted` bytes at `offset` the disk has space for.
    pub(super) fn room(&self, ino: Ino, offset: u64, wanted: usize) -> io::Result<usize> {
        if self.capacity == u64::MAX {
            return Ok(wanted);
        }
        let end = self.info(ino)?.len.saturating_add(self.free());
        Ok(wanted.min(end.saturating_sub(offset) as usize))
    }

    /// How many bytes the disk has space for.
    pub(super) fn free(&self) -> u64 {
        match self.capacity {
            u64::MAX => u64::MAX,
            capacity => capacity.saturating_sub(self.used()),
        }
    }

    fn used(&self) -> u64 {
        let named = self.names.named();
        let in_use = |(ino, node): &(&Ino, &Node)| named.contains(ino) || node.opens() > 0;
        let files = self.nodes.iter().filter(in_use);
        files.map(|(_, node)| node.len()).sum()
    }

    /// Syncs a file, or lets its sync fail.
    pub(super) fn sync_data(
        &mut self,
        ino: Ino,
        known: &Known,
        fault: Option<SyncFault>,
    ) -> io::Result<()> {
        let inode = self.inode_mut(ino)?;
        match fault {
            None => inode.sync(),
            Some(fault) => inode.fail_sync(fault),
        }
        match self.nodes.get_mut(&ino) {
            Some(node) => node.errors.tell(known),
            None => Ok(()),
        }
    }

    /// Opens a directory.
    pub(super) fn open_dir(&self, path: &Path) -> io::Result<(Ino, Known)> {
        let directory = self.lookup(path)?;
        self.entries(directory)?;
        Ok((directory, self.errors.known()))
    }

    /// Syncs a directory, or lets its sync fail.
    pub(super) fn sync_dir(&mut self, directory: Ino, fault: Option<SyncFault>) -> io::Result<()> {
        self.entries(directory)?;
        match fault {
            None => self.names.sync(directory),
            Some(fault) => self.names.fail_sync(directory, fault),
        }
        Ok(())
    }

    /// Syncs everything, or lets that fail.
    pub(super) fn sync_all(&mut self, known: &Known, fault: Option<SyncFault>) -> io::Result<()> {
        match fault {
            None => self.names.sync_all(),
            Some(fault) => self.names.fail_sync_all(fault),
        }
        for node in self.nodes.values_mut() {
            if let What::File(inode) = &mut node.what {
                match fault {
                    None => inode.sync(),
                    Some(fault) => inode.fail_sync(fault),
                }
            }
        }
        self.errors.tell(known)
    }
}
