//! Searching the messages of many sessions.

mod archived;

use std::collections::VecDeque;
use std::path::Path;
use std::sync::Arc;

use sessionlog_core::error::{Error, Result};
use sessionlog_core::position::Position;
use sessionlog_wal::sync::Mutex;
use sessionlog_wal::sync::atomic::{AtomicBool, Ordering};

use self::archived::ArchiveParts;
use super::finding::{ListedSession, OwnedSessions, SessionSource, Sight, listed, newest_first};
use super::{Side, StoreHandle, blocking};
use crate::disk::archive::ArchivePart;
use crate::engine::Engine;
use crate::engine::glance::{self, SessionLines};
use crate::engine::numbering::Numbering;
use crate::engine::search::{Match, Needle, Room};
use crate::engine::snapshot::Snapshot;
use crate::engine::view::{Depth, DirectoryView, Group, Listing, TOGETHER};
use crate::front::reply::{LookupPlace, Reply};
use crate::front::search::{Search, SearchHit, SearchQuery};
use crate::front::sessions::{SessionOrder, SessionQuery};

/// Searching.
impl StoreHandle {
    /// Finds the messages that match `query`, session by session, each session's oldest first. Of
    /// each session it searches the messages that [`history`](Self::history) shows at one moment.
    /// The sessions are those that [`list_sessions`](Self::list_sessions) lists. Several are
    /// searched at the same time, on as many threads as the machine runs at once, while the caller
    /// asks for more. Hits found ahead of the caller are kept, some tens of MiB at most. There is
    /// no index: a search takes as long as reading the files.
    ///
    /// ```
    /// use sessionlog::{SearchQuery, SessionQuery, Store};
    ///
    /// # fn main() -> sessionlog::Result<()> {
    /// # let scratch = tempfile::tempdir().unwrap();
    /// # let store = Store::open(scratch.path())?;
    /// let chats = store.handle();
    /// chats.add_message("telegram:1", "user", "Where is the invoice of May?").wait()?;
    /// chats.add_message("telegram:2", "user", "hi").wait()?;
    /// let query = SearchQuery::new().text("INVOICE").ignore_case(true).role("user");
    /// let mut search = chats.search(query.among(SessionQuery::new().prefix("telegram:")));
    /// let hit = search.wait_next().unwrap()?; // or `search.next().await`
    /// assert_eq!((&*hit.key, &*hit.excerpt(3)), ("telegram:1", "he invoice of"));
    /// assert!(search.wait_next().is_none());
    /// # store.close()
    /// # }
    /// ```
    #[must_use]
    pub fn search(&self, query: SearchQuery) -> Search {
        let SearchQuery {
            pattern,
            sessions,
            archived,
            summaries,
        } = query;
        let needle = Needle::new(&pattern);
        Search::of(needle.map(|needle| Hunt {
            quarry: Quarry {
                chats: self.exact_keys(),
                needle,
                sessions,
                summaries,
                archived: archived.then(Mutex::default),
                given_up: Arc::default(),
            },
            work: None,
            at_a_time: 1,
        }))
    }
}

/// A search under way.
#[derive(Debug)]
pub(crate) struct Hunt {
    quarry: Quarry,
    /// The work in the order of its hits; `None` before the sessions are listed.
    work: Option<VecDeque<Work>>,
    /// The number of sessions searched before the caller is told.
    at_a_time: usize,
}

/// The pattern and the places to search.
#[derive(Debug)]
struct Quarry {
    chats: StoreHandle,
    needle: Needle,
    sessions: SessionQuery,
    /// True if summaries and titles are searched, too.
    summaries: bool,
    /// The archive, if it is searched.
    archived: Option<Mutex<ArchiveParts>>,
    /// True once no caller waits for hits any more.
    given_up: Arc<AtomicBool>,
}

#[derive(Debug)]
enum Work {
    Search(ListedSession),
    /// A part of a session's archive.
    Unpack(String, ArchivePart),
    GoOn(SearchRest),
    Tell(Vec<Result<SearchHit>>),
}

