//! Whom a key means, among 100,000 sessions as a gateway allocates them: each
//! with an opaque key, its legacy aliases, and its agent's main alias, which all
//! of them claim.
//!
//! Every look-up runs beside what PicoClaw does: scan the directory's sidecars,
//! in the order of their names, up to the first that has the alias. Both sides
//! run warm, in turns, on the calling thread; figures are medians and hold the
//! cost of reading the clock.
//!
//! `cargo bench --bench resolve -- --sessions 100000`
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "a bench is a program, not the engine"
)]

mod support;

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Parser;
use serde::{Deserialize, Serialize};
use sessionlog::scope::{Allocation, InboundContext, SessionPolicy, allocate_route_session};
use sessionlog::{Durability, Store, StoreHandle};
use tokio::runtime::Runtime;

use support::Outcome;
use support::figure::{Figure, NO_BASELINE, compare};
use support::load::SplitMix64;
use support::machine::{Machine, raise_open_files};
use support::scratch::Scratch;

/// Measures key and alias resolution.
#[derive(Parser)]
#[expect(clippy::struct_excessive_bools, reason = "command-line switches")]
struct Settings {
    /// Sessions in the store.
    #[arg(long, default_value_t = 100_000)]
    sessions: usize,
    /// Time spent on one figure.
    #[arg(long, default_value_t = 2.0)]
    seconds: f64,
    /// Where the files go. Default: Cargo's temporary directory.
    #[arg(long)]
    dir: Option<PathBuf>,
    /// Prints JSON instead of a table.
    #[arg(long)]
    json: bool,
    /// Leaves the files behind.
    #[arg(long)]
    keep: bool,
    /// Few sessions: shows that it runs, measures nothing.
    #[arg(long)]
    quick: bool,
    /// What Cargo passes to every benchmark.
    #[arg(long, hide = true)]
    bench: bool,
}

fn main() -> Outcome<()> {
    let mut settings = Settings::parse();
    if settings.quick {
        (settings.sessions, settings.seconds) = (500, 0.05);
    }
    raise_open_files()?;
    let scratch = Scratch::new(settings.dir.as_deref(), "resolve", settings.keep)?;
    let machine = Machine::describe(scratch.root());
    let dir = scratch.fresh("sessions")?;
    let runtime = tokio::runtime::Builder::new_multi_thread().build()?;
    let allocations: Vec<_> = (0..settings.sessions).map(allocate).collect();
    let figures = resolve(&settings, &dir, &allocations, &runtime)?;
    let report = Report { machine, figures };
    if settings.json {
        println!("{}", serde_json::to_string_pretty(&report)?);
    } else {
        report.print();
    }
    Ok(())
}

/// Direct chats of as many people.
fn allocate(n: usize) -> Allocation {
    let context = InboundContext {
        channel: "telegram".into(),
        chat_id: n.to_string(),
        chat_type: "direct".into(),
        sender_id: n.to_string(),
        ..InboundContext::default()
    };
    let policy = SessionPolicy {
        dimensions: vec!["sender".into()],
        ..SessionPolicy::default()
    };
    allocate_route_session("main", &context, &policy)
}

