//! The rows that a transaction writes, by column: each statement takes whole columns.

use std::ops::Range;

use sessionlog::backend::kit;
use tokio_postgres::types::Type;

use super::Transaction;
use crate::connection::Param;
use crate::read::number;
use crate::row::{Session, one_id};

/// The number of message ids that a transaction forgets, apart from those that each session has to
/// forget. More of them would delay all callers that share the transaction.
const FORGOTTEN: i64 = 8192;

/// The changed rows, by column.
#[derive(Default)]
pub(super) struct Rows<'b> {
    pub(super) new: Numbers<'b>,
    new_text: Texts<'b>,
    new_key: Vec<&'b str>,
    new_name: Vec<Vec<u8>>,
    pub(super) old: Numbers<'b>,
    pub(super) texts: Texts<'b>,
    pub(super) summaries: Summaries<'b>,
    pub(super) tags: Tags,
    pub(super) added: Added<'b>,
    pub(super) outworn: Outworn,
}

/// The last turn up to which sessions' message ids are forgotten, and the most ids.
#[derive(Default)]
pub(super) struct Outworn {
    pub(super) id: Vec<i64>,
    turn: Vec<i64>,
    most: Vec<i64>,
}

/// Lines, and the ids of messages that are taken once.
#[derive(Default)]
pub(super) struct Added<'b> {
    pub(super) line_id: Vec<i64>,
    line_at: Vec<i64>,
    line_kind: Vec<i16>,
    line: Vec<&'b [u8]>,
    said: Vec<Option<&'b str>>,
    pub(super) once_id: Vec<i64>,
    once: Vec<&'b [u8]>,
    once_turn: Vec<i64>,
}

/// The most bytes and lines that one statement inserts, unless one line alone is more.
const PART_BYTES: usize = 16 << 20;
const PART_LINES: usize = 50_000;

/// Lines for one statement.
pub(super) struct Part<'p> {
    id: &'p [i64],
    at: &'p [i64],
    kind: &'p [i16],
    line: &'p [&'p [u8]],
    said: &'p [Option<&'p str>],
}

impl Part<'_> {
    pub(super) const fn none() -> Self {
        Self {
            id: &[],
            at: &[],
            kind: &[],
            line: &[],
            said: &[],
        }
    }

    pub(super) fn columns(&self) -> [Param<'_>; 5] {
        [
            (&self.id, Type::INT8_ARRAY),
            (&self.at, Type::INT8_ARRAY),
            (&self.kind, Type::INT2_ARRAY),
            (&self.line, Type::BYTEA_ARRAY),
            (&self.said, Type::TEXT_ARRAY),
        ]
    }
}

#[derive(Default)]
pub(super) struct Numbers<'b> {
    pub(super) id: Vec<i64>,
    version: Vec<i64>,
    history: Vec<i64>,
    start_at: Vec<i64>,
    end_at: Vec<i64>,
    lines: Vec<i64>,
    hidden: Vec<i64>,
    messages: Vec<i64>,
    updated_at: Vec<&'b str>,
    updated_ns: Vec<i64>,
    taken: Vec<i64>,
}

#[derive(Default)]
pub(super) struct Texts<'b> {
    pub(super) id: Vec<i64>,
    scope: Vec<Option<&'b str>>,
    agent: Vec<String>,
    channel: Vec<String>,
    aliases: Vec<String>,
    created_at: Vec<&'b str>,
    whom: Vec<String>,
}

impl<'b> Numbers<'b> {
    fn push(&mut self, session: &'b Session) {
        self.id.push(session.id);
        self.version.push(session.version);
        self.history.push(session.history);
        self.start_at.push(session.start_at);
        self.end_at.push(session.end_at);
        self.lines.push(session.lines);
        self.hidden.push(session.hidden);
        self.messages.push(session.messages);
        self.updated_at.push(&session.updated_at);
        self.updated_ns.push(session.updated_ns);
        self.taken.push(session.taken);
    }

