//! Databases of SQLite in which OpenAI's Agents SDK keeps its sessions, an item a row.
//!
//! They are only read, also while the SDK has them open. What is committed when the reading
//! begins is read, and nothing else. Outside of WAL mode a reader makes writers wait: there a copy
//! is read.

use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{fmt, fs, io};

use rusqlite::backup::{Backup, StepResult};
use rusqlite::types::{ToSql, ToSqlOutput, ValueRef};
use rusqlite::{Connection, ErrorCode, OpenFlags, Row, params};
use serde_json::value::RawValue;
use sessionlog::{Format, Transcript};
use tempfile::TempDir;

use super::LONGEST;
use crate::failure::{Failure, Result};

/// The time to wait for a writer that holds the database, before the import gives up.
const PATIENCE: Duration = Duration::from_secs(10);

/// Tables that tell which messages are of which branch: those of `AdvancedSQLiteSession`.
const STRUCTURE: &str = "message_structure";
const MAIN: &str = "main";

/// A database that has sessions.
pub(super) struct Database {
    connection: Connection,
    tables: Vec<Table>,
    /// Where the copy is that is read, if the database is not read where it is.
    _copy: Option<TempDir>,
}

/// An id as the database has it. It is looked up as it is, and shown as text.
enum Id {
    Null,
    Integer(i64),
    Real(f64),
    Text(Vec<u8>),
    Blob(Vec<u8>),
}

impl From<ValueRef<'_>> for Id {
    fn from(value: ValueRef<'_>) -> Self {
        match value {
            ValueRef::Null => Self::Null,
            ValueRef::Integer(number) => Self::Integer(number),
            ValueRef::Real(number) => Self::Real(number),
            ValueRef::Text(bytes) => Self::Text(bytes.to_vec()),
            ValueRef::Blob(bytes) => Self::Blob(bytes.to_vec()),
        }
    }
}

impl ToSql for Id {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match self {
            Self::Null => ValueRef::Null,
            Self::Integer(number) => ValueRef::Integer(*number),
            Self::Real(number) => ValueRef::Real(*number),
            Self::Text(bytes) => ValueRef::Text(bytes),
            Self::Blob(bytes) => ValueRef::Blob(bytes),
        }))
    }
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => f.write_str("NULL"),
            Self::Integer(number) => number.fmt(f),
            Self::Real(number) => number.fmt(f),
            Self::Text(bytes) | Self::Blob(bytes) => String::from_utf8_lossy(bytes).fmt(f),
        }
    }
}

/// A table of messages.
struct Table {
    name: String,
    has_times: bool,
    has_branches: bool,
    /// Stands before the ids of its sessions.
    prefix: String,
}

/// The items of one conversation.
struct Items {
    rows: Vec<(Id, String)>,
    /// Bytes that were no UTF-8, as U+FFFD.
    replaced: usize,
    /// The number of bytes that the session may still take.
    left: usize,
}

impl Database {
    /// Opens a database; `None`, if it has no table of messages of the SDK.
    pub(super) fn open(path: &Path) -> Result<Option<Self>> {
        let failed = |error| told(path, &error);
        let cannot = |error| Failure::new(format!("copy {}: {error}", path.display()));
        let (mut connection, mut copy) = match begin(path, READ_ONLY) {
            Err(error) if is_of_the_place(&error) => {
                let (dir, copy) = copied(path).map_err(cannot)?;
                (begin(&copy, READ_WRITE).map_err(failed)?, Some(dir))
            }
            connection => (connection.map_err(failed)?, None),
        };
        let tables = tables(&connection).map_err(failed)?;
        if tables.is_empty() {
            return Ok(None);
        }
        if copy.is_none() && !is_wal(&connection).map_err(failed)? {
            let dir = tempfile::tempdir().map_err(cannot)?;
            let path = dir.path().join("copy.db");
            back_up(&connection, &path).map_err(failed)?;
            connection = begin(&path, READ_WRITE).map_err(failed)?;
            copy = Some(dir);
        }
        Ok(Some(Self {
            connection,
            tables,
            _copy: copy,
        }))
    }

