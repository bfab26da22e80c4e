//! Finds the nth message of a session: outlines, kept for the sessions last looked at.
//!
//! An outline is made once, by a pass over the whole session, and grows with appended lines. It is
//! made anew if the session is truncated, rewritten or, beside a writer in another process,
//! compacted: indexes then mean other messages. So every answer names the *epoch* of its indexes,
//! and a request of an older epoch is refused.

use std::collections::HashMap;
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use lru::LruCache;
use sessionlog::{MarkKind, Message, Outline, Position, SessionSnapshot, StoreHandle, Version};

use tokio::sync::OnceCell;

use crate::api::millis;
use crate::failure::{Answer, Failure};

/// Number of sessions with a kept outline.
const KEPT: NonZeroUsize = NonZeroUsize::new(16).expect("it is not zero");

/// Number of sessions with a kept count of lines that do not decode: more than a list shows.
const COUNTED: NonZeroUsize = NonZeroUsize::new(1024).expect("it is not zero");

/// Number of messages between two anchors: at most so many are read to find one.
const STRIDE: usize = 128;

/// Number of messages that are read at a time: each may be as long as the store allows.
const STEP: usize = 16;

/// Outlines of the sessions last looked at.
pub(crate) struct Outlines {
    store: StoreHandle,
    kept: Mutex<LruCache<String, Slot>>,
    /// Counts of lines that do not decode, for the sessions of lists: outlines of all would take
    /// more room.
    damaged: Mutex<LruCache<String, (Moment, usize)>>,
}

/// Lets one task at a time make a session's outline; the others wait, and get it too.
type Slot = Arc<tokio::sync::Mutex<Option<Arc<Chart>>>>;

/// A session's outline, and its moment.
#[derive(Clone)]
pub(crate) struct Chart {
    moment: Moment,
    pub(crate) messages: usize,
    pub(crate) marks: Vec<Landmark>,
    /// The system prompt, once a request needed it: finding it may read the whole file.
    prompt: OnceCell<Option<String>>,
    /// By index.
    anchors: Vec<(usize, Position)>,
    indexes: HashMap<Position, usize>,
}

/// A moment of a session that was looked at.
#[derive(Clone)]
struct Moment {
    epoch: String,
    version: Version,
    end: Position,
}

/// The result of reading a session again.
struct Renewed<T> {
    now: Moment,
    /// The earlier result, if it is still true.
    last: Option<T>,
    /// The part that comes after it, or all there is.
    added: Option<Outline>,
}

/// A line between the messages.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Landmark {
    /// Number of messages before it.
    pub(crate) after: usize,
    /// The time of the message before it, milliseconds since 1970.
    pub(crate) said: Option<i64>,
    pub(crate) position: Position,
    pub(crate) kind: MarkKind,
}

impl Outlines {
    pub(crate) fn new(store: StoreHandle) -> Self {
        Self {
            store,
            kept: Mutex::new(LruCache::new(KEPT)),
            damaged: Mutex::new(LruCache::new(COUNTED)),
        }
    }

    /// Returns a session's moment, and its outline.
    ///
    /// # Errors
    /// As [`snapshot`](Self::snapshot).
    pub(crate) async fn of(&self, key: &str) -> Answer<(SessionSnapshot, Arc<Chart>)> {
        let slot = {
            let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
            kept.get_or_insert(key.to_owned(), Slot::default).clone()
        };
        let mut held = slot.lock().await;
        let snapshot = self.snapshot(key).await?;
        let chart = chart(&snapshot, held.take()).await?;
        *held = Some(chart.clone());
        Ok((snapshot, chart))
    }

    /// Returns the number of a session's lines that do not decode. Reads all of it once, and later
    /// only the added part.
    ///
    /// # Errors
    /// As [`snapshot`](Self::snapshot).
    pub(crate) async fn damaged(&self, key: &str) -> Answer<usize> {
        let snapshot = self.snapshot(key).await?;
        let last = self.counts().get(key).cloned();
        let Renewed { now, last, added } = renewed(&snapshot, last).await?;
        let marks = added.into_iter().flat_map(|outline| outline.marks);
        let damaged = marks.filter(|mark| mark.kind == MarkKind::Damaged);
        let count = last.unwrap_or(0) + damaged.count();
        self.counts().put(key.to_owned(), (now, count));
        Ok(count)
    }

    fn counts(&self) -> MutexGuard<'_, LruCache<String, (Moment, usize)>> {
        self.damaged.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns a session's moment.
    ///
    /// # Errors
    /// 404 if there is no session of this key.
    pub(crate) async fn snapshot(&self, key: &str) -> Answer<SessionSnapshot> {
        let snapshot = self.store.snapshot(key).await?;
        if snapshot.version() == Version::ABSENT {
            return Err(Failure::missing(key));
        }
        Ok(snapshot)
    }
}

/// Reads the new part of a session since an earlier result, or else all of it.
async fn renewed<T>(snapshot: &SessionSnapshot, last: Option<(Moment, T)>) -> Answer<Renewed<T>> {
    let now = Moment::of(snapshot);
    if let Some((then, last)) = last.filter(|(then, _)| then.epoch == now.epoch) {
        let is_longer = then.end != now.end;
        if !is_longer && then.version == now.version {
            let (last, added) = (Some(last), None);
            return Ok(Renewed { now, last, added });
        }
        if is_longer
            && is_of_a_file(then.end)
            && let Ok(added) = snapshot.outline(then.end, STRIDE).await
        {
            let (last, added) = (Some(last), Some(added));
            return Ok(Renewed { now, last, added });
        }
    }
    let whole = snapshot.outline(snapshot.start(), STRIDE).await?;
    let (last, added) = (None, Some(whole));
    Ok(Renewed { now, last, added })
}

