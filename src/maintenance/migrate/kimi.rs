//! Import from and export to kimi-cli's context files.

use std::borrow::Cow;
use std::io;
use std::path::{Path, PathBuf};

use sessionlog_core::error::{Error, Result};
use sessionlog_core::session_file::kimi::{self, KimiRecord};
use sessionlog_core::session_file::{self, Kind};
use sessionlog_wal::storage::{OpenMode, Storage};

use crate::StoreHandle;
use crate::compat::context_file;

/// The outcome of [`import_kimi`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct KimiImport {
    /// Lines of the file that are not empty; the session has as many.
    pub lines: usize,
    /// Lines that the session's history shows. kimi-cli shows fewer where it rejects a line that is
    /// a message to this crate: one of a role that only PicoClaw has, or with a part of a type that
    /// it does not know.
    pub messages: usize,
    /// Lines that neither program reads as a record. They are in the session's file.
    pub unread: usize,
}

/// Things that [`export_kimi`] had to leave out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct KimiExport {
    /// Things of the session that are not in the file, or that kimi-cli does not read in it: one
    /// entry for each kind, with its number.
    pub left_out: Vec<String>,
}

/// Creates the session `key` from a context file of kimi-cli: all of its lines or, if anything
/// fails, none. Blocks while it reads and writes.
///
/// Lines are copied as bytes, including control records and lines that do not decode. Line ends
/// become LF, the last line gets one if it has none, and a byte order mark is dropped. Lines that
/// this crate reads as messages are shown, even where kimi-cli would not show them: see
/// [`KimiImport::messages`]. Only a line that Python accepts as JSON and other readers do not (raw
/// control characters in strings, `NaN`) is rewritten as valid JSON, so that readers do not lose
/// its message. The file stays as it is; one behind a symbolic link is refused. Like every verb
/// this resolves the key first.
///
/// ```
/// use sessionlog::{Context, Message, Store, export_kimi, import_kimi};
///
/// # fn main() -> sessionlog::Result<()> {
/// # let scratch = tempfile::tempdir().unwrap();
/// # let dir = scratch.path();
/// let file = dir.join("context.jsonl");
/// Context::open(&file)?.append_message(Message::user("hi")).wait()?;
///
/// let store = Store::open(dir.join("sessions"))?;
/// let chats = store.handle();
/// import_kimi(&file, "telegram:123", &chats)?;
/// assert_eq!(chats.history("telegram:123").wait()?[0].text(), "hi");
///
/// export_kimi("telegram:123", dir.join("back.jsonl"), &chats)?;
/// assert_eq!(std::fs::read(dir.join("back.jsonl")).unwrap(), std::fs::read(&file).unwrap());
/// # store.close()
/// # }
/// ```
///
/// # Errors
/// [`Error::SessionExists`] if the session has a line or a summary already,
/// [`Error::MessageTooLarge`], without messages, for a line over [the
/// limit](crate::StoreOptions::max_line_bytes), [`Error::Io`] if the file cannot be read, and the
/// errors all verbs share.
pub fn import_kimi(path: impl AsRef<Path>, key: &str, handle: &StoreHandle) -> Result<KimiImport> {
    let path = absolute(path.as_ref())?;
    session_file::validate_key(key)?;
    let storage = handle.storage();
    let bytes = storage
        .open(&path, OpenMode::Read)
        .and_then(|file| context_file::read_all(&*file))
        .map_err(|e| Error::io("read", &path, e))?;
    let mut import = KimiImport::default();
    let mut lines = Vec::with_capacity(bytes.len() + 1);
    for raw in context_file::raw_lines(&bytes) {
        let line = readable(raw);
        import.note(session_file::classify(&line));
        lines.extend_from_slice(&line);
        lines.push(b'\n');
    }
    if handle.adopt_lines(key, lines).wait()? {
        return Ok(import);
    }
    Err(Error::SessionExists { key: key.into() })
}

