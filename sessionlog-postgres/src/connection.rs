//! One connection, and what is asked on it.

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

/// A connection. Dropped, it is closed, and the server ends what was under way.
pub(crate) struct Connection {
    pub(crate) client: Client,
    /// Of the server that it leads to.
    pub(crate) pass: Pass,
    warned: Arc<AtomicBool>,
    /// By their text. Others are read and planned by the server each time.
    prepared: HashMap<String, Statement>,
    plans: Plans,
}

/// How the server plans what it is asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Plans {
    /// Each time, for the values that come with it.
    #[default]
    EachTime,
    /// Once, by indexes: planning the last messages of a session takes longer than reading
    /// them, and planning a small transaction longer than carrying it out. Left to itself the
    /// server would do it each time, because it takes the number of messages that it is not
    /// told for a tenth of all there are.
    Once,
}

impl Plans {
    /// A plan that stays must not be one for small tables, which reads them whole: they grow.
    /// What is forbidden counts as very dear where there is no other way, and what is dear would
    /// be compiled each time, which takes longer than a whole transaction.
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

    /// Has the server prepare statements. Only if nobody is between it and us: behind a pooler
    /// the next transaction may be another server process's, where the name that a statement
    /// was given means nothing, or somebody else's statement.
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

    /// Whether it has its own statements prepared, with plans that stay.
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

    /// Has a statement planned for its values, on a connection whose prepared ones are planned
    /// once.
    async fn query_planned(&self, sql: &str, params: &[Param<'_>]) -> Answer<Vec<Row>> {
        // Polled in this order, they are sent in it, and all at once.
        let (before, rows, after) = tokio::join!(
            self.client.batch_execute(Plans::EachTime.setting()),
            self.client.query_typed(sql, params),
            self.client.batch_execute(Plans::Once.setting()),
        );
        // Who gets an error gives the connection up.
        before?;
        // The statement's own error first: in a transaction it has the next fail, too, and that
        // one says nothing of whether to try again.
        let rows = rows?;
        after?;
        Ok(rows)
    }

    /// The rows of a statement as they come, each of them once, until `take` has enough: all of
    /// them at a time would be a second copy of what they hold.
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

    /// How many rows were changed.
    pub(crate) async fn execute(&self, sql: &str, params: &[Param<'_>]) -> Answer<u64> {
        match self.prepared.get(sql) {
            Some(statement) => self.client.execute(statement, &values(params)).await,
            None => self.client.execute_typed(sql, params).await,
        }
    }

    /// Statements without values.
    pub(crate) async fn run(&self, statements: &str) -> Answer<()> {
        self.client.batch_execute(statements).await
    }

    /// Whether the server said since the last question that a commit did not wait for its
    /// replicas: it says so in a warning, and then that it is committed.
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
