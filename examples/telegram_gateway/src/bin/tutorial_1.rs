//! The first step of the guide's tutorial: a bot that repeats.

use teloxide::prelude::*;
use teloxide::types::UpdateKind;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

#[tokio::main]
async fn main() -> Result<()> {
    let bot = Bot::from_env(); // TELOXIDE_TOKEN, and TELOXIDE_API_URL for another server
    let mut next = 0;
    loop {
        for update in bot.get_updates().offset(next).timeout(10).await? {
            if let UpdateKind::Message(message) = &update.kind
                && let Some(text) = message.text()
            {
                bot.send_message(message.chat.id, text).await?;
            }
            next = update.id.as_offset();
        }
    }
}