    /// Hands out each session, in the order in which they were begun, or why it cannot be read.
    /// It ends if `take` returns false.
    pub(super) fn sessions(
        &self,
        mut take: impl FnMut(std::result::Result<(Transcript, usize), String>) -> bool,
    ) {
        for table in &self.tables {
            for id in self.ids(table) {
                let read = match id {
                    Ok(id) => {
                        let read = self.session(table, &id);
                        let read = read.unwrap_or_else(|error| Err(why(&error)));
                        read.map_err(|why| format!("session {id}: {why}"))
                    }
                    Err(error) => Err(format!("table {}: {}", table.name, why(&error))),
                };
                if !take(read) {
                    return;
                }
            }
        }
    }

    /// Returns the number of sessions.
    pub(super) fn len(&self) -> usize {
        self.tables.iter().map(|table| self.ids(table).len()).sum()
    }

    /// The ids of the sessions of a table, as far as they can be read.
    fn ids(&self, table: &Table) -> Vec<rusqlite::Result<Id>> {
        let read = || {
            let name = quoted(&table.name);
            let ids = format!("SELECT session_id FROM {name} GROUP BY session_id ORDER BY min(id)");
            let mut ids = self.connection.prepare(&ids)?;
            let ids = ids.query_map([], |row| row.get_ref(0).map(Id::from))?;
            Ok(ids.collect())
        };
        read().unwrap_or_else(|error| vec![Err(error)])
    }

    /// A session with its branches, and how many characters of it were damaged.
    fn session(
        &self,
        table: &Table,
        id: &Id,
    ) -> rusqlite::Result<std::result::Result<(Transcript, usize), String>> {
        if matches!(id, Id::Null) {
            return Ok(Err("its rows are of no session".into()));
        }
        let mut branches = Vec::new();
        if table.has_branches {
            let found = format!(
                "SELECT branch_id FROM {STRUCTURE} WHERE session_id = ?1
                 GROUP BY branch_id ORDER BY branch_id != ?2, min(id)"
            );
            let mut found = self.connection.prepare(&found)?;
            let found = found.query_map(params![id, MAIN], |row| row.get_ref(0).map(Id::from))?;
            branches = found.collect::<rusqlite::Result<_>>()?;
        }
        let name = quoted(&table.name);
        let time = if table.has_times {
            "m.created_at"
        } else {
            "NULL"
        };
        let (mut replaced, mut left) = (0, LONGEST);
        let mut read = |branch: Option<&Id>| -> rusqlite::Result<_> {
            let rows = match branch {
                None => format!(
                    "SELECT m.id, m.message_data, {time} FROM {name} m
                     WHERE m.session_id = ?1 AND ?2 IS NULL ORDER BY m.id"
                ),
                Some(_) => format!(
                    "SELECT m.id, m.message_data, {time} FROM {STRUCTURE} s
                     JOIN {name} m ON m.id = s.message_id AND m.session_id = s.session_id
                     WHERE s.session_id = ?1 AND s.branch_id IS ?2
                     ORDER BY s.sequence_number, s.id"
                ),
            };
            let mut rows = self.connection.prepare(&rows)?;
            let mut rows = rows.query(params![id, branch])?;
            let mut items = Items {
                rows: Vec::new(),
                replaced: 0,
                left,
            };
            while let Some(row) = rows.next()? {
                if let Err(why) = items.take(row)? {
                    return Ok(Err(why));
                }
            }
            (replaced, left) = (replaced + items.replaced, items.left);
            Ok(items.transcript())
        };
        let mut whole = match read(branches.first())? {
            Ok(whole) => whole,
            Err(why) => return Ok(Err(why)),
        };
        for branch in branches.iter().skip(1) {
            match read(Some(branch))? {
                Ok(mut transcript) => {
                    transcript.id = Some(branch.to_string());
                    whole.branches.push(transcript);
                }
                Err(why) => return Ok(Err(format!("branch {branch}: {why}"))),
            }
        }
        if !branches.is_empty() {
            // The SDK shows none of them either: their branch was deleted.
            let lost = format!(
                "SELECT count(*) FROM {name} WHERE session_id = ?1
                 AND id NOT IN (SELECT message_id FROM {STRUCTURE}
                                  WHERE session_id = ?1 AND message_id IS NOT NULL)"
            );
            let mut lost = self.connection.prepare(&lost)?;
            let lost: i64 = lost.query_row([id], |row| row.get(0))?;
            if let Ok(lost @ 1..) = usize::try_from(lost) {
                whole.skipped.push(("a message of no branch".into(), lost));
            }
        }
        whole.id = Some(format!("{}{id}", table.prefix));
        Ok(Ok((whole, replaced)))
    }
}

