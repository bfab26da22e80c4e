//! A session in the form of its row, and the changes of it.

use serde_json::value::RawValue;
use sessionlog::backend::kit::{self, Dates, MomentParts, Stamp};
use sessionlog::scope::SessionScope;
use sessionlog::{ChangeKind, SessionMeta, SessionState, SessionTags, Version};
use tokio_postgres::Row;

/// A session.
#[derive(Clone, Debug)]
pub(crate) struct Session {
    pub(crate) id: i64,
    pub(crate) key: String,
    pub(crate) version: i64,
    /// The number of the history, which its positions bear.
    pub(crate) history: i64,
    /// The place where the visible lines begin, and the place of the next line.
    pub(crate) start_at: i64,
    pub(crate) end_at: i64,
    /// Number of all lines, hidden ones included; of hidden lines; of visible messages.
    pub(crate) lines: i64,
    pub(crate) hidden: i64,
    pub(crate) messages: i64,
    /// Empty if the row was locked, until it is set.
    pub(crate) summary: String,
    /// Empty if the row was locked, until they are set.
    pub(crate) tags: SessionTags,
    pub(crate) scope: Option<String>,
    pub(crate) aliases: Vec<String>,
    pub(crate) created_at: String,
    pub(crate) updated_at: String,
    pub(crate) updated_ns: i64,
    /// Number of message ids that it ever took.
    pub(crate) taken: i64,
    /// The state that the last commit left, if this process knows it.
    pub(crate) found: Found,
    /// The parts that the database does not have yet.
    pub(crate) change: Change,
}

/// A state of a session. The version alone is not enough. After a failover that lost commits,
/// another state could have the same version. And a compaction, which removes lines, does not
/// change the version.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) version: i64,
    pub(crate) updated_ns: i64,
    pub(crate) lines: i64,
    pub(crate) end_at: i64,
}

/// The parts of a session that the database does not have yet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a part that is written or not"
)]
pub(crate) struct Change {
    /// The row itself.
    pub(crate) is_new: bool,
    pub(crate) numbers: bool,
    pub(crate) text: bool,
    pub(crate) summary: bool,
    pub(crate) tags: bool,
}

/// Returns a number that nobody else has: 62 random bits.
pub(crate) fn random() -> i64 {
    let mut bytes = [0; 8];
    // Without the system's randomness nothing here would be safe from collisions.
    getrandom::fill(&mut bytes).expect("the operating system gives random numbers");
    (i64::from_le_bytes(bytes) & ((1 << 62) - 1)).max(1)
}

impl Session {
    /// Reads a row with the columns of [`COLUMNS`](crate::sql::COLUMNS).
    pub(crate) fn of(row: &Row) -> Self {
        let aliases: String = row.get(11);
        let summary: Vec<u8> = row.get(9);
        let tags: Option<&str> = row.get(16);
        Self {
            id: row.get(0),
            key: row.get(1),
            version: row.get(2),
            history: row.get(3),
            start_at: row.get(4),
            end_at: row.get(5),
            lines: row.get(6),
            hidden: row.get(7),
            messages: row.get(8),
            summary: String::from_utf8_lossy(&summary).into_owned(),
            tags: tags.map(kit::decode_tags).unwrap_or_default(),
            scope: row.get(10),
            aliases: serde_json::from_str(&aliases).unwrap_or_default(),
            created_at: row.get(12),
            updated_at: row.get(13),
            updated_ns: row.get(14),
            taken: row.get(15),
            found: Found::default(),
            change: Change::default(),
        }
    }

    /// Makes a session that does not exist yet. Its version and its history have numbers that no
    /// session of this key had before.
    pub(crate) fn made(key: &str) -> Self {
        Self {
            id: random(),
            key: key.to_owned(),
            version: random(),
            history: random(),
            start_at: 0,
            end_at: 0,
            lines: 0,
            hidden: 0,
            messages: 0,
            summary: String::new(),
            tags: SessionTags::default(),
            scope: None,
            aliases: Vec::new(),
            created_at: String::new(),
            updated_at: String::new(),
            updated_ns: 0,
            taken: 0,
            found: Found::default(),
            change: Change {
                is_new: true,
                numbers: true,
                text: true,
                summary: false,
                tags: false,
            },
        }
    }

    pub(crate) fn version(&self) -> Version {
        version(self.version)
    }

    /// Gives it another version, and the present time as its time of change.
    pub(crate) fn touch(&mut self) {
        let (now, text) = kit::now();
        let nanos = i64::try_from(now.unix_timestamp_nanos()).unwrap_or(i64::MAX);
        self.version += 1;
        // The clock of another process may be behind: times of one session never go back.
        if nanos > self.updated_ns {
            (self.updated_at, self.updated_ns) = (text, nanos);
        }
        if self.created_at.is_empty() {
            self.created_at.clone_from(&self.updated_at);
        }
        self.change.numbers = true;
    }

