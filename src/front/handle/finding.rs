//! Finding sessions among many, and following all of them.

use std::sync::Arc;

use sessionlog_core::error::{Error, Result, Version};
use sessionlog_core::session_file::{self, Meta};

use super::{Side, StoreHandle, blocking};
use crate::disk::files::sidecar;
use crate::engine::Engine;
use crate::engine::glance::{self, GLANCES, SessionLines};
use crate::engine::snapshot::View;
use crate::engine::view::{Depth, Group, Listing, TOGETHER};
use crate::front::changes::{ChangeFilter, Changes};
use crate::front::reply::{LookupPlace, Reply};
use crate::front::sessions::{
    Cursor, SessionInfo, SessionOrder, SessionPage, SessionQuery, updated,
};

/// Finding sessions.
impl StoreHandle {
    /// The sessions that match `query`, each with its counts, times, summary, first and last text,
    /// and size. Takes one pass over the sidecars, on as many threads as the machine runs at once.
    /// Each session is of one moment, but not all of the same. Aliases do not count.
    ///
    /// ```
    /// use sessionlog::{SessionOrder, SessionQuery, Store};
    ///
    /// # fn main() -> sessionlog::Result<()> {
    /// # let scratch = tempfile::tempdir().unwrap();
    /// # let store = Store::open(scratch.path())?;
    /// let chats = store.handle();
    /// for key in ["telegram:1", "telegram:2", "slack:1"] {
    ///     chats.add_message(key, "user", &format!("hi from {key}")).wait()?;
    /// }
    /// let query = SessionQuery::new().prefix("telegram:").order(SessionOrder::Updated).limit(1);
    /// let page = chats.sessions(query.clone()).wait()?;
    /// assert_eq!(page.sessions[0].last_text, "hi from telegram:2");
    /// let page = chats.sessions(query.after(page.next.unwrap())).wait()?;
    /// assert_eq!(page.sessions[0].key, "telegram:1");
    /// assert!(page.next.is_none());
    /// # store.close()
    /// # }
    /// ```
    ///
    /// # Errors
    /// The errors all verbs share.
    pub fn sessions(&self, query: SessionQuery) -> Reply<SessionPage> {
        let this = self.exact_keys();
        Reply::lookup(move |place| {
            Box::pin(blocking(place, move || match &this.side {
                Side::Writer(engine) if engine.is_closed() => Err(engine.failure()),
                Side::Writer(engine) => Ok(page(&OwnedSessions(&this, engine), &query)),
                Side::Reader(view) => Ok(page(&Listing::of(view)?, &query)),
            }))
        })
    }
}

/// Following sessions.
impl StoreHandle {
    /// The changes of all sessions that `filter` admits, from now on. Those of one session come in
    /// order, after readers see them. For one session [`subscribe`](Self::subscribe) is cheaper. A
    /// compaction is not a change. The newest 16,384 changes of the store are kept for followers
    /// that fall behind; a follower further behind is told how many it missed. Until the first
    /// follower begins, nothing is kept, and this costs nothing.
    ///
    /// On a store opened read-only these are the changes that the writer in another process
    /// commits, at most 50 ms later, as far as they are in its journal. Changes that other programs
    /// make to the files are not reported. If changes leave the journal before they are read, only
    /// the fact that some were missed is reported. If a writer opens and closes the store within
    /// those 50 ms, nothing may be reported. A compaction is reported as
    /// [`Replaced`](crate::ChangeKind::Replaced). Versions belong to this store's handles alone,
    /// and differ from those of snapshots. The call reads the end of the journal, a few
    /// milliseconds at most, and starts a thread that runs as long as there is a follower.
    ///
    /// ```
    /// use sessionlog::{ChangeFilter, ChangeKind, Store};
    ///
    /// # fn main() -> sessionlog::Result<()> {
    /// # let scratch = tempfile::tempdir().unwrap();
    /// # let store = Store::open(scratch.path())?;
    /// let chats = store.handle();
    /// let mut changes = chats.changes(ChangeFilter::new().prefix("telegram:"));
    /// chats.add_message("slack:1", "user", "hi").wait()?;
    /// chats.add_message("telegram:1", "user", "hi").wait()?;
    /// let change = changes.wait_next()?; // or `changes.next().await`
    /// assert_eq!((&*change.key, change.kind), ("telegram:1", ChangeKind::Appended));
    /// assert_eq!(change.version, chats.snapshot("telegram:1").wait()?.version());
    /// # store.close()
    /// # }
    /// ```
    #[must_use]
    pub fn changes(&self, filter: ChangeFilter) -> Changes {
        Changes::of(self.side.clone(), filter)
    }
}

