//! The third step of the guide's tutorial: a window, a summary, and erasing.

use sessionlog::{Budget, Erase, Keep, Message, Session, Store, StoreHandle, Update};
use teloxide::payloads::GetUpdatesSetters;
use teloxide::prelude::{Bot, ChatId, Requester};
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
    let key = format!("telegram:{chat}");
    if text == "/erase" {
        chats.erase(Erase::key(&key)).await?;
        bot.send_message(chat, "Everything is erased.").await?;
        return Ok(());
    }
    let chats = chats.session(&key);
    // Stored once, however often it is delivered.
    chats
        .append_once(&id.to_string(), Message::user(text))
        .await?;
    // The newest whole turns, as many as the model takes.
    let window = chats.window(Budget::unlimited().tokens(4_000)).await?;
    // A duplicate may have no answer yet: the end of the conversation tells.
    if window
        .messages
        .last()
        .is_some_and(|newest| newest.role() == "user")
    {
        let answer = think(&window.summary, &window.messages);
        bot.send_message(chat, &answer).await?;
        chats.add_message("assistant", &answer).await?;
    }
    summarise(&chats).await
}

/// Replaces what the window leaves out by a summary, if it is much, in one commit.
async fn summarise(chats: &Session) -> Result<()> {
    let window = chats.window(Budget::unlimited().tokens(4_000)).await?;
    if window.omitted > 20 && !window.is_partial {
        let older = chats
            .snapshot()
            .await?
            .before(window.start, usize::MAX)
            .await?;
        let summary = think(&window.summary, &older.messages);
        let update = Update::new()
            .summary(summary)
            .keep(Keep::From(window.start));
        chats.update(update).await?; // what came meanwhile stays
    }
    Ok(())
}

/// In the place of a model.
fn think(summary: &str, conversation: &[Message]) -> String {
    let newest = conversation
        .last()
        .map(|message| message.text().into_owned());
    let known = if summary.is_empty() { "new" } else { "known" };
    format!(
        "{} ({known}, {})",
        newest.unwrap_or_default(),
        conversation.len()
    )
}
