//! Following changes: one connection listens for all followers.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use sessionlog::backend::kit::{ChangeFeed, WatchFeed};
use sessionlog::{ChangeFilter, Changes, Reply, Result, Watch};
use tokio::runtime::Handle;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio_postgres::Notification;
use tokio_postgres::types::Type;

use crate::connect::Connector;
use crate::connection::{Connection, Param};
use crate::context::Shared;
use crate::fault::{Fault, Tried};
use crate::row::{Notice, random};
use crate::store::PostgresStore;
use crate::transaction::{channel, follower_gate};

/// The time for which writers go on to notify a follower that does not say any more that it
/// listens.
const TERM: &str = "60 seconds";
const BEAT: Duration = Duration::from_secs(15);

/// Number of notifications that can wait for their reader.
const HEARD: usize = 4096;

/// Listens from the first follower on, until the store is closed.
#[derive(Debug)]
pub(crate) struct Listener {
    shared: Arc<Shared>,
    runtime: Handle,
    feed: ChangeFeed,
    watches: Arc<Watches>,
    started: Mutex<Option<Started>>,
}

type Watches = Mutex<HashMap<String, WatchFeed>>;

#[derive(Debug)]
struct Started {
    task: JoinHandle<()>,
    /// True while it hears everything that is written from now on.
    hears: watch::Receiver<bool>,
}

/// Following.
impl PostgresStore {
    /// Returns the changes of all sessions that `filter` admits, from any process. The changes of
    /// each session come in their order, and after readers see them. They are told from the moment
    /// when the store listens. It begins to listen once, for all followers.
    /// [`follow`](Self::follow) waits for that moment. If the connection that listens was lost, the
    /// stream gives [`Error::ChangesMissed`](sessionlog::Error::ChangesMissed). Only PostgreSQL
    /// itself can notify: with another server no change comes.
    #[must_use]
    pub fn changes(&self, filter: ChangeFilter) -> Changes {
        let changes = self.inner.listener.feed.follow(filter);
        self.inner.listener.start();
        changes
    }

    /// Does the same as [`changes`](Self::changes), and answers when the store listens: everything
    /// that is written from then on is told.
    ///
    /// # Errors
    /// [`Error::Unsupported`](sessionlog::Error::Unsupported) with a server that cannot
    /// notify, and those all verbs share.
    pub fn follow(&self, filter: ChangeFilter) -> Reply<Changes> {
        let this = self.clone();
        self.work(async move {
            let changes = this.inner.listener.feed.follow(filter);
            this.inner.listener.listen().await?;
            Ok(changes)
        })
    }

    /// Learns of every change to a session from now on. The session need not exist yet. An alias is
    /// resolved now.
    ///
    /// # Errors
    /// As [`follow`](Self::follow).
    pub fn subscribe(&self, key: &str) -> Reply<Watch> {
        let (this, key) = (self.clone(), key.to_owned());
        Reply::from_future(async move {
            let listening = this.clone();
            this.work(async move { listening.inner.listener.listen().await })
                .await?;
            let row = this.row(&key).await?;
            let meant = row.as_ref().map_or(key, |row| row.key.clone());
            let state = row.map(|row| row.state()).unwrap_or_default();
            let watch = this.inner.listener.watch(&meant, state);
            // A change may have come between the look and the watch, so this looks again.
            let row = this.exact_keys().row(&meant).await?;
            this.inner
                .listener
                .tell(&meant, row.map(|row| row.state()).unwrap_or_default());
            Ok(watch)
        })
    }
}

impl Listener {
    pub(crate) fn new(shared: Arc<Shared>, runtime: Handle) -> Self {
        Self {
            shared,
            runtime,
            feed: ChangeFeed::new(),
            watches: Arc::default(),
            started: Mutex::default(),
        }
    }

    /// Waits until the store hears all writes.
    ///
    /// # Errors
    /// `Unsupported`, `Closed`; `Unavailable` if it takes too long.
    async fn listen(&self) -> Result<()> {
        if !self.shared.notifies {
            return Err(sessionlog::Error::Unsupported {
                verb: "to notify of changes",
            });
        }
        self.shared.check_open()?;
        let mut hears = self.start();
        let listens = hears.wait_for(|hears| *hears);
        match tokio::time::timeout(self.shared.options.retry, listens).await {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(_)) => Err(sessionlog::Error::Closed),
            Err(_) => Err(sessionlog::Error::Unavailable {
                reason: "no server could be listened to".into(),
            }),
        }
    }

    fn start(&self) -> watch::Receiver<bool> {
        let mut started = self.started.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(started) = &*started {
            return started.hears.clone();
        }
        let (told, hears) = watch::channel(false);
        let ear = Ear {
            shared: self.shared.clone(),
            feed: self.feed.clone(),
            watches: self.watches.clone(),
            id: random(),
        };
        let task = self.runtime.spawn(ear.run(told));
        *started = Some(Started {
            task,
            hears: hears.clone(),
        });
        hears
    }

    fn watch(&self, key: &str, state: sessionlog::SessionState) -> Watch {
        let mut watches = self.watches.lock().unwrap_or_else(PoisonError::into_inner);
        watches.retain(|_, feed| !feed.is_unheard());
        let feed = watches.entry(key.to_owned());
        feed.or_insert_with(|| WatchFeed::new(state)).watch()
    }

    fn tell(&self, key: &str, state: sessionlog::SessionState) {
        let watches = self.watches.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(feed) = watches.get(key) {
            feed.send_if_new(state);
        }
    }

    /// Ends all streams of changes. No follower is told of anything any more.
    pub(crate) fn end(&self) {
        self.feed.end();
        self.watches
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clear();
        let started = self
            .started
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        if let Some(started) = started {
            started.task.abort();
        }
    }
}

