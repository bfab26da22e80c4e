//! Records in the stream that are not messages: they count as lines, never
//! appear in a history, and carry the state of a conversation.

use std::borrow::Cow;
use std::fmt::Write;

use super::scan::{ScanResult, Scanner};
use super::text::{Text, same_name};

/// A record with a role that starts with `_`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Control {
    /// The number of tokens of the conversation when the model last counted.
    Usage {
        /// Tokens.
        token_count: i64,
    },
    /// A checkpoint that the conversation can be reverted to.
    Checkpoint {
        /// Its number; usually, not necessarily, they ascend from 0.
        id: i64,
        /// True if the lines before it were dropped: it numbers the next one, but cannot be
        /// reverted to.
        lost: bool,
    },
    /// The system prompt; the last one counts.
    SystemPrompt {
        /// The prompt.
        content: String,
    },
    /// A malformed or unknown control record: kept, without effect.
    Foreign,
}

/// Decodes `text` as a control record, if it is one.
pub(super) fn decode(text: &str) -> Option<Control> {
    let mut role = None;
    let mut fields = ControlFields::default();
    let mut scanner = Scanner::new(text);
    let read = scanner.object(|scanner, name| {
        if same_name(&name, "role") {
            role = scanner.text()?.or(role);
            return Ok(());
        }
        fields.read(scanner, &name)
    });
    read.and_then(|()| scanner.finish()).ok()?;
    let role = role.map(Text::value)?;
    role.starts_with('_').then(|| fields.into_control(&role))
}

/// The line of a token count, without its line feed, as kimi-cli writes it.
#[must_use]
pub fn encode_usage(token_count: i64) -> String {
    format!(r#"{{"role": "_usage", "token_count": {token_count}}}"#)
}

/// The line of a checkpoint, without its line feed, as kimi-cli writes it.
#[must_use]
pub fn encode_checkpoint(id: i64) -> String {
    format!(r#"{{"role": "_checkpoint", "id": {id}}}"#)
}

/// The line of a checkpoint after its place in the conversation is gone.
pub(super) fn encode_lost_checkpoint(id: i64) -> String {
    format!(r#"{{"role": "_checkpoint", "id": {id}, "lost": true}}"#)
}

/// The line of the message that tells the model of a checkpoint, without its
/// line feed, as kimi-cli writes it.
#[must_use]
pub fn encode_checkpoint_message(id: i64) -> String {
    format!(r#"{{"role":"user","content":"<system>CHECKPOINT {id}</system>"}}"#)
}

/// The line of a system prompt, without its line feed, as kimi-cli writes it:
/// in ASCII.
#[must_use]
pub fn encode_system_prompt(content: &str) -> String {
    let mut line = String::from(r#"{"role": "_system_prompt", "content": "#);
    push_ascii_string(&mut line, content);
    line.push('}');
    line
}

/// A JSON string as Python's `json.dumps` writes it.
fn push_ascii_string(out: &mut String, text: &str) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            ' '..='~' => out.push(c),
            _ => {
                for unit in c.encode_utf16(&mut [0; 2]) {
                    // Writing to a string cannot fail.
                    let _ = write!(out, "\\u{unit:04x}");
                }
            }
        }
    }
    out.push('"');
}

/// Values by exact name, the last of equal names, as kimi-cli reads them.
#[derive(Default)]
struct ControlFields<'a> {
    token_count: Option<i64>,
    id: Option<i64>,
    lost: bool,
    content: Option<Cow<'a, str>>,
}

impl<'a> ControlFields<'a> {
    fn read(&mut self, scanner: &mut Scanner<'a>, name: &str) -> ScanResult<()> {
        match (name, scanner.peek()) {
            ("content", Some(b'"')) => self.content = scanner.text()?.map(Text::value),
            ("content", _) => {
                self.content = None;
                scanner.value()?;
            }
            ("token_count", _) => self.token_count = integer(scanner.value()?),
            ("id", _) => self.id = integer(scanner.value()?),
            ("lost", _) => self.lost = scanner.value()? == "true",
            _ => {
                scanner.value()?;
            }
        }
        Ok(())
    }

    fn into_control(self, role: &str) -> Control {
        let control = match role {
            "_usage" => self
                .token_count
                .map(|token_count| Control::Usage { token_count }),
            "_checkpoint" => self.id.map(|id| Control::Checkpoint {
                id,
                lost: self.lost,
            }),
            "_system_prompt" => self.content.map(|content| Control::SystemPrompt {
                content: content.into_owned(),
            }),
            _ => None,
        };
        control.unwrap_or(Control::Foreign)
    }
}

/// Booleans are integers in Python.
fn integer(raw: &str) -> Option<i64> {
    match raw {
        "true" => Some(1),
        "false" => Some(0),
        number => number.parse().ok(),
    }
}

/// The id of a new checkpoint after those of `ids`, oldest first: one more than the last one's, as
/// in kimi-cli. If another checkpoint has that id, a revert would lead there; then it is one more
/// than the highest, or the lowest that is free.
pub fn free_checkpoint(ids: &(impl Iterator<Item = i64> + Clone)) -> i64 {
    let is_free = |id: &i64| ids.clone().all(|other| other != *id);
    let after = |id: Option<i64>| id.map_or(0, |id| id.saturating_add(1));
    let candidates = [after(ids.clone().last()), after(ids.clone().max())];
    let free = candidates.into_iter().find(is_free);
    free.or_else(|| (0..=i64::MAX).find(is_free)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_reads_back() {
        assert_eq!(
            decode(&encode_usage(-7)),
            Some(Control::Usage { token_count: -7 })
        );
        for (line, lost) in [
            (encode_checkpoint(3), false),
            (encode_lost_checkpoint(3), true),
        ] {
            assert_eq!(decode(&line), Some(Control::Checkpoint { id: 3, lost }));
        }
        let content = String::from("a\"b\\c\n\u{1}\u{7f}é\u{1f600}\u{2028}");
        let line = encode_system_prompt(&content);
        assert!(line.is_ascii());
        assert_eq!(decode(&line), Some(Control::SystemPrompt { content }));
    }

    #[test]
    fn a_new_checkpoint_has_an_id_to_go_back_to() {
        for (ids, next) in [
            (&[][..], 0),
            (&[0, 1, 2], 3),
            (&[7], 8),
            (&[0, -1], 1),
            (&[-5], -4),
            (&[3, -5], -4),
            (&[5, 4], 6),
            (&[i64::MAX], 0),
            (&[0, 1, i64::MAX], 2),
        ] {
            assert_eq!(free_checkpoint(&ids.iter().copied()), next, "{ids:?}");
        }
    }
}
