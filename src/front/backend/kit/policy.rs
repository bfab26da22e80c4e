//! The sessions that a query, a retention policy or an erasure means.

use sessionlog_core::session_file::Meta;
use time::OffsetDateTime;

use crate::{Erase, RetentionPlan, RetentionPolicy, SessionInfo, SessionMeta, SessionQuery};

/// True if a query matches a session.
#[must_use]
pub fn admits_session(query: &SessionQuery, meta: SessionMeta) -> bool {
    let key = meta.key.clone();
    key.starts_with(&query.prefix) && query.admits(&key, &Meta::of(meta))
}

/// The ids of the people and chats that a session is with, in the form of [`sought_id`], for an
/// index. [`admits_session`] or [`is_meant`] decide whether a session is meant.
#[must_use]
pub fn ids_of_session(meta: SessionMeta) -> Vec<String> {
    let key = meta.key.clone();
    Erase::ids_of(&key, &Meta::of(meta))
}

/// The id of the person or chat that a query looks for.
#[must_use]
pub fn sought_id(query: &SessionQuery) -> Option<String> {
    query.party.as_ref().and_then(Erase::id)
}

/// The id of the person or chat that an erasure is about.
#[must_use]
pub fn erased_id(what: &Erase) -> Option<String> {
    what.id()
}

/// The sessions that a policy covers.
pub fn retention_query(policy: &RetentionPolicy) -> SessionQuery {
    policy.query()
}

/// Decides which of these sessions a policy deletes.
#[must_use]
pub fn retention_plan(
    policy: &RetentionPolicy,
    sessions: Vec<SessionInfo>,
    now: OffsetDateTime,
) -> RetentionPlan {
    policy.judge(sessions, now)
}

/// True if an erasure of a person or a chat means a session; always false for an erasure by key.
#[must_use]
pub fn is_meant(what: &Erase, meta: SessionMeta) -> bool {
    let key = meta.key.clone();
    what.means(&key, &Meta::of(meta))
}

/// The aliases of a session, among those with a session of their own, that are erased with it.
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
