//! A gateway whose store can be watched: chats come and go, and Prometheus, or `curl`, reads
//! what the store does.
//!
//! ```sh
//! cargo run --release -p sessionlog-prometheus -- --metrics-listen 127.0.0.1:9184
//! curl -s http://127.0.0.1:9184/metrics | grep sessionlog_
//! ```
//!
//! `examples/grafana/sessionlog.json` is a dashboard of these numbers, to be imported into
//! Grafana with a Prometheus that scrapes this address.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "an example is a program, not the engine"
)]

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::Parser;
use metrics_exporter_prometheus::{BuildError, Matcher, PrometheusBuilder};
use sessionlog::{Message, Store, StoreHandle};

/// A gateway with chats that talk to a bot, watched by Prometheus.
#[derive(Debug, Parser)]
#[command(version, about)]
struct Args {
    /// Where the sessions are kept.
    #[arg(long, default_value = "sessions")]
    dir: PathBuf,
    /// Where the numbers are served, under any path.
    #[arg(long, default_value = "127.0.0.1:9184")]
    metrics_listen: SocketAddr,
    /// Chats that talk at the same time.
    #[arg(long, default_value_t = 64)]
    chats: u32,
    /// How long a chat waits between two messages, milliseconds.
    #[arg(long, default_value_t = 100)]
    pause: u64,
    /// Ends after so many messages of each chat; without, when it is interrupted.
    #[arg(long)]
    turns: Option<u64>,
}

type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

#[tokio::main]
async fn main() -> Result<()> {
    let args = Args::parse();
    // Before the store: it registers its numbers once, when it opens.
    serve_metrics(args.metrics_listen)?;
    println!("http://{}/metrics", args.metrics_listen);
    let store = tokio::task::spawn_blocking(move || Store::open(args.dir)).await??;

    let pause = Duration::from_millis(args.pause);
    let chats = (0..args.chats).map(|chat| talk(store.handle(), chat, args.turns, pause));
    let chats: Vec<_> = chats.map(tokio::spawn).collect();
    tokio::select! {
        ended = all(chats) => ended?,
        interrupted = tokio::signal::ctrl_c() => interrupted?,
    }
    tokio::task::spawn_blocking(move || store.close()).await??;
    Ok(())
}

/// Serves what the process counts. Latencies get buckets from 10 µs, a sync to a disk with a
/// cache that survives power loss, to 10 s, a disk that hangs.
fn serve_metrics(listen: SocketAddr) -> std::result::Result<(), BuildError> {
    let seconds: Vec<f64> = (-10..=2)
        .map(|half| 10_f64.powf(f64::from(half) / 2.0))
        .collect();
    let counts: Vec<f64> = (0..=12).map(|power| f64::from(1 << power)).collect();
    let bytes: Vec<f64> = (4..=12).map(|power| 4_f64.powi(power)).collect();
    PrometheusBuilder::new()
        .with_http_listener(listen)
        .set_buckets_for_metric(Matcher::Suffix("_seconds".into()), &seconds)?
        .set_buckets_for_metric(Matcher::Full("sessionlog_commit_records".into()), &counts)?
        .set_buckets_for_metric(Matcher::Full("sessionlog_queue_depth".into()), &counts)?
        .set_buckets_for_metric(Matcher::Full("sessionlog_commit_bytes".into()), &bytes)?
        .install()
}

async fn all(chats: Vec<tokio::task::JoinHandle<sessionlog::Result<()>>>) -> Result<()> {
    for chat in chats {
        chat.await??;
    }
    Ok(())
}

/// A chat that keeps its last 100 messages.
async fn talk(
    store: StoreHandle,
    chat: u32,
    turns: Option<u64>,
    pause: Duration,
) -> sessionlog::Result<()> {
    let key = format!("telegram:{chat}");
    for turn in 0..turns.unwrap_or(u64::MAX) {
        let asked = Message::user(format!("question {turn}"));
        let answered = Message::assistant(format!("answer {turn}"));
        store.append_all(&key, vec![asked, answered]).await?;
        if turn % 200 == 199 {
            store.truncate_history(&key, 100).await?;
        }
        tokio::time::sleep(pause).await;
    }
    Ok(())
}
