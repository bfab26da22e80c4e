//! Records in the stream that are not messages: they count as lines, never
//! appear in a history, and carry the state of a conversation.

use std::borrow::Cow;

use super::scan::{Scan, Scanner};
use super::text::{Text, same_name};

/// A record whose role starts with `_`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Control {
    /// How many tokens the conversation had when the model last counted.
    Usage {
        /// Tokens.
        token_count: i64,
    },
    /// A point to which the conversation can be taken back.
    Checkpoint {
        /// Its number; usually, not necessarily, they ascend from 0.
        id: i64,
    },
    /// The system prompt; the last one counts.
    SystemPrompt {
        /// The prompt.
        content: String,
    },
    /// A malformed or unknown control record: kept, without effect.
    Foreign,
}

/// The control record that `text` is, if it is one.
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

/// Values by exact name, of equal ones the last, as kimi-cli reads them.
#[derive(Default)]
struct ControlFields<'a> {
    token_count: Option<i64>,
    id: Option<i64>,
    content: Option<Cow<'a, str>>,
}

impl<'a> ControlFields<'a> {
    fn read(&mut self, scanner: &mut Scanner<'a>, name: &str) -> Scan<()> {
        match (name, scanner.peek()) {
            ("content", Some(b'"')) => self.content = scanner.text()?.map(Text::value),
            ("content", _) => {
                self.content = None;
                scanner.value()?;
            }
            ("token_count", _) => self.token_count = integer(scanner.value()?),
            ("id", _) => self.id = integer(scanner.value()?),
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
            "_checkpoint" => self.id.map(|id| Control::Checkpoint { id }),
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
