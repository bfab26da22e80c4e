//! Changes several things of a session in one commit: its messages, how many of them stay, the
//! summary, the token count, title and labels.

use std::fmt::Debug;
use std::marker::PhantomData;
use std::sync::Arc;

use bytes::Bytes;
use sessionlog_core::error::{Error, Result, Version};
use sessionlog_core::position::{Keep, Position as Point};
use sessionlog_core::rules::dates::Dates;
use sessionlog_core::rules::update::{UpdateDecision, UpdateOrder};
use sessionlog_core::session_file::{self, ControlContent, Meta, TagChange};
use sessionlog_core::update::Appended;
use sessionlog_wal::storage::StorageFile;

use super::append::{Append, AppendBesides};
use crate::Durability;
use crate::disk::files;
use crate::disk::files::once;
use crate::engine::feed::ChangeKind;
use crate::engine::numbering::Place;
use crate::engine::shard::Shard;
use crate::engine::shard::answer::{Ack, Answer};
use crate::engine::shard::change::AddedLines;
use crate::engine::shard::locate::{self, CutPlace, Query};
use crate::engine::shard::request::{Absent, Manner, Verb, asked};
use crate::engine::shard::session::{Session, SessionExtent};
use crate::engine::shard::turn::Turn;
use crate::engine::snapshot::Tail;

/// Change the given fields; the answer is the result, as a `T`.
#[derive(Debug)]
pub(crate) struct Update<T> {
    /// Whole lines, each ended by LF, and their number.
    pub(crate) lines: Vec<u8>,
    pub(crate) count: u32,
    pub(crate) summary: Option<String>,
    pub(crate) tags: TagChange,
    pub(crate) keep: Option<Keep>,
    pub(crate) tokens: Option<i64>,
    /// The times of the session's creation and change, if not now.
    pub(crate) dates: Option<Dates>,
    /// The version that the session must be at.
    pub(crate) expect: Option<Version>,
    /// A position of the history that the session must still have.
    pub(crate) after: Option<Point>,
    /// The id of the messages: a session that took it before takes nothing.
    pub(crate) once: Option<String>,
    pub(crate) level: Durability,
    pub(crate) told: PhantomData<fn() -> T>,
}

/// The result of an update.
#[derive(Debug)]
pub(crate) struct UpdateOutcome {
    /// The version of the session after it.
    pub(crate) version: Version,
    /// True if the session took it now, and not before.
    pub(crate) is_new: bool,
}

impl From<UpdateOutcome> for () {
    fn from(_: UpdateOutcome) {}
}

impl From<UpdateOutcome> for Appended {
    fn from(UpdateOutcome { version, is_new }: UpdateOutcome) -> Self {
        if is_new {
            Self::New(version)
        } else {
            Self::Duplicate(version)
        }
    }
}

impl From<UpdateOutcome> for Version {
    fn from(updated: UpdateOutcome) -> Self {
        updated.version
    }
}

impl<T> Default for Update<T> {
    fn default() -> Self {
        Self {
            lines: Vec::new(),
            count: 0,
            summary: None,
            tags: TagChange::default(),
            keep: None,
            tokens: None,
            dates: None,
            expect: None,
            after: None,
            once: None,
            level: Durability::Durable,
            told: PhantomData,
        }
    }
}

impl<T: From<UpdateOutcome> + Debug + Send + 'static> Verb for Update<T> {
    type Output = T;
    const MANNER: Manner = Manner::Writes;
    const READS_CONTROLS: bool = false;
    const TOUCHES_FILES: bool = true;
    const LETS_GO: bool = false;

    fn bytes(&self) -> usize {
        let text = |text: &Option<String>| text.as_ref().map_or(0, String::len);
        self.lines.len() + text(&self.summary) + self.tags.size() + text(&self.once)
    }

    fn if_absent(&self, key: &Arc<str>, _: &mut Shard) -> Absent<T> {
        let order = self.order();
        match order.decide(key, Version::ABSENT, |_| false, || Ok(false)) {
            Err(error) => Absent::Answer(Err(error)),
            Ok(UpdateDecision::Make) => Absent::Create,
            Ok(UpdateDecision::Nothing | UpdateDecision::Duplicate) => {
                Absent::Answer(Ok(T::from(UpdateOutcome {
                    version: Version::ABSENT,
                    is_new: true,
                })))
            }
        }
    }

    /// Lines are searched in the file, among those that hold. Changes in flight may still be
    /// refused: an expected version must not rest on one, and a repeated message must not be
    /// reported as there because of one.
    fn waits(&self, session: &Session) -> bool {
        let looks = self.keep.is_some()
            || self.expect.is_some()
            || self.tokens.is_some() && session.conversation.is_none()
            || self
                .once
                .as_ref()
                .is_some_and(|id| session.is_taking(&once::line(&session.entry.key, id)));
        session.busy || looks && session.inflight > 0
    }

    fn stage(self, answer: Answer<T>, shard: &mut Shard, id: usize, turn: &mut Turn<'_>) {
        match self.prepare(shard, id, turn) {
            Ok(UpdatePreparation::Taken) => self.answer(answer, shard, id, turn),
            Ok(UpdatePreparation::Ready(cut)) => self.push(cut, answer, shard, id, turn),
            Ok(UpdatePreparation::Controls) => shard.read_controls(id, asked(self, answer), turn),
            Ok(UpdatePreparation::Search(file, query)) => {
                shard.start_search(id, file, query, asked(self, answer), turn);
            }
            Err(error) => turn.out.answer(answer, Err(error)),
        }
    }
}

