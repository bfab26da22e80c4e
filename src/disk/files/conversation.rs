//! Reading the control records of a session.

use std::io;

use sessionlog_core::session_file::{self, Conversation};
use sessionlog_wal::storage::StorageFile;

use super::lines::for_each_line;

/// Reads `file[..len]` and the bytes after it.
///
/// # Errors
/// As the operating system reports them.
pub(crate) fn read(
    file: Option<&dyn StorageFile>,
    len: u64,
    behind: &[u8],
) -> io::Result<Conversation> {
    let mut conversation = Conversation::default();
    let mut lines = 0;
    let mut note = |raw: &[u8], at: u64| {
        conversation.note(raw, at, lines);
        lines += u64::from(!matches!(raw, b"" | b"\r"));
    };
    if let Some(file) = file {
        for_each_line(file, 0, len, &mut |raw| {
            note(raw.text, raw.begin);
            Ok(())
        })?;
    }
    for (offset, raw) in session_file::lines(behind) {
        note(raw, len + offset as u64);
    }
    Ok(conversation)
}