    /// Returns all columns but the sessions' ids, in the order of the statements.
    fn columns(&self) -> [Param<'_>; 10] {
        [
            (&self.version, Type::INT8_ARRAY),
            (&self.history, Type::INT8_ARRAY),
            (&self.start_at, Type::INT8_ARRAY),
            (&self.end_at, Type::INT8_ARRAY),
            (&self.lines, Type::INT8_ARRAY),
            (&self.hidden, Type::INT8_ARRAY),
            (&self.messages, Type::INT8_ARRAY),
            (&self.updated_at, Type::TEXT_ARRAY),
            (&self.updated_ns, Type::INT8_ARRAY),
            (&self.taken, Type::INT8_ARRAY),
        ]
    }
}

impl<'b> Texts<'b> {
    fn push(&mut self, session: &'b Session) {
        let scope = session.parsed_scope();
        let plain = |text: String| text.replace('\0', "\u{fffd}");
        self.id.push(session.id);
        self.scope.push(session.scope.as_deref());
        self.agent.push(plain(scope.agent_id));
        self.channel.push(plain(scope.channel));
        // JSON writes every string as text without a NUL.
        let aliases = serde_json::to_string(&session.aliases);
        self.aliases
            .push(aliases.unwrap_or_else(|_| String::from("[]")));
        self.created_at.push(&session.created_at);
        self.whom.push(session.whom());
    }

    /// Returns all columns but the sessions' ids, in the order of the statements.
    fn columns(&self) -> [Param<'_>; 6] {
        [
            (&self.scope, Type::TEXT_ARRAY),
            (&self.agent, Type::TEXT_ARRAY),
            (&self.channel, Type::TEXT_ARRAY),
            (&self.aliases, Type::TEXT_ARRAY),
            (&self.created_at, Type::TEXT_ARRAY),
            (&self.whom, Type::TEXT_ARRAY),
        ]
    }
}

/// Summaries that were set.
#[derive(Default)]
pub(super) struct Summaries<'b> {
    pub(super) id: Vec<i64>,
    summary: Vec<&'b [u8]>,
}

impl Summaries<'_> {
    pub(super) fn columns(&self) -> [Param<'_>; 2] {
        [
            (&self.id, Type::INT8_ARRAY),
            (&self.summary, Type::BYTEA_ARRAY),
        ]
    }
}

/// Tags that were changed.
#[derive(Default)]
pub(super) struct Tags {
    pub(super) id: Vec<i64>,
    text: Vec<String>,
    labels: Vec<String>,
    pinned: Vec<bool>,
}

impl Tags {
    fn push(&mut self, session: &Session) {
        let labels = session.tags.labels.iter().map(|label| one_id(label));
        self.id.push(session.id);
        self.text.push(kit::encode_tags(&session.tags));
        self.labels.push(labels.collect::<Vec<_>>().join("\u{1f}"));
        self.pinned.push(session.tags.pinned);
    }

    pub(super) fn columns(&self) -> [Param<'_>; 4] {
        [
            (&self.id, Type::INT8_ARRAY),
            (&self.text, Type::TEXT_ARRAY),
            (&self.labels, Type::TEXT_ARRAY),
            (&self.pinned, Type::BOOL_ARRAY),
        ]
    }
}

impl<'b> Added<'b> {
    pub(super) fn of(transaction: &'b Transaction<'_>) -> Self {
        let mut rows = Self::default();
        for (id, at, line) in &transaction.lines {
            rows.line_id.push(*id);
            rows.line_at.push(*at);
            rows.line_kind.push(line.kind);
            rows.line.push(&line.line);
            rows.said.push(line.said.as_deref());
        }
        for (id, turn, once) in &transaction.ids {
            rows.once_id.push(*id);
            rows.once_turn.push(*turn);
            rows.once.push(once.as_bytes());
        }
        rows
    }

