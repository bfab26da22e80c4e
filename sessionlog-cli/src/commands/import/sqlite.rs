//! Databases of SQLite in which OpenAI's Agents SDK keeps its sessions, an item a row.
//!
//! They are only read, also while the SDK has them open. What is committed when the reading
//! begins is read, and nothing else.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::types::ValueRef;
use rusqlite::{Connection, ErrorCode, OpenFlags, Row, params};
use serde_json::value::RawValue;
use sessionlog::{Format, Transcript};
use tempfile::TempDir;

use crate::failure::{Failure, Result};

/// How long a writer may hold the database before it is told that it does.
const PATIENCE: Duration = Duration::from_secs(10);

/// Tables that tell which messages are of which branch: those of `AdvancedSQLiteSession`.
const STRUCTURE: &str = "message_structure";
const MAIN: &str = "main";

/// A database that has sessions.
pub(super) struct Database {
    path: PathBuf,
    connection: Connection,
    tables: Vec<Table>,
    /// Where the copy is that is read, if the database cannot be read where it is.
    _copy: Option<TempDir>,
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
#[derive(Default)]
struct Items {
    rows: Vec<(i64, String)>,
    /// Bytes that were no UTF-8, as U+FFFD.
    replaced: usize,
}

impl Database {
    /// Opens a database; `None`, if it has no table of messages of the SDK.
    pub(super) fn open(path: &Path) -> Result<Option<Self>> {
        let failed = |error: &rusqlite::Error| told(path, error);
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let (connection, copy) = match begin(path, flags) {
            Err(error) if is_of_the_place(&error) => {
                let cannot = |error| Failure::new(format!("copy {}: {error}", path.display()));
                let (copy, path) = copied(path).map_err(cannot)?;
                let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
                let connection = begin(&path, flags).map_err(|error| failed(&error))?;
                (connection, Some(copy))
            }
            connection => (connection.map_err(|error| failed(&error))?, None),
        };
        let tables = tables(&connection).map_err(|error| failed(&error))?;
        Ok((!tables.is_empty()).then_some(Self {
            path: path.to_owned(),
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
    ) -> Result<()> {
        let failed = |error| told(&self.path, &error);
        for table in &self.tables {
            for id in self.ids(table).map_err(failed)? {
                let read = self.session(table, &id).map_err(failed)?;
                if !take(read.map_err(|why| format!("session {id}: {why}"))) {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// How many sessions there are.
    pub(super) fn len(&self) -> Result<usize> {
        let ids = self.tables.iter().map(|table| self.ids(table));
        let lens = ids.map(|ids| ids.map(|ids| ids.len()));
        let sum: rusqlite::Result<usize> = lens.sum();
        sum.map_err(|error| told(&self.path, &error))
    }

    fn ids(&self, table: &Table) -> rusqlite::Result<Vec<String>> {
        let name = quoted(&table.name);
        let ids = format!(
            "SELECT CAST(session_id AS TEXT) FROM {name} GROUP BY session_id ORDER BY min(id)"
        );
        let mut ids = self.connection.prepare(&ids)?;
        let ids = ids.query_map([], |row| Ok(text(row.get_ref(0)?, &mut 0)))?;
        ids.filter_map(rusqlite::Result::transpose).collect()
    }

    /// A session with its branches, and how many characters of it were damaged.
    fn session(
        &self,
        table: &Table,
        id: &str,
    ) -> rusqlite::Result<std::result::Result<(Transcript, usize), String>> {
        let mut branches = Vec::new();
        if table.has_branches {
            let found = format!(
                "SELECT branch_id FROM {STRUCTURE} WHERE session_id = ?1
                 GROUP BY branch_id ORDER BY branch_id != ?2, min(id)"
            );
            let mut found = self.connection.prepare(&found)?;
            let found = found.query_map(params![id, MAIN], |row| row.get::<_, String>(0))?;
            branches = found.collect::<rusqlite::Result<_>>()?;
        }
        let name = quoted(&table.name);
        let time = if table.has_times {
            "m.created_at"
        } else {
            "NULL"
        };
        let mut replaced = 0;
        let mut read = |branch: Option<&str>| -> rusqlite::Result<_> {
            let rows = match branch {
                None => format!(
                    "SELECT m.id, m.message_data, {time} FROM {name} m
                     WHERE m.session_id = ?1 AND ?2 IS NULL ORDER BY m.id"
                ),
                Some(_) => format!(
                    "SELECT m.id, m.message_data, {time} FROM {STRUCTURE} s
                     JOIN {name} m ON m.id = s.message_id AND m.session_id = s.session_id
                     WHERE s.session_id = ?1 AND s.branch_id = ?2
                     ORDER BY s.sequence_number, s.id"
                ),
            };
            let mut rows = self.connection.prepare(&rows)?;
            let mut rows = rows.query(params![id, branch])?;
            let mut items = Items::default();
            while let Some(row) = rows.next()? {
                if let Err(why) = items.take(row)? {
                    return Ok(Err(why));
                }
            }
            replaced += items.replaced;
            Ok(items.transcript())
        };
        let mut whole = match read(branches.first().map(String::as_str))? {
            Ok(whole) => whole,
            Err(why) => return Ok(Err(why)),
        };
        for branch in branches.iter().skip(1) {
            match read(Some(branch))? {
                Ok(mut transcript) => {
                    transcript.id = Some(branch.clone());
                    whole.branches.push(transcript);
                }
                Err(why) => return Ok(Err(format!("branch {branch}: {why}"))),
            }
        }
        if !branches.is_empty() {
            // The SDK shows none of them either: their branch was deleted.
            let lost = format!(
                "SELECT count(*) FROM {name} WHERE session_id = ?1
                 AND id NOT IN (SELECT message_id FROM {STRUCTURE} WHERE session_id = ?1)"
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
        let id: i64 = row.get(0)?;
        let Some(item) = text(row.get_ref(1)?, &mut self.replaced) else {
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

/// Opens a database and begins to read what is committed now.
fn begin(path: &Path, flags: OpenFlags) -> rusqlite::Result<Connection> {
    let connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(PATIENCE)?;
    connection.execute_batch("BEGIN; SELECT count(*) FROM sqlite_schema;")?;
    Ok(connection)
}

/// Returns true if the database may be sound, but its directory does not let it be read: in WAL
/// mode, and after a crash, readers write beside it.
fn is_of_the_place(error: &rusqlite::Error) -> bool {
    matches!(
        error.sqlite_error_code(),
        Some(ErrorCode::CannotOpen | ErrorCode::ReadOnly)
    )
}

/// A copy of a database with all that belongs to it.
fn copied(path: &Path) -> std::io::Result<(TempDir, PathBuf)> {
    let path = fs::canonicalize(path)?;
    let dir = tempfile::tempdir()?;
    let copy = dir.path().join("copy.db");
    fs::copy(&path, &copy)?;
    for end in ["-wal", "-journal"] {
        let beside = |path: &Path| {
            let mut name = path.as_os_str().to_owned();
            name.push(end);
            PathBuf::from(name)
        };
        match fs::copy(beside(&path), beside(&copy)) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    // The copy of what cannot be written cannot be written.
    let mut rights = fs::metadata(&copy)?.permissions();
    #[expect(
        clippy::permissions_set_readonly_false,
        reason = "the directory around it is nobody else's"
    )]
    rights.set_readonly(false);
    fs::set_permissions(&copy, rights)?;
    Ok((dir, copy))
}

/// The tables of messages, whatever their names are.
fn tables(connection: &Connection) -> rusqlite::Result<Vec<Table>> {
    let mut names =
        connection.prepare("SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name")?;
    let names = names.query_map([], |row| row.get::<_, String>(0))?;
    let names = names.collect::<rusqlite::Result<Vec<_>>>()?;
    let columns = |name: &str| -> rusqlite::Result<Vec<String>> {
        let mut columns = connection.prepare("SELECT lower(name) FROM pragma_table_info(?1)")?;
        let columns = columns.query_map([name], |row| row.get(0))?;
        columns.collect()
    };
    let has = |columns: &[String], names: &[&str]| {
        names
            .iter()
            .all(|name| columns.iter().any(|column| column == name))
    };
    // Of several tables of messages it is that of one.
    let structure = ["session_id", "message_id", "branch_id", "sequence_number"];
    let mut of: Option<String> = None;
    if has(&columns(STRUCTURE)?, &structure) {
        let mut keys = connection.prepare(
            "SELECT \"table\" FROM pragma_foreign_key_list(?1) WHERE \"from\" = 'message_id'",
        )?;
        let mut keys = keys.query_map([STRUCTURE], |row| row.get(0))?;
        of = Some(keys.next().transpose()?.unwrap_or_default());
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

/// What went wrong, with the file.
fn told(path: &Path, error: &rusqlite::Error) -> Failure {
    let what = format!("read {}: {error}", path.display());
    match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
            Failure::new(what).hint("another process writes to it; try again when it has ended")
        }
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => Failure::new(what)
            .hint("sqlite3 FILE .recover gets out of a damaged database what still reads"),
        _ => Failure::new(what),
    }
}