/// A listed session: stem and key.
pub(super) type ListedSession = (String, String);

/// A source of sessions.
pub(super) trait SessionSource: Sync {
    /// The stem and the key of each, by file name. If the key is not known, a name stands for it.
    fn all(&self) -> Vec<ListedSession>;
    /// The time when it was updated, if that is known without reading its sidecar.
    fn updated(&self, session: &ListedSession) -> Option<i64>;
    /// Looks at sessions, at most [`TOGETHER`].
    fn together(&self, keys: &[&str], depth: Depth) -> Box<dyn Sight + '_>;
}

/// Sessions that were looked at together.
pub(super) trait Sight: Sync {
    fn meta(&self, session: &ListedSession) -> Result<Meta>;
    /// `None` if it is gone.
    fn lines(&self, session: &ListedSession) -> Result<Option<(Meta, SessionLines)>>;
}

impl<S: Sight> Sight for &S {
    fn meta(&self, session: &ListedSession) -> Result<Meta> {
        (**self).meta(session)
    }

    fn lines(&self, session: &ListedSession) -> Result<Option<(Meta, SessionLines)>> {
        (**self).lines(session)
    }
}

/// Applies `look` to each session, in groups that are looked at together.
fn each<U: Send>(
    source: &impl SessionSource,
    sessions: &[&ListedSession],
    depth: Depth,
    look: &(dyn Fn(&dyn Sight, &ListedSession) -> U + Sync),
) -> Vec<U> {
    let parts = sessions.chunks(TOGETHER).flat_map(|part| {
        let keys: Vec<&str> = part.iter().map(|(_, key)| &**key).collect();
        let sight = source.together(&keys, depth);
        glance::each(part, GLANCES, &|session| look(&*sight, session))
    });
    parts.collect()
}

/// The sessions that match a query as far as their names tell, in its order.
pub(super) fn listed(source: &impl SessionSource, query: &SessionQuery) -> Vec<ListedSession> {
    let mut listed = source.all();
    listed.retain(|(_, key)| {
        session_file::is_deleted_key(key) == query.deleted
            && session_file::key_before(key).starts_with(&query.prefix)
    });
    listed
}

fn page(source: &impl SessionSource, query: &SessionQuery) -> SessionPage {
    let listed = listed(source, query);
    match query.order {
        SessionOrder::Name => by_name(source, query, &listed),
        SessionOrder::Updated => by_time(source, query, &listed),
    }
}

fn by_name(
    source: &impl SessionSource,
    query: &SessionQuery,
    listed: &[ListedSession],
) -> SessionPage {
    let is_before = |(stem, _): &ListedSession| match &query.after {
        Some(after) => session_file::file_order(stem, &after.stem).is_le(),
        None => false,
    };
    let mut rest = &listed[listed.partition_point(is_before)..];
    let mut page = SessionPage::default();
    while !rest.is_empty() && page.sessions.len() < query.limit {
        let wanted = query.limit - page.sessions.len();
        let (now, later) = rest.split_at(rest.len().min(wanted));
        let sessions: Vec<&ListedSession> = now.iter().collect();
        let found = each(source, &sessions, Depth::Both, &|sight, session| {
            find(sight, query, session)
        });
        for (session, found) in now.iter().zip(found) {
            page.take(session, found);
        }
        page.next = now.last().map(|(stem, _)| Cursor {
            stem: stem.clone(),
            updated: 0,
        });
        rest = later;
    }
    if rest.is_empty() {
        page.next = None;
    }
    page
}

