//! The tables, and their migrations: versioned, forwards only, one at a time.

use sessionlog::{Error, Result};
use tokio_postgres::types::Type;

use crate::connection::{Connection, Param};
use crate::fault::{Fault, Tried};
use crate::row::Session;
use crate::sql::{Sql, quoted};

/// A step from one version of the tables to the next. Never change it once it was released, because
/// databases have it.
struct Migration {
    version: i32,
    name: &'static str,
    sql: &'static str,
}

const MIGRATIONS: [Migration; 9] = [
    Migration {
        version: 1,
        name: "sessions, lines, aliases, message ids, lanes, followers",
        sql: include_str!("../migrations/0001_sessions.sql"),
    },
    Migration {
        version: 2,
        name: "backups",
        sql: include_str!("../migrations/0002_backups.sql"),
    },
    Migration {
        version: 3,
        name: "the order of message ids",
        sql: include_str!("../migrations/0003_once_ids.sql"),
    },
    Migration {
        version: 4,
        name: "rows that are updated in place",
        sql: include_str!("../migrations/0004_rows.sql"),
    },
    Migration {
        version: 5,
        name: "texts that lines have",
        sql: include_str!("../migrations/0005_said.sql"),
    },
    Migration {
        version: 6,
        name: "whom sessions are with",
        sql: include_str!("../migrations/0006_whom.sql"),
    },
    Migration {
        version: 7,
        name: "the oldest message ids",
        sql: include_str!("../migrations/0007_turns.sql"),
    },
    Migration {
        version: 8,
        name: "titles, labels and pins",
        sql: include_str!("../migrations/0008_tags.sql"),
    },
    Migration {
        version: 9,
        name: "aliases that were keys",
        sql: include_str!("../migrations/0009_moved.sql"),
    },
];

impl Migration {
    /// Returns the SQL of the step, and the note that it is done.
    fn whole(&self) -> String {
        let Self { version, name, sql } = self;
        format!(
            "{sql}\nINSERT INTO {{schema}}.schema_migrations (version, name) \
             VALUES ({version}, '{name}');"
        )
    }
}

/// The table that notes the applied steps. The row of version 0 is the lock.
const TABLE: &str = "CREATE SCHEMA IF NOT EXISTS {schema};
CREATE TABLE IF NOT EXISTS {schema}.schema_migrations (
    version    integer PRIMARY KEY,
    name       text NOT NULL,
    applied_at timestamptz NOT NULL DEFAULT now());
INSERT INTO {schema}.schema_migrations (version, name) VALUES (0, 'lock') ON CONFLICT DO NOTHING;
";

const PARTITIONS: &str = include_str!("../migrations/partitions.sql");

const SEARCH_INDEX: &str = include_str!("../migrations/text_search_index.sql");

/// The version that this crate works with.
pub const SCHEMA_VERSION: i32 = 9;

/// Returns the SQL of all migrations for a schema of this name. Apply the SQL by hand, in order.
///
/// # Errors
/// [`Error::Io`] if the name is not valid.
pub fn migrations_sql(schema: &str) -> Result<String> {
    check_name(schema)?;
    let steps = MIGRATIONS.iter();
    let steps = steps.map(Migration::whole);
    let all = [TABLE.to_owned()]
        .into_iter()
        .chain(steps)
        .collect::<Vec<_>>()
        .join("\n");
    Ok(all.replace("{schema}", &quoted(schema)))
}

/// Checks the name of a schema.
///
/// # Errors
/// `Io` if a schema cannot have this name.
pub(crate) fn check_name(schema: &str) -> Result<()> {
    let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    let begins = schema.starts_with(|c: char| c.is_ascii_lowercase() || c == '_');
    if begins && schema.len() <= 48 && schema.chars().all(is_plain) {
        return Ok(());
    }
    Err(other(format!(
        "{schema:?} cannot be the name of a schema: that has a to z, digits and _, and at most 48 of them"
    )))
}

