//! Letting sessions go that are too old or too many.

use std::sync::Arc;

use super::{Side, StoreHandle};
use crate::engine::Engine;
use crate::engine::shard::verbs::delete::Delete;
use crate::error::{Error, Result};
use crate::front::reply::{Place, Reply};
use crate::front::retention::{Expired, RetentionPlan, RetentionPolicy, RetentionReport};

/// A policy and the store that it is for; see [`StoreHandle::retention`].
#[derive(Clone, Debug)]
#[must_use = "it does nothing before it is told to plan or to apply"]
pub struct Retention {
    chats: StoreHandle,
    policy: RetentionPolicy,
}

/// Letting go.
impl StoreHandle {
    /// Which sessions a policy lets go, and to let them go. Nothing runs by itself: who
    /// wants that calls [`apply`](Retention::apply) from time to time.
    ///
    /// ```
    /// use sessionlog::{RetentionPolicy, Store};
    ///
    /// # fn main() -> sessionlog::Result<()> {
    /// # let scratch = tempfile::tempdir().unwrap();
    /// # let store = Store::open(scratch.path())?;
    /// let chats = store.handle();
    /// for key in ["telegram:1", "telegram:2", "agent:main:main"] {
    ///     chats.add_message(key, "user", "hi").wait()?;
    /// }
    /// let retention = chats.retention(RetentionPolicy::new().count(1));
    /// let plan = retention.plan().wait()?;
    /// assert_eq!(plan.expired[0].session.key, "telegram:1");
    /// let report = retention.apply().wait()?;
    /// assert_eq!(report.deleted, plan.expired);
    /// assert_eq!(chats.list_sessions().wait()?, ["agent:main:main", "telegram:2"]);
    /// # store.close()
    /// # }
    /// ```
    pub fn retention(&self, policy: RetentionPolicy) -> Retention {
        Retention {
            chats: self.exact_keys(),
            policy,
        }
    }
}

impl Retention {
    /// Which sessions would go now. Reads as [`sessions`](StoreHandle::sessions) does.
    ///
    /// # Errors
    /// Those all verbs share.
    pub fn plan(&self) -> Reply<RetentionPlan> {
        let this = self.clone();
        Reply::lookup(move |place| Box::pin(async move { this.plan_at(place).await }))
    }

    /// Plans anew, and [deletes](StoreHandle::delete_session) the sessions that go, unless
    /// they were changed since the plan: one that is written to meanwhile stays. Done in
    /// part after an error, or if the reply is dropped; applied again, it does the rest.
    ///
    /// # Errors
    /// Those all verbs share.
    pub fn apply(&self) -> Reply<RetentionReport> {
        let this = self.clone();
        Reply::lookup(move |place| {
            Box::pin(async move {
                let Side::Writer(engine) = &this.chats.side else {
                    return Err(Error::ReadOnly);
                };
                let plan = this.plan_at(place).await?;
                let mut report = RetentionReport {
                    unreadable: plan.unreadable,
                    ..RetentionReport::default()
                };
                for expired in plan.expired {
                    match this.delete(engine, &expired, place).await {
                        Ok(true) => report.deleted.push(expired),
                        Ok(false) => report.changed.push(expired.session.key),
                        Err(error) => return Err(error),
                    }
                }
                Ok(report)
            })
        })
    }

    async fn plan_at(&self, place: Place) -> Result<RetentionPlan> {
        let Side::Writer(engine) = &self.chats.side else {
            return Err(Error::ReadOnly);
        };
        let page = self.chats.sessions(self.policy.query()).at(place).await?;
        let now = engine.shared.clock.now();
        let mut plan = self.policy.judge(page.sessions, now);
        plan.unreadable = page.unreadable;
        Ok(plan)
    }

    /// Whether the session was as the plan has it, and is gone.
    async fn delete(&self, engine: &Arc<Engine>, expired: &Expired, place: Place) -> Result<bool> {
        let key = &expired.session.key;
        let snapshot = self.chats.moment_of(key, place).await?;
        if *snapshot.meta.updated_at.as_str() != *expired.session.updated_at {
            return Ok(false);
        }
        let expect = Some(snapshot.meta.version);
        let delete = Delete { expect };
        match Reply::command(engine.clone(), key.as_str().into(), delete).await {
            Ok(()) => Ok(true),
            Err(Error::VersionConflict { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }
}
