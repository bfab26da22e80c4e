//! One moment of a session, built from its lines.

use std::sync::Arc;

use sessionlog_core::error::{Error, Result, Version};
use sessionlog_core::session_file::{Conversation, Meta};

use crate::engine::glance::Words;
use crate::engine::numbering::Numbering;
use crate::engine::reader;
use crate::engine::snapshot::{ConversationMoment, Live, Snapshot, Tail};
use crate::engine::stats::Counters;
use crate::front::context::{characters, tokens};
use crate::front::window::window;
use crate::{Budget, Message, SessionInfo, SessionMeta, SessionSnapshot, Window};

/// The parts of a [`Moment`].
#[derive(Clone, Debug, Default)]
pub struct MomentParts {
    /// The session's version; 0 if there is no session.
    pub version: u64,
    /// The number of its history, which no other history has; positions carry it.
    pub history: u64,
    /// The place where the visible lines begin; `end` is the place where the lines end.
    pub start: u64,
    /// See [`start`](Self::start).
    pub end: u64,
    /// The number of lines, hidden ones included.
    pub total: u64,
    /// The visible lines, each ended by LF; may be empty if only control records are asked for.
    pub lines: Vec<u8>,
    /// All control records, hidden ones included, in their order: the place of each, and its line.
    pub controls: Vec<(u64, Vec<u8>)>,
}

/// One moment of a session.
#[derive(Debug)]
pub struct Moment {
    key: String,
    looked: ConversationMoment,
    counters: Arc<Counters>,
}

impl Moment {
    /// The moment of a session with this sidecar.
    #[must_use]
    pub fn new(meta: SessionMeta, parts: MomentParts) -> Self {
        let key = meta.key.clone();
        let mut meta = Meta::of(meta);
        meta.version = Version::new(parts.version);
        let mut conversation = Conversation::default();
        for (at, line) in &parts.controls {
            conversation.note(line, *at, 0);
        }
        let live = Live {
            file: None,
            start: parts.start,
            end: parts.start,
            tail: Tail::with_lines(meta, parts.lines),
            numbering: Numbering::new(parts.history),
        };
        let looked = ConversationMoment {
            conversation: Arc::new(conversation),
            start: parts.start,
            end: parts.end,
            lines: parts.total,
            snapshot: live.snapshot(),
        };
        Self {
            key,
            looked,
            counters: Arc::default(),
        }
    }

    /// A snapshot to read all of it.
    #[must_use]
    pub fn snapshot(&self) -> SessionSnapshot {
        let snapshot: Arc<Snapshot> = Arc::new(self.looked.snapshot.clone());
        SessionSnapshot::new(&self.key, snapshot, self.counters.clone())
    }

    /// The window that fits a budget.
    ///
    /// # Errors
    /// [`Error::ToolCallUnpaired`].
    pub fn window(&self, budget: &Budget) -> Result<Window> {
        window(&self.key, &self.looked, budget, &self.counters)
    }

    /// The visible messages, oldest first.
    ///
    /// # Errors
    /// None: the lines are in memory.
    pub fn messages(&self) -> Result<Vec<Message>> {
        let messages = reader::history(&self.looked.snapshot, &self.counters);
        messages.map_err(|e| Error::io("read", std::path::Path::new(&self.key), e))
    }

    /// The checkpoints that can be reverted to.
    #[must_use]
    pub fn checkpoints(&self) -> Vec<i64> {
        self.looked.now().checkpoints(self.looked.start).collect()
    }

    /// The place of the checkpoint with this number.
    ///
    /// # Errors
    /// [`Error::CheckpointNotFound`].
    pub fn checkpoint(&self, id: i64) -> Result<u64> {
        self.looked.checkpoint(id).map(|mark| mark.offset)
    }

    /// The number of the next checkpoint.
    #[must_use]
    pub fn next_checkpoint(&self) -> i64 {
        self.looked.now().next_checkpoint()
    }

    /// One more than the last checkpoint's number.
    #[must_use]
    pub fn n_checkpoints(&self) -> i64 {
        self.looked.now().n_checkpoints()
    }

    /// The last token count; 0 if there is none.
    #[must_use]
    pub fn token_count(&self) -> i64 {
        self.looked.now().usage().0
    }

    /// The last token count, and an estimate for the messages since.
    ///
    /// # Errors
    /// None: the lines are in memory.
    pub fn token_count_with_pending(&self) -> Result<i64> {
        let (usage, since) = self.looked.now().usage();
        let start = self.looked.start.max(since.unwrap_or(0));
        let mut pending = 0_i64;
        let read = reader::messages_from(&self.looked, start, &self.counters, &mut |message| {
            pending += characters(&message);
        });
        read.map_err(|e| Error::io("read", std::path::Path::new(&self.key), e))?;
        Ok(usage.saturating_add(tokens(pending)))
    }

    /// The last system prompt.
    #[must_use]
    pub fn system_prompt(&self) -> Option<String> {
        self.looked.now().system_prompt().map(ToString::to_string)
    }

    /// Every token count, oldest first.
    #[must_use]
    pub fn usage_history(&self) -> Vec<i64> {
        self.looked.now().usages().collect()
    }
}

/// The list entry of a session: its sidecar, its first and last text, cut to 200 characters, and
/// the bytes of all its lines.
#[must_use]
pub fn session_info(meta: SessionMeta, first: &str, last: &str, bytes: u64) -> SessionInfo {
    let shown = |text: &str| text.chars().take(200).collect();
    let words = Words {
        size: bytes,
        first: shown(first),
        last: shown(last),
    };
    let key = meta.key.clone();
    SessionInfo::new(&key, &Meta::of(meta), words)
}