    /// Sets the time of change to a text in RFC 3339, if the text has a time.
    pub(crate) fn date(&mut self, updated_at: &str) {
        if let Some(nanos) = nanos_of(updated_at) {
            (self.updated_at, self.updated_ns) = (updated_at.to_owned(), nanos);
        }
    }

    /// Sets the times after a conversation was taken in; `before` is the time of the last change
    /// before that, if the session had lines.
    pub(crate) fn date_as(&mut self, dates: &Dates, before: Option<&str>) {
        if let Some(updated) = dates.updated_after(before.map(Stamp::from).as_ref()) {
            self.date(&updated.to_string());
        }
        let known = if self.change.is_new {
            ""
        } else {
            &self.created_at
        };
        if let Some(created) = dates.created_before(known) {
            self.created_at.clone_from(created);
            self.change.text = true;
        }
    }

    pub(crate) fn set_summary(&mut self, summary: &str) {
        summary.clone_into(&mut self.summary);
        self.change.summary |= !(self.change.is_new && summary.is_empty());
    }

    pub(crate) fn set_tags(&mut self, tags: SessionTags) {
        self.change.tags |= !(self.change.is_new && tags == SessionTags::default());
        self.tags = tags;
    }

    /// Notes that all of it is committed.
    pub(crate) fn settle(&mut self) {
        self.found = Found {
            version: self.version,
            updated_ns: self.updated_ns,
            lines: self.lines,
            end_at: self.end_at,
        };
        self.change = Change::default();
    }

    pub(crate) fn raw_scope(&self) -> Option<Box<RawValue>> {
        let scope = self.scope.clone()?;
        RawValue::from_string(scope).ok()
    }

    /// Returns the ids of the people and chats that it is with, as a list that SQL splits at
    /// U+001F.
    pub(crate) fn whom(&self) -> String {
        let ids = kit::ids_of_session(self.meta()).into_iter();
        ids.map(|id| one_id(&id)).collect::<Vec<_>>().join("\u{1f}")
    }

    pub(crate) fn parsed_scope(&self) -> SessionScope {
        let scope = self.scope.as_deref();
        let scope = scope.and_then(|scope| SessionScope::from_json(scope).ok());
        scope.unwrap_or_default()
    }

    pub(crate) fn meta(&self) -> SessionMeta {
        let mut meta = SessionMeta::empty(&self.key);
        meta.summary.clone_from(&self.summary);
        meta.skip = self.hidden;
        meta.count = self.lines;
        meta.created_at.clone_from(&self.created_at);
        meta.updated_at.clone_from(&self.updated_at);
        meta.scope = self.raw_scope();
        meta.aliases.clone_from(&self.aliases);
        meta.tags.clone_from(&self.tags);
        meta
    }

    /// Returns the parts of a moment of it, without lines and control records.
    pub(crate) fn parts(&self) -> MomentParts {
        MomentParts {
            version: self.version.cast_unsigned(),
            history: self.history.cast_unsigned(),
            start: self.start_at.cast_unsigned(),
            end: self.end_at.cast_unsigned(),
            total: self.lines.cast_unsigned(),
            ..MomentParts::default()
        }
    }

    pub(crate) fn state(&self) -> SessionState {
        let mut state = SessionState::default();
        state.generation = self.history.cast_unsigned();
        state.lines = self.lines.cast_unsigned();
        state.skip = self.hidden.cast_unsigned();
        state
    }
}

/// Reads a time in RFC 3339, in nanoseconds since 1970. Returns none for the time that stands for
/// no time.
pub(crate) fn nanos_of(text: &str) -> Option<i64> {
    Stamp::from(text).nanos()
}

/// Returns an id or a label as an element of an array, which SQL splits at U+001F.
pub(crate) fn one_id(id: &str) -> String {
    id.replace(['\0', '\u{1f}'], " ")
}

pub(crate) fn version(number: i64) -> Version {
    Version::new(number.cast_unsigned())
}

/// A line that the database does not have yet.
#[derive(Clone, Debug)]
pub(crate) struct NewLine {
    pub(crate) kind: i16,
    pub(crate) line: Vec<u8>,
    /// The text of a message, if searches do not find it in its line.
    pub(crate) said: Option<String>,
}

/// The greatest depth of a line that the server reads: each level takes some of its stack.
const DEPTH: usize = 256;