    /// Returns all lines.
    pub(super) fn whole(&self) -> Part<'_> {
        self.part(0..self.line.len())
    }

    /// Returns the lines, in parts that one statement can insert.
    pub(super) fn parts(&self) -> Vec<Part<'_>> {
        let (mut parts, mut begin, mut bytes) = (Vec::new(), 0, 0);
        for (at, line) in self.line.iter().enumerate() {
            if at > begin && (bytes + line.len() > PART_BYTES || at - begin == PART_LINES) {
                parts.push(self.part(begin..at));
                (begin, bytes) = (at, 0);
            }
            bytes += line.len();
        }
        if begin < self.line.len() {
            parts.push(self.part(begin..self.line.len()));
        }
        parts
    }

    fn part(&self, range: Range<usize>) -> Part<'_> {
        Part {
            id: &self.line_id[range.clone()],
            at: &self.line_at[range.clone()],
            kind: &self.line_kind[range.clone()],
            line: &self.line[range.clone()],
            said: &self.said[range],
        }
    }

    pub(super) fn ids(&self) -> [Param<'_>; 3] {
        [
            (&self.once_id, Type::INT8_ARRAY),
            (&self.once, Type::BYTEA_ARRAY),
            (&self.once_turn, Type::INT8_ARRAY),
        ]
    }
}

impl<'b> Rows<'b> {
    pub(super) fn of(transaction: &'b Transaction<'_>) -> Self {
        let mut rows = Self::default();
        let mut changed: Vec<_> = transaction.sessions.values().collect();
        changed.retain(|session| session.change != crate::row::Change::default());
        // The order is the same in all transactions: of two that make the same sessions, one waits
        // for the other.
        changed.sort_unstable_by(|a, b| a.key.cmp(&b.key));
        for session in changed {
            if session.change.summary {
                rows.summaries.id.push(session.id);
                rows.summaries.summary.push(session.summary.as_bytes());
            }
            if session.change.tags {
                rows.tags.push(session);
            }
            if session.change.is_new {
                rows.new.push(session);
                rows.new_text.push(session);
                rows.new_key.push(&session.key);
                rows.new_name
                    .push(kit::file_name(&session.key).into_bytes());
                continue;
            }
            rows.old.push(session);
            if session.change.text {
                rows.texts.push(session);
            }
        }
        rows.added = Added::of(transaction);
        rows.outworn = Outworn::of(transaction);
        rows
    }

    pub(super) fn inserted(&self) -> Vec<Param<'_>> {
        let names: [Param<'_>; 3] = [
            (&self.new.id, Type::INT8_ARRAY),
            (&self.new_key, Type::TEXT_ARRAY),
            (&self.new_name, Type::BYTEA_ARRAY),
        ];
        let (numbers, texts) = (self.new.columns(), self.new_text.columns());
        names.into_iter().chain(numbers).chain(texts).collect()
    }

    pub(super) fn numbers(&self) -> Vec<Param<'_>> {
        let id: Param<'_> = (&self.old.id, Type::INT8_ARRAY);
        std::iter::once(id).chain(self.old.columns()).collect()
    }

    pub(super) fn text(&self) -> Vec<Param<'_>> {
        let id: Param<'_> = (&self.texts.id, Type::INT8_ARRAY);
        std::iter::once(id).chain(self.texts.columns()).collect()
    }
}

impl Outworn {
    pub(super) fn of(transaction: &Transaction<'_>) -> Self {
        let mut rows = Self::default();
        // If few sessions forget ids, each may forget more: an older version may have left them.
        let share = FORGOTTEN / number(transaction.outworn.len()).max(1);
        for (id, forgotten) in &transaction.outworn {
            rows.id.push(*id);
            rows.turn.push(forgotten.last_turn);
            rows.most.push(forgotten.most.max(share));
        }
        rows
    }

    pub(super) fn columns(&self) -> [Param<'_>; 3] {
        [
            (&self.id, Type::INT8_ARRAY),
            (&self.turn, Type::INT8_ARRAY),
            (&self.most, Type::INT8_ARRAY),
        ]
    }
}
