//! Telegram's `Update`, as the Bot API documents it.
#![expect(
    clippy::struct_field_names,
    reason = "the fields are named as the Bot API names them"
)]

use serde::Deserialize;
use serde::de::IgnoredAny;
use sessionlog::scope::InboundContext;

use super::{Ignored, Inbound, Malformed, Parsed, Platform, reason};

pub(super) fn parse(body: &[u8]) -> Result<Parsed, Malformed> {
    let update: Update = serde_json::from_slice(body).map_err(reason)?;
    if update.edited_message.is_some() || update.edited_channel_post.is_some() {
        return Ok(Parsed::Ignored(Ignored::Edit));
    }
    let Some(message) = update.message.or(update.channel_post) else {
        return Ok(Parsed::Ignored(Ignored::Service));
    };
    if message.is_from_bot() {
        return Ok(Parsed::Ignored(Ignored::Bot));
    }
    let Some(text) = message.content() else {
        return Ok(Parsed::Ignored(Ignored::Service));
    };
    Ok(Parsed::Message(Box::new(Inbound {
        platform: Platform::Telegram,
        context: message.context(),
        alias: message.alias(),
        dedupe_id: update.update_id.to_string(),
        sender: message.sender(),
        text,
        media: message.media(),
    })))
}

#[derive(Deserialize)]
struct Update {
    update_id: i64,
    message: Option<Message>,
    edited_message: Option<IgnoredAny>,
    channel_post: Option<Message>,
    edited_channel_post: Option<IgnoredAny>,
}

#[derive(Deserialize)]
struct Message {
    message_thread_id: Option<i64>,
    #[serde(default)]
    is_topic_message: bool,
    from: Option<User>,
    sender_chat: Option<Chat>,
    chat: Chat,
    text: Option<String>,
    caption: Option<String>,
    #[serde(default)]
    photo: Vec<File>,
    voice: Option<File>,
    document: Option<File>,
    sticker: Option<Sticker>,
    location: Option<Location>,
}

#[derive(Deserialize)]
struct User {
    id: i64,
    is_bot: bool,
    first_name: String,
    last_name: Option<String>,
}

#[derive(Deserialize)]
struct Chat {
    id: i64,
    #[serde(rename = "type", default)]
    kind: String,
    title: Option<String>,
}

#[derive(Deserialize)]
struct File {
    file_id: String,
    file_name: Option<String>,
    duration: Option<u32>,
}

#[derive(Deserialize)]
struct Sticker {
    emoji: Option<String>,
}

#[derive(Deserialize)]
struct Location {
    latitude: f64,
    longitude: f64,
}

impl Message {
    fn context(&self) -> InboundContext {
        let from = self.from.as_ref().map(|user| user.id);
        let sender = self.sender_chat.as_ref().map(|chat| chat.id).or(from);
        let text = |id: Option<i64>| id.map(|id| id.to_string()).unwrap_or_default();
        InboundContext {
            channel: Platform::Telegram.name().into(),
            chat_id: self.chat.id.to_string(),
            chat_type: match &*self.chat.kind {
                "private" => "direct".into(),
                "supergroup" => "group".into(),
                other => other.into(),
            },
            topic_id: text(self.topic()),
            sender_id: text(sender),
            ..InboundContext::default()
        }
    }

    fn alias(&self) -> String {
        match self.topic() {
            Some(topic) => format!("telegram:{}/{topic}", self.chat.id),
            None => format!("telegram:{}", self.chat.id),
        }
    }

    /// In supergroups without topics `message_thread_id` names a reply chain,
    /// which is no conversation of its own: only `is_topic_message` makes it a
    /// topic. A forum's General topic has no id and is the chat itself.
    fn topic(&self) -> Option<i64> {
        self.message_thread_id.filter(|_| self.is_topic_message)
    }

    /// Anonymous admins and channels write through a service bot; what tells
    /// them from a bot is `sender_chat`.
    fn is_from_bot(&self) -> bool {
        self.sender_chat.is_none() && self.from.as_ref().is_some_and(|user| user.is_bot)
    }

    fn sender(&self) -> String {
        if let Some(chat) = &self.sender_chat {
            return chat.title.clone().unwrap_or_else(|| chat.id.to_string());
        }
        match &self.from {
            Some(User {
                first_name,
                last_name: Some(last_name),
                ..
            }) => {
                format!("{first_name} {last_name}")
            }
            Some(user) => user.first_name.clone(),
            None => String::from("unknown"),
        }
    }