fn other(reason: String) -> Error {
    Error::Io {
        operation: "prepare the tables of",
        path: "the database".into(),
        source: std::sync::Arc::new(std::io::Error::other(reason)),
    }
}

/// Brings the tables up to date, or finds out that they are. Several processes may do this at the
/// same time: a row lock lets one in.
pub(crate) async fn migrate(
    connection: &Connection,
    schema: &str,
    partitions: Option<u32>,
) -> Tried<()> {
    let migrated = try_to_migrate(connection, schema, partitions).await;
    let advice = format!(
        "have the database's owner GRANT CREATE ON DATABASE name TO role, or apply \
         migrations_sql({schema:?}) and open with migrate(false)"
    );
    migrated.map_err(|fault| forbidden(fault, &advice))
}

async fn try_to_migrate(
    connection: &Connection,
    schema: &str,
    partitions: Option<u32>,
) -> Tried<()> {
    let client = &connection.client;
    let is_current = version(connection, schema).await? == Some(SCHEMA_VERSION);
    if is_current && (partitions.is_none() || is_partitioned(connection, schema).await?) {
        return Ok(());
    }
    let quoted = quoted(schema);
    let gate = TABLE.replace("{schema}", &quoted);
    client.batch_execute(&gate).await.map_err(concurrent)?;
    // This works with any default isolation: a process that waited for the lock must see the work
    // of its holder. If this process waits here for a long read, all others wait behind it.
    let lock = format!(
        "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE; SET LOCAL lock_timeout = '2s'; SELECT version FROM {quoted}.schema_migrations WHERE version = 0 FOR UPDATE"
    );
    client.batch_execute(&lock).await?;
    let applied = apply(connection, schema, partitions).await;
    let end = if applied.is_ok() {
        "COMMIT"
    } else {
        "ROLLBACK"
    };
    let ended = client.batch_execute(end).await;
    applied?;
    Ok(ended?)
}

/// `IF NOT EXISTS` does not separate two processes that create at the same time: one gets a unique
/// violation.
fn concurrent(error: tokio_postgres::Error) -> Fault {
    use tokio_postgres::error::SqlState;
    let code = error.code().cloned();
    let is_race = [
        SqlState::UNIQUE_VIOLATION,
        SqlState::DUPLICATE_TABLE,
        SqlState::DUPLICATE_SCHEMA,
        SqlState::DUPLICATE_OBJECT,
    ];
    if code.is_some_and(|code| is_race.contains(&code)) {
        return Fault::Again("another process makes the tables".into());
    }
    error.into()
}

async fn apply(connection: &Connection, schema: &str, partitions: Option<u32>) -> Tried<()> {
    let found = version(connection, schema).await?.unwrap_or(0);
    check(found)?;
    let indexes = ["lines_by_words", "lines_by_text", "words_of_lines"];
    let had_index = has_index(connection, schema, &indexes).await?;
    for step in MIGRATIONS.iter().filter(|step| step.version > found) {
        let sql = step.whole().replace("{schema}", &quoted(schema));
        connection.run(&sql).await?;
        tracing::info!(schema, version = step.version, "the tables were migrated");
    }
    if let Some(many) = partitions
        && !is_partitioned(connection, schema).await?
    {
        let sql = partitions_sql(many).replace("{schema}", &quoted(schema));
        connection.run(&sql).await?;
        tracing::info!(schema, many, "the tables of lines were partitioned");
    }
    if had_index {
        index_words(connection, schema).await?;
    }
    Ok(())
}

fn partitions_sql(many: u32) -> String {
    let parts = ["lines", "backup_lines"].into_iter().flat_map(|table| {
        (0..many).map(move |part| {
            format!(
                "CREATE TABLE {{schema}}.{table}_{part} PARTITION OF {{schema}}.{table}
                     FOR VALUES WITH (MODULUS {many}, REMAINDER {part});"
            )
        })
    });
    PARTITIONS.replace("{parts}", &parts.collect::<Vec<_>>().join("\n"))
}