/// Writes the lines of the session `key` to a new file at `path` for kimi-cli. Byte for byte: a
/// file that [`import_kimi`] brought in comes out unchanged, except as documented there and here.
///
/// [`export_kimi_report`] also returns what kimi-cli will not see.
///
/// Truncated messages are left out. If a system prompt and a token count were hidden with them,
/// those come first, as compacting the session would leave them. Checkpoints among the truncated
/// lines cannot be reverted to. kimi-cli does not know such checkpoints: it would take one in front
/// for the beginning of the conversation, and a revert to it would empty the file. So they are left
/// out, except the last one if it numbers the next checkpoint: that one is written at the end, with
/// `"lost": true`. kimi-cli goes on counting from there, and reverting to it gives the exported
/// conversation. [`Context::open`](crate::Context::open) and [`import_kimi`] know that it is lost.
///
/// The file is there whole or, after a crash, empty or not at all. Blocks while it reads and
/// writes.
///
/// # Errors
/// [`Error::SessionNotFound`], [`Error::InStore`] if the file would be in the directory of a store,
/// this one or another, [`Error::Io`] if something is at `path` already or the file cannot be
/// written, and the errors all verbs share.
pub fn export_kimi(key: &str, path: impl AsRef<Path>, handle: &StoreHandle) -> Result<()> {
    export_kimi_report(key, path, handle).map(|_| ())
}

/// As [`export_kimi`]; returns what kimi-cli will not see: the summary, which is in no line, and
/// messages that it does not read.
///
/// # Errors
/// As [`export_kimi`].
pub fn export_kimi_report(
    key: &str,
    path: impl AsRef<Path>,
    handle: &StoreHandle,
) -> Result<KimiExport> {
    let path = absolute(path.as_ref())?;
    let (all, start) = handle.all_lines(key)?;
    let (hidden, live) = all.split_at(start);
    let lines = session_file::without_hidden(hidden, live);
    if lines.is_empty() && handle.existing(key)?.is_none() {
        return Err(Error::SessionNotFound { key: key.into() });
    }
    let storage = handle.storage();
    context_file::outside_stores(&*storage, &path)?;
    let temp =
        context_file::parent(&path).join(format!(".{}.new", context_file::file_name(&path)?));
    // The name is taken first, so that nothing else can take it.
    context_file::create(&*storage, &path, b"").map_err(|e| Error::io("write", &path, e))?;
    let written = put(&*storage, &temp, &path, &lines);
    if written.is_err() {
        for left in [&temp, &path] {
            // A file that cannot be removed is empty or hidden.
            let _ = storage.remove_file(left);
        }
    }
    written.map_err(|e| Error::io("write", &path, e))?;
    let has_summary = !handle.summary(key).wait()?.is_empty();
    Ok(unseen(&lines, has_summary))
}

fn unseen(lines: &[u8], has_summary: bool) -> KimiExport {
    let mut export = KimiExport::default();
    if has_summary {
        export.left_out.push("the summary".into());
    }
    let is_unread = |line: &[u8]| {
        let is_message = session_file::classify(line) == Kind::Message;
        is_message
            && !matches!(
                kimi::decode(&String::from_utf8_lossy(line)),
                KimiRecord::Message(_)
            )
    };
    let unread = session_file::lines(lines).filter(|(_, line)| is_unread(line));
    match unread.count() {
        0 => {}
        many => export
            .left_out
            .push(format!("messages that kimi-cli does not read: {many}")),
    }
    export
}

/// Writes beside `path`, then renames.
fn put(storage: &dyn Storage, temp: &Path, path: &Path, bytes: &[u8]) -> io::Result<()> {
    match storage.remove_file(temp) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
        _ => {}
    }
    context_file::create(storage, temp, bytes)?;
    storage.rename(temp, path)?;
    storage.sync_dir(context_file::parent(path))
}

/// A line as this crate can read it, if it can be read at all.
fn readable(raw: &[u8]) -> Cow<'_, [u8]> {
    if session_file::classify(raw) == Kind::Corrupt
        && let Some(strict) = kimi::strict(&String::from_utf8_lossy(raw))
        && session_file::classify(strict.as_bytes()) != Kind::Corrupt
    {
        return Cow::Owned(strict.into_bytes());
    }
    Cow::Borrowed(raw)
}

impl KimiImport {
    fn note(&mut self, kind: Kind) {
        self.lines += usize::from(kind != Kind::Blank);
        self.messages += usize::from(kind == Kind::Message);
        self.unread += usize::from(kind == Kind::Corrupt);
    }
}

fn absolute(path: &Path) -> Result<PathBuf> {
    std::path::absolute(path).map_err(|e| Error::io("open", path, e))
}
