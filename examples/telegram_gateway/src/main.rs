//! A Telegram gateway that answers every message once.
//!
//! ```sh
//! cargo run -p sessionlog-telegram -- --demo            # Telegram and the model are local
//! TELOXIDE_TOKEN=... OPENAI_API_KEY=... cargo run -p sessionlog-telegram -- \
//!     --api-url http://127.0.0.1:8081 --model-url http://127.0.0.1:11434/v1 --model llama3.2
//! ```
//!
//! It is built without TLS, so that it builds fast: the second command is for a local Bot API
//! server and a local model. For <https://api.telegram.org> and <https://api.openai.com>, give
//! `teloxide` and `async-openai` their feature `rustls`.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::Parser;
use sessionlog::{Store, StoreHandle, StoreOptions, StoreStats};
use sessionlog_telegram::gateway::{Failure, Gateway, Limits};
use sessionlog_telegram::intake::StoreFirst;
use sessionlog_telegram::local::{BotApi, EchoModel};
use sessionlog_telegram::model::Model;
use teloxide::Bot;
use teloxide::dispatching::{Dispatcher, UpdateFilterExt};
use teloxide::error_handlers::LoggingErrorHandler;
use teloxide::types::{Message, Update};
use teloxide::update_listeners::Polling;
use tokio::signal::unix::{SignalKind, signal};

/// A Telegram gateway that answers every message once.
#[derive(Debug, Parser)]
#[command(about)]
struct Args {
    /// Where the sessions are kept.
    #[arg(long, default_value = "sessions")]
    dir: PathBuf,
    /// A server that speaks the Bot API.
    #[arg(long, default_value = "http://127.0.0.1:8081")]
    api_url: String,
    /// A server that speaks the API of chat completions.
    #[arg(long, default_value = "http://127.0.0.1:11434/v1")]
    model_url: String,
    /// The model's name.
    #[arg(long, default_value = "llama3.2")]
    model: String,
    /// Tokens of a conversation that the model is given.
    #[arg(long, default_value_t = 4_000)]
    window: usize,
    /// Messages that this may leave out before they are summarised.
    #[arg(long, default_value_t = 20)]
    omitted: usize,
    /// Leaves hidden messages in the files; `sessionlog compact` removes them.
    #[arg(long)]
    keep_hidden: bool,
    /// Seconds between two lines about the store.
    #[arg(long, default_value_t = 60)]
    stats: u64,
    /// Talks to a Telegram and a model of its own, with three people, and ends.
    #[arg(long)]
    demo: bool,
}

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let mut args = Args::parse();
    let demo = if args.demo {
        let telegram = BotApi::start(0, Some(3)).await?;
        let model = EchoModel::start(0, Duration::from_millis(5)).await?;
        (args.api_url, args.model_url) = (telegram.url(), model.url());
        Some(telegram)
    } else {
        None
    };
    let dir = args.dir.clone();
    let options = StoreOptions::new().auto_compact(!args.keep_hidden);
    let store = tokio::task::spawn_blocking(move || Store::open_with(dir, options)).await??;
    let ended = run(args, store.handle(), demo).await;
    // Waits for what was accepted, and brings the files up to date.
    tokio::task::spawn_blocking(move || store.close()).await??;
    ended
}

async fn run(args: Args, chats: StoreHandle, demo: Option<BotApi>) -> Result<(), Failure> {
    let token = std::env::var("TELOXIDE_TOKEN").unwrap_or_else(|_| String::from("1:local"));
    let api_key = std::env::var("OPENAI_API_KEY").unwrap_or_default();
    let bot = Bot::new(token).set_api_url(args.api_url.parse()?);
    let model = Model::new(&args.model_url, &api_key, &args.model);
    let limits = Limits {
        tokens: args.window,
        omitted: args.omitted,
    };
    let gateway = Gateway::new(bot.clone(), chats.clone(), model, limits);

    let handler = Update::filter_message().endpoint({
        let gateway = Arc::clone(&gateway);
        move |message: Message| {
            let gateway = Arc::clone(&gateway);
            async move {
                gateway.settle_or_say(message.chat.id).await;
                Ok::<_, Failure>(())
            }
        }
    });
    let mut dispatcher = Dispatcher::builder(bot.clone(), handler)
        .default_handler(|_| async {})
        .build();

    let shutdown = dispatcher.shutdown_token();
    let stopping = Arc::clone(&gateway);
    let (mut terminate, mut interrupt) = (
        signal(SignalKind::terminate())?,
        signal(SignalKind::interrupt())?,
    );
    tokio::spawn(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
            () = people(demo) => {}
        }
        stopping.stop();
        // Before the first poll there is nothing to stop, so it is asked again.
        while shutdown.shutdown().is_err() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    });
    tokio::spawn(watch(chats.clone(), Duration::from_secs(args.stats.max(1))));

    gateway.catch_up().await?;
    println!("ready");
    let polling = Polling::builder(bot).timeout(Duration::from_secs(10));
    let listener = StoreFirst::new(polling.delete_webhook().await.build(), Arc::clone(&gateway));
    let errors = LoggingErrorHandler::with_custom_text("updates");
    dispatcher
        .try_dispatch_with_listener(listener, errors)
        .await?;
    println!("{}", line(&chats.stats()));
    if gateway.is_broken() {
        return Err("the store takes no more messages; start again to recover it".into());
    }
    Ok(())
}

/// Three people who ask three things each, and wait for the answers; without a demo, nobody.
async fn people(demo: Option<BotApi>) {
    let Some(telegram) = demo else {
        return std::future::pending().await;
    };
    for question in ["hello", "what is the time?", "and tomorrow?"] {
        for chat in 1..=3 {
            telegram.say(chat, question);
        }
    }
    let sent = telegram.sent_until(|sent| sent.len() >= 9).await;
    for sent in sent {
        println!("to {}: {}", sent.chat, sent.text);
    }
}

/// Writes a line about the store now and then. `sessionlog top` shows more, from outside.
async fn watch(chats: StoreHandle, every: Duration) {
    let mut before = chats.stats();
    loop {
        tokio::time::sleep(every).await;
        let now = chats.stats();
        println!("{}", line(&now.since(&before)));
        before = now;
    }
}

fn line(stats: &StoreStats) -> String {
    let (sync, commit) = (&stats.sync_nanos, &stats.commit_nanos);
    format!(
        "messages {} refused {} commits {} p99 {} µs syncs {} p99 {} µs damaged lines {}",
        stats.messages,
        stats.failed_commands,
        stats.commits,
        commit.p99() / 1_000,
        stats.syncs,
        sync.p99() / 1_000,
        stats.corrupt_lines,
    )
}
