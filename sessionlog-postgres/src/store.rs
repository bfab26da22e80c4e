//! The store: opening, closing, and the way of a verb to a lane or a connection.

use std::future::Future;
use std::num::NonZero;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use sessionlog::backend::kit;
use sessionlog::{Durability, Error, Message, Reply, Result};
use tokio::runtime::{Handle, Runtime};
use tokio::sync::{Semaphore, oneshot};
use tokio::task::JoinHandle;

use crate::changes::Listener;
use crate::command::{Command, Order, Outcome, Verb};
use crate::connect::{Connector, Pool};
use crate::context::Shared;
use crate::fault::Fault;
use crate::known::Known;
use crate::lane::Lane;
use crate::options::PostgresOptions;
use crate::promise::Promise;
use crate::queue::{Queue, session_of};
use crate::row::NewLine;
use crate::schema;
use crate::search::SEARCHED;
use crate::sql::Sql;

/// Sessions in a PostgreSQL database, for any number of callers in any number of processes.
///
/// Cheap to clone. The last clone that is dropped closes the store. The store has its own runtime:
/// you can await replies under any runtime, or wait for them on a plain thread.
///
/// Verbs have the names, types and meaning of those of a [`StoreHandle`](sessionlog::StoreHandle).
/// The database stores a message as the bytes that its line has in a session file.
///
/// # Errors all verbs share
///
/// * [`Error::InvalidKey`] for a key that is not valid.
/// * [`Error::Closed`] after the store was closed.
/// * [`Error::Unavailable`] if the database cannot be reached, has no free connection, or does not
///   answer in time. A write took no effect then.
/// * [`Error::OutcomeUnknown`] (writes only) if the connection was lost during the commit and the
///   database could not be asked about it since.
/// * [`Error::Io`] if the database refuses the statement.
#[derive(Clone, Debug)]
pub struct PostgresStore {
    pub(crate) inner: Arc<Inner>,
    pub(crate) level: Durability,
    pub(crate) exact: bool,
}

#[derive(Debug)]
pub(crate) struct Inner {
    pub(crate) shared: Arc<Shared>,
    pub(crate) listener: Listener,
    promise: Promise,
    runtime: Option<Runtime>,
    queue: Arc<Queue>,
    /// Empty once the store is closed.
    lanes: Mutex<Vec<JoinHandle<()>>>,
    /// Number of commands that may still be queued.
    places: Arc<Semaphore>,
    /// Number of bytes of commands that may still be queued, in KiB.
    room: Arc<Semaphore>,
}

/// The least room in the queue that a command takes, in KiB.
const LEAST_ROOM: usize = 1;

impl PostgresStore {
    /// Opens a store, makes or updates its tables, and reads the server's promise. If no server
    /// answers, it tries for [`retry`](PostgresOptions::retry). Blocks; from async code call
    /// [`connect`](Self::connect).
    ///
    /// # Errors
    /// [`Error::Unavailable`] if no server that takes writes answers. [`Error::Io`] if the options
    /// cannot be read or the tables are of a newer version.
    pub fn open(options: PostgresOptions) -> Result<Self> {
        let runtime = runtime()?;
        let (told, answer) = std::sync::mpsc::channel();
        let handle = runtime.handle().clone();
        // Not `block_on`: this thread may be one of another runtime.
        handle.spawn(async move {
            let _ = told.send(prepare(options).await);
        });
        let prepared = answer.recv().unwrap_or(Err(Error::Closed));
        match prepared {
            Ok(prepared) => Ok(Self::of(runtime, prepared)),
            Err(error) => {
                runtime.shutdown_background();
                Err(error)
            }
        }
    }

