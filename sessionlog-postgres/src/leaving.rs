//! Deleting sessions: by age, count and size, and by person or chat.

use std::collections::BTreeSet;
use std::sync::Arc;

use sessionlog::backend::kit;
use sessionlog::{
    Erase, EraseReceipt, Error, Expired, Reply, Result, RetentionPlan, RetentionPolicy,
    RetentionReport,
};
use time::OffsetDateTime;
use tokio_postgres::types::Type;

use crate::connection::{Connection, Param};
use crate::context::{Asked, Shared};
use crate::listing;
use crate::row::{Session, one_id};
use crate::store::PostgresStore;

/// A policy and the store that it is for.
#[derive(Clone, Debug)]
#[must_use = "it does nothing before it is told to plan or to apply"]
pub struct PostgresRetention {
    store: PostgresStore,
    policy: RetentionPolicy,
}

impl PostgresStore {
    /// Applies a policy, which decides about the sessions to delete. Nothing runs by itself.
    pub fn retention(&self, policy: RetentionPolicy) -> PostgresRetention {
        PostgresRetention {
            store: self.exact_keys(),
            policy,
        }
    }
}

impl PostgresRetention {
    /// Returns the sessions that would be deleted now.
    ///
    /// # Errors
    /// Those all verbs share.
    pub fn plan(&self) -> Reply<RetentionPlan> {
        let this = self.clone();
        self.store.work(async move { this.planned().await })
    }

    /// Makes a new plan, and deletes its sessions, unless they were changed since the plan. After
    /// an error, part of the work is done. A second call does the rest.
    ///
    /// # Errors
    /// Those all verbs share.
    pub fn apply(&self) -> Reply<RetentionReport> {
        let this = self.clone();
        self.store.work(async move {
            let plan = this.planned().await?;
            let mut report = RetentionReport::default();
            for expired in plan.expired.into_iter().rev() {
                if this.delete(&expired).await? {
                    report.deleted.push(expired);
                } else {
                    report.changed.push(expired.session.key);
                }
            }
            Ok(report)
        })
    }

    async fn planned(&self) -> Result<RetentionPlan> {
        let query = kit::retention_query(&self.policy);
        let sessions = listing::all(&self.store.inner.shared, query).await?;
        Ok(kit::retention_plan(
            &self.policy,
            sessions,
            OffsetDateTime::now_utc(),
        ))
    }