/// True if searches find a text in its line, and need no copy of it. The line must have the text
/// once, in the form in which this crate writes it. It must also be JSON that the server can read,
/// which permits neither NUL nor halves of characters. A line that the server cannot read would
/// make searches for words fail.
fn is_said_by(line: &[u8], text: &str) -> bool {
    let Ok(line) = std::str::from_utf8(line) else {
        return false;
    };
    let content = [r#""content":"#, &kit::json_text(text)].concat();
    let is_once = line.matches(r#""content""#).count() == 1 && line.contains(&content);
    let is_hard = |(at, _): (usize, &str)| {
        let code = line.get(at + 2..at + 6).unwrap_or_default();
        code == "0000" || code.starts_with(['d', 'D'])
    };
    is_once
        && !line.contains('\0')
        && !line.match_indices("\\u").any(is_hard)
        && line.matches(['[', '{']).count() < DEPTH
        && serde_json::from_str::<serde::de::IgnoredAny>(line).is_ok()
}

pub(crate) const MESSAGE: i16 = 0;
pub(crate) const USAGE: i16 = 1;
pub(crate) const CHECKPOINT: i16 = 2;
pub(crate) const PROMPT: i16 = 3;
pub(crate) const OTHER: i16 = 4;

impl NewLine {
    /// Makes a line. Its bytes decide about its kind.
    pub(crate) fn read(line: Vec<u8>) -> Self {
        use kit::LineKind;
        let message = kit::message_of(&line);
        let kind = match kit::read_line(&line) {
            _ if message.is_some() => MESSAGE,
            LineKind::Usage(_) => USAGE,
            LineKind::Checkpoint { .. } => CHECKPOINT,
            LineKind::SystemPrompt(_) => PROMPT,
            _ => OTHER,
        };
        let text = message.as_ref().map(sessionlog::Message::text);
        let text = text.filter(|text| !is_said_by(&line, text));
        // A database's text holds no NUL.
        let said = text.map(|text| text.replace('\0', "\u{fffd}"));
        Self { kind, line, said }
    }

    /// Returns the length of the line with its LF, as in a session file.
    pub(crate) fn len(&self) -> i64 {
        crate::read::number(self.line.len()) + 1
    }
}

/// The message to followers about a change.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(crate) struct Notice {
    pub(crate) key: String,
    pub(crate) agent: String,
    pub(crate) version: Version,
    pub(crate) kind: u8,
    pub(crate) generation: u64,
    pub(crate) lines: u64,
    pub(crate) skip: u64,
}

const KINDS: [ChangeKind; 5] = [
    ChangeKind::Appended,
    ChangeKind::Updated,
    ChangeKind::Truncated,
    ChangeKind::Replaced,
    ChangeKind::Deleted,
];

impl Notice {
    pub(crate) fn of(session: &Session, kind: ChangeKind) -> Self {
        let kind = KINDS.iter().position(|known| *known == kind).unwrap_or(1);
        Self {
            key: session.key.clone(),
            agent: session.parsed_scope().agent_id,
            version: session.version(),
            kind: kind as u8,
            generation: session.history.cast_unsigned(),
            lines: session.lines.cast_unsigned(),
            skip: session.hidden.cast_unsigned(),
        }
    }

    pub(crate) fn change(&self) -> ChangeKind {
        let kind = KINDS.get(usize::from(self.kind));
        kind.copied().unwrap_or(ChangeKind::Updated)
    }

    /// Returns the text for a notification, which has at most 8,000 bytes.
    pub(crate) fn payload(&self) -> String {
        let text = serde_json::to_string(self).unwrap_or_default();
        if text.len() < 7_900 {
            return text;
        }
        let short = Self {
            agent: String::new(),
            ..self.clone()
        };
        serde_json::to_string(&short).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_text_that_searches_do_not_find_in_its_line_is_kept_besides() {
        let said = |line: &str| NewLine::read(line.as_bytes().to_vec()).said;
        let plain = sessionlog::Message::user("a <b> \"c\"\n\u{e9}\u{1f600}");
        let (now, _) = kit::now();
        let lines = kit::encode(vec![plain], now, 1 << 20, 1 << 20).unwrap();
        assert_eq!(NewLine::read(lines[0].clone()).said, None);
        assert_eq!(said(r#"{"role":"user","content":"a"}"#), None);
        for (line, text) in [
            (r#"{"role":"user","content":"\u0061"}"#, "a"),
            (r#"{"role":"user","content":"<"}"#, "<"),
            (r#"{"role":"user","content": "a"}"#, "a"),
            (r#"{"role":"user","content":"a","n":"\ud83d\ude00"}"#, "a"),
            (r#"{"role":"user","content":"a","n":"\u0000"}"#, "a"),
            (r#"{"role":"user","content":"a\u0000b"}"#, "a\u{fffd}b"),
            (r#"{"role":"user","content":"a","n":{"content":"b"}}"#, "a"),
            (
                r#"{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}"#,
                "ab",
            ),
        ] {
            assert_eq!(said(line).as_deref(), Some(text), "{line}");
        }
        let deep = ["[".repeat(300), "]".repeat(300)].concat();
        let deep = format!(r#"{{"role":"user","content":"a","n":{deep}}}"#);
        if NewLine::read(deep.clone().into_bytes()).kind == MESSAGE {
            assert_eq!(said(&deep).as_deref(), Some("a"));
        }
    }
}
