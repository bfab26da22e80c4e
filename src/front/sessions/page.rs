//! A page of the sessions that match a query, in its order.

use serde::{Deserialize, Serialize};
use sessionlog_core::stamp;

use super::{Cursor, SessionInfo, SessionOrder, SessionQuery};

/// A page of the sessions that match a query.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct SessionPage {
    /// The sessions, in the order asked for.
    pub sessions: Vec<SessionInfo>,
    /// The keys of sessions with files that could not be read; a log says why.
    pub unreadable: Vec<String>,
    /// Where the next page begins; `None` if this is the last.
    pub next: Option<Cursor>,
}

impl SessionPage {
    /// The page of a custom store that has all its sessions in memory, in any order.
    /// [`SessionOrder::Name`] is the order of their keys. A session's key and aliases tell the
    /// person or chat that it is with.
    ///
    /// ```
    /// use sessionlog::{SessionInfo, SessionPage, SessionQuery};
    ///
    /// let sessions = ["slack:1", "telegram:2", "telegram:1"].map(|key| {
    ///     let mut info = SessionInfo::default();
    ///     info.key = key.into();
    ///     info
    /// });
    /// let query = SessionQuery::new().prefix("telegram:").limit(1);
    /// let page = SessionPage::of(sessions.into(), &query);
    /// assert_eq!(page.sessions[0].key, "telegram:1");
    /// assert_eq!(page.next.unwrap().name(), "telegram:1");
    /// ```
    #[must_use]
    pub fn of(mut sessions: Vec<SessionInfo>, query: &SessionQuery) -> Self {
        sessions.retain(|info| query.is_with(&info.key, None, &info.aliases));
        Self::of_those(sessions, query)
    }

    /// The same, for sessions already known to be with the person or chat of the query.
    pub(in crate::front) fn of_those(sessions: Vec<SessionInfo>, query: &SessionQuery) -> Self {
        let wanted = |info: &SessionInfo| {
            let is = |wanted: &Option<String>, own| wanted.as_deref().is_none_or(|w| w == own);
            info.deleted.is_some() == query.deleted
                && info.key.starts_with(&query.prefix)
                && query
                    .since
                    .is_none_or(|since| updated_of(info) >= stamp::nanos(since))
                && is(&query.agent, &*info.agent)
                && is(&query.channel, &*info.channel)
                && query.is_tagged(&info.labels, info.pinned)
        };
        let rank = |updated: i64| match query.order {
            SessionOrder::Name => std::cmp::Reverse(0),
            SessionOrder::Updated => std::cmp::Reverse(updated),
        };
        let mut found: Vec<_> = sessions.into_iter().filter(wanted).collect();
        found.sort_by_cached_key(|info| (rank(updated_of(info)), info.key.clone()));
        if let Some(after) = &query.after {
            let after = (rank(after.updated), &*after.stem);
            found.retain(|info| (rank(updated_of(info)), &*info.key) > after);
        }
        let is_last = found.len() <= query.limit;
        found.truncate(query.limit);
        let last = found.last().filter(|_| !is_last);
        let next = last.map(|last| Cursor::new(&*last.key, updated_of(last)));
        Self {
            next,
            sessions: found,
            unreadable: Vec::new(),
        }
    }
}

fn updated_of(info: &SessionInfo) -> i64 {
    stamp::parse_nanos(&info.updated_at).unwrap_or(i64::MIN)
}

impl IntoIterator for SessionPage {
    type Item = SessionInfo;
    type IntoIter = std::vec::IntoIter<SessionInfo>;

    fn into_iter(self) -> Self::IntoIter {
        self.sessions.into_iter()
    }
}