/// The information about a session, if it matches.
fn find(
    sight: &dyn Sight,
    query: &SessionQuery,
    session: &ListedSession,
) -> Option<Result<SessionInfo>> {
    if !query.admits_all() {
        match admitted(sight, query, session) {
            Ok(Some(_)) => {}
            Ok(None) => return None,
            Err(error) => return Some(Err(error)),
        }
    }
    show(sight, session)
}

fn by_time(
    source: &impl SessionSource,
    query: &SessionQuery,
    listed: &[ListedSession],
) -> SessionPage {
    let mut page = SessionPage::default();
    let mut found = newest_first(source, query, listed, |session, error| {
        page.take(session, Some(Err(error)));
    });
    if let Some(after) = &query.after {
        let place = found.iter().position(|((stem, _), time)| {
            *time < after.updated
                || *time == after.updated && session_file::file_order(stem, &after.stem).is_gt()
        });
        found.drain(..place.unwrap_or(found.len()));
    }
    let is_last = found.len() <= query.limit;
    found.truncate(query.limit);
    let next = found.last().filter(|_| !is_last);
    let next = next.map(|((stem, _), updated)| Cursor {
        stem: stem.clone(),
        updated: *updated,
    });
    page.next = next;
    let sessions: Vec<&ListedSession> = found.iter().map(|(session, _)| *session).collect();
    let shown = each(source, &sessions, Depth::Both, &show);
    for (session, shown) in sessions.into_iter().zip(shown) {
        page.take(session, shown);
    }
    page
}

/// The sessions that match a query, each with its time of update, newest first.
pub(super) fn newest_first<'a>(
    source: &impl SessionSource,
    query: &SessionQuery,
    listed: &'a [ListedSession],
    mut unreadable: impl FnMut(&ListedSession, Error),
) -> Vec<(&'a ListedSession, i64)> {
    let known = |session: &ListedSession| {
        let time = source.updated(session)?;
        Some(query.admits_at(time)?.then_some(time))
    };
    let known: Vec<Option<Option<i64>>> = listed.iter().map(known).collect();
    let unknown = listed
        .iter()
        .zip(&known)
        .filter(|(_, known)| known.is_none());
    let unknown: Vec<&ListedSession> = unknown.map(|(session, _)| session).collect();
    let times = each(source, &unknown, Depth::Sidecar, &|sight, session| {
        admitted(sight, query, session)
    });
    let (mut times, mut found) = (times.into_iter(), Vec::new());
    for (session, known) in listed.iter().zip(known) {
        let time = match known {
            Some(known) => Ok(known),
            None => times.next().unwrap_or(Ok(None)),
        };
        match time {
            Ok(Some(time)) => found.push((session, time)),
            Ok(None) => {}
            Err(error) => unreadable(session, error),
        }
    }
    found.sort_by_key(|(_, time)| std::cmp::Reverse(*time));
    found
}

/// The time when a session was updated, if it matches.
fn admitted(
    sight: &dyn Sight,
    query: &SessionQuery,
    session: &ListedSession,
) -> Result<Option<i64>> {
    let meta = sight.meta(session)?;
    Ok(query.admits(&session.1, &meta).then(|| updated(&meta)))
}

impl SessionPage {
    /// Unreadable files of one session must not keep the others from being listed.
    fn take(&mut self, (_, key): &ListedSession, found: Option<Result<SessionInfo>>) {
        match found {
            Some(Ok(info)) => self.sessions.push(info),
            Some(Err(error)) => {
                tracing::warn!(key, %error, "a session is listed as unreadable");
                self.unreadable.push(key.clone());
            }
            None => {}
        }
    }
}

