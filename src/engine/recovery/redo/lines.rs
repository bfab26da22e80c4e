//! Puts journalled lines in their place.

use std::path::Path;

use memchr::memrchr;
use sessionlog_core::error::{Error, Result};
use sessionlog_wal::storage::StorageFile;

/// Puts journalled lines at `offset` of a file that is as the journal left it. If there is no space
/// for all of them, the file keeps its whole lines: no part of a line may stay at its end, for
/// other programs read the file, and add to it, until there is space.
///
/// # Errors
/// As the operating system reports them.
pub(super) fn put(file: &dyn StorageFile, path: &Path, offset: u64, lines: &[u8]) -> Result<()> {
    if lines.is_empty() {
        return Ok(());
    }
    let wrap = |e| Error::io("recover", path, e);
    let len = file.info().map_err(wrap)?.len;
    let there = usize::try_from(len.saturating_sub(offset)).unwrap_or(usize::MAX);
    let kept = match lines.get(..there) {
        Some(there) => offset + memrchr(b'\n', there).map_or(0, |lf| lf as u64 + 1),
        None => len,
    };
    let put = file.write_all_at(lines, offset).inspect_err(|_| {
        let _ = file.set_len(kept);
    });
    put.map_err(wrap)
}
