//! Which sessions a query, a retention policy or an erasure means.

use time::OffsetDateTime;

use crate::disk::session_file::Meta;
use crate::{Erase, RetentionPlan, RetentionPolicy, SessionInfo, SessionMeta, SessionQuery};

/// Whether a query looks for a session.
#[must_use]
pub fn admits_session(query: &SessionQuery, meta: SessionMeta) -> bool {
    let key = meta.key.clone();
    key.starts_with(&query.prefix) && query.admits(&key, &Meta::of(meta))
}

/// The sessions that a policy is about.
pub fn retention_query(policy: &RetentionPolicy) -> SessionQuery {
    policy.query()
}

/// Which of these sessions a policy lets go.
#[must_use]
pub fn retention_plan(
    policy: &RetentionPolicy,
    sessions: Vec<SessionInfo>,
    now: OffsetDateTime,
) -> RetentionPlan {
    policy.judge(sessions, now)
}

/// Whether an erasure of a person or a chat means a session; by a key, none.
#[must_use]
pub fn is_meant(what: &Erase, meta: SessionMeta) -> bool {
    let key = meta.key.clone();
    what.means(&key, &Meta::of(meta))
}

/// Which of the sessions that a session's aliases name are erased with it.
pub fn aliases_that_go_along<'a>(
    what: &'a Erase,
    session: &SessionMeta,
    named: impl IntoIterator<Item = &'a SessionMeta>,
) -> Vec<String> {
    let session = Meta::of(session.clone());
    let named = named.into_iter().filter(|own| {
        let own = Meta::of((*own).clone());
        what.goes_along(&own.text.key, &own, &session)
    });
    named.map(|own| own.key.clone()).collect()
}