    /// Does the same as [`open`](Self::open), for async code.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn connect(options: PostgresOptions) -> Reply<Self> {
        Reply::from_future(async move {
            let runtime = runtime()?;
            let prepared = runtime.handle().spawn(prepare(options)).await;
            match prepared.unwrap_or(Err(Error::Closed)) {
                Ok(prepared) => Ok(Self::of(runtime, prepared)),
                Err(error) => {
                    runtime.shutdown_background();
                    Err(error)
                }
            }
        })
    }

    fn of(runtime: Runtime, (shared, promise): (Shared, Promise)) -> Self {
        for weakness in promise.weaknesses() {
            tracing::warn!(weakness, "what is acknowledged may be lost");
        }
        let shared = Arc::new(shared);
        let options = &shared.options;
        let queue = Queue::new(options.lanes, options.batch_commands);
        let lanes = (0..options.lanes).map(|_| Lane::new(shared.clone(), queue.join()));
        let lanes = lanes.map(|lane| runtime.spawn(lane.run())).collect();
        let places = Arc::new(Semaphore::new(options.queued_commands));
        let room = Arc::new(Semaphore::new(options.queued_bytes >> 10));
        let level = options.durability;
        let inner = Inner {
            listener: Listener::new(shared.clone(), runtime.handle().clone()),
            shared,
            promise,
            runtime: Some(runtime),
            queue,
            lanes: Mutex::new(lanes),
            places,
            room,
        };
        Self {
            inner: Arc::new(inner),
            level,
            exact: false,
        }
    }

    /// Returns the server's promise for durable writes at the time when the store was opened.
    #[must_use]
    pub fn promise(&self) -> &Promise {
        &self.inner.promise
    }

    /// Returns the same store, with another level of durability for appends and summaries.
    /// Truncations, rewrites and deletions are always durable.
    #[must_use]
    pub fn with_durability(&self, level: Durability) -> Self {
        Self {
            level,
            ..self.clone()
        }
    }

    /// Returns the same store, which takes keys literally: no alias is resolved. There is one
    /// exception. If a session was [renamed](Self::rename_session), writes under its earlier key go
    /// to it.
    #[must_use]
    pub fn exact_keys(&self) -> Self {
        Self {
            exact: true,
            ..self.clone()
        }
    }

    /// Runs work on the store's runtime, which has the store's connections.
    pub(crate) fn work<T: Send + 'static>(
        &self,
        work: impl Future<Output = Result<T>> + Send + 'static,
    ) -> Reply<T> {
        let inner = self.inner.clone();
        Reply::from_future(async move {
            let Some(runtime) = &inner.runtime else {
                return Err(Error::Closed);
            };
            runtime.spawn(work).await.unwrap_or(Err(Error::Closed))
        })
    }

    /// Makes a lane carry out the command that `prepare` returns, when the reply is asked for.
    pub(crate) fn write(
        &self,
        key: &str,
        prepare: impl FnOnce() -> Result<Verb> + Send + 'static,
    ) -> Reply<Outcome> {
        let (this, key) = (self.clone(), key.to_owned());
        Reply::from_future(async move {
            this.inner.shared.check_open()?;
            kit::check_key(&key)?;
            let order = Order {
                verb: prepare()?,
                key,
                exact: this.exact,
                level: this.level,
            };
            let answer = this.submit(order).await?;
            answer.await.unwrap_or(Err(Error::Closed))
        })
    }

    async fn submit(&self, order: Order) -> Result<oneshot::Receiver<Result<Outcome>>> {
        let inner = &self.inner;
        let most = inner.shared.options.queued_bytes >> 10;
        let room = (order.verb.bytes() >> 10).clamp(LEAST_ROOM, most);
        let (answer, answered) = oneshot::channel();
        let wait = inner.shared.options.wait;
        let key = order.key.clone();
        let queued = async {
            let place = inner.places.clone().acquire_owned().await;
            let room = inner.room.clone().acquire_many_owned(room as u32).await;
            inner.queue.push(Command {
                session: session_of(&order.key),
                order,
                answer,
                place: Some(place.map_err(|_| Error::Closed)?),
                _room: room.map_err(|_| Error::Closed)?,
            })
        };
        let Some(queued) = within(self.inner.handle(), wait, queued).await else {
            let waiting = self.inner.shared.options.queued_commands;
            return Err(Error::Overloaded { key, waiting });
        };
        queued?;
        Ok(answered)
    }

    /// Encodes messages as lines.
    pub(crate) fn lines(&self, messages: Vec<Message>) -> Result<Vec<NewLine>> {
        let options = &self.inner.shared.options;
        let (now, _) = kit::now();
        if self.inner.shared.has_word_index {
            for text in messages.iter().map(Message::text) {
                if text.len() > SEARCHED && text.chars().nth(SEARCHED).is_some() {
                    tracing::warn!(bytes = text.len(), "a long text is indexed in part");
                }
            }
        }
        let lines = kit::encode(messages, now, options.max_line, options.max_batch)?;
        Ok(lines.into_iter().map(NewLine::read).collect())
    }

    /// Carries out the queued commands, and closes the connections, for all clones. Later verbs
    /// fail. A second close does nothing.
    ///
    /// # Errors
    /// None.
    pub fn close(&self) -> Reply<()> {
        let this = self.clone();
        Reply::from_future(async move {
            this.inner.shared.closed.store(true, Ordering::Release);
            let tasks = this.inner.end_lanes();
            for task in tasks {
                // A lane that panicked has not answered its callers. They are told that the store
                // is closed.
                let _ = task.await;
            }
            this.inner.listener.end();
            this.inner.shared.pool.close();
            Ok(())
        })
    }
}