    /// Deletes the session, and returns true if it was in the state of the plan and is gone.
    async fn delete(&self, expired: &Expired) -> Result<bool> {
        let session = &expired.session;
        let Some(row) = self.store.row(&session.key).await? else {
            return Ok(false);
        };
        let is_same = row.updated_at == session.updated_at
            && row.end_at.cast_unsigned() == session.bytes
            && row.summary == session.summary;
        if !is_same {
            return Ok(false);
        }
        match self
            .store
            .delete_at(&session.key, Some(row.version()))
            .await
        {
            Ok(()) => Ok(true),
            Err(Error::VersionConflict { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }
}

/// Number of sessions that are judged at a time.
const AT_A_TIME: i64 = 1000;

/// Erasing.
impl PostgresStore {
    /// Erases a session, or the sessions of a person or a chat, with those that their aliases lead
    /// to. It works as [`StoreHandle::erase`](sessionlog::StoreHandle::erase), and removes the rows
    /// of the sessions, and of their lines, backups, aliases and message ids. Deleted rows that the
    /// database still has are out of its reach: pages until `VACUUM FULL`, the write-ahead log, and
    /// replicas' and other backups. [`EraseReceipt::doubtful`] names these.
    ///
    /// # Errors
    /// [`Error::InvalidKey`] if an id is blank, and those all verbs share. After an error, part of
    /// the work is done. A second call does the rest.
    pub fn erase(&self, what: Erase) -> Reply<EraseReceipt> {
        let this = self.exact_keys();
        self.work(async move {
            this.inner.shared.check_open()?;
            let keys = this.meant(&what).await?;
            let keys = this.with_aliases(&what, keys).await?;
            let mut receipt = EraseReceipt::default();
            for key in keys {
                this.delete_session(&key).await?;
                receipt.sessions.push(key);
            }
            receipt.doubtful.push(String::from(
                "the pages of the tables until VACUUM FULL, the write-ahead log, and backups",
            ));
            Ok(receipt)
        })
    }

    async fn meant(&self, what: &Erase) -> Result<BTreeSet<String>> {
        let whose = match what {
            Erase::Key(key) => {
                kit::check_key(key)?;
                let mut keys = BTreeSet::from([key.clone()]);
                // It is chance to which of an agent's sessions its main alias leads.
                if kit::gives_away(key, &[], None) {
                    keys.extend(self.resolve_session_key(key).await?);
                }
                return Ok(keys);
            }
            Erase::Person(whose) | Erase::Chat(whose) => whose,
            _ => {
                return Err(Error::Unsupported {
                    verb: "to erase that",
                });
            }
        };
        if whose.id.trim().is_empty() {
            let reason = "the id of whom to erase is blank";
            return Err(Error::InvalidKey { reason });
        }
        let whom = kit::erased_id(what).map(|id| one_id(&id));
        let whom = whom.unwrap_or_default();
        let (mut keys, mut after) = (BTreeSet::new(), String::new());
        loop {
            let rows = self
                .inner
                .shared
                .read(|shared, connection| {
                    rows_after(shared, connection, (after.clone(), whom.clone()))
                })
                .await?;
            let Some(last) = rows.last() else {
                return Ok(keys);
            };
            after.clone_from(&last.key);
            let meant = rows
                .into_iter()
                .filter(|row| kit::is_meant(what, row.meta()));
            keys.extend(meant.map(|row| row.key));
        }
    }

    /// Adds the sessions that the aliases of the given sessions name.
    async fn with_aliases(
        &self,
        what: &Erase,
        mut keys: BTreeSet<String>,
    ) -> Result<BTreeSet<String>> {
        let mut left: Vec<String> = keys.iter().cloned().collect();
        while let Some(key) = left.pop() {
            let Some(session) = self.row(&key).await? else {
                continue;
            };
            let aliases = session
                .aliases
                .iter()
                .filter(|alias| kit::check_key(alias).is_ok());
            for alias in aliases {
                let claimants = self.claimants(alias).await?;
                let is_others = claimants.iter().any(|other| !keys.contains(other));
                let is_key = self.resolve_session_key(alias).await?.as_ref() == Some(alias);
                let own = self.row(alias).await?;
                let Some(own) = own.filter(|_| !is_others && !is_key) else {
                    continue;
                };
                let named = [own.meta()];
                let along = kit::aliases_that_go_along(what, &session.meta(), &named);
                for key in along {
                    if keys.insert(key.clone()) {
                        left.push(key);
                    }
                }
            }
        }
        Ok(keys)
    }

    /// Returns the keys of the sessions that have this alias.
    async fn claimants(&self, alias: &str) -> Result<Vec<String>> {
        let alias = alias.to_owned();
        self.inner
            .shared
            .read(|shared, connection| keys_with(shared, connection, alias.clone()))
            .await
    }
}

/// Sessions that may be with a person or chat, in the order of their keys.
pub(crate) const WITH_WHOM: &str = "s.key > $1 AND (s.whom @> ARRAY[$3] OR s.whom IS NULL)
     ORDER BY s.key LIMIT $2";

fn rows_after(
    shared: Arc<Shared>,
    connection: &Connection,
    (after, whom): (String, String),
) -> Asked<'_, Vec<Session>> {
    Box::pin(async move {
        let params: [Param<'_>; 3] = [
            (&after, Type::TEXT),
            (&AT_A_TIME, Type::INT8),
            (&whom, Type::TEXT),
        ];
        listing::rows(connection, &shared, WITH_WHOM, &params).await
    })
}

fn keys_with(
    shared: Arc<Shared>,
    connection: &Connection,
    alias: String,
) -> Asked<'_, Vec<String>> {
    Box::pin(async move {
        let sql = shared
            .sql
            .fill("SELECT session_key FROM {schema}.session_aliases WHERE alias = $1");
        let params: [Param<'_>; 1] = [(&alias, Type::TEXT)];
        let rows = connection.query(&sql, &params).await?;
        Ok(rows.iter().map(|row| row.get(0)).collect())
    })
}
