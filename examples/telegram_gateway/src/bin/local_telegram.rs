//! A Telegram and a model on this computer, to try a bot with: each line that is typed is a
//! message to it.

use std::io::BufRead;
use std::time::Duration;

use sessionlog_telegram::gateway::Failure;
use sessionlog_telegram::local::{BotApi, EchoModel};

const CHAT: i64 = 1;

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let telegram = BotApi::start(8081, None).await?;
    let model = EchoModel::start(11434, Duration::from_millis(50)).await?;
    println!("Telegram: {}", telegram.url());
    println!("a model:  {}", model.url());
    println!("Type a message and press Enter.");
    let typing = telegram.clone();
    let typed = tokio::task::spawn_blocking(move || {
        let lines = std::io::stdin().lock().lines();
        lines
            .map_while(Result::ok)
            .for_each(|line| typing.say(CHAT, &line));
    });
    let answers = tokio::spawn(async move {
        let mut shown = 0;
        loop {
            let sent = telegram.sent_until(|sent| sent.len() > shown).await;
            for message in &sent[shown..] {
                println!("bot: {}", message.text);
            }
            shown = sent.len();
        }
    });
    typed.await?;
    answers.abort();
    Ok(())
}
