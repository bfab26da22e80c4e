//! Failures, sorted by the reaction to them.

use std::path::PathBuf;
use std::sync::Arc;

use sessionlog::Error;
use tokio_postgres::error::{DbError, SqlState};

/// The reason that a transaction, or a part of one, did not come to its end.
#[derive(Clone, Debug)]
pub(crate) enum Fault {
    /// The connection is of no use any more. The sent work may be done or not.
    Lost(Arc<str>),
    /// The server rolled it back, and asks to try it again.
    Again(Arc<str>),
    /// Rolled back, and a retry would be rolled back, too.
    Refused(Error),
}

impl Fault {
    pub(crate) fn lost(reason: impl Into<Arc<str>>) -> Self {
        Self::Lost(reason.into())
    }

    /// Returns the error for the caller if the work is not tried again.
    pub(crate) fn into_error(self) -> Error {
        match self {
            Self::Lost(reason) | Self::Again(reason) => Error::Unavailable { reason },
            Self::Refused(error) => error,
        }
    }

    pub(crate) fn reason(&self) -> Arc<str> {
        match self {
            Self::Lost(reason) | Self::Again(reason) => reason.clone(),
            Self::Refused(error) => error.to_string().into(),
        }
    }
}

impl From<Error> for Fault {
    fn from(error: Error) -> Self {
        Self::Refused(error)
    }
}

/// A server in recovery, or that was demoted, or is going down: another one may do.
const GONE: [SqlState; 8] = [
    SqlState::ADMIN_SHUTDOWN,
    SqlState::CRASH_SHUTDOWN,
    SqlState::CANNOT_CONNECT_NOW,
    SqlState::READ_ONLY_SQL_TRANSACTION,
    SqlState::TOO_MANY_CONNECTIONS,
    SqlState::CONNECTION_FAILURE,
    SqlState::CONNECTION_EXCEPTION,
    SqlState::IDLE_IN_TRANSACTION_SESSION_TIMEOUT,
];

/// CockroachDB reports this for a commit if it does not know the outcome.
const UNKNOWN: SqlState = SqlState::T_R_STATEMENT_COMPLETION_UNKNOWN;

const AGAIN: [SqlState; 3] = [
    SqlState::T_R_SERIALIZATION_FAILURE,
    SqlState::T_R_DEADLOCK_DETECTED,
    SqlState::LOCK_NOT_AVAILABLE,
];

impl From<tokio_postgres::Error> for Fault {
    fn from(error: tokio_postgres::Error) -> Self {
        let Some(db) = error.as_db_error() else {
            let source = std::error::Error::source(&error);
            let cause = source.map(|cause| format!(": {cause}"));
            return Self::lost(format!("{error}{}", cause.unwrap_or_default()));
        };
        let reason = format!("{} (SQLSTATE {})", db.message(), db.code().code());
        let is_gone = GONE.contains(db.code()) || db.code().code().starts_with("08");
        if is_gone || *db.code() == UNKNOWN || is_stale(db) {
            Self::lost(reason)
        } else if AGAIN.contains(db.code()) {
            Self::Again(reason.into())
        } else {
            Self::Refused(refused(db.code(), reason))
        }
    }
}

/// True if the connection's prepared statements cannot be used any more. A column may have another
/// type, or the names may belong to another connection. A new connection prepares anew.
fn is_stale(error: &DbError) -> bool {
    const NAMES: [SqlState; 2] = [
        SqlState::INVALID_SQL_STATEMENT_NAME,
        SqlState::DUPLICATE_PSTATEMENT,
    ];
    NAMES.contains(error.code()) || error.routine() == Some("RevalidateCachedQuery")
}

fn refused(code: &SqlState, reason: String) -> Error {
    if *code == SqlState::QUERY_CANCELED {
        let reason = format!("a statement took too long: {reason}").into();
        return Error::Unavailable { reason };
    }
    let path = PathBuf::from("the database");
    if *code == SqlState::DISK_FULL {
        return Error::StorageFull { path };
    }
    Error::Io {
        operation: "have a statement carried out by",
        path,
        source: Arc::new(std::io::Error::other(reason)),
    }
}

pub(crate) type Tried<T> = std::result::Result<T, Fault>;
