//! A gateway's main job over whichever store `--store` names, through the trait alone: it
//! finds the session of each inbound message, takes each message once, gives the model a
//! window, keeps the answer, and summarizes what got long.
//!
//! ```console
//! cargo run -p sessionlog-postgres --example gateway -- --store postgres://bot@db/chats
//! cargo run -p sessionlog-postgres --example gateway -- --store sessions
//! ```
//!
//! At the end it reads everything back, and compares it with what was acknowledged.

use std::collections::BTreeMap;
use std::error::Error;
use std::sync::Arc;

use clap::Parser;
use sessionlog::backend::{SessionStore, open_session_store};
use sessionlog::scope::{InboundContext, SessionPolicy, allocate_route_session};
use sessionlog::{Appended, Budget, Keep, Message, Result, Update};
use sessionlog_postgres::{PostgresOptions, PostgresStore};

#[derive(Parser)]
struct Args {
    /// A directory, or `postgres://…`.
    #[arg(long)]
    store: String,
    /// The schema in the database.
    #[arg(long, default_value = "sessionlog")]
    schema: String,
    /// How many chats talk at once.
    #[arg(long, default_value_t = 200)]
    chats: usize,
    /// How many messages each of them says.
    #[arg(long, default_value_t = 20)]
    messages: usize,
}

#[tokio::main]
async fn main() -> std::result::Result<(), Box<dyn Error>> {
    let args = Args::parse();
    let store: Arc<dyn SessionStore> = if args.store.contains("://") {
        let options = PostgresOptions::new(&args.store).schema(&args.schema);
        let store = PostgresStore::connect(options).await?;
        println!("{:?}", store.promise());
        Arc::new(store)
    } else {
        open_session_store(&args.store)?
    };
    let begun = tokio::time::Instant::now();
    let talking = (0..args.chats).map(|chat| {
        let store = store.clone();
        tokio::spawn(async move { talk(&*store, chat, args.messages).await })
    });
    let mut said = 0;
    let mut expected = BTreeMap::new();
    for chat in talking.collect::<Vec<_>>() {
        let (key, count) = chat.await??;
        said += count;
        expected.insert(key, count);
    }
    println!(
        "{said} messages of {} chats in {:?}",
        args.chats,
        begun.elapsed()
    );
    for (key, count) in expected {
        let there = store.count(&key).await? + summarized(&store.summary(&key).await?);
        assert_eq!(there, count, "{key}");
    }
    println!("all that was acknowledged is there, once");
    store.close().await?;
    Ok(())
}

/// One chat, from its first message to its last; how many messages its session got.
async fn talk(store: &dyn SessionStore, chat: usize, messages: usize) -> Result<(String, usize)> {
    let context = InboundContext {
        channel: "telegram".into(),
        chat_id: chat.to_string(),
        chat_type: "direct".into(),
        sender_id: chat.to_string(),
        ..InboundContext::default()
    };
    let policy = SessionPolicy {
        dimensions: vec!["chat".into()],
        ..SessionPolicy::default()
    };
    let session = allocate_route_session("main", &context, &policy).isolated();
    let (key, scope) = (session.session_key, session.scope);
    // What an earlier run left counts, too.
    let mut count = store.count(&key).await? + summarized(&store.summary(&key).await?);
    for n in 0..messages {
        let aliases = session.session_aliases.clone();
        store
            .ensure_session_metadata(&key, Some(&scope), aliases)
            .await?;
        // Platforms deliver again what they were not told of in time.
        for _ in 0..2 {
            let inbound = vec![Message::user(format!("message {n}"))];
            let told = store
                .append_once(&key, &format!("update {n}"), inbound)
                .await?;
            count += usize::from(matches!(told, Appended::New(_)));
        }
        let window = store.window(&key, Budget::unlimited().tokens(400)).await?;
        let answer = format!("answer to {} of {} messages", window.messages.len(), count);
        store
            .add_full_message(&key, Message::assistant(answer))
            .await?;
        count += 1;
        if window.omitted > 0 {
            let before = summarized(&window.summary);
            let summary = format!("{} messages before", before + window.omitted);
            let update = Update::new()
                .summary(summary)
                .keep(Keep::From(window.start));
            store.update(&key, update).await?;
        }
    }
    Ok((key, count))
}

/// How many messages a summary stands for.
fn summarized(summary: &str) -> usize {
    let many = summary.split(' ').next();
    many.and_then(|many| many.parse().ok()).unwrap_or(0)
}
