//! Discord's gateway dispatches, of which `MESSAGE_CREATE` starts a turn.

use serde::Deserialize;
use serde_json::value::RawValue;
use sessionlog::scope::InboundContext;

use super::{Ignored, Inbound, Malformed, Parsed, Platform, identifier, reason};

pub(super) fn parse(body: &[u8]) -> Result<Parsed, Malformed> {
    let payload: Payload<'_> = serde_json::from_slice(body).map_err(reason)?;
    match (payload.op, payload.t) {
        (DISPATCH, Some("MESSAGE_CREATE")) => {}
        (DISPATCH, Some("MESSAGE_UPDATE")) => return Ok(Parsed::Ignored(Ignored::Edit)),
        _ => return Ok(Parsed::Ignored(Ignored::Service)),
    }
    let data = payload.d.ok_or("missing field `d`")?;
    let message: Message = serde_json::from_str(data.get()).map_err(reason)?;
    if !matches!(message.kind, DEFAULT | REPLY) {
        return Ok(Parsed::Ignored(Ignored::Service));
    }
    if message.author.bot || message.webhook_id.is_some() {
        return Ok(Parsed::Ignored(Ignored::Bot));
    }
    let inbound = message.into_inbound()?;
    Ok(Parsed::Message(Box::new(inbound)))
}

/// The opcode of events; every other one is about the connection.
const DISPATCH: u8 = 0;
/// Message types that a person writes. The others say that somebody joined,
/// pinned, boosted, or opened a thread.
const DEFAULT: u8 = 0;
const REPLY: u8 = 19;

#[derive(Deserialize)]
struct Payload<'a> {
    op: u8,
    t: Option<&'a str>,
    #[serde(borrow)]
    d: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Message {
    #[serde(rename = "type")]
    kind: u8,
    id: String,
    channel_id: String,
    guild_id: Option<String>,
    webhook_id: Option<String>,
    author: Author,
    content: String,
    #[serde(default)]
    attachments: Vec<Attachment>,
}

#[derive(Deserialize)]
struct Author {
    #[serde(default)]
    id: String,
    username: String,
    global_name: Option<String>,
    #[serde(default)]
    bot: bool,
}

#[derive(Deserialize)]
struct Attachment {
    url: String,
    filename: String,
}

impl Message {
    /// A thread is a channel to Discord: `channel_id` tells it apart already.
    fn into_inbound(self) -> Result<Inbound, Malformed> {
        let place = self.guild_id.as_deref().unwrap_or("dm");
        let place = identifier("guild_id", place)?;
        let channel = identifier("channel_id", &self.channel_id)?;
        let text = match self.attachments.first() {
            Some(file) if self.content.is_empty() => format!("[attachment: {}]", file.filename),
            _ => self.content,
        };
        Ok(Inbound {
            platform: Platform::Discord,
            context: InboundContext {
                channel: Platform::Discord.name().into(),
                chat_id: channel.into(),
                chat_type: match self.guild_id {
                    Some(_) => "channel".into(),
                    None => "direct".into(),
                },
                space_id: self.guild_id.clone().unwrap_or_default(),
                space_type: "guild".into(),
                sender_id: self.author.id.clone(),
                ..InboundContext::default()
            },
            alias: format!("discord:{place}/{channel}"),
            // Resuming a connection replays events; the message's snowflake
            // stays, whatever sequence number it comes under.
            dedupe_id: identifier("id", &self.id)?.to_owned(),
            sender: self.author.global_name.unwrap_or(self.author.username),
            text,
            media: self.attachments.into_iter().map(|file| file.url).collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::message;
    use super::super::{Ignored, Parsed, parse};

    fn dispatch(t: &str, s: u32, fields: &str) -> String {
        format!(
            r#"{{"t":"{t}","s":{s},"op":0,"d":{{"id":"1434799989201182916","channel_id":"20",
                "content":"hi","mentions":[],"attachments":[],{fields}}}}}"#
        )
    }

    const ANA: &str = r#""author":{"id":"1","username":"ana","global_name":"Ana F."}"#;

    #[test]
    fn a_guild_channel_and_a_direct_message_are_different_chats() {
        let guild = format!(r#""type":0,"guild_id":"10",{ANA}"#);
        let direct = format!(r#""type":19,"message_reference":{{"message_id":"5"}},{ANA}"#);
        assert_eq!(
            message(&dispatch("MESSAGE_CREATE", 1, &guild)).alias,
            "discord:10/20"
        );
        let inbound = message(&dispatch("MESSAGE_CREATE", 2, &direct));
        assert_eq!(inbound.alias, "discord:dm/20");
        assert_eq!(inbound.sender, "Ana F.");
    }

    #[test]
    fn a_replayed_event_is_the_same_message_under_any_sequence_number() {
        let fields = format!(r#""type":0,{ANA}"#);
        let first = message(&dispatch("MESSAGE_CREATE", 7, &fields));
        let again = message(&dispatch("MESSAGE_CREATE", 9, &fields));
        assert_eq!(first, again);
    }

    #[test]
    fn an_attachment_without_words_is_named() {
        let body = format!(
            r#"{{"op":0,"t":"MESSAGE_CREATE","s":1,"d":{{"type":0,"id":"1","channel_id":"20",
                "content":"","attachments":[{{"filename":"a.png","url":"https://x/a.png"}}],{ANA}}}}}"#
        );
        let inbound = message(&body);
        assert_eq!(inbound.text, "[attachment: a.png]");
        assert_eq!(inbound.media, ["https://x/a.png"]);
    }

    #[test]
    fn edits_bots_and_service_events_start_no_turn() {
        let bot = r#""type":0,"author":{"id":"1","username":"ledger","bot":true}"#;
        let person = format!(r#""type":0,{ANA}"#);
        let join = format!(r#""type":7,{ANA}"#);
        let cases = [
            (dispatch("MESSAGE_UPDATE", 1, &person), Ignored::Edit),
            (dispatch("MESSAGE_CREATE", 1, bot), Ignored::Bot),
            (dispatch("MESSAGE_CREATE", 1, &join), Ignored::Service),
            (dispatch("TYPING_START", 1, &person), Ignored::Service),
            (
                String::from(r#"{"op":11,"d":null,"s":null,"t":null}"#),
                Ignored::Service,
            ),
        ];
        for (line, why) in cases {
            assert_eq!(parse(line.as_bytes()), Ok(Parsed::Ignored(why)), "{line}");
        }
    }
}