async fn is_partitioned(connection: &Connection, schema: &str) -> Tried<bool> {
    let sql = "SELECT 1 FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
         WHERE n.nspname = $1 AND c.relname = 'lines' AND c.relkind = 'p'";
    let params: [Param<'_>; 1] = [(&schema, Type::TEXT)];
    Ok(!connection.query(sql, &params).await?.is_empty())
}

/// Number of sessions that are looked at in a transaction.
const AT_A_TIME: usize = 1000;

/// Finds out the people and chats of the sessions that an older version wrote without them.
pub(crate) async fn find_whom(connection: &Connection, schema: &str) -> Tried<()> {
    let sql = Sql::of(schema);
    // This is the order in which others lock them.
    let look = sql.fill(&format!(
        "SELECT {{COLUMNS}} FROM {{schema}}.sessions s WHERE s.whom IS NULL
         ORDER BY s.session_id LIMIT {AT_A_TIME} FOR UPDATE OF s"
    ));
    let note = sql.fill(
        "UPDATE {schema}.sessions s SET whom = string_to_array(i.whom, chr(31))
         FROM unnest($1::bigint[], $2::text[]) AS i(session_id, whom)
         WHERE s.session_id = i.session_id",
    );
    loop {
        connection
            .run("BEGIN ISOLATION LEVEL READ COMMITTED")
            .await?;
        let found = connection.query(&look, &[]).await?;
        let sessions: Vec<Session> = found.iter().map(Session::of).collect();
        let ids: Vec<i64> = sessions.iter().map(|session| session.id).collect();
        let whom: Vec<String> = sessions.iter().map(Session::whom).collect();
        let params: [Param<'_>; 2] = [(&ids, Type::INT8_ARRAY), (&whom, Type::TEXT_ARRAY)];
        connection.execute(&note, &params).await?;
        connection.run("COMMIT").await?;
        if ids.len() < AT_A_TIME {
            return Ok(());
        }
    }
}

/// True if there is one of these indexes.
async fn has_index(connection: &Connection, schema: &str, indexes: &[&str]) -> Tried<bool> {
    let sql = "SELECT 1 FROM pg_indexes WHERE schemaname = $1 AND indexname = ANY($2)";
    let params: [Param<'_>; 2] = [(&schema, Type::TEXT), (&indexes, Type::TEXT_ARRAY)];
    Ok(!connection.query(sql, &params).await?.is_empty())
}

/// Checks the version of the tables.
///
/// # Errors
/// `Io` if the tables are newer than this crate: it would misread them.
fn check(found: i32) -> Result<()> {
    if found <= SCHEMA_VERSION {
        return Ok(());
    }
    Err(other(format!(
        "they are of version {found}, and this program knows those up to {SCHEMA_VERSION}: \
         use a newer one"
    )))
}

/// Refuses tables that are not up to date.
pub(crate) async fn require(connection: &Connection, schema: &str) -> Tried<()> {
    let found = version(connection, schema).await;
    let advice = format!("GRANT USAGE ON SCHEMA {schema} TO role, and rights to its tables");
    let found = found.map_err(|fault| forbidden(fault, &advice))?;
    let found = found.unwrap_or(0);
    check(found)?;
    if found < SCHEMA_VERSION {
        let reason = format!(
            "they are of version {found}, and {SCHEMA_VERSION} is needed: open the store once \
             with migrations allowed, or apply migrations_sql()"
        );
        return Err(other(reason).into());
    }
    Ok(())
}

/// Returns the version of the tables, or `None` if there are none.
async fn version(connection: &Connection, schema: &str) -> Tried<Option<i32>> {
    let sql = format!(
        "SELECT max(version) FROM {}.schema_migrations",
        quoted(schema)
    );
    match connection.query(&sql, &[]).await {
        Ok(rows) => Ok(rows.first().and_then(|row| row.get(0))),
        Err(error) if error.code().is_some_and(is_absent) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

fn is_absent(code: &tokio_postgres::error::SqlState) -> bool {
    use tokio_postgres::error::SqlState;
    *code == SqlState::UNDEFINED_TABLE || *code == SqlState::INVALID_SCHEMA_NAME
}

/// Refuses a database with another encoding of texts: the database would refuse users' texts, one
/// message after the other.
pub(crate) async fn check_encoding(connection: &Connection) -> Tried<()> {
    let sql = "SELECT current_setting('server_encoding'), current_database()::text";
    // A server without such a setting has no other encoding.
    let Ok(rows) = connection.client.query_typed(sql, &[]).await else {
        return Ok(());
    };
    let Some(row) = rows.first() else {
        return Ok(());
    };
    let (encoding, database): (String, String) = (row.get(0), row.get(1));
    if ["UTF8", "SQL_ASCII"].contains(&&*encoding) {
        return Ok(());
    }
    Err(other(format!(
        "the encoding of database {database} is {encoding}, which has not all characters; make \
         another one: createdb --template=template0 --encoding=UTF8 --locale=C.UTF-8 NAME"
    ))
    .into())
}

/// All tables.
const TABLES: [&str; 11] = [
    "sessions",
    "session_summaries",
    "session_tags",
    "session_aliases",
    "lines",
    "message_ids",
    "backups",
    "backup_lines",
    "lanes",
    "followers",
    "schema_migrations",
];

/// Refuses a schema that lacks a table, or a right to one. Otherwise verbs would fail one by one.
pub(crate) async fn check_tables(connection: &Connection, schema: &str) -> Tried<()> {
    let sql = "SELECT t, c.oid IS NULL, coalesce(has_table_privilege(c.oid, 'SELECT'), false)
             AND (t = 'schema_migrations' OR coalesce(has_table_privilege(c.oid, 'INSERT')
                 AND has_table_privilege(c.oid, 'UPDATE')
                 AND has_table_privilege(c.oid, 'DELETE'), false)),
             current_user::text
         FROM unnest($2::text[]) AS t(t)
         LEFT JOIN pg_namespace n ON n.nspname = $1
         LEFT JOIN pg_class c ON c.relnamespace = n.oid AND c.relname = t";
    let tables = TABLES.as_slice();
    let params: [Param<'_>; 2] = [(&schema, Type::TEXT), (&tables, Type::TEXT_ARRAY)];
    for row in connection.query(sql, &params).await? {
        let (table, role): (String, String) = (row.get(0), row.get(3));
        if row.get(1) {
            return Err(other(format!(
                "there is no table {schema}.{table}, although the tables are said to be of version \
                 {SCHEMA_VERSION}: restore it from a backup of the database"
            ))
            .into());
        }
        if !row.get::<_, bool>(2) {
            return Err(other(format!(
                "the role {role} may not use table {schema}.{table}: GRANT SELECT, INSERT, UPDATE, \
                 DELETE ON ALL TABLES IN SCHEMA {schema} TO {role}"
            ))
            .into());
        }
    }
    Ok(())
}

/// Adds advice to an error for an action that the database forbids.
fn forbidden(fault: Fault, advice: &str) -> Fault {
    match fault {
        Fault::Refused(error) if error.to_string().contains("SQLSTATE 42501") => {
            other(format!("{error}: {advice}")).into()
        }
        fault => fault,
    }
}

/// True if there is an index for searching by words.
pub(crate) async fn has_word_index(connection: &Connection, schema: &str) -> Tried<bool> {
    has_index(connection, schema, &["words_of_lines"]).await
}

/// Makes the index for searching by words.
pub(crate) async fn index_words(connection: &Connection, schema: &str) -> Tried<()> {
    // The owner of the tables may have made it.
    if has_word_index(connection, schema).await? {
        return Ok(());
    }
    let sql = SEARCH_INDEX.replace("{schema}", &quoted(schema));
    let made = connection.run(&sql).await;
    made.map_err(concurrent)
}