/// Returns the result of `work` unless it takes longer. `work` is polled in the caller's task, and
/// the timer runs on the store's runtime.
async fn within<T>(
    handle: Option<&Handle>,
    most: Duration,
    work: impl Future<Output = T>,
) -> Option<T> {
    use futures_util::future::{Either, select};
    let handle = handle?;
    let mut work = std::pin::pin!(work);
    // Most of the time there is room.
    if let Some(done) = futures_util::future::poll_immediate(work.as_mut()).await {
        return Some(done);
    }
    let timer = handle.spawn(async move { tokio::time::sleep(most).await });
    let stop = timer.abort_handle();
    let ended = select(work, timer).await;
    stop.abort();
    match ended {
        Either::Left((done, _)) => Some(done),
        Either::Right(_) => None,
    }
}

impl Inner {
    pub(crate) fn handle(&self) -> Option<&Handle> {
        self.runtime.as_ref().map(Runtime::handle)
    }

    /// Makes the lanes carry out the queued commands, and end.
    fn end_lanes(&self) -> Vec<JoinHandle<()>> {
        self.queue.close();
        let mut lanes = self.lanes.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut lanes)
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.shared.closed.store(true, Ordering::Release);
        self.end_lanes();
        self.listener.end();
        if let Some(runtime) = self.runtime.take() {
            // Every waiting caller holds a clone of the store, so nobody waits.
            runtime.shutdown_background();
        }
    }
}

/// Starts the threads of a store. On two processors the server needs more than half of them, and a
/// second thread of this process takes its time.
fn runtime() -> Result<Runtime> {
    let processors = std::thread::available_parallelism().map_or(1, NonZero::get);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(if processors > 2 { 2 } else { 1 })
        .thread_name("sessionlog-postgres")
        .enable_all()
        .build();
    runtime.map_err(|error| Error::Io {
        operation: "start threads for",
        path: "the database".into(),
        source: Arc::new(error),
    })
}

async fn prepare(options: PostgresOptions) -> Result<(Shared, Promise)> {
    schema::check_name(&options.schema)?;
    let connector = Connector::new(&options)?;
    let deadline = tokio::time::Instant::now() + options.retry;
    let (promise, has_word_index) = loop {
        match try_to_prepare(&connector, &options).await {
            Ok(prepared) => break prepared,
            Err(Fault::Refused(error)) => return Err(error),
            Err(fault) if tokio::time::Instant::now() >= deadline => return Err(fault.into_error()),
            Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
        }
    };
    let sql = Sql::of(&options.schema);
    let preparing = |statements: Vec<String>| {
        if options.prepare {
            connector.preparing(statements)
        } else {
            connector.clone()
        }
    };
    let pool = Pool::builder(preparing(sql.reads()))
        .max_size(options.connections)
        .wait_timeout(Some(options.wait))
        .create_timeout(Some(options.wait))
        .recycle_timeout(Some(options.wait))
        .runtime(deadpool::Runtime::Tokio1)
        .build();
    let pool = pool.map_err(|error| Error::Unavailable {
        reason: error.to_string().into(),
    })?;
    let shared = Shared {
        writers: preparing(sql.writes()),
        sql,
        has_word_index,
        notifies: promise.is_postgresql(),
        known: Known::default(),
        is_followed: AtomicBool::new(false),
        closed: AtomicBool::new(false),
        options,
        connector,
        pool,
    };
    Ok((shared, promise))
}

async fn try_to_prepare(
    connector: &Connector,
    options: &PostgresOptions,
) -> crate::fault::Tried<(Promise, bool)> {
    let connection = connector.connect().await?;
    let promise = Promise::read(&connection, connector.hosts()).await?;
    schema::check_encoding(&connection).await?;
    if options.migrate {
        schema::migrate(&connection, &options.schema, options.partitions).await?;
    } else {
        schema::require(&connection, &options.schema).await?;
    }
    if promise.is_postgresql() {
        schema::check_tables(&connection, &options.schema).await?;
    }
    if options.migrate {
        schema::find_whom(&connection, &options.schema).await?;
        // These are lanes of processes that were killed. Nobody looks for their commits any more.
        let sql = "DELETE FROM {schema}.lanes WHERE seen_at < now() - interval '30 days'";
        let sql = sql.replace("{schema}", &crate::sql::quoted(&options.schema));
        connection.run(&sql).await?;
    }
    if options.text_search {
        schema::index_words(&connection, &options.schema).await?;
    }
    // Only PostgreSQL has it, and the catalogue that lists it.
    let has_word_index = options.text_search
        || promise.is_postgresql() && schema::has_word_index(&connection, &options.schema).await?;
    Ok((promise, has_word_index))
}
