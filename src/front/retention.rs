//! Deleting sessions that are too old or too many: the policy, and its outcome.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use sessionlog_core::session_file;
use sessionlog_core::stamp;
use time::OffsetDateTime;

use crate::front::sessions::{Deletion, SessionInfo, SessionQuery};
use crate::scope::{build_main_session_key, is_opaque_session_key};

/// Selects the sessions that stay, for [`StoreHandle::retention`](crate::StoreHandle::retention).
/// Without a limit, all stay.
///
/// Sessions whose sidecars do not say when they were updated stay, and so do agents' main sessions
/// (`agent:main:main`, or its opaque key; an opaque key whose scope names no agent may be one).
/// Neither is counted. A compaction updates a session, as PicoClaw's does.
#[derive(Clone, Debug, Default)]
#[must_use = "it does nothing until it is given to StoreHandle::retention"]
pub struct RetentionPolicy {
    among: SessionQuery,
    age: Option<Duration>,
    count: Option<usize>,
    bytes: Option<u64>,
    with_main: bool,
    deleted: Option<Duration>,
}

/// The reason why a session is deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub enum RetentionReason {
    /// It was unchanged for too long.
    Age,
    /// Enough others were updated later.
    Count,
    /// Sessions updated later take all the allowed bytes.
    Bytes,
    /// It was in the trash for long enough.
    Deleted,
}

/// A session to be deleted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Expired {
    /// The session.
    pub session: SessionInfo,
    /// The reason why it is deleted.
    pub reason: RetentionReason,
}

/// The sessions that a policy would delete now.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct RetentionPlan {
    /// The sessions to delete, the one updated last first. Before them come those already in the
    /// trash, the one deleted last first.
    pub expired: Vec<Expired>,
    /// The number of sessions that the policy covers and that stay.
    pub kept: usize,
    /// The keys of sessions with unreadable files. They stay.
    pub unreadable: Vec<String>,
}

/// The outcome of a policy.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct RetentionReport {
    /// The sessions that were deleted.
    pub deleted: Vec<Expired>,
    /// The keys of sessions that were changed meanwhile. They stay, unless another caller deleted
    /// them.
    pub changed: Vec<String>,
    /// The keys of sessions with files that could not be read or written. They stay; a log says
    /// why.
    pub unreadable: Vec<String>,
}

impl RetentionPolicy {
    /// No limit.
    pub fn new() -> Self {
        Self::default()
    }

    /// Deletes sessions unchanged for longer than this.
    pub fn age(mut self, age: Duration) -> Self {
        self.age = Some(age);
        self
    }

    /// At most this many sessions stay, those updated last.
    pub fn count(mut self, count: usize) -> Self {
        self.count = Some(count);
        self
    }

    /// At most this many bytes of lines stay, hidden ones included, in the sessions updated last. A
    /// session that does not fit is deleted, and so is each session updated before it.
    pub fn bytes(mut self, bytes: u64) -> Self {
        self.bytes = Some(bytes);
        self
    }

    /// Counts and deletes only sessions that this query selects. Its order, limit and start of page
    /// do not count.
    pub fn among(mut self, sessions: SessionQuery) -> Self {
        self.among = sessions;
        self
    }

    /// Also applies to agents' main sessions. Off by default.
    pub fn with_main(mut self, with: bool) -> Self {
        self.with_main = with;
        self
    }

    /// Empties the [trash](crate::StoreHandle::delete_session) of sessions that were deleted longer
    /// ago than this. Default: the store's [option](crate::StoreOptions::trash); without it, or if
    /// the store is open read-only, they stay. A database has no trash.
    pub fn deleted(mut self, age: Duration) -> Self {
        self.deleted = Some(age);
        self
    }

    /// The time that deleted sessions stay in the trash.
    pub(super) fn trash(&self, default: Option<Duration>) -> Option<Duration> {
        self.deleted.or(default)
    }

    /// The sessions in the trash that were there for longer than `kept`.
    pub(super) fn judge_deleted(
        sessions: Vec<SessionInfo>,
        kept: Duration,
        now: OffsetDateTime,
    ) -> impl Iterator<Item = Expired> {
        let is_old = move |session: &SessionInfo| {
            let deletion = session.deleted.as_ref();
            let time = deletion.and_then(Deletion::time);
            time.is_some_and(|time| now - time > kept)
        };
        let old = sessions.into_iter().rev().filter(is_old);
        old.map(|session| Expired {
            session,
            reason: RetentionReason::Deleted,
        })
    }

    /// The sessions that the policy covers, and perhaps some more.
    pub(super) fn query(&self) -> SessionQuery {
        let mut query = self.among.clone().limit(usize::MAX);
        (query.after, query.deleted) = (None, false);
        query
    }

