//! Deleting sessions that are too old or too many.

use std::sync::Arc;

use sessionlog_core::error::{Error, ErrorKind, Result};
use sessionlog_wal::clock::{Clock, SystemClock};

use super::{Side, StoreHandle, blocking};
use crate::engine::Engine;
use crate::engine::shard::verbs::delete::Delete;
use crate::front::reply::{LookupPlace, Reply};
use crate::front::retention::{Expired, RetentionPlan, RetentionPolicy, RetentionReport};
use crate::front::sessions::{SessionOrder, SessionPage};

/// A policy and the store that it is for; see [`StoreHandle::retention`].
#[derive(Clone, Debug)]
#[must_use = "it does nothing before it is told to plan or to apply"]
pub struct Retention {
    chats: StoreHandle,
    policy: RetentionPolicy,
}

/// Retention.
impl StoreHandle {
    /// Plans and applies a retention policy. Nothing runs by itself: call
    /// [`apply`](Retention::apply) from time to time.
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
    /// The sessions that would be deleted now. Reads as [`sessions`](StoreHandle::sessions) does.
    ///
    /// # Errors
    /// The errors all verbs share.
    pub fn plan(&self) -> Reply<RetentionPlan> {
        let this = self.clone();
        Reply::lookup(move |place| Box::pin(async move { this.plan_at(place).await }))
    }

    /// Plans anew, and [deletes](StoreHandle::delete_session) the planned sessions for good, those
    /// updated first before the others. A session that was changed since the plan stays. After an
    /// error, or if the reply is dropped, part of it is done; applying again does the rest.
    ///
    /// # Errors
    /// The errors all verbs share. A session that cannot be read or written is reported instead.
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
                for expired in plan.expired.into_iter().rev() {
                    let deleted = this.delete(engine, &expired, place).await;
                    report.take(expired, deleted)?;
                }
                Ok(report)
            })
        })
    }

    async fn plan_at(&self, place: LookupPlace) -> Result<RetentionPlan> {
        let page = self.chats.sessions(self.policy.query()).at(place).await?;
        let (now, keeps) = match &self.chats.side {
            Side::Writer(engine) => (engine.shared.clock.now(), engine.shared.trash),
            Side::Reader(_) => (SystemClock::default().now(), None),
        };
        let keeps = self.policy.trash(keeps);
        let mut deleted = SessionPage::default();
        if keeps.is_some() {
            let query = self.policy.query().order(SessionOrder::Name).deleted();
            deleted = self.chats.sessions(query).at(place).await?;
        }
        let this = self.clone();
        let judge = move || {
            let mut plan = this.policy.judge(page.sessions, now);
            if let Some(keeps) = keeps {
                let deleted = RetentionPolicy::judge_deleted(deleted.sessions, keeps, now);
                plan.expired.splice(..0, deleted);
            }
            plan.unreadable = page.unreadable;
            plan.unreadable.extend(deleted.unreadable);
            Ok(plan)
        };
        blocking(place, judge).await
    }

    /// Returns true if the session was as the plan has it, and is now deleted.
    async fn delete(
        &self,
        engine: &Arc<Engine>,
        expired: &Expired,
        place: LookupPlace,
    ) -> Result<bool> {
        let session = &expired.session;
        let moment = self.chats.moment_of(&session.key, place).await?;
        // Changes made at once have the same time, but not the same size.
        let bytes = moment.live.end + moment.tail_len as u64;
        let is_same = *moment.meta.updated_at.text().as_str() == *session.updated_at
            && bytes == session.bytes
            && moment.meta.text.summary == session.summary;
        if !is_same {
            return Ok(false);
        }
        let expect = Some(moment.meta.version);
        let delete = Delete {
            expect,
            to_trash: false,
        };
        match Reply::command(engine.clone(), session.key.as_str().into(), delete).await {
            Ok(()) => Ok(true),
            Err(Error::VersionConflict { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }
}

impl RetentionReport {
    /// Unreadable files of one session must not keep the others from being deleted.
    fn take(&mut self, expired: Expired, deleted: Result<bool>) -> Result<()> {
        let key = &expired.session.key;
        match deleted {
            Ok(true) => self.deleted.push(expired),
            Ok(false) => self.changed.push(expired.session.key),
            Err(error)
                if matches!(
                    error.kind(),
                    ErrorKind::Io | ErrorKind::Corrupt | ErrorKind::InvalidInput
                ) =>
            {
                tracing::warn!(key, %error, "a session is not let go");
                self.unreadable.push(expired.session.key);
            }
            Err(error) => return Err(error),
        }
        Ok(())
    }
}