fn show(sight: &dyn Sight, session: &ListedSession) -> Option<Result<SessionInfo>> {
    let key = &session.1;
    let (meta, lines) = match sight.lines(session).transpose()? {
        Ok(found) => found,
        Err(error) => return Some(Err(error)),
    };
    let words = lines.words(meta.skip);
    let words = words.map_err(|e| Error::io("read", std::path::Path::new(key), e));
    Some(words.map(|words| SessionInfo::new(key, &meta, words)))
}

/// The sessions of a store that is open for writing.
pub(super) struct OwnedSessions<'a>(pub(super) &'a StoreHandle, pub(super) &'a Arc<Engine>);

impl OwnedSessions<'_> {
    /// True if the session was not written to since the open.
    pub(super) fn is_cold(&self, key: &str) -> bool {
        let catalog = &self.1.shared.catalog;
        match catalog.entered(key) {
            Some(entry) => matches!(&*entry.view.load(), View::Cold),
            None => catalog.is_untouched(key),
        }
    }

    fn live_meta(&self, key: &str) -> Option<Meta> {
        let entry = self.1.shared.catalog.entered(key)?;
        match &*entry.view.load() {
            View::Live(live) => Some(live.snapshot().meta),
            View::Cold => None,
            View::Gone => Some(Meta::empty(key)),
        }
    }
}

impl SessionSource for OwnedSessions<'_> {
    fn all(&self) -> Vec<ListedSession> {
        self.1.shared.catalog.all()
    }

    fn updated(&self, (_, key): &ListedSession) -> Option<i64> {
        let catalog = &self.1.shared.catalog;
        let is_untouched = catalog.is_untouched(key);
        is_untouched.then(|| catalog.found_updated(key)).flatten()
    }

    fn together(&self, _: &[&str], _: Depth) -> Box<dyn Sight + '_> {
        Box::new(self)
    }
}

impl Sight for OwnedSessions<'_> {
    fn meta(&self, (stem, key): &ListedSession) -> Result<Meta> {
        let shared = &self.1.shared;
        if let Some(meta) = self.live_meta(key) {
            return Ok(meta);
        }
        let meta = glance::meta(&*shared.storage, &shared.dir, stem, key)?;
        if meta.text.key != *key {
            shared.catalog.doubt();
            let now = &meta.text.key;
            return Err(sidecar::anothers(&shared.dir, (stem, key), now));
        }
        Ok(meta)
    }

    fn lines(&self, session: &ListedSession) -> Result<Option<(Meta, SessionLines)>> {
        let (stem, key) = session;
        let shared = &self.1.shared;
        if self.is_cold(key) {
            let lines = SessionLines::of_file(&*shared.storage, &shared.dir, stem)?;
            let meta = self.meta(session)?;
            // Its owner may have begun to write meanwhile.
            if self.is_cold(key) {
                return Ok(Some((meta, lines)));
            }
        }
        let snapshot = pollster::block_on(self.0.moment_of(key, LookupPlace::Here))?;
        let is_there = snapshot.meta.version != Version::ABSENT;
        Ok(is_there.then(|| (snapshot.meta.clone(), SessionLines::of_snapshot(&snapshot))))
    }
}

impl SessionSource for Listing<'_> {
    fn all(&self) -> Vec<ListedSession> {
        self.all()
    }

    fn updated(&self, session: &ListedSession) -> Option<i64> {
        self.updated(session)
    }

    fn together(&self, keys: &[&str], depth: Depth) -> Box<dyn Sight + '_> {
        Box::new(Group::of(self.view, keys, depth))
    }
}

impl Sight for Group<'_> {
    fn meta(&self, (_, key): &ListedSession) -> Result<Meta> {
        self.meta(key)
    }

    fn lines(&self, (_, key): &ListedSession) -> Result<Option<(Meta, SessionLines)>> {
        self.glance(key)
    }
}
