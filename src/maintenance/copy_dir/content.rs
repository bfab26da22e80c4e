//! The content of a file of a copy.

use std::io;
use std::sync::Arc;

use sessionlog_wal::storage::StorageFile;

use crate::engine::glance::SessionLines;

/// The bytes that are read at a time.
const PIECE: usize = 1 << 20;

/// Bytes, wherever they are.
#[derive(Debug)]
pub(crate) struct CopyContent(SessionLines);

impl From<SessionLines> for CopyContent {
    fn from(lines: SessionLines) -> Self {
        Self(lines)
    }
}

impl From<Vec<u8>> for CopyContent {
    fn from(bytes: Vec<u8>) -> Self {
        Self(SessionLines::of_parts(None, 0, bytes))
    }
}

impl CopyContent {
    /// Takes the present content of a file.
    ///
    /// # Errors
    /// As the operating system reports them.
    pub(crate) fn of_file(file: Arc<dyn StorageFile>) -> io::Result<Self> {
        let len = file.info()?.len;
        Ok(Self(SessionLines::of_parts(Some(file), len, Vec::new())))
    }

    pub(crate) fn len(&self) -> u64 {
        self.0.len()
    }

    /// Returns true if it cannot be read.
    pub(crate) fn is_unreadable(&self) -> bool {
        self.checksum().is_err()
    }

    /// Returns true if both have the same bytes.
    pub(super) fn is_same(&self, other: &Self) -> io::Result<bool> {
        let len = self.len();
        if len != other.len() {
            return Ok(false);
        }
        let (mut left, mut right) = (piece(len), piece(len));
        let mut at = 0;
        while at < len {
            let many = left.len().min((len - at) as usize);
            self.0.read_exact_at(&mut left[..many], at)?;
            other.0.read_exact_at(&mut right[..many], at)?;
            if left[..many] != right[..many] {
                return Ok(false);
            }
            at += many as u64;
        }
        Ok(true)
    }

    /// Writes it to an empty file, and returns its checksum.
    pub(super) fn copy_to(&self, file: &dyn StorageFile) -> io::Result<u32> {
        self.each(|bytes, at| file.write_all_at(bytes, at))
    }

    pub(super) fn checksum(&self) -> io::Result<u32> {
        self.each(|_, _| Ok(()))
    }

    fn each(&self, mut take: impl FnMut(&[u8], u64) -> io::Result<()>) -> io::Result<u32> {
        let mut checksum = crc32fast::Hasher::new();
        let mut piece = piece(self.len());
        let mut at = 0;
        while at < self.len() {
            let many = piece.len().min((self.len() - at) as usize);
            self.0.read_exact_at(&mut piece[..many], at)?;
            checksum.update(&piece[..many]);
            take(&piece[..many], at)?;
            at += many as u64;
        }
        Ok(checksum.finalize())
    }
}

fn piece(len: u64) -> Vec<u8> {
    vec![0; PIECE.min(len as usize)]
}