async fn chart(snapshot: &SessionSnapshot, last: Option<Arc<Chart>>) -> Answer<Arc<Chart>> {
    let last = last.map(|chart| (chart.moment.clone(), chart));
    let Renewed { now, last, added } = renewed(snapshot, last).await?;
    let mut chart = last.unwrap_or_else(|| Arc::new(Chart::empty(now.clone())));
    if let Some(added) = added {
        let chart = Arc::make_mut(&mut chart);
        chart.grow(added);
        chart.moment = now;
    }
    Ok(chart)
}

impl Moment {
    fn of(snapshot: &SessionSnapshot) -> Self {
        Self {
            epoch: epoch(snapshot),
            version: snapshot.version(),
            end: snapshot.end(),
        }
    }
}

/// Returns the epoch, which changes with the first lines of a session; if a session was deleted and
/// made anew, its creation time changes it.
fn epoch(snapshot: &SessionSnapshot) -> String {
    format!("{}@{}", snapshot.start(), snapshot.meta().created_at)
}

/// Returns true for positions that identify a line: those of lines in a file. Lines that are still
/// only in the journal, and are read beside its writer, have the same positions in every session.
fn is_of_a_file(position: Position) -> bool {
    !position.to_string().starts_with("0-")
}

impl Chart {
    fn empty(moment: Moment) -> Self {
        Self {
            moment,
            messages: 0,
            marks: Vec::new(),
            prompt: OnceCell::new(),
            anchors: Vec::new(),
            indexes: HashMap::new(),
        }
    }

    /// Returns the epoch of its indexes.
    pub(crate) fn epoch(&self) -> &str {
        &self.moment.epoch
    }

    /// Adds the part that follows the outline so far.
    fn grow(&mut self, outline: Outline) {
        let far = self.anchors.last().map(|(index, _)| index + STRIDE / 2);
        for (at, position) in outline.anchors.into_iter().enumerate() {
            let index = self.messages + at * STRIDE;
            // Many small additions would make every message an anchor.
            if far.is_none_or(|far| index >= far) {
                self.anchors.push((index, position));
                self.indexes.insert(position, index);
            }
        }
        if outline
            .marks
            .iter()
            .any(|mark| mark.kind == MarkKind::SystemPrompt)
        {
            self.prompt = OnceCell::new();
        }
        self.marks
            .extend(outline.marks.into_iter().map(|mark| Landmark {
                after: self.messages + mark.after,
                said: mark.said_at.as_deref().and_then(millis),
                position: mark.position,
                kind: mark.kind,
            }));
        self.messages += outline.messages;
    }

    /// Returns the system prompt of the conversation.
    pub(crate) async fn system_prompt(
        &self,
        store: &StoreHandle,
        key: &str,
    ) -> Answer<Option<String>> {
        let find = || store.context(key).system_prompt();
        let prompt = self.prompt.get_or_try_init(find).await?;
        Ok(prompt.clone())
    }

    /// Returns the index and position of the first anchor at `index` or after it.
    fn anchor_from(&self, index: usize) -> (usize, Position) {
        let at = self.anchors.partition_point(|(anchor, _)| *anchor < index);
        let anchor = self.anchors.get(at).copied();
        anchor.unwrap_or((self.messages, self.moment.end))
    }

    /// Returns the results of `show` for the messages `from..until`, given each one's index and
    /// position. Few of them are in memory at a time, however long each is.
    pub(crate) async fn read<T>(
        &self,
        snapshot: &SessionSnapshot,
        from: usize,
        until: usize,
        show: impl Fn(usize, &Message, Position) -> T,
    ) -> Answer<Vec<T>> {
        let until = until.min(self.messages);
        let (mut end, mut position) = self.anchor_from(until);
        let mut shown = Vec::new();
        while end > from && from < until {
            let page = snapshot.before(position, STEP.min(end - from)).await?;
            let found = page.messages.iter().zip(&page.positions).rev();
            for (message, stands) in found {
                end -= 1;
                if end < until {
                    shown.push(show(end, message, *stands));
                }
            }
            if page.is_first {
                break;
            }
            position = page.start;
        }
        shown.reverse();
        Ok(shown)
    }

    /// Returns the index of the message at `position`.
    pub(crate) async fn index_of(
        &self,
        snapshot: &SessionSnapshot,
        position: Position,
    ) -> Answer<usize> {
        let (mut begin, mut distance) = (position, 0);
        loop {
            if let Some(index) = self.indexes.get(&begin) {
                return Ok(index + distance);
            }
            let page = snapshot.before(begin, STEP).await?;
            for before in page.positions.iter().rev() {
                distance += 1;
                if let Some(index) = self.indexes.get(before) {
                    return Ok(index + distance);
                }
            }
            if page.is_first {
                // It is of an older moment than the outline, or of a newer one.
                return Err(Failure::outdated());
            }
            begin = page.start;
        }
    }
}