/// One moment of a session, and the offset of its first line that is not hidden.
type SearchMoment = (Arc<Snapshot>, u64);

/// The part of a session that is left to search.
#[derive(Debug)]
struct SearchRest {
    key: String,
    lines: SessionLines,
    numbering: Numbering,
    start: u64,
    /// The offset of the first line that is not hidden.
    shown: u64,
    /// The month in which it was archived, if it was.
    archived: Option<String>,
}

/// The most sessions that are searched at a time.
const SESSIONS: usize = 1024;

/// The number of times that a session and its archive are searched again because a compaction
/// changes them meanwhile.
const ROUNDS: usize = 8;

impl Hunt {
    pub(crate) fn is_over(&self) -> bool {
        self.work.as_ref().is_some_and(VecDeque::is_empty)
    }

    /// The flag that is set once no caller waits for hits any more.
    pub(crate) fn given_up(&self) -> Arc<AtomicBool> {
        self.quarry.given_up.clone()
    }

    /// Searches on. It may find nothing and still not be over.
    pub(crate) fn further(self) -> Reply<(Self, Vec<Result<SearchHit>>)> {
        Reply::lookup(move |place| Box::pin(blocking(place, move || self.go_on())))
    }

    fn go_on(mut self) -> Result<(Self, Vec<Result<SearchHit>>)> {
        let mut work = match self.work.take() {
            Some(work) => work,
            None => self.quarry.all()?,
        };
        let mut found = Vec::new();
        match work.pop_front() {
            Some(Work::Tell(told)) => found = told,
            Some(Work::GoOn(rest)) => self.quarry.go_on(rest, &Room::default(), &mut work),
            Some(Work::Search(session)) => self.search(session, &mut work)?,
            Some(Work::Unpack(key, part)) => {
                let unpacked = self.quarry.unpack(&key, &part, &Room::default());
                unpacked
                    .into_iter()
                    .rev()
                    .for_each(|one| work.push_front(one));
            }
            None => {}
        }
        self.work = Some(work);
        Ok((self, found))
    }

    /// Searches the next sessions, beginning with `first`.
    fn search(&mut self, first: ListedSession, work: &mut VecDeque<Work>) -> Result<()> {
        let mut sessions = vec![first];
        while sessions.len() < self.at_a_time
            && let Some(Work::Search(session)) =
                work.pop_front_if(|next| matches!(next, Work::Search(_)))
        {
            sessions.push(session);
        }
        let searched = self.quarry.search(&sessions)?;
        // A caller that searches for frequent text gets hits soon; a rare text is searched for in
        // large steps.
        self.at_a_time = if searched.iter().any(|part| is_unsearched(part)) {
            self.at_a_time.div_ceil(2)
        } else {
            SESSIONS.min(self.at_a_time * 2)
        };
        for part in searched.into_iter().rev() {
            for part in part.into_iter().rev() {
                work.push_front(part);
            }
        }
        Ok(())
    }
}

/// True if a session was not searched for lack of room.
fn is_unsearched(part: &[Work]) -> bool {
    matches!(part, [Work::Search(_)])
}

impl Quarry {
    /// All sessions to be searched.
    fn all(&self) -> Result<VecDeque<Work>> {
        match &self.chats.side {
            Side::Writer(engine) if engine.is_closed() => Err(engine.failure()),
            Side::Writer(engine) => Ok(self.ordered(&OwnedSessions(&self.chats, engine))),
            Side::Reader(view) => Ok(self.ordered(&Listing::of(view)?)),
        }
    }

    fn ordered(&self, source: &impl SessionSource) -> VecDeque<Work> {
        let mut work = VecDeque::new();
        let mut all = listed(source, &self.sessions);
        if self.sessions.order == SessionOrder::Updated {
            let ordered = newest_first(source, &self.sessions, &all, |_, error| {
                work.push_back(Work::Tell(vec![Err(error)]));
            });
            all = ordered.into_iter().map(|(one, _)| one.clone()).collect();
        }
        work.extend(all.into_iter().map(Work::Search));
        work
    }