impl Items {
    /// Takes in a row of id, item and time, or says why it is no item.
    fn take(&mut self, row: &Row<'_>) -> rusqlite::Result<std::result::Result<(), String>> {
        let (id, item) = (Id::from(row.get_ref(0)?), row.get_ref(1)?);
        let length = item.as_bytes().map_or(0, <[u8]>::len) + size_of::<(Id, String)>();
        let Some(left) = self.left.checked_sub(length) else {
            return Ok(Err("it is longer than 1 GiB".into()));
        };
        self.left = left;
        let Some(item) = text(item, &mut self.replaced) else {
            return Ok(Err(format!("row {id}: there is no text")));
        };
        // One that holds halves of surrogate pairs is JSON here, and is mended as it is read.
        if let Err(error) = serde_json::from_str::<&RawValue>(&item) {
            return Ok(Err(format!("row {id}: no JSON: {error}")));
        }
        let Some(fields) = item.trim_start().strip_prefix('{') else {
            return Ok(Err(format!("row {id}: an object was expected")));
        };
        let time = match row.get_ref(2)? {
            ValueRef::Integer(time) => Some(time.to_string()),
            ValueRef::Real(time) => Some(time.to_string()),
            time => text(time, &mut 0).and_then(|time| serde_json::to_string(&time).ok()),
        };
        let item = match time {
            Some(time) => {
                let comma = if fields.trim_start().starts_with('}') {
                    ""
                } else {
                    ","
                };
                format!("{{\"created_at\":{time}{comma}{fields}")
            }
            None => item,
        };
        self.rows.push((id, item));
        Ok(Ok(()))
    }

    fn transcript(&self) -> std::result::Result<Transcript, String> {
        let items: Vec<&str> = self.rows.iter().map(|(_, item)| &**item).collect();
        let read =
            |items: &str| Transcript::read(&format!("[{items}]"), Some(Format::OpenAiResponses));
        read(&items.join(",")).map_err(|error| {
            // Which of them it is.
            let mut each = self.rows.iter();
            let found = each.find_map(|(id, item)| Some((id, item, read(item).err()?)));
            let Some((id, item, error)) = found else {
                return error.to_string();
            };
            if item.contains("\"__enc__\"") {
                return format!("row {id}: encrypted by the SDK's EncryptedSession");
            }
            let why = error.to_string();
            format!("row {id}: {}", why.replacen("item 1: ", "", 1))
        })
    }
}

const READ_ONLY: OpenFlags =
    OpenFlags::SQLITE_OPEN_READ_ONLY.union(OpenFlags::SQLITE_OPEN_NO_MUTEX);
const READ_WRITE: OpenFlags =
    OpenFlags::SQLITE_OPEN_READ_WRITE.union(OpenFlags::SQLITE_OPEN_NO_MUTEX);

/// Opens a database and begins to read what is committed now.
fn begin(path: &Path, flags: OpenFlags) -> rusqlite::Result<Connection> {
    let connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(PATIENCE)?;
    connection
        .execute_batch("PRAGMA trusted_schema = OFF; BEGIN; SELECT count(*) FROM sqlite_schema;")?;
    Ok(connection)
}

fn is_wal(connection: &Connection) -> rusqlite::Result<bool> {
    let mode = connection.query_row("PRAGMA journal_mode", [], |row| row.get::<_, String>(0))?;
    Ok(mode == "wal")
}

/// Copies what a connection reads to a new file.
fn back_up(from: &Connection, to: &Path) -> rusqlite::Result<()> {
    let mut to = Connection::open(to)?;
    to.execute_batch("PRAGMA synchronous = OFF")?;
    if Backup::new(from, &mut to)?.step(-1)? == StepResult::Done {
        return Ok(());
    }
    let busy = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_BUSY);
    Err(rusqlite::Error::SqliteFailure(busy, None))
}