/// The result of an update's preparation.
enum UpdatePreparation {
    /// There is nothing to do, or the session took it before.
    Taken,
    /// Ready to be staged, with the located cut.
    Ready(Option<CutPlace>),
    /// The session's control records must be known first.
    Controls,
    /// The lines that stay must be searched first, and that takes long.
    Search(Arc<dyn StorageFile>, Query),
}

impl<T: From<UpdateOutcome> + Debug + Send + 'static> Update<T> {
    fn order(&self) -> UpdateOrder {
        UpdateOrder {
            expect: self.expect,
            after: self.after,
            hides: self.keep.is_some(),
            adds_nothing: self.count == 0
                && self.summary.is_none()
                && self.tags.is_empty()
                && self.tokens.is_none()
                && self.once.is_none()
                && self.dates.is_none(),
        }
    }

    fn prepare(
        &self,
        shard: &mut Shard,
        id: usize,
        turn: &mut Turn<'_>,
    ) -> Result<UpdatePreparation> {
        let session = shard.session(id);
        let (key, numbering) = (session.entry.key.clone(), session.numbering);
        let found = session.settled.meta.version;
        let mut order = self.order();
        order.hides &= session.exists;
        let line = self.once_line(session);
        // Histories get new numbers when they settle, and nothing waits beside that.
        let goes_on = |after: Point| numbering.find(after) != Place::Elsewhere;
        let took = || line.map_or(Ok(false), |line| shard.has_taken(id, &line, turn));
        if order.decide(&key, found, goes_on, took)? != UpdateDecision::Make {
            return Ok(UpdatePreparation::Taken);
        }
        if self.tokens.is_some() && shard.session(id).conversation.is_none() {
            return Ok(UpdatePreparation::Controls);
        }
        if self.count > 0 || self.tokens.is_some() {
            shard.make_room(turn)?;
        }
        match self.keep {
            None => Ok(UpdatePreparation::Ready(None)),
            Some(keep) => find_cut(shard, id, keep, turn),
        }
    }

    fn once_line(&self, session: &Session) -> Option<String> {
        let id = self.once.as_ref()?;
        Some(once::line(&session.entry.key, id))
    }

    fn answer(self, answer: Answer<T>, shard: &mut Shard, id: usize, turn: &mut Turn<'_>) {
        let version = shard.session(id).settled.meta.version;
        let told = T::from(UpdateOutcome {
            version,
            is_new: self.once.is_none(),
        });
        turn.out.answer(answer, Ok(told));
    }

    fn push(
        mut self,
        cut: Option<CutPlace>,
        answer: Answer<T>,
        shard: &mut Shard,
        id: usize,
        turn: &mut Turn<'_>,
    ) {
        let session = shard.session(id);
        let before = &session.staged.meta;
        let dates = self.dates.take();
        let created = dates.as_ref().and_then(|dates| {
            let created = dates.created_before(&before.text.created_at);
            created.cloned()
        });
        let updated = dates.and_then(|dates| {
            let known = (before.count > 0).then_some(&before.updated_at);
            dates.updated_after(known)
        });
        let summary = self.summary.take();
        let tags = std::mem::take(&mut self.tags);
        let changes =
            summary.is_some() || !tags.is_empty() || created.is_some() || updated.is_some();
        let meta = changes.then(|| {
            let change = |meta: &mut Meta| {
                let text = meta.text_mut();
                text.summary = summary.unwrap_or_else(|| std::mem::take(&mut text.summary));
                tags.apply(&mut text.tags);
                text.created_at = created.unwrap_or_else(|| std::mem::take(&mut text.created_at));
            };
            session.changed(change, turn)
        });
        let meta = match meta.transpose() {
            Ok(meta) => meta,
            Err(error) => return turn.out.answer(answer, Err(error)),
        };
        let besides = AppendBesides {
            meta,
            updated,
            cut: cut.map(|located| session.cut_at(located)),
        };
        let once = self.once_line(session);
        let session = shard.reclaim(id, turn);
        if let Some(tokens) = self.tokens {
            self.add_tokens(session, tokens);
        }
        let told = UpdateOutcome {
            version: session.next_version(),
            is_new: true,
        };
        // Lines that are cut are gone for good: they must not come back.
        let level = match besides.cut {
            Some(_) => Durability::Durable,
            None => self.level,
        };
        let append = Append {
            lines: self.lines,
            count: self.count,
            once,
            level,
        };
        let ack = Ack::with(answer, T::from(told));
        shard.push_lines(id, append.into(), &besides, ack, turn);
    }

    /// Adds the record of the conversation's token count, after the messages.
    fn add_tokens(&mut self, session: &mut Session, tokens: i64) {
        let SessionExtent {
            end, lines, torn, ..
        } = session.staged;
        // The LF that ends a torn line goes in front.
        let offset = end + u64::from(torn) + self.lines.len() as u64;
        let before = lines + u64::from(self.count);
        let conversation = Arc::make_mut(session.conversation.get_or_insert_default());
        conversation.push(offset, before, ControlContent::Usage(tokens));
        self.lines
            .extend(session_file::encode_usage(tokens).bytes());
        self.lines.push(b'\n');
        self.count += 1;
    }
}