    /// The result of searching these sessions, in their order.
    fn search(&self, sessions: &[ListedSession]) -> Result<Vec<Vec<Work>>> {
        let engine = match &self.chats.side {
            Side::Writer(engine) => engine,
            Side::Reader(view) => return Ok(self.search_beside(view, sessions)),
        };
        let room = Room::default();
        let searched = glance::each(sessions, 1, &|session| {
            let own = OwnedSessions(&self.chats, engine);
            let of_own = || self.of_own(engine, session);
            self.searched(session, &room, &own, of_own)
        });
        // Reported for each session, the error would not look like the end.
        if engine.is_closed() {
            return Err(engine.failure());
        }
        Ok(searched)
    }

    /// As [`search`](Self::search), beside a writer.
    fn search_beside(&self, view: &DirectoryView, sessions: &[ListedSession]) -> Vec<Vec<Work>> {
        let room = Room::default();
        let depth = if self.asks() || self.summaries {
            Depth::Both
        } else {
            Depth::Lines
        };
        let parts = sessions.chunks(TOGETHER).flat_map(|sessions| {
            let keys: Vec<&str> = sessions.iter().map(|(_, key)| &**key).collect();
            let group = Group::of(view, &keys, depth);
            glance::each(sessions, 1, &|session| {
                if self.archived.is_some() {
                    return self.search_with_archive(view, session, &room);
                }
                let in_group = || self.in_group(&group, session);
                self.searched(session, &room, &group, in_group)
            })
        });
        parts.collect()
    }

