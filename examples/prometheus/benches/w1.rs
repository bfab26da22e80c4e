//! What metrics cost: durable appends to a store whose numbers go to a Prometheus recorder,
//! beside one whose numbers go nowhere, in the same process.
//!
//! Producers append 300-byte messages to as many sessions as they are told, each waiting for its reply before
//! the next. A round runs both for every producer count, in directories of their own, and
//! the next one in the other order; only the ratio within a round is compared, because a
//! shared machine moves absolute figures by 2x. On one that is overloaded the best round of
//! each says more than the median does.
//!
//! `cargo bench -p sessionlog-prometheus -- --producers 1,64 --rounds 9 --seconds 1`
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "a bench is a program, not the engine"
)]

use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::Parser;
use metrics_exporter_prometheus::PrometheusBuilder;
use sessionlog::{Durability, Store, StoreHandle, StoreOptions};
use tokio::runtime::Runtime;

/// Measures what metrics cost.
#[derive(Parser)]
struct Settings {
    /// Producer counts.
    #[arg(long, value_delimiter = ',', default_values_t = [1, 64, 1024])]
    producers: Vec<usize>,
    /// Interleaved rounds.
    #[arg(long, default_value_t = 9)]
    rounds: usize,
    /// Length of a measured window.
    #[arg(long, default_value_t = 1.0)]
    seconds: f64,
    /// Sessions that the appends are spread over.
    #[arg(long, default_value_t = 1_000)]
    sessions: usize,
    /// Where the files go. Default: the system's temporary directory.
    #[arg(long)]
    dir: Option<PathBuf>,
    /// Replies come before the sync: the dearest case for what is done per commit.
    #[arg(long)]
    buffered: bool,
    /// What Cargo passes to every benchmark.
    #[arg(long, hide = true)]
    bench: bool,
}

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

fn main() -> Result<()> {
    let settings = Settings::parse();
    let runtime = tokio::runtime::Builder::new_multi_thread().build()?;
    println!("producers  round  off/s  on/s  on/off");
    for &producers in &settings.producers {
        let (mut ratios, mut best) = (Vec::new(), [0.0_f64; 2]);
        for round in 0..settings.rounds {
            let [mut off, mut on] = [0.0, 0.0];
            for turn in 0..2 {
                let watched = (round + turn) % 2 == 1;
                let rate = measure(&settings, &runtime, producers, watched)?;
                *(if watched { &mut on } else { &mut off }) = rate;
            }
            ratios.push(on / off);
            best = [best[0].max(off), best[1].max(on)];
            println!(
                "{producers:9}  {round:5}  {off:.0}  {on:.0}  {:.3}",
                on / off
            );
        }
        ratios.sort_by(f64::total_cmp);
        let median = ratios[ratios.len() / 2];
        let best = best[1] / best[0];
        println!("{producers:9}  median on/off {median:.3}, of the best rounds {best:.3}");
    }
    Ok(())
}

/// Appends per second.
fn measure(settings: &Settings, runtime: &Runtime, producers: usize, watched: bool) -> Result<f64> {
    let dir = match &settings.dir {
        Some(dir) => tempfile::tempdir_in(dir)?,
        None => tempfile::tempdir()?,
    };
    let options = StoreOptions::new().durability(if settings.buffered {
        Durability::Buffered
    } else {
        Durability::Durable
    });
    let recorder = PrometheusBuilder::new().build_recorder();
    let open = || Store::open_with(dir.path(), options);
    let store = if watched {
        metrics::with_local_recorder(&recorder, open)?
    } else {
        open()?
    };
    let chats = store.handle();
    let seconds = Duration::from_secs_f64(settings.seconds);
    let rate = runtime.block_on(async {
        for session in 0..settings.sessions {
            chats.add_message(&key(session), "user", "first").await?;
        }
        chats.flush().await?;
        let begun = Instant::now();
        let appenders =
            (0..producers).map(|n| append(chats.clone(), n, settings.sessions, begun + seconds));
        let appenders: Vec<_> = appenders.map(tokio::spawn).collect();
        let mut appended = 0_u32;
        for appender in appenders {
            appended += appender.await.map_err(|_| sessionlog::Error::Closed)??;
        }
        sessionlog::Result::Ok(f64::from(appended) / begun.elapsed().as_secs_f64())
    })?;
    store.close()?;
    Ok(rate)
}

async fn append(
    chats: StoreHandle,
    producer: usize,
    sessions: usize,
    until: Instant,
) -> sessionlog::Result<u32> {
    let text = "x".repeat(300);
    let mut appended = 0;
    while Instant::now() < until {
        let session = (producer * 7 + appended as usize * 31) % sessions;
        chats.add_message(&key(session), "user", &text).await?;
        appended += 1;
    }
    Ok(appended)
}

fn key(session: usize) -> String {
    format!("telegram:{session}")
}
