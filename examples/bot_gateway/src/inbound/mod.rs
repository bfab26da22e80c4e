//! What the three platforms deliver, brought to one shape.
//!
//! A line is `{"platform":"telegram","body":{…}}`, the body being what the
//! platform sends to a webhook or over its gateway connection, unchanged. A
//! bare body works too; it is told apart by the fields only one platform has.

mod discord;
mod slack;
mod telegram;

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;
use sessionlog::scope::InboundContext;

/// Where an update came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Platform {
    Telegram,
    Slack,
    Discord,
}

impl Platform {
    pub(crate) const ALL: [Self; 3] = [Self::Telegram, Self::Slack, Self::Discord];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Telegram => "telegram",
            Self::Slack => "slack",
            Self::Discord => "discord",
        }
    }
}

/// One message a person sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Inbound {
    pub(crate) platform: Platform,
    /// What tells its session apart.
    pub(crate) context: InboundContext,
    /// The chat's name on its platform, by which a person looks its session up.
    pub(crate) alias: String,
    /// The same for every delivery of the same message on this platform.
    pub(crate) dedupe_id: String,
    pub(crate) sender: String,
    pub(crate) text: String,
    /// References to attached files, to be fetched from the platform.
    pub(crate) media: Vec<String>,
}

/// What a well-formed update turned out to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Parsed {
    Message(Box<Inbound>),
    Ignored(Ignored),
}

/// Why an update starts no turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ignored {
    /// A message that was answered already has new text.
    Edit,
    /// This bot's own message come back, or another bot's. Answering it would
    /// start a loop.
    Bot,
    /// Joins, pins, reactions, typing, handshakes.
    Service,
}

/// Why a line is no update.
pub(crate) type Malformed = String;

/// Reads one line.
pub(crate) fn parse(line: &[u8]) -> Result<Parsed, Malformed> {
    let shape: Shape<'_> = serde_json::from_slice(line).map_err(reason)?;
    let platform = shape.platform().ok_or("an update of no known platform")?;
    let body = match shape.body {
        Some(body) => body.get().as_bytes(),
        None => line,
    };
    match platform {
        Platform::Telegram => telegram::parse(body),
        Platform::Slack => slack::parse(body),
        Platform::Discord => discord::parse(body),
    }
}

/// The fields that tell an envelope from a bare body, and the bodies apart.
#[derive(Deserialize)]
struct Shape<'a> {
    platform: Option<Platform>,
    #[serde(borrow)]
    body: Option<&'a RawValue>,
    update_id: Option<IgnoredAny>,
    op: Option<IgnoredAny>,
    team_id: Option<IgnoredAny>,
    challenge: Option<IgnoredAny>,
}

impl Shape<'_> {
    fn platform(&self) -> Option<Platform> {
        if self.platform.is_some() {
            self.platform
        } else if self.update_id.is_some() {
            Some(Platform::Telegram)
        } else if self.op.is_some() {
            Some(Platform::Discord)
        } else if self.team_id.is_some() || self.challenge.is_some() {
            Some(Platform::Slack)
        } else {
            None
        }
    }
}

fn reason(error: impl std::fmt::Display) -> Malformed {
    error.to_string()
}

/// An identifier that goes into an alias. One that could hold a separator would
/// let its sender name somebody else's session.
fn identifier<'a>(field: &str, id: &'a str) -> Result<&'a str, Malformed> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
    if id.is_empty() || id.len() > 64 || !id.chars().all(allowed) {
        return Err(format!("{field} is no identifier: {id:?}"));
    }
    Ok(id)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The message of a body that must hold one.
    pub(super) fn message(body: &str) -> Inbound {
        match parse(body.as_bytes()) {
            Ok(Parsed::Message(inbound)) => *inbound,
            other => panic!("expected a message, got {other:?}"),
        }
    }

    #[test]
    fn an_envelope_and_its_bare_body_read_the_same() {
        let body = r#"{"update_id":5,"message":{"message_id":1,"from":{"id":7,"is_bot":false,
            "first_name":"Ana"},"chat":{"id":7,"type":"private"},"date":0,"text":"hi"}}"#;
        let envelope = format!(r#"{{"platform":"telegram","body":{body}}}"#);
        assert_eq!(message(body), message(&envelope));
    }

    #[test]
    fn what_is_no_update_is_an_error_and_never_a_panic() {
        for line in [
            "",
            "null",
            "[]",
            "{}",
            "{",
            "\u{0}",
            r#"{"platform":"irc","body":{}}"#,
            r#"{"platform":"telegram"}"#,
            r#"{"platform":"slack","body":null}"#,
            r#"{"platform":"discord","body":{"op":0,"t":"MESSAGE_CREATE","d":{}}}"#,
            r#"{"update_id":"x"}"#,
        ] {
            assert!(parse(line.as_bytes()).is_err(), "accepted {line:?}");
        }
        assert!(parse(b"{\"update_id\":1,\"message\":\"\xff\"}").is_err());
    }

    #[test]
    fn an_identifier_cannot_reach_into_another_session() {
        for id in ["", "C1/U2", "a:b", "a\tb", "..\\x", &"9".repeat(65)] {
            assert!(identifier("channel", id).is_err(), "accepted {id:?}");
        }
        assert_eq!(
            identifier("ts", "1762156919.000200"),
            Ok("1762156919.000200")
        );
    }
}
