//! Slack's Events API: the `event_callback` wrapper around a `message` event.

use serde::Deserialize;
use sessionlog::scope::InboundContext;

use super::{Ignored, Inbound, Malformed, Parsed, Platform, identifier, reason};

pub(super) fn parse(body: &[u8]) -> Result<Parsed, Malformed> {
    let callback: Callback = serde_json::from_slice(body).map_err(reason)?;
    if callback.kind != "event_callback" {
        return Ok(Parsed::Ignored(Ignored::Service));
    }
    let team = callback.team_id.ok_or("missing field `team_id`")?;
    let event = callback.event.ok_or("missing field `event`")?;
    if let Some(ignored) = event.ignored() {
        return Ok(Parsed::Ignored(ignored));
    }
    let inbound = event.into_inbound(&team)?;
    Ok(Parsed::Message(Box::new(inbound)))
}

#[derive(Deserialize)]
struct Callback {
    #[serde(rename = "type")]
    kind: String,
    team_id: Option<String>,
    event: Option<Event>,
}

#[derive(Deserialize)]
struct Event {
    #[serde(rename = "type")]
    kind: String,
    subtype: Option<String>,
    channel: Option<String>,
    channel_type: Option<String>,
    user: Option<String>,
    bot_id: Option<String>,
    ts: Option<String>,
    thread_ts: Option<String>,
    text: Option<String>,
    #[serde(default)]
    files: Vec<File>,
}

#[derive(Deserialize)]
struct File {
    id: String,
}

impl Event {
    fn ignored(&self) -> Option<Ignored> {
        if !matches!(self.kind.as_str(), "message" | "app_mention") {
            return Some(Ignored::Service);
        }
        match self.subtype.as_deref() {
            Some("message_changed") => Some(Ignored::Edit),
            Some("bot_message") => Some(Ignored::Bot),
            _ if self.bot_id.is_some() => Some(Ignored::Bot),
            None | Some("file_share" | "thread_broadcast" | "me_message") => None,
            Some(_) => Some(Ignored::Service),
        }
    }

    fn into_inbound(self, team: &str) -> Result<Inbound, Malformed> {
        let team = identifier("team_id", team)?;
        let channel = self.channel.ok_or("missing field `channel`")?;
        let channel = identifier("channel", &channel)?;
        let ts = self.ts.ok_or("missing field `ts`")?;
        let mut alias = format!("slack:{team}/{channel}");
        let mut topic_id = String::new();
        // The message that opens a thread carries its own `ts` as `thread_ts`;
        // it was said in the channel.
        if let Some(thread) = self.thread_ts.filter(|thread| *thread != ts) {
            alias = format!("{alias}/{}", identifier("thread_ts", &thread)?);
            topic_id = thread;
        }
        Ok(Inbound {
            platform: Platform::Slack,
            context: InboundContext {
                channel: Platform::Slack.name().into(),
                chat_id: channel.into(),
                chat_type: match self.channel_type.as_deref() {
                    Some("im") => "direct".into(),
                    other => other.unwrap_or("channel").into(),
                },
                topic_id,
                space_id: team.into(),
                space_type: "team".into(),
                // Another team may give the same id to somebody else.
                sender_id: match &self.user {
                    Some(user) => format!("{team}/{user}"),
                    None => String::new(),
                },
                ..InboundContext::default()
            },
            alias,
            // A retry repeats the `event_id`, but a mention arrives as
            // `message` and as `app_mention` with two of them. What both share
            // is the message: `ts` is unique in its channel.
            dedupe_id: format!("{team}/{channel}/{}", identifier("ts", &ts)?),
            sender: self.user.unwrap_or_else(|| String::from("unknown")),
            text: unescape(&self.text.unwrap_or_default()),
            media: self
                .files
                .iter()
                .map(|file| format!("slack:file/{}", file.id))
                .collect(),
        })
    }
}

/// Slack escapes exactly these three; `&amp;` last, or `&amp;lt;` would become
/// `<`.
fn unescape(text: &str) -> String {
    text.replace("&lt;", "<")
        .replace("&gt;", ">")
        .replace("&amp;", "&")
}

#[cfg(test)]
mod tests {
    use super::super::tests::message;
    use super::super::{Ignored, Parsed, parse};

    fn callback(event_id: &str, event: &str) -> String {
        format!(
            r#"{{"token":"XXYYZZ","team_id":"T1","api_app_id":"A1","type":"event_callback",
                "event_id":"{event_id}","event_time":1762156919,"event":{{{event}}}}}"#
        )
    }

    const HELLO: &str =
        r#""channel":"C1","user":"U1","ts":"1762156919.000200","text":"a &lt; b &amp;gt; c""#;

    #[test]
    fn a_thread_is_a_session_and_its_first_message_is_not_in_it() {
        let said = message(&callback("Ev1", &format!(r#""type":"message",{HELLO}"#)));
        assert_eq!(said.alias, "slack:T1/C1");
        assert_eq!(said.text, "a < b &gt; c");
        let with = |thread: &str| {
            let event = format!(r#""type":"message",{HELLO},"thread_ts":"{thread}""#);
            message(&callback("Ev1", &event)).alias
        };
        assert_eq!(with("1762150000.000100"), "slack:T1/C1/1762150000.000100");
        assert_eq!(with("1762156919.000200"), "slack:T1/C1");
    }

    #[test]
    fn a_mention_and_its_message_are_one_message() {
        let plain = message(&callback("Ev1", &format!(r#""type":"message",{HELLO}"#)));
        let mention = message(&callback(
            "Ev2",
            &format!(r#""type":"app_mention",{HELLO}"#),
        ));
        assert_eq!(plain.dedupe_id, mention.dedupe_id);
        assert_eq!(plain.alias, mention.alias);
    }

    #[test]
    fn edits_bots_and_service_events_start_no_turn() {
        let cases = [
            (
                r#""type":"message","subtype":"message_changed","hidden":true"#,
                Ignored::Edit,
            ),
            (r#""type":"message","bot_id":"B1""#, Ignored::Bot),
            (r#""type":"message","subtype":"bot_message""#, Ignored::Bot),
            (
                r#""type":"message","subtype":"channel_join""#,
                Ignored::Service,
            ),
            (
                r#""type":"message","subtype":"message_deleted""#,
                Ignored::Service,
            ),
            (
                r#""type":"reaction_added","reaction":"eyes""#,
                Ignored::Service,
            ),
        ];
        for (event, why) in cases {
            let parsed = parse(callback("Ev1", event).as_bytes());
            assert_eq!(parsed, Ok(Parsed::Ignored(why)), "{event}");
        }
        let handshake = r#"{"token":"XXYYZZ","challenge":"abc","type":"url_verification"}"#;
        let parsed = parse(handshake.as_bytes());
        assert_eq!(parsed, Ok(Parsed::Ignored(Ignored::Service)));
    }

    #[test]
    fn a_channel_with_a_separator_in_it_is_refused() {
        let event = r#""type":"message","channel":"C1/1","user":"U1","ts":"1.2","text":"hi""#;
        assert!(parse(callback("Ev1", event).as_bytes()).is_err());
    }
}
