//! The assistant: deterministic stand-ins for a model and its tools.

use serde_json::{Value, json};
use sessionlog::{Message, Result};

use crate::inbound::Inbound;

/// The user's message as the model reads it: in a group it must know who
/// speaks, and the number of the turn makes it unlike every other message.
pub(crate) fn user_message(turn: u64, inbound: &Inbound) -> Result<Message> {
    let text = format!("[#{turn} {}] {}", inbound.sender, inbound.text);
    if inbound.media.is_empty() {
        return Ok(Message::user(text));
    }
    message(&json!({ "role": "user", "content": text, "media": inbound.media }))
}

/// The turn that a user's message opened, if [`user_message`] wrote it.
pub(crate) fn turn_of(message: &Message) -> Option<u64> {
    if message.role() != "user" {
        return None;
    }
    let text = message.text();
    text.strip_prefix("[#")?.split(' ').next()?.parse().ok()
}

/// A tool call, its result, and the answer: one batch, because a model's API
/// refuses a history in which a call lacks its result.
pub(crate) fn reply(turn: u64, inbound: &Inbound) -> Result<Vec<Message>> {
    let tool = Tool::for_message(inbound);
    let call_id = format!("call_{turn:06}_{}", tool.name());
    let call = json!({
        "role": "assistant",
        "content": format!("{} (#{turn})", tool.announcement()),
        "tool_calls": [{
            "id": call_id,
            "type": "function",
            "function": {
                "name": tool.name(),
                "arguments": tool.arguments(inbound).to_string(),
            },
        }],
    });
    let result = tool.result(turn, inbound).to_string();
    let answer = format!("{} (#{turn})", tool.answer(inbound));
    Ok(vec![
        message(&call)?,
        Message::tool(call_id, result),
        Message::assistant(answer),
    ])
}

/// What stays of the turns that are about to be truncated.
pub(crate) fn summary(turn: u64, messages: usize, last: &Inbound) -> String {
    format!(
        "Up to turn #{turn}: {messages} messages summarised. {} last asked: \"{}\"",
        last.sender,
        excerpt(&last.text, 120),
    )
}

fn message(fields: &Value) -> Result<Message> {
    Message::from_json(fields.to_string().as_bytes())
}

#[derive(Clone, Copy)]
enum Tool {
    ReadFile,
    FetchPage,
    Order,
    Reminder,
    Weather,
    Search,
}

impl Tool {
    fn for_message(inbound: &Inbound) -> Self {
        const REMINDER: [&str; 6] = [
            "remind",
            "rappelle",
            "erinner",
            "напомни",
            "תזכיר",
            "recuérdame",
        ];
        const WEATHER: [&str; 8] = [
            "weather",
            "wetter",
            "météo",
            "погод",
            "天气",
            "天気",
            "날씨",
            "frost",
        ];
        let text = inbound.text.to_lowercase();
        let mentions = |words: &[&str]| words.iter().any(|word| text.contains(word));
        if !inbound.media.is_empty() {
            Self::ReadFile
        } else if text.contains("https://") || text.contains("http://") {
            Self::FetchPage
        } else if order_number(&inbound.text).is_some() {
            Self::Order
        } else if mentions(&REMINDER) {
            Self::Reminder
        } else if mentions(&WEATHER) {
            Self::Weather
        } else {
            Self::Search
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::ReadFile => "read_file",
            Self::FetchPage => "fetch_page",
            Self::Order => "order_status",
            Self::Reminder => "set_reminder",
            Self::Weather => "weather",
            Self::Search => "search_notes",
        }
    }

    fn announcement(self) -> &'static str {
        match self {
            Self::ReadFile => "Let me open that.",
            Self::FetchPage => "I'll read the page.",
            Self::Order => "Looking up the order.",
            Self::Reminder => "I'll put that down.",
            Self::Weather => "Checking the forecast.",
            Self::Search => "Let me see what we have on that.",
        }
    }

    fn arguments(self, inbound: &Inbound) -> Value {
        match self {
            Self::ReadFile => json!({ "file": inbound.media.first() }),
            Self::FetchPage => {
                let url = inbound
                    .text
                    .split_whitespace()
                    .find(|word| word.contains("://"));
                json!({ "url": url })
            }
            Self::Order => json!({ "order": order_number(&inbound.text) }),
            Self::Reminder | Self::Weather => json!({ "request": excerpt(&inbound.text, 160) }),
            Self::Search => json!({ "query": excerpt(&inbound.text, 160), "limit": 5 }),
        }
    }

    fn result(self, turn: u64, inbound: &Inbound) -> Value {
        let size = inbound.text.chars().count();
        match self {
            Self::ReadFile => json!({ "turn": turn, "files": inbound.media.len(), "ok": true }),
            Self::FetchPage => {
                json!({ "turn": turn, "status": 200, "title": "Untitled", "words": 400 + size })
            }
            Self::Order => {
                json!({ "turn": turn, "state": "in transit", "days_left": 1 + size % 4 })
            }
            Self::Reminder => {
                json!({ "turn": turn, "reminder": format!("r-{turn}"), "stored": true })
            }
            Self::Weather => json!({
                "turn": turn, "celsius": size % 23, "rain_percent": size * 7 % 101, "wind": "light",
            }),
            Self::Search => {
                let hits: Vec<Value> = (1..=1 + size % 5)
                    .map(|rank| json!({ "rank": rank, "note": format!("n-{turn}-{rank}"), "score": 100 - 13 * rank }))
                    .collect();
                json!({ "turn": turn, "hits": hits })
            }
        }
    }

    fn answer(self, inbound: &Inbound) -> String {
        let name = inbound.sender.split(' ').next().unwrap_or_default();
        match self {
            Self::ReadFile => {
                format!("Got it, {name}: I can read it and have noted what it shows.")
            }
            Self::FetchPage => {
                format!("I read it, {name}. In short: nothing in there changes the plan.")
            }
            Self::Order => format!("It is on its way, {name}; I will tell you when it moves."),
            Self::Reminder => format!("Done, {name}, you will hear from me in time."),
            Self::Weather => format!("Mostly dry with a light wind, {name}. Take a jacket anyway."),
            Self::Search => format!("Here is what I found, {name}; say if you want the details."),
        }
    }
}

/// A word such as `A-20417` or `INV-88213`.
fn order_number(text: &str) -> Option<&str> {
    let words = text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '-'));
    words.into_iter().find(|word| {
        word.split_once('-').is_some_and(|(letters, digits)| {
            !letters.is_empty()
                && letters.chars().all(|c| c.is_ascii_uppercase())
                && digits.len() >= 3
                && digits.chars().all(|c| c.is_ascii_digit())
        })
    })
}

/// At most `limit` characters, on one line.
fn excerpt(text: &str, limit: usize) -> String {
    let flat: String = text.chars().take(limit).collect();
    flat.replace(['\n', '\r'], " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_number_is_found_among_words() {
        assert_eq!(order_number("where is INV-88213?"), Some("INV-88213"));
        assert_eq!(order_number("我的订单 A-20417 什么时候"), Some("A-20417"));
        assert_eq!(order_number("a well-known 12-345 USB-C dock"), None);
    }

    #[test]
    fn an_excerpt_cuts_between_characters() {
        assert_eq!(excerpt("é\n🎉x", 3), "é 🎉");
    }
}
