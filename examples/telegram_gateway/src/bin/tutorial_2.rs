//! The second step of the guide's tutorial: the conversation is stored.

use sessionlog::{Message, Store, StoreHandle};
use teloxide::prelude::*;
use teloxide::types::UpdateKind;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

#[tokio::main]
async fn main() -> Result<()> {
    let bot = Bot::from_env(); // TELOXIDE_TOKEN, and TELOXIDE_API_URL for another server
    let store = Store::open("sessions")?;
    let chats = store.handle();
    let ended = tokio::select! {
        ended = serve(&bot, &chats) => ended,
        stopped = tokio::signal::ctrl_c() => Ok(stopped?),
    };
    store.close()?;
    ended
}

async fn serve(bot: &Bot, chats: &StoreHandle) -> Result<()> {
    let mut next = 0;
    loop {
        // Telegram forgets what is before `next`, so that moves on when a message is answered.
        for update in bot.get_updates().offset(next).timeout(10).await? {
            if let UpdateKind::Message(message) = &update.kind
                && let Some(text) = message.text()
            {
                take(bot, chats, message.chat.id, update.id.0, text).await?;
            }
            next = update.id.as_offset();
        }
    }
}

async fn take(bot: &Bot, chats: &StoreHandle, chat: ChatId, id: u32, text: &str) -> Result<()> {
    let chats = chats.session(&format!("telegram:{chat}"));
    // Stored once, however often it is delivered.
    chats
        .append_once(&id.to_string(), Message::user(text))
        .await?;
    // A duplicate may have no answer yet: the end of the conversation tells.
    let history = chats.history().await?;
    if history.last().is_some_and(|newest| newest.role() == "user") {
        let answer = think(&history);
        bot.send_message(chat, &answer).await?;
        chats.add_message("assistant", &answer).await?;
    }
    Ok(())
}

/// In the place of a model.
fn think(conversation: &[Message]) -> String {
    let newest = conversation
        .last()
        .map(|message| message.text().into_owned());
    format!(
        "{} ({} so far)",
        newest.unwrap_or_default(),
        conversation.len()
    )
}
