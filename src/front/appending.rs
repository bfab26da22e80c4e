//! Lines on their way to a session: queued when their reply is first polled or waited for, and
//! answered by number.

use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};

use sessionlog_core::error::{Error, Result};
use sessionlog_wal::emptied;
use sessionlog_wal::mailbox::{QueueAnswer, QueueTicket};
use sessionlog_wal::sync::slot::{Slot, slot};

use crate::Durability;
use crate::engine::Engine;
use crate::engine::shard::inbox::{Item, Otherwise, QueuedAppend};
use crate::engine::shard::number::shard_of;
use crate::engine::shard::request::Command;
use crate::engine::shard::verbs::append;

/// Where the session of a key is, once known: its shard, and its number there.
pub(crate) type SessionPlace = Arc<OnceLock<(usize, u32)>>;

/// The destination of lines.
#[derive(Clone, Copy, Debug)]
pub(crate) struct To<'a> {
    pub(crate) key: &'a str,
    /// The place of the session with this key, if the caller remembers it.
    pub(crate) place: Option<&'a SessionPlace>,
}

impl<'a> From<&'a str> for To<'a> {
    fn from(key: &'a str) -> Self {
        Self { key, place: None }
    }
}

/// Lines on their way to a session.
pub(crate) struct Appending {
    engine: Arc<Engine>,
    /// The lines, and after them the key.
    bytes: Vec<u8>,
    /// The offset of the key.
    lines: usize,
    count: u32,
    level: Durability,
    /// True if the key is still to be resolved.
    resolve: bool,
    /// The place of the session with this key, if the caller remembers it.
    place: Option<SessionPlace>,
    stage: Stage,
}

enum Stage {
    New,
    /// For a session with an unknown place.
    Command(Option<Command>, Slot<Result<()>>),
    Asked {
        shard: usize,
        asked: QueueTicket,
    },
    Later(Slot<Result<()>>),
    Done,
}

impl Appending {
    pub(crate) fn new(
        engine: Arc<Engine>,
        (to, resolve): (To<'_>, bool),
        (mut bytes, count): (Vec<u8>, u32),
        level: Durability,
    ) -> Self {
        let lines = bytes.len();
        bytes.extend_from_slice(to.key.as_bytes());
        Self {
            engine,
            bytes,
            lines,
            count,
            level,
            resolve,
            place: to.place.cloned(),
            stage: Stage::New,
        }
    }

    /// The shard and the append for the lines; `None` if they become a command. An alias of an
    /// alias leads nowhere.
    fn address(&mut self) -> Option<(usize, QueuedAppend)> {
        let key = String::from_utf8_lossy(&self.bytes[self.lines..]);
        let resolved = self
            .resolve
            .then(|| self.engine.shared.catalog.resolve_other(&key))
            .flatten();
        let place = self.place.as_deref().filter(|_| resolved.is_none());
        let key = resolved.as_deref().unwrap_or(&key);
        if let Some((shard, session)) = self.find(key, place) {
            let append = QueuedAppend {
                session,
                count: self.count,
                level: self.level,
            };
            return Some((shard, append));
        }
        let verb = append::Append {
            lines: self.bytes[..self.lines].to_vec(),
            count: self.count,
            once: None,
            level: self.level,
        };
        let (promise, slot) = slot();
        let command = Command::new(key.into(), verb, promise);
        self.stage = Stage::Command(Some(command), slot);
        None
    }

    fn find(&self, key: &str, kept: Option<&OnceLock<(usize, u32)>>) -> Option<(usize, u32)> {
        if let Some(place) = kept.and_then(OnceLock::get) {
            return Some(*place);
        }
        let shard = shard_of(key);
        let session = self.engine.inboxes[shard].places.find(key)?;
        let place = (shard, session as u32);
        Some(kept.map_or(place, |kept| *kept.get_or_init(|| place)))
    }

    fn queued(&mut self, shard: usize, asked: QueueTicket) {
        self.stage = Stage::Asked { shard, asked };
        emptied::give_back(std::mem::take(&mut self.bytes));
    }

    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<()>> {
        loop {
            let polled = match &mut self.stage {
                Stage::New => {
                    let Some((shard, append)) = self.address() else {
                        continue;
                    };
                    let (engine, lead) = (&self.engine, self.engine.append_lead(self.level));
                    let mut item = Some(Item::Append(append));
                    let lines = &self.bytes[..self.lines];
                    match engine.poll_push(cx, shard, (&mut item, lines), lead) {
                        Poll::Pending => return Poll::Pending,
                        Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
                        Poll::Ready(Ok(asked)) => {
                            self.queued(shard, asked);
                            continue;
                        }
                    }
                }
                Stage::Command(command, slot) => match self.engine.poll_submit(cx, command) {
                    Poll::Pending => return Poll::Pending,
                    Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
                    Poll::Ready(Ok(())) => answer(slot, cx, &self.engine),
                },
                Stage::Asked { shard, asked } => {
                    let queue = &self.engine.inboxes[*shard].queue;
                    match queue.poll(asked, cx) {
                        Poll::Pending => return Poll::Pending,
                        Poll::Ready(answered) => match self.told(answered) {
                            Ok(slot) => {
                                self.stage = Stage::Later(slot);
                                continue;
                            }
                            Err(result) => Poll::Ready(result),
                        },
                    }
                }
                Stage::Later(slot) => answer(slot, cx, &self.engine),
                Stage::Done => Poll::Ready(Err(Error::Closed)),
            };
            if polled.is_ready() {
                self.stage = Stage::Done;
            }
            return polled;
        }
    }

    /// Queues the lines, and blocks this thread until they are answered.
    pub(crate) fn wait(mut self) -> Result<()> {
        if matches!(self.stage, Stage::New)
            && let Some((shard, append)) = self.address()
        {
            let lines = &self.bytes[..self.lines];
            let asked = self.engine.push(shard, Item::Append(append), lines)?;
            self.queued(shard, asked);
        }
        let slot = match std::mem::replace(&mut self.stage, Stage::Done) {
            Stage::Asked { shard, asked } => {
                let answered = self.engine.inboxes[shard].queue.wait(&asked);
                match self.told(answered) {
                    Ok(slot) => slot,
                    Err(result) => return result,
                }
            }
            Stage::Command(command, slot) => {
                if let Some(command) = command {
                    self.engine.submit(command)?;
                }
                slot
            }
            Stage::Later(slot) => slot,
            Stage::New | Stage::Done => return Err(Error::Closed),
        };
        slot.wait().unwrap_or_else(|| Err(self.engine.failure()))
    }

    /// The answer, or the slot where it will come.
    fn told(
        &self,
        answered: QueueAnswer<Otherwise>,
    ) -> std::result::Result<Slot<Result<()>>, Result<()>> {
        match answered {
            QueueAnswer::Done => Err(Ok(())),
            QueueAnswer::Except(Otherwise::Refused(error)) => Err(Err(error)),
            QueueAnswer::Except(Otherwise::Later(slot)) => Ok(slot),
            QueueAnswer::Gone => Err(Err(self.engine.failure())),
        }
    }
}

fn answer(slot: &Slot<Result<()>>, cx: &mut Context<'_>, engine: &Engine) -> Poll<Result<()>> {
    slot.poll(cx)
        .map(|answer| answer.unwrap_or_else(|| Err(engine.failure())))
}

/// A caller that leaves before the answer says so; otherwise the answer would be kept for it.
impl Drop for Appending {
    fn drop(&mut self) {
        if let Stage::Asked { shard, asked } = &self.stage {
            self.engine.inboxes[*shard].queue.abandon(asked);
        }
    }
}