/// Returns true if the database may be sound, but its directory does not let it be read: in WAL
/// mode, and after a crash, readers write beside it.
fn is_of_the_place(error: &rusqlite::Error) -> bool {
    matches!(
        error.sqlite_error_code(),
        Some(ErrorCode::CannotOpen | ErrorCode::ReadOnly)
    )
}

/// A copy of a database with all that belongs to it, as it stood at one time.
fn copied(path: &Path) -> io::Result<(TempDir, PathBuf)> {
    const TRIES: usize = 5;
    let path = fs::canonicalize(path)?;
    let dir = tempfile::tempdir()?;
    let copy = dir.path().join("copy.db");
    for _ in 0..TRIES {
        let before = stamps(&path)?;
        for end in ENDS {
            copy_file(&with_end(&path, end), &with_end(&copy, end))?;
        }
        if stamps(&path)? == before {
            return Ok((dir, copy));
        }
    }
    let what = "another process keeps writing to it; try again when it has ended";
    Err(io::Error::other(what))
}

/// The ends of the names of a database's files.
const ENDS: [&str; 3] = ["-journal", "-wal", ""];

fn with_end(path: &Path, end: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(end);
    name.into()
}

/// The lengths and times of a database's files: they differ after a write.
fn stamps(path: &Path) -> io::Result<impl PartialEq + use<>> {
    let stamp = |end| match fs::metadata(with_end(path, end)) {
        Ok(file) => Ok(Some((file.len(), file.modified()?))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    };
    ENDS.into_iter().map(stamp).collect::<io::Result<Vec<_>>>()
}

/// Copies a file, if it is there, to one that can be written.
fn copy_file(from: &Path, to: &Path) -> io::Result<()> {
    match fs::remove_file(to) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    match fs::copy(from, to) {
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    }
    // The copy of what cannot be written cannot be written.
    let mut rights = fs::metadata(to)?.permissions();
    #[expect(
        clippy::permissions_set_readonly_false,
        reason = "the directory around it is nobody else's"
    )]
    rights.set_readonly(false);
    fs::set_permissions(to, rights)
}

/// The tables of messages, whatever their names are.
fn tables(connection: &Connection) -> rusqlite::Result<Vec<Table>> {
    // Neither views nor virtual tables, which run what they are made of.
    let mut names = connection.prepare(
        "SELECT name FROM sqlite_schema WHERE type = 'table' AND rootpage > 0 ORDER BY name",
    )?;
    let names = names.query_map([], |row| {
        Ok(row.get_ref(0)?.as_str().ok().map(String::from))
    })?;
    let names: Vec<String> = names
        .filter_map(rusqlite::Result::transpose)
        .collect::<rusqlite::Result<_>>()?;
    let columns = |name: &str| -> rusqlite::Result<Vec<String>> {
        let mut columns = connection.prepare("SELECT lower(name) FROM pragma_table_info(?1)")?;
        let columns = columns.query_map([name], |row| Ok(text(row.get_ref(0)?, &mut 0)))?;
        columns.filter_map(rusqlite::Result::transpose).collect()
    };
    let has = |columns: &[String], names: &[&str]| {
        names
            .iter()
            .all(|name| columns.iter().any(|column| column == name))
    };
    // Of several tables of messages it is that of one.
    let structure = ["session_id", "message_id", "branch_id", "sequence_number"];
    let mut of: Option<String> = None;
    let is_structure = |name: &String| name.eq_ignore_ascii_case(STRUCTURE);
    if names.iter().any(is_structure) && has(&columns(STRUCTURE)?, &structure) {
        let mut keys = connection.prepare(
            "SELECT \"table\" FROM pragma_foreign_key_list(?1) WHERE \"from\" = 'message_id'",
        )?;
        let mut keys = keys.query_map([STRUCTURE], |row| Ok(text(row.get_ref(0)?, &mut 0)))?;
        of = Some(keys.next().transpose()?.flatten().unwrap_or_default());
    }
    let mut tables = Vec::new();
    for name in names {
        let columns = columns(&name)?;
        if !has(&columns, &["id", "session_id", "message_data"]) {
            continue;
        }
        let is_of = |of: &String| of.is_empty() || of.eq_ignore_ascii_case(&name);
        tables.push(Table {
            has_times: has(&columns, &["created_at"]),
            has_branches: of.as_ref().is_some_and(is_of),
            prefix: String::new(),
            name,
        });
    }
    if tables.len() > 1 {
        // Sessions of one id in two tables are two.
        let others = tables
            .iter_mut()
            .filter(|table| table.name != "agent_messages");
        others.for_each(|table| table.prefix = format!("{}:", table.name));
    }
    Ok(tables)
}

fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// The text of a value; how many bytes of it are U+FFFD because they were no UTF-8 is added.
fn text(value: ValueRef<'_>, replaced: &mut usize) -> Option<String> {
    let (ValueRef::Text(bytes) | ValueRef::Blob(bytes)) = value else {
        return None;
    };
    let (text, damaged) = super::mended(bytes.to_vec());
    *replaced += damaged;
    Some(text)
}

/// Returns an error with the file, and the next step if one is known.
fn told(path: &Path, error: &rusqlite::Error) -> Failure {
    let failure = Failure::new(format!("read {}: {error}", path.display()));
    match hint(error) {
        Some(hint) => failure.hint(hint),
        None => failure,
    }
}

/// Returns an error in words, with the next step if one is known.
fn why(error: &rusqlite::Error) -> String {
    match hint(error) {
        Some(hint) => format!("{error}; {hint}"),
        None => error.to_string(),
    }
}

fn hint(error: &rusqlite::Error) -> Option<&'static str> {
    match error.sqlite_error_code()? {
        ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked => {
            Some("another process writes to it; try again when it has ended")
        }
        ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase => {
            Some("sqlite3 FILE .recover gets out of a damaged database what still reads")
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A database in a rollback journal's mode that has one session with one message.
    fn database(path: &Path) -> Connection {
        let connection = Connection::open(path).unwrap();
        connection
            .execute_batch(
                "CREATE TABLE agent_messages (id INTEGER PRIMARY KEY, session_id TEXT, message_data TEXT);
                 INSERT INTO agent_messages VALUES (1, 's', '{\"role\":\"user\",\"content\":\"a\"}');",
            )
            .unwrap();
        connection
    }

    #[test]
    fn a_database_is_written_to_while_it_is_imported() {
        let dir = tempfile::tempdir().unwrap();
        for mode in ["delete", "wal"] {
            let path = dir.path().join(mode);
            let writer = database(&path);
            writer.pragma_update(None, "journal_mode", mode).unwrap();
            writer.busy_timeout(Duration::ZERO).unwrap();
            let reader = Database::open(&path).unwrap().unwrap();
            let copy =
                "INSERT INTO agent_messages SELECT 2, session_id, message_data FROM agent_messages";
            assert_eq!(writer.execute(copy, []), Ok(1), "{mode}");
            let mut read = Vec::new();
            reader.sessions(|session| {
                read.push(session.unwrap().0.messages.len());
                true
            });
            assert_eq!(read, [1], "{mode}");
        }
    }

    #[test]
    fn the_copy_of_files_that_cannot_be_written_can() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.db");
        for end in ENDS {
            let file = with_end(&path, end);
            fs::write(&file, end).unwrap();
            let mut rights = fs::metadata(&file).unwrap().permissions();
            rights.set_readonly(true);
            fs::set_permissions(&file, rights).unwrap();
        }
        let (_dir, copy) = copied(&path).unwrap();
        for end in ENDS {
            let file = with_end(&copy, end);
            assert_eq!(fs::read(&file).unwrap(), end.as_bytes());
            assert!(
                !fs::metadata(&file).unwrap().permissions().readonly(),
                "{end}"
            );
        }
    }

    #[test]
    fn a_session_is_read_no_further_than_it_may_be_long() {
        let connection = Connection::open_in_memory().unwrap();
        let mut rows = connection.prepare("SELECT 1, '{}', NULL").unwrap();
        let length = 2 + size_of::<(Id, String)>();
        for (left, is_read) in [(2 * length, true), (2 * length - 1, false)] {
            let mut items = Items {
                rows: Vec::new(),
                replaced: 0,
                left,
            };
            let mut take = || rows.query_row([], |row| items.take(row)).unwrap();
            assert_eq!(take(), Ok(()));
            assert_eq!(take().is_ok(), is_read, "{left}");
        }
    }
}