    /// What the message says, in words where it is no text; `None` for a
    /// service message.
    fn content(&self) -> Option<String> {
        if let Some(text) = self.text.as_ref().or(self.caption.as_ref()) {
            return Some(text.clone());
        }
        if let Some(voice) = &self.voice {
            return Some(format!(
                "[voice message, {} s]",
                voice.duration.unwrap_or(0)
            ));
        }
        if let Some(document) = &self.document {
            let name = document.file_name.as_deref().unwrap_or("unnamed");
            return Some(format!("[document: {name}]"));
        }
        if let Some(sticker) = &self.sticker {
            return Some(
                sticker
                    .emoji
                    .clone()
                    .unwrap_or_else(|| String::from("[sticker]")),
            );
        }
        if let Some(place) = &self.location {
            return Some(format!(
                "[location: {:.5}, {:.5}]",
                place.latitude, place.longitude
            ));
        }
        (!self.photo.is_empty()).then(|| String::from("[photo]"))
    }

    /// Telegram lists a photo in rising sizes; the last is the original.
    fn media(&self) -> Vec<String> {
        let files = self
            .photo
            .last()
            .into_iter()
            .chain(&self.voice)
            .chain(&self.document);
        files
            .map(|file| format!("telegram:file/{}", file.file_id))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::message;
    use super::super::{Ignored, Parsed, parse};

    fn update(kind: &str, fields: &str) -> String {
        format!(r#"{{"update_id":10,"{kind}":{{"message_id":3,"date":1762156919,{fields}}}}}"#)
    }

    const ANA: &str = r#""from":{"id":7,"is_bot":false,"first_name":"Ana","last_name":"Ferreira"}"#;
    const FORUM: &str = r#""chat":{"id":-1001,"title":"F","is_forum":true,"type":"supergroup"}"#;

    #[test]
    fn a_forum_topic_is_a_session_of_its_own() {
        let topic = r#""message_thread_id":42,"is_topic_message":true,"text":"hi""#;
        let inbound = message(&update("message", &format!("{ANA},{FORUM},{topic}")));
        assert_eq!(inbound.alias, "telegram:-1001/42");
        assert_eq!(inbound.dedupe_id, "10");
        assert_eq!(inbound.sender, "Ana Ferreira");
    }

    #[test]
    fn a_reply_chain_in_a_supergroup_is_no_topic() {
        let reply = r#""message_thread_id":42,"reply_to_message":{"message_id":42},"text":"hi""#;
        let inbound = message(&update("message", &format!("{ANA},{FORUM},{reply}")));
        assert_eq!(inbound.alias, "telegram:-1001");
    }

    #[test]
    fn a_photo_brings_its_caption_and_its_largest_size() {
        let photo = r#""photo":[{"file_id":"small"},{"file_id":"large"}],"caption":"look""#;
        let inbound = message(&update("message", &format!("{ANA},{FORUM},{photo}")));
        assert_eq!(inbound.text, "look");
        assert_eq!(inbound.media, ["telegram:file/large"]);
    }

    #[test]
    fn an_anonymous_admin_is_a_person_and_a_bot_is_not() {
        let bot = r#""from":{"id":1,"is_bot":true,"first_name":"Group"},"text":"hi""#;
        let admin = r#""sender_chat":{"id":-1001,"title":"F","type":"supergroup"}"#;
        let parsed = parse(update("message", &format!("{bot},{FORUM}")).as_bytes());
        assert_eq!(parsed, Ok(Parsed::Ignored(Ignored::Bot)));
        let inbound = message(&update("message", &format!("{bot},{admin},{FORUM}")));
        assert_eq!(inbound.sender, "F");
    }

    #[test]
    fn edits_and_service_messages_start_no_turn() {
        let text = format!("{ANA},{FORUM},\"text\":\"hi\"");
        let pin = format!("{ANA},{FORUM},\"pinned_message\":{{}}");
        let ignored = |line: String| match parse(line.as_bytes()) {
            Ok(Parsed::Ignored(why)) => Some(why),
            _ => None,
        };
        assert_eq!(
            ignored(update("edited_message", &text)),
            Some(Ignored::Edit)
        );
        assert_eq!(
            ignored(update("edited_channel_post", &text)),
            Some(Ignored::Edit)
        );
        assert_eq!(ignored(update("message", &pin)), Some(Ignored::Service));
        assert_eq!(
            ignored(update("callback_query", &text)),
            Some(Ignored::Service)
        );
    }

    #[test]
    fn surrogate_escapes_become_characters() {
        let text = format!(r#"{ANA},{FORUM},"text":"caf\u00e9 \ud83c\udf89""#);
        assert_eq!(message(&update("channel_post", &text)).text, "café 🎉");
    }
}