impl Session {
    /// Returns the number of hidden lines after a cut, and the offset of the first line that stays.
    fn cut_at(&self, located: CutPlace) -> (i64, u64) {
        let lines = i64::try_from(self.settled.lines).unwrap_or(i64::MAX);
        match located {
            CutPlace::Nothing => (lines, self.settled.end),
            CutPlace::All | CutPlace::Amiss => (self.settled.meta.skip.min(lines), self.start),
            CutPlace::Cut { skip, start } => (i64::try_from(skip).unwrap_or(lines), start),
        }
    }
}

/// Finds the first line that stays: here if it is near the end, else in the background.
///
/// # Errors
/// `PositionNotFound`, and if the file cannot be written or read.
fn find_cut(
    shard: &mut Shard,
    id: usize,
    keep: Keep,
    turn: &mut Turn<'_>,
) -> Result<UpdatePreparation> {
    shard.write_out(id, turn)?;
    let session = shard.session(id);
    let query = Query {
        start: session.start,
        end: session.settled.end,
        lines: session.settled.lines,
        keep: keep.cut(|position| match session.numbering.find(position) {
            Place::Here(offset) => Ok(offset),
            // It was hidden already.
            Place::Gone => Ok(0),
            Place::Elsewhere => Err(Error::no_position(&session.entry.key)),
        })?,
    };
    let found = session.found.filter(|(known, _)| *known == query);
    let located = match (found, query.at_once()) {
        (Some((_, located)), _) | (None, Some(located)) => located,
        (None, None) => {
            let Some(file) = shard.file(id, turn)? else {
                return Ok(UpdatePreparation::Ready(Some(CutPlace::Nothing)));
            };
            let located = locate::locate_nearby(&*file, &query).map_err(|e| {
                let path = files::log_path(&turn.shared.dir, &shard.session(id).entry.stem);
                Error::io("read", &path, e)
            })?;
            match located {
                Some(located) => located,
                None => return Ok(UpdatePreparation::Search(file, query)),
            }
        }
    };
    match located {
        CutPlace::Amiss => Err(Error::no_position(&shard.session(id).entry.key)),
        located => Ok(UpdatePreparation::Ready(Some(located))),
    }
}

impl Shard {
    /// Shows new lines and hides those before `start`, in one moment.
    pub(in crate::engine::shard) fn settle_truncate(
        &mut self,
        id: usize,
        (added, batch): (&AddedLines, &Bytes),
        (meta, start): (Meta, u64),
        turn: &mut Turn<'_>,
    ) {
        let session = self.session(id);
        session.busy = false;
        session.start = start;
        // A tail of its own: the content of the old one belongs to the old range. It holds the new
        // lines alone; when they were staged, all others were in the file.
        session.tail = Tail::new(session.settled.meta.clone());
        let step = meta.step_from(&session.settled.meta);
        session.tail.show(added.lines(batch), &step);
        session.settled.add(added);
        session.publish();
        self.lines_synced(id, added, turn);
        self.replace_meta(id, meta, ChangeKind::Truncated, turn);
    }
}