    /// Decides which of these sessions are deleted.
    pub(super) fn judge(&self, sessions: Vec<SessionInfo>, now: OffsetDateTime) -> RetentionPlan {
        let age = self.age.and_then(|age| i64::try_from(age.as_nanos()).ok());
        let oldest = age.map(|age| stamp::nanos(now).saturating_sub(age));
        let dated = sessions.into_iter().filter_map(|session| {
            let about = self.with_main || !is_main(&session);
            stamp::parse_nanos(&session.updated_at)
                .filter(|_| about)
                .map(|updated| (updated, session))
        });
        let mut dated: Vec<_> = dated.collect();
        dated.sort_by_key(|(updated, _)| std::cmp::Reverse(*updated));
        let (mut plan, mut bytes) = (RetentionPlan::default(), 0_u64);
        for (updated, session) in dated {
            bytes = bytes.saturating_add(session.bytes);
            let reason = if oldest.is_some_and(|oldest| updated < oldest) {
                RetentionReason::Age
            } else if self.count.is_some_and(|count| plan.kept >= count) {
                RetentionReason::Count
            } else if self.bytes.is_some_and(|most| bytes > most) {
                RetentionReason::Bytes
            } else {
                plan.kept += 1;
                continue;
            };
            plan.expired.push(Expired { session, reason });
        }
        plan
    }
}

/// True if it is or may be an agent's main session: a hash alone does not name its agent.
fn is_main(session: &SessionInfo) -> bool {
    let key = session_file::fold(session.key.trim());
    if !is_opaque_session_key(&key) {
        return session_file::is_main_alias(&key);
    }
    session.agent.is_empty() || build_main_session_key(&session.agent) == key
}

#[cfg(test)]
mod tests {
    use super::RetentionReason::{Age, Bytes, Count};
    use super::*;

    fn session(key: &str, updated_at: &str, bytes: u64) -> SessionInfo {
        let json = serde_json::json!({
            "key": key, "summary": "", "first_text": "", "last_text": "", "lines": 1,
            "bytes": bytes, "created_at": "", "updated_at": updated_at,
            "agent": "sales", "channel": ""
        });
        serde_json::from_value(json).unwrap()
    }

    fn expired(policy: &RetentionPolicy) -> Vec<(String, RetentionReason)> {
        let at = |hour: u8| format!("2026-11-23T{hour:02}:00:00Z");
        let sessions = vec![
            session("old", &at(1), 10),
            session("agent:sales:MAIN", &at(0), 1000),
            session(&build_main_session_key("sales"), &at(0), 1000),
            session("undated", "0001-01-01T00:00:00Z", 1000),
            session("unread", "yesterday", 1000),
            session("new", &at(9), 30),
            session("middle", &at(5), 20),
        ];
        let plan = policy.judge(sessions, at_time(&at(10)));
        let expired = plan.expired.into_iter();
        expired
            .map(|gone| (gone.session.key, gone.reason))
            .collect()
    }

    fn at_time(text: &str) -> OffsetDateTime {
        let nanos = i128::from(stamp::parse_nanos(text).unwrap());
        OffsetDateTime::from_unix_timestamp_nanos(nanos).unwrap()
    }

    #[test]
    fn an_opaque_key_that_may_be_an_agents_main_one_stays() {
        let mut main = session(&build_main_session_key("support"), "", 1);
        assert!(!is_main(&main));
        main.agent.clear();
        assert!(is_main(&main));
        main.agent = String::from("support");
        assert!(is_main(&main));
    }

    #[test]
    fn what_is_over_a_limit_goes_the_oldest_first() {
        let hours = |hours: u64| Duration::from_secs(hours * 3600);
        let policy = RetentionPolicy::new;
        assert!(expired(&policy()).is_empty());
        let gone = |key: &str, reason| (key.to_owned(), reason);
        assert!(expired(&policy().age(hours(9))).is_empty());
        assert!(expired(&policy().age(Duration::MAX)).is_empty());
        assert_eq!(expired(&policy().age(hours(8))), [gone("old", Age)]);
        let two = [gone("middle", Count), gone("old", Count)];
        assert_eq!(expired(&policy().count(1)), two);
        assert_eq!(expired(&policy().bytes(59)), [gone("old", Bytes)]);
        let all = ["new", "middle", "old"].map(|key| gone(key, Bytes));
        assert_eq!(expired(&policy().bytes(29)), all);
        let mixed = [gone("middle", Count), gone("old", Age)];
        assert_eq!(expired(&policy().count(1).age(hours(8))), mixed);
        assert_eq!(expired(&policy().with_main(true).age(hours(9))).len(), 2);
    }
}
