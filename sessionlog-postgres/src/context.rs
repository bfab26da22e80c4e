//! What all parts of a store share.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use sessionlog::{Error, Result};

use crate::connect::{Connector, Pool};
use crate::connection::Connection;
use crate::fault::{Fault, Tried};
use crate::known::Known;
use crate::options::PostgresOptions;
use crate::sql::Sql;

/// What all parts of a store share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) options: PostgresOptions,
    pub(crate) connector: Connector,
    /// What makes the lanes' connections.
    pub(crate) writers: Connector,
    pub(crate) pool: Pool,
    pub(crate) sql: Sql,
    /// Whether the server can notify. Without it nobody can follow changes.
    pub(crate) notifies: bool,
    /// What writers leave of sessions for their next transaction.
    pub(crate) known: Known,
    /// Whether anybody followed changes, when last seen.
    pub(crate) is_followed: AtomicBool,
    pub(crate) closed: AtomicBool,
}

/// A question under way.
pub(crate) type Asked<'c, T> = Pin<Box<dyn Future<Output = Tried<T>> + Send + 'c>>;

/// A connection out of the pool.
pub(crate) type Pooled = deadpool::managed::Object<Connector>;

impl Shared {
    /// Whether followers are to be told, as far as is known.
    pub(crate) fn is_followed(&self) -> bool {
        self.is_followed.load(Ordering::Relaxed)
    }

    /// Notes whether anybody follows, and says whether to tell them.
    pub(crate) fn note_followers(&self, is_followed: bool) -> bool {
        let is_told = is_followed && self.notifies;
        self.is_followed.store(is_told, Ordering::Relaxed);
        is_told
    }

    /// # Errors
    /// `Closed`.
    pub(crate) fn check_open(&self) -> Result<()> {
        if self.closed.load(Ordering::Acquire) {
            return Err(Error::Closed);
        }
        Ok(())
    }

    /// A connection to read with.
    ///
    /// # Errors
    /// `Closed`; `Unavailable` if none is free in time, or no server answers.
    pub(crate) async fn connection(&self) -> Result<Pooled> {
        use deadpool::managed::PoolError;
        self.check_open()?;
        self.pool.get().await.map_err(|error| match error {
            PoolError::Backend(fault) => fault.into_error(),
            PoolError::Timeout(_) => Error::Unavailable {
                reason: Arc::from(format!(
                    "all {} connections were in use for {:?}",
                    self.options.connections, self.options.wait
                )),
            },
            PoolError::Closed | PoolError::NoRuntimeSpecified | PoolError::PostCreateHook(_) => {
                Error::Closed
            }
        })
    }

    /// Has `read` ask the database. A server that is gone is asked once more, or another in
    /// its place; one that takes too long is told to stop.
    ///
    /// # Errors
    /// `Closed`, `Unavailable`, and what the database says.
    pub(crate) async fn read<T>(
        self: &Arc<Self>,
        read: impl for<'c> Fn(Arc<Self>, &'c Connection) -> Asked<'c, T> + Send + Sync,
    ) -> Result<T> {
        let mut tries = 0;
        loop {
            tries += 1;
            let connection = self.connection().await?;
            let asked =
                tokio::time::timeout(self.options.statement, read(self.clone(), &connection)).await;
            match asked {
                Ok(Ok(found)) => return Ok(found),
                // It may be in a transaction that failed.
                Ok(Err(Fault::Lost(_) | Fault::Again(_))) if tries < 4 => drop(take(connection)),
                Ok(Err(fault)) => {
                    drop(take(connection));
                    return Err(fault.into_error());
                }
                Err(_) => {
                    let connection = take(connection);
                    self.connector.cancel(&connection);
                    let reason = format!("a read took over {:?}", self.options.statement);
                    return Err(Error::Unavailable {
                        reason: reason.into(),
                    });
                }
            }
        }
    }
}

/// Out of the pool for good.
fn take(connection: Pooled) -> Connection {
    deadpool::managed::Object::take(connection)
}