fn resolve(
    settings: &Settings,
    dir: &Path,
    allocations: &[Allocation],
    runtime: &Runtime,
) -> Outcome<Vec<Figure>> {
    let budget = Duration::from_secs_f64(settings.seconds);
    let count = allocations.len();
    eprintln!("writing {count} sessions");
    let store = Store::open(dir)?;
    create(&store.handle(), allocations, runtime)?;
    store.close()?;

    let store = Store::open(dir)?;
    let chats = store.handle();
    // The last alias: the most specific one, which no other session has.
    let alias = |n: usize| {
        allocations[n]
            .session_aliases
            .last()
            .map_or("", String::as_str)
    };
    let means = |key: &str, expected: Option<&str>| {
        let found = chats.resolve_session_key(key).wait()?;
        check(found.as_deref(), expected)
    };
    let mut figures = Vec::new();
    let (mut random, mut scanned) = (SplitMix64::new(3), SplitMix64::new(3));
    // Copied out beforehand: a gateway has the key at hand that it asks about.
    let mut at_hand = Ahead::new(|| {
        let n = random.below(count);
        (alias(n).to_owned(), allocations[n].session_key.clone())
    });
    figures.push(compare(
        &format!("alias among {count}"),
        budget,
        || {
            let (alias, key) = at_hand.next();
            means(alias, Some(key))
        },
        Some(("scan the sidecars", || {
            let n = scanned.below(count);
            let found = scan(dir, alias(n))?;
            check(found.as_deref(), Some(&allocations[n].session_key))
        })),
    )?);
    let mut random = SplitMix64::new(5);
    let mut keys = Ahead::new(|| allocations[random.below(count)].session_key.clone());
    figures.push(compare(
        &format!("opaque key among {count}"),
        budget,
        || {
            let key = keys.next();
            means(key, Some(key))
        },
        NO_BASELINE,
    )?);
    let unknown = "agent:main:telegram:direct:nobody";
    figures.push(compare(
        &format!("unknown key among {count}"),
        budget,
        || means(unknown, None),
        Some(("scan the sidecars", || {
            check(scan(dir, unknown)?.as_deref(), None)
        })),
    )?);
    figures.push(compare(
        &format!("alias of {count} sessions"),
        budget,
        || match chats.resolve_session_key("agent:main:main").wait()? {
            Some(_) => Ok(()),
            None => Err("nobody has the main alias".into()),
        },
        NO_BASELINE,
    )?);
    store.close()?;
    Ok(figures)
}

/// Values made some ahead of their use, so that few of the calls timed pay for
/// making them.
struct Ahead<T, F> {
    make: F,
    ready: Vec<T>,
    used: usize,
}

impl<T, F: FnMut() -> T> Ahead<T, F> {
    const BLOCK: usize = 64;

    fn new(make: F) -> Self {
        Self {
            make,
            ready: Vec::new(),
            used: 0,
        }
    }

    fn next(&mut self) -> &T {
        if self.used == self.ready.len() {
            self.ready.clear();
            self.ready.extend((0..Self::BLOCK).map(|_| (self.make)()));
            self.used = 0;
        }
        self.used += 1;
        &self.ready[self.used - 1]
    }
}

/// Sessions as a gateway makes them, without a message.
fn create(chats: &StoreHandle, allocations: &[Allocation], runtime: &Runtime) -> Outcome<()> {
    const CREATORS: usize = 256;
    let chats = chats.with_durability(Durability::Buffered);
    let share = allocations.len().div_ceil(CREATORS).max(1);
    let creators: Vec<_> = allocations
        .chunks(share)
        .map(|share| {
            let (chats, share) = (chats.clone(), share.to_vec());
            runtime.spawn(async move {
                for new in share {
                    let scope = Some(new.scope.to_raw());
                    chats
                        .ensure_session_metadata(&new.session_key, scope, new.session_aliases)
                        .await?;
                }
                Ok::<(), sessionlog::Error>(())
            })
        })
        .collect();
    for creator in creators {
        runtime.block_on(creator)??;
    }
    Ok(())
}

#[derive(Deserialize)]
struct Sidecar {
    key: String,
    #[serde(default)]
    aliases: Vec<String>,
}

/// Reads the sidecars in file-name order up to the first that names the alias.
fn scan(dir: &Path, alias: &str) -> Outcome<Option<String>> {
    let mut names: Vec<_> = std::fs::read_dir(dir)?
        .filter_map(|entry| Some(entry.ok()?.file_name()))
        .filter(|name| name.to_string_lossy().ends_with(".meta.json"))
        .collect();
    names.sort_unstable();
    for name in names {
        let sidecar: Sidecar = serde_json::from_slice(&std::fs::read(dir.join(name))?)?;
        if sidecar.aliases.iter().any(|known| known == alias) {
            return Ok(Some(sidecar.key));
        }
    }
    Ok(None)
}

fn check(found: Option<&str>, expected: Option<&str>) -> Outcome<()> {
    if found == expected {
        Ok(())
    } else {
        Err(format!("expected {expected:?}, found {found:?}").into())
    }
}

#[derive(Serialize)]
struct Report {
    machine: Machine,
    figures: Vec<Figure>,
}

impl Report {
    fn print(&self) {
        println!("{}", self.machine);
        println!(
            "{:<36} {:>12} {:>8} {:>12}",
            "resolve", "ours", "runs", "beside"
        );
        for figure in &self.figures {
            figure.print();
        }
    }
}
