//! One connection, and the statements that run on it.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures_util::Stream;
use futures_util::future::{poll_fn, try_join_all};
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, Row, Statement};

use crate::fence::Pass;

/// A value of a statement, and its type.
pub(crate) type Param<'a> = (&'a (dyn ToSql + Sync), Type);

type Answer<T> = Result<T, tokio_postgres::Error>;

/// A connection. When it is dropped, it is closed, and the server ends the work under way.
pub(crate) struct Connection {
    pub(crate) client: Client,
    /// The pass of the server that it leads to.
    pub(crate) pass: Pass,
    warned: Arc<AtomicBool>,
    /// Prepared statements by their text. The server reads and plans other statements each time.
    prepared: HashMap<String, Statement>,
    plans: Plans,
}

/// The way in which the server plans statements.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Plans {
    /// It plans each time, for the values that come with the statement.
    #[default]
    EachTime,
    /// It plans once, by indexes. Planning a read of the last messages of a session takes longer
    /// than the read itself, and planning a small transaction takes longer than the transaction.
    /// Left to itself, the server would plan each time: it is not told the number of messages, and
    /// assumes a tenth of all that there are.
    Once,
}

impl Plans {
    /// Returns the settings. A plan that stays must not be one for small tables, which reads them
    /// whole, because the tables grow. Where there is no other way, a forbidden step counts as very
    /// dear. The server would compile a dear plan each time, which takes longer than a whole
    /// transaction.
    const fn setting(self) -> &'static str {
        match self {
            Self::EachTime => {
                "SET plan_cache_mode TO DEFAULT; SET enable_seqscan TO DEFAULT;
                 SET enable_hashjoin TO DEFAULT; SET enable_mergejoin TO DEFAULT;
                 SET jit TO DEFAULT"
            }
            Self::Once => {
                "SET plan_cache_mode = force_generic_plan; SET enable_seqscan = off;
                 SET enable_hashjoin = off; SET enable_mergejoin = off; SET jit = off"
            }
        }
    }
}

impl Connection {
    pub(crate) fn new(client: Client, pass: Pass, warned: Arc<AtomicBool>) -> Self {
        Self {
            client,
            pass,
            warned,
            prepared: HashMap::new(),
            plans: Plans::default(),
        }
    }

    /// Makes the server prepare statements. Use it only if nothing is between the server and this
    /// process. Behind a pooler the next transaction may go to another server process. There the
    /// name of a statement means nothing, or is the name of another client's statement.
    pub(crate) async fn prepare(&mut self, statements: &[String]) -> Answer<()> {
        let client = &self.client;
        client.batch_execute(Plans::Once.setting()).await?;
        self.plans = Plans::Once;
        let prepared = statements.iter().map(|sql| async move {
            let statement = client.prepare(sql).await?;
            Ok::<_, tokio_postgres::Error>((sql.clone(), statement))
        });
        self.prepared = try_join_all(prepared).await?.into_iter().collect();
        Ok(())
    }

    /// True if it has its own statements prepared, with plans that stay.
    pub(crate) fn plans_once(&self) -> bool {
        self.plans == Plans::Once
    }

    pub(crate) async fn query(&self, sql: &str, params: &[Param<'_>]) -> Answer<Vec<Row>> {
        match self.prepared.get(sql) {
            Some(statement) => self.client.query(statement, &values(params)).await,
            None if self.plans == Plans::Once => self.query_planned(sql, params).await,
            None => self.client.query_typed(sql, params).await,
        }
    }

    /// Makes the server plan a statement for its values, on a connection that plans its prepared
    /// statements once.
    async fn query_planned(&self, sql: &str, params: &[Param<'_>]) -> Answer<Vec<Row>> {
        // The calls are polled in this order, so they are sent in it, and all at once.
        let (before, rows, after) = tokio::join!(
            self.client.batch_execute(Plans::EachTime.setting()),
            self.client.query_typed(sql, params),
            self.client.batch_execute(Plans::Once.setting()),
        );
        // A caller that gets an error gives the connection up.
        before?;
        // The statement's own error comes first. In a transaction it makes the next statement fail,
        // too, and that error does not say if a retry may help.
        let rows = rows?;
        after?;
        Ok(rows)
    }

    /// Passes on each row of a statement as it comes, until `take` has enough. All rows at a time
    /// would be a second copy of their content.
    pub(crate) async fn each(
        &self,
        sql: &str,
        params: &[Param<'_>],
        mut take: impl FnMut(&Row) -> ControlFlow<()>,
    ) -> Answer<()> {
        let params = params.iter().map(|(value, of)| (*value, of.clone()));
        let rows = self.client.query_typed_raw(sql, params).await?;
        let mut rows = std::pin::pin!(rows);
        while let Some(row) = poll_fn(|cx| rows.as_mut().poll_next(cx)).await {
            if take(&row?).is_break() {
                break;
            }
        }
        Ok(())
    }

    /// Runs a statement, and returns the number of changed rows.
    pub(crate) async fn execute(&self, sql: &str, params: &[Param<'_>]) -> Answer<u64> {
        match self.prepared.get(sql) {
            Some(statement) => self.client.execute(statement, &values(params)).await,
            None => self.client.execute_typed(sql, params).await,
        }
    }

    /// Runs statements without values.
    pub(crate) async fn run(&self, statements: &str) -> Answer<()> {
        self.client.batch_execute(statements).await
    }

    /// True if the server said since the last question that a commit did not wait for its replicas.
    /// The server says so in a warning, and then says that it is committed.
    pub(crate) fn was_warned(&self) -> bool {
        self.warned.swap(false, Ordering::AcqRel)
    }
}

fn values<'a>(params: &[Param<'a>]) -> Vec<&'a (dyn ToSql + Sync)> {
    params.iter().map(|(value, _)| *value).collect()
}

impl std::fmt::Debug for Connection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Connection").finish_non_exhaustive()
    }
}