    /// Searches a session and its archive, beside a writer, until its file is the same before and
    /// after. Otherwise lines that a compaction moved meanwhile would be found twice or not at all.
    fn search_with_archive(
        &self,
        view: &DirectoryView,
        session: &ListedSession,
        room: &Room,
    ) -> Vec<Work> {
        let look = || Group::of(view, &[&session.1], Depth::Both);
        let place = |group: &Group<'_>| {
            let (snapshot, shown) = group.whole(&session.1).ok()?;
            Some((snapshot.live.numbering, shown))
        };
        let mut before = look();
        for _ in 0..ROUNDS {
            let in_group = || self.in_group(&look(), session);
            let searched = self.searched(session, room, &before, in_group);
            let after = look();
            if is_unsearched(&searched) || place(&before) == place(&after) {
                return searched;
            }
            before = after;
        }
        self.searched(session, room, &before, || self.in_group(&look(), session))
    }

    fn searched(
        &self,
        session: &ListedSession,
        room: &Room,
        sight: &dyn Sight,
        moment: impl Fn() -> Result<Option<SearchMoment>>,
    ) -> Vec<Work> {
        if room.is_full() || self.given_up.load(Ordering::Relaxed) {
            return vec![Work::Search(session.clone())];
        }
        let mut tries = ROUNDS;
        let (parts, moment, unpacked) = loop {
            let (parts, seen) = match self.beside_archive(&session.0, &moment) {
                Ok(found) => found,
                Err(error) => return vec![Work::Tell(vec![Err(error)])],
            };
            let (unpacked, stayed) = self.unpacked(session, &parts, room, sight);
            tries -= 1;
            if stayed || tries == 0 {
                break (parts, seen, unpacked);
            }
        };
        let mut found = self.outside(session, sight);
        found.extend(unpacked);
        match moment {
            Err(error) => found.push(Work::Tell(vec![Err(error)])),
            Ok(None) => {}
            Ok(Some((snapshot, shown))) => {
                let mut rest = SearchRest::all(&session.1, &snapshot, shown);
                if self.archived.is_some() {
                    rest.start = rest.begin_of_hidden(&parts);
                }
                let mut work = VecDeque::new();
                self.go_on(rest, room, &mut work);
                found.extend(work);
            }
        }
        found
    }

    /// The hits in the title and the summary of a session.
    fn outside(&self, session: &ListedSession, sight: &dyn Sight) -> Vec<Work> {
        if !self.summaries {
            return Vec::new();
        }
        let meta = match sight.meta(session) {
            Ok(meta) => meta,
            // The error is reported when its lines are searched.
            Err(_) if self.asks() => return Vec::new(),
            Err(error) => return vec![Work::Tell(vec![Err(error)])],
        };
        if self.asks() && !self.sessions.admits(&session.1, &meta) {
            return Vec::new();
        }
        let (text, nowhere) = (&meta.text, Position::new(0, 0));
        let found = self
            .needle
            .find_outside(&text.tags.title, &text.summary)
            .into_iter()
            .map(|found| Ok(SearchHit::of(&session.1, nowhere, found)));
        vec![Work::Tell(found.collect())]
    }

    /// A session as it stands, if it may have a match.
    fn of_own(
        &self,
        engine: &Arc<Engine>,
        session: &ListedSession,
    ) -> Result<Option<SearchMoment>> {
        let source = OwnedSessions(&self.chats, engine);
        let (stem, key) = session;
        if !self.admits(&source, session)? {
            return Ok(None);
        }
        // Its owner need not read it if there is no match in the file.
        if source.is_cold(key) {
            let shared = &engine.shared;
            let lines = SessionLines::of_file(&*shared.storage, &shared.dir, stem);
            // If it cannot be read, its owner says why, or has taken it over meanwhile.
            if lines.is_ok_and(|lines| self.needle.is_in(&lines).is_ok_and(|is_in| !is_in)) {
                return Ok(None);
            }
        }
        let snapshot = pollster::block_on(self.chats.moment_of(key, LookupPlace::Here))?;
        let shown = snapshot.live.start;
        Ok(Some((snapshot, shown)))
    }

    /// A session as the group saw it, if it may have a match.
    fn in_group(&self, group: &Group<'_>, session: &ListedSession) -> Result<Option<SearchMoment>> {
        if !self.admits(group, session)? {
            return Ok(None);
        }
        // A snapshot counts lines, which takes as long as searching them.
        if let Ok(Some(lines)) = group.lines(&session.1)
            && self.needle.is_in(&lines).is_ok_and(|is_in| !is_in)
        {
            return Ok(None);
        }
        group.whole(&session.1).map(Some)
    }

    fn admits(&self, sight: &dyn Sight, session: &ListedSession) -> Result<bool> {
        Ok(!self.asks() || self.sessions.admits(&session.1, &sight.meta(session)?))
    }

    /// True if sidecars tell which sessions are searched.
    fn asks(&self) -> bool {
        self.sessions.order == SessionOrder::Name && !self.sessions.admits_all()
    }

    /// Searches the rest of a session. Its hits, and the part then left, come first.
    fn go_on(&self, rest: SearchRest, room: &Room, work: &mut VecDeque<Work>) {
        let found = self.needle.find_in(&rest.lines, rest.start, room);
        let failed = found.failed.map(|e| Err(unread(&rest.key, e)));
        let hit = |(offset, found): (u64, Match)| {
            Ok(SearchHit {
                archived: rest.archived.clone(),
                hidden: offset < rest.shown,
                ..SearchHit::of(&rest.key, rest.numbering.position(offset), found)
            })
        };
        let hits = found.messages.into_iter().map(hit).chain(failed);
        let hits = Work::Tell(hits.collect());
        if let Some(start) = found.next {
            work.push_front(Work::GoOn(SearchRest { start, ..rest }));
        }
        work.push_front(hits);
    }
}

impl SearchRest {
    /// The lines of a session that are not hidden.
    fn all(key: &str, snapshot: &Snapshot, shown: u64) -> Self {
        Self {
            key: key.to_owned(),
            lines: SessionLines::of_snapshot(snapshot),
            numbering: snapshot.live.numbering,
            start: shown,
            shown,
            archived: None,
        }
    }
}

fn unread(key: &str, error: std::io::Error) -> Error {
    Error::io("read", Path::new(key), error)
}