/// The task that listens.
struct Ear {
    shared: Arc<Shared>,
    feed: ChangeFeed,
    watches: Arc<Watches>,
    id: i64,
}

impl Ear {
    async fn run(self, told: watch::Sender<bool>) {
        let connector = match &self.shared.options.listen_dsn {
            Some(dsn) => self.shared.connector.at(dsn),
            None => Ok(self.shared.connector.clone()),
        };
        let connector = match connector {
            Ok(connector) => connector,
            Err(error) => {
                tracing::error!(%error, "nobody can follow changes");
                return;
            }
        };
        loop {
            let ended = self.hear(&connector, &told).await;
            if told.send_replace(false) {
                self.feed.lose();
            }
            if let Err(fault) = ended {
                tracing::warn!(reason = %fault.reason(), "the connection that listens was lost");
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }

    /// Listens until the connection is lost.
    async fn hear(&self, connector: &Connector, told: &watch::Sender<bool>) -> Tried<()> {
        let (heard, mut notifications) = mpsc::channel(HEARD);
        let connection = connector.connect_and_hear(Some(heard)).await?;
        let listen = format!("LISTEN {}", channel(&self.shared.sql.schema));
        connection.run(&listen).await?;
        self.register(&connection).await?;
        self.look_at_watched(&connection).await?;
        told.send_replace(true);
        let mut beat = tokio::time::interval(BEAT);
        loop {
            tokio::select! {
                notification = notifications.recv() => match notification {
                    Some(notification) => self.take(&notification),
                    None => return Err(Fault::lost("the server closed it")),
                },
                _ = beat.tick() => self.stay(&connection).await?,
                () = connector.fence.replaced(connection.pass) => {
                    return Err(Fault::lost("the server was replaced"));
                }
            }
        }
    }

    /// Makes writers notify. After the commit, no write is under way that would not notify.
    async fn register(&self, connection: &Connection) -> Tried<()> {
        connection.run("BEGIN").await?;
        let gate = follower_gate(&self.shared.sql.schema);
        let params: [Param<'_>; 1] = [(&gate, Type::INT8)];
        connection
            .execute("SELECT pg_advisory_xact_lock($1)", &params)
            .await?;
        let sql = self.shared.sql.fill(&format!(
            "INSERT INTO {{schema}}.followers VALUES ($1, now() + interval '{TERM}')
             ON CONFLICT (follower_id) DO UPDATE SET until = excluded.until"
        ));
        let params: [Param<'_>; 1] = [(&self.id, Type::INT8)];
        connection.execute(&sql, &params).await?;
        let sql = self
            .shared
            .sql
            .fill("DELETE FROM {schema}.followers WHERE until < now()");
        connection.execute(&sql, &[]).await?;
        Ok(connection.run("COMMIT").await?)
    }

    /// Says that this follower still listens. If that was too late, changes were missed.
    async fn stay(&self, connection: &Connection) -> Tried<()> {
        let sql = self.shared.sql.fill(&format!(
            "UPDATE {{schema}}.followers SET until = now() + interval '{TERM}'
             WHERE follower_id = $1 AND until > now()"
        ));
        let params: [Param<'_>; 1] = [(&self.id, Type::INT8)];
        match connection.execute(&sql, &params).await? {
            0 => Err(Fault::lost("it was away for too long")),
            _ => Ok(()),
        }
    }

    fn take(&self, notification: &Notification) {
        let Ok(notice) = serde_json::from_str::<Notice>(notification.payload()) else {
            return;
        };
        let mut state = sessionlog::SessionState::default();
        (state.generation, state.lines, state.skip) =
            (notice.generation, notice.lines, notice.skip);
        {
            let watches = self.watches.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(feed) = watches.get(&notice.key) {
                feed.send_if_new(state);
            }
        }
        self.feed
            .tell(&notice.key, &notice.agent, notice.version, notice.change());
    }

    /// Looks at the watched sessions again, which may have changed while the store did not listen.
    async fn look_at_watched(&self, connection: &Connection) -> Tried<()> {
        let keys: Vec<String> = {
            let watches = self.watches.lock().unwrap_or_else(PoisonError::into_inner);
            watches.keys().cloned().collect()
        };
        if keys.is_empty() {
            return Ok(());
        }
        let params: [Param<'_>; 1] = [(&keys, Type::TEXT_ARRAY)];
        let found = crate::listing::rows(connection, &self.shared, "s.key = ANY($1)", &params);
        let found = found.await?;
        let watches = self.watches.lock().unwrap_or_else(PoisonError::into_inner);
        for key in keys {
            let row = found.iter().find(|row| row.key == key);
            let state = row.map(crate::row::Session::state).unwrap_or_default();
            if let Some(feed) = watches.get(&key) {
                feed.send_if_new(state);
            }
        }
        Ok(())
    }
}
